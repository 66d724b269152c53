//! Turns a placement into snapshots, and what became of them into its status.
//!
//! One pass: select, freeze the policy, freeze the resources, report. Nothing is frozen
//! unless selection succeeded, and the policy always comes first.

mod from_api;
mod observed;
pub mod policy_snapshots;
pub mod resource_snapshots;
pub mod selection;
mod trouble;

#[cfg(test)]
mod tests;

pub use from_api::identifier;
pub use observed::{
    Batching, Binding, ByCluster, Observed, Placement, PolicySnapshot, ResourceSnapshot,
};
pub use trouble::Trouble;
