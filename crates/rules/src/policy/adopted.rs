//! The policies of a run: which apply, and what they come to where several do.
//!
//! They are read when a run is initialized and kept with it: whoever edits a policy later
//! changes no run under way. Of several the stricter value counts; where neither side is
//! stricter (`then`, `order`) the run is refused and both are named.

use flagship_api::keys::own;
use flagship_api::rollout_policy as api;
use flagship_api::rollout_policy::{
    ClusterRules, FailureRules, FinalCauses, Membership, Order, Overtaken, RolloutPolicySpec, Then,
    Unmatched, Unreachable,
};
use flagship_base::duration::GoDuration;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::{Deserialize, Serialize};

use super::before::Before;
use super::selects::{self, Labels, names_stage};
use super::{approvals, checks, windows};

/// A policy by its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// `metadata.name`.
    pub name: String,
    /// What it says.
    pub spec: RolloutPolicySpec,
}

impl Policy {
    /// What the rules read of a policy.
    pub fn read(object: &api::RolloutPolicy) -> Self {
        let name = object.metadata.name.clone().unwrap_or_default();
        Self { name, spec: object.spec.clone() }
    }
}

/// The policies that a run follows, by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Adopted {
    /// In order of name.
    pub policies: Vec<Policy>,
    /// What the run's clusters had, where a policy may want it to be undone.
    #[serde(default, skip_serializing_if = "Before::is_empty")]
    pub before: Before,
    /// The run that this one takes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<Undoes>,
    /// The hash of the plan, where a policy asks for approvals of it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plan: String,
}

/// A run that another one takes back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undoes {
    /// Its name.
    pub run: String,
    /// Its UID.
    pub uid: String,
}

/// How long a cluster may be silent where nobody says.
const SILENCE: SignedDuration = SignedDuration::from_mins(3);
/// How long to wait before a cluster is tried again where nobody says.
const RETRY_AFTER: SignedDuration = SignedDuration::from_mins(1);
/// How long a cause that time does not heal must be seen.
pub const FINAL_AFTER: SignedDuration = SignedDuration::from_secs(30);

/// When a cluster of a stage has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits<'a> {
    /// How long it may take, and who says so.
    pub deadline: Option<(SignedDuration, &'a str)>,
    /// Who says that final causes count at once.
    pub final_causes: Option<&'a str>,
    /// How often it is tried again.
    pub retries: i32,
    /// After how long.
    pub retry_after: SignedDuration,
}

impl Limits<'_> {
    /// When a cluster that gets this long each time has failed for good: it is given the same
    /// time again with each retry. The agent of a member tries all the time by itself.
    pub fn stretched(&self, each: SignedDuration) -> SignedDuration {
        let again = each.saturating_add(self.retry_after).saturating_mul(self.retries);
        each.saturating_add(again)
    }
}

impl Adopted {
    /// What a run has noted of the policies it follows; nothing if it follows none.
    pub fn noted_on(run: &ObjectMeta) -> Option<Self> {
        let note = run.annotations.as_ref()?.get(own::ADOPTED_POLICIES)?;
        serde_json::from_str(note).ok()
    }

