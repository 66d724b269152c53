//! One pass over one run: read, plan, write.
//!
//! What was asked and answered is written first, then the run's own record, then the
//! bindings that the record promises, side by side. Entries of the rollout record are stored
//! before bindings, where nothing is lost side by side with the run's status. The first failure
//! ends the pass, and the next one starts from what is stored then. People are told when all is
//! written, or as much of it as makes the rest come true.
//!
//! What a pass decides is in `flagship_rules::update_run`; why it runs, in `triggers`.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flagship_api::condition::{Condition, Conditions};
use flagship_api::condition_type::updating_cluster::STARTED;
use flagship_api::keys::{field_manager, finalizer, label, own};
use flagship_api::names::{ObjectKey, member_namespace, rollout_trace};
use flagship_api::reason::update_run::STUCK;
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_rules::event::Event;
use flagship_rules::model::Binding;
use flagship_rules::policy::quarantine::Quarantine;
use flagship_rules::record::Recording;
use flagship_rules::update_run::{
    AcceptApproval, Action, CLUSTER_POLL, CreateApprovalRequest, CreateRollback, DatesAhead,
    DeleteBinding, DeleteForeignRequest, Observed, Plan, SignalStart, TAKEN_OVER, UpdateBinding,
    laws, lifecycle, needs_current_run, needs_fresh_reads, plan, refused, rounds, run_unreadable,
};
use flagship_rules::work::Work;
use flagship_runtime::client::{Client, ClientError, Precondition, Propagation, ResourceType};
use flagship_runtime::effects::{Made, PendingWrites, Writer, carry_out_in_groups};
use flagship_runtime::error_action::Failure;
use flagship_runtime::events::{EventType, Recorder};
use flagship_runtime::queue::{About, Outcome};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use kube_core::metadata::PartialObjectMeta;
use serde_json::json;

use super::fresh_reads::observe_fresh;
use super::metrics::StatusSeries;
use super::observe::{Departed, PassInputs, observe};
use super::policies;
use super::records::Records;
use super::triggers::ROW;
use crate::hub::Context;
use crate::malformed_events::cause;
use crate::mirrors::{Mirrors, Run, ScopeMirrors};
use crate::patches::{
    DeliveryMarks, difference, ignore_not_found, reference, with_finalizer, without_finalizer,
};
use crate::per_placement::{PerPlacement, PlacedKey};
use crate::placement::{Selectable, delete_all, write_snapshot};
use crate::scope::{Parts, Scoped};
use crate::status_cost::StatusCost;
use crate::unreadable::{Telling, refuse};

/// Bindings that are written at once.
const AT_ONCE: usize = 20;

/// Carries out the plans of the runs of one scope.
pub(super) struct Shell<S: Scoped> {
    cx: Context,
    mirrors: Arc<Mirrors>,
    scope: ScopeMirrors,
    selectable: Arc<Selectable>,
    queue: PerPlacement,
    recorder: Recorder,
    /// Says to `managedFields` who put the finalizer there.
    finalizer_client: Client,
    seen: PendingWrites<PlacedKey>,
    departed: Departed,
    series: StatusSeries,
    /// What writing the record of a run costs.
    pub cost: StatusCost,
    /// What the last pass over each run had to tell, so that it is told once.
    told: Mutex<BTreeMap<PlacedKey, BTreeSet<Told>>>,
    /// UIDs of runs whose record is dated later than the clock.
    dates_ahead: Mutex<BTreeMap<String, DatesAhead>>,
    /// What happened in runs.
    records: Records,
    /// UIDs of runs, and the last resource snapshot index that they asked for.
    asked: Mutex<BTreeMap<ObjectKey, (String, String)>>,
    of: PhantomData<fn() -> S>,
}

/// Something people were told: about which request, or the run itself; why; in which words.
type Told = (Option<String>, String, String);

/// A pass that has read and planned.
struct Pass<'a> {
    seen: PassInputs,
    writer: Writer<'a, PlacedKey>,
    finalizer_writer: Writer<'a, PlacedKey>,
    /// Whether the run's record is written.
    recorded: bool,
}

