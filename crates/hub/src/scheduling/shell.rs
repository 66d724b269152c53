//! One pass over one placement: read, plan, write.
//!
//! Writes of one kind go side by side, kinds one after the other in the order of the
//! plan: what is created stands before anything is taken away. The first failure
//! ends the pass, and the next one starts from fresh reads.
//!
//! What a pass decides is in `flagship_rules::scheduling`; why it runs, in `triggers`.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flagship_api::binding::{BindingState, ResourceBindingSpec};
use flagship_api::hash;
use flagship_api::keys::{annotation, finalizer, label};
use flagship_api::names::{self, ObjectKey, Scope};
use flagship_api::placement::{ClusterResourcePlacement, ResourcePlacement};
use flagship_api::reason::event as reason;
use flagship_rules::model::Binding;
use flagship_rules::scheduling::{self, Action, Decision, Remark, Report, State};
use flagship_runtime::client::{ClientError, Precondition, Propagation, ResourceType};
use flagship_runtime::effects::{Made, PendingWrites, Stopped, Writer, carry_out_in_groups};
use flagship_runtime::error_action::Failure;
use flagship_runtime::events::{EventType, Recorder};
use flagship_runtime::metrics::Gauge;
use flagship_runtime::queue::{Outcome, Queue};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::metadata::PartialObjectMeta;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::observe::{PassInputs, observe};
use crate::counted_bindings::selection;
use crate::hub::Context;
use crate::mirrors::{Mirrors, Placement, Policy, ScopeMirrors};
use crate::patches::{
    finalizers_of, ignore_not_found, precondition_of, reference, with_finalizer, without_finalizer,
};
use crate::scope::{ClusterWide, InNamespace, Parts, Scoped};

/// Writes of one kind that are under way at once.
const AT_ONCE: usize = 10;

/// Bounds of the duration of passes, in milliseconds.
const MILLISECONDS: &[f64] = &[10.0, 50.0, 100.0, 500.0, 1000.0, 5000.0, 10_000.0, 50_000.0];

/// Carries out the scheduler's plans.
pub(super) struct Shell {
    cx: Context,
    mirrors: Arc<Mirrors>,
    queue: Queue<ObjectKey>,
    recorder: Recorder,
    seen: PendingWrites<ObjectKey>,
    active: Gauge,
    /// Placements whose last pass failed: what it wrote is not known.
    unsure: Mutex<BTreeSet<ObjectKey>>,
}

/// Names that are tried for a new binding. Each depends on the UIDs of what stands under those
/// before it, so nobody can take many of them in advance.
const NAMES: usize = 8;

/// The UIDs of bindings that are not the placement's and have the names its own would get, by
/// cluster.
type NamesTaken = BTreeMap<String, BTreeSet<String>>;

/// The end of the name of a new binding: the same for every hub that has read the same, so that
/// of two that both believe to lead only one creates it; another one as soon as the cluster has
/// had a binding that is still there, or somebody has taken the name.
fn suffix(seen: &PassInputs, names_taken: &NamesTaken, decision: &Decision) -> String {
    let there =
        seen.observed.bindings.iter().filter(|one| one.spec.target_cluster == decision.cluster);
    let mut uids: BTreeSet<&str> = there.map(|one| one.uid.as_str()).collect();
    uids.extend(names_taken.get(&decision.cluster).into_iter().flatten().map(String::as_str));
    let policy = &seen.policy.precondition.uid;
    hash::of_text(&format!("{policy} {} {uids:?}", decision.cluster))
}

/// Why a pass ended early.
pub(super) enum PassError {
    /// The server or another writer was in the way; the queue knows what to do.
    Failed(Failure),
    /// Somebody has to change something; said to them, and looked at again later.
    Undecidable(String),
}

