//! One pass over one binding: read, plan, write.
//!
//! Works are written side by side, before the status that speaks of them. A write that
//! lost a race starts the pass over; one that the server refuses becomes a condition.
//!
//! What a pass decides is in `flagship_rules::work`; why it runs, in `triggers`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flagship_api::binding::ResourceBindingStatus;
use flagship_api::keys::{finalizer, label, own};
use flagship_api::names::{ObjectKey, rollout_trace};
use flagship_api::raw_json::RawJson;
use flagship_api::work::Work;
use flagship_rules::apply::redacted;
use flagship_rules::event::Event;
use flagship_rules::work::{
    ABANDON, Action, PassError, Placement, Plan, Retry, Stage, Stamp, Write, after_failure,
    ends_of, owner, plan,
};
use flagship_runtime::client::{
    ClientError, Listed, Precondition, Propagation, ResourceType, Selection,
};
use flagship_runtime::effects::{Made, PendingWrites, Writer, carry_out_in_groups};
use flagship_runtime::error_action::{ErrorAction, Failure};
use flagship_runtime::events::{EventType, Recorder};
use flagship_runtime::queue::{About, Outcome};
use jiff::{SignedDuration, Timestamp};
use kube_core::Resource;
use kube_core::metadata::PartialObjectMeta;
use serde_json::{Value, json};

use super::contents::Contents;
use super::contested::Contested;
use super::observe::{PassInputs, observe};
use crate::hub::Context;
use crate::mirrors::{Mirrors, ScopeMirrors};
use crate::patches::{difference, ignore_not_found, reference, with_finalizer, without_finalizer};
use crate::scope::{ClusterWide, InNamespace, Scoped};

/// Writes to Works of one binding that are under way at once.
const AT_ONCE: usize = 10;

/// Carries out the plans of bindings.
pub(super) struct Shell {
    cx: Context,
    mirrors: Arc<Mirrors>,
    recorder: Recorder,
    seen: PendingWrites<ObjectKey>,
    contents: Contents,
    /// By when members are to have answered what was written last, before statuses say that
    /// they are at it. Forgotten with the process: the next one says so at once.
    answers_due: Mutex<BTreeMap<ObjectKey, Timestamp>>,
    contested: Contested,
}

/// Why a write to a Work did not happen.
enum Refused {
    /// The pass read stale objects, or nobody answered: start over.
    Retry(Failure),
    /// Worth telling in the status.
    PassError(PassError),
}

impl Refused {
    /// The same without what Secrets hold: a server may quote what it refuses.
    fn without_secrets(self, manifests: &[RawJson]) -> Self {
        let read: Vec<Value> = manifests.iter().filter_map(|one| one.parse().ok()).collect();
        match self {
            Self::Retry(failure) => {
                Self::Retry(Failure { why: redacted(failure.why, &read), ..failure })
            }
            Self::PassError(trouble) => {
                Self::PassError(PassError { cause: redacted(trouble.cause, &read), ..trouble })
            }
        }
    }
}

/// A write that is told by the name of its Work: manifests would be too much to say.
struct Brief(Write);

impl fmt::Debug for Brief {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a write to work {}", self.0.name())
    }
}

/// A pass that has read and planned.
struct Pass<'a> {
    seen: PassInputs,
    writer: Writer<'a, ObjectKey>,
}

impl Shell {
    pub fn new(cx: Context, mirrors: Arc<Mirrors>, recorder: Recorder) -> Self {
        let seen = PendingWrites::default();
        shown::<ClusterWide>(&seen, Some(&mirrors.cluster_wide));
        shown::<InNamespace>(&seen, mirrors.in_namespaces.as_ref());
        seen.shown_by(ResourceType::of::<Work>(), &mirrors.works.works);
        Self {
            cx,
            mirrors,
            recorder,
            seen,
            contents: Contents::default(),
            answers_due: Mutex::default(),
            contested: Contested::default(),
        }
    }

