//! Job -> Pods: runs pods until enough of them have succeeded, or too many failed.
//!
//! Ended pods are counted exactly once: a finalizer holds each until its count is
//! stored beside its UID in `uncountedTerminatedPods`, and only then lets it go.
//! Whoever deletes an ended pod cannot make the job run it again.
//!
//! `podFailurePolicy`, `successPolicy` and limits per index are not looked at.

mod indexes;
#[cfg(test)]
mod tests;

use std::time::Duration;

use flagship_base::backoff::Backoff;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

use crate::condition::{self, ConditionDraft, Style};
use crate::facts::{Phase, Pod};
use crate::object::{Fields, set, stamp, status_of};
use crate::plan::{Action, Amendment, Note, Plan, Propagation, Target};
use crate::pods::{BURST, from_template, remove, sort_for_deletion};
use indexes::Indexes;

const JOBS: &str = "jobs.batch";
const SOURCE: &str = "job-controller";
/// The waits before a failed pod is replaced.
const BACK_OFF: Backoff =
    Backoff { first: Duration::from_secs(10), longest: Duration::from_secs(600) };
/// Holds ended pods until they are counted.
pub const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// What one Job looks like.
#[derive(Debug, Clone, Serialize)]
pub struct Observed {
    /// The Job.
    pub job: Value,
    /// Pods that it controls.
    pub pods: Vec<Pod>,
    /// Why the last attempt to make a pod was refused.
    pub refusal: Option<String>,
    /// The present moment.
    pub now: Timestamp,
}

/// Lets go of pods whose job is no longer there to count them.
pub fn release(pods: &[Pod]) -> Plan {
    let mut plan = Plan::default();
    pods.iter().filter(|p| is_held(p)).for_each(|p| plan.act(let_go(p)));
    plan
}

/// Decides the next moves for one Job.
pub fn plan(seen: &Observed) -> Plan {
    let job = &seen.job;
    let by = job.text("/spec/managedBy");
    if !by.is_empty() && by != "kubernetes.io/job-controller" {
        return Plan::wait(format!("left to {by}"));
    }
    if job.is_deleting() {
        return release(&seen.pods);
    }
    if let Some(done) = finish_of(job) {
        return after_end(seen, done);
    }
    let mut work = Work::of(seen);
    work.count();
    work.run();
    work.plan
}

/// Since when the job has ended.
fn finish_of(job: &Value) -> Option<Timestamp> {
    let conditions = job.list("/status/conditions");
    ["Complete", "Failed"].iter().find_map(|kind| {
        let found = condition::find(conditions, kind).filter(|c| c.text("/status") == "True")?;
        found.time("/lastTransitionTime")
    })
}

fn after_end(seen: &Observed, done: Timestamp) -> Plan {
    let mut plan = release(&seen.pods);
    if plan.actions.is_empty() {
        let mut status = status_of(&seen.job);
        status["uncountedTerminatedPods"] = json!({});
        plan.status(JOBS, &seen.job, status);
    }
    if let Some(seconds) = seen.job.int("/spec/ttlSecondsAfterFinished") {
        let due = done.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX);
        if due <= seen.now {
            plan.act(Action::Delete {
                target: Target::of(JOBS, &seen.job),
                propagation: Propagation::Foreground,
                grace: None,
                then: None,
            });
        } else {
            plan.wake_at(due);
        }
    }
    plan
}

fn is_held(pod: &Pod) -> bool {
    pod.finalizers.iter().any(|f| f == TRACKING)
}

fn let_go(pod: &Pod) -> Action {
    Action::Amend { target: pod.target(), amendment: Amendment::DropFinalizer(TRACKING.into()) }
}

/// A plan in the making.
struct Work<'a> {
    seen: &'a Observed,
    job: &'a Value,
    status: Value,
    active: Vec<&'a Pod>,
    succeeded: i64,
    failed: i64,
    done: Indexes,
    plan: Plan,
}

