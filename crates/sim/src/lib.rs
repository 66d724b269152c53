//! A whole fleet in one thread: seeded faults, replay, shrinking, law checkers,
//! model checking and benchmarks, on the very controllers that run in production.
//!
//! Empty until there are controllers to simulate.