    /// The policies that select a run with these stages; an error says why it is refused.
    pub fn of<'a>(
        policies: impl IntoIterator<Item = &'a Policy>,
        labels: &Labels,
        stages: &[&str],
    ) -> Result<Self, String> {
        let mut chosen: Vec<Policy> = Vec::new();
        for policy in policies {
            let meant = selects::selects(&policy.spec.selects, labels)
                .map_err(|why| format!("rollout policy `{}`: {why}", policy.name))?;
            let named = stages.iter().any(|stage| names_stage(&policy.spec.selects, stage));
            if meant && (named || stages.is_empty()) {
                chosen.push(policy.clone());
            }
        }
        chosen.sort_by(|a, b| a.name.cmp(&b.name));
        let adopted = Self { policies: chosen, ..Self::default() };
        for stage in stages {
            adopted.agree(stage, "failure.then", |policy| failure(policy)?.then)?;
            adopted.agree(stage, "clusters.order", |policy| clusters(policy)?.order)?;
            adopted.open_together(stage)?;
            adopted.agree_on_approvals(stage)?;
        }
        Ok(adopted)
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.undoes.is_none()
    }

    pub(super) fn agree<T: PartialEq + std::fmt::Debug>(
        &self,
        stage: &str,
        what: &str,
        of: impl Fn(&Policy) -> Option<T>,
    ) -> Result<(), String> {
        let mut said = self.on(stage).filter_map(|policy| Some((&policy.name, of(policy)?)));
        let Some((first, value)) = said.next() else { return Ok(()) };
        match said.find(|(_, other)| *other != value) {
            None => Ok(()),
            Some((second, other)) => Err(format!(
                "rollout policies disagree on {what} of stage `{stage}`: `{first}` says {value:?}, `{second}` says {other:?}; change one of them, or what it selects"
            )),
        }
    }

    /// Windows that have no moment in common would hold the stage for ever.
    fn open_together(&self, stage: &str) -> Result<(), String> {
        let with: Vec<&Policy> = self.with_windows(stage).collect();
        if windows::ever_open(&with) {
            return Ok(());
        }
        let names: Vec<String> = with.iter().map(|policy| format!("`{}`", policy.name)).collect();
        Err(format!(
            "the windows of rollout policies {} have no moment in common for stage `{stage}`; change one of them, or what it selects",
            names.join(" and ")
        ))
    }

    /// The policies of a stage that say when its clusters may begin.
    pub fn with_windows<'a>(&'a self, stage: &'a str) -> impl Iterator<Item = &'a Policy> {
        self.on(stage).filter(|policy| !policy.spec.windows.is_empty())
    }

    pub(super) fn on<'a>(&'a self, stage: &'a str) -> impl Iterator<Item = &'a Policy> {
        self.policies.iter().filter(move |policy| names_stage(&policy.spec.selects, stage))
    }

    fn clusters(&self) -> impl Iterator<Item = &ClusterRules> {
        self.policies.iter().filter_map(clusters)
    }

    /// Whether clusters that come and go leave the run's plan as it is. Failing is stricter.
    pub fn keeps_members(&self) -> bool {
        self.undoes.is_some()
            || self.clusters().filter_map(|rules| rules.membership).min()
                == Some(Membership::Frozen)
    }

    /// Whether clusters that no stage names are left out. Failing is stricter.
    pub fn skips_unmatched(&self) -> bool {
        self.clusters().filter_map(|rules| rules.unmatched).min() == Some(Unmatched::Skip)
    }

    /// Who says that a run which was overtaken fails.
    pub fn fails_when_overtaken(&self) -> Option<&str> {
        let mut strict = self.policies.iter().filter(|policy| {
            clusters(policy).is_some_and(|rules| rules.overtaken == Some(Overtaken::Fail))
        });
        strict.next().map(|policy| policy.name.as_str())
    }

    /// What becomes of silent clusters of a stage, after how long, and who says so.
    pub fn unreachable<'a>(
        &'a self,
        stage: &'a str,
    ) -> Option<(Unreachable, SignedDuration, &'a str)> {
        let said = self.on(stage).filter_map(|policy| {
            let rules = clusters(policy)?;
            let after = read(rules.unreachable_after.as_ref()).unwrap_or(SILENCE);
            Some((rules.unreachable?, after, policy.name.as_str()))
        });
        let said: Vec<_> = said.filter(|(what, ..)| *what != Unreachable::Wait).collect();
        let (what, _, who) = said.iter().max_by_key(|(what, ..)| *what)?;
        let after = said.iter().map(|(_, after, _)| *after).min()?;
        Some((*what, after, who))
    }

    /// In which order the clusters of a stage go.
    pub fn order(&self, stage: &str) -> Order {
        let said = self.on(stage).find_map(|policy| clusters(policy)?.order);
        said.unwrap_or(Order::Label)
    }

    /// When a cluster of a stage has failed.
    pub fn limits<'a>(&'a self, stage: &'a str) -> Limits<'a> {
        let rules = || {
            let on = self.on(stage);
            on.filter_map(|policy| Some((failure(policy)?, policy.name.as_str())))
        };
        let deadlines =
            rules().filter_map(|(f, who)| Some((read(f.progress_deadline.as_ref())?, who)));
        let is_final = |f: &FailureRules| f.final_causes == Some(FinalCauses::Fail);
        Limits {
            deadline: deadlines.min(),
            final_causes: rules().find(|(f, _)| is_final(f)).map(|(_, who)| who),
            retries: rules().filter_map(|(f, _)| f.retries).min().unwrap_or(0).max(0),
            retry_after: rules()
                .filter_map(|(f, _)| read(f.retry_after.as_ref()))
                .min()
                .unwrap_or(RETRY_AFTER),
        }
    }

    /// What follows a spent budget. What takes another run back is not taken back itself.
    pub fn then(&self, stage: &str) -> Then {
        if self.undoes.is_some() {
            return Then::Stop;
        }
        self.on(stage).find_map(|policy| failure(policy)?.then).unwrap_or(Then::Stop)
    }

    /// Whether the run may have to be undone, so that what its clusters had must be noted.
    pub fn may_roll_back(&self) -> bool {
        let mut said = self.policies.iter().filter_map(|policy| failure(policy)?.then);
        self.undoes.is_none() && said.any(|then| then == Then::Rollback)
    }

    /// How many clusters of a stage may fail; nothing where only the whole run is counted.
    pub fn stage_budget(&self, stage: &str, clusters: usize) -> Option<usize> {
        let said = self.on(stage).filter_map(|policy| {
            let rules = failure(policy)?;
            match &rules.budget {
                None => Some(0),
                Some(budget) if budget.run.is_none() && budget.stage.is_none() => Some(0),
                Some(budget) => budget.stage.as_ref().map(|most| counted(most, clusters)),
            }
        });
        said.min()
    }

    /// How many clusters of the whole run may fail.
    pub fn run_budget(&self, clusters: usize) -> Option<usize> {
        let said = self.policies.iter().filter_map(|policy| {
            let budget = failure(policy)?.budget.as_ref()?;
            budget.run.as_ref().map(|most| counted(most, clusters))
        });
        said.min()
    }

    /// Whether a policy says when clusters have failed, so that a budget means something.
    pub fn limits_failures(&self) -> bool {
        self.policies.iter().any(|policy| {
            let fails = |rules: &ClusterRules| rules.unreachable == Some(Unreachable::Fail);
            failure(policy).is_some() || clusters(policy).is_some_and(fails)
        })
    }

    /// Names of the policies that limit failures.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.policies.iter().map(|policy| policy.name.as_str()).collect();
        names.join(", ")
    }

    /// One line for each policy: what it says, for people who are about to start a run; and
    /// what a rollback would do, where there may be one.
    pub fn told(&self) -> Vec<String> {
        let told = self.policies.iter().map(|policy| {
            let mut parts: Vec<String> = Vec::new();
            let stages = &policy.spec.selects.stages;
            if !stages.is_empty() {
                parts.push(format!("stages {}", stages.join(" ")));
            }
            let said = serde_json::to_value(&policy.spec).unwrap_or_default();
            for section in ["clusters", "failure"] {
                for (key, value) in said[section].as_object().into_iter().flatten() {
                    parts.push(format!("{key} {}", value.to_string().replace('"', "")));
                }
            }
            parts.extend(policy.spec.approvals.as_ref().map(approvals::told));
            parts.extend(windows::told(&policy.spec.windows));
            parts.extend(checks::told(&policy.spec.checks));
            format!("policy {}: {}", policy.name, parts.join(", "))
        });
        let back = (self.may_roll_back() && !self.before.is_empty()).then(|| {
            match self.before.goes_back_to(&self.before.clusters()) {
                Ok(version) => format!("if it fails, clusters go back to snapshot {version}"),
                Err(why) => format!("if it fails, nothing can be rolled back: {why}"),
            }
        });
        told.chain(back).collect()
    }
}

