//! One pass over one placement: read, plan, write.
//!
//! Writes happen in the order of the plan, one after the other; the first failure ends
//! the pass, and the next one starts from fresh reads. People are told when the status
//! is written.
//!
//! What a pass decides is in `flagship_rules::placement`; why it runs, in `triggers`
//! and in `changes`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flagship_api::condition::Condition;
use flagship_api::error_class::ErrorClass;
use flagship_api::keys::{annotation, finalizer, label};
use flagship_api::names::{ObjectKey, rollout_trace};
use flagship_api::placement_status::{ClusterResourcePlacementStatus, PlacementStatus};
use flagship_api::reason::event as reason;
use flagship_rules::event::Event;
use flagship_rules::placement::mirror::{Mirror, after_failure};
use flagship_rules::placement::policy_snapshots::PolicyAction;
use flagship_rules::placement::resource_snapshots::ResourceAction;
use flagship_rules::placement::selection::Selection;
use flagship_rules::placement::status::unreadable;
use flagship_rules::placement::{Action, Frozen, Observed, PassError, Placement, Plan, plan};
use flagship_runtime::client::{
    Client, ClientError, Precondition, Propagation, ResourceType, Selection as Which,
};
use flagship_runtime::effects::{Kind, Made, PendingWrites, Writer, carry_out_in_groups};
use flagship_runtime::error_action::Failure;
use flagship_runtime::events::{EventType, Recorder};
use flagship_runtime::queue::{About, Outcome};
use k8s_openapi::api::core::v1::ObjectReference;
use kube_core::Resource;
use kube_core::metadata::PartialObjectMeta;
use serde_json::{Value, json};

use super::metrics::StatusSeries;
use super::observe::{PassInputs, Preconditions, observe};
use super::selectable::Selectable;
use super::triggers::ROW;
use super::up_to_date::up_to_date;
use crate::hub::Context;
use crate::malformed_events::cause;
use crate::mirrors::{Mirrors, ScopeMirrors};
use crate::patches::{ignore_not_found, reference, with_finalizers, without_finalizer};
use crate::scope::{ClusterWide, InNamespace, Parts, Scoped};
use crate::status_cost::StatusCost;
use crate::unreadable::{Telling, refuse};

/// Deletions that are under way at once.
const AT_ONCE: usize = 10;

/// Carries out the plans of placements.
pub(super) struct Shell {
    cx: Context,
    mirrors: Arc<Mirrors>,
    selectable: Arc<Selectable>,
    recorder: Recorder,
    seen: PendingWrites<ObjectKey>,
    series: StatusSeries,
    /// What writing the status of a placement costs.
    pub cost: StatusCost,
    /// What holds placements up and was told.
    blocked: Mutex<BTreeMap<ObjectKey, String>>,
}

/// Whether a pass that sees this would freeze the content of a new placement.
fn takes_first_snapshot(seen: &Observed) -> bool {
    seen.resource_snapshots.is_empty()
        && plan(seen)
            .actions
            .iter()
            .any(|action| matches!(action, Action::Resources(ResourceAction::Create(_))))
}

/// A pass that has read and planned.
struct Pass<'a> {
    key: &'a ObjectKey,
    seen: PassInputs,
    writer: Writer<'a, ObjectKey>,
    /// What events are about.
    about: ObjectReference,
    /// What is still to be told.
    events: Vec<Event>,
    /// Whether the scheduler is asked something.
    schedules: bool,
}

impl Shell {
    pub fn new(
        cx: Context,
        mirrors: Arc<Mirrors>,
        selectable: Arc<Selectable>,
        recorder: Recorder,
    ) -> Self {
        let seen = PendingWrites::default();
        shown::<ClusterWide>(&seen, Some(&mirrors.cluster_wide));
        shown::<InNamespace>(&seen, mirrors.in_namespaces.as_ref());
        seen.shown_by(ResourceType::of::<ClusterResourcePlacementStatus>(), &mirrors.copies);
        let series = StatusSeries::new(&cx.metrics);
        let blocked = Mutex::default();
        let cost = StatusCost::new(ROW);
        Self { cx, mirrors, selectable, recorder, seen, series, cost, blocked }
    }

