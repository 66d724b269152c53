//! Deployment -> ReplicaSet: rolling updates, recreation, scaling, history.
//!
//! One pass does one thing, as the real controller does: adopt, or make the new
//! set, or grow it, or shrink old ones. The watch brings the next pass. Every
//! object is written at most once in a plan, so its version can be the precondition.
//!
//! Pods are made and removed by `replicaset`; nothing here touches them.

mod budget;
mod facts;
mod sets;
mod status;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

pub use budget::{Budget, Round, resolve};
pub use facts::{Failure, HASH, SetFacts};
pub use status::reason;

use crate::claim;
use crate::condition::{self, ConditionDraft};
use crate::facts::Pod;
use crate::object::{Fields, set};
use crate::plan::{Action, Note, Plan};
use crate::selector;
use sets::{DESIRED, REVISION, Set};

const SETS: &str = "replicasets.apps";
const SOURCE: &str = "deployment-controller";

/// What one Deployment looks like.
#[derive(Debug, Clone, Serialize)]
pub struct Observed {
    /// The Deployment.
    pub deployment: Value,
    /// ReplicaSets that it controls and selects.
    pub sets: Vec<Arc<SetFacts>>,
    /// Whole ReplicaSets whose belonging is in question: ours but not selected, selected
    /// but free.
    pub strays: Vec<Value>,
    /// Names that ReplicaSets of the namespace have taken, at least those like its own.
    pub taken: BTreeSet<String>,
    /// Pods of its ReplicaSets.
    pub pods: Vec<Pod>,
    /// Why the last attempt to make a ReplicaSet was refused.
    pub refusal: Option<String>,
    /// The present moment.
    pub now: Timestamp,
}

/// Decides the next moves for one Deployment.
pub fn plan(seen: &Observed) -> Plan {
    let deployment = &seen.deployment;
    if selector::is_empty(deployment.at("/spec/selector")) {
        return Plan::wait("the selector is empty and would select everything");
    }
    let actions = claim::settle(deployment, SETS, &seen.strays);
    let mut plan = Plan { actions, ..Plan::default() };
    if !plan.actions.is_empty() {
        plan.waiting.push("ReplicaSets change hands first".into());
        return plan;
    }
    let own = seen.sets.iter().cloned().map(Set::new).collect();
    let (new, old) = sets::split(deployment, own);
    Pass { seen, deployment, budget: budget_of(deployment), new, old, plan }.run()
}

/// What the strategy allows at the desired size.
fn budget_of(deployment: &Value) -> Budget {
    let desired = deployment.int("/spec/replicas").unwrap_or(1).max(0);
    if is_recreate(deployment) {
        return Budget::recreate(desired);
    }
    let rolling = "/spec/strategy/rollingUpdate";
    let or_quarter = |field: &str| match deployment.at(&format!("{rolling}/{field}")) {
        Value::Null => json!("25%"),
        value => value.clone(),
    };
    Budget::rolling(desired, &or_quarter("maxSurge"), &or_quarter("maxUnavailable"))
}

fn is_recreate(deployment: &Value) -> bool {
    deployment.text("/spec/strategy/type") == "Recreate"
}

/// A plan in the making.
struct Pass<'a> {
    seen: &'a Observed,
    deployment: &'a Value,
    budget: Budget,
    new: Option<Set>,
    old: Vec<Set>,
    plan: Plan,
}