fn clusters(policy: &Policy) -> Option<&ClusterRules> {
    policy.spec.clusters.as_ref()
}

fn failure(policy: &Policy) -> Option<&FailureRules> {
    policy.spec.failure.as_ref()
}

pub(super) fn read(text: Option<&String>) -> Option<SignedDuration> {
    Some(text?.parse::<GoDuration>().ok()?.as_signed_duration())
}

/// A number, or a percentage of the clusters, rounded down: a budget promises no more.
fn counted(most: &IntOrString, clusters: usize) -> usize {
    match most {
        IntOrString::Int(most) => usize::try_from(*most).unwrap_or(0),
        IntOrString::String(text) => {
            let percent: usize = text.trim_end_matches('%').parse().unwrap_or(0);
            clusters.saturating_mul(percent) / 100
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy(name: &str, spec: Value) -> Policy {
        Policy { name: name.to_owned(), spec: serde_json::from_value(spec).unwrap() }
    }

    fn adopted(policies: &[Policy]) -> Result<Adopted, String> {
        Adopted::of(policies, &Labels::default(), &["canary", "prod"])
    }

    #[test]
    fn of_several_policies_the_stricter_value_counts() {
        let all = [
            policy(
                "a",
                json!({"clusters": {"membership": "Frozen", "unmatched": "Skip",
                    "unreachable": "Skip", "unreachableAfter": "5m"},
                "failure": {"progressDeadline": "10m", "budget": {"run": 3, "stage": "50%"},
                    "retries": 2, "retryAfter": "2m"}}),
            ),
            policy(
                "b",
                json!({"selects": {"stages": ["prod"]}, "clusters": {"unreachable": "Fail"},
                "failure": {"progressDeadline": "5m", "budget": {"stage": 1}, "retries": 1}}),
            ),
        ];
        let found = adopted(&all).unwrap();
        assert!(found.keeps_members() && found.skips_unmatched());
        let mins = SignedDuration::from_mins;
        assert_eq!(found.unreachable("canary"), Some((Unreachable::Skip, mins(5), "a")));
        assert_eq!(found.unreachable("prod"), Some((Unreachable::Fail, mins(3), "b")));
        let (canary, prod) = (found.limits("canary"), found.limits("prod"));
        assert_eq!((canary.deadline, canary.retries), (Some((mins(10), "a")), 2));
        assert_eq!((prod.deadline, prod.retries), (Some((mins(5), "b")), 1));
        assert_eq!(
            (found.stage_budget("canary", 4), found.stage_budget("prod", 4)),
            (Some(2), Some(1))
        );
        assert_eq!(found.run_budget(40), Some(3));
        // One that fails is stricter than one that goes on.
        let strict = [all[0].clone(), policy("c", json!({"clusters": {"membership": "Fail"}}))];
        assert!(!adopted(&strict).unwrap().keeps_members());
    }

    #[test]
    fn where_no_side_is_stricter_both_are_named() {
        let stop = policy("a", json!({"failure": {"then": "Stop"}}));
        let back = policy("b", json!({"failure": {"then": "Continue"}}));
        assert_eq!(
            adopted(&[back, stop.clone()]).unwrap_err(),
            "rollout policies disagree on failure.then of stage `canary`: `a` says Stop, `b` says Continue; change one of them, or what it selects"
        );
        // They may differ where they are about different stages.
        let prod = json!({"selects": {"stages": ["prod"]}, "failure": {"then": "Continue"}});
        let canary = json!({"selects": {"stages": ["can*"]}, "failure": {"then": "Stop"}});
        let found = adopted(&[policy("p", prod), policy("q", canary)]).unwrap();
        assert_eq!((found.then("canary"), found.then("prod")), (Then::Stop, Then::Continue));
        let elsewhere =
            json!({"selects": {"stages": ["nowhere"]}, "failure": {"then": "Continue"}});
        assert_eq!(adopted(&[stop, policy("z", elsewhere)]).unwrap().names(), "a");
    }

    #[test]
    fn budgets_are_numbers_or_percentages_rounded_down() {
        for (most, clusters, allowed) in
            [(json!(1), 20, 1), (json!("2%"), 100, 2), (json!("2%"), 49, 0), (json!("100%"), 7, 7)]
        {
            assert_eq!(counted(&serde_json::from_value(most).unwrap(), clusters), allowed);
        }
        let none = adopted(&[policy("a", json!({"failure": {"progressDeadline": "1m"}}))]).unwrap();
        assert_eq!((none.stage_budget("prod", 9), none.run_budget(9)), (Some(0), None));
        let whole = adopted(&[policy("a", json!({"failure": {"budget": {"run": 2}}}))]).unwrap();
        assert_eq!((whole.stage_budget("prod", 9), whole.run_budget(9)), (None, Some(2)));
    }

    #[test]
    fn a_retry_gives_a_cluster_its_time_again() {
        let limits = Limits {
            deadline: None,
            final_causes: None,
            retries: 2,
            retry_after: SignedDuration::from_secs(10),
        };
        assert_eq!(limits.stretched(SignedDuration::from_secs(60)), SignedDuration::from_secs(200));
    }
}
