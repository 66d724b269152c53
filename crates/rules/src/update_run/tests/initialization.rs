//! Every check of initialization, in order, with its words.

use flagship_api::binding::BindingState;
use flagship_api::overrides::{ClusterResourceOverrideSpec, ResourceOverrideSpec};
use flagship_api::placement_status::NamespacedName;
use flagship_api::policy::PlacementPolicy;
use flagship_api::staged_update::UpdateRunState::Initialize;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::fixture::{Fixture, both_scopes, selected, strategy};
use crate::model::ResourceSnapshot;
use crate::placement::PassError;
use crate::update_run::{ClusterOverride, NamespacedOverride, Observed, Waiting, plan};

const VALID: &str = "cannot continue the updateRun: failed to validate the updateRun: ";
const USER: &str = "failed to process the request due to a client error: ";
const UNEXP: &str = "unexpected behavior which cannot be handled by the controller: ";

/// What the run says after it was initialized, with the grace over.
fn initialized(fixture: &mut Fixture, index: &str) -> String {
    let run = fixture.create("r", index, Initialize);
    fixture.later(5);
    fixture.settle(run);
    fixture.said(run, "Initialized")
}

fn fails(change: impl Fn(&mut Fixture), wrap: &str, detail: &str) {
    both_scopes(|mut fixture| {
        change(&mut fixture);
        let detail = detail.replace("{ns}", fixture.namespace.as_deref().unwrap_or_default());
        assert_eq!(
            initialized(&mut fixture, "1"),
            format!("False UpdateRunInitializedFailed: {VALID}{wrap}{detail}")
        );
        assert_eq!(fixture.snapshots(), vec![""; fixture.bindings.len()]);
    });
}

fn policy(value: Value) -> Option<PlacementPolicy> {
    Some(serde_json::from_value(value).unwrap())
}

#[test]
fn placement_missing_or_being_deleted_or_not_external() {
    fails(|w| w.placement = None, USER, "parent placement not found");
    fails(|w| w.placement.as_mut().unwrap().deleting = true, USER, "parent placement not found");
    fails(
        |w| w.placement.as_mut().unwrap().spec.strategy = None,
        USER,
        "parent placement does not have an external rollout strategy, current strategy: RollingUpdate",
    );
}

#[test]
fn policy_snapshot_none_two_without_index_bad_count_not_scheduled() {
    fails(
        |w| w.policy_snapshots.clear(),
        "",
        "no latest policy snapshot found for placement {ns}/web",
    );
    fails(
        |w| {
            let copy = w.policy_snapshots[0].clone();
            w.policy_snapshots.push(copy);
        },
        UNEXP,
        "multiple active policy snapshots found for placement {ns}/web: got 2, want 1",
    );
    fails(
        |w| w.policy_snapshots[0].index = None,
        UNEXP,
        "policy snapshot `{ns}/web-0` does not have a policy index label",
    );
    fails(
        |w| w.policy_snapshots[0].status.conditions[0].observed_generation = Some(0),
        "",
        "policy snapshot `web-0` not fully scheduled yet",
    );
    for (count, cause) in [
        (None, "cannot find annotation kubernetes-fleet.io/number-of-clusters"),
        (
            Some("x"),
            "invalid annotation kubernetes-fleet.io/number-of-clusters: x is not a valid count: strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            Some("-1"),
            "invalid annotation kubernetes-fleet.io/number-of-clusters: -1 is not a valid count: must not be negative",
        ),
    ] {
        both_scopes(|mut fixture| {
            fixture.policy_snapshots[0].policy = policy(json!({"placementType": "PickN"}));
            fixture.policy_snapshots[0].number_of_clusters = count.map(Into::into);
            assert_eq!(
                initialized(&mut fixture, "1"),
                format!(
                    "False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun, {UNEXP}{cause}: the policy snapshot `{}` doesn't have valid cluster count annotation",
                    fixture.key("web-0")
                )
            );
        });
    }
}

