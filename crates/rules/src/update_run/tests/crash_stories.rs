//! The stories that `crashes` cuts at every write.

use std::sync::Arc;

use flagship_api::binding::BindingState;
use flagship_api::condition::ConditionStatus;
use flagship_api::staged_update::UpdateRunState::{Run, Stop};
use serde_json::{Value, json};

use super::crashes::survives;
use super::fixture::{Fixture, both_scopes, strategy};
use crate::update_run::ClusterOverride;

/// Canary and prod with tasks of their own.
fn staged(canary: Value, prod: Value) -> impl Fn(&mut Fixture) {
    move |fixture| {
        let mut stages = [
            json!({"name": "canary", "labelSelector": {"matchLabels": {"env": "canary"}}}),
            json!({"name": "prod", "labelSelector": {"matchLabels": {"env": "prod"}},
                   "sortingLabelKey": "order"}),
        ];
        for (stage, tasks) in stages.iter_mut().zip([&canary, &prod]) {
            for (key, value) in tasks.as_object().unwrap() {
                stage[key] = value.clone();
            }
        }
        fixture.strategy = Some(strategy(json!(stages)));
    }
}

fn plain(_: &mut Fixture) {}

fn drop_cluster(fixture: &mut Fixture, cluster: &str) {
    fixture.edit(cluster, |spec| spec.state = BindingState::Unscheduled);
}

#[test]
fn approvals_before_and_after_a_stage() {
    let approval = json!([{"type": "Approval"}]);
    let prepare =
        staged(json!({"afterStageTasks": approval}), json!({"beforeStageTasks": approval}));
    survives(prepare, |fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.run_to_the_end(run);
    });
}

#[test]
fn waits_after_each_stage() {
    let wait = json!({"afterStageTasks": [{"type": "TimedWait", "waitTime": "12s"}]});
    survives(staged(wait.clone(), wait), |fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.run_to_the_end(run);
    });
}

#[test]
fn a_snapshot_of_its_own_every_task_and_a_deletion() {
    let canary = json!({"afterStageTasks":
        [{"type": "Approval"}, {"type": "TimedWait", "waitTime": "5s"}]});
    let prod = json!({"beforeStageTasks": [{"type": "Approval"}], "maxConcurrency": "70%"});
    let staged = staged(canary, prod);
    let prepare = |fixture: &mut Fixture| {
        staged(fixture);
        fixture.bind("gone");
        drop_cluster(fixture, "gone");
    };
    survives(prepare, |fixture| {
        let run = fixture.create("r", "", Run);
        fixture.run_to_the_end(run);
    });
}

#[test]
fn a_stop_while_a_cluster_is_in_flight_and_a_resume() {
    survives(plain, |fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.set_state(run, Stop);
        fixture.settle(run);
        fixture.later(3);
        fixture.available();
        fixture.settle(run);
        assert!(fixture.told(run).contains("UpdateRunStopped"));
        fixture.set_state(run, Run);
        fixture.run_to_the_end(run);
    });
}

#[test]
fn a_stop_at_a_gate_an_approval_meanwhile_and_a_resume() {
    let prepare = staged(json!({}), json!({"beforeStageTasks": [{"type": "Approval"}]}));
    survives(prepare, |fixture| {
        let run = fixture.create("r", "1", Run);
        for _ in 0..3 {
            fixture.settle(run);
            fixture.available();
        }
        fixture.set_state(run, Stop);
        fixture.settle(run);
        fixture.approve();
        fixture.settle(run);
        assert!(fixture.told(run).contains("UpdateRunStopped"));
        fixture.set_state(run, Run);
        fixture.run_to_the_end(run);
    });
}

#[test]
fn a_run_that_is_preempted_by_another_version() {
    survives(plain, |fixture| {
        let a = fixture.create("a", "0", Run);
        fixture.settle(a);
        fixture.later(10);
        let b = fixture.create("b", "1", Run);
        fixture.settle(b);
        fixture.settle(a);
        assert!(fixture.said(a, "Succeeded").starts_with("False"));
        fixture.run_to_the_end(b);
    });
}

#[test]
fn a_rollback_to_an_older_index() {
    survives(plain, |fixture| {
        for (name, index) in [("forth", "1"), ("back", "0")] {
            let run = fixture.create(name, index, Run);
            fixture.run_to_the_end(run);
            fixture.later(10);
        }
    });
}

#[test]
fn a_stage_without_clusters_between_two_with_some() {
    let prepare = |fixture: &mut Fixture| {
        let stage = |env: &str, tasks: Value| {
            json!({"name": env, "labelSelector": {"matchLabels": {"env": env}},
                   "afterStageTasks": tasks})
        };
        fixture.strategy = Some(strategy(json!([
            stage("canary", json!([])),
            stage("empty", json!([{"type": "Approval"}])),
            stage("prod", json!([])),
        ])));
    };
    survives(prepare, |fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.run_to_the_end(run);
        assert_eq!(fixture.approvals, []);
    });
}

