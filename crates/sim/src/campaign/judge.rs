//! Asks the laws after every write that the hub's API server has accepted, and counts what goes
//! wrong on purpose.
//!
//! It sits where faults are decided, since that is where every accepted write passes by: what
//! was stored before it is in the books, what is stored now is in the store. What a run claims
//! about other objects it may have read a while ago: such a claim is broken only if it was so
//! in none of the states that the hub may have read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use flagship_api::condition::{ConditionStatus, Conditions};
use flagship_api::condition_type::binding::ROLLOUT_STARTED;
use flagship_api::condition_type::stage_task::WAIT_TIME_ELAPSED;
use flagship_apiserver::rest::ClusterHandle;
use flagship_base::duration::GoDuration;
use flagship_rules::model::Binding;
use flagship_rules::update_run::laws::{self, Broken};
use flagship_rules::update_run::lifecycle::{has_ended, in_flight, says};
use flagship_rules::update_run::{
    Action, DeleteBinding, Observed, Run, SignalStart, UpdateBinding,
};
use flagship_rules::work::Work;
use flagship_runtime::env::Clock;
use flagship_store::env::{Call, FaultOutcome, Faults, Plan, Point};
use flagship_store::{ObjectKey, Scope as Within, Stored};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc::UnboundedSender;

use super::books::{Books, Change, stored};
use super::coverage::Coverage;
use super::transitions::{Transition, is_signalled, of_binding, of_run};
use crate::testing::Scope;

/// The placement that runs roll out.
pub const PLACEMENT: &str = "web";

/// How long after a fault a transition counts as one beside it.
const BESIDE: SignedDuration = SignedDuration::from_secs(10);

/// How many states a hub may have read from.
const REMEMBERED: usize = 160;

/// How long after its date a record may be accepted: as long as a request may take.
const SENDING: SignedDuration = SignedDuration::from_secs(31);

/// In larger fleets the Works are not remembered with every state, and of the states few.
const FEW_MEMBERS: usize = 50;
const FEW_STATES: usize = 4;

/// In larger fleets the laws of a stored state are asked after one write in so many.
const SELDOM: u64 = 50;

/// A law that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its number.
    pub law: String,
    /// What was seen.
    pub what: String,
    /// When, after the beginning.
    pub at: String,
    /// Who wrote, and what.
    pub write: String,
    /// The object before that write.
    pub before: String,
    /// The object after it.
    pub after: String,
}

/// Sees every call.
pub struct Judge {
    /// What goes wrong.
    pub plan: Arc<Plan>,
    clock: Arc<dyn Clock>,
    began: Timestamp,
    hub: OnceLock<ClusterHandle>,
    works: UnboundedSender<ObjectKey>,
    inner: Mutex<Inner>,
}

/// An object before and after a write.
type Written = (Option<Arc<Stored>>, Option<Arc<Stored>>);

/// One state that a hub may have read.
struct State {
    seen: Observed,
    works: Arc<Vec<Work>>,
}

/// What is known so far.
pub struct Inner {
    began: Timestamp,
    pub books: Books,
    pub coverage: Coverage,
    pub violation: Option<Violation>,
    /// What happened, in words, if somebody wants to read it.
    pub words: Option<Vec<String>>,
    /// Accepted writes of anybody.
    pub writes: u64,
    /// Times a law was asked.
    pub asked: u64,
    /// When a hub last wrote something that is not about the life of members.
    pub last_hub_write: Option<(Timestamp, String)>,
    /// What that write did, if the books hold the object.
    last_change: Option<Written>,
    /// What hubs' clocks may differ by.
    pub skew: SignedDuration,
    /// Offsets of hubs by name.
    pub offsets: BTreeMap<String, SignedDuration>,
    /// Bindings that evictions have removed, by eviction.
    evicted: BTreeMap<ObjectKey, BTreeSet<String>>,
    /// When a fault of a kind was last injected.
    recent: BTreeMap<String, Timestamp>,
    states: BTreeMap<String, VecDeque<State>>,
    all_works: Arc<Vec<Work>>,
    /// Works that members do not know of yet.
    delivered: Vec<ObjectKey>,
    last: BTreeMap<(String, ObjectKey), Arc<Stored>>,
    /// True times at which the last cluster of a stage was recorded as done.
    done: BTreeMap<(String, String), Timestamp>,
}

