//! From API objects to what the work generator sees, and back. Both scopes meet here.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::apply_strategy::DeletePropagationPolicy;
use flagship_api::condition::{ConditionStatus, Conditions};
use flagship_api::condition_type::work::{APPLIED, AVAILABLE};
use flagship_api::hash;
use flagship_api::keys::{annotation, label, own};
use flagship_api::placement::PlacementSpec;
use flagship_api::placement_status::{
    EnvelopeIdentifier, EnvelopeType, NamespacedName, ResourceIdentifier,
};
use flagship_api::snapshot::ResourceSnapshotSpec;
use flagship_api::work::{ManifestCondition, Work as Object, WorkResourceIdentifier, WorkStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::placement::identifier as identifier_of;
use crate::policy::checks::jobs::JobReport;

use super::observed::{Manifest, Placement, SnapshotContent, Stamp, Work};

/// Value of [`own::DELETE_POLICY`] on Works whose content outlives their placement.
pub const ABANDON: &str = "Abandon";

impl Placement {
    /// What the rules read of a placement of either scope.
    pub fn read(deleting: bool, spec: &PlacementSpec) -> Self {
        let strategy = spec.strategy.as_ref();
        let going = strategy.and_then(|strategy| strategy.delete_strategy.as_ref());
        let policy = going.and_then(|going| going.propagation_policy).unwrap_or_default();
        Self {
            deleting,
            report_back: strategy.and_then(|strategy| strategy.report_back_strategy.clone()),
            abandons: policy == DeletePropagationPolicy::Abandon,
        }
    }
}

impl Work {
    /// What the rules read of a Work.
    pub fn read(object: &Object) -> Self {
        let meta = &object.metadata;
        let status = object.status.as_ref();
        let envelope = envelope(meta);
        let told = status.into_iter().flat_map(|status| &status.manifest_conditions);
        let manifests = told.filter_map(|one| Manifest::read(one, envelope.as_ref())).collect();
        Self {
            name: meta.name.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            binding: owner(meta),
            placement: labelled(meta, label::PARENT_PLACEMENT),
            envelope,
            stamp: Arc::new(Stamp::read(meta)),
            to_abandon: annotated(meta, own::DELETE_POLICY).as_deref() == Some(ABANDON),
            abandoned: annotated(meta, own::ABANDONED).is_some(),
            apply_strategy: object.spec.apply_strategy.clone(),
            report_back: object.spec.report_back_strategy.clone(),
            conditions: status.map(|status| status.conditions.clone()).unwrap_or_default(),
            escapes: escapes(object),
            manifests,
            reported: status.and_then(reported),
            check: JobReport::read(object).map(Box::new),
        }
    }
}

/// Whether a Work of a placement in a namespace carries anything that stands elsewhere.
fn escapes(object: &Object) -> bool {
    let home = labelled(&object.metadata, label::PARENT_PLACEMENT_NAMESPACE);
    let manifests = &object.spec.workload.manifests;
    home.is_some_and(|home| manifests.iter().any(|one| identifier_of(one).namespace != home))
}

/// The binding a Work belongs to: named by label, in the namespace of another label.
pub fn owner(meta: &ObjectMeta) -> Option<NamespacedName> {
    let name = labelled(meta, label::PARENT_BINDING)?;
    let namespace = labelled(meta, label::PARENT_PLACEMENT_NAMESPACE).unwrap_or_default();
    Some(NamespacedName { name, namespace })
}

impl Stamp {
    /// Reads it off a Work.
    fn read(meta: &ObjectMeta) -> Self {
        Self {
            index: labelled(meta, label::PARENT_RESOURCE_SNAPSHOT_INDEX),
            snapshot: annotated(meta, annotation::PARENT_RESOURCE_SNAPSHOT_NAME),
            overrides: annotated(meta, annotation::PARENT_RESOURCE_OVERRIDE_HASH),
            cluster_overrides: annotated(meta, annotation::PARENT_CLUSTER_RESOURCE_OVERRIDE_HASH),
            inputs: annotated(meta, own::RENDERED_INPUTS_HASH),
            manifests: annotated(meta, own::MANIFESTS_HASH),
        }
    }

    /// The labels it is read from.
    pub fn labels(&self) -> BTreeMap<String, String> {
        some([(label::PARENT_RESOURCE_SNAPSHOT_INDEX, &self.index)])
    }

    /// The annotations it is read from.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        some([
            (annotation::PARENT_RESOURCE_SNAPSHOT_NAME, &self.snapshot),
            (annotation::PARENT_RESOURCE_OVERRIDE_HASH, &self.overrides),
            (annotation::PARENT_CLUSTER_RESOURCE_OVERRIDE_HASH, &self.cluster_overrides),
            (own::RENDERED_INPUTS_HASH, &self.inputs),
            (own::MANIFESTS_HASH, &self.manifests),
        ])
    }
}

