//! Clusters, stages and windows, with every write held against the laws.

use expect_test::expect;
use flagship_api::staged_update::UpdateRunState::Run;

use serde_json::json;

use super::world::{both_scopes, said, strategy};
use crate::update_run::Action;

#[test]
fn single_stage_run_without_tasks_succeeds() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        world.run_to_the_end(run);
        expect![[r#"
            run: Initialized=True/UpdateRunInitializedSuccessfully Progressing=False/UpdateRunSucceeded Succeeded=True/UpdateRunSucceeded
              canary: Progressing=False/StageUpdatingSucceeded Succeeded=True/StageUpdatingSucceeded
                m2: Started=True/ClusterUpdatingStarted Succeeded=True/ClusterUpdatingSucceeded
              prod: Progressing=False/StageUpdatingSucceeded Succeeded=True/StageUpdatingSucceeded
                m3: Started=True/ClusterUpdatingStarted Succeeded=True/ClusterUpdatingSucceeded
                m1: Started=True/ClusterUpdatingStarted Succeeded=True/ClusterUpdatingSucceeded
              kubernetes-fleet.io/deleteStage: Progressing=False/StageUpdatingSucceeded Succeeded=True/StageUpdatingSucceeded
        "#]]
        .assert_eq(&world.told(run));
        assert_eq!(world.snapshots(), ["web-1-snapshot"; 3]);
    });
}

#[test]
fn an_empty_stage_is_skipped_and_its_tasks_are_ignored() {
    both_scopes(|mut world| {
        world.strategy = Some(strategy(json!([
            {"name": "all", "labelSelector": {}, "maxConcurrency": 3},
            {"name": "none", "beforeStageTasks": [{"type": "Approval"}],
             "afterStageTasks": [{"type": "Approval"}]},
        ])));
        let run = world.create("r", "1", Run);
        world.run_to_the_end(run);
        assert_eq!(world.approvals.len(), 0);
        let stage = &world.status(run).stages_status[1];
        for kind in ["Progressing", "Succeeded"] {
            assert!(said(&stage.conditions, kind).ends_with(
                "StageUpdatingSkippedNoClusters: Stage skipped because it has no clusters"
            ));
        }
        assert!(stage.start_time.is_some() && stage.end_time.is_some());
    });
}

#[test]
fn max_concurrency_limits_how_many_are_in_flight() {
    for (most, together) in [
        (json!(1), 1),
        (json!(2), 2),
        (json!(3), 3),
        (json!(9), 3),
        (json!("70%"), 2),
        (json!("1%"), 1),
        (json!("100%"), 3),
    ] {
        both_scopes(|mut world| {
            world.strategy = Some(strategy(json!([
                {"name": "all", "labelSelector": {}, "maxConcurrency": most},
            ])));
            let run = world.create("r", "1", Run);
            world.settle(run);
            let touched = world.snapshots().iter().filter(|name| !name.is_empty()).count();
            assert_eq!(touched, together, "{most}");
        });
    }
}

#[test]
fn one_write_carries_a_finished_cluster_and_the_next_start() {
    both_scopes(|mut world| {
        world.strategy = Some(strategy(json!([{"name": "all", "labelSelector": {}}])));
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.available();
        let plan = world.step(run);
        assert!(matches!(
            plan.actions[..],
            [Action::Status(_), Action::UpdateBinding(_), Action::SignalStart(_)]
        ));
        assert!(world.told(run).contains("m1: Started=True/ClusterUpdatingStarted Succeeded=True"));
        assert!(world.told(run).contains("m2: Started=True/ClusterUpdatingStarted\n"));
    });
}

#[test]
fn a_pass_that_finds_a_lost_cluster_starts_no_other() {
    both_scopes(|mut world| {
        world.strategy =
            Some(strategy(json!([{"name": "all", "labelSelector": {}, "maxConcurrency": 2}])));
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.available();
        world.edit("m1", |spec| spec.resource_snapshot_name = "web-0-snapshot".into());
        let plan = world.step(run);
        assert!(matches!(plan.actions[..], [Action::Status(_)]));
        assert_eq!(world.snapshots()[2], "");
    });
}

#[test]
fn clusters_that_already_work_are_started_and_finished_in_one_pass() {
    both_scopes(|mut world| {
        let first = world.create("first", "1", Run);
        world.run_to_the_end(first);
        let run = world.create("again", "1", Run);
        world.settle(run);
        assert!(world.said(run, "Succeeded").starts_with("True"));
        assert_eq!(world.told(run), world.told(first));
        // Nobody had to touch a binding for it.
        assert!(
            said(&world.bindings[0].status.conditions, "RolloutStarted")
                .ends_with("updateRun: first")
        );
    });
}