/// What is done to one binding.
#[derive(Debug)]
enum Touch {
    Update(Option<Box<UpdateBinding>>, Option<SignalStart>),
    DeleteBinding(DeleteBinding),
}

impl<S: Scoped> Shell<S> {
    pub fn new(
        cx: &Context,
        mirrors: &Arc<Mirrors>,
        scope: &ScopeMirrors,
        selectable: &Arc<Selectable>,
        queue: &PerPlacement,
        recorder: Recorder,
    ) -> Self {
        let seen = PendingWrites::default();
        seen.shown_by(ResourceType::of::<S::UpdateRun>(), &scope.runs.runs);
        seen.shown_by(ResourceType::of::<S::ApprovalRequest>(), &scope.runs.approvals);
        seen.shown_by(ResourceType::of::<S::Binding>(), &scope.bindings);
        seen.shown_by(ResourceType::of::<S::ResourceSnapshot>(), &scope.resources);
        Self {
            cx: cx.clone(),
            mirrors: mirrors.clone(),
            scope: scope.clone(),
            selectable: selectable.clone(),
            queue: queue.clone(),
            recorder,
            finalizer_client: cx.client.named(field_manager::UPDATE_RUN),
            seen,
            departed: Departed::default(),
            series: StatusSeries::new(&cx.metrics),
            cost: StatusCost::new(ROW),
            told: Mutex::default(),
            dates_ahead: Mutex::default(),
            records: Records::default(),
            asked: Mutex::default(),
            of: PhantomData,
        }
    }

    /// One pass.
    pub async fn pass(&self, key: PlacedKey) -> Result<Outcome, Failure> {
        let (run, begun) = (key.object.clone(), self.cx.env.now());
        tracing::debug!(%run, "a pass begins");
        let caught_up = self.seen.caught_up(&key).await;
        let ended = self.look_and_act(key).await;
        let ended = ended.map(|outcome| outcome.having_caught_up(caught_up));
        let took = self.cx.env.now().duration_since(begun);
        tracing::debug!(%run, ?took, "a pass has ended");
        ended
    }

    async fn look_and_act(&self, key: PlacedKey) -> Result<Outcome, Failure> {
        if let Some(problem) = self.scope.runs.runs.malformed(&key.object) {
            let draft = |told: &[Condition]| run_unreadable(told, &problem.field, cause(&problem));
            let (telling, run) = (Telling { draft, anew: &[] }, &key.object);
            let writer = Writer::new(&self.cx.client, &self.cx.leadership, &self.seen, &key);
            refuse::<S::UpdateRun, _>(&self.cx, &writer, run, &problem, telling).await?;
            // A status that is mended leaves the generation as it is, which wakes nobody.
            return Ok(Outcome::After(Duration::try_from(CLUSTER_POLL).unwrap_or_default()));
        }
        let run =
            self.scope.runs.runs.get(&key.object).filter(|run| run.placement == key.placement);
        let Some(run) = run else {
            self.forget(&key);
            return Ok(Outcome::Done);
        };
        let version = &run.value.status.resource_snapshot_index_used;
        let trace = rollout_trace(&run.value.placement_key(), version);
        let trace = (!version.is_empty()).then_some(trace.as_str());
        About { trace, run: Some(&run.value.name), cluster: None }.note();
        let (seen, plan) = self.decide(&run).await?;
        if needs_current_run(&seen.observed, &plan) && !self.is_current(&run).await? {
            return Err(Failure::back_off("the run has changed and is not mirrored yet"));
        }
        // What could not be read is missing here, and laws would take it for absent.
        if cfg!(debug_assertions) && seen.observed.unreadable.is_none() {
            assert_lawful(&seen.observed, &plan, &self.works_of(&seen));
        }
        match &plan.series {
            Some(series) => self.series.tell(&key.object, series, self.cx.env.now()),
            None if seen.observed.run.deleting => self.forget(&key),
            None => {}
        }
        let writer = |client| Writer::new(client, &self.cx.leadership, &self.seen, &key);
        let (own, finalizer_writer) = (writer(&self.cx.client), writer(&self.finalizer_client));
        let mut pass = Pass { seen, writer: own, finalizer_writer, recorded: false };
        let Plan { actions, mut events, on_requests, measured, wake, trouble, asks, .. } = plan;
        let carried_out = self.carry_out(&mut pass, actions).await;
        if carried_out.is_err() {
            if !pass.recorded {
                return carried_out.map(|()| Outcome::Done);
            }
            // What the record says is so, and no later pass would find it new. What was to
            // follow is told when it is done.
            events.retain(|event| event.reason != TAKEN_OVER);
        }
        self.tell(&key, &pass.seen.observed, &events, &on_requests);
        measured.iter().for_each(|measured| self.series.measure(&key.object, measured));
        carried_out?;
        let uid = &pass.seen.observed.run.uid;
        self.cx.checks.want(uid, asks, self.cx.env.now(), (&self.queue, &key));
        if let Some(trouble) = trouble {
            return Err(Failure::back_off(trouble.to_string()));
        }
        match wake.map(|wake| Duration::try_from(wake).unwrap_or_default()) {
            None => Ok(Outcome::Done),
            Some(Duration::ZERO) => {
                // At once, and with a fresh back-off: this is progress, not trouble.
                self.queue.add(key);
                Ok(Outcome::Done)
            }
            Some(wake) => Ok(Outcome::After(wake)),
        }
    }

