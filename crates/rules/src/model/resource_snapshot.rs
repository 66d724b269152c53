//! A resource snapshot of either scope, without the manifests.

use flagship_api::keys::{annotation, label, own};
use flagship_api::placement_status::ResourceIdentifier;
use flagship_api::snapshot::ResourceSnapshotSpec;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::{annotated, is_latest, labelled};
use crate::overrides::contents::enveloped;
use crate::placement::identifier;
use crate::policy::quarantine::Quarantine;

/// What selected resources were when they were frozen. Labels and annotations are kept as
/// written, so that rules can say which of them cannot be read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceSnapshot {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// Label `resource-index`.
    pub index: Option<String>,
    /// Whether label `is-latest-snapshot` is `true`.
    pub latest: bool,
    /// Annotation `resource-hash`; having one makes it the master of its group.
    pub hash: Option<String>,
    /// Annotation `number-of-resource-snapshots`.
    pub count: Option<String>,
    /// Annotation `subindex-of-resource-snapshot`.
    pub subindex: Option<String>,
    /// Annotation `next-resource-snapshot-candidate-detection-time`.
    pub detected: Option<String>,
    /// That its content must not be rolled out.
    #[serde(default)]
    pub quarantine: Option<Quarantine>,
    /// What is inside, in order.
    pub resources: Vec<ResourceIdentifier>,
    /// What envelopes among them carry.
    pub enveloped: Vec<ResourceIdentifier>,
}

impl ResourceSnapshot {
    /// Takes an object of either scope apart. Worth keeping: it looks into every manifest.
    pub fn read(metadata: &ObjectMeta, spec: &ResourceSnapshotSpec) -> Self {
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            created: metadata.creation_timestamp.clone().map_or_else(Default::default, |t| t.0),
            index: labelled(metadata, label::RESOURCE_INDEX),
            latest: is_latest(metadata),
            hash: annotated(metadata, annotation::RESOURCE_HASH),
            count: annotated(metadata, annotation::NUMBER_OF_RESOURCE_SNAPSHOTS),
            subindex: annotated(metadata, annotation::SUBINDEX_OF_RESOURCE_SNAPSHOT),
            detected: annotated(metadata, annotation::NEXT_SNAPSHOT_DETECTION_TIME),
            quarantine: annotated(metadata, own::QUARANTINED).map(|text| {
                Quarantine::read(&text, annotated(metadata, annotation::RESOURCE_HASH).as_deref())
            }),
            resources: spec.selected_resources.iter().map(identifier).collect(),
            enveloped: spec.selected_resources.iter().flat_map(enveloped).collect(),
        }
    }
}