#[test]
fn a_run_created_right_after_its_placement_waits_for_the_scheduler_first() {
    both_scopes(|mut fixture| {
        let known = std::mem::take(&mut fixture.policy_snapshots);
        let run = fixture.create("r", "1", Initialize);
        let plan = fixture.settle(run);
        assert!(matches!(plan.waiting[..], [Waiting::Scheduling { .. }]));
        assert_eq!(plan.wake.unwrap().as_secs(), 5);
        fixture.later(3);
        fixture.policy_snapshots = known;
        fixture.settle(run);
        assert!(fixture.said(run, "Initialized").starts_with("True"));
    });
}

#[test]
fn policy_details_are_recorded_for_pick_n_pick_fixed_and_pick_all() {
    for (kind, count) in [
        (json!({"placementType": "PickN"}), Some("3")),
        (json!({"placementType": "PickFixed", "clusterNames": ["m1", "m2", "m3"]}), None),
        (json!({"placementType": "PickAll"}), None),
    ] {
        both_scopes(|mut fixture| {
            fixture.policy_snapshots[0].policy = policy(kind.clone());
            fixture.policy_snapshots[0].number_of_clusters = count.map(Into::into);
            assert_eq!(
                initialized(&mut fixture, "1"),
                "True UpdateRunInitializedSuccessfully: The UpdateRun initialized successfully"
            );
            let status = fixture.status(0);
            assert_eq!(status.policy_observed_cluster_count, 3);
            assert_eq!(status.policy_snapshot_index_used, "0");
            assert_eq!(
                serde_json::to_value(&status.applied_strategy).unwrap(),
                json!({"comparisonOption": "PartialComparison", "type": "ClientSideApply",
                       "whenToApply": "Always", "whenToTakeOver": "Always"})
            );
        });
    }
}

#[test]
fn bindings_none_and_count_mismatch() {
    fails(
        |w| w.bindings.clear(),
        "",
        "no scheduled or to-be-deleted bindings found for the latest policy snapshot {ns}/web-0",
    );
    fails(
        |w| {
            w.policy_snapshots[0].policy = policy(json!({"placementType": "PickN"}));
            w.policy_snapshots[0].number_of_clusters = Some("10".into());
            w.bindings.truncate(1);
        },
        UNEXP,
        "the number of selected bindings 1 is not equal to the observed cluster count 10",
    );
}

#[test]
fn a_live_binding_of_an_old_policy_is_waited_out_without_a_condition() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Initialize);
        fixture.edit("m1", |spec| spec.scheduling_policy_snapshot_name = "web-9".into());
        let plan = fixture.settle(run);
        assert_eq!(
            plan.trouble.unwrap().cause(),
            format!(
                "binding `{}` with old policy snapshot `{}` has state Scheduled, we might observe a transient state, need retry",
                fixture.key("web-m1"),
                fixture.key("web-9")
            )
        );
        assert!(fixture.status(run).conditions.is_empty());
    });
}

#[test]
fn only_to_be_deleted_bindings_pass_under_pick_all() {
    both_scopes(|mut fixture| {
        for cluster in ["m1", "m2", "m3"] {
            fixture.edit(cluster, |spec| spec.state = BindingState::Unscheduled);
        }
        assert!(initialized(&mut fixture, "1").starts_with("True"));
        let gone = fixture.status(0).deletion_stage_status.as_ref().unwrap();
        let names: Vec<_> = gone.clusters.iter().map(|c| c.cluster_name.as_str()).collect();
        assert_eq!(
            (gone.stage_name.as_str(), names),
            ("kubernetes-fleet.io/deleteStage", vec!["m1", "m2", "m3"])
        );
    });
}