    /// Whether the mirror shows the run as the server has it.
    async fn is_current(&self, run: &Run) -> Result<bool, Failure> {
        let runs = self.cx.client.of_type(ResourceType::of::<S::UpdateRun>()).metadata_only();
        let found: Option<PartialObjectMeta<S::UpdateRun>> =
            runs.find(&run.precondition.key).await?;
        let found = found.as_ref().and_then(Precondition::of);
        Ok(found.is_some_and(|found| found == run.precondition))
    }

    /// The Works behind the bindings of a run, where they are as old as these: a binding
    /// that works says so because its Works here do. And those of its checks.
    fn works_of(&self, seen: &PassInputs) -> Vec<Work> {
        let bindings = seen.observed.bindings.iter().filter(|_| !seen.fresh);
        let works = bindings.flat_map(|binding| {
            let key = seen.observed.run.beside(&binding.name);
            self.mirrors.works.of(&key, &member_namespace(binding.cluster()))
        });
        let checks = self.mirrors.works.of_checks(&seen.run.uid);
        works.chain(checks).map(|(_, work)| work.value.clone()).collect()
    }

    /// Decides on the mirrors, and once more on fresh reads where that is not enough.
    async fn decide(&self, run: &Run) -> Result<(PassInputs, Plan), Failure> {
        let asked_index = self.asked(run);
        let dates_ahead = self.dates_ahead(run);
        let planned = |mut seen: PassInputs| {
            seen.observed.run.asked_index.clone_from(&asked_index);
            seen.observed.dates_ahead.clone_from(&dates_ahead);
            // Reading may have taken long, and what is decided now is dated now.
            seen.observed.now = self.cx.env.now();
            seen.observed.policy.checks = self.cx.checks.standings(&run.precondition.uid);
            let plan = plan(&seen.observed);
            (seen, plan)
        };
        if run.rival.ended || run.value.deleting || !run.value.has_finalizer {
            self.records.forget(&run.precondition.uid);
            return Ok(planned(PassInputs::alone(&self.cx, run)));
        }
        if run.value.is_initialized() {
            let members = &self.mirrors.members;
            let mut seen = observe(&self.cx, members, &self.scope, &self.departed, run);
            policies::complete::<S>(&self.cx, &self.mirrors, run, &mut seen).await?;
            self.records.complete::<S>(&self.cx, &self.mirrors, run, &mut seen).await?;
            let (seen, plan) = planned(seen);
            if !needs_fresh_reads(&seen.observed, &plan) {
                return Ok((seen, plan));
            }
        }
        let mut seen =
            observe_fresh::<S>(&self.cx, &self.scope, &self.selectable, &self.departed, run)
                .await?;
        policies::complete::<S>(&self.cx, &self.mirrors, run, &mut seen).await?;
        self.records.complete::<S>(&self.cx, &self.mirrors, run, &mut seen).await?;
        Ok(planned(seen))
    }