impl Pass<'_> {
    fn run(mut self) -> Plan {
        let deployment = self.deployment;
        if deployment.is_deleting() {
            self.report(None);
            return self.plan;
        }
        if let Some(draft) = self.pause_changed() {
            self.report(Some(&draft));
            return self.plan;
        }
        let paused = deployment.is_true("/spec/paused");
        if let Some(new) = &mut self.new {
            let newest = self.old.iter().map(Set::revision).max().unwrap_or(0) + 1;
            new.follow(deployment, newest, self.budget);
        }
        if paused || self.is_scaling() {
            self.scale();
            if paused {
                self.forget();
            }
            return self.finish(None);
        }
        if is_recreate(deployment) { self.recreate() } else { self.roll() }
    }

    /// Pausing and resuming restart the progress clock, and are said.
    fn pause_changed(&self) -> Option<ConditionDraft<'static>> {
        status::deadline(self.deployment)?;
        let conditions = self.deployment.list("/status/conditions");
        let current = condition::find(conditions, "Progressing");
        if current.is_some_and(|c| c.text("/reason") == reason::TIMED_OUT) {
            return None;
        }
        let is_noted = current.is_some_and(|c| c.text("/reason") == reason::PAUSED);
        let (reason, message) = match (self.deployment.is_true("/spec/paused"), is_noted) {
            (true, false) => (reason::PAUSED, "Deployment is paused"),
            (false, true) => (reason::RESUMED, "Deployment is resumed"),
            _ => return None,
        };
        Some(ConditionDraft {
            kind: "Progressing",
            status: "Unknown",
            reason,
            message: message.into(),
        })
    }

    /// The sizes of active sets were computed for another number of replicas.
    fn is_scaling(&self) -> bool {
        let mut active = self.new.iter().chain(&self.old).filter(|s| s.size() > 0);
        active.any(|s| s.number(DESIRED).is_some_and(|noted| noted != self.budget.desired))
    }

    fn scale(&mut self) {
        let budget = self.budget;
        let desired = budget.desired;
        let active = self.new.iter().chain(&self.old).filter(|s| s.size() > 0).count();
        if active <= 1 {
            // The one active set, else the new one, else the latest old one.
            let old = self.old.iter_mut();
            let mut all: Vec<&mut Set> = old.chain(self.new.iter_mut()).collect();
            let at = all.iter().position(|s| s.size() > 0).or_else(|| all.len().checked_sub(1));
            if let Some(set) = at.and_then(|at| all.get_mut(at))
                && (set.size() != desired || set.number(DESIRED) != Some(desired))
            {
                Self::resize(&mut self.plan, self.deployment, set, desired, budget);
            }
            return;
        }
        let saturated = self.new.as_ref().is_some_and(|s| {
            s.size() == desired && s.number(DESIRED) == Some(desired) && s.available() == desired
        });
        if saturated {
            for set in &mut self.old {
                if set.size() > 0 {
                    Self::resize(&mut self.plan, self.deployment, set, 0, budget);
                }
            }
            return;
        }
        if is_recreate(self.deployment) {
            return;
        }
        let total: i64 = self.new.iter().chain(&self.old).map(Set::size).sum();
        let growing = budget.ceiling() > total;
        let actual: i64 = self.deployment.int("/status/replicas").unwrap_or(0);
        let mut active: Vec<&mut Set> =
            self.old.iter_mut().chain(self.new.iter_mut()).filter(|s| s.size() > 0).collect();
        sets::largest_first(&mut active, growing);
        let shape: Vec<(i64, i64)> = active
            .iter()
            .map(|s| (s.size(), s.number(sets::MAX).filter(|max| *max > 0).unwrap_or(actual)))
            .collect();
        for (set, size) in active.into_iter().zip(budget::spread(&shape, budget)) {
            Self::resize(&mut self.plan, self.deployment, set, size, budget);
        }
    }

    fn roll(mut self) -> Plan {
        let budget = self.budget;
        let total: i64 = self.new.iter().chain(&self.old).map(Set::size).sum();
        let Some(new) = &mut self.new else { return self.make(budget.grown(0, total)) };
        let grown = if new.size() > budget.desired {
            budget.desired
        } else {
            budget.grown(new.size(), total)
        };
        if grown != new.size() {
            Self::resize(&mut self.plan, self.deployment, new, grown, budget);
            return self.finish(None);
        }
        let missing = new.size() - new.available();
        let available: i64 = self.new.iter().chain(&self.old).map(Set::available).sum();
        let limit = total - budget.floor() - missing;
        if limit > 0 && self.old.iter().any(|s| s.size() > 0) {
            let shape: Vec<_> = self.old.iter().map(|s| (s.size(), s.available())).collect();
            let sizes = budget::shrink_old(&shape, limit, budget.floor(), available);
            for (set, size) in self.old.iter_mut().zip(sizes) {
                if set.size() != size {
                    Self::resize(&mut self.plan, self.deployment, set, size, budget);
                }
            }
        }
        self.settle()
    }

    fn recreate(mut self) -> Plan {
        let budget = self.budget;
        let mut shrunk = false;
        for set in &mut self.old {
            if set.size() > 0 {
                Self::resize(&mut self.plan, self.deployment, set, 0, budget);
                shrunk = true;
            }
        }
        if shrunk {
            return self.finish(None);
        }
        let new_uid = self.new.as_ref().map(|s| s.seen.target.uid.clone());
        let is_old = |p: &&Pod| p.controller != new_uid && !p.phase.is_final();
        if let Some(pod) = self.seen.pods.iter().find(is_old) {
            self.plan.waiting.push(format!("old pod {} is still there", pod.name));
            return self.finish(None);
        }
        let Some(new) = &mut self.new else { return self.make(budget.desired) };
        if new.size() != budget.desired {
            Self::resize(&mut self.plan, self.deployment, new, budget.desired, budget);
            return self.finish(None);
        }
        self.settle()
    }

    /// Makes the new set and says so in the Progressing condition.
    fn make(mut self, size: i64) -> Plan {
        let newest = self.old.iter().map(Set::revision).max().unwrap_or(0) + 1;
        let new = sets::make(self.deployment, newest, size, self.budget);
        if self.seen.taken.contains(new.name()) {
            // Another owner's set, or another template with our hash: hash again.
            let mut status = crate::object::status_of(self.deployment);
            let count = status.int("/collisionCount").unwrap_or(0) + 1;
            set(&mut status, &["collisionCount"], json!(count));
            self.plan.status("deployments.apps", self.deployment, status);
            return self.plan;
        }
        let progressing = status::deadline(self.deployment).is_some();
        if let Some(why) = &self.seen.refusal {
            let message = why.clone();
            let draft = ConditionDraft {
                kind: "Progressing",
                status: "False",
                reason: reason::REFUSED,
                message,
            };
            self.plan.waiting.push(why.clone());
            return self.finish(progressing.then_some(&draft));
        }
        let message = format!("Created new replica set {:?}", new.name());
        let draft = ConditionDraft {
            kind: "Progressing",
            status: "True",
            reason: reason::CREATED,
            message,
        };
        let scaled = (size > 0).then(|| {
            let message = format!("Scaled up replica set {} from 0 to {size}", new.name());
            Note::normal(self.deployment, SOURCE, "ScalingReplicaSet", message)
        });
        let message = format!("Failed to create new replica set {:?}: ", new.name());
        let refused = Note::warning(self.deployment, SOURCE, reason::REFUSED, message);
        self.plan.act(Action::Create {
            resource: SETS,
            object: new,
            then: scaled,
            refused: Some(refused),
        });
        self.finish(progressing.then_some(&draft))
    }

    /// Nothing to move: clean up once complete, and report.
    fn settle(mut self) -> Plan {
        let status = self.deployment.at("/status");
        if status::is_complete(self.deployment, status, self.budget.desired) {
            self.forget();
        }
        let is_first_word = condition::find(status.list("/conditions"), "Progressing").is_none();
        let found = self.new.as_ref().filter(|_| is_first_word).map(|set| ConditionDraft {
            kind: "Progressing",
            status: "True",
            reason: reason::FOUND,
            message: format!("Found new replica set {:?}", set.name()),
        });
        let found = found.filter(|_| status::deadline(self.deployment).is_some());
        self.finish(found.as_ref())
    }

    /// Removes sets beyond the history limit.
    fn forget(&mut self) {
        let Some(limit) = self.deployment.int("/spec/revisionHistoryLimit") else { return };
        for set in sets::beyond_history(&self.old, limit) {
            self.plan.act(Action::delete(set.seen.target.clone()));
        }
    }

    /// Writes changed sets, then the deployment's status.
    fn finish(mut self, draft: Option<&ConditionDraft<'_>>) -> Plan {
        let sets = self.new.iter().chain(&self.old);
        let mut writes: Vec<Action> = sets.filter_map(Set::write).collect();
        // Sizes before the sentences about them.
        writes.append(&mut self.plan.actions);
        self.plan.actions = writes;
        self.report(draft);
        self.plan
    }

    fn report(&mut self, draft: Option<&ConditionDraft<'_>>) {
        let (deployment, now) = (self.deployment, self.seen.now);
        let mut conditions = deployment.list("/status/conditions").to_vec();
        if let Some(draft) = draft {
            status::put(&mut conditions, now, draft);
        }
        let (new, desired) = (self.new.as_ref(), self.budget.desired);
        let mut status = status::counted(deployment, new, &self.old, self.budget, conditions, now);
        let paused = deployment.is_true("/spec/paused");
        if !paused && !deployment.is_deleting() && !self.is_scaling() {
            let wake = status::judge(deployment, new, &self.old, &mut status, desired, now);
            if let Some(wake) = wake {
                self.plan.wake_at(wake);
            }
        }
        let revision = new.and_then(|s| s.annotation(REVISION));
        if let Some(revision) = revision.filter(|r| deployment.annotation(REVISION) != Some(*r)) {
            // Noted with the status, as the real controller does: written as a change of
            // the object, an annotation would count as a new generation.
            let mut object = deployment.clone();
            set(&mut object, &["metadata", "annotations", REVISION], json!(revision));
            set(&mut object, &["status"], status);
            self.plan.act(Action::ReplaceStatus { resource: "deployments.apps", object });
            return;
        }
        self.plan.status("deployments.apps", deployment, status);
    }

    fn resize(plan: &mut Plan, deployment: &Value, set: &mut Set, size: i64, budget: Budget) {
        let before = set.size();
        set.resize(size, budget);
        if before != size {
            let way = if before < size { "up" } else { "down" };
            let message =
                format!("Scaled {way} replica set {} from {before} to {size}", set.name());
            plan.act(Action::Say(Note::normal(deployment, SOURCE, "ScalingReplicaSet", message)));
        }
    }
}

#[cfg(test)]
mod tests;
