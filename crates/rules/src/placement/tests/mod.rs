//! The checklist of the placement specification, as tables and small stories.

mod hub;
mod manifests;
mod policy_snapshots;
mod resource_snapshots;
mod selection;
mod types;
