//! Small pieces of Kubernetes' API machinery, each pure: errors, names, paths,
//! selectors, quantities, time.

pub mod status;
