//! The pure core: one module per rule set. Most are `plan(&Observed) -> Plan`; `apply` is a
//! sequence of steps, and a few are single questions.
//!
//! Nothing here is async, reads a clock, logs, or draws a random number. A rule
//! returns what to do with its reasons, also where its input is wrong. The same functions run
//! in unit tests, the model checker, the simulator and production.

pub mod admission;
pub mod apply;
pub mod availability;
pub mod diagnosis;
pub mod egress;
pub mod event;
pub mod eviction;
pub mod heartbeat;
pub mod inventory;
pub mod membership;
pub mod model;
pub mod notification;
pub mod overrides;
pub mod placement;
pub mod policy;
pub mod properties;
pub mod record;
pub mod rollout;
pub mod scheduling;
pub mod update_run;
pub mod work;
