//! The stories that `crashes` cuts at every write.

use flagship_api::binding::BindingState;
use flagship_api::condition::ConditionStatus;
use flagship_api::staged_update::UpdateRunState::{Run, Stop};
use serde_json::{Value, json};

use super::crashes::survives;
use super::world::{World, both_scopes, strategy};
use crate::update_run::ClusterOverride;

/// Canary and prod with tasks of their own.
fn staged(canary: Value, prod: Value) -> impl Fn(&mut World) {
    move |world| {
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
        world.strategy = Some(strategy(json!(stages)));
    }
}

fn plain(_: &mut World) {}

fn drop_cluster(world: &mut World, cluster: &str) {
    world.edit(cluster, |spec| spec.state = BindingState::Unscheduled);
}

#[test]
fn approvals_before_and_after_a_stage() {
    let approval = json!([{"type": "Approval"}]);
    let prepare =
        staged(json!({"afterStageTasks": approval}), json!({"beforeStageTasks": approval}));
    survives(prepare, |world| {
        let run = world.create("r", "1", Run);
        world.run_to_the_end(run);
    });
}

#[test]
fn waits_after_each_stage() {
    let wait = json!({"afterStageTasks": [{"type": "TimedWait", "waitTime": "12s"}]});
    survives(staged(wait.clone(), wait), |world| {
        let run = world.create("r", "1", Run);
        world.run_to_the_end(run);
    });
}

#[test]
fn a_snapshot_of_its_own_every_task_and_a_deletion() {
    let canary = json!({"afterStageTasks":
        [{"type": "Approval"}, {"type": "TimedWait", "waitTime": "5s"}]});
    let prod = json!({"beforeStageTasks": [{"type": "Approval"}], "maxConcurrency": "70%"});
    let staged = staged(canary, prod);
    let prepare = |world: &mut World| {
        staged(world);
        world.bind("gone");
        drop_cluster(world, "gone");
    };
    survives(prepare, |world| {
        let run = world.create("r", "", Run);
        world.run_to_the_end(run);
    });
}

#[test]
fn a_stop_while_a_cluster_is_in_flight_and_a_resume() {
    survives(plain, |world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.set_state(run, Stop);
        world.settle(run);
        world.later(3);
        world.available();
        world.settle(run);
        assert!(world.told(run).contains("UpdateRunStopped"));
        world.set_state(run, Run);
        world.run_to_the_end(run);
    });
}

#[test]
fn a_stop_at_a_gate_an_approval_meanwhile_and_a_resume() {
    let prepare = staged(json!({}), json!({"beforeStageTasks": [{"type": "Approval"}]}));
    survives(prepare, |world| {
        let run = world.create("r", "1", Run);
        for _ in 0..3 {
            world.settle(run);
            world.available();
        }
        world.set_state(run, Stop);
        world.settle(run);
        world.approve();
        world.settle(run);
        assert!(world.told(run).contains("UpdateRunStopped"));
        world.set_state(run, Run);
        world.run_to_the_end(run);
    });
}

#[test]
fn a_run_that_is_preempted_by_another_version() {
    survives(plain, |world| {
        let a = world.create("a", "0", Run);
        world.settle(a);
        world.later(10);
        let b = world.create("b", "1", Run);
        world.settle(b);
        world.settle(a);
        assert!(world.said(a, "Succeeded").starts_with("False"));
        world.run_to_the_end(b);
    });
}

#[test]
fn a_rollback_to_an_older_index() {
    survives(plain, |world| {
        for (name, index) in [("forth", "1"), ("back", "0")] {
            let run = world.create(name, index, Run);
            world.run_to_the_end(run);
            world.later(10);
        }
    });
}

#[test]
fn a_stage_without_clusters_between_two_with_some() {
    let prepare = |world: &mut World| {
        let stage = |env: &str, tasks: Value| {
            json!({"name": env, "labelSelector": {"matchLabels": {"env": env}},
                   "afterStageTasks": tasks})
        };
        world.strategy = Some(strategy(json!([
            stage("canary", json!([])),
            stage("empty", json!([{"type": "Approval"}])),
            stage("prod", json!([])),
        ])));
    };
    survives(prepare, |world| {
        let run = world.create("r", "1", Run);
        world.run_to_the_end(run);
        assert_eq!(world.approvals, []);
    });
}

