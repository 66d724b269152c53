//! The server behind real sockets: who is let in, what is bounded, how it ends.
//!
//! These tests use the machine's clock and real ports, so nothing here may depend on how
//! long anything takes.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod accounts;
mod audited;
mod certificates;
mod client;
mod ending;
mod entering;
mod fairness;
mod limits;
mod policies;
mod rights;
mod webhooks;