impl<'a> Work<'a> {
    fn of(seen: &'a Observed) -> Self {
        let job = &seen.job;
        let status = status_of(job);
        Self {
            seen,
            job,
            active: seen.pods.iter().filter(|p| p.is_active()).collect(),
            succeeded: status.int("/succeeded").unwrap_or(0),
            failed: status.int("/failed").unwrap_or(0),
            done: Indexes::parse(status.text("/completedIndexes")),
            status,
            plan: Plan::default(),
        }
    }

    fn is_indexed(&self) -> bool {
        self.job.text("/spec/completionMode") == "Indexed"
    }

    /// Counts pods that ended since, and lets go of those that are counted in the store.
    fn count(&mut self) {
        let stored = |list: &str| -> Vec<String> {
            let path = format!("/status/uncountedTerminatedPods/{list}");
            let uids = self.job.list(&path).iter();
            uids.filter_map(|u| u.as_str().map(str::to_owned)).collect()
        };
        let (mut good, mut bad) = (stored("succeeded"), stored("failed"));
        for pod in self.seen.pods.iter().filter(|p| is_held(p)) {
            if good.contains(&pod.uid) || bad.contains(&pod.uid) {
                self.plan.act(let_go(pod));
            }
        }
        let still_held = |uid: &String| self.seen.pods.iter().any(|p| p.uid == *uid && is_held(p));
        good.retain(still_held);
        bad.retain(still_held);
        for pod in self.seen.pods.iter().filter(|p| is_held(p)) {
            let is_counted = good.contains(&pod.uid) || bad.contains(&pod.uid);
            if is_counted || !(pod.phase.is_final() || pod.deleting && pod.node.is_empty()) {
                continue;
            }
            if pod.phase == Phase::Succeeded {
                let is_new = match pod.index.filter(|_| self.is_indexed()) {
                    Some(index) => self.done.insert(index),
                    None => true,
                };
                self.succeeded += i64::from(is_new);
                good.push(pod.uid.clone());
            } else {
                self.failed += 1;
                bad.push(pod.uid.clone());
            }
        }
        let mut uncounted = json!({});
        for (list, uids) in [("succeeded", good), ("failed", bad)] {
            if !uids.is_empty() {
                uncounted[list] = json!(uids);
            }
        }
        self.status["uncountedTerminatedPods"] = uncounted;
    }

    fn run(&mut self) {
        let (job, now) = (self.job, self.seen.now);
        let suspended = job.is_true("/spec/suspend");
        let mut conditions = self.status.list("/conditions").to_vec();
        let was_suspended = condition::is_true(&conditions, "Suspended");
        if self.status.at("/startTime").is_null() && !suspended {
            self.status["startTime"] = json!(stamp(now));
        }
        let verdict = self.verdict(&conditions);
        let mut remaining: Vec<&Pod> = std::mem::take(&mut self.active);
        if verdict.is_some() || suspended {
            for pod in remaining.drain(..) {
                self.plan.act(remove(SOURCE, job, pod));
            }
        } else {
            self.adjust(&mut remaining);
        }
        let moving = self.seen.pods.iter().any(|p| !p.phase.is_final());
        let put = |conditions: &mut Vec<Value>, kind, status, reason, message: &str| {
            let draft = ConditionDraft { kind, status, reason, message: message.to_owned() };
            condition::put(conditions, Style::ProbedNow, now, &draft);
        };
        match verdict {
            Some(Verdict { ok, reason, message }) => {
                let early = if ok { "SuccessCriteriaMet" } else { "FailureTarget" };
                put(&mut conditions, early, "True", reason, message);
                // The end is declared once no pod is left moving.
                if !moving {
                    let last = if ok { "Complete" } else { "Failed" };
                    put(&mut conditions, last, "True", reason, message);
                    if ok {
                        self.status["completionTime"] = json!(stamp(now));
                        self.say(false, "Completed", "Job completed");
                    } else {
                        self.say(true, reason, message);
                    }
                }
            }
            None if suspended && !was_suspended => {
                put(&mut conditions, "Suspended", "True", "JobSuspended", "Job suspended");
                crate::object::unset(&mut self.status, &["startTime"]);
                self.say(false, "Suspended", "Job suspended");
            }
            None if !suspended && was_suspended => {
                put(&mut conditions, "Suspended", "False", "JobResumed", "Job resumed");
                self.status["startTime"] = json!(stamp(now));
                self.say(false, "Resumed", "Job resumed");
            }
            None => {}
        }
        if !conditions.is_empty() {
            self.status["conditions"] = json!(conditions);
        }
        self.report(&remaining);
    }

