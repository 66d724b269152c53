//! Every interleaving of small worlds, on the planner that runs in production.
//!
//! Safety is checked in each state that can be reached; liveness as "from each of them an
//! end can be reached without further faults". `faults` shows that the checker finds what
//! it looks for: with KubeFleet's order of writes it does. Decision 7 has the figures.

#![allow(clippy::unwrap_used)] // a walk that cannot be made has failed
#![allow(clippy::print_stdout, reason = "a walk says how far it went")]

mod approvals;
mod checker;
mod faults;
mod policies;
mod worlds;
