//! The laws of one accepted write: of two states of a run, of a binding that a run moves, of one
//! that is deleted, of a snapshot that goes.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use flagship_api::condition::{ConditionStatus, Conditions, Generation};
use flagship_api::condition_type::approval_request::{APPROVAL_ACCEPTED, APPROVED};
use flagship_api::condition_type::binding::ROLLOUT_STARTED;
use flagship_api::condition_type::stage_task::WAIT_TIME_ELAPSED;
use flagship_base::duration::GoDuration;
use flagship_rules::model::Binding;
use flagship_rules::update_run::laws::{self, Broken};
use flagship_rules::update_run::lifecycle::{has_ended, in_flight, says};
use flagship_rules::update_run::{
    Action, Approval, DeleteBinding, Observed, Run, SignalStart, UpdateBinding,
};
use flagship_rules::work::Work;
use flagship_store::ObjectKey;
use jiff::{SignedDuration, Timestamp};

use super::books::stored;
use super::judge::Inner;
use super::transitions::is_signalled;

/// How many states a hub may have read from.
const REMEMBERED: usize = 160;

/// How long after its date a record may be accepted: as long as a request may take.
const SENDING: SignedDuration = SignedDuration::from_secs(31);

/// In larger fleets the Works are not remembered with every state, and of the states few.
const FEW_MEMBERS: usize = 50;
const FEW_STATES: usize = 4;

/// In larger fleets the laws of a stored state are asked after one write in so many.
const SELDOM: u64 = 50;

/// One state that a hub may have read.
pub struct State {
    seen: Observed,
    works: Arc<Vec<Work>>,
}

impl Inner {
    /// Laws of two successive states of a run.
    pub(super) fn run_written(
        &mut self,
        old: Option<&Run>,
        new: &Run,
        theirs: Timestamp,
        now: Timestamp,
    ) -> Vec<Broken> {
        let mut broken = self.waited(old, new, now);
        let Some(old) = old.filter(|old| old.status != new.status && old.uid == new.uid) else {
            return broken;
        };
        self.asked += 1;
        let (before, after) = (self.books.seen(old, theirs), self.books.seen(new, theirs));
        let claims = |read: &Observed, then: &Observed, works: &[Work]| {
            let mut told = laws::step(read, &before, &after);
            told.extend(laws::one_snapshot(&old.status, then, works));
            told
        };
        let mut claimed = claims(&after, &after, &self.all_works);
        let states = self.states.get(&new.uid);
        for state in states.into_iter().flat_map(|states| states.iter().rev()) {
            if claimed.is_empty() {
                break;
            }
            let then = Observed { run: new.clone(), ..state.seen.clone() };
            let other = claims(&state.seen, &then, &state.works);
            claimed.retain(|broken| other.contains(broken));
        }
        broken.extend(claimed);
        broken
    }

    /// S5 by true time: what clocks of hubs differ by may be missing from a wait.
    fn waited(&mut self, old: Option<&Run>, new: &Run, now: Timestamp) -> Vec<Broken> {
        let mut broken = Vec::new();
        let strategy = new.status.staged_update_strategy_snapshot.iter().flat_map(|s| &s.stages);
        for (at, (config, stage)) in strategy.zip(&new.status.stages_status).enumerate() {
            let past = old.and_then(|old| old.status.stages_status.get(at));
            let finished = |stage: &flagship_api::staged_update_status::StageUpdatingStatus| {
                let clusters = stage.clusters.iter();
                clusters.filter(|c| flagship_rules::update_run::lifecycle::is_finished(c)).count()
            };
            let place = (new.uid.clone(), stage.stage_name.clone());
            if finished(stage) > past.map_or(0, finished) {
                self.done.insert(place.clone(), now);
            }
            for (at, task) in stage.after_stage_task_status.iter().enumerate() {
                let elapsed =
                    |conditions| says(conditions, WAIT_TIME_ELAPSED) == Some(ConditionStatus::True);
                let known = past
                    .and_then(|past| past.after_stage_task_status.get(at))
                    .is_some_and(|task| elapsed(&task.conditions));
                if known || !elapsed(&task.conditions) {
                    continue;
                }
                let wait = config.after_stage_tasks.get(at).and_then(|t| t.wait_time.as_ref());
                let wait: GoDuration = wait.and_then(|text| text.parse().ok()).unwrap_or_default();
                // Times are stored in whole seconds, and a record is dated before it is sent.
                let least = wait.as_signed_duration() - SENDING - self.skew;
                let done = self.done.get(&place);
                if let Some(done) = done.filter(|done| now.duration_since(**done) < least) {
                    let short = now.duration_since(*done);
                    let what = format!("{} waited {short:#} only", stage.stage_name);
                    broken.push(Broken { law: "S5", what });
                }
            }
        }
        broken
    }

