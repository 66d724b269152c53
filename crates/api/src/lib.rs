//! KubeFleet's API as Rust types: specs, statuses, defaults, names, labels,
//! conditions, selectors, durations, hashes and the CRDs themselves. No I/O.
//!
//! The types speak the storage version of each kind; older and newer served
//! versions decode into the same types. `kinds` is the table of everything,
//! `crd` turns it into CustomResourceDefinitions.

pub mod apply_strategy;
pub mod approval;
pub mod binding;
pub mod cluster;
pub mod cluster_profile;
pub mod crd;
pub mod envelope;
pub mod eviction;
pub mod kinds;
pub mod overrides;
pub mod placement;
mod placement_rules;
pub mod placement_status;
pub mod policy;
pub mod raw_json;
pub mod snapshot;
pub mod staged_update;
pub mod staged_update_status;
pub mod work;
