//! Rollout policies, freezes and records on a hub with all its controllers, in both scopes.

mod api;
mod approvals;
mod checks;
mod clusters;
mod freeze;
mod jobs;
mod notifications;
mod private_authority;
mod real_prometheus;
pub mod records;
mod rollback;
mod ways_past;
mod windows;
