//! Clusters, stages and windows, with every write held against the laws.

use expect_test::expect;
use flagship_api::staged_update::UpdateRunState::Run;

use serde_json::json;

use super::fixture::{both_scopes, said, strategy};
use crate::update_run::Action;

#[test]
fn single_stage_run_without_tasks_succeeds() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.run_to_the_end(run);
        expect![[r#"
            run: Initialized=True/UpdateRunInitializedSuccessfully Progressing=False/UpdateRunSucceeded Succeeded=True/UpdateRunSucceeded
              canary: Progressing=False/StageUpdatingSucceeded Succeeded=True/StageUpdatingSucceeded
                m2: Started=True/ClusterUpdatingStarted Succeeded=True/ClusterUpdatingSucceeded
              prod: Progressing=False/StageUpdatingSucceeded Succeeded=True/StageUpdatingSucceeded
                m3: Started=True/ClusterUpdatingStarted Succeeded=True/ClusterUpdatingSucceeded
                m1: Started=True/ClusterUpdatingStarted Succeeded=True/ClusterUpdatingSucceeded
              kubernetes-fleet.io/deleteStage: Progressing=False/StageUpdatingSucceeded Succeeded=True/StageUpdatingSucceeded
        "#]]
        .assert_eq(&fixture.told(run));
        assert_eq!(fixture.snapshots(), ["web-1-snapshot"; 3]);
    });
}

#[test]
fn an_empty_stage_is_skipped_and_its_tasks_are_ignored() {
    both_scopes(|mut fixture| {
        fixture.strategy = Some(strategy(json!([
            {"name": "all", "labelSelector": {}, "maxConcurrency": 3},
            {"name": "none", "beforeStageTasks": [{"type": "Approval"}],
             "afterStageTasks": [{"type": "Approval"}]},
        ])));
        let run = fixture.create("r", "1", Run);
        fixture.run_to_the_end(run);
        assert_eq!(fixture.approvals.len(), 0);
        let stage = &fixture.status(run).stages_status[1];
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
        both_scopes(|mut fixture| {
            fixture.strategy = Some(strategy(json!([
                {"name": "all", "labelSelector": {}, "maxConcurrency": most},
            ])));
            let run = fixture.create("r", "1", Run);
            fixture.settle(run);
            let touched = fixture.snapshots().iter().filter(|name| !name.is_empty()).count();
            assert_eq!(touched, together, "{most}");
        });
    }
}

#[test]
fn one_write_carries_a_finished_cluster_and_the_next_start() {
    both_scopes(|mut fixture| {
        fixture.strategy = Some(strategy(json!([{"name": "all", "labelSelector": {}}])));
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.available();
        let plan = fixture.step(run);
        assert!(matches!(
            plan.actions[..],
            [Action::Status(_), Action::UpdateBinding(_), Action::SignalStart(_)]
        ));
        assert!(
            fixture.told(run).contains("m1: Started=True/ClusterUpdatingStarted Succeeded=True")
        );
        assert!(fixture.told(run).contains("m2: Started=True/ClusterUpdatingStarted\n"));
    });
}

#[test]
fn a_pass_that_finds_a_lost_cluster_starts_no_other() {
    both_scopes(|mut fixture| {
        fixture.strategy =
            Some(strategy(json!([{"name": "all", "labelSelector": {}, "maxConcurrency": 2}])));
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.available();
        fixture.edit("m1", |spec| spec.resource_snapshot_name = "web-0-snapshot".into());
        let plan = fixture.step(run);
        assert!(matches!(plan.actions[..], [Action::Status(_)]));
        assert_eq!(fixture.snapshots()[2], "");
    });
}

#[test]
fn clusters_that_already_work_are_started_and_finished_in_one_pass() {
    both_scopes(|mut fixture| {
        let first = fixture.create("first", "1", Run);
        fixture.run_to_the_end(first);
        let run = fixture.create("again", "1", Run);
        fixture.settle(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
        assert_eq!(fixture.told(run), fixture.told(first));
        // Nobody had to touch a binding for it.
        assert!(
            said(&fixture.bindings[0].status.conditions, "RolloutStarted")
                .ends_with("updateRun: first")
        );
    });
}
