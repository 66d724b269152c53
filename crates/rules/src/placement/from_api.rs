//! From API objects to what the placement rules see, and back. Both scopes meet here.

use std::collections::BTreeMap;

use flagship_api::hash::byte_field;
use flagship_api::keys::{annotation, finalizer, group, label};
use flagship_api::kinds::{FleetKind, Scope};
use flagship_api::placement::{ClusterResourcePlacement, PlacementSpec, ResourcePlacement};
use flagship_api::placement_status::{PlacementStatus, ResourceIdentifier};
use flagship_api::raw_json::RawJson;
use flagship_api::snapshot::{ResourceSnapshotSpec, SchedulingPolicySnapshotSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::Deserialize;

use super::observed::Placement;
use super::policy_snapshots::NewPolicySnapshot;
use super::resource_snapshots::{NewResourceSnapshot, Part};
use super::selection::Selection;

impl Placement {
    /// What the rules read of a placement of either scope.
    pub fn read(metadata: &ObjectMeta, spec: &PlacementSpec, status: &PlacementStatus) -> Self {
        let namespace = metadata.namespace.clone().filter(|namespace| !namespace.is_empty());
        Self {
            namespace,
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            has_finalizer: metadata.finalizers.iter().flatten().any(|f| f == finalizer::PLACEMENT),
            spec: spec.clone(),
            status: status.clone(),
        }
    }

    /// The reference by which everything derived from the placement belongs to it.
    pub fn owner(&self) -> OwnerReference {
        let kind = match self.scope() {
            Scope::Cluster => ClusterResourcePlacement::INFO.kind,
            Scope::Namespaced => ResourcePlacement::INFO.kind,
        };
        OwnerReference {
            api_version: group::PLACEMENT_V1BETA1.to_owned(),
            kind: kind.to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// Metadata of something derived from the placement, in the placement's namespace.
    fn derived<const L: usize>(
        &self,
        name: &str,
        labels: [(&str, String); L],
        annotations: Vec<(&str, String)>,
    ) -> ObjectMeta {
        let owned = |(key, value): (&str, String)| (key.to_owned(), value);
        let mut labels: BTreeMap<_, _> = labels.into_iter().map(owned).collect();
        labels.insert(label::PARENT_PLACEMENT.to_owned(), self.name.clone());
        ObjectMeta {
            name: Some(name.to_owned()),
            namespace: self.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations.into_iter().map(owned).collect()),
            owner_references: Some(vec![self.owner()]),
            ..ObjectMeta::default()
        }
    }
}

impl NewPolicySnapshot {
    /// Metadata of the object to create.
    pub fn metadata(&self, of: &Placement) -> ObjectMeta {
        let labels = [
            (label::IS_LATEST_SNAPSHOT, "true".to_owned()),
            (label::POLICY_INDEX, self.index.clone()),
        ];
        let mut annotations =
            vec![(annotation::PLACEMENT_GENERATION, self.placement_generation.to_string())];
        if let Some(number) = self.number_of_clusters {
            annotations.push((annotation::NUMBER_OF_CLUSTERS, number.to_string()));
        }
        of.derived(&self.name, labels, annotations)
    }

    /// Spec of the object to create.
    pub fn spec(&self, of: &Placement) -> SchedulingPolicySnapshotSpec {
        SchedulingPolicySnapshotSpec {
            policy: of.spec.policy.clone(),
            policy_hash: byte_field(&self.hash),
        }
    }
}

impl NewResourceSnapshot {
    /// Metadata of the object to create.
    pub fn metadata(&self, of: &Placement) -> ObjectMeta {
        let index = (label::RESOURCE_INDEX, self.index.clone());
        match &self.part {
            Part::Master { hash, count, envelopes } => {
                let annotations = vec![
                    (annotation::RESOURCE_HASH, hash.clone()),
                    (annotation::NUMBER_OF_RESOURCE_SNAPSHOTS, count.to_string()),
                    (annotation::NUMBER_OF_ENVELOPED_OBJECTS, envelopes.to_string()),
                ];
                let latest = (label::IS_LATEST_SNAPSHOT, "true".to_owned());
                of.derived(&self.name, [index, latest], annotations)
            }
            Part::Sub { subindex } => {
                let place = (annotation::SUBINDEX_OF_RESOURCE_SNAPSHOT, subindex.clone());
                of.derived(&self.name, [index], vec![place])
            }
        }
    }

    /// Spec of the object to create, out of the selection the plan was made from.
    pub fn spec(&self, selection: &Selection) -> ResourceSnapshotSpec {
        let held = selection.resources.get(self.resources.clone()).unwrap_or_default();
        ResourceSnapshotSpec {
            selected_resources: held.iter().map(|selected| selected.manifest.clone()).collect(),
        }
    }
}

/// What a manifest is called; parts that cannot be read stay empty.
pub fn identifier(manifest: &RawJson) -> ResourceIdentifier {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Names {
        api_version: String,
        kind: String,
        metadata: Metadata,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Metadata {
        name: String,
        namespace: String,
    }
    let names: Names = manifest.parse().unwrap_or_default();
    let (group, version) = names.api_version.split_once('/').unwrap_or(("", &names.api_version));
    ResourceIdentifier {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: names.kind,
        name: names.metadata.name,
        namespace: names.metadata.namespace,
        envelope: None,
    }
}