#[test]
fn strategy_missing_or_with_bad_stages() {
    fails(|w| w.strategy = None, USER, "referenced updateStrategy not found: `{ns}/plan`");
    let wait = |time: &str| json!({"type": "TimedWait", "waitTime": time});
    for (stage, detail) in [
        (
            json!({"afterStageTasks": [{"type": "Approval"}, {"type": "Approval"}]}),
            "the after stage tasks are invalid, updateStrategy: `{ns}/plan`, stage: all, err: afterStageTasks cannot have two tasks of the same type: Approval",
        ),
        (
            json!({"afterStageTasks": [wait("0s")]}),
            "the after stage tasks are invalid, updateStrategy: `{ns}/plan`, stage: all, err: task 0 of type TimedWait has wait duration <= 0",
        ),
        (
            json!({"afterStageTasks": [{"type": "TimedWait"}]}),
            "the after stage tasks are invalid, updateStrategy: `{ns}/plan`, stage: all, err: task 0 of type TimedWait has wait duration set to nil",
        ),
        (
            json!({"beforeStageTasks": [{"type": "Approval"}, {"type": "Approval"}]}),
            "the before stage tasks are invalid, updateStrategy: `{ns}/plan`, stage: all, err: beforeStageTasks can have at most one task",
        ),
        (
            json!({"beforeStageTasks": [wait("1m")]}),
            "the before stage tasks are invalid, updateStrategy: `{ns}/plan`, stage: all, err: task 0 of type TimedWait is not allowed in beforeStageTasks, allowed type: Approval",
        ),
        (
            json!({"sortingLabelKey": "rank"}),
            "the sorting label `rank:` on cluster `m1` is not valid: strconv.Atoi: parsing \"\": invalid syntax",
        ),
        (
            json!({"labelSelector": {"matchLabels": {"env": "prod"}}}),
            "some clusters are not placed in any stage, total 1, showing up to 10: m2",
        ),
        (
            json!({"labelSelector": null}),
            "some clusters are not placed in any stage, total 3, showing up to 10: m1, m2, m3",
        ),
    ] {
        let mut whole = json!({"name": "all", "labelSelector": {}});
        whole.as_object_mut().unwrap().extend(stage.as_object().unwrap().clone());
        fails(|w| w.strategy = Some(strategy(json!([whole]))), USER, detail);
    }
    let all = json!({"name": "a", "labelSelector": {}});
    let again = json!({"name": "b", "labelSelector": {}});
    fails(
        |w| w.strategy = Some(strategy(json!([all, again]))),
        USER,
        "cluster `m1` appears in more than one stages",
    );
    fails(
        |w| w.strategy = Some(strategy(json!([all, all]))),
        USER,
        "stage name duplicated, updateStrategy: `{ns}/plan`, stage: a",
    );
}

#[test]
fn clusters_in_no_stage_are_listed_up_to_ten() {
    fails(
        |w| {
            for at in 10..20 {
                w.join(&format!("x{at}"), &[]);
            }
            w.strategy = Some(strategy(json!([])));
        },
        USER,
        "some clusters are not placed in any stage, total 13, showing up to 10: m1, m2, m3, x10, x11, x12, x13, x14, x15, x16",
    );
}

#[test]
fn a_status_right_after_initialization_has_stages_tasks_and_waits_in_one_spelling() {
    both_scopes(|mut fixture| {
        fixture.strategy = Some(strategy(json!([
            {"name": "canary", "labelSelector": {"matchLabels": {"env": "canary"}},
             "afterStageTasks": [{"type": "TimedWait", "waitTime": "90m"}]},
            {"name": "prod", "labelSelector": {"matchLabels": {"env": "prod"}},
             "sortingLabelKey": "order", "beforeStageTasks": [{"type": "Approval"}],
             "afterStageTasks": [{"type": "TimedWait", "waitTime": "0.5s"}, {"type": "Approval"}]},
        ])));
        initialized(&mut fixture, "1");
        let status = fixture.status(0);
        assert_eq!(
            serde_json::to_value(&status.stages_status).unwrap(),
            json!([
                {"stageName": "canary", "clusters": [{"clusterName": "m2"}],
                 "afterStageTaskStatus": [{"type": "TimedWait"}]},
                {"stageName": "prod", "clusters": [{"clusterName": "m3"}, {"clusterName": "m1"}],
                 "beforeStageTaskStatus": [{"type": "Approval", "approvalRequestName": "r-before-prod"}],
                 "afterStageTaskStatus": [
                     {"type": "TimedWait"},
                     {"type": "Approval", "approvalRequestName": "r-after-prod"}]},
            ])
        );
        let copy = status.staged_update_strategy_snapshot.as_ref().unwrap();
        let waits: Vec<_> = copy
            .stages
            .iter()
            .map(|s| s.after_stage_tasks[0].wait_time.as_deref().unwrap())
            .collect();
        assert_eq!(waits, ["1h30m0s", "0.5s"]);
        assert_eq!(serde_json::to_value(&copy.stages[0].max_concurrency).unwrap(), json!(1));
    });
}

