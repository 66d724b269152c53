//! Seeded rules that say which calls go wrong, when and how.
//!
//! A rule counts the calls it matches and draws from a generator of its own, seeded by
//! what it is about, so that adding, dropping or softening one rule (as shrinking does)
//! leaves the others' choices alone. The first rule that fires decides; every matching
//! rule still counts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flagship_base::env::Clock;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::faults::{Call, FaultOutcome, Faults, Point};
use super::trace::hash_of;

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
    Do(FaultOutcome),
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

/// Rules at work: which calls go wrong.
pub struct FaultPlan {
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

impl FaultPlan {
    /// Begins now.
    pub fn new(seed: u64, clock: Arc<dyn Clock>, rules: Vec<Rule>) -> Self {
        let plan = Self { began: clock.now(), clock, seed, state: Mutex::default() };
        plan.replace(rules);
        plan
    }

    /// Goes on with other rules; all counters start again.
    pub fn replace(&self, rules: Vec<Rule>) {
        let mut active: Vec<Active> = Vec::with_capacity(rules.len());
        for rule in rules {
            let twins = active.iter().filter(|other| other.rule.is_about_the_same(&rule)).count();
            let chance = fastrand::Rng::with_seed(self.seed ^ rule.salt(twins));
            active.push(Active { rule, chance, matched: 0, fired: 0 });
        }
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
        self.each(|active| active.fired)
    }

    /// How many calls each rule has matched, hit or not. A rule that never fires counts the
    /// places at which a client can be killed.
    pub fn matched(&self) -> Vec<u64> {
        self.each(|active| active.matched)
    }

    fn each(&self, of: impl Fn(&Active) -> u64) -> Vec<u64> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.active.iter().map(of).collect()
    }
}

impl Faults for FaultPlan {
    fn at(&self, point: Point, call: &Call<'_>) -> FaultOutcome {
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
            None => FaultOutcome::Proceed,
            Some(Some(verdict)) => verdict,
            Some(None) => {
                if let Some(hook) = hook {
                    hook(&Crash::of(point, call));
                }
                FaultOutcome::Hang
            }
        }
    }
}

impl Rule {
    /// Hits every call of everyone, always; narrow it by setting fields.
    pub fn at(point: Point, effect: Effect) -> Self {
        Self {
            point,
            who: String::new(),
            cluster: String::new(),
            resource: String::new(),
            verbs: Verbs::Any,
            when: When::Always,
            window: None,
            effect,
        }
    }

    fn is_about_the_same(&self, other: &Self) -> bool {
        self.subject() == other.subject()
    }

    fn subject(&self) -> (Point, &str, &str, &str) {
        (self.point, &self.who, &self.cluster, &self.resource)
    }

