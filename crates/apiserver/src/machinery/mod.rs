//! Small pieces of Kubernetes' API machinery, each pure: errors, names, paths,
//! selectors, time.

pub mod fields;
pub mod gvk;
pub mod labels;
pub mod names;
pub mod path;
pub mod query;
pub mod status;
pub mod time;
