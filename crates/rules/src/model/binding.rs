//! A binding of either scope.

use std::sync::Arc;

use flagship_api::binding::{BindingState, ResourceBindingSpec, ResourceBindingStatus};
use flagship_api::condition::{Condition, Conditions, Generation};
use flagship_api::condition_type::binding::ROLLOUT_STARTED;
use flagship_api::fence;
use flagship_api::keys::{annotation, label, own};
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
    pub finalizers: Arc<[String]>,
    /// The placement it belongs to by its label, in its own namespace; empty without one.
    pub placement: String,
    /// Annotation `previous-binding-state`; says something on Unscheduled ones only.
    pub previous: Option<String>,
    /// The last update run that wrote it, if it was one of ours.
    pub fence: Option<Fence>,
    /// What the cluster is to get.
    pub spec: ResourceBindingSpec,
    /// How the delivery is doing, as last written, and the start signal of its present
    /// generation from wherever it was given.
    pub status: ResourceBindingStatus,
    /// Whether the start signal is in an annotation only: whoever writes the status next has
    /// to put it there.
    pub signal_unwritten: bool,
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
        let mut status = status.unwrap_or_default();
        let generation = metadata.generation.unwrap_or_default();
        let signal = start_signal(&metadata, &status.conditions);
        let finalizers = metadata.finalizers.unwrap_or_default().into();
        let signal_unwritten = signal.is_some();
        if let Some(signal) = signal {
            status.conditions.retain(|condition| condition.type_ != ROLLOUT_STARTED);
            status.conditions.push(signal);
        }
        // Lists are decoded with room to grow, and a mirror holds a hundred thousand bindings.
        status.conditions.shrink_to_fit();
        let taken = |map: Option<std::collections::BTreeMap<String, String>>, key: &str| {
            map.and_then(|mut map| map.remove(key))
        };
        Self {
            namespace: metadata.namespace.filter(|namespace| !namespace.is_empty()),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            generation,
            created: metadata.creation_timestamp.map_or_else(Default::default, |time| time.0),
            deleting: metadata.deletion_timestamp.is_some(),
            finalizers,
            placement: taken(metadata.labels, label::PARENT_PLACEMENT).unwrap_or_default(),
            previous: taken(metadata.annotations, annotation::PREVIOUS_BINDING_STATE),
            fence,
            spec,
            status,
            signal_unwritten,
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

/// The start signal that a delivery left in an annotation, while it is about the present
/// generation and the status does not say as much.
fn start_signal(metadata: &ObjectMeta, conditions: &[Condition]) -> Option<Condition> {
    let text = metadata.annotations.as_ref()?.get(own::START_SIGNAL)?;
    let signal: Condition = serde_json::from_str(text).ok()?;
    let at = Generation::seen_by(&signal);
    let said = conditions.of_type(ROLLOUT_STARTED).map(Generation::seen_by);
    let holds = signal.type_ == ROLLOUT_STARTED && at == Generation::of(metadata);
    (holds && said.is_none_or(|said| said < at)).then_some(signal)
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

#[cfg(test)]
mod tests {
    use flagship_api::condition::draft;

    use super::*;

    fn read(generation: i64, signal: &str, said: Option<i64>) -> Binding {
        let annotations = [(own::START_SIGNAL.to_owned(), signal.to_owned())];
        let metadata = ObjectMeta {
            generation: Some(generation),
            annotations: Some(annotations.into()),
            ..ObjectMeta::default()
        };
        let mut status = ResourceBindingStatus::default();
        if let Some(at) = said {
            let held = draft(ROLLOUT_STARTED).is_false("RolloutNotStartedYet");
            held.set(&mut status.conditions, Generation(at), Timestamp::UNIX_EPOCH);
        }
        Binding::read(metadata, ResourceBindingSpec::default(), Some(status))
    }

    #[test]
    fn a_start_signal_holds_for_its_generation_until_the_status_speaks_of_it() {
        let signal = draft(ROLLOUT_STARTED).is_true("RolloutStarted").because("go");
        let signal = signal.into_condition(Generation(3), Timestamp::UNIX_EPOCH);
        let signal = serde_json::to_string(&signal).unwrap();
        for (generation, text, said, holds) in [
            (3, &*signal, None, true),
            (3, &*signal, Some(2), true),
            // The status has the last word on a generation.
            (3, &*signal, Some(3), false),
            // About another generation, it says nothing.
            (4, &*signal, None, false),
            (2, &*signal, None, false),
            // Whatever somebody typed there.
            (3, "", None, false),
            (3, "{}", None, false),
        ] {
            let binding = read(generation, text, said);
            let started = binding.status.conditions.is_true_at(ROLLOUT_STARTED, Generation(3));
            let told = (binding.signal_unwritten, started && generation == 3);
            assert_eq!(told, (holds, holds), "{generation} {text} {said:?}");
            assert!(binding.status.conditions.len() <= 1);
        }
    }
}