    /// Whether the job has ended, and how.
    fn verdict(&mut self, conditions: &[Value]) -> Option<Verdict> {
        let job = self.job;
        for (kind, ok) in [("SuccessCriteriaMet", true), ("FailureTarget", false)] {
            if condition::is_true(conditions, kind) {
                let reason = condition::find(conditions, kind).map_or("", |c| c.text("/reason"));
                return Some(Verdict::stored(ok, reason));
            }
        }
        let limit = job.int("/spec/backoffLimit").unwrap_or(6);
        let restarts: i64 = self.seen.pods.iter().map(|p| p.restarts).sum();
        let restarts_in_place = job.text("/spec/template/spec/restartPolicy") == "OnFailure";
        if self.failed > limit || (restarts_in_place && restarts > 0 && restarts >= limit.max(1)) {
            return Some(Verdict::BACKOFF);
        }
        if let (Some(limit), Some(start), false) = (
            job.int("/spec/activeDeadlineSeconds"),
            self.status.time("/startTime"),
            job.is_true("/spec/suspend"),
        ) {
            let end = start.checked_add(SignedDuration::from_secs(limit)).unwrap_or(Timestamp::MAX);
            if end <= self.seen.now {
                return Some(Verdict::DEADLINE);
            }
            self.plan.wake_at(end);
        }
        let enough = match job.int("/spec/completions") {
            Some(wanted) => self.succeeded >= wanted,
            None => self.succeeded > 0 && self.active.is_empty(),
        };
        enough.then_some(Verdict::COMPLETE)
    }

    /// Brings the number of active pods to what is wanted now.
    fn adjust(&mut self, active: &mut Vec<&'a Pod>) {
        let job = self.job;
        let parallelism = job.int("/spec/parallelism").unwrap_or(1).max(0);
        let present = i64::try_from(active.len()).unwrap_or(i64::MAX);
        let wanted = match job.int("/spec/completions") {
            Some(completions) => parallelism.min(completions - self.succeeded).max(0),
            None if self.succeeded > 0 => present.min(parallelism),
            None => parallelism,
        };
        if present > wanted {
            sort_for_deletion(active);
            let surplus = usize::try_from(present - wanted).unwrap_or(0);
            for pod in active.drain(..surplus) {
                self.plan.act(remove(SOURCE, job, pod));
            }
            return;
        }
        if present == wanted || self.seen.refusal.is_some() {
            self.plan.waiting.extend(self.seen.refusal.clone());
            return;
        }
        // Pods that are going still hold their place.
        let going = self.seen.pods.iter().filter(|p| p.deleting && !p.phase.is_final()).count();
        let room = wanted - present - i64::try_from(going).unwrap_or(0);
        if let Some(due) = self.back_off().filter(|due| *due > self.seen.now) {
            self.plan.wake_at(due);
            self.plan.waiting.push("backing off after a failed pod".into());
            return;
        }
        let busy: Vec<i64> = active.iter().filter_map(|p| p.index).collect();
        let mut free = (0..).filter(|i| !self.done.contains(*i) && !busy.contains(i));
        for _ in 0..room.clamp(0, BURST) {
            let index = if self.is_indexed() { free.next() } else { None };
            self.plan.act(make(job, index));
        }
    }