    /// Dates of the run's record that are later than the clock.
    fn dates_ahead(&self, run: &Run) -> DatesAhead {
        let uid = &run.precondition.uid;
        let mut all = self.dates_ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ahead = all.remove(uid).unwrap_or_default();
        ahead.notice(&run.value.status, self.cx.env.now());
        if !ahead.is_empty() && !run.value.deleting {
            all.insert(uid.clone(), ahead.clone());
        }
        ahead
    }

    /// The last index that this hub has seen in the run's spec.
    fn asked(&self, run: &Run) -> Option<String> {
        let index = &run.value.spec.resource_snapshot_index;
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if !index.is_empty() {
            asked.insert(
                run.precondition.key.clone(),
                (run.precondition.uid.clone(), index.clone()),
            );
        }
        let (uid, index) = asked.get(&run.precondition.key)?;
        (*uid == run.precondition.uid).then(|| index.clone())
    }

    async fn carry_out(&self, pass: &mut Pass<'_>, actions: Vec<Action>) -> Result<(), Failure> {
        for round in rounds(actions) {
            let mut touches: Vec<Touch> = Vec::new();
            let mut entries = None;
            for action in round {
                match (action, touches.last_mut()) {
                    (Action::UpdateBinding(deliver), _) => {
                        touches.push(Touch::Update(Some(deliver), None));
                    }
                    (
                        Action::SignalStart(signal),
                        Some(Touch::Update(Some(deliver), own @ None)),
                    ) if deliver.binding == signal.binding => {
                        *own = Some(signal);
                    }
                    (Action::SignalStart(signal), _) => {
                        touches.push(Touch::Update(None, Some(signal)));
                    }
                    (Action::DeleteBinding(withdraw), _) => {
                        touches.push(Touch::DeleteBinding(withdraw));
                    }
                    (Action::Record(recording), _) => entries = Some(*recording),
                    (action, _) if action.is_on_run() => {
                        let entries = entries.take();
                        self.write_run(pass, action, entries).await?;
                    }
                    (action, _) => self.act(pass, action).await?,
                }
            }
            let pass = &*pass;
            if let Some(entries) = entries {
                self.add_entries(pass, entries).await?;
            }
            carry_out_in_groups(vec![touches], AT_ONCE, async |touch| {
                self.touch(pass, touch).await
            })
            .await?;
        }
        Ok(())
    }

    /// Adds entries to the rollout record.
    async fn add_entries(&self, pass: &Pass<'_>, entries: Recording) -> Result<(), Failure> {
        let (run, writer) = (&pass.seen.observed.run, &pass.writer);
        self.records.write::<S>(&self.cx, &self.scope, writer, run, entries).await?;
        let grown = (run.namespace.clone(), run.uid.clone());
        self.cx.notices.grown(&self.mirrors, &grown);
        Ok(())
    }

