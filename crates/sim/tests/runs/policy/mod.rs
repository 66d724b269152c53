//! Rollout policies, freezes and records on a hub with all its controllers, in both scopes.

mod api;
mod approvals;
mod clusters;
mod freeze;
mod notifications;
pub mod records;
mod rollback;
mod windows;