#[test]
fn snapshot_index_not_a_number_negative_missing_or_without_a_master() {
    for (index, wrap, detail) in [
        ("x", USER, "invalid resource snapshot index `x` provided, expected an integer >= 0"),
        ("-1", USER, "invalid resource snapshot index `-1` provided, expected an integer >= 0"),
        ("7", USER, "no resourceSnapshots with index `7` found for placement `{ns}/web`"),
        ("1", UNEXP, "no master resourceSnapshot found for placement {ns}/web"),
    ] {
        both_scopes(|mut fixture| {
            fixture.resource_snapshots[1].hash = None;
            let detail = detail.replace("{ns}", fixture.namespace.as_deref().unwrap_or_default());
            assert_eq!(
                initialized(&mut fixture, index),
                format!("False UpdateRunInitializedFailed: {VALID}{wrap}{detail}")
            );
            assert!(fixture.status(0).deletion_stage_status.is_some());
            assert_eq!(fixture.status(0).resource_snapshot_index_used, "");
        });
    }
}

// checklist 13.3 snapshot index: a group of which not every part is there. Whoever makes it
// may not be done, so it is waited for as long as for the scheduler.
#[test]
fn a_group_that_is_not_whole_is_waited_for_and_then_refused() {
    both_scopes(|mut fixture| {
        fixture.resource_snapshots[1].count = Some("3".into());
        let run = fixture.create("r", "1", Initialize);
        fixture.step(run);
        let told = plan(&fixture.seen(run));
        let why = format!(
            "{VALID}expected behavior which can be recovered by itself: not all resource snapshot in the same index group are created, index `1` of placement `{}/web` has 1 of 3",
            fixture.namespace.as_deref().unwrap_or_default()
        );
        assert_eq!(told.waiting, [Waiting::Scheduling { why: why.clone() }]);
        assert_eq!((told.actions.len(), told.wake), (0, Some(SignedDuration::from_secs(5))));
        // The rest arrives in time.
        let mut whole = fixture.clone();
        for part in ["web-1-0", "web-1-1"] {
            let of_master = &fixture.resource_snapshots[1];
            let mut part = ResourceSnapshot { name: part.into(), ..of_master.clone() };
            (part.hash, part.count) = (None, None);
            whole.resource_snapshots.push(part);
        }
        whole.settle(run);
        assert_eq!(whole.status(run).resource_snapshot_index_used, "1");
        // Or it does not: nothing is touched.
        fixture.later(6);
        fixture.settle(run);
        let status = fixture.status(run);
        let said = &status.conditions[0];
        assert_eq!((said.status.as_str(), &said.message), ("False", &why));
        assert_eq!(status.resource_snapshot_index_used, "");
        assert!(fixture.bindings.iter().all(|binding| binding.fence.is_none()));
    });
}