    /// Writes to the run over the version that was read, with the entries that go beside it.
    async fn write_run(
        &self,
        pass: &mut Pass<'_>,
        action: Action,
        entries: Option<Recording>,
    ) -> Result<(), Failure> {
        let is_status = matches!(action, Action::Status(_));
        let reading = &*pass;
        let written = async {
            let annotate = async |key: &str, text: Option<String>| {
                let patch = json!({"metadata": {"annotations": {key: text}}});
                Ok(reading.writer.patch::<S::UpdateRun>(&reading.seen.run, patch).await?)
            };
            match action {
                Action::Adopt(adopted) => {
                    let text = (!adopted.is_empty()).then(|| serde_json::to_string(&adopted));
                    let text = text.transpose();
                    let text = text.map_err(|error| Failure::back_off(error.to_string()))?;
                    annotate(own::ADOPTED_POLICIES, text).await
                }
                Action::AnnounceWrites(announced) => {
                    let text = announced.to_text(&reading.seen.run.uid);
                    annotate(own::ANNOUNCED_WRITES, Some(text)).await
                }
                Action::Status(status) => self.record(reading, *status).await,
                _ => Err(Failure::reread("no write to the run")),
            }
        };
        let beside = async {
            match entries {
                Some(entries) => self.add_entries(reading, entries).await,
                None => Ok(()),
            }
        };
        let (added, written) = futures::future::join(beside, written).await;
        if let Ok(written) = &written {
            pass.recorded |= is_status;
            pass.seen.run = Precondition::of(written).unwrap_or_else(|| pass.seen.run.clone());
        }
        added?;
        written.map(|_| ())
    }

    async fn act(&self, pass: &mut Pass<'_>, action: Action) -> Result<(), Failure> {
        let name = &pass.seen.observed.run.name;
        match action {
            Action::AddFinalizer => {
                let patch = with_finalizer(&pass.seen.finalizers, finalizer::UPDATE_RUN);
                pass.finalizer_writer.patch::<S::UpdateRun>(&pass.seen.run, patch).await?;
            }
            Action::RemoveFinalizer => {
                let patch = without_finalizer(&pass.seen.finalizers, finalizer::UPDATE_RUN);
                let freed = pass.writer.patch::<S::UpdateRun>(&pass.seen.run, patch).await;
                ignore_not_found(freed)?;
            }
            Action::DeleteApprovalRequests => {
                let labels = format!("{}={name}", label::TARGET_UPDATE_RUN);
                let namespace = pass.seen.run.key.namespace.as_deref();
                delete_all::<S::ApprovalRequest, _>(
                    &self.cx.client,
                    &pass.writer,
                    namespace,
                    labels,
                )
                .await?;
            }
            Action::Resources(action) => {
                let PassInputs { observed, resources, .. } = &mut pass.seen;
                let Some(placement) = &observed.placement else {
                    return Err(Failure::reread("the placement is gone"));
                };
                let selection = observed.selection.as_ref().and_then(|found| found.as_ref().ok());
                let writer = &pass.writer;
                write_snapshot::<S, _>(writer, resources, placement, selection, action).await?;
            }
            Action::CreateApprovalRequest(ask) => self.ask(pass, &ask).await?,
            Action::Quarantine(note) => self.quarantine(pass, &note).await?,
            Action::CreateRollback(create) => self.take_back(pass, &create).await?,
            Action::AcceptApproval(accept) => self.accept(pass, &accept).await?,
            Action::DeleteForeignRequest(dismiss) => self.dismiss(pass, &dismiss).await?,
            // `carry_out` does these, several of them side by side.
            Action::Record(_)
            | Action::Adopt(_)
            | Action::AnnounceWrites(_)
            | Action::Status(_)
            | Action::UpdateBinding(_)
            | Action::SignalStart(_)
            | Action::DeleteBinding(_) => {}
        }
        Ok(())
    }

    /// Asks a person.
    async fn ask(&self, pass: &Pass<'_>, ask: &CreateApprovalRequest) -> Result<(), Failure> {
        let run = &pass.seen.observed.run;
        tracing::info!(run = %pass.seen.run.key, request = ask.name, "asking for approval");
        let request = S::ApprovalRequest::new(ask.metadata(run), ask.spec(run));
        match pass.writer.create(&request).await? {
            Made::New(_) => Ok(()),
            // Whoever made it: the next pass looks at it.
            Made::Existed => Err(Failure::reread(format!("{} exists already", ask.name))),
        }
    }

