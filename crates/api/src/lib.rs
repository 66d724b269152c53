//! KubeFleet's API as Rust types: specs, statuses, defaults, names, labels,
//! conditions, selectors, durations, hashes and the CRDs themselves. No I/O.

pub mod condition;
pub mod condition_type;
pub mod decode;
pub mod duration;
pub mod fuzz_harness;
pub mod go_json;
pub mod go_number;
pub mod hash;
pub mod int_or_string;
pub mod keys;
mod listed;
pub mod names;
pub mod property;
pub mod quantity;
pub mod reason;
pub mod selector;
