//! A whole fleet in one thread: seeded faults, replay, shrinking, law checkers,
//! model checking and benchmarks, on the very controllers that run in production.
//!
//! [`model`] is what a model checker walks through; the rest is still in `tests/`.

pub mod model;