    /// Notes on the snapshot that the run brings that its content must not be rolled out.
    async fn quarantine(&self, pass: &Pass<'_>, note: &Quarantine) -> Result<(), Failure> {
        let run = &pass.seen.observed.run;
        let index = &run.status.resource_snapshot_index_used;
        let known = self.scope.resources_of(&run.placement_key());
        let master = known.into_iter().find(|snapshot| {
            let value = &snapshot.value;
            value.index.as_ref() == Some(index) && value.hash.as_ref() == Some(&note.hash)
        });
        let Some(master) = master else {
            return Err(Failure::reread(format!("resource snapshot {index} is gone")));
        };
        tracing::warn!(run = %pass.seen.run.key, index, reason = note.reason, "quarantined");
        let patch = json!({"metadata": {"annotations": {own::QUARANTINED: note.to_text()}}});
        pass.writer.patch::<S::ResourceSnapshot>(&master.precondition, patch).await?;
        Ok(())
    }

    /// Creates the run that takes this one back.
    async fn take_back(&self, pass: &Pass<'_>, create: &CreateRollback) -> Result<(), Failure> {
        let run = &pass.seen.observed.run;
        tracing::info!(run = %pass.seen.run.key, rollback = create.name, "rolling back");
        let rollback = S::UpdateRun::new(create.metadata(run), create.spec.clone());
        match pass.writer.create(&rollback).await? {
            Made::New(_) => Ok(()),
            // Whoever made it: the next pass looks at it.
            Made::Existed => Err(Failure::reread(format!("{} exists already", create.name))),
        }
    }

    /// Takes note of an approval, for good.
    async fn accept(&self, pass: &Pass<'_>, accept: &AcceptApproval) -> Result<(), Failure> {
        tracing::info!(run = %pass.seen.run.key, request = accept.request, "approval accepted");
        let mut requests = pass.seen.observed.approvals.iter();
        let found = requests.find(|request| request.name == accept.request);
        let mut conditions = found.map(|found| found.conditions.clone()).unwrap_or_default();
        accept.answer(&mut conditions, self.cx.env.now());
        let precondition = Precondition {
            key: pass.seen.observed.run.beside(&accept.request),
            uid: accept.uid.clone(),
            resource_version: accept.resource_version.clone(),
        };
        let patch = json!({"status": {"conditions": conditions}});
        pass.writer.patch_status::<S::ApprovalRequest>(&precondition, patch).await?;
        Ok(())
    }

    /// Deletes what an earlier run of the name has left behind. That this run lives is asked
    /// after the request was read: a hub that has slept through the deletion of the run would
    /// take the request of its successor for an old one.
    async fn dismiss(
        &self,
        pass: &Pass<'_>,
        dismiss: &DeleteForeignRequest,
    ) -> Result<(), Failure> {
        let run = &pass.seen.run;
        let now = self.cx.client.of::<S::UpdateRun>().find(&run.key).await?;
        if now.is_none_or(|now| now.meta().uid.as_deref() != Some(&run.uid)) {
            return Err(Failure::reread(format!("{} is gone", run.key)));
        }
        tracing::info!(run = %run.key, request = dismiss.request, "deleting an old request");
        let precondition = Precondition {
            key: pass.seen.observed.run.beside(&dismiss.request),
            uid: dismiss.uid.clone(),
            resource_version: dismiss.resource_version.clone(),
        };
        pass.writer.delete::<S::ApprovalRequest>(&precondition, Propagation::Background).await?;
        Ok(())
    }

