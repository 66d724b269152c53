//! CronJob -> Jobs, at the times it names.
//!
//! A job is named after its minute, so a minute is never run twice. Times are UTC;
//! a CronJob in another time zone waits and says so, for no zone table is built in.

use std::cmp::Reverse;

use flagship_base::cron::Times;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

use crate::condition;
use crate::object::{Fields, controller_ref, set, stamp, status_of};
use crate::plan::{Action, Note, Plan, Target};

const CRONS: &str = "cronjobs.batch";
const JOBS: &str = "jobs.batch";
const SOURCE: &str = "cronjob-controller";

/// What one CronJob looks like.
#[derive(Debug, Clone, Serialize)]
pub struct Observed {
    /// The CronJob.
    pub cron: Value,
    /// Jobs that it controls.
    pub jobs: Vec<Value>,
    /// Why the last attempt to make a Job was refused.
    pub refusal: Option<String>,
    /// The present moment.
    pub now: Timestamp,
}

/// Decides the next moves for one CronJob.
pub fn plan(seen: &Observed) -> Plan {
    let cron = &seen.cron;
    let mut plan = Plan::default();
    if cron.is_deleting() {
        return plan;
    }
    let mut status = status_of(cron);
    let (ended, running): (Vec<&Value>, Vec<&Value>) =
        seen.jobs.iter().partition(|j| end_of(j).is_some());
    note_ends(cron, &ended, &mut status, &mut plan);
    sweep(cron, &ended, &mut plan);
    let mut active: Vec<&Value> = running;
    active.sort_by_key(|j| (j.created(), j.name().to_owned()));
    let mut refs: Vec<Value> = active.iter().map(|j| reference(j)).collect();
    if let Some(due) = due(seen, &mut plan) {
        let forbid = cron.text("/spec/concurrencyPolicy") == "Forbid";
        if forbid && !active.is_empty() {
            let why = "Not starting job because prior execution is running and concurrency policy is Forbid";
            plan.waiting.push(why.into());
            plan.act(Action::Say(Note::normal(cron, SOURCE, "JobAlreadyActive", why)));
            // Said once for this time, which then counts as missed.
            set(&mut status, &["lastScheduleTime"], json!(stamp(due)));
        } else if seen.refusal.is_none() {
            if cron.text("/spec/concurrencyPolicy") == "Replace" {
                for job in &active {
                    let message = format!("Deleted job {}", job.name());
                    plan.act(Action::delete(Target::of(JOBS, job)));
                    plan.act(Action::Say(Note::normal(cron, SOURCE, "SuccessfulDelete", message)));
                }
                refs.clear();
            }
            plan.act(make(cron, due));
            set(&mut status, &["lastScheduleTime"], json!(stamp(due)));
        }
    }
    plan.waiting.extend(seen.refusal.clone());
    if refs.is_empty() {
        crate::object::unset(&mut status, &["active"]);
    } else {
        set(&mut status, &["active"], json!(refs));
    }
    plan.status(CRONS, cron, status);
    plan
}

/// The time that should have been run and was not. Wakes the plan for the next one.
fn due(seen: &Observed, plan: &mut Plan) -> Option<Timestamp> {
    let (cron, now) = (&seen.cron, seen.now);
    if cron.is_true("/spec/suspend") {
        plan.waiting.push("suspended".into());
        return None;
    }
    let zone = cron.text("/spec/timeZone");
    if !["", "UTC", "Etc/UTC"].contains(&zone) {
        plan.waiting.push(format!("time zone {zone:?} is not known here"));
        return None;
    }
    let text = cron.text("/spec/schedule");
    let Some(times) = Times::parse(text) else {
        plan.waiting.push(format!("unparseable schedule: {text}"));
        return None;
    };
    if let Some(next) = times.next(now) {
        plan.wake_at(next);
    }
    let mut earliest = cron.time("/status/lastScheduleTime").or_else(|| cron.created())?;
    if let Some(limit) = cron.int("/spec/startingDeadlineSeconds") {
        let oldest = now.checked_sub(SignedDuration::from_secs(limit)).unwrap_or(now);
        earliest = earliest.max(oldest);
    }
    let due = times.last(earliest, now)?;
    // Made already, but the status did not get written.
    let name = name_of(cron, due);
    let exists = seen.jobs.iter().any(|j| j.name() == name);
    (!exists).then_some(due)
}

/// How a job ended and when.
fn end_of(job: &Value) -> Option<(&'static str, Option<Timestamp>)> {
    let conditions = job.list("/status/conditions");
    ["Complete", "Failed"].into_iter().find_map(|kind| {
        let found = condition::find(conditions, kind).filter(|c| c.text("/status") == "True")?;
        Some((kind, found.time("/lastTransitionTime")))
    })
}

/// Jobs that were active and have ended are said, and the last success is kept.
fn note_ends(cron: &Value, ended: &[&Value], status: &mut Value, plan: &mut Plan) {
    let mut success = cron.time("/status/lastSuccessfulTime");
    for job in ended {
        let Some((kind, at)) = end_of(job) else { continue };
        if cron.list("/status/active").iter().any(|a| a.text("/uid") == job.uid()) {
            let message = format!("Saw completed job: {}, condition: {kind}", job.name());
            plan.act(Action::Say(Note::normal(cron, SOURCE, "SawCompletedJob", message)));
        }
        if kind == "Complete" {
            success = success.max(job.time("/status/completionTime").or(at));
        }
    }
    if let Some(success) = success {
        set(status, &["lastSuccessfulTime"], json!(stamp(success)));
    }
}