impl Judge {
    /// Sees calls from now on.
    pub fn new(
        plan: Arc<Plan>,
        clock: Arc<dyn Clock>,
        scope: Scope,
        works: UnboundedSender<ObjectKey>,
        in_words: bool,
    ) -> Self {
        let began = clock.now();
        let inner = Inner {
            began,
            books: Books::new(scope),
            coverage: Coverage::default(),
            violation: None,
            words: in_words.then(Vec::new),
            writes: 0,
            asked: 0,
            last_hub_write: None,
            last_change: None,
            skew: SignedDuration::ZERO,
            offsets: BTreeMap::new(),
            evicted: BTreeMap::new(),
            recent: BTreeMap::new(),
            states: BTreeMap::new(),
            all_works: Arc::default(),
            delivered: Vec::new(),
            last: BTreeMap::new(),
            done: BTreeMap::new(),
        };
        Self { plan, clock, began, hub: OnceLock::new(), works, inner: Mutex::new(inner) }
    }

    /// The cluster whose writes are judged.
    pub fn judge(&self, hub: ClusterHandle) {
        drop(self.hub.set(hub));
    }

    /// What is known so far.
    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something that is no rule happened: a crash, a lie of a member, a deed of a person.
    pub fn happened(&self, fault: &str, words: &str) {
        let now = self.clock.now();
        let mut inner = self.inner();
        inner.injected(fault, now);
        inner.say(now.duration_since(self.began), "*", words);
    }

    /// Something for the story in words.
    pub fn say(&self, who: &str, words: &str) {
        let passed = self.clock.now().duration_since(self.began);
        self.inner().say(passed, who, words);
    }

    /// A law was found broken at the end of the story.
    pub fn broken(&self, law: &str, what: String) {
        let at = told(self.clock.now().duration_since(self.began));
        let mut inner = self.inner();
        // What a hub wrote last is of interest where it should not have written.
        let change = inner.last_change.take().filter(|_| ["S16", "L7"].contains(&law));
        let (before, after) = change.map_or_else(Default::default, |(before, after)| {
            (shown(before.as_ref()), shown(after.as_ref()))
        });
        let write = "at the end of the story".to_owned();
        let found = Violation { law: law.to_owned(), what, at, write, before, after };
        inner.violation.get_or_insert(found);
    }

    fn accepted(&self, call: &Call<'_>) {
        let Some(hub) = self.hub.get() else { return };
        if call.cluster != hub.name() {
            return;
        }
        let (now, store) = (self.clock.now(), hub.store());
        let mut inner = self.inner();
        inner.writes += 1;
        let by_hub = call.who.starts_with("hub");
        let about_members = ["memberclusters", "internalmemberclusters", "events", "leases"];
        let plural = call.resource.split('.').next().unwrap_or_default();
        if by_hub && !about_members.contains(&plural) {
            let what = format!("{} {} {}", call.verb, plural, call.name);
            inner.last_hub_write = Some((now, what));
        }
        inner.reach(call, now, self.began);
        if !inner.books.hold(call.resource) {
            return;
        }
        for key in places(&inner.books, call, store) {
            let after = store.get(call.resource, &key);
            let place = (call.resource.to_owned(), key.clone());
            let before = match &after {
                Some(after) => inner.last.insert(place, after.clone()),
                None => inner.last.remove(&place),
            };
            if by_hub && !about_members.contains(&plural) {
                inner.last_change = Some((before.clone(), after.clone()));
            }
            let broken = inner.judge(call, &key, store, now);
            for work in std::mem::take(&mut inner.delivered) {
                // Nobody listens after the end.
                drop(self.works.send(work));
            }
            if let Some(first) = broken.into_iter().next() {
                let found = Violation {
                    law: first.law.to_owned(),
                    what: first.what,
                    at: told(now.duration_since(self.began)),
                    write: format!(
                        "{} {} {} {}/{}",
                        call.who, call.verb, call.resource, key.namespace, key.name
                    ),
                    before: shown(before.as_ref()),
                    after: shown(after.as_ref()),
                };
                inner.violation.get_or_insert(found);
            }
        }
    }
}

impl Faults for Judge {
    fn at(&self, point: Point, call: &Call<'_>) -> FaultOutcome {
        if point == Point::PostCommit {
            self.accepted(call);
        }
        let verdict = self.plan.at(point, call);
        if let Some(kind) = kind(point, verdict) {
            let now = self.clock.now();
            let mut inner = self.inner();
            inner.injected(kind, now);
            if inner.words.is_some() && point != Point::Bookmark {
                let plural = call.resource.split('.').next().unwrap_or_default();
                let words = format!("{kind}: {} {plural} {}", call.verb, call.name);
                inner.say(now.duration_since(self.began), call.who, &words);
            }
        }
        verdict
    }
}