    /// Writes the status over the version that was read.
    async fn record(
        &self,
        pass: &Pass<'_>,
        status: UpdateRunStatus,
    ) -> Result<PartialObjectMeta<S::UpdateRun>, Failure> {
        let Precondition { key, uid, resource_version } = &pass.seen.run;
        let metadata = ObjectMeta {
            name: Some(key.name.clone()),
            namespace: key.namespace.clone(),
            uid: Some(uid.clone()),
            resource_version: Some(resource_version.clone()),
            ..ObjectMeta::default()
        };
        let observed = &pass.seen.observed;
        let object = |status| {
            let spec = observed.run.spec.clone();
            S::UpdateRun::new(metadata.clone(), spec).with_status(status)
        };
        let rows = status.stages_status.iter().map(|stage| stage.clusters.len()).sum();
        let recorded = object(status.clone());
        let written = match self.cost.of(rows, pass.writer.update_status(&recorded)).await {
            Err(ClientError::Invalid { message, .. } | ClientError::Refused { message, .. })
                if !observed.run.is_initialized() =>
            {
                let told = refused(observed, &status, &message);
                pass.writer.update_status(&object(told)).await?
            }
            other => other?,
        };
        Ok(written)
    }

    /// Does to a binding what the record promised.
    async fn touch(&self, pass: &Pass<'_>, touch: Touch) -> Result<(), ClientError> {
        let observed = &pass.seen.observed;
        let precondition = |binding: &str, uid: &str, version: &str| Precondition {
            key: observed.run.beside(binding),
            uid: uid.to_owned(),
            resource_version: version.to_owned(),
        };
        match touch {
            Touch::DeleteBinding(DeleteBinding { binding, uid, resource_version }) => {
                tracing::info!(run = %pass.seen.run.key, binding, "deleting the binding");
                let precondition = precondition(&binding, &uid, &resource_version);
                pass.writer.delete::<S::Binding>(&precondition, Propagation::Background).await?;
            }
            Touch::Update(None, None) => {}
            Touch::Update(None, Some(signal)) => {
                let precondition =
                    precondition(&signal.binding, &signal.uid, &signal.resource_version);
                let Some(found) = binding_of(observed, &signal.binding) else { return Ok(()) };
                self.signal(
                    pass,
                    &precondition,
                    &signal,
                    found.generation,
                    &found.status.conditions,
                )
                .await?;
            }
            Touch::Update(Some(deliver), signal) => {
                let precondition =
                    precondition(&deliver.binding, &deliver.uid, &deliver.resource_version);
                let Some(found) = binding_of(observed, &deliver.binding) else { return Ok(()) };
                tracing::info!(
                    run = %pass.seen.run.key,
                    binding = deliver.binding,
                    snapshot = deliver.spec.resource_snapshot_name,
                    "writing the binding"
                );
                let mut annotated = ObjectMeta::default();
                deliver.fence.to_api().leave_on(&mut annotated);
                let mut patch = json!({
                    "metadata": {"annotations": annotated.annotations},
                    "spec": difference(&json!(found.spec), &json!(deliver.spec)),
                });
                let (options, now) = (&self.cx.options, self.cx.env.now());
                let marks = DeliveryMarks::of(found, &deliver.spec, options, |conditions, at| {
                    signal.iter().for_each(|signal| signal.give(conditions, at.0, now));
                });
                let signal = signal.filter(|_| !marks.signalled);
                marks.add_to(&mut patch);
                let written = pass.writer.patch::<S::Binding>(&precondition, patch).await?;
                if let (Some(signal), Some(precondition)) = (signal, Precondition::of(&written)) {
                    let generation = written.metadata.generation.unwrap_or_default();
                    // The precondition held, so the status is still the one that was seen.
                    self.signal(pass, &precondition, &signal, generation, &found.status.conditions)
                        .await?;
                }
            }
        }
        Ok(())
    }

    /// Gives the start signal in a binding's status.
    async fn signal(
        &self,
        pass: &Pass<'_>,
        precondition: &Precondition,
        signal: &SignalStart,
        generation: i64,
        conditions: &[Condition],
    ) -> Result<(), ClientError> {
        let mut conditions = conditions.to_vec();
        signal.give(&mut conditions, generation, self.cx.env.now());
        let patch = json!({"status": {"conditions": conditions}});
        pass.writer.patch_status::<S::Binding>(precondition, patch).await?;
        Ok(())
    }

