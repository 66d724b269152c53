//! Stories with checks, cut at every write. What was measured is played by the stories.

use flagship_api::rollout_record::What;
use flagship_api::staged_update::UpdateRunState::{Run, Stop};
use serde_json::{Value, json};

use super::crashes::survives_policed;
use super::fixture::{Fixture, both_scopes};
use crate::policy::Policy;
use crate::policy::checks::{Standing, Verdict};
use crate::record::Keep;

fn policy(after: &str, failure: Value) -> impl Fn(&mut Fixture) {
    let check = json!({"name": "errors", "after": after, "pass": {"below": 0.01}, "for": "1m",
        "prometheus": {"url": "http://p", "query": "errors{c=\"{{cluster}}\"}"}});
    with(check, failure)
}

fn with(check: Value, failure: Value) -> impl Fn(&mut Fixture) {
    let spec = json!({"selects": {"stages": ["canary"]}, "failure": failure, "checks": [check]});
    move |fixture| {
        let spec = serde_json::from_value(spec.clone()).unwrap();
        fixture.policy.policies.push(Policy { name: "strict".into(), spec });
    }
}

/// Where the check of the canary stage, or of its cluster, stands.
fn stands(fixture: &mut Fixture, cluster: &str, verdict: Option<Verdict>, told: &str) {
    fixture.policy.checks = vec![Standing {
        key: ("strict/errors".to_owned(), "canary".to_owned(), cluster.to_owned()),
        verdict,
        told: told.to_owned(),
        last: Some((fixture.now, Default::default())),
    }];
}

fn wrote(fixture: &Fixture, run: usize, what: What) -> usize {
    fixture.entries(run).iter().filter(|entry| entry.what == what).count()
}

#[test]
fn a_stage_waits_for_its_check_and_goes_on_when_it_has_passed() {
    survives_policed(policy("Stage", json!({})), |fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.available();
        fixture.settle(run);
        assert_eq!(
            fixture.said(run, "Progressing"),
            "True UpdateRunChecking: checks of stage canary are not done: errors (policy strict): not asked yet"
        );
        stands(fixture, "", None, "0.004 is below 0.01");
        fixture.later(5);
        let plan = fixture.settle(run);
        assert_eq!(plan.asks.len(), 1);
        assert_eq!(
            (plan.asks[0].updated.as_slice(), plan.asks[0].rest.len()),
            (&["m2".to_owned()][..], 0)
        );
        assert_eq!(wrote(fixture, run, What::CheckMeasured), 1);
        let begun = fixture.snapshots().iter().filter(|held| !held.is_empty()).count();
        assert_eq!(begun, 1, "nothing else begins");
        stands(fixture, "", Some(Verdict::Passed), "0.004 is below 0.01, for 1m");
        fixture.run_to_the_end(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
        assert_eq!(wrote(fixture, run, What::CheckPassed), 1);
    });
}

#[test]
fn a_check_that_fails_ends_the_run_whatever_is_measured_later() {
    survives_policed(policy("Stage", json!({"then": "Stop"})), |fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.available();
        stands(fixture, "", Some(Verdict::Failed), "0.02 is not below 0.01");
        fixture.settle(run);
        // A hub that has measured nothing finds it decided.
        fixture.policy.checks.clear();
        fixture.settle(run);
        assert_eq!(
            fixture.said(run, "Succeeded"),
            "False UpdateRunFailed: cannot continue the updateRun: stage `canary` has not proved itself: Checks failed under policy strict: CHECK_FAILED, check errors: 0.02 is not below 0.01"
        );
        assert_eq!(wrote(fixture, run, What::CheckFailed), 1);
        assert_eq!(wrote(fixture, run, What::BudgetSpent), 0);
        assert_eq!(fixture.snapshots(), ["", "web-1-snapshot", ""]);
    });
}

