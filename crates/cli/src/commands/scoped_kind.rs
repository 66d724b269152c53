//! The two scopes of a kind as one: the namespace of an object decides which is meant.

use flagship_api::kinds;
use flagship_runtime::client::{Client, Objects, ResourceType};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// Kinds that exist in both scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScopedKind {
    /// Update runs.
    Run,
    /// Update strategies.
    Strategy,
    /// Approval requests.
    Approval,
    /// Placements.
    Placement,
    /// Bindings.
    Binding,
    /// What the scheduler decided.
    PolicySnapshot,
    /// Versions of what is placed.
    ResourceSnapshot,
    /// What happened in runs.
    Record,
}

impl ScopedKind {
    fn kind(self, namespaced: bool) -> &'static str {
        match (self, namespaced) {
            (Self::Run, false) => "ClusterStagedUpdateRun",
            (Self::Run, true) => "StagedUpdateRun",
            (Self::Strategy, false) => "ClusterStagedUpdateStrategy",
            (Self::Strategy, true) => "StagedUpdateStrategy",
            (Self::Approval, false) => "ClusterApprovalRequest",
            (Self::Approval, true) => "ApprovalRequest",
            (Self::Placement, false) => "ClusterResourcePlacement",
            (Self::Placement, true) => "ResourcePlacement",
            (Self::Binding, false) => "ClusterResourceBinding",
            (Self::Binding, true) => "ResourceBinding",
            (Self::PolicySnapshot, false) => "ClusterSchedulingPolicySnapshot",
            (Self::PolicySnapshot, true) => "SchedulingPolicySnapshot",
            (Self::ResourceSnapshot, false) => "ClusterResourceSnapshot",
            (Self::ResourceSnapshot, true) => "ResourceSnapshot",
            (Self::Record, false) => "ClusterRolloutRecord",
            (Self::Record, true) => "RolloutRecord",
        }
    }

    /// The resource, in the scope that the namespace says.
    pub fn resource(self, namespace: Option<&str>) -> ResourceType {
        resource(self.kind(namespace.is_some()))
    }

    /// Objects of this kind, in the scope that the namespace says.
    pub fn of<S, T>(self, client: &Client, namespace: Option<&str>) -> Objects<Stored<S, T>> {
        client.of_type(self.resource(namespace))
    }
}

/// A kind of ours as a resource, in its v1beta1, or the version that there is.
pub fn resource(kind: &str) -> ResourceType {
    let info = kinds::find(kind).expect("asked only for kinds of the table");
    let version = info.versions.first().map(|version| version.name);
    let version = version.filter(|_| info.group == flagship_api::keys::group::POLICY);
    ResourceType {
        group: info.group.to_owned(),
        version: version.unwrap_or("v1beta1").to_owned(),
        plural: info.plural.to_owned(),
        kind: info.kind.to_owned(),
    }
}

/// An object of either scope.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    bound = "S: Serialize + for<'a> Deserialize<'a>, T: Serialize + for<'a> Deserialize<'a> + Default"
)]
pub struct Stored<S, T> {
    /// `apiVersion`.
    #[serde(default)]
    pub api_version: String,
    /// `kind`.
    #[serde(default)]
    pub kind: String,
    /// Name, labels, generation.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: S,
    /// What is.
    #[serde(default)]
    pub status: T,
}

impl<S, T> Stored<S, T> {
    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// A label, empty if absent.
    pub fn label(&self, key: &str) -> &str {
        let labels = self.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(key)).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_twin_is_in_the_table_in_both_scopes() {
        use ScopedKind::{Approval, Binding, Placement, Run, Strategy};
        use ScopedKind::{PolicySnapshot, Record, ResourceSnapshot};
        let bound = [Placement, Binding, PolicySnapshot, ResourceSnapshot, Record];
        for scoped in [Run, Strategy, Approval].into_iter().chain(bound) {
            for namespaced in [false, true] {
                let kind = scoped.kind(namespaced);
                assert_eq!(resource(kind).kind, kind);
            }
        }
    }
}