    /// Tells people what they were not told by the pass before.
    fn tell(
        &self,
        key: &PlacedKey,
        observed: &Observed,
        events: &[Event],
        on_requests: &[(String, Event)],
    ) {
        let run = &observed.run;
        let namespace = run.namespace.as_deref();
        let on_run = events.iter().map(|event| (None, event));
        let on_requests = on_requests.iter().map(|(request, event)| (Some(request), event));
        let mut now_told = BTreeSet::new();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let before = told.remove(key).unwrap_or_default();
        for (request, event) in on_run.chain(on_requests) {
            let words = (request.cloned(), event.reason.clone(), event.message.clone());
            let about = match request {
                None => Some(reference::<S::UpdateRun>(namespace, &run.name, &run.uid)),
                Some(name) => observed
                    .approvals
                    .iter()
                    .find(|found| found.name == *name)
                    .map(|found| reference::<S::ApprovalRequest>(namespace, name, &found.uid)),
            };
            if let (Some(about), false) = (about, before.contains(&words)) {
                self.say(about, event);
                if event.reason == STUCK {
                    self.say_how_long(observed);
                }
            }
            now_told.insert(words);
        }
        if !now_told.is_empty() {
            told.insert(key.clone(), now_told);
        }
    }

    fn say(&self, about: ObjectReference, event: &Event) {
        let (name, Event { reason, message, .. }) = (about.name.as_deref(), event);
        let sort = if event.warning {
            tracing::warn!(name, reason, "{message}");
            EventType::Warning
        } else {
            tracing::info!(name, reason, "{message}");
            EventType::Normal
        };
        self.recorder.note_about(about, sort, &event.reason, &event.message);
    }

    /// Logs how long the clusters of a stuck run have been on their way.
    fn say_how_long(&self, observed: &Observed) {
        let run = observed.run.beside(&observed.run.name);
        let threshold = observed.options.stuck_after;
        let stages = observed.run.status.stages_status.iter();
        let clusters = stages.flat_map(|stage| stage.clusters.iter().map(move |c| (stage, c)));
        for (stage, cluster) in clusters.filter(|(_, cluster)| lifecycle::in_flight(cluster)) {
            let Some(started) = cluster.conditions.of_type(STARTED) else { continue };
            let elapsed = observed.now.duration_since(started.last_transition_time.0);
            let (stage, cluster) = (&stage.stage_name, &cluster.cluster_name);
            tracing::warn!(%run, stage, cluster, ?elapsed, ?threshold, "not available yet");
        }
    }

    /// Nothing of a run that is gone is kept.
    fn forget(&self, key: &PlacedKey) {
        self.series.forget(&key.object);
        self.told.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).remove(&key.object);
    }
}

fn binding_of<'a>(observed: &'a Observed, name: &str) -> Option<&'a Binding> {
    observed.bindings.iter().map(Arc::as_ref).find(|binding| binding.name == name)
}

/// Holds a plan against the laws, as if nobody else wrote in between.
fn assert_lawful(seen: &Observed, plan: &Plan, works: &[Work]) {
    assert_eq!(laws::decided(seen, plan), [], "{plan:?}");
    let lawful_before = laws::state(seen).is_empty();
    let mut now = seen.clone();
    for action in &plan.actions {
        assert_eq!(laws::write(&now, action), [], "{action:?}");
        assert_eq!(laws::passed_jobs_are_complete(&now, action, works), [], "{action:?}");
        match action {
            Action::Record(recording) => now.take_down(recording),
            Action::Adopt(adopted) => now.run.adopted = Some(adopted.clone()),
            _ => {}
        }
        if let Action::Status(status) = action {
            let before = now.clone();
            now.run.status = (**status).clone();
            assert_eq!(laws::step(seen, &before, &now), [], "{status:?}");
            assert_eq!(laws::one_snapshot(&before.run.status, &now, works), []);
        }
    }
    // Mirrors do not all lag by the same time, so what was read may seem to be unlawful.
    if lawful_before {
        assert_eq!(laws::state(&now), []);
    }
}