/// Removes ended jobs beyond the history limits, oldest first.
fn sweep(cron: &Value, ended: &[&Value], plan: &mut Plan) {
    for (kind, field, default) in [
        ("Complete", "/spec/successfulJobsHistoryLimit", 3),
        ("Failed", "/spec/failedJobsHistoryLimit", 1),
    ] {
        let limit = usize::try_from(cron.int(field).unwrap_or(default)).unwrap_or(0);
        let mut jobs: Vec<&&Value> =
            ended.iter().filter(|j| end_of(j).is_some_and(|(k, _)| k == kind)).collect();
        jobs.sort_by_key(|j| Reverse((j.created(), j.name().to_owned())));
        for job in jobs.into_iter().skip(limit).filter(|j| !j.is_deleting()) {
            plan.act(Action::delete(Target::of(JOBS, job)));
        }
    }
}

fn reference(job: &Value) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "name": job.name(),
        "namespace": job.namespace(), "uid": job.uid(),
        "resourceVersion": job.text("/metadata/resourceVersion")})
}

fn name_of(cron: &Value, at: Timestamp) -> String {
    format!("{}-{}", cron.name(), at.as_second() / 60)
}

fn make(cron: &Value, at: Timestamp) -> Action {
    let template = cron.at("/spec/jobTemplate");
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": name_of(cron, at), "namespace": cron.namespace(),
            "labels": template.strings("/metadata/labels"),
            "annotations": template.strings("/metadata/annotations"),
            "ownerReferences": [controller_ref(cron)],
        },
        "spec": template.at("/spec").clone(),
    });
    let key = "batch.kubernetes.io/cronjob-scheduled-timestamp";
    set(&mut job, &["metadata", "annotations", key], json!(stamp(at)));
    Action::Create {
        resource: JOBS,
        object: job,
        then: Some(Note::normal(cron, SOURCE, "SuccessfulCreate", "Created job {name}")),
        refused: Some(Note::warning(cron, SOURCE, "FailedCreate", "Error creating job: ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    struct Story {
        fixture: Fixture,
    }

    impl Story {
        fn of(policy: &str) -> Self {
            let mut fixture = Fixture::new();
            fixture.put(
                "cronjobs.batch",
                json!({"apiVersion": "batch/v1", "kind": "CronJob",
                "metadata": {"name": "tick", "namespace": "default"},
                "spec": {"schedule": "*/5 * * * *", "concurrencyPolicy": policy,
                    "successfulJobsHistoryLimit": 2, "jobTemplate": {"spec": {}}}}),
            );
            Self { fixture }
        }

        fn settle(&mut self) -> Option<Timestamp> {
            for _ in 0..20 {
                let seen = Observed {
                    cron: self.fixture.get("cronjobs.batch", "tick").clone(),
                    jobs: self.fixture.list("jobs.batch"),
                    refusal: None,
                    now: self.fixture.now,
                };
                let plan = super::plan(&seen);
                let wake = plan.wake;
                if !self.fixture.apply(plan) {
                    return wake;
                }
            }
            panic!("does not settle: {:?}", self.fixture.said);
        }

        fn jobs(&self) -> Vec<String> {
            self.fixture.list("jobs.batch").iter().map(|j| j.name().to_owned()).collect()
        }

        fn end_all(&mut self) {
            let at = stamp(self.fixture.now);
            for job in self.jobs() {
                self.fixture.edit("jobs.batch", &job, |j| {
                    j["status"] = json!({"completionTime": at, "conditions": [
                        {"type": "Complete", "status": "True", "lastTransitionTime": at}]});
                });
            }
        }
    }

    #[test]
    fn a_job_is_made_every_time_and_old_ones_go() {
        let mut story = Story::of("Allow");
        let first = story.settle();
        assert!(story.jobs().is_empty(), "nothing is due at the moment of creation");
        assert_eq!(first.map(|w| w.as_second() - story.fixture.now.as_second()), Some(300));
        for round in 1..=4 {
            story.fixture.pass(300);
            story.settle();
            assert_eq!(story.jobs().len(), round.min(3), "two kept and one running");
            story.end_all();
            story.settle();
        }
        assert_eq!(story.jobs().len(), 2);
        let cron = story.fixture.get("cronjobs.batch", "tick");
        assert!(cron["status"].get("active").is_none());
        assert_eq!(cron["status"]["lastScheduleTime"], "2026-01-01T00:20:00Z");
        assert_eq!(cron["status"]["lastSuccessfulTime"], "2026-01-01T00:20:00Z");
        assert!(
            story.fixture.said.contains(&"Created job tick-29453765".to_owned()),
            "{:?}",
            story.fixture.said
        );
        assert!(
            story
                .fixture
                .said
                .contains(&"Saw completed job: tick-29453765, condition: Complete".to_owned())
        );
    }

    #[test]
    fn policies_decide_what_happens_while_one_runs() {
        for (policy, count) in [("Allow", 2), ("Forbid", 1), ("Replace", 1)] {
            let mut story = Story::of(policy);
            story.settle();
            story.fixture.pass(300);
            story.settle();
            let first = story.jobs();
            story.fixture.pass(300);
            story.settle();
            assert_eq!(story.jobs().len(), count, "{policy}");
            assert_eq!(story.jobs()[0] == first[0], policy != "Replace", "{policy}");
        }
    }

    #[test]
    fn after_a_long_pause_only_the_last_time_is_made_up_for() {
        let mut story = Story::of("Allow");
        story.settle();
        story.fixture.pass(100_000);
        story.settle();
        assert_eq!(story.jobs().len(), 1);
        story.fixture.edit("cronjobs.batch", "tick", |c| {
            c["spec"]["suspend"] = json!(true);
        });
        story.fixture.pass(1_000);
        assert_eq!(story.settle(), None);
        assert_eq!(story.jobs().len(), 1);
    }
}
