//! Asks the laws after every write that the hub's API server has accepted, and counts what goes
//! wrong on purpose.
//!
//! It sits where faults are decided, since that is where every accepted write passes by: what
//! was stored before it is in the books, what is stored now is in the store. What a run claims
//! about other objects it may have read a while ago: such a claim is broken only if it was so
//! in none of the states that the hub may have read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flagship_apiserver::rest::ClusterHandle;
use flagship_rules::model::Binding;
use flagship_rules::update_run::laws::Broken;
use flagship_rules::work::Work;
use flagship_runtime::env::Clock;
use flagship_store::env::{Call, FaultOutcome, FaultPlan, Faults, Point};
use flagship_store::{ObjectKey, Scope as Within, Stored};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

use super::books::{Books, Change};
use super::coverage::{Coverage, pair};
use super::transitions::{Transition, of_binding, of_run};
use super::written::{State, accepted};
use crate::testing::Scope;

/// The placement that runs roll out.
pub const PLACEMENT: &str = "web";

/// How long after a fault a transition counts as one beside it.
const BESIDE: SignedDuration = SignedDuration::from_secs(10);

/// More calls at one virtual moment than any fleet needs: virtual time only passes when
/// everybody waits, so a story in which controllers answer each other at once never ends.
const ENDLESS: u64 = 20_000;

/// What each member of the fleet may add to that.
const ENDLESS_OF_A_MEMBER: u64 = 400;

/// A law that was broken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    pub plan: Arc<FaultPlan>,
    clock: Arc<dyn Clock>,
    began: Timestamp,
    hub: Mutex<Option<ClusterHandle>>,
    works: UnboundedSender<ObjectKey>,
    /// Told when the story does not end by itself.
    pub endless: Notify,
    inner: Mutex<Inner>,
}

/// An object before and after a write.
type Written = (Option<Arc<Stored>>, Option<Arc<Stored>>);

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
    /// The moment of the last call, and how many there were at that moment.
    calls_at: (Timestamp, u64),
    /// Times a law was asked.
    pub asked: u64,
    /// When a hub last wrote something that is not about the life of members.
    pub last_hub_write: Option<(Timestamp, String)>,
    /// What that write did, if the books hold the object.
    last_change: Option<Written>,
    /// What hubs' clocks may differ by.
    pub skew: SignedDuration,
    /// How far a hub's clock is ahead of members' at most.
    pub ahead: SignedDuration,
    /// How many members the story begins with.
    pub members: u64,
    /// Offsets of hubs by name.
    pub offsets: BTreeMap<String, SignedDuration>,
    /// Bindings that evictions have removed, by eviction.
    pub(super) evicted: BTreeMap<ObjectKey, BTreeSet<String>>,
    /// When a fault of a kind was last injected.
    recent: BTreeMap<String, Timestamp>,
    pub(super) states: BTreeMap<String, VecDeque<State>>,
    pub(super) all_works: Arc<Vec<Work>>,
    /// Works that members do not know of yet.
    delivered: Vec<ObjectKey>,
    last: BTreeMap<(String, ObjectKey), Arc<Stored>>,
    /// True times at which the last cluster of a stage was recorded as done.
    pub(super) done: BTreeMap<(String, String), Timestamp>,
}

/// Ends the judging when it is dropped.
pub struct Judging(Arc<Judge>);