    /// One pass over a placement of the scope.
    pub async fn pass<S: Scoped>(&self, key: ObjectKey) -> Outcome {
        let caught_up = self.seen.caught_up(&key).await;
        self.look_and_write::<S>(key).await.having_caught_up(caught_up)
    }

    async fn look_and_write<S: Scoped>(&self, key: ObjectKey) -> Outcome {
        let placements = self.mirrors.of(&key).map(|mirrors| &mirrors.placements);
        if let Some(problem) = placements.and_then(|placements| placements.malformed(&key)) {
            let draft = unreadable(S::SCOPE, &problem.field, cause(&problem));
            let telling = Telling {
                draft: |_: &[Condition]| Some(draft),
                anew: &["selectedResources", "observedResourceIndex", "placementStatuses"],
            };
            let writer = self.writer(&key);
            let told = refuse::<S::Placement, _>(&self.cx, &writer, &key, &problem, telling).await;
            return told.map(|()| Outcome::Done).into();
        }
        let look = || observe(&self.cx, &self.mirrors, &self.selectable, &key);
        let mut seen = look();
        if let Some(first) = seen.as_ref().filter(|seen| takes_first_snapshot(&seen.observed)) {
            // What was there before the placement may be on its way to a mirror of its kind, and
            // what is not in the first version would be missing until something changes.
            let placement = &first.observed.placement;
            if let Err(failure) = up_to_date(&self.cx, &self.selectable, placement).await {
                return Outcome::Error(failure);
            }
            seen = look();
        }
        let Some(seen) = seen else {
            self.series.forget(&key);
            self.blocked.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            return Outcome::Done;
        };
        let latest = seen.observed.resource_snapshots.iter().find(|one| one.latest);
        let version = latest.and_then(|one| one.index.as_deref());
        let trace = version.map(|version| rollout_trace(&key, version));
        About { trace: trace.as_deref(), ..About::default() }.note();
        let plan = plan(&seen.observed);
        note_rivals(&key, &seen.observed);
        let Placement { namespace, name, uid, generation, .. } = &seen.observed.placement;
        let about = reference::<S::Placement>(namespace.as_deref(), name, uid);
        match &plan.series {
            Some(series) => self.series.tell(&key, *generation, series, self.cx.env.now()),
            None => self.series.forget(&key),
        }
        let writer = self.writer(&key);
        let Plan { actions, events, wake, trouble, .. } = plan;
        let schedules = actions.iter().any(|action| matches!(action, Action::Policy(_)));
        let mut pass = Pass { key: &key, seen, writer, about, events, schedules };
        for action in actions {
            if let Err(failure) = self.act::<S>(&mut pass, action).await {
                return Outcome::Error(failure);
            }
        }
        if let Some(trouble) = trouble {
            self.held_up::<S>(&pass, &trouble);
            return Outcome::Error(Failure::back_off(trouble.to_string()));
        }
        self.blocked.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        self.tell(&mut pass);
        wake.map_or(Outcome::Done, |wake| {
            Outcome::After(Duration::try_from(wake).unwrap_or_default())
        })
    }

    async fn act<S: Scoped>(&self, pass: &mut Pass<'_>, action: Action) -> Result<(), Failure> {
        match action {
            Action::AddFinalizer => {
                // The scheduler's goes with it where there is something to schedule: it would be a
                // write of its own, and in the way of the first status.
                let scheduler = pass.schedules && self.cx.options.controllers.scheduling;
                let scheduler = scheduler.then_some(finalizer::SCHEDULER);
                let ours = [finalizer::PLACEMENT].into_iter().chain(scheduler);
                let patch = with_finalizers(&pass.seen.finalizers, ours);
                let patched = pass.writer.patch::<S::Placement>(&pass.seen.placement, patch);
                pass.moved_on(&patched.await?);
            }
            Action::RemoveFinalizer => {
                let patch = without_finalizer(&pass.seen.finalizers, finalizer::PLACEMENT);
                let freed = pass.writer.patch::<S::Placement>(&pass.seen.placement, patch);
                ignore_not_found(freed.await)?;
            }
            Action::Policy(action) => pass.write_policy::<S>(action).await?,
            Action::Resources(action) => pass.write_resources::<S>(action).await?,
            Action::Mirror(mirror) => {
                if let Err(error) = self.copy(pass, &mirror).await {
                    return Err(self.not_copied::<S>(pass, &mirror, error).await);
                }
            }
            Action::Status(status) => pass.write_status::<S>(&self.cost, &status).await?,
            Action::DeletePolicySnapshots => {
                self.delete_all::<S::PolicySnapshot>(pass).await?;
            }
            Action::DeleteResourceSnapshots => {
                self.delete_all::<S::ResourceSnapshot>(pass).await?;
            }
        }
        Ok(())
    }

