//! What every controller stands on: clock, seeded randomness, client, reflectors,
//! work queue, leases, events and the effect shell.
//!
//! The only crate that reads a clock and the only one that retries. Empty until
//! the placement controllers arrive.