/// The places a call has written. Creations do not always name theirs.
fn places(books: &Books, call: &Call<'_>, store: &flagship_store::Store) -> Vec<ObjectKey> {
    if !call.name.is_empty() {
        return vec![ObjectKey::new(call.namespace, call.name)];
    }
    let within = match call.namespace {
        "" => Within::All,
        namespace => Within::Namespace(namespace),
    };
    let there = store.list(call.resource, within).items;
    let known = books.keys(call.resource);
    let mut found: Vec<ObjectKey> =
        there.iter().map(|stored| stored.key.clone()).filter(|key| !known.contains(key)).collect();
    if call.verb.starts_with("delete") {
        let left = |key: &ObjectKey| there.iter().any(|stored| stored.key == *key);
        found.extend(known.into_iter().filter(|key| !left(key)));
    }
    found
}

impl Inner {
    pub fn injected(&mut self, kind: &str, now: Timestamp) {
        *self.coverage.injected.entry(kind.to_owned()).or_default() += 1;
        self.recent.insert(kind.to_owned(), now);
    }

    fn say(&mut self, passed: SignedDuration, who: &str, words: &str) {
        if let Some(all) = &mut self.words {
            all.push(format!("{:>9}  {who:<5} {words}", told(passed)));
        }
    }

    /// S14: with a member's name only its own namespace is written.
    fn reach(&mut self, call: &Call<'_>, now: Timestamp, began: Timestamp) {
        let own = format!("fleet-member-{}", call.who);
        let is_member = call.who.starts_with('m');
        if is_member && call.namespace != own {
            let found = Violation {
                law: "S14".to_owned(),
                what: format!("{} wrote {} in {:?}", call.who, call.resource, call.namespace),
                at: told(now.duration_since(began)),
                write: format!("{} {} {}", call.who, call.verb, call.name),
                before: String::new(),
                after: String::new(),
            };
            self.violation.get_or_insert(found);
        }
    }

    /// Notes one write and asks the laws about it.
    fn judge(
        &mut self,
        call: &Call<'_>,
        key: &ObjectKey,
        store: &flagship_store::Store,
        now: Timestamp,
    ) -> Vec<Broken> {
        let offset = self.offsets.get(call.who).copied().unwrap_or_default();
        let theirs = now.checked_add(offset).unwrap_or(now);
        let change = self.books.note(store, call.resource, key);
        let mut broken = Vec::new();
        match change {
            Change::Run(old) => {
                let new = self.books.runs.get(key).cloned();
                self.count(of_run(old.as_deref(), new.as_ref()), call.who, now);
                if let Some(new) = &new {
                    broken.extend(self.run_written(old.as_deref(), new, theirs, now));
                }
                if let (Some(old), None) = (&old, &new) {
                    self.states.remove(&old.uid);
                }
                broken.extend(self.states_hold(theirs, new.as_ref().map(|new| new.uid.as_str())));
            }
            Change::Binding(old) => {
                let new = self.books.bindings.get(key).cloned();
                self.count(of_binding(old.as_deref(), new.as_deref()), call.who, now);
                let ours = |binding: &Arc<Binding>| binding.placement == PLACEMENT;
                if new.as_ref().or(old.as_ref()).is_some_and(ours) {
                    if call.who.starts_with("hub") {
                        broken.extend(self.binding_written(old.as_ref(), new.as_ref(), theirs));
                    }
                    broken.extend(self.states_hold(theirs, None));
                }
            }
            Change::Approval { was, is } => {
                if was != is {
                    let word = if is { "request made" } else { "request gone" };
                    self.count(vec![(word, key.name.to_string())], call.who, now);
                }
                self.remember(theirs, None);
            }
            Change::Eviction(old) => {
                let said = |eviction: &_| flagship_rules::eviction::is_settled(eviction);
                let is = self.books.evictions.get(key).is_some_and(said);
                if is && !old.as_deref().is_some_and(said) {
                    self.count(vec![("eviction answered", key.name.to_string())], call.who, now);
                }
            }
            Change::Work { fresh } => {
                if fresh {
                    self.delivered.push(key.clone());
                }
                if !self.is_large() {
                    self.all_works = Arc::new(self.books.works.values().cloned().collect());
                    self.remember(theirs, None);
                }
            }
            Change::Snapshot { is: false } => broken.extend(self.snapshot_gone(key)),
            Change::Snapshot { is: true } | Change::Other => {}
        }
        broken
    }