#[test]
fn a_deletion_stage_that_is_stopped_half_way() {
    let prepare = |world: &mut World| {
        for cluster in ["x1", "x2"] {
            world.bind(cluster);
            drop_cluster(world, cluster);
        }
    };
    survives(prepare, |world| {
        let run = world.create("r", "1", Run);
        for _ in 0..5 {
            world.settle(run);
            world.available();
        }
        assert_eq!(world.bindings.iter().filter(|binding| binding.deleting).count(), 2);
        world.set_state(run, Stop);
        world.settle(run);
        world.vanish();
        world.settle(run);
        assert!(world.told(run).contains("UpdateRunStopped"));
        world.set_state(run, Run);
        world.run_to_the_end(run);
    });
}

#[test]
fn a_fixed_choice_that_shrinks_to_one_cluster() {
    let fixed = |names: Value| {
        Some(serde_json::from_value(json!({"placementType": "PickFixed", "clusterNames": names})))
            .transpose()
            .unwrap()
    };
    let prepare = |world: &mut World| {
        world.policy_snapshots[0].policy = fixed(json!(["m1", "m2", "m3"]));
    };
    survives(prepare, |world| {
        let first = world.create("first", "1", Run);
        world.run_to_the_end(first);
        world.later(10);
        world.policy_snapshots[0].name = "web-1".into();
        world.policy_snapshots[0].index = Some("1".into());
        world.policy_snapshots[0].policy = fixed(json!(["m3"]));
        world.edit("m3", |spec| spec.scheduling_policy_snapshot_name = "web-1".into());
        drop_cluster(world, "m1");
        drop_cluster(world, "m2");
        let run = world.create("second", "1", Run);
        world.run_to_the_end(run);
        assert!(
            world.told(run).contains("canary: Progressing=False/StageUpdatingSkippedNoClusters")
        );
        assert_eq!(world.snapshots(), ["web-1-snapshot"]);
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
    let prepare = |world: &mut World| world.cluster_overrides = vec![version("o-0")];
    survives(prepare, |world| {
        let first = world.create("first", "", Run);
        world.run_to_the_end(first);
        world.later(10);
        world.cluster_overrides = vec![version("o-1")];
        let run = world.create("second", "", Run);
        world.run_to_the_end(run);
        let spec = &world.binding("m1").spec;
        assert_eq!(spec.cluster_resource_override_snapshots, ["o-1"]);
    });
}

#[test]
fn a_cluster_that_is_stuck_and_recovers() {
    survives(plain, |world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.report("Available", ConditionStatus::False);
        world.later(301);
        world.settle(run);
        assert!(world.said(run, "Progressing").starts_with("False UpdateRunStuck"));
        world.available();
        world.run_to_the_end(run);
    });
}

#[test]
fn a_scheduler_that_rewrites_a_binding_in_flight() {
    survives(plain, |world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.edit("m2", |spec| spec.cluster_decision.reason = "again".into());
        world.settle(run);
        world.run_to_the_end(run);
    });
}

#[test]
fn a_request_that_is_deleted_before_it_is_approved() {
    let prepare = staged(json!({"beforeStageTasks": [{"type": "Approval"}]}), json!({}));
    survives(prepare, |world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.approvals.clear();
        world.settle(run);
        assert_eq!(world.approvals.len(), 1);
        world.run_to_the_end(run);
    });
}

#[test]
fn a_stop_between_the_promise_and_the_binding_is_not_reported_too_early() {
    // checklist 13.6: Stop patched between binding write and status write
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        // Finalizer, initialized, started: the hub dies before the binding is written.
        world.crash_after = Some(3);
        for _ in 0..3 {
            world.step(run);
        }
        assert!(world.crash_after.is_none());
        world.binding("m2").fence = None;
        world.set_state(run, Stop);
        world.settle(run);
        assert!(world.said(run, "Progressing").starts_with("Unknown UpdateRunStopping"));
        world.available();
        world.settle(run);
        assert_eq!(
            world.said(run, "Progressing"),
            "False UpdateRunStopped: The update run has been stopped"
        );
        assert_eq!(world.snapshots(), ["", "web-1-snapshot", ""]);
    });
}