    /// One pass over a binding of the scope.
    pub async fn pass<S: Scoped>(&self, key: ObjectKey) -> Outcome {
        let caught_up = self.seen.caught_up(&key).await;
        self.look_and_write::<S>(key).await.having_caught_up(caught_up)
    }

    async fn look_and_write<S: Scoped>(&self, key: ObjectKey) -> Outcome {
        let Some(mut seen) = observe(&self.cx, &self.mirrors, &key) else {
            self.await_answer(&key, None);
            return self.outlived::<S>(&key).await.map(|()| Outcome::Done).into();
        };
        seen.observed.answer_due = self.answer_due(&key);
        let binding = &seen.observed.binding;
        let version = seen.observed.snapshots.iter().find_map(|one| one.index.as_deref());
        let trace = version.map(|version| rollout_trace(&binding.placement_key(), version));
        let cluster = Some(binding.cluster());
        About { trace: trace.as_deref(), cluster, run: None }.note();
        let mut next = plan(&seen.observed);
        if let Some(reads) = next.reads.take() {
            let read = self.contents.read::<S>(&self.cx.client, &key, &reads, &seen.snapshots);
            match read.await {
                Ok(content) => seen.observed.content = Some(content),
                Err(ClientError::Malformed(what)) => {
                    let trouble = PassError::unexpected(Stage::Override, what.to_string());
                    return self.pass_over(&key, seen).give_up::<S>(&trouble).await;
                }
                Err(error) => return Outcome::Error(error.into()),
            }
            next = plan(&seen.observed);
        }
        let mut pass = self.pass_over(&key, seen);
        let Plan { actions, events, wake, trouble, waiting, answer_due, .. } = next;
        if let Err(refused) = self.carry_out::<S>(&mut pass, actions).await {
            return match refused {
                Refused::Retry(failure) => Outcome::Error(failure),
                Refused::PassError(trouble) => pass.give_up::<S>(&trouble).await,
            };
        }
        self.await_answer(&key, answer_due);
        for event in &events {
            self.say::<S>(&pass.seen.binding, event);
        }
        if let Some(waiting) = waiting {
            tracing::debug!(%key, ?waiting, "nothing more to do now");
        }
        match (trouble, wake) {
            (Some(trouble), _) => after(&trouble),
            (None, Some(span)) => Outcome::After(Duration::try_from(span).unwrap_or_default()),
            (None, None) => Outcome::Done,
        }
    }

