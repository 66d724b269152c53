//! What every controller stands on: the controller loop itself, clock, seeded randomness,
//! client, reflectors, work queue, leases, readiness, events and the effect shell.
//!
//! Retries and back-off are here and nowhere else; time and entropy come from
//! `flagship_base::env`. Under a paused current-thread runtime and one seed, everything here happens in the same order
//! every time. Knows nothing of placements: rules are in `flagship-rules`, what
//! they are applied to in `flagship-hub` and `flagship-member`.

pub mod client;
pub mod controller;
pub mod dynamic;
pub mod effects;
pub mod error_action;
pub mod events;
#[cfg(test)]
mod fake;
pub mod lease;
pub mod network;
pub mod queue;
pub mod readiness;
pub mod reflector;
mod watched;
pub mod whoami;

pub use flagship_base::env;
pub use flagship_metrics as metrics;
