//! Seeded rules that say which calls go wrong, when and how.
//!
//! A rule counts the calls it matches and draws from a generator of its own, so that
//! adding or dropping one rule (as shrinking does) leaves the others' choices alone.
//! The first rule that fires decides; every matching rule still counts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::clock::Clock;
use super::faults::{Call, Faults, Point, Verdict};

/// One thing that goes wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Where in a call.
    pub point: Point,
    /// Whose calls; exact, or a prefix with a trailing `*`. Empty means everyone.
    #[serde(default)]
    pub who: String,
    /// Which cluster; written as `who`.
    #[serde(default)]
    pub cluster: String,
    /// Which resource; written as `who`.
    #[serde(default)]
    pub resource: String,
    /// Which verbs.
    #[serde(default)]
    pub verbs: Verbs,
    /// Which of the matching calls.
    #[serde(default)]
    pub when: When,
    /// In which span of time since the plan began.
    #[serde(default)]
    pub window: Option<Window>,
    /// What happens.
    pub effect: Effect,
}

/// Verbs a rule applies to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verbs {
    /// All of them.
    #[default]
    Any,
    /// get, list, watch.
    Reads,
    /// create, update, patch, delete, deletecollection.
    Writes,
    /// Just these.
    Only(Vec<String>),
}

/// Which of a rule's matching calls are hit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub enum When {
    /// Each.
    #[default]
    Always,
    /// The n-th only, counted from 1.
    Nth(u64),
    /// Every n-th.
    Every(u64),
    /// The first n.
    First(u64),
    /// Each with this probability, between 0 and 1.
    Chance(f64),
}

/// A span of time since the plan began: from the first moment up to the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Begins here.
    pub from: Duration,
    /// Ends just before this.
    pub until: Duration,
}

/// What a rule does when it fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Just this.
    Do(Verdict),
    /// A delay drawn between nothing and this.
    DelayUpTo(Duration),
    /// Stale by a number of revisions drawn between 1 and this.
    StaleUpTo(u64),
    /// The client dies here: the plan's crash hook is told, and the call never returns.
    Crash,
}

/// A client that is to die at this very point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    /// Before or after the commit.
    pub point: Point,
    /// The client.
    pub who: String,
    /// The cluster it was writing to.
    pub cluster: String,
    /// What it was writing, as `resource/namespace/name`.
    pub key: String,
}

type CrashHook = Arc<dyn Fn(&Crash) + Send + Sync>;

/// Rules at work.
pub struct Plan {
    clock: Arc<dyn Clock>,
    began: Timestamp,
    seed: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    active: Vec<Active>,
    on_crash: Option<CrashHook>,
}

struct Active {
    rule: Rule,
    chance: fastrand::Rng,
    matched: u64,
    fired: u64,
}

impl Plan {
    /// Begins now.
    pub fn new(seed: u64, clock: Arc<dyn Clock>, rules: Vec<Rule>) -> Self {
        let plan = Self { began: clock.now(), clock, seed, state: Mutex::default() };
        plan.replace(rules);
        plan
    }

    /// Goes on with other rules; all counters start again.
    pub fn replace(&self, rules: Vec<Rule>) {
        let active = rules.into_iter().enumerate().map(|(at, rule)| {
            let salt = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let chance = fastrand::Rng::with_seed(self.seed ^ salt);
            Active { rule, chance, matched: 0, fired: 0 }
        });
        let active = active.collect();
        self.state.lock().unwrap_or_else(PoisonError::into_inner).active = active;
    }

    /// Ends all faults, so that the world can heal.
    pub fn heal(&self) {
        self.replace(Vec::new());
    }

    /// Called when a [`Effect::Crash`] fires, before the call hangs. The hook should cancel
    /// the client's task; it must not call the server.
    pub fn on_crash(&self, hook: impl Fn(&Crash) + Send + Sync + 'static) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).on_crash = Some(Arc::new(hook));
    }

    /// How often each rule has fired, in the order of the rules.
    pub fn fired(&self) -> Vec<u64> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.active.iter().map(|active| active.fired).collect()
    }
}

impl Faults for Plan {
    fn at(&self, point: Point, call: &Call<'_>) -> Verdict {
        let passed = self.clock.now().duration_since(self.began);
        let passed = Duration::try_from(passed).unwrap_or_default();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut decided = None;
        for active in &mut state.active {
            if active.rule.covers(point, call, passed) && active.hit() && decided.is_none() {
                active.fired += 1;
                decided = Some(active.effect());
            }
        }
        let hook = state.on_crash.clone();
        drop(state);
        match decided {
            None => Verdict::Proceed,
            Some(Some(verdict)) => verdict,
            Some(None) => {
                if let Some(hook) = hook {
                    hook(&Crash::of(point, call));
                }
                Verdict::Hang
            }
        }
    }
}

impl Rule {
    fn covers(&self, point: Point, call: &Call<'_>, passed: Duration) -> bool {
        self.point == point
            && self.window.is_none_or(|window| (window.from..window.until).contains(&passed))
            && fits(&self.who, call.who)
            && fits(&self.cluster, call.cluster)
            && fits(&self.resource, call.resource)
            && self.verbs.contain(call.verb)
    }
}

impl Verbs {
    fn contain(&self, verb: &str) -> bool {
        let reads = matches!(verb, "get" | "list" | "watch");
        match self {
            Self::Any => true,
            Self::Reads => reads,
            Self::Writes => !reads,
            Self::Only(these) => these.iter().any(|one| one == verb),
        }
    }
}

impl Active {
    /// Counts a matching call and says whether it is hit.
    fn hit(&mut self) -> bool {
        self.matched += 1;
        match self.rule.when {
            When::Always => true,
            When::Nth(n) => self.matched == n,
            When::Every(n) => n != 0 && self.matched.is_multiple_of(n),
            When::First(n) => self.matched <= n,
            When::Chance(probability) => self.chance.f64() < probability,
        }
    }

    /// `None` is a crash.
    fn effect(&mut self) -> Option<Verdict> {
        Some(match &self.rule.effect {
            Effect::Do(verdict) => *verdict,
            Effect::DelayUpTo(most) => Verdict::Delay(most.mul_f64(self.chance.f64())),
            Effect::StaleUpTo(most) => Verdict::Stale(self.chance.u64(1..=(*most).max(1))),
            Effect::Crash => return None,
        })
    }
}

impl Crash {
    fn of(point: Point, call: &Call<'_>) -> Self {
        let Call { cluster, who, resource, namespace, name, .. } = *call;
        let key = format!("{resource}/{namespace}/{name}");
        Self { point, who: who.to_owned(), cluster: cluster.to_owned(), key }
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => text.starts_with(prefix),
        None => pattern.is_empty() || pattern == text,
    }
}