    /// Creates or updates the copy of the status. It is ours alone: whatever stands under
    /// its name becomes the copy.
    async fn copy(&self, pass: &Pass<'_>, mirror: &Mirror) -> Result<(), ClientError> {
        let object = mirror.object(&pass.seen.observed.placement);
        let precondition = match &pass.seen.copy {
            Some(precondition) => Some(precondition.clone()),
            None => match pass.writer.create(&object).await? {
                Made::New(_) => return Ok(()),
                Made::Existed => {
                    let copies = ResourceType::of::<ClusterResourcePlacementStatus>();
                    let copies = self.cx.client.of_type(copies).metadata_only();
                    let key = ObjectKey::namespaced(&mirror.namespace, &mirror.name);
                    let there: PartialObjectMeta<ClusterResourcePlacementStatus> =
                        copies.get(&key).await?;
                    Precondition::of(&there)
                }
            },
        };
        let Some(precondition) = precondition else { return Ok(()) };
        let patch = json!({
            "metadata": {"ownerReferences": object.metadata.owner_references},
            "sourceStatus": every_field(&mirror.status),
            "lastUpdatedTime": object.last_updated_time,
        });
        pass.writer.patch::<ClusterResourcePlacementStatus>(&precondition, patch).await?;
        Ok(())
    }

    /// Says in the status that there is no copy, unless a second try is all it takes.
    async fn not_copied<S: Scoped>(
        &self,
        pass: &mut Pass<'_>,
        mirror: &Mirror,
        error: ClientError,
    ) -> Failure {
        let why = match &error {
            ClientError::NotFound { message, .. }
            | ClientError::Forbidden { message, .. }
            | ClientError::Refused { message, .. }
            | ClientError::Invalid { message, .. } => message.clone(),
            _ => return error.into(),
        };
        let placement = &pass.seen.observed.placement;
        if let Some(status) = after_failure(placement, mirror, &why, self.cx.env.now())
            && let Err(failure) = pass.write_status::<S>(&self.cost, &status).await
        {
            return failure;
        }
        // All but the copy is written, so the next pass would not tell of it.
        self.tell(pass);
        Failure::back_off(format!("the status cannot be copied: {why}"))
    }

    /// Deletes everything of a kind that belongs to the placement.
    async fn delete_all<K: Kind>(&self, pass: &Pass<'_>) -> Result<(), Failure> {
        let labels = format!("{}={}", label::PARENT_PLACEMENT, pass.key.name);
        let namespace = pass.key.namespace.as_deref();
        delete_all::<K, _>(&self.cx.client, &pass.writer, namespace, labels).await
    }

    fn writer<'a>(&'a self, key: &'a ObjectKey) -> Writer<'a, ObjectKey> {
        Writer::new(&self.cx.client, &self.cx.leadership, &self.seen, key)
    }

    /// Says what the writes so far are worth saying, once.
    fn tell(&self, pass: &mut Pass<'_>) {
        for event in pass.events.drain(..) {
            let sort = if event.warning { EventType::Warning } else { EventType::Normal };
            self.recorder.note_about(pass.about.clone(), sort, &event.reason, &event.message);
        }
    }