#[test]
fn a_deletion_stage_that_is_stopped_half_way() {
    let prepare = |fixture: &mut Fixture| {
        for cluster in ["x1", "x2"] {
            fixture.bind(cluster);
            drop_cluster(fixture, cluster);
        }
    };
    survives(prepare, |fixture| {
        let run = fixture.create("r", "1", Run);
        for _ in 0..5 {
            fixture.settle(run);
            fixture.available();
        }
        assert_eq!(fixture.bindings.iter().filter(|binding| binding.deleting).count(), 2);
        fixture.set_state(run, Stop);
        fixture.settle(run);
        fixture.vanish();
        fixture.settle(run);
        assert!(fixture.told(run).contains("UpdateRunStopped"));
        fixture.set_state(run, Run);
        fixture.run_to_the_end(run);
    });
}

#[test]
fn a_fixed_choice_that_shrinks_to_one_cluster() {
    let fixed = |names: Value| {
        Some(serde_json::from_value(json!({"placementType": "PickFixed", "clusterNames": names})))
            .transpose()
            .unwrap()
    };
    let prepare = |fixture: &mut Fixture| {
        fixture.policy_snapshots[0].policy = fixed(json!(["m1", "m2", "m3"]));
    };
    survives(prepare, |fixture| {
        let first = fixture.create("first", "1", Run);
        fixture.run_to_the_end(first);
        fixture.later(10);
        fixture.policy_snapshots[0].name = "web-1".into();
        fixture.policy_snapshots[0].index = Some("1".into());
        fixture.policy_snapshots[0].policy = fixed(json!(["m3"]));
        fixture.edit("m3", |spec| spec.scheduling_policy_snapshot_name = "web-1".into());
        drop_cluster(fixture, "m1");
        drop_cluster(fixture, "m2");
        let run = fixture.create("second", "1", Run);
        fixture.run_to_the_end(run);
        assert!(
            fixture.told(run).contains("canary: Progressing=False/StageUpdatingSkippedNoClusters")
        );
        assert_eq!(fixture.snapshots(), ["web-1-snapshot"]);
    });
}

#[test]
fn an_override_that_changes_between_two_runs() {
    let version = |name: &str| {
        let spec = json!({
            "clusterResourceSelectors":
                [{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}],
            "policy": {"overrideRules": [{"clusterSelector": {"clusterSelectorTerms": []}}]},
        });
        ClusterOverride { name: name.into(), spec: serde_json::from_value(spec).unwrap() }
    };
    let prepare = |fixture: &mut Fixture| fixture.cluster_overrides = vec![version("o-0")];
    survives(prepare, |fixture| {
        let first = fixture.create("first", "", Run);
        fixture.run_to_the_end(first);
        fixture.later(10);
        fixture.cluster_overrides = vec![version("o-1")];
        let run = fixture.create("second", "", Run);
        fixture.run_to_the_end(run);
        let spec = &fixture.binding("m1").spec;
        assert_eq!(spec.cluster_resource_override_snapshots, ["o-1"]);
    });
}

#[test]
fn a_cluster_that_is_stuck_and_recovers() {
    survives(plain, |fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.report("Available", ConditionStatus::False);
        fixture.later(301);
        fixture.settle(run);
        assert!(fixture.said(run, "Progressing").starts_with("False UpdateRunStuck"));
        fixture.available();
        fixture.run_to_the_end(run);
    });
}

#[test]
fn a_scheduler_that_rewrites_a_binding_in_flight() {
    survives(plain, |fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture
            .edit("m2", |spec| Arc::make_mut(&mut spec.cluster_decision).reason = "again".into());
        fixture.settle(run);
        fixture.run_to_the_end(run);
    });
}

#[test]
fn a_request_that_is_deleted_before_it_is_approved() {
    let prepare = staged(json!({"beforeStageTasks": [{"type": "Approval"}]}), json!({}));
    survives(prepare, |fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.approvals.clear();
        fixture.settle(run);
        assert_eq!(fixture.approvals.len(), 1);
        fixture.run_to_the_end(run);
    });
}

#[test]
fn a_stop_between_the_promise_and_the_binding_is_not_reported_too_early() {
    // checklist 13.6: Stop patched between binding write and status write
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        // Finalizer, initialized, started: the hub dies before the binding is written.
        fixture.crash_after = Some(3);
        for _ in 0..3 {
            fixture.step(run);
        }
        assert!(fixture.crash_after.is_none());
        fixture.binding("m2").fence = None;
        fixture.set_state(run, Stop);
        fixture.settle(run);
        assert!(fixture.said(run, "Progressing").starts_with("Unknown UpdateRunStopping"));
        fixture.available();
        fixture.settle(run);
        assert_eq!(
            fixture.said(run, "Progressing"),
            "False UpdateRunStopped: The update run has been stopped"
        );
        assert_eq!(fixture.snapshots(), ["", "web-1-snapshot", ""]);
    });
}