    /// Differs from rule to rule; `twins` tells rules about the same apart.
    fn salt(&self, twins: usize) -> u64 {
        let (point, who, cluster, resource) = self.subject();
        hash_of(format!("{point:?}\n{who}\n{cluster}\n{resource}\n{twins}").as_bytes())
    }

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
    fn effect(&mut self) -> Option<FaultOutcome> {
        Some(match &self.rule.effect {
            Effect::Do(verdict) => *verdict,
            Effect::DelayUpTo(most) => FaultOutcome::Delay(most.mul_f64(self.chance.f64())),
            Effect::StaleUpTo(most) => FaultOutcome::Stale(self.chance.u64(1..=(*most).max(1))),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::env::Env;

    const CALL: Call<'static> = Call {
        cluster: "member-7",
        who: "agent-7",
        verb: "update",
        resource: "works",
        namespace: "a",
        name: "x",
    };

    fn plan(rules: Vec<Rule>) -> FaultPlan {
        FaultPlan::new(1, Env::simulated(1).clock, rules)
    }

    fn starve(point: Point) -> Rule {
        Rule::at(point, Effect::Do(FaultOutcome::Starve))
    }

    /// Which of ten calls were hit.
    fn hits(plan: &FaultPlan, call: &Call<'_>) -> String {
        let one =
            |_| if plan.at(Point::Request, call) == FaultOutcome::Proceed { '.' } else { 'x' };
        (0..10).map(one).collect()
    }

    #[test]
    fn a_rule_says_which_of_the_calls_it_hits() {
        let table = [
            (When::Always, "xxxxxxxxxx"),
            (When::Nth(3), "..x......."),
            (When::Nth(0), ".........."),
            (When::Every(3), "..x..x..x."),
            (When::Every(0), ".........."),
            (When::First(2), "xx........"),
            (When::Chance(0.0), ".........."),
            (When::Chance(1.0), "xxxxxxxxxx"),
        ];
        for (when, expected) in table {
            let plan = plan(vec![Rule { when, ..starve(Point::Request) }]);
            assert_eq!(hits(&plan, &CALL), expected, "{when:?}");
            assert_eq!(plan.matched(), [10]);
            assert_eq!(plan.fired(), [expected.matches('x').count() as u64]);
        }
    }

    #[test]
    fn a_rule_says_whose_calls_it_hits() {
        let base = || starve(Point::Request);
        let only = |verb: &str| Verbs::Only(vec![verb.to_owned()]);
        let table = [
            (base(), true),
            (starve(Point::Read), false),
            (Rule { who: "agent-7".into(), ..base() }, true),
            (Rule { who: "agent-*".into(), ..base() }, true),
            (Rule { who: "agent-".into(), ..base() }, false),
            (Rule { cluster: "hub".into(), ..base() }, false),
            (Rule { resource: "works".into(), ..base() }, true),
            (Rule { resource: "pods".into(), ..base() }, false),
            (Rule { verbs: Verbs::Writes, ..base() }, true),
            (Rule { verbs: Verbs::Reads, ..base() }, false),
            (Rule { verbs: only("update"), ..base() }, true),
            (Rule { verbs: only("patch"), ..base() }, false),
        ];
        for (rule, expected) in table {
            let hit = plan(vec![rule.clone()]).at(Point::Request, &CALL) == FaultOutcome::Starve;
            assert_eq!(hit, expected, "{rule:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_rule_holds_in_its_window() {
        let second = Duration::from_secs(1);
        let window = Some(Window { from: 10 * second, until: 20 * second });
        let plan = plan(vec![Rule { window, ..starve(Point::Request) }]);
        let mut seen = String::new();
        for _ in 0..25 {
            let hit = plan.at(Point::Request, &CALL) == FaultOutcome::Starve;
            seen.push(if hit { 'x' } else { '.' });
            tokio::time::advance(second).await;
        }
        assert_eq!(seen, "..........xxxxxxxxxx.....");
    }

    #[test]
    fn adding_a_rule_leaves_the_draws_of_the_others_alone() {
        let chance = || Rule { when: When::Chance(0.5), ..starve(Point::Request) };
        let other = || Rule { when: When::Chance(0.5), ..starve(Point::Read) };
        let alone = hits(&plan(vec![chance()]), &CALL);
        let both = plan(vec![other(), chance()]);
        let among: String = (0..10)
            .map(|_| {
                both.at(Point::Read, &CALL);
                if both.at(Point::Request, &CALL) == FaultOutcome::Proceed { '.' } else { 'x' }
            })
            .collect();
        assert_eq!(alone, among);
        assert!(alone.contains('x') && alone.contains('.'), "{alone}");
    }

    #[test]
    fn the_first_rule_that_fires_decides_and_healing_ends_all() {
        let delay = Effect::Do(FaultOutcome::Delay(Duration::from_secs(1)));
        let rules = vec![
            Rule {
                when: When::Nth(2),
                ..Rule::at(Point::Request, Effect::Do(FaultOutcome::Sever))
            },
            Rule::at(Point::Request, delay),
        ];
        let plan = plan(rules);
        let verdicts = [(); 3].map(|()| plan.at(Point::Request, &CALL));
        let second = FaultOutcome::Delay(Duration::from_secs(1));
        assert_eq!(verdicts, [second, FaultOutcome::Sever, second]);
        assert_eq!((plan.fired(), plan.matched()), (vec![1, 2], vec![3, 3]));
        plan.heal();
        assert_eq!(plan.at(Point::Request, &CALL), FaultOutcome::Proceed);
    }

    #[test]
    fn a_rule_can_be_written_in_a_file() {
        let text = json!({
            "point": "PostCommit", "who": "hub", "verbs": "Writes", "when": {"Nth": 3},
            "effect": {"Do": {"Answer": {"code": 500, "retry_after": null}}},
        });
        let rule: Rule = serde_json::from_value(text).unwrap();
        let answer = Effect::Do(FaultOutcome::Answer { code: 500, retry_after: None });
        let expected = Rule {
            who: "hub".into(),
            verbs: Verbs::Writes,
            when: When::Nth(3),
            ..Rule::at(Point::PostCommit, answer)
        };
        assert_eq!(rule, expected);
    }
}