impl Drop for Judging {
    fn drop(&mut self) {
        *self.0.hub.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Judge {
    /// Sees calls from now on.
    pub fn new(
        plan: Arc<FaultPlan>,
        clock: Arc<dyn Clock>,
        scope: Scope,
        works: UnboundedSender<ObjectKey>,
        in_words: bool,
    ) -> Self {
        let began = clock.now();
        let inner = Inner::new(began, scope, in_words);
        Self {
            plan,
            clock,
            began,
            hub: Mutex::default(),
            works,
            endless: Notify::new(),
            inner: Mutex::new(inner),
        }
    }

    /// Judges the writes of this cluster for as long as the answer lives. The cluster asks the
    /// judge about every call and so holds it: without an end neither would ever go.
    pub fn judge(self: &Arc<Self>, hub: ClusterHandle) -> Judging {
        *self.hub.lock().unwrap_or_else(PoisonError::into_inner) = Some(hub);
        Judging(self.clone())
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

    fn count_call(&self, call: &Call<'_>) {
        let now = self.clock.now();
        let (count, endless) = {
            let mut inner = self.inner();
            let (at, before) = inner.calls_at;
            let count = if at == now { before + 1 } else { 1 };
            inner.calls_at = (now, count);
            (count, ENDLESS + ENDLESS_OF_A_MEMBER * inner.members)
        };
        if count >= endless {
            let last = format!("{} {} {}", call.who, call.verb, call.resource);
            self.broken("S16", format!("{count} calls at one moment, the last: {last}"));
            self.endless.notify_one();
        }
    }

    fn accepted(&self, call: &Call<'_>) {
        let hub = self.hub.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(hub) = hub else { return };
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
            let json = after.as_ref().map(|after| after.json.as_ref());
            let broken = inner.judge(call, &key, json, now);
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
        if point == Point::Request {
            self.count_call(call);
        }
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
    let known: BTreeSet<ObjectKey> = books.keys(call.resource).into_iter().collect();
    let there: BTreeSet<ObjectKey> = there.iter().map(|stored| stored.key.clone()).collect();
    let mut found: Vec<ObjectKey> = there.difference(&known).cloned().collect();
    if call.verb.starts_with("delete") {
        found.extend(known.difference(&there).cloned());
    }
    found
}

impl Inner {
    pub(super) fn new(began: Timestamp, scope: Scope, in_words: bool) -> Self {
        Self {
            began,
            books: Books::new(scope),
            coverage: Coverage::default(),
            violation: None,
            words: in_words.then(Vec::new),
            writes: 0,
            calls_at: (began, 0),
            asked: 0,
            last_hub_write: None,
            last_change: None,
            skew: SignedDuration::ZERO,
            ahead: SignedDuration::ZERO,
            members: 0,
            offsets: BTreeMap::new(),
            evicted: BTreeMap::new(),
            recent: BTreeMap::new(),
            states: BTreeMap::new(),
            all_works: Arc::default(),
            delivered: Vec::new(),
            last: BTreeMap::new(),
            done: BTreeMap::new(),
        }
    }

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

    /// Notes one write, and what is stored there after it, and asks the laws about it.
    pub(super) fn judge(
        &mut self,
        call: &Call<'_>,
        key: &ObjectKey,
        json: Option<&[u8]>,
        now: Timestamp,
    ) -> Vec<Broken> {
        let offset = self.offsets.get(call.who).copied().unwrap_or_default();
        let theirs = now.checked_add(offset).unwrap_or(now);
        let change = self.books.note(call.resource, key, json);
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
            Change::Approval(old) => {
                let new = self.books.approvals.get(key);
                let is = new.is_some();
                if call.who.starts_with("hub") {
                    broken.extend(accepted(old.as_deref(), new));
                }
                if old.is_some() != is {
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
                    let works = self.books.works.values().cloned();
                    self.all_works =
                        Arc::new(works.map(|work| by_clock(work, self.ahead)).collect());
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
            *self.coverage.transitions.entry(transition.to_owned()).or_default() += 1;
            let beside = self.recent.iter().filter(|(_, at)| now.duration_since(**at) <= BESIDE);
            for (fault, _) in beside {
                *self.coverage.pairs.entry(pair(transition, fault)).or_default() += 1;
            }
            if self.words.is_some() {
                let words = format!("{transition}: {place}");
                self.say(now.duration_since(self.began), who, &words);
            }
        }
    }
}

/// A Work whose dates, which are a member's, can be held against those of a hub that is ahead by
/// so much: what a member says after a hub may bear an earlier date.
fn by_clock(mut work: Work, ahead: SignedDuration) -> Work {
    for condition in &mut work.conditions {
        let date = &mut condition.last_transition_time.0;
        *date = date.checked_add(ahead).unwrap_or(*date);
    }
    work
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

#[cfg(test)]
mod tests {
    use flagship_store::env::Env;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::testing::CLUSTER;

    #[tokio::test(start_paused = true)]
    async fn calls_without_a_pause_between_them_break_a_law() {
        let clock = Env::simulated(1).clock;
        let plan = Arc::new(FaultPlan::new(1, clock.clone(), Vec::new()));
        let judge = Judge::new(plan, clock, CLUSTER, unbounded_channel().0, false);
        judge.inner().members = 2;
        let (cluster, who, verb) = ("hub", "hub0", "create");
        let call =
            Call { cluster, who, verb, resource: "namespaces", namespace: "", name: "fleet" };
        let most = ENDLESS + 2 * ENDLESS_OF_A_MEMBER;
        for _ in 1..most {
            judge.at(Point::Request, &call);
        }
        assert_eq!(judge.inner().violation, None);
        judge.at(Point::Request, &call);
        let broken = judge.inner().violation.clone().expect("one call too many");
        assert_eq!(broken.law, "S16");
        assert_eq!(broken.what, "20800 calls at one moment, the last: hub0 create namespaces");
    }
}
