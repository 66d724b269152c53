//! Stories with checks, cut at every write. What was measured is played by the stories.

use flagship_api::rollout_record::What;
use flagship_api::staged_update::UpdateRunState::{Run, Stop};
use serde_json::{Value, json};

use super::crashes::survives_policed;
use super::world::{World, both_scopes};
use crate::policy::Policy;
use crate::policy::checks::{Standing, Verdict};
use crate::record::Keep;

fn policy(after: &str, failure: Value) -> impl Fn(&mut World) {
    let check = json!({"name": "errors", "after": after, "pass": {"below": 0.01}, "for": "1m",
        "prometheus": {"url": "http://p", "query": "errors{c=\"{{cluster}}\"}"}});
    let spec = json!({"selects": {"stages": ["canary"]}, "failure": failure, "checks": [check]});
    move |world| {
        let spec = serde_json::from_value(spec.clone()).unwrap();
        world.policy.policies.push(Policy { name: "strict".into(), spec });
    }
}

/// Where the check of the canary stage, or of its cluster, stands.
fn stands(world: &mut World, cluster: &str, verdict: Option<Verdict>, told: &str) {
    world.policy.checks = vec![Standing {
        key: ("strict/errors".to_owned(), "canary".to_owned(), cluster.to_owned()),
        verdict,
        told: told.to_owned(),
        last: Some((world.now, Default::default())),
    }];
}

fn wrote(world: &World, run: usize, what: What) -> usize {
    world.entries(run).iter().filter(|entry| entry.what == what).count()
}

#[test]
fn a_stage_waits_for_its_check_and_goes_on_when_it_has_passed() {
    survives_policed(policy("Stage", json!({})), |world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.available();
        world.settle(run);
        assert_eq!(
            world.said(run, "Progressing"),
            "True UpdateRunChecking: checks of stage canary are not done: errors (policy strict): not asked yet"
        );
        stands(world, "", None, "0.004 is below 0.01");
        world.later(5);
        let plan = world.settle(run);
        assert_eq!(plan.asks.len(), 1);
        assert_eq!(
            (plan.asks[0].updated.as_slice(), plan.asks[0].rest.len()),
            (&["m2".to_owned()][..], 0)
        );
        assert_eq!(wrote(world, run, What::CheckMeasured), 1);
        let begun = world.snapshots().iter().filter(|held| !held.is_empty()).count();
        assert_eq!(begun, 1, "nothing else begins");
        stands(world, "", Some(Verdict::Passed), "0.004 is below 0.01, for 1m");
        world.run_to_the_end(run);
        assert!(world.said(run, "Succeeded").starts_with("True"));
        assert_eq!(wrote(world, run, What::CheckPassed), 1);
    });
}

#[test]
fn a_check_that_fails_ends_the_run_whatever_is_measured_later() {
    survives_policed(policy("Stage", json!({"then": "Stop"})), |world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.available();
        stands(world, "", Some(Verdict::Failed), "0.02 is not below 0.01");
        world.settle(run);
        // A hub that has measured nothing finds it decided.
        world.policy.checks.clear();
        world.settle(run);
        assert_eq!(
            world.said(run, "Succeeded"),
            "False UpdateRunFailed: cannot continue the updateRun: stage `canary` has not proved itself: Checks failed under policy strict: CHECK_FAILED, check errors: 0.02 is not below 0.01"
        );
        assert_eq!(wrote(world, run, What::CheckFailed), 1);
        assert_eq!(wrote(world, run, What::BudgetSpent), 0);
        assert_eq!(world.snapshots(), ["", "web-1-snapshot", ""]);
    });
}

#[test]
fn a_run_that_has_not_proved_itself_is_taken_back() {
    survives_policed(policy("Stage", json!({"then": "Rollback"})), |world| {
        let first = world.create("first", "0", Run);
        world.settle(first);
        world.available();
        stands(world, "", Some(Verdict::Passed), "fine");
        world.run_to_the_end(first);
        world.later(5);
        world.policy.checks.clear();
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.available();
        world.settle(run);
        stands(world, "", Some(Verdict::Failed), "bad");
        world.settle(run);
        world.policy.checks.clear();
        world.settle(run);
        let told = world.said(run, "Succeeded");
        assert!(
            told.contains("has not proved itself")
                && told.contains("1 cluster(s) go back to snapshot 0"),
            "{told}"
        );
        let back = world.runs.iter().position(|run| run.name == "r-rollback").unwrap();
        world.run_to_the_end(back);
        assert!(
            world.said(back, "Succeeded").starts_with("True"),
            "{}",
            world.said(back, "Succeeded")
        );
        assert!(world.snapshots().iter().all(|held| *held == "web-0-snapshot"));
    });
}

#[test]
fn a_cluster_under_check_keeps_its_slot_and_is_not_stuck() {
    survives_policed(policy("Cluster", json!({"budget": {"run": 1}})), |world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.available();
        world.later(1000);
        world.settle(run);
        let told = world.said(run, "Progressing");
        assert!(told.starts_with("True UpdateRunChecking: checks of stage canary are not done: errors of m2 (policy strict)"), "{told}");
        stands(world, "m2", Some(Verdict::Failed), "0.02 is not below 0.01");
        world.run_to_the_end(run);
        assert_eq!(
            world.said(run, "Succeeded"),
            "True UpdateRunSucceeded: All stages are completed; failed within the budget: m2"
        );
        assert!(world.told(run).contains(
            "m2: Started=True/ClusterUpdatingStarted Succeeded=False/ClusterUpdatingFailed"
        ));
    });
}

#[test]
fn a_run_that_is_stopped_under_check_stops_and_asks_anew() {
    both_scopes(|mut world| {
        policy("Stage", json!({}))(&mut world);
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.available();
        assert_eq!(world.settle(run).asks.len(), 1);
        world.set_state(run, Stop);
        assert!(world.settle(run).asks.is_empty());
        assert!(world.said(run, "Progressing").starts_with("False UpdateRunStopped"));
        world.set_state(run, Run);
        assert_eq!(world.settle(run).asks.len(), 1);
    });
}

#[test]
fn without_a_record_what_is_failed_is_said_before_anything_follows() {
    both_scopes(|mut world| {
        world.keep = Keep::Off;
        policy("Stage", json!({"then": "Stop"}))(&mut world);
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.available();
        world.settle(run);
        stands(&mut world, "", Some(Verdict::Failed), "bad");
        world.step(run);
        assert!(world.told(run).contains("canary: Progressing=False/StageUpdatingChecksFailed"));
        assert_eq!(world.said(run, "Succeeded"), "");
        world.policy.checks.clear();
        world.settle(run);
        assert!(
            world.said(run, "Succeeded").starts_with("False"),
            "{}",
            world.said(run, "Succeeded")
        );
    });
}

#[test]
fn a_check_keeps_no_more_than_a_few_measurements() {
    both_scopes(|mut world| {
        policy("Stage", json!({}))(&mut world);
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.available();
        for _ in 0..50 {
            stands(&mut world, "", None, "fine");
            world.settle(run);
            world.settle(run);
            world.later(30);
        }
        assert_eq!(wrote(&world, run, What::CheckMeasured), 20);
    });
}
