//! Rollout policies and freezes on a hub with all its controllers, in both scopes.

mod api;
mod clusters;
mod freeze;
mod rollback;