    /// Says what should not be possible and holds the placement up, on the placement and on
    /// the snapshot that is to blame: neither has a condition for it. The same words once.
    fn held_up<S: Scoped>(&self, pass: &Pass<'_>, trouble: &PassError) {
        if trouble.class() != ErrorClass::Unexpected {
            return;
        }
        let mut blocked = self.blocked.lock().unwrap_or_else(PoisonError::into_inner);
        let why = trouble.cause();
        if blocked.insert(pass.key.clone(), why.to_owned()).is_some_and(|said| said == why) {
            return;
        }
        drop(blocked);
        let warn = |about, reason: &str, message: &str| {
            self.recorder.note_about(about, EventType::Warning, reason, message);
        };
        warn(
            pass.about.clone(),
            reason::PLACEMENT_BLOCKED,
            &format!("{why}; the placement stays as it is until this is mended"),
        );
        let PassError::Snapshot { of, name, .. } = trouble else { return };
        let space = pass.key.namespace.as_deref();
        let uid_in = |preconditions: &Preconditions| {
            preconditions.get(name).map(|precondition| precondition.uid.clone()).unwrap_or_default()
        };
        let on = match of {
            Frozen::Policy => {
                reference::<S::PolicySnapshot>(space, name, &uid_in(&pass.seen.policies))
            }
            Frozen::Resources => {
                reference::<S::ResourceSnapshot>(space, name, &uid_in(&pass.seen.resources))
            }
        };
        let what_to_do = "Correct or delete it; until then the placement stays as it is";
        warn(on, reason::UNUSABLE_SNAPSHOT, &format!("{why}. {what_to_do}"));
    }
}

impl Pass<'_> {
    async fn write_status<S: Scoped>(
        &mut self,
        cost: &StatusCost,
        status: &PlacementStatus,
    ) -> Result<(), Failure> {
        // Moved in: `json!` would copy it, with a row for each cluster.
        let mut patch = json!({});
        patch["status"] = every_field(status);
        let written = self.writer.patch_status::<S::Placement>(&self.seen.placement, patch);
        let object = cost.of(status.placement_statuses.len(), written).await?;
        self.moved_on(&object);
        Ok(())
    }

    /// Our own write is no reason for the next one to fail.
    fn moved_on(&mut self, object: &impl Resource) {
        self.seen.placement =
            Precondition::of(object).unwrap_or_else(|| self.seen.placement.clone());
    }

    async fn write_policy<S: Scoped>(&mut self, action: PolicyAction) -> Result<(), Failure> {
        let preconditions = &mut self.seen.policies;
        match action {
            PolicyAction::Retire { name } => {
                patch::<S::PolicySnapshot, _>(&self.writer, preconditions, &name, labelled(false))
                    .await
            }
            PolicyAction::Refresh { name, placement_generation, number_of_clusters } => {
                let mut change = labelled(true);
                let generation = placement_generation.to_string();
                let mut notes = json!({annotation::PLACEMENT_GENERATION: generation});
                if let Some(number) = number_of_clusters {
                    notes[annotation::NUMBER_OF_CLUSTERS] = json!(number.to_string());
                }
                change["metadata"]["annotations"] = notes;
                patch::<S::PolicySnapshot, _>(&self.writer, preconditions, &name, change).await
            }
            PolicyAction::Create(new) => {
                let placement = &self.seen.observed.placement;
                let object = S::PolicySnapshot::new(new.metadata(placement), new.spec(placement));
                create(&self.writer, &object, &new.name).await
            }
            PolicyAction::Delete { name } => {
                delete::<S::PolicySnapshot, _>(&self.writer, preconditions, &name).await
            }
        }
    }

    async fn write_resources<S: Scoped>(&mut self, action: ResourceAction) -> Result<(), Failure> {
        let PassInputs { observed, resources, .. } = &mut self.seen;
        let selection = observed.selection.as_ref().ok();
        let (writer, placement) = (&self.writer, &observed.placement);
        write_snapshot::<S, _>(writer, resources, placement, selection, action).await
    }
}

/// Says that two snapshots claim to be the latest. The pass mends it, so it is said once.
fn note_rivals(key: &ObjectKey, seen: &Observed) {
    let policies = seen.policy_snapshots.iter().filter(|snapshot| snapshot.latest).count();
    if policies > 1 {
        tracing::warn!(%key, policies, "several policy snapshots are labelled latest: the highest index is");
    }
    let masters = seen.resource_snapshots.iter();
    let masters = masters.filter(|snapshot| snapshot.latest && snapshot.hash.is_some()).count();
    if masters > 1 {
        tracing::warn!(%key, masters, "several resource snapshots are labelled latest: the highest index is");
    }
}