    /// Laws of one write of a binding that a run moves.
    pub(super) fn binding_written(
        &mut self,
        old: Option<&Arc<Binding>>,
        new: Option<&Arc<Binding>>,
        theirs: Timestamp,
    ) -> Vec<Broken> {
        let Some(old) = old else { return Vec::new() };
        let Some(new) = new.filter(|new| !new.deleting || old.deleting) else {
            return match old.deleting {
                true => Vec::new(),
                false => self.deleted(old, theirs),
            };
        };
        let mut broken = Vec::new();
        if is_delivered(old, new) {
            let Some(fence) = &new.fence else {
                let what = format!("{} is moved and bears no run", new.name);
                return vec![Broken { law: "S11", what }];
            };
            let late = old
                .fence
                .as_ref()
                .is_some_and(|old| old.run == fence.run && fence.generation < old.generation);
            if late {
                let what = format!("{} was fenced by a later generation", new.name);
                broken.push(Broken { law: "S11", what });
            }
            let deliver = UpdateBinding {
                binding: new.name.clone(),
                cluster: new.cluster().to_owned(),
                uid: old.uid.clone(),
                resource_version: old.resource_version.clone(),
                spec: new.spec.clone(),
                fence: fence.clone(),
            };
            broken.extend(self.touched(
                &fence.run,
                &Action::UpdateBinding(Box::new(deliver)),
                theirs,
            ));
        }
        if let Some(run) = self.signaller(new).filter(|_| is_signalled(new) && !is_signalled(old)) {
            let signal = SignalStart {
                binding: new.name.clone(),
                uid: new.uid.clone(),
                resource_version: old.resource_version.clone(),
                message: String::new(),
            };
            broken.extend(self.touched(&run, &Action::SignalStart(signal), theirs));
        }
        broken
    }

    /// The UID of the run that gave a binding its start signal, by the name it says there: the
    /// fence is another's where there was nothing to deliver.
    fn signaller(&self, binding: &Binding) -> Option<String> {
        let told = binding.status.conditions.of_type(ROLLOUT_STARTED)?;
        let (_, name) = told.message.rsplit_once("updateRun: ")?;
        let run = self.books.runs.values().find(|run| run.name == name)?;
        Some(run.uid.clone())
    }

    /// Laws of a write of the run of this UID, in the state before it.
    fn touched(&mut self, uid: &str, action: &Action, theirs: Timestamp) -> Vec<Broken> {
        let Some(before) = self.states.get(uid).and_then(VecDeque::back) else {
            return Vec::new();
        };
        self.asked += 1;
        let mut broken = laws::write(&Observed { now: theirs, ..before.seen.clone() }, action);
        // By the stored times only; true times are held against S5 where a wait is recorded.
        if self.skew > SignedDuration::ZERO {
            broken.retain(|broken| broken.law != "S5");
        }
        broken
    }

    /// S7: whoever deletes a binding was told to.
    fn deleted(&mut self, old: &Arc<Binding>, theirs: Timestamp) -> Vec<Broken> {
        let cluster = old.cluster();
        if let Some(broken) = self.is_evicted(old) {
            return broken;
        }
        let placement = self.books.placements.get(&stored(&old.placement_key()));
        if placement.is_none_or(|placement| placement.deleting) {
            return Vec::new();
        }
        let sweeps = |run: &&Run| {
            let stage = run.status.deletion_stage_status.iter().flat_map(|stage| &stage.clusters);
            stage.into_iter().any(|entry| entry.cluster_name == cluster && in_flight(entry))
        };
        let runs = self.books.runs.values().filter(sweeps);
        let uids: Vec<String> = runs.map(|run| run.uid.clone()).collect();
        if uids.is_empty() && !old.is_unscheduled() {
            let what = format!("{cluster} was deleted and nobody wanted it");
            return vec![Broken { law: "S7", what }];
        }
        let withdraw = DeleteBinding {
            binding: old.name.clone(),
            uid: old.uid.clone(),
            resource_version: old.resource_version.clone(),
        };
        let action = Action::DeleteBinding(withdraw);
        let mut told: Vec<Vec<Broken>> =
            uids.iter().map(|uid| self.touched(uid, &action, theirs)).collect();
        // One of them did it.
        told.sort_by_key(Vec::len);
        told.into_iter().next().unwrap_or_default()
    }