    /// Ten seconds after the first failure, twice that after the second, up to ten minutes.
    fn back_off(&self) -> Option<Timestamp> {
        let failed = self.seen.pods.iter().filter(|p| p.phase == Phase::Failed);
        let last = failed.filter_map(|p| p.finished).max()?;
        let succeeded = self.seen.pods.iter().filter(|p| p.phase == Phase::Succeeded);
        if succeeded.filter_map(|p| p.finished).max().is_some_and(|good| good > last) {
            return None;
        }
        let before = u32::try_from((self.failed - 1).max(0)).unwrap_or(u32::MAX);
        last.checked_add(BACK_OFF.after(before)).ok()
    }

    fn report(&mut self, active: &[&Pod]) {
        let going = self.seen.pods.iter().filter(|p| p.deleting && !p.phase.is_final()).count();
        let ready = active.iter().filter(|p| p.is_ready()).count();
        let set_count = |status: &mut Value, field: &str, number: i64| {
            if number == 0 {
                crate::object::unset(status, &[field]);
            } else {
                status[field] = json!(number);
            }
        };
        let size = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        set_count(&mut self.status, "active", size(active.len()));
        set_count(&mut self.status, "succeeded", self.succeeded);
        set_count(&mut self.status, "failed", self.failed);
        // Pointers in Go: zero is written.
        self.status["ready"] = json!(ready);
        self.status["terminating"] = json!(going);
        if self.is_indexed() {
            self.status["completedIndexes"] = json!(self.done.to_string());
        }
        let status = self.status.clone();
        self.plan.status(JOBS, self.job, status);
    }

    fn say(&mut self, warning: bool, reason: &'static str, message: &str) {
        let note = Note { warning, ..Note::normal(self.job, SOURCE, reason, message) };
        self.plan.act(Action::Say(note));
    }
}

/// How a job ends.
struct Verdict {
    ok: bool,
    reason: &'static str,
    message: &'static str,
}

impl Verdict {
    const COMPLETE: Self = Self {
        ok: true,
        reason: "CompletionsReached",
        message: "Reached expected number of succeeded pods",
    };
    const BACKOFF: Self = Self {
        ok: false,
        reason: "BackoffLimitExceeded",
        message: "Job has reached the specified backoff limit",
    };
    const DEADLINE: Self = Self {
        ok: false,
        reason: "DeadlineExceeded",
        message: "Job was active longer than specified deadline",
    };

    /// A verdict that an earlier pass has stored.
    fn stored(ok: bool, reason: &str) -> Self {
        match (ok, reason) {
            (true, _) => Self::COMPLETE,
            (false, "DeadlineExceeded") => Self::DEADLINE,
            (false, _) => Self::BACKOFF,
        }
    }
}

/// A pod of the job; with an index, one that knows it.
fn make(job: &Value, index: Option<i64>) -> Action {
    let mut pod = from_template(job, job.at("/spec/template"));
    for (key, value) in [("job-name", job.name()), ("controller-uid", job.uid())] {
        for label in [key.to_owned(), format!("batch.kubernetes.io/{key}")] {
            set(&mut pod, &["metadata", "labels", &label], json!(value));
        }
    }
    let mut finalizers = pod.list("/metadata/finalizers").to_vec();
    finalizers.push(json!(TRACKING));
    set(&mut pod, &["metadata", "finalizers"], json!(finalizers));
    if let Some(index) = index {
        let key = "batch.kubernetes.io/job-completion-index";
        let text = index.to_string();
        set(&mut pod, &["metadata", "annotations", key], json!(text));
        set(&mut pod, &["metadata", "labels", key], json!(text));
        set(&mut pod, &["metadata", "generateName"], json!(format!("{}-{index}-", job.name())));
        set(&mut pod, &["spec", "hostname"], json!(format!("{}-{index}", job.name())));
        let containers = pod.pointer_mut("/spec/containers").and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mut env = container.list("/env").to_vec();
            env.push(json!({"name": "JOB_COMPLETION_INDEX", "value": text}));
            set(container, &["env"], json!(env));
        }
    }
    Action::Create {
        resource: "pods",
        object: pod,
        then: Some(Note::normal(job, SOURCE, "SuccessfulCreate", "Created pod: {name}")),
        refused: Some(Note::warning(job, SOURCE, "FailedCreate", "Error creating: ")),
    }
}
