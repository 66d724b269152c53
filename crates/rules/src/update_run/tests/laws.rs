//! The laws themselves can say no.

use std::sync::Arc;

use flagship_api::condition::{ConditionStatus, Generation, draft};
use flagship_api::placement_status::NamespacedName;
use flagship_api::rollout_record::What;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use serde_json::{Value, json};

use super::checklist::{started, writer};
use super::fixture::{Fixture, start};
use crate::policy::checks::jobs::{JobReport, JobState};
use crate::policy::checks::{self, Standing};
use crate::policy::{Adopted, Policy};
use crate::record::{EntryDraft, Recording};
use crate::update_run::stages::untouched;
use crate::update_run::{Action, Observed, laws};
use crate::work::Work;

#[test]
fn a_law_that_is_broken_is_told() {
    let names = |told: Vec<laws::Broken>| told.into_iter().map(|b| b.law).collect::<Vec<_>>();
    let mut fixture = Fixture::new(None);
    let run = started(&mut fixture);
    let whole = fixture.seen(run);
    let mut seen = whole.clone();
    seen.run.status.stages_status[0].clusters[0].conditions.clear();
    assert_eq!(names(laws::state(&seen)), ["S1"]);
    let mut seen = whole.clone();
    writer().cluster_failed(&mut seen.run.status.stages_status[0].clusters[0], "lost");
    assert_eq!(names(laws::state(&seen)), ["S6"]);
    // Given up although it was there, and nobody says which binding.
    assert_eq!(names(laws::step(&whole, &whole, &seen)), ["S6", "S6"]);
    let mut seen = whole.clone();
    writer().cluster_succeeded(&mut seen.run.status.stages_status[0].clusters[0]);
    assert_eq!(names(laws::step(&whole, &whole, &seen)), ["S12"]);
    let mut read = whole.clone();
    for binding in &mut read.bindings {
        Arc::make_mut(binding).spec.resource_snapshot_name = "web-0-snapshot".into();
    }
    assert_eq!(names(laws::step(&read, &whole, &seen)), ["S6"]);
    let mut seen = whole.clone();
    seen.run.status.stages_status[0].clusters.push(untouched("m9"));
    assert_eq!(names(laws::step(&whole, &whole, &seen)), ["S8", "S9"]);
    let mut seen = whole.clone();
    seen.run.status.resource_snapshot_index_used = "0".into();
    assert_eq!(names(laws::step(&whole, &whole, &seen)), ["S9"]);
    assert_eq!(names(laws::rest(&whole)), Vec::<&str>::new());
}

#[test]
fn a_stage_that_ends_before_its_checks_is_found() {
    let asks = json!({"pass": {"below": 1.0}, "prometheus": {"url": "http://p", "query": "up"}});
    let runs = json!({"job": {"namespace": "web", "template": {"spec": {}}}});
    for how in [asks, runs] {
        ends_before_its_checks(&how);
    }
}

fn ends_before_its_checks(how: &Value) {
    let check = |name: &str, after: &str| {
        let mut check = how.clone();
        (check["name"], check["after"]) = (json!(name), json!(after));
        check
    };
    let spec = json!({"checks": [check("one", "Cluster"), check("all", "Stage")]});
    let policy = Policy { name: "p".to_owned(), spec: serde_json::from_value(spec).unwrap() };
    let mut fixture = Fixture::new(None);
    let run = started(&mut fixture);
    let mut read = fixture.seen(run);
    read.run.adopted = Some(Adopted { policies: vec![policy], ..Adopted::default() });
    let stage = read.run.status.stages_status[0].stage_name.clone();
    let cluster = read.run.status.stages_status[0].clusters[0].cluster_name.clone();
    let found = |read: &Observed, after: &Observed| -> Vec<String> {
        let told = laws::step(read, read, after).into_iter();
        told.filter(|broken| broken.law == "P9").map(|broken| broken.what).collect()
    };
    let mut done = read.clone();
    writer().cluster_succeeded(&mut done.run.status.stages_status[0].clusters[0]);
    let of_stage = |read: &Observed| {
        let mut updated = read.clone();
        writer().cluster_succeeded(&mut updated.run.status.stages_status[0].clusters[0]);
        let mut ended = updated.clone();
        writer().stage_succeeded(&mut ended.run.status.stages_status[0]);
        found(&updated, &ended)
    };
    assert_eq!(found(&read, &done), [format!("{cluster} is done before its checks")]);
    assert_eq!(of_stage(&read), [format!("stage {stage} is done before its checks")]);
    let standing = |name: &str, cluster: &str, verdict| Standing {
        key: (format!("p/{name}"), stage.clone(), cluster.to_owned()),
        verdict,
        told: String::new(),
        last: None,
    };
    read.policy.checks = vec![
        standing("one", &cluster, Some(checks::Verdict::Passed)),
        standing("all", "", Some(checks::Verdict::Passed)),
    ];
    assert_eq!(found(&read, &done), [""; 0]);
    assert_eq!(of_stage(&read), [""; 0]);
    // One that has failed has not passed, and one of another name says nothing.
    read.policy.checks = vec![
        standing("two", &cluster, Some(checks::Verdict::Passed)),
        standing("all", "", Some(checks::Verdict::Failed)),
    ];
    assert_eq!((found(&read, &done).len(), of_stage(&read).len()), (1, 1));
}