    /// What is broken if an eviction deletes a binding; nothing is said if none does. One
    /// eviction removes one binding.
    fn is_evicted(&mut self, old: &Arc<Binding>) -> Option<Vec<Broken>> {
        let cluster = old.cluster();
        let open = self.books.evictions.iter().filter(|(_, eviction)| {
            let meant = eviction.intended.as_ref() == Some(&old.uid);
            eviction.cluster == cluster
                && eviction.placement == old.placement
                && (meant || !flagship_rules::eviction::is_settled(eviction))
        });
        let mut open: Vec<_> = open.collect();
        let used = |name: &ObjectKey| self.evicted.get(name).map_or(0, BTreeSet::len);
        open.sort_by_key(|(name, eviction)| {
            (eviction.intended.as_ref() != Some(&old.uid), used(name))
        });
        let (name, _) = open.first()?;
        let name = (*name).clone();
        let evicted = self.evicted.entry(name.clone()).or_default();
        evicted.insert(old.uid.clone());
        let what = format!("eviction {} hit {cluster} twice", name.name);
        let twice = (evicted.len() > 1).then_some(Broken { law: "S7", what });
        Some(twice.into_iter().collect())
    }

    /// S9: a run that has not ended can still deliver what it was fixed to.
    pub(super) fn snapshot_gone(&self, key: &ObjectKey) -> Vec<Broken> {
        let needs = |run: &&Run| {
            let index = &run.status.resource_snapshot_index_used;
            let master = format!("{}-{index}-snapshot", run.spec.placement_name);
            run.is_initialized()
                && !run.deleting
                && !has_ended(&run.status)
                && *key.name == *master
                && self
                    .books
                    .placements
                    .get(&stored(&run.placement_key()))
                    .is_some_and(|placement| !placement.deleting)
        };
        let run = self.books.runs.values().find(needs);
        let broken = run.map(|run| Broken {
            law: "S9",
            what: format!("{} is gone and run {} has not ended", key.name, run.name),
        });
        broken.into_iter().collect()
    }

    /// Laws of the stored state, of every run that has not ended and of the one just written.
    pub(super) fn states_hold(&mut self, theirs: Timestamp, written: Option<&str>) -> Vec<Broken> {
        // These laws look at every pair of cluster and binding.
        if self.is_large() && !self.writes.is_multiple_of(SELDOM) {
            if written.is_some() {
                self.remember(theirs, written);
            }
            return Vec::new();
        }
        self.remember(theirs, written);
        let mut broken = Vec::new();
        for run in self.books.runs.values().filter(|run| !run.deleting && is_meant(run, written)) {
            if let Some(state) = self.states.get(&run.uid).and_then(VecDeque::back) {
                self.asked += 1;
                broken.extend(laws::state(&state.seen));
            }
        }
        broken
    }

    pub(super) fn is_large(&self) -> bool {
        self.books.clusters.len() > FEW_MEMBERS
    }

    /// Remembers what is stored now as what a hub may read.
    pub(super) fn remember(&mut self, theirs: Timestamp, written: Option<&str>) {
        let most = if self.is_large() { FEW_STATES } else { REMEMBERED };
        for run in self.books.runs.values().filter(|run| is_meant(run, written)) {
            let state = State { seen: self.books.seen(run, theirs), works: self.all_works.clone() };
            let states = self.states.entry(run.uid.clone()).or_default();
            while states.len() >= most {
                states.pop_front();
            }
            states.push_back(state);
        }
    }
}

/// S3: a hub accepts only what somebody has approved at the request's own generation. It writes
/// over the version that it has read, so that was the version before.
pub fn accepted(old: Option<&Approval>, new: Option<&Approval>) -> Option<Broken> {
    let (old, new) = (old?, new?);
    let says = |request: &Approval, kind| {
        request.conditions.is_true_at(kind, Generation(request.generation))
    };
    let is_new = says(new, APPROVAL_ACCEPTED) && !says(old, APPROVAL_ACCEPTED);
    let what = format!("{} was accepted and nobody had approved it", new.name);
    (is_new && !says(old, APPROVED)).then_some(Broken { law: "S3", what })
}

/// Whether something about a run may still change, or just has.
fn is_meant(run: &Run, written: Option<&str>) -> bool {
    !has_ended(&run.status) || Some(run.uid.as_str()) == written
}

/// Whether a run wrote a binding, not the scheduler.
fn is_delivered(old: &Binding, new: &Binding) -> bool {
    let (was, is) = (&old.spec, &new.spec);
    old.fence != new.fence
        || was.resource_snapshot_name != is.resource_snapshot_name
        || was.resource_override_snapshots != is.resource_override_snapshots
        || was.cluster_resource_override_snapshots != is.cluster_resource_override_snapshots
        || was.apply_strategy != is.apply_strategy
}
