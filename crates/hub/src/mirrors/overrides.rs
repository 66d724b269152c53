//! What is kept of overrides and their snapshots, in either scope.

use std::sync::Arc;

use flagship_api::condition::Generation;
use flagship_api::keys::label;
use flagship_api::names::ObjectKey;
use flagship_api::overrides::{ClusterResourceOverrideSpec, ResourceOverrideSpec};
use flagship_api::placement_status::NamespacedName;
use flagship_rules::overrides::snapshots::Snapshot;
use flagship_rules::overrides::{ClusterOverride, NamespacedOverride};
use flagship_runtime::client::Precondition;
use flagship_runtime::reflector::{IndexId, Store};
use kube_core::Resource;

use super::Set;
use super::placements::values;
use crate::patches::finalizers_of;
use crate::scope::{ClusterWide, InNamespace, Overriding};

/// What is kept of all overrides.
pub(crate) struct OverrideMirrors {
    pub cluster_wide: OverrideStores<ClusterResourceOverrideSpec>,
    pub in_namespaces: OverrideStores<ResourceOverrideSpec>,
}

/// What is kept of the overrides of one scope.
#[derive(Clone)]
pub(crate) struct OverrideStores<Spec> {
    pub overrides: Store<Override<Spec>>,
    pub snapshots: Store<OverrideSnapshot<Spec>>,
    of: IndexId,
    latest: IndexId,
}

/// What is kept of an override.
#[derive(Debug, PartialEq)]
pub(crate) struct Override<Spec> {
    pub precondition: Precondition,
    pub finalizers: Vec<String>,
    pub generation: Generation,
    pub deleting: bool,
    pub spec: Spec,
}

/// What is kept of a snapshot of an override.
#[derive(Debug, PartialEq)]
pub(crate) struct OverrideSnapshot<Spec> {
    pub precondition: Precondition,
    /// The override it was taken of.
    pub of: ObjectKey,
    /// As the override's controller sees it.
    pub value: Snapshot,
    /// The override as it was.
    pub spec: Spec,
}

impl OverrideMirrors {
    pub(super) fn new(set: &mut Set<'_>) -> Self {
        Self {
            cluster_wide: OverrideStores::new::<ClusterWide>(set),
            in_namespaces: OverrideStores::new::<InNamespace>(set),
        }
    }

    /// The latest snapshots of cluster-scoped overrides.
    pub fn latest_wide(&self) -> Vec<ClusterOverride> {
        let latest = self.cluster_wide.latest_in("").into_iter();
        latest
            .map(|o| ClusterOverride { name: o.value.name.clone(), spec: o.spec.clone() })
            .collect()
    }

    /// The latest snapshots of the overrides in a namespace.
    pub fn latest_narrow(&self, namespace: &str) -> Vec<NamespacedOverride> {
        let latest = self.in_namespaces.latest_in(namespace).into_iter();
        let key = |name: &str| NamespacedName { name: name.into(), namespace: namespace.into() };
        latest
            .map(|o| NamespacedOverride { key: key(&o.value.name), spec: o.spec.clone() })
            .collect()
    }
}

impl<Spec: Send + Sync + 'static> OverrideStores<Spec> {
    fn new<S: Overriding<Spec = Spec>>(set: &mut Set<'_>) -> Self {
        let overrides = set.mirror(|object: S::Override| {
            let meta = object.meta();
            Some(Override {
                precondition: Precondition::of(&object)?,
                finalizers: finalizers_of(meta).to_vec(),
                generation: Generation::of(meta),
                deleting: meta.deletion_timestamp.is_some(),
                spec: S::into_spec(object),
            })
        });
        let snapshots = set.mirror(|object: S::Snapshot| {
            let precondition = Precondition::of(&object)?;
            let labelled = |key: &str| object.meta().labels.as_ref()?.get(key).cloned();
            let of = ObjectKey::new(
                precondition.key.namespace.as_deref(),
                &labelled(label::PARENT_OVERRIDE).unwrap_or_default(),
            );
            let index = labelled(label::OVERRIDE_INDEX);
            let latest = labelled(label::IS_LATEST_SNAPSHOT).as_deref() == Some("true");
            let (spec, hash) = S::into_frozen(object);
            let value = Snapshot { name: precondition.key.name.clone(), index, latest, hash };
            Some(OverrideSnapshot { precondition, of, value, spec })
        });
        let of = snapshots.index(|_, snapshot| vec![snapshot.of.to_string()]);
        let latest = snapshots.index(|key, snapshot| {
            let namespace = key.namespace.clone().unwrap_or_default();
            snapshot.value.latest.then_some(namespace).into_iter().collect()
        });
        Self { overrides: set.add(overrides), snapshots: set.add(snapshots), of, latest }
    }

    /// All snapshots of an override.
    pub fn snapshots_of(&self, o: &ObjectKey) -> Vec<Arc<OverrideSnapshot<Spec>>> {
        values(self.snapshots.by(self.of, &o.to_string()))
    }

    /// The latest snapshots in a namespace; that of cluster-scoped ones is empty.
    fn latest_in(&self, namespace: &str) -> Vec<Arc<OverrideSnapshot<Spec>>> {
        values(self.snapshots.by(self.latest, namespace))
    }
}