impl From<ClientError> for PassError {
    fn from(error: ClientError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Stopped<ClientError>> for PassError {
    fn from(stopped: Stopped<ClientError>) -> Self {
        Self::Failed(stopped.into())
    }
}

/// What a pass amounted to.
#[derive(Clone, Copy)]
enum PassResult {
    /// There was nothing to choose.
    Idle,
    /// Clusters were chosen, or found to be chosen already.
    Decided,
    /// Some were chosen, and the next pass goes on at once.
    Again,
}

/// One write to a binding.
#[derive(Debug)]
enum Write<K> {
    Create(Place, Box<K>),
    /// One that is gone needs no patch any more.
    Patch(Precondition, Value),
}

/// Where a new binding goes.
#[derive(Clone, Debug)]
struct Place {
    cluster: String,
    name: String,
}

impl Shell {
    pub fn new(
        cx: Context,
        mirrors: Arc<Mirrors>,
        queue: Queue<ObjectKey>,
        recorder: Recorder,
    ) -> Self {
        let seen = PendingWrites::default();
        shown::<ClusterWide>(&seen, Some(&mirrors.cluster_wide));
        shown::<InNamespace>(&seen, mirrors.in_namespaces.as_ref());
        let help = "Scheduling passes under way.";
        let active = cx.metrics.gauge("scheduling_active_workers", help, &[]);
        Self { cx, mirrors, queue, recorder, seen, active, unsure: Mutex::default() }
    }

    /// One pass.
    pub async fn pass(&self, key: ObjectKey) -> Outcome {
        // A create whose answer was lost may have made a binding that no mirror shows yet.
        let is_shown = self.seen.caught_up(&key).await && !self.unsure().remove(&key);
        self.active.add(1.0);
        let begun = Instant::now();
        let ended = match key.scope() {
            Scope::Cluster => self.pass_in::<ClusterWide>(&key, is_shown).await,
            Scope::Namespaced => self.pass_in::<InNamespace>(&key, is_shown).await,
        };
        self.active.add(-1.0);
        // What only cleans up, or finds no policy, is no cycle.
        if !matches!(ended, Ok(PassResult::Idle)) {
            self.measure(begun, ended.is_err(), matches!(ended, Ok(PassResult::Again)));
        }
        match ended {
            Ok(PassResult::Idle | PassResult::Decided) => Outcome::Done,
            Ok(PassResult::Again) => {
                // At once, and with a fresh back-off: this is progress, not trouble.
                self.queue.add(key);
                Outcome::Done
            }
            Err(PassError::Failed(failure)) => {
                self.unsure().insert(key);
                Outcome::Error(failure)
            }
            Err(PassError::Undecidable(why)) => {
                tracing::warn!(%key, why, "cannot be scheduled as it is");
                self.say(&key, EventType::Warning, reason::SCHEDULING_FAILED, &why);
                Outcome::After(self.cx.options.failure_retry)
            }
        }
    }

    fn unsure(&self) -> MutexGuard<'_, BTreeSet<ObjectKey>> {
        self.unsure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn pass_in<S: Scoped>(
        &self,
        key: &ObjectKey,
        is_shown: bool,
    ) -> Result<PassResult, PassError> {
        let Some(mirrors) = self.mirrors.of(key) else { return Ok(PassResult::Idle) };
        let Some(placement) = mirrors.placements.get(key) else { return Ok(PassResult::Idle) };
        if placement.deleting {
            if placement.awaits_scheduler() {
                self.clean_up::<S>(key, &placement).await?;
            }
            return Ok(PassResult::Idle);
        }
        // None yet, or two while one takes over: the next change of them comes back here.
        let Some(policy) = mirrors.policy_of(key) else { return Ok(PassResult::Idle) };
        self.add_finalizer::<S>(key, &placement).await?;
        let look = async |is_shown| {
            let policy = policy.clone();
            observe::<S>(&self.cx, &self.mirrors, mirrors, key, policy, is_shown, &self.seen).await
        };
        let mut seen = look(is_shown).await?;
        let mut plan = scheduling::plan(&seen.observed);
        // Another hub may believe that it leads, and its bindings may not be mirrored yet: a
        // cluster is chosen only by what the server itself has.
        let chooses = plan.actions.iter().any(|action| matches!(action, Action::Create { .. }));
        if chooses && is_shown {
            seen = look(false).await?;
            plan = scheduling::plan(&seen.observed);
        }
        let mut names_taken = NamesTaken::new();
        let mut names = 0;
        let decided: Vec<Remark> = loop {
            let existed = self.carry_out::<S>(key, &seen, &names_taken, plan.actions).await?;
            let (done, decided): (Vec<_>, Vec<_>) =
                plan.remarks.into_iter().partition(Remark::goes_with_bindings);
            // At once: a binding that is let go is no longer one too many in the next pass.
            done.iter().for_each(|remark| self.remark(key, remark));
            if existed.is_empty() {
                break decided;
            }
            // Another hub was first, or somebody else has the name: what is there now decides.
            seen = look(false).await?;
            self.note_names_taken::<S>(key, &seen, existed, &mut names_taken).await?;
            plan = scheduling::plan(&seen.observed);
            names += 1;
            if names == NAMES {
                return Err(PassError::Undecidable(format!(
                    "{NAMES} names for a new binding are taken by bindings of others"
                )));
            }
        };
        if let Some(report) = plan.report {
            self.report::<S>(key, &seen.policy, &report).await?;
        }
        decided.iter().for_each(|remark| self.remark(key, remark));
        match plan.failure {
            Some(scheduling::Failure(why)) => Err(PassError::Undecidable(why)),
            None if plan.again => Ok(PassResult::Again),
            None => Ok(PassResult::Decided),
        }
    }

    /// Makes sure that the placement does not go without us.
    async fn add_finalizer<S: Scoped>(
        &self,
        key: &ObjectKey,
        placement: &Placement,
    ) -> Result<(), PassError> {
        if placement.finalizers.iter().any(|f| f == finalizer::SCHEDULER) {
            return Ok(());
        }
        let patch = with_finalizer(&placement.finalizers, finalizer::SCHEDULER);
        self.writer(key).patch::<S::Placement>(&placement.precondition, patch).await?;
        Ok(())
    }

    /// Carries actions out, up to the first kind among which a binding was to be created under
    /// a name that is taken: those are returned.
    async fn carry_out<S: Scoped>(
        &self,
        key: &ObjectKey,
        seen: &PassInputs,
        names_taken: &NamesTaken,
        actions: Vec<Action>,
    ) -> Result<Vec<Place>, PassError> {
        let mut groups: Vec<Vec<Write<S::Binding>>> = Vec::new();
        let mut last = None;
        for action in actions {
            let sort = discriminant(&action);
            if last.replace(sort) != Some(sort) {
                groups.push(Vec::new());
            }
            let write = self.write_for::<S>(key, seen, names_taken, action)?;
            if let (Some(group), Some(write)) = (groups.last_mut(), write) {
                group.push(write);
            }
        }
        let (writer, existed) = (self.writer(key), Mutex::new(Vec::new()));
        for group in groups {
            carry_out_in_groups(vec![group], AT_ONCE, async |write| match write {
                Write::Create(place, binding) => {
                    let made = writer.create(&*binding).await?;
                    if matches!(made, Made::Existed) {
                        existed.lock().unwrap_or_else(PoisonError::into_inner).push(place);
                    }
                    Ok(())
                }
                Write::Patch(precondition, patch) => {
                    let patched = writer.patch::<S::Binding>(&precondition, patch).await;
                    ignore_not_found(patched).map(drop)
                }
            })
            .await?;
            if !existed.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
                break;
            }
        }
        Ok(existed.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes which of these names belong to bindings that are not the placement's. Such a
    /// binding is left alone: neither is it adopted, nor does the cluster go without one.
    async fn note_names_taken<S: Scoped>(
        &self,
        key: &ObjectKey,
        seen: &PassInputs,
        existed: Vec<Place>,
        names_taken: &mut NamesTaken,
    ) -> Result<(), PassError> {
        let bindings = self.cx.client.of_type(ResourceType::of::<S::Binding>()).metadata_only();
        for Place { cluster, name } in existed {
            let is_ours = |one: &Binding| one.name == name && one.spec.target_cluster == cluster;
            if seen.observed.bindings.iter().any(is_ours) {
                continue;
            }
            let place = ObjectKey { namespace: key.namespace.clone(), name: name.clone() };
            let found: Option<PartialObjectMeta<S::Binding>> = bindings.find(&place).await?;
            let Some(uid) = found.and_then(|found| found.metadata.uid) else {
                let why = format!("binding {name} was there and is gone, or not to be read yet");
                return Err(PassError::Failed(Failure::reread(why)));
            };
            names_taken.entry(cluster.clone()).or_default().insert(uid);
            let message = format!(
                "binding {name} has the name of a new one for cluster {cluster} and is not of this placement and cluster; it is left alone, and the new one gets another name. Delete it if nobody needs it"
            );
            self.say(key, EventType::Warning, reason::BINDING_NAME_TAKEN, &message);
        }
        Ok(())
    }

    fn write_for<S: Scoped>(
        &self,
        key: &ObjectKey,
        seen: &PassInputs,
        names_taken: &NamesTaken,
        action: Action,
    ) -> Result<Option<Write<S::Binding>>, PassError> {
        let patch = |binding: &str, patch: &dyn Fn(&Binding) -> Value| {
            let found = seen.observed.bindings.iter().find(|b| b.name == binding)?;
            Some(Write::Patch(precondition_of(found), patch(found)))
        };
        let policy = seen.observed.snapshot.name.as_str();
        Ok(match action {
            Action::RemoveFinalizer { binding } => patch(&binding, &|found| {
                without_finalizer(&found.finalizers, finalizer::SCHEDULER_BINDING)
            }),
            Action::Release { binding, previous } => patch(&binding, &|_| {
                let noted = json!({annotation::PREVIOUS_BINDING_STATE: written(previous)});
                json!({
                    "metadata": {"annotations": noted},
                    "spec": {"state": BindingState::Unscheduled},
                })
            }),
            Action::Take { binding, state, decision } => {
                patch(&binding, &|found| taken(found, state, policy, &decision))
            }
            Action::Create { decision } => {
                let suffix = suffix(seen, names_taken, &decision);
                let name = names::binding(&key.name, &decision.cluster, suffix);
                let name = name.map_err(|problems| {
                    PassError::Undecidable(format!(
                        "no binding can be named after cluster {}: {}",
                        decision.cluster,
                        problems.join(", ")
                    ))
                })?;
                let place = Place { cluster: decision.cluster.clone(), name: name.clone() };
                Some(Write::Create(place, Box::new(fresh(key, name, policy, &decision))))
            }
        })
    }

    /// Writes what was decided where the placement controller reads it.
    async fn report<S: Scoped>(
        &self,
        key: &ObjectKey,
        policy: &Policy,
        report: &Report,
    ) -> Result<(), PassError> {
        let verdict = report.verdict;
        // Said when it is written, which is once for each decision.
        let listed = report.decisions.iter().filter(|decision| decision.selected).count();
        if listed < verdict.found {
            let chosen = verdict.found;
            tracing::warn!(%key, chosen, listed, "not all chosen clusters can be listed");
        }
        let status = report.status(&policy.value, self.cx.env.now());
        // Named one by one: an empty list is left out of the status, and a merge patch
        // would keep what was there.
        let patch = json!({"status": {
            "observedCRPGeneration": status.observed_crp_generation,
            "conditions": status.conditions,
            "targetClusters": status.target_clusters,
        }});
        self.writer(key).patch_status::<S::PolicySnapshot>(&policy.precondition, patch).await?;
        Ok(())
    }

    /// Lets a deleted placement go, and all its bindings before it. Metadata is enough,
    /// so that a binding nobody can read goes like the others.
    async fn clean_up<S: Scoped>(
        &self,
        key: &ObjectKey,
        placement: &Placement,
    ) -> Result<(), PassError> {
        let writer = self.writer(key);
        let bindings = self.cx.client.of_type(ResourceType::of::<S::Binding>()).metadata_only();
        let listed = bindings.list(&selection(key)).await?;
        // Asked after the list: while the placement that goes is there, no other one can have
        // its name, so all bindings of the list are its own. A mirror may be behind.
        let placements = self.cx.client.of_type(ResourceType::of::<S::Placement>()).metadata_only();
        let current: Option<PartialObjectMeta<S::Placement>> = placements.find(key).await?;
        let is_same = |object: &PartialObjectMeta<S::Placement>| {
            object.metadata.uid.as_deref() == Some(&placement.precondition.uid)
        };
        if !current.is_some_and(|object| is_same(&object)) {
            return Ok(());
        }
        let writer_of_one = &writer;
        carry_out_in_groups(vec![listed.items], AT_ONCE, async |binding| {
            remove::<S>(writer_of_one, binding).await
        })
        .await?;
        let patch = without_finalizer(&placement.finalizers, finalizer::SCHEDULER);
        ignore_not_found(writer.patch::<S::Placement>(&placement.precondition, patch).await)?;
        Ok(())
    }

    fn remark(&self, key: &ObjectKey, remark: &Remark) {
        let (reason, message) = match remark {
            Remark::Unwell { cluster, why } => {
                // Without the minutes it has lasted, so that repeats can be counted as one.
                let why = why.split_once(" (").map_or(why.as_str(), |(why, _)| why);
                let kept = "keeps the placement although it is not eligible";
                (reason::SELECTED_CLUSTER_NOT_ELIGIBLE, format!("cluster {cluster} {kept}: {why}"))
            }
            Remark::Surplus { cluster, binding } => (
                reason::SURPLUS_BINDING_UNSCHEDULED,
                format!("cluster {cluster} has more than one binding; {binding} is unscheduled"),
            ),
            Remark::BadProperty { why, .. } => (reason::MALFORMED_PROPERTY, why.clone()),
        };
        self.say(key, EventType::Warning, reason, &message);
    }

    /// Tells people who look at the placement.
    fn say(&self, key: &ObjectKey, sort: EventType, reason: &str, message: &str) {
        let placement = self.mirrors.of(key).and_then(|mirrors| mirrors.placements.get(key));
        let Some(placement) = placement else { return };
        let (namespace, uid) = (key.namespace.as_deref(), &placement.precondition.uid);
        let about = match key.scope() {
            Scope::Cluster => reference::<ClusterResourcePlacement>(namespace, &key.name, uid),
            Scope::Namespaced => reference::<ResourcePlacement>(namespace, &key.name, uid),
        };
        self.recorder.note_about(about, sort, reason, message);
    }

    fn measure(&self, begun: Instant, failed: bool, again: bool) {
        let spoken = |flag| if flag { "true" } else { "false" };
        let labels = [("is_failed", spoken(failed)), ("needs_requeue", spoken(again))];
        let (name, help) =
            ("scheduling_cycle_duration_milliseconds", "How long scheduling passes took.");
        let took = self.cx.metrics.histogram(name, help, MILLISECONDS, &labels);
        took.observe(begun.elapsed().as_secs_f64() * 1000.0);
    }

    fn writer<'a>(&'a self, key: &'a ObjectKey) -> Writer<'a, ObjectKey> {
        Writer::new(&self.cx.client, &self.cx.leadership, &self.seen, key)
    }
}

/// Names the mirrors that show our writes.
fn shown<S: Scoped>(seen: &PendingWrites<ObjectKey>, mirrors: Option<&ScopeMirrors>) {
    if let Some(mirrors) = mirrors {
        seen.shown_by(ResourceType::of::<S::Placement>(), &mirrors.placements);
        seen.shown_by(ResourceType::of::<S::PolicySnapshot>(), &mirrors.policies);
        seen.shown_by(ResourceType::of::<S::Binding>(), &mirrors.bindings);
    }
}

/// Takes our finalizer off a binding and deletes it, in whatever state it is.
async fn remove<S: Scoped>(
    writer: &Writer<'_, ObjectKey>,
    binding: PartialObjectMeta<S::Binding>,
) -> Result<(), ClientError> {
    let Some(precondition) = Precondition::of(&binding) else { return Ok(()) };
    let mut precondition = precondition;
    if binding.metadata.finalizers.iter().flatten().any(|f| f == finalizer::SCHEDULER_BINDING) {
        let patch =
            without_finalizer(finalizers_of(&binding.metadata), finalizer::SCHEDULER_BINDING);
        match writer.patch::<S::Binding>(&precondition, patch).await {
            Ok(freed) => precondition = Precondition::of(&freed).unwrap_or(precondition),
            Err(ClientError::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    if binding.metadata.deletion_timestamp.is_none() {
        writer.delete::<S::Binding>(&precondition, Propagation::Background).await?;
    }
    Ok(())
}

/// A new binding. Resources and apply strategy come with the rollout.
fn fresh<K: Parts<Spec = ResourceBindingSpec>>(
    key: &ObjectKey,
    name: String,
    policy: &str,
    decision: &Decision,
) -> K {
    let labels = [(label::PARENT_PLACEMENT.to_owned(), key.name.clone())];
    let metadata = ObjectMeta {
        name: Some(name),
        namespace: key.namespace.clone(),
        labels: Some(labels.into()),
        finalizers: Some(vec![finalizer::SCHEDULER_BINDING.to_owned()]),
        ..ObjectMeta::default()
    };
    let spec = ResourceBindingSpec {
        state: BindingState::Scheduled,
        resource_snapshot_name: String::new(),
        resource_override_snapshots: Vec::new(),
        cluster_resource_override_snapshots: Vec::new(),
        scheduling_policy_snapshot_name: policy.to_owned(),
        target_cluster: decision.cluster.clone(),
        cluster_decision: decision.on_the_wire().into(),
        apply_strategy: None,
    };
    K::new(metadata, spec)
}

/// Moves a binding to another policy. The note of an earlier state is of no use any more.
fn taken(binding: &Binding, state: State, policy: &str, decision: &Decision) -> Value {
    let wire = decision.on_the_wire();
    let mut patch = json!({"spec": {
        "state": written(state),
        "schedulingPolicySnapshotName": policy,
        "clusterDecision": {
            "clusterName": wire.cluster_name,
            "selected": wire.selected,
            // Null where there is none: PickFixed does not score.
            "clusterScore": wire.cluster_score,
            "reason": wire.reason,
        },
    }});
    let note = annotation::PREVIOUS_BINDING_STATE;
    if binding.previous.is_some() {
        patch["metadata"] = json!({"annotations": {note: null}});
    }
    patch
}

fn written(state: State) -> &'static str {
    match state {
        State::Scheduled => "Scheduled",
        State::Bound => "Bound",
        // The rules hand out neither; reading them back finds no live state.
        State::Unscheduled | State::Foreign => "Unscheduled",
    }
}