impl Manifest {
    /// `None` for a manifest with nothing to tell.
    fn read(from: &ManifestCondition, envelope: Option<&EnvelopeIdentifier>) -> Option<Self> {
        let is_false = |kind| {
            let found = from.conditions.of_type(kind);
            found
                .filter(|condition| ConditionStatus::of(condition) == ConditionStatus::False)
                .cloned()
        };
        let failure = is_false(APPLIED).or_else(|| is_false(AVAILABLE));
        let (drift, diff) = (from.drift_details.clone(), from.diff_details.clone());
        let resource = identifier(&from.identifier, envelope.cloned());
        let tells = failure.is_some() || drift.is_some() || diff.is_some();
        tells.then_some(Self { resource, failure, drift, diff })
    }
}

impl SnapshotContent {
    /// What a pass that renders reads of a resource snapshot of either scope.
    pub fn read(meta: &ObjectMeta, spec: ResourceSnapshotSpec) -> Self {
        let placement = labelled(meta, label::PARENT_PLACEMENT);
        Self { placement, resources: spec.selected_resources }
    }
}

fn identifier(
    from: &WorkResourceIdentifier,
    envelope: Option<EnvelopeIdentifier>,
) -> ResourceIdentifier {
    ResourceIdentifier {
        group: from.group.clone(),
        version: from.version.clone(),
        kind: from.kind.clone(),
        name: from.name.clone(),
        namespace: from.namespace.clone(),
        envelope,
    }
}

/// The envelope of a Work. Its kind is kept as the API knows it, so that Works of older
/// hubs tell what they always told.
fn envelope(meta: &ObjectMeta) -> Option<EnvelopeIdentifier> {
    let kind = match labelled(meta, label::ENVELOPE_TYPE)?.as_str() {
        "ClusterResourceEnvelope" => EnvelopeType::ClusterResourceEnvelope,
        "ResourceEnvelope" => EnvelopeType::ResourceEnvelope,
        "ConfigMap" => EnvelopeType::ConfigMap,
        _ => return None,
    };
    Some(EnvelopeIdentifier {
        name: labelled(meta, label::ENVELOPE_NAME).unwrap_or_default(),
        namespace: labelled(meta, label::ENVELOPE_NAMESPACE).unwrap_or_default(),
        r#type: Some(kind),
    })
}

/// A hash is enough to see that something else came back.
fn reported(status: &WorkStatus) -> Option<String> {
    let told = status.manifest_conditions.iter().filter_map(|one| {
        let status = one.back_reported_status.as_ref()?.observed_status.as_ref()?;
        Some((one.identifier.ordinal, status.text()))
    });
    let told: Vec<_> = told.collect();
    (!told.is_empty()).then(|| hash::of(&told).unwrap_or_default())
}

fn labelled(meta: &ObjectMeta, key: &str) -> Option<String> {
    meta.labels.as_ref()?.get(key).filter(|value| !value.is_empty()).cloned()
}

fn annotated(meta: &ObjectMeta, key: &str) -> Option<String> {
    meta.annotations.as_ref()?.get(key).cloned()
}

fn some<const N: usize>(pairs: [(&str, &Option<String>); N]) -> BTreeMap<String, String> {
    let set = pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)));
    set.collect()
}
