//! A whole fleet in one thread: seeded faults, replay, shrinking, law checkers,
//! model checking and benchmarks, on the very controllers that run in production.
//!
//! [`fleet::Fleet`] is the fleet; [`fleet::World`] is how its users see it, and any other
//! fleet that speaks Kubernetes. [`model`] is what a model checker walks through.

pub mod fleet;
pub mod model;
