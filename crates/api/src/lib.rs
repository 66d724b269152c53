//! KubeFleet's API, and the few kinds of our own beside it, as Rust types: specs, statuses, defaults, names, labels,
//! conditions, selectors, durations, hashes and the CRDs themselves. No I/O.
//!
//! The types speak the storage version of each kind; older and newer served
//! versions decode into the same types. `kinds` is the table of everything,
//! `crd` turns it into CustomResourceDefinitions.

pub mod apply_strategy;
pub mod approval;
pub mod approval_decision;
pub mod binding;
pub mod cluster;
pub mod cluster_profile;
pub mod condition;
pub mod condition_type;
pub mod crd;
pub mod decode;
pub mod defaults;
pub mod envelope;
pub mod error_class;
mod every_kind;
pub mod eviction;
pub mod fence;
pub mod freeze;
#[cfg(feature = "fuzzing")]
pub mod fuzz_harness;
pub mod go_json;
pub mod hash;
pub mod int_or_string;
pub mod keys;
pub mod kinds;
mod listed;
pub mod names;
pub mod notification_channel;
mod null;
pub mod overrides;
pub mod placement;
mod placement_rules;
pub mod placement_status;
pub mod policy;
pub mod printed;
pub mod property;
pub mod quantity;
pub mod raw_json;
pub mod reason;
pub mod rollout_policy;
pub mod rollout_record;
pub mod selector;
pub mod snapshot;
pub mod staged_update;
pub mod staged_update_status;
pub mod work;