    /// Ends Works whose binding is gone: a hub that did not know yet has written them after
    /// the last look for them.
    async fn outlived<S: Scoped>(&self, key: &ObjectKey) -> Result<(), Failure> {
        let mut left = self.mirrors.works.all_of(key);
        // One that names no placement is not ours.
        left.retain(|(_, work)| work.value.placement.is_some());
        // The mirror of bindings may be behind; then the binding wakes its own pass.
        if left.is_empty() || self.cx.client.of::<S::Binding>().find(key).await?.is_some() {
            return Ok(());
        }
        let writer = Writer::new(&self.cx.client, &self.cx.leadership, &self.seen, key);
        for (_, work) in left {
            let name = work.value.placement.as_deref().unwrap_or_default();
            let placement = ObjectKey::new(key.namespace.as_deref(), name);
            let placement = self.mirrors.of(key).and_then(|scope| scope.placements.get(&placement));
            let says = placement.map(|kept| Placement::read(kept.deleting, &kept.value.spec));
            for write in ends_of(std::slice::from_ref(&work.value), says.as_ref()) {
                tracing::info!(binding = %key, work = write.name(), "it has outlived its binding");
                match write {
                    Write::Abandon { .. } => {
                        let patched = writer.patch::<Work>(&work.precondition, abandoned()).await;
                        ignore_not_found(patched)?;
                    }
                    _ => {
                        let how = Propagation::Background;
                        writer.delete::<Work>(&work.precondition, how).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// How long the member of a binding still has to answer.
    fn answer_due(&self, key: &ObjectKey) -> Option<SignedDuration> {
        let due = self.answers_due.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied();
        due.map(|due| due.duration_since(self.cx.env.now()).max(SignedDuration::ZERO))
    }

    /// Remembers that the status is kept back for so long, or that it is not any more.
    fn await_answer(&self, key: &ObjectKey, left: Option<SignedDuration>) {
        let mut due = self.answers_due.lock().unwrap_or_else(PoisonError::into_inner);
        match left {
            Some(left) => due.insert(
                key.clone(),
                self.cx.env.now().saturating_add(left).unwrap_or(Timestamp::MAX),
            ),
            None => due.remove(key),
        };
    }

    fn pass_over<'a>(&'a self, key: &'a ObjectKey, seen: PassInputs) -> Pass<'a> {
        let writer = Writer::new(&self.cx.client, &self.cx.leadership, &self.seen, key);
        Pass { seen, writer }
    }

    async fn carry_out<S: Scoped>(
        &self,
        pass: &mut Pass<'_>,
        actions: Vec<Action>,
    ) -> Result<(), Refused> {
        let mut writes = Vec::new();
        let mut last = Vec::new();
        for action in actions {
            match action {
                Action::AddFinalizer => {
                    let patch = with_finalizer(&pass.seen.finalizers, finalizer::WORK);
                    pass.patch::<S>(patch).await?;
                }
                Action::Work(write) => writes.push(Brief(write)),
                Action::Status(_) | Action::RemoveFinalizer => last.push(action),
            }
        }
        let written = carry_out_in_groups(vec![writes], AT_ONCE, async |Brief(write)| {
            self.write(pass, write).await
        });
        written.await.map_err(|stopped| stopped.error)?;
        for action in last {
            match action {
                Action::Status(status) => pass.tell::<S>(&status).await?,
                _ => {
                    self.none_left(pass).await?;
                    let patch = without_finalizer(&pass.seen.finalizers, finalizer::WORK);
                    pass.patch::<S>(patch).await?;
                }
            }
        }
        Ok(())
    }

    /// Asks the server itself before the last tie to the member is cut: a mirror that is
    /// behind must not leave a Work that nobody answers for.
    async fn none_left(&self, pass: &Pass<'_>) -> Result<(), Refused> {
        let binding = &pass.seen.binding.key;
        let space = pass.seen.observed.binding.member_namespace();
        let labels = format!("{}={}", label::PARENT_BINDING, binding.name);
        let works = self.cx.client.of_type(ResourceType::of::<Work>()).metadata_only();
        let listed = works.list(&Selection::namespace(&space).with_labels(labels)).await;
        let listed: Listed<PartialObjectMeta<Work>> =
            listed.map_err(|error| Refused::Retry(error.into()))?;
        let ours = |work: &PartialObjectMeta<Work>| {
            owner(&work.metadata).is_some_and(|owner| {
                ObjectKey::new(Some(&owner.namespace), &owner.name) == *binding
            })
        };
        if listed.items.iter().any(ours) {
            return Err(Refused::Retry(Failure::reread("a work was not seen yet")));
        }
        Ok(())
    }

    async fn write(&self, pass: &Pass<'_>, write: Write) -> Result<(), Refused> {
        let stage = write.stage();
        let refused = |error| refusal(stage, error);
        let known = pass.seen.works.get(write.name());
        let unknown = || Refused::Retry(Failure::reread("a work is not known any more"));
        let (mut carried, mut carries) = (Vec::new(), None);
        let (patch, precondition) = match write {
            Write::Create(new) => {
                let object = new.object();
                return match pass.writer.create(&object).await {
                    Ok(Made::New(_)) => Ok(()),
                    Ok(Made::Existed) => Err(self.occupied(pass, &object).await),
                    // All that can be missing is the namespace.
                    Err(ClientError::NotFound { .. }) => {
                        let space = pass.seen.observed.binding.member_namespace();
                        let cause = format!("namespaces \"{space}\" not found");
                        Err(Refused::PassError(PassError::refused(stage, cause)))
                    }
                    Err(error) => {
                        Err(refused(error).without_secrets(&object.spec.workload.manifests))
                    }
                };
            }
            Write::Delete { .. } => {
                let (precondition, _) = known.ok_or_else(unknown)?;
                let deleted =
                    pass.writer.delete::<Work>(precondition, Propagation::Background).await;
                return deleted.map(drop).map_err(refused);
            }
            Write::Update { stamp, manifests, strategies, to_abandon, .. } => {
                let (precondition, had) = known.ok_or_else(unknown)?;
                if let Some(wait) = self.contested.wait(&precondition.key, &stamp) {
                    let why =
                        format!("work {} was changed back by somebody else", precondition.key);
                    let action = ErrorAction::BackOff { after: Some(wait) };
                    return Err(Refused::Retry(Failure::new(action, why)));
                }
                let mut patch = stamped(&stamp, to_abandon);
                carries = Some(stamp);
                patch["spec"] = difference(&json!(had), &json!(strategies));
                let listed = Some(&manifests).filter(|manifests| !manifests.is_empty());
                patch["spec"]["workload"] = json!({"manifests": listed});
                carried = manifests;
                (patch, precondition)
            }
            Write::Note { stamp, to_abandon, .. } => {
                let (precondition, _) = known.ok_or_else(unknown)?;
                (stamped(&stamp, to_abandon), precondition)
            }
            Write::Steer { strategies, to_abandon, .. } => {
                let (precondition, had) = known.ok_or_else(unknown)?;
                let mut patch = json!({"metadata": {"annotations": policy(to_abandon)}});
                patch["spec"] = difference(&json!(had), &json!(strategies));
                (patch, precondition)
            }
            Write::Abandon { .. } => {
                let (precondition, _) = known.ok_or_else(unknown)?;
                (abandoned(), precondition)
            }
        };
        let patched = pass.writer.patch::<Work>(precondition, patch).await;
        if let (Ok(_), Some(stamp)) = (&patched, carries) {
            self.contested.written(&precondition.key, stamp);
        }
        patched.map(drop).map_err(|error| refused(error).without_secrets(&carried))
    }

    /// A name that is taken: by us, and the mirror is behind, or by somebody else.
    async fn occupied(&self, pass: &Pass<'_>, wanted: &Work) -> Refused {
        let name = wanted.metadata.name.as_deref().unwrap_or_default();
        let works = self.cx.client.of_type(ResourceType::of::<Work>()).metadata_only();
        let key = ObjectKey::new(wanted.metadata.namespace.as_deref(), name);
        let found: Option<PartialObjectMeta<Work>> = match works.find(&key).await {
            Ok(found) => found,
            Err(error) => return Refused::Retry(error.into()),
        };
        let Some(found) = found else {
            return Refused::Retry(Failure::reread(format!("work {name} is gone again")));
        };
        let theirs = owner(&found.metadata);
        if theirs == owner(&wanted.metadata) {
            return Refused::Retry(Failure::reread(format!("work {name} exists already")));
        }
        tracing::warn!(binding = %pass.seen.binding.key, work = name, "the name is taken");
        let theirs = theirs.map(|owner| ObjectKey::new(Some(&owner.namespace), &owner.name));
        let theirs = theirs.map(|owner| owner.to_string());
        Refused::PassError(PassError::occupied(name, theirs.as_deref()))
    }

    fn say<S: Scoped>(&self, binding: &Precondition, event: &Event) {
        let key = &binding.key;
        let about = reference::<S::Binding>(key.namespace.as_deref(), &key.name, &binding.uid);
        let sort = if event.warning { EventType::Warning } else { EventType::Normal };
        self.recorder.note_about(about, sort, &event.reason, &event.message);
    }
}

impl Pass<'_> {
    async fn patch<S: Scoped>(&mut self, patch: Value) -> Result<(), Refused> {
        let patched = self.writer.patch::<S::Binding>(&self.seen.binding, patch).await;
        let patched = ignore_not_found(patched).map_err(|error| Refused::Retry(error.into()))?;
        patched.iter().for_each(|object| self.moved_on(object));
        Ok(())
    }

    async fn tell<S: Scoped>(&mut self, status: &ResourceBindingStatus) -> Result<(), Refused> {
        let patch = json!({"status": every_field(status)});
        let written = self.writer.patch_status::<S::Binding>(&self.seen.binding, patch).await;
        let written = ignore_not_found(written).map_err(|error| Refused::Retry(error.into()))?;
        written.iter().for_each(|object| self.moved_on(object));
        Ok(())
    }

    /// Says in the status what stands in the way.
    async fn give_up<S: Scoped>(&mut self, trouble: &PassError) -> Outcome {
        if !self.seen.observed.binding.deleting
            && let Some(status) = after_failure(&self.seen.observed, trouble)
            && let Err(Refused::Retry(failure)) = self.tell::<S>(&status).await
        {
            return Outcome::Error(failure);
        }
        after(trouble)
    }

    /// Our own write is no reason for the next one to fail.
    fn moved_on(&mut self, object: &impl Resource) {
        self.seen.binding = Precondition::of(object).unwrap_or_else(|| self.seen.binding.clone());
    }
}

/// When to look again after trouble.
fn after(trouble: &PassError) -> Outcome {
    match trouble.retry {
        Retry::Never => {
            tracing::info!(why = %trouble, "waiting until somebody changes something");
            Outcome::Done
        }
        Retry::BackOff => Outcome::Error(Failure::back_off(trouble.to_string())),
        Retry::After(span) => Outcome::After(Duration::try_from(span).unwrap_or_default()),
    }
}

/// What a failed write means: whether people should know, or only we.
fn refusal(stage: Stage, error: ClientError) -> Refused {
    match error {
        ClientError::Invalid { message, .. }
        | ClientError::Forbidden { message, .. }
        | ClientError::Refused { message, .. }
        | ClientError::ServerFailed { code: 500, message, .. } => {
            Refused::PassError(PassError::refused(stage, message))
        }
        error => Refused::Retry(error.into()),
    }
}

/// Labels and annotations of a Work that is there already; what does not apply goes.
fn stamped(stamp: &Stamp, to_abandon: bool) -> Value {
    let mut notes = policy(to_abandon);
    for (key, value) in stamp.annotations() {
        notes[key] = json!(value);
    }
    for key in [own::RENDERED_INPUTS_HASH, own::MANIFESTS_HASH] {
        if notes.get(key).is_none() {
            notes[key] = Value::Null;
        }
    }
    json!({"metadata": {"labels": stamp.labels(), "annotations": notes}})
}

/// Tells the member to keep what it has.
fn abandoned() -> Value {
    json!({"metadata": {"annotations": {own::ABANDONED: "true"}}})
}

/// What becomes of the content when the placement is deleted.
fn policy(to_abandon: bool) -> Value {
    json!({own::DELETE_POLICY: to_abandon.then_some(ABANDON)})
}

/// A status for a merge patch. Empty lists are left out of statuses, and a patch would
/// keep what was there, so they are named.
fn every_field(status: &ResourceBindingStatus) -> Value {
    let mut fields = json!(status);
    for field in ["failedPlacements", "driftedPlacements", "diffedPlacements", "conditions"] {
        if fields.get(field).is_none() {
            fields[field] = Value::Null;
        }
    }
    fields
}

/// Names the mirrors that show our writes.
fn shown<S: Scoped>(seen: &PendingWrites<ObjectKey>, mirrors: Option<&ScopeMirrors>) {
    if let Some(mirrors) = mirrors {
        seen.shown_by(ResourceType::of::<S::Binding>(), &mirrors.bindings);
    }
}