#[test]
fn a_run_that_has_not_proved_itself_is_taken_back() {
    survives_policed(policy("Stage", json!({"then": "Rollback"})), |fixture| {
        let first = fixture.create("first", "0", Run);
        fixture.settle(first);
        fixture.available();
        stands(fixture, "", Some(Verdict::Passed), "fine");
        fixture.run_to_the_end(first);
        fixture.later(5);
        fixture.policy.checks.clear();
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.available();
        fixture.settle(run);
        stands(fixture, "", Some(Verdict::Failed), "bad");
        fixture.settle(run);
        fixture.policy.checks.clear();
        fixture.settle(run);
        let told = fixture.said(run, "Succeeded");
        assert!(
            told.contains("has not proved itself")
                && told.contains("1 cluster(s) go back to snapshot 0"),
            "{told}"
        );
        let back = fixture.runs.iter().position(|run| run.name == "r-rollback").unwrap();
        fixture.run_to_the_end(back);
        assert!(
            fixture.said(back, "Succeeded").starts_with("True"),
            "{}",
            fixture.said(back, "Succeeded")
        );
        assert!(fixture.snapshots().iter().all(|held| *held == "web-0-snapshot"));
    });
}

#[test]
fn a_cluster_under_check_keeps_its_slot_and_is_not_stuck() {
    survives_policed(policy("Cluster", json!({"budget": {"run": 1}})), |fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.available();
        fixture.later(1000);
        fixture.settle(run);
        let told = fixture.said(run, "Progressing");
        assert!(told.starts_with("True UpdateRunChecking: checks of stage canary are not done: errors of m2 (policy strict)"), "{told}");
        stands(fixture, "m2", Some(Verdict::Failed), "0.02 is not below 0.01");
        fixture.run_to_the_end(run);
        assert_eq!(
            fixture.said(run, "Succeeded"),
            "True UpdateRunSucceeded: All stages are completed; failed within the budget: m2"
        );
        assert!(fixture.told(run).contains(
            "m2: Started=True/ClusterUpdatingStarted Succeeded=False/ClusterUpdatingFailed"
        ));
    });
}

#[test]
fn a_job_is_asked_of_updated_clusters_only_and_decides_as_answers_do() {
    let job = json!({"namespace": "web", "template": {"spec": {}}});
    let check = json!({"name": "errors", "after": "Stage", "job": job});
    survives_policed(with(check, json!({"then": "Continue"})), |fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.available();
        let plan = fixture.settle(run);
        let [ask] = plan.asks.as_slice() else { panic!("{:?}", plan.asks) };
        assert_eq!((ask.updated.as_slice(), ask.rest.len()), (&["m2".to_owned()][..], 0));
        stands(fixture, "", Some(Verdict::Failed), "Job web/r-errors on m2 failed");
        fixture.run_to_the_end(run);
        assert_eq!(
            fixture.said(run, "Succeeded"),
            "False UpdateRunFailed: cannot continue the updateRun: stage `canary` has not proved itself: Checks failed under policy strict: CHECK_FAILED, check errors: Job web/r-errors on m2 failed"
        );
        assert_eq!(wrote(fixture, run, What::CheckFailed), 1);
    });
}

#[test]
fn a_run_that_is_stopped_under_check_stops_and_asks_anew() {
    both_scopes(|mut fixture| {
        policy("Stage", json!({}))(&mut fixture);
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.available();
        assert_eq!(fixture.settle(run).asks.len(), 1);
        fixture.set_state(run, Stop);
        assert!(fixture.settle(run).asks.is_empty());
        assert!(fixture.said(run, "Progressing").starts_with("False UpdateRunStopped"));
        fixture.set_state(run, Run);
        assert_eq!(fixture.settle(run).asks.len(), 1);
    });
}

#[test]
fn without_a_record_what_is_failed_is_said_before_anything_follows() {
    both_scopes(|mut fixture| {
        fixture.keep = Keep::Off;
        policy("Stage", json!({"then": "Stop"}))(&mut fixture);
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.available();
        fixture.settle(run);
        stands(&mut fixture, "", Some(Verdict::Failed), "bad");
        fixture.step(run);
        assert!(fixture.told(run).contains("canary: Progressing=False/StageUpdatingChecksFailed"));
        assert_eq!(fixture.said(run, "Succeeded"), "");
        fixture.policy.checks.clear();
        fixture.settle(run);
        assert!(
            fixture.said(run, "Succeeded").starts_with("False"),
            "{}",
            fixture.said(run, "Succeeded")
        );
    });
}

#[test]
fn a_check_keeps_no_more_than_a_few_measurements() {
    both_scopes(|mut fixture| {
        policy("Stage", json!({}))(&mut fixture);
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.available();
        for _ in 0..50 {
            stands(&mut fixture, "", None, "fine");
            fixture.settle(run);
            fixture.settle(run);
            fixture.later(30);
        }
        assert_eq!(wrote(&fixture, run, What::CheckMeasured), 20);
    });
}
