//! A whole fleet in one thread: seeded faults, replay, shrinking, law checkers,
//! model checking and benchmarks, on the very controllers that run in production.
//!
//! [`fleet::Fleet`] is the fleet; [`fleet::Clusters`] is how its users see it, and any other
//! fleet that speaks Kubernetes. [`stories`] says what must hold on any of them;
//! [`model`] is what a model checker walks through, [`normal`] makes transcripts comparable,
//! [`testing`] is what tests and benchmarks of a hub share.

pub mod campaign;
pub mod fleet;
pub mod model;
pub mod normal;
pub mod stories;
pub mod testing;