/// Does what was decided about the resource snapshots of a placement, by its own controller
/// or by an update run of it.
pub(crate) async fn write_snapshot<S: Scoped, O: Ord + Clone + Debug>(
    writer: &Writer<'_, O>,
    preconditions: &mut Preconditions,
    placement: &Placement,
    selection: Option<&Selection>,
    action: ResourceAction,
) -> Result<(), Failure> {
    match action {
        ResourceAction::Mark { name, latest } => {
            patch::<S::ResourceSnapshot, _>(writer, preconditions, &name, labelled(latest)).await
        }
        ResourceAction::Stamp { name, at } => {
            let notes = json!({annotation::NEXT_SNAPSHOT_DETECTION_TIME: at});
            let change = json!({"metadata": {"annotations": notes}});
            patch::<S::ResourceSnapshot, _>(writer, preconditions, &name, change).await
        }
        ResourceAction::Create(new) => {
            let nothing = Selection::default();
            let selection = selection.unwrap_or(&nothing);
            let (metadata, spec) = (new.metadata(placement), new.spec(selection));
            create(writer, &S::ResourceSnapshot::new(metadata, spec), &new.name).await
        }
        ResourceAction::Delete { name } => {
            delete::<S::ResourceSnapshot, _>(writer, preconditions, &name).await
        }
    }
}

/// Deletes all objects of a kind with these labels. Metadata is enough, so that what nobody
/// can read goes like the rest.
pub(crate) async fn delete_all<K: Kind, O: Ord + Clone + Debug>(
    client: &Client,
    writer: &Writer<'_, O>,
    namespace: Option<&str>,
    labels: String,
) -> Result<(), Failure> {
    let objects = client.of_type::<PartialObjectMeta<K>>(ResourceType::of::<K>());
    let which = Which { namespace: namespace.map(str::to_owned), labels, ..Which::all() };
    let listed = objects.metadata_only().list(&which).await?;
    let preconditions: Vec<Precondition> =
        listed.items.iter().filter_map(Precondition::of).collect();
    carry_out_in_groups(vec![preconditions], AT_ONCE, async |precondition| {
        writer.delete::<K>(&precondition, Propagation::Background).await.map(drop)
    })
    .await?;
    Ok(())
}

/// Creates a snapshot. One of that name is not ours to trust: the mirror is behind.
async fn create<K: Kind, O: Ord + Clone + Debug>(
    writer: &Writer<'_, O>,
    object: &K,
    name: &str,
) -> Result<(), Failure> {
    match writer.create(object).await? {
        Made::New(_) => Ok(()),
        Made::Existed => Err(Failure::back_off(format!("{name} exists already"))),
    }
}

/// Changes a snapshot that is known; the next change knows of this one.
async fn patch<K: Kind, O: Ord + Clone + Debug>(
    writer: &Writer<'_, O>,
    preconditions: &mut Preconditions,
    name: &str,
    change: Value,
) -> Result<(), Failure> {
    let precondition =
        preconditions.get(name).ok_or_else(|| Failure::reread(format!("{name} is not known")))?;
    let object = writer.patch::<K>(precondition, change).await?;
    preconditions
        .extend(Precondition::of(&object).map(|precondition| (name.to_owned(), precondition)));
    Ok(())
}

async fn delete<K: Kind, O: Ord + Clone + Debug>(
    writer: &Writer<'_, O>,
    preconditions: &Preconditions,
    name: &str,
) -> Result<(), Failure> {
    if let Some(precondition) = preconditions.get(name) {
        writer.delete::<K>(precondition, Propagation::Background).await?;
    }
    Ok(())
}

fn labelled(latest: bool) -> Value {
    json!({"metadata": {"labels": {label::IS_LATEST_SNAPSHOT: latest.to_string()}}})
}

/// A status for a merge patch. Empty fields are left out of statuses, and a patch would
/// keep what was there, so they are named.
fn every_field(status: &PlacementStatus) -> Value {
    let mut fields = json!(status);
    for field in ["selectedResources", "observedResourceIndex", "placementStatuses", "conditions"] {
        if fields.get(field).is_none() {
            fields[field] = Value::Null;
        }
    }
    fields
}

/// Names the mirrors that show our writes.
fn shown<S: Scoped>(seen: &PendingWrites<ObjectKey>, mirrors: Option<&ScopeMirrors>) {
    let Some(mirrors) = mirrors else { return };
    seen.shown_by(ResourceType::of::<S::Placement>(), &mirrors.placements);
    seen.shown_by(ResourceType::of::<S::PolicySnapshot>(), &mirrors.policies);
    seen.shown_by(ResourceType::of::<S::ResourceSnapshot>(), &mirrors.resources);
}
