//! What rules read of the hub's objects: one value for each kind, whatever its scope.
//!
//! An object is decoded once, into its mirror; every `Observed` shares that value. Kinds that
//! only one rule set reads are decoded in that rule set's `from_api`.

mod binding;
mod cluster;
mod packed_map;
mod policy_snapshot;
mod resource_snapshot;
pub mod status_window;

use flagship_api::keys::label;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use binding::{Binding, Fence};
pub use cluster::{Agent, Cluster, Health, Taint};
pub use packed_map::PackedMap;
pub use policy_snapshot::PolicySnapshot;
pub use resource_snapshot::ResourceSnapshot;

fn labelled(metadata: &ObjectMeta, key: &str) -> Option<String> {
    metadata.labels.as_ref()?.get(key).cloned()
}

fn annotated(metadata: &ObjectMeta, key: &str) -> Option<String> {
    metadata.annotations.as_ref()?.get(key).cloned()
}

fn is_latest(metadata: &ObjectMeta) -> bool {
    let labels = metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(label::IS_LATEST_SNAPSHOT)).is_some_and(|is| is == "true")
}