#[test]
fn an_omitted_index_takes_a_snapshot_at_once_and_reuses_an_equal_one() {
    both_scopes(|mut fixture| {
        initialized(&mut fixture, "");
        assert_eq!(fixture.status(0).resource_snapshot_index_used, "2");
        assert!(!fixture.resource_snapshots[1].latest && fixture.resource_snapshots[2].latest);
        fixture.create("again", "", Initialize);
        fixture.settle(1);
        assert_eq!(fixture.status(1).resource_snapshot_index_used, "2");
        assert_eq!(fixture.resource_snapshots.len(), 3);
        fixture.selection = selected("b");
        fixture.create("next", "", Initialize);
        fixture.settle(2);
        assert_eq!(fixture.status(2).resource_snapshot_index_used, "3");
        fixture.resource_snapshots.clear();
        fixture.create("first", "", Initialize);
        fixture.settle(3);
        assert_eq!(fixture.status(3).resource_snapshot_index_used, "0");
    });
}

#[test]
fn a_bad_selector_is_the_users_mistake_and_a_silent_server_is_not() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "", Initialize);
        fixture.step(run);
        let bad = Some(Err(PassError::User("bad selector".into())));
        let told = plan(&Observed { selection: bad, ..fixture.seen(run) });
        assert_eq!(told.events[0].message, format!("{VALID}{USER}bad selector"));
        let silent = Some(Err(PassError::Server("timeout".into())));
        let told = plan(&Observed { selection: silent, ..fixture.seen(run) });
        assert_eq!(
            (told.actions.len(), told.trouble),
            (0, Some(PassError::Server("timeout".into())))
        );
    });
}

#[test]
fn overrides_are_recorded_per_cluster_and_only_for_this_placement() {
    both_scopes(|mut fixture| {
        let scope = if fixture.namespace.is_some() { "Namespaced" } else { "Cluster" };
        let other = if fixture.namespace.is_some() { "Cluster" } else { "Namespaced" };
        let rules = |env: &str| {
            json!({"overrideRules": [{"clusterSelector": {"clusterSelectorTerms":
                [{"labelSelector": {"matchLabels": {"env": env}}}]}}]})
        };
        let wide = |name: &str, env: &str| {
            let spec = json!({"policy": rules(env), "clusterResourceSelectors":
                [{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]});
            let spec: ClusterResourceOverrideSpec = serde_json::from_value(spec).unwrap();
            ClusterOverride { name: name.into(), spec }
        };
        let narrow = |name: &str, scope: &str| {
            let spec = json!({"policy": rules("prod"), "placement": {"name": "web", "scope": scope},
                "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "a"}]});
            let spec: ResourceOverrideSpec = serde_json::from_value(spec).unwrap();
            let key = NamespacedName { namespace: "app".into(), name: name.into() };
            NamespacedOverride { key, spec }
        };
        let run = fixture.create("r", "", Initialize);
        fixture.step(run);
        let told = plan(&Observed {
            cluster_overrides: vec![
                wide("z-0", "prod"),
                wide("c-0", "prod"),
                wide("d-0", "canary"),
            ],
            overrides: vec![narrow("ro-0", scope), narrow("no-0", other)],
            ..fixture.seen(run)
        });
        fixture.carry_out(run, &told);
        let recorded = |stage: usize| {
            let cluster = &fixture.status(run).stages_status[stage].clusters[0];
            let narrow = cluster.resource_override_snapshots.iter().map(|o| o.name.clone());
            let wide = cluster.cluster_resource_override_snapshots.iter().cloned();
            wide.chain(narrow).collect::<Vec<_>>()
        };
        assert_eq!(recorded(0), ["d-0"]);
        assert_eq!(recorded(1), ["c-0", "z-0", "ro-0"]);
    });
}

#[test]
fn what_cannot_be_read_is_waited_for_and_not_taken_for_absent() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Initialize);
        fixture.later(5);
        fixture.unreadable =
            Some("Strategy s: spec.stages[0].maxConcurrency: too large".to_owned());
        fixture.settle(run);
        assert_eq!(
            fixture.said(run, "Initialized"),
            "Unknown UpdateRunInputUnreadable: cannot be read: Strategy s: \
             spec.stages[0].maxConcurrency: too large; correct it, and the update run goes on by \
             itself"
        );
        fixture.unreadable = None;
        fixture.settle(run);
        assert!(fixture.said(run, "Initialized").starts_with("True"));
    });
}