    fn count(&mut self, found: Vec<Transition>, who: &str, now: Timestamp) {
        for (transition, place) in found {
            *self.coverage.transitions.entry(transition).or_default() += 1;
            let beside = self.recent.iter().filter(|(_, at)| now.duration_since(**at) <= BESIDE);
            for (fault, _) in beside {
                *self.coverage.pairs.entry((transition, fault.clone())).or_default() += 1;
            }
            if self.words.is_some() {
                let words = format!("{transition}: {place}");
                self.say(now.duration_since(self.began), who, &words);
            }
        }
    }

    /// Laws of two successive states of a run.
    fn run_written(
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
        let claims = |read: &Observed, works: &[Work]| {
            let mut told = laws::step(read, &before, &after);
            let then = Observed { run: new.clone(), ..read.clone() };
            told.extend(laws::one_snapshot(&old.status, &then, works));
            told
        };
        let mut claimed = claims(&after, &self.all_works);
        let states = self.states.get(&new.uid);
        for state in states.into_iter().flat_map(|states| states.iter().rev()) {
            if claimed.is_empty() {
                break;
            }
            let other = claims(&state.seen, &state.works);
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
    fn binding_written(
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
    fn snapshot_gone(&self, key: &ObjectKey) -> Vec<Broken> {
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
    fn states_hold(&mut self, theirs: Timestamp, written: Option<&str>) -> Vec<Broken> {
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

    fn is_large(&self) -> bool {
        self.books.clusters.len() > FEW_MEMBERS
    }

    /// Remembers what is stored now as what a hub may read.
    fn remember(&mut self, theirs: Timestamp, written: Option<&str>) {
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

/// The name of a fault by what it did where.
fn kind(point: Point, verdict: FaultOutcome) -> Option<&'static str> {
    Some(match (point, verdict) {
        (_, FaultOutcome::Proceed) => return None,
        (_, FaultOutcome::Answer { code: 409, .. }) => "409 conflict",
        (_, FaultOutcome::Answer { code: 429, .. }) => "429 with Retry-After",
        (_, FaultOutcome::Answer { code: 503, .. }) => "503",
        (_, FaultOutcome::Answer { code: 504, .. }) => "504, not done",
        (_, FaultOutcome::Answer { .. }) => "500",
        (Point::PostCommit, FaultOutcome::Sever) => "reply lost, done",
        (Point::WatchEvent, FaultOutcome::Sever) => "watch cut",
        (_, FaultOutcome::Sever) => "refused connection",
        (Point::PreCommit, FaultOutcome::Hang) => "crash before a write",
        (Point::PostCommit, FaultOutcome::Hang) => "crash after a write",
        (_, FaultOutcome::Hang) => "no answer",
        (Point::WatchEvent, FaultOutcome::Delay(span)) if span.as_secs() > 20 => {
            "events ten minutes late"
        }
        (Point::WatchEvent, FaultOutcome::Delay(_)) => "events late",
        (Point::PostCommit, FaultOutcome::Delay(_)) => "slow reply",
        (_, FaultOutcome::Delay(_)) => "slow request",
        (_, FaultOutcome::Stale(_)) => "watch from an older list",
        (_, FaultOutcome::Expire) => "watch expired (410)",
        (_, FaultOutcome::Replay(_)) => "events repeated",
        (_, FaultOutcome::Starve) => "no bookmarks",
        (_, FaultOutcome::Drop) => "watch cut",
    })
}

/// A time since the beginning, as `1:02:03.4`.
pub fn told(passed: SignedDuration) -> String {
    let tenths = passed.as_millis() / 100;
    let seconds = tenths / 10;
    format!("{}:{:02}:{:02}.{}", seconds / 3600, seconds / 60 % 60, seconds % 60, tenths % 10)
}

fn shown(stored: Option<&Arc<Stored>>) -> String {
    stored.map_or_else(|| "not there".to_owned(), |stored| pretty(&stored.json))
}

fn pretty(json: &[u8]) -> String {
    let mut value: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
    if let Some(meta) = value["metadata"].as_object_mut() {
        meta.remove("managedFields");
    }
    format!("{value:#}")
}