#[test]
fn a_check_that_is_recorded_as_passed_before_its_jobs_are_complete_is_found() {
    let mut fixture = Fixture::new(None);
    let run = started(&mut fixture);
    let seen = fixture.seen(run);
    let work = |key: [&str; 3], state: JobState| {
        let key = (key[0].to_owned(), key[1].to_owned(), key[2].to_owned());
        let (run_uid, sent, job) = (seen.run.uid.clone(), seen.now, "web/smoke".to_owned());
        let report = JobReport { run_uid, key, job, sent, state, cause: None };
        Work { check: Some(Box::new(report)), ..Work::default() }
    };
    let passed = EntryDraft::of(What::CheckPassed).stage("canary").gate("p/smoke".to_owned());
    let record = Action::Record(Box::new(Recording { head: None, drafts: vec![passed] }));
    let found = |works: &[Work]| laws::passed_jobs_are_complete(&seen, &record, works).len();
    let ours = ["p/smoke", "canary", ""];
    let failed = || JobState::Failed("BackoffLimitExceeded".to_owned(), None);
    assert_eq!(found(&[work(ours, JobState::Complete(None))]), 0);
    for state in [JobState::Sent, JobState::Running(None), failed()] {
        assert_eq!(found(&[work(ours, JobState::Complete(None)), work(ours, state)]), 1);
    }
    // Jobs of other checks, stages and clusters say nothing about it.
    for other in [["p/other", "canary", ""], ["p/smoke", "prod", ""], ["p/smoke", "canary", "m2"]] {
        assert_eq!(found(&[work(other, failed())]), 0);
    }
}

// S12: what the Works of a cluster say when it is declared done
#[test]
fn works_of_two_versions_are_not_one_delivery() {
    let mut fixture = Fixture::new(None);
    let run = started(&mut fixture);
    let before = fixture.seen(run);
    fixture.available();
    fixture.settle(run);
    let after = fixture.seen(run);
    let work = |name: &str, index: &str, available: bool| {
        let mut work = Work {
            name: name.into(),
            generation: 1,
            binding: Some(NamespacedName { name: "web-m1".into(), namespace: String::new() }),
            ..Work::default()
        };
        Arc::make_mut(&mut work.stamp).index = Some(index.into());
        let truth = if available { ConditionStatus::True } else { ConditionStatus::False };
        let told = draft("Available").is(truth, "Told");
        let since = start().checked_sub(SignedDuration::from_secs(1)).unwrap();
        told.set(&mut work.conditions, Generation(1), since);
        work
    };
    let judge = |works: &[Work]| -> Vec<String> {
        let told = laws::one_snapshot(&before.run.status, &after, works);
        told.into_iter().map(|broken| broken.what).collect()
    };
    assert_eq!(judge(&[work("a", "1", true), work("b", "1", true)]), [""; 0]);
    assert_eq!(
        judge(&[work("a", "1", true), work("b", "0", true)]),
        ["m1 is done at 1 with b of 0"]
    );
    assert_eq!(judge(&[work("a", "1", false)]), ["m1 is done while a is not"]);
    // One that stopped working after the binding had said so is no breach.
    let mut later = work("a", "1", false);
    later.conditions[0].last_transition_time = Time(after.now);
    assert_eq!(judge(&[later]), [""; 0]);
}
