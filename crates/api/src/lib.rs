//! KubeFleet's API as Rust types: specs, statuses, defaults, names, labels,
//! conditions, selectors, durations, hashes and the CRDs themselves. No I/O.
