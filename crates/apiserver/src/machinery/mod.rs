//! Small pieces of Kubernetes' API machinery, each pure: bounds, errors, names, paths,
//! quantities, selectors, time.

pub mod bounds;
pub mod fields;
pub mod gvk;
pub mod jsonpath;
pub mod labels;
pub mod names;
pub mod path;
pub mod quantity;
pub mod query;
pub mod status;
pub mod time;
