//! A binding of either scope.

use flagship_api::binding::{BindingState, ResourceBindingSpec, ResourceBindingStatus};
use flagship_api::condition::Generation;
use flagship_api::fence;
use flagship_api::keys::{annotation, label};
use flagship_api::names::{ObjectKey, member_namespace};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// A binding: the resources of one placement on one cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Binding {
    /// Its namespace; `None` for a ClusterResourceBinding.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// `metadata.finalizers`.
    pub finalizers: Vec<String>,
    /// The placement it belongs to by its label, in its own namespace; empty without one.
    pub placement: String,
    /// Annotation `previous-binding-state`; says something on Unscheduled ones only.
    pub previous: Option<String>,
    /// The last update run that wrote it, if it was one of ours.
    pub fence: Option<Fence>,
    /// What the cluster is to get.
    pub spec: ResourceBindingSpec,
    /// How the delivery is doing, as last written.
    pub status: ResourceBindingStatus,
}

/// Which run wrote a binding last, and which generation of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// UID of the run.
    pub run: String,
    /// Generation of the run that was carried out.
    pub generation: i64,
}

impl Binding {
    /// Takes an object of either scope apart.
    pub fn read(
        metadata: ObjectMeta,
        spec: ResourceBindingSpec,
        status: Option<ResourceBindingStatus>,
    ) -> Self {
        let fence = Fence::on(&metadata);
        let mut finalizers = metadata.finalizers.unwrap_or_default();
        let mut status = status.unwrap_or_default();
        // Lists are decoded with room to grow, and a mirror holds a hundred thousand bindings.
        finalizers.shrink_to_fit();
        status.conditions.shrink_to_fit();
        let taken = |map: Option<std::collections::BTreeMap<String, String>>, key: &str| {
            map.and_then(|mut map| map.remove(key))
        };
        Self {
            namespace: metadata.namespace.filter(|namespace| !namespace.is_empty()),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            created: metadata.creation_timestamp.map_or_else(Default::default, |time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers,
            placement: taken(metadata.labels, label::PARENT_PLACEMENT).unwrap_or_default(),
            previous: taken(metadata.annotations, annotation::PREVIOUS_BINDING_STATE),
            fence,
            spec,
            status,
        }
    }

    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        self.sibling(&self.name)
    }

    /// Namespace and name of the placement.
    pub fn placement_key(&self) -> ObjectKey {
        self.sibling(&self.placement)
    }

    /// A name in the binding's namespace.
    pub fn sibling(&self, name: &str) -> ObjectKey {
        ObjectKey::new(self.namespace.as_deref(), name)
    }

    /// The cluster it is for.
    pub fn cluster(&self) -> &str {
        &self.spec.target_cluster
    }

    /// Where its Works stand.
    pub fn member_namespace(&self) -> String {
        member_namespace(self.cluster())
    }

    /// The generation its conditions must speak about.
    pub fn generation(&self) -> Generation {
        Generation(self.generation)
    }

    /// Whether it is in this state.
    pub fn is(&self, state: BindingState) -> bool {
        self.spec.state == state
    }

    /// Whether its resources are to go.
    pub fn is_unscheduled(&self) -> bool {
        self.is(BindingState::Unscheduled)
    }

    /// Whether it carries a finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|held| held == finalizer)
    }

    /// Whether any override is to be applied.
    pub fn is_overridden(&self) -> bool {
        let ResourceBindingSpec {
            resource_override_snapshots: narrow,
            cluster_resource_override_snapshots: wide,
            ..
        } = &self.spec;
        !(narrow.is_empty() && wide.is_empty())
    }
}

impl Fence {
    /// The one on a binding, if one of our runs has written it.
    pub fn on(binding: &ObjectMeta) -> Option<Self> {
        let fence = fence::Fence::on(binding)?;
        Some(Self { run: fence.run.to_string(), generation: fence.generation.0 })
    }

    /// As it is left on a binding.
    pub fn to_api(&self) -> fence::Fence {
        fence::Fence { run: (&self.run).into(), generation: Generation(self.generation) }
    }
}
