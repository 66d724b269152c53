//! Small pieces of Kubernetes' API machinery, each pure: users and what they ask for, bounds,
//! errors, paths, field selectors, time.

pub mod attributes;
pub mod bounds;
pub mod fields;
pub mod gvk;
pub mod jsonpath;
pub mod path;
pub mod query;
pub mod status;
pub mod time;
pub mod user;
