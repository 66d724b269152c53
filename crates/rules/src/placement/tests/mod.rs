//! The checklist of the placement specification, as tables and small stories.

mod external;
mod fleet;
mod histories;
mod hub;
mod lifecycle;
mod manifests;
mod mirror;
mod policy_snapshots;
mod resource_snapshots;
mod seeds;
mod selection;
mod status;
mod triggers;
mod types;
mod validation;
