//! Stories with freezes and policies, cut at every write.

use flagship_api::condition::ConditionStatus;
use flagship_api::staged_update::UpdateRunState::Run;
use serde_json::{Value, json};
use std::sync::Arc;

use super::crashes::survives_policed;
use super::world::{World, both_scopes};
use crate::policy::{Freeze, Policy};

fn freeze(world: &mut World) {
    let object = json!({"metadata": {"name": "stop"}, "spec": {"reason": "incident"}});
    let freeze = Freeze::read(&serde_json::from_value(object).unwrap());
    world.policy.freezes.push(Arc::new(freeze));
}

fn policy(spec: Value) -> impl Fn(&mut World) {
    move |world| {
        let spec = serde_json::from_value(spec.clone()).unwrap();
        world.policy.policies.push(Policy { name: "strict".into(), spec });
    }
}

#[test]
fn a_freeze_in_the_middle_that_is_lifted() {
    survives_policed(
        |_| {},
        |world| {
            let run = world.create("r", "1", Run);
            world.settle(run);
            freeze(world);
            world.settle(run);
            assert!(world.said(run, "Progressing").starts_with("False UpdateRunFrozen"));
            world.later(5);
            world.available();
            world.settle(run);
            let begun = world.snapshots().iter().filter(|held| !held.is_empty()).count();
            assert_eq!(begun, 1);
            world.policy.freezes.clear();
            world.run_to_the_end(run);
            assert!(world.said(run, "Succeeded").starts_with("True"));
        },
    );
}

#[test]
fn a_cluster_that_misses_its_deadline_within_the_budget() {
    let prepare = policy(json!({"failure": {"progressDeadline": "1m", "budget": {"run": 1}}}));
    survives_policed(prepare, |world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.report("Available", ConditionStatus::False);
        world.later(61);
        world.settle(run);
        assert!(world.told(run).contains(
            "m2: Started=True/ClusterUpdatingStarted Succeeded=False/ClusterUpdatingFailed"
        ));
        // The others work at once.
        for _ in 0..4 {
            world.available();
            world.settle(run);
        }
        assert_eq!(
            world.said(run, "Succeeded"),
            "True UpdateRunSucceeded: All stages are completed; failed within the budget: m2"
        );
    });
}

#[test]
fn a_budget_that_is_spent_lets_what_is_under_way_finish_and_starts_nothing() {
    let prepare = policy(json!({"failure": {"progressDeadline": "1m", "then": "Stop"}}));
    survives_policed(prepare, |world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.later(61);
        world.settle(run);
        assert_eq!(
            world.said(run, "Succeeded"),
            "False UpdateRunFailed: cannot continue the updateRun: the failure budget of stage `canary` is spent, 1 cluster(s) have failed and 0 may: m2 (policy strict)"
        );
        assert_eq!(world.snapshots(), ["", "web-1-snapshot", ""]);
    });
}

#[test]
fn a_policy_is_noted_with_the_run_before_its_plan_and_only_then() {
    both_scopes(|mut world| {
        policy(json!({"clusters": {"membership": "Frozen"}}))(&mut world);
        let run = world.create("r", "1", Run);
        world.run_to_the_end(run);
        let log = world.log.join("\n");
        assert_eq!(log.matches("\"Adopt\"").count(), 1);
        assert!(log.find("\"Adopt\"") < log.find("UpdateRunInitializedSuccessfully"));
        // Whoever edits the policy later changes nothing.
        assert!(world.runs[run].keeps_its_clusters());
    });
}

#[test]
fn clusters_come_and_go_under_a_run_that_keeps_its_plan() {
    both_scopes(|mut world| {
        policy(json!({"clusters": {"membership": "Frozen"}}))(&mut world);
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.join("m4", &[("env", "prod"), ("order", "3")]);
        world.bindings.retain(|binding| binding.spec.target_cluster != "m3");
        world.run_to_the_end(run);
        assert_eq!(
            world.said(run, "Succeeded"),
            "True UpdateRunSucceeded: All stages are completed; skipped: m3"
        );
        assert_eq!(world.binding("m4").spec.resource_snapshot_name, "");
    });
}
