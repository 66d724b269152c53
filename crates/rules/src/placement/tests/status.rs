//! What a placement reports while it applies its resources, or compares them.

use std::sync::Arc;

use expect_test::expect;
use flagship_api::binding::BindingState;
use flagship_api::placement_status::{
    DiffedResourcePlacement, DriftedResourcePlacement, FailedResourcePlacement, NamespacedName,
    PatchDetail, PlacementStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::fleet::{AVAILABLE, Fixture, namespace_id, said};
use super::hub::now;
use crate::model::PolicySnapshot;
use crate::placement::status::{MOST_BYTES, fit};
use crate::placement::{Action, PassError};

/// The policy snapshot, to be changed.
fn policy(fixture: &mut Fixture) -> &mut PolicySnapshot {
    Arc::make_mut(&mut fixture.seen.policy_snapshots[0])
}

/// A placement on these clusters, snapshots taken, nothing delivered.
fn over(clusters: &[&str]) -> Fixture {
    let mut fixture = Fixture::crp(json!({"policy": {"placementType": "PickAll"}}));
    fixture.step();
    fixture.schedule(clusters, &[]);
    fixture
}

fn reporting_diff(clusters: &[&str]) -> Fixture {
    let mut fixture = Fixture::crp(json!({"policy": {"placementType": "PickAll"},
        "strategy": {"applyStrategy": {"type": "ReportDiff"}}}));
    fixture.step();
    fixture.schedule(clusters, &[]);
    fixture
}

// checklist 20.28
#[test]
fn until_the_scheduler_speaks_nothing_is_known() {
    type Spoil = fn(&mut Fixture);
    let rows: [(&str, Spoil); 4] = [
        ("missing", |w| policy(w).status.conditions.clear()),
        ("unknown", |w| policy(w).status.conditions[0].status = "Unknown".into()),
        ("stale generation", |w| policy(w).generation = 2),
        ("stale placement generation", |w| {
            policy(w).status.observed_crp_generation = 0;
        }),
    ];
    for (what, spoil) in rows {
        let mut fixture = over(&["c1"]);
        spoil(&mut fixture);
        fixture.step();
        assert_eq!(
            fixture.told(),
            "ClusterResourcePlacementScheduled@1 Unknown SchedulePending: Scheduling has not completed\n",
            "{what}"
        );
        assert!(fixture.status().placement_statuses.is_empty(), "{what}");
        assert_eq!(fixture.status().observed_resource_index, "0", "{what}");
        assert_eq!(fixture.status().selected_resources, [namespace_id("app")], "{what}");
    }
}

// checklist 20.29
#[test]
fn a_scheduled_cluster_without_a_binding_is_undecided() {
    let mut fixture = over(&["c1"]);
    fixture.step();
    expect![[r#"
        ClusterResourcePlacementScheduled@1 True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 1 cluster(s)
        ClusterResourcePlacementRolloutStarted@1 Unknown RolloutStartedUnknown: There are still 1 cluster(s) in the process of deciding whether to roll out the latest resources or not
    "#]]
    .assert_eq(&fixture.told());
    expect![[r#"
        index ""
        Scheduled@1 True Scheduled: Successfully scheduled resources for placement in "c1" (affinity score: 0, topology spread score: 0): picked by scheduling policy
        RolloutStarted@1 Unknown RolloutStartedUnknown: In the process of deciding whether to roll out some version of the resources or not
    "#]]
    .assert_eq(&fixture.told_of("c1"));
}

// checklist 20.30
#[test]
fn no_cluster_at_all_leaves_scheduled_alone() {
    let mut fixture = over(&["c1"]);
    fixture.deliver("c1", 0, AVAILABLE);
    fixture.step();
    assert!(fixture.in_short().ends_with("Available=True"));
    fixture.schedule(&[], &[]);
    fixture.step();
    assert_eq!(fixture.in_short(), "Scheduled=True");
    assert_eq!(fixture.status().observed_resource_index, "0");
    assert!(fixture.clusters().is_empty());

    let mut fixture =
        Fixture::crp(json!({"policy": {"placementType": "PickN", "numberOfClusters": 0}}));
    fixture.step();
    fixture.schedule(&[], &[]);
    fixture.step();
    assert_eq!(fixture.in_short(), "Scheduled=True");
}

// checklist 20.30
#[test]
fn clusters_that_are_wanted_and_lacking_have_no_name() {
    let others = [("c3", "tainted"), ("c4", "unhealthy"), ("c5", "left"), ("c6", "too far")];
    // policy, clusters turned down, nameless entries
    let pick_n = |n: i32| json!({"placementType": "PickN", "numberOfClusters": n});
    let fixed = json!({"placementType": "PickFixed", "clusterNames": ["c1", "c2", "c3", "c4"]});
    let rows = [
        (pick_n(5), 4, vec!["tainted", "unhealthy", "left"]),
        (pick_n(5), 1, vec!["tainted"]),
        (fixed, 4, vec!["tainted", "unhealthy"]),
        (json!({"placementType": "PickAll"}), 4, vec![]),
    ];
    for (policy, turned_down, want) in rows {
        let mut fixture = Fixture::crp(json!({"policy": policy}));
        fixture.step();
        fixture.schedule(&["c1", "c2"], &others[..turned_down]);
        fixture.step();
        let entries = &fixture.status().placement_statuses;
        let nameless: Vec<&str> = entries
            .iter()
            .skip(2)
            .map(|entry| {
                assert_eq!((entry.cluster_name.as_str(), entry.conditions.len()), ("", 1));
                assert_eq!(entry.conditions[0].reason, "ScheduleFailed");
                entry.conditions[0].message.as_str()
            })
            .collect();
        assert_eq!(nameless, want);
        assert_eq!(fixture.step().actions, [], "said once");
    }
}

#[test]
fn a_short_pick_n_still_reports_its_clusters() {
    let mut fixture =
        Fixture::crp(json!({"policy": {"placementType": "PickN", "numberOfClusters": 2}}));
    fixture.step();
    fixture.schedule(&["c1"], &[("c2", "no")]);
    fixture.deliver("c1", 0, AVAILABLE);
    fixture.step();
    assert_eq!(
        fixture.in_short(),
        "Scheduled=False RolloutStarted=True Overridden=True WorkSynchronized=True Applied=True Available=True"
    );
}

#[test]
fn more_clusters_than_wanted_is_an_internal_error() {
    let mut fixture =
        Fixture::crp(json!({"policy": {"placementType": "PickN", "numberOfClusters": 1}}));
    fixture.step();
    fixture.schedule(&["c1", "c2"], &[]);
    assert!(matches!(fixture.plan().trouble, Some(PassError::Unexpected(_))));
}

// checklist 20.31
#[test]
fn each_step_of_one_cluster_is_told_in_order() {
    let rows = [
        ("", "RolloutStarted=Unknown"),
        ("RolloutStarted=Unknown", "RolloutStarted=Unknown"),
        ("RolloutStarted=False", "RolloutStarted=False"),
        ("RolloutStarted=True", "RolloutStarted=True Overridden=Unknown"),
        ("RolloutStarted=True Overridden=False", "RolloutStarted=True Overridden=False"),
        (
            "RolloutStarted=True Overridden=True",
            "RolloutStarted=True Overridden=True WorkSynchronized=Unknown",
        ),
        (
            "RolloutStarted=True Overridden=True WorkSynchronized=False Applied=True",
            "RolloutStarted=True Overridden=True WorkSynchronized=False",
        ),
        (
            "RolloutStarted=True Overridden=True WorkSynchronized=True",
            "RolloutStarted=True Overridden=True WorkSynchronized=True Applied=Unknown",
        ),
        (
            "RolloutStarted=True Overridden=True WorkSynchronized=True Applied=False",
            "RolloutStarted=True Overridden=True WorkSynchronized=True Applied=False",
        ),
        (
            "RolloutStarted=True Overridden=True WorkSynchronized=True Applied=True",
            "RolloutStarted=True Overridden=True WorkSynchronized=True Applied=True Available=Unknown",
        ),
        (
            "RolloutStarted=True Overridden=True WorkSynchronized=True Applied=True Available=False",
            "RolloutStarted=True Overridden=True WorkSynchronized=True Applied=True Available=False",
        ),
        (AVAILABLE, AVAILABLE),
    ];
    for (binding, want) in rows {
        let mut fixture = over(&["c1"]);
        fixture.deliver("c1", 0, binding);
        fixture.step();
        assert_eq!(fixture.in_short(), format!("Scheduled=True {want}"), "{binding}");
        let entry = &fixture.status().placement_statuses[0];
        let short: Vec<_> =
            entry.conditions.iter().map(|c| format!("{}={}", c.type_, c.status)).collect();
        assert_eq!(short.join(" "), format!("Scheduled=True {want}"), "{binding}");
        assert_eq!(fixture.step().actions, [], "said once");
    }
}

// checklist 20.31
#[test]
fn the_words_of_a_placement_that_is_done() {
    let mut fixture = over(&["c1", "c2", "c3"]);
    for cluster in ["c1", "c2", "c3"] {
        fixture.deliver(cluster, 0, AVAILABLE);
    }
    let plan = fixture.step();
    expect![[r#"
        ClusterResourcePlacementScheduled@1 True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 3 cluster(s)
        ClusterResourcePlacementRolloutStarted@1 True RolloutStarted: All 3 cluster(s) start rolling out the latest resource
        ClusterResourcePlacementOverridden@1 True NoOverrideSpecified: No override rules are configured for the selected resources
        ClusterResourcePlacementWorkSynchronized@1 True WorkSynchronized: Work(s) are successfully created or updated in 3 target cluster(s)' namespaces
        ClusterResourcePlacementApplied@1 True ApplySucceeded: The selected resources are successfully applied to 3 cluster(s)
        ClusterResourcePlacementAvailable@1 True ResourceAvailable: The selected resources in 3 cluster(s) are available now
    "#]]
    .assert_eq(&fixture.told());
    expect![[r#"
        index "0"
        Scheduled@1 True Scheduled: Successfully scheduled resources for placement in "c2" (affinity score: 0, topology spread score: 0): picked by scheduling policy
        RolloutStarted@1 True RolloutStarted: Detected the new changes on the resources and started the rollout process
        Overridden@1 True NoOverrideSpecified: No override rules are configured for the selected resources
        WorkSynchronized@1 True AllWorkSynced: All of the works are synchronized to the latest
        Applied@1 True AllWorkHaveBeenApplied: All corresponding work objects are applied
        Available@1 True AllWorkAreAvailable: All corresponding work objects are available
    "#]]
    .assert_eq(&fixture.told_of("c2"));
    assert_eq!(plan.wake, None, "a finished rollout waits for events only");
    let reasons: Vec<&str> = plan.events.iter().map(|e| e.reason.as_str()).collect();
    assert_eq!(
        reasons,
        [
            "PlacementRolloutStarted",
            "PlacementOverriddenSucceeded",
            "PlacementWorkSynchronized",
            "PlacementApplied",
            "PlacementAvailable",
            "PlacementRolloutCompleted"
        ]
    );
    assert_eq!(fixture.step().events, [], "told once");
}

// checklist 20.31
/// Every placement-level sentence that is not the one of a success.
#[test]
fn the_words_of_a_placement_on_its_way() {
    let done = ["RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available"];
    let mut text = String::new();
    for (at, step) in done.iter().enumerate() {
        for truth in ["Unknown", "False"] {
            let mut fixture = over(&["c1", "c2"]);
            let before: Vec<_> = done[..at].iter().map(|kind| format!("{kind}=True")).collect();
            let stuck = format!("{} {step}={truth}", before.join(" "));
            fixture.deliver("c1", 0, &stuck);
            fixture.deliver("c2", 0, &stuck);
            fixture.step();
            text.push_str(fixture.told().lines().last().unwrap());
            text.push('\n');
            text.push_str(fixture.told_of("c1").lines().last().unwrap());
            text.push('\n');
        }
    }
    expect![[r#"
        ClusterResourcePlacementRolloutStarted@1 Unknown RolloutStartedUnknown: There are still 2 cluster(s) in the process of deciding whether to roll out the latest resources or not
        RolloutStarted@1 Unknown RolloutStartedUnknown: In the process of deciding whether to roll out some version of the resources or not
        ClusterResourcePlacementRolloutStarted@1 False RolloutNotStartedYet: The rollout is being blocked by the rollout strategy in 2 cluster(s)
        RolloutStarted@1 False RolloutNotStartedYet: The resources cannot be updated to the latest because of the rollout strategy
        ClusterResourcePlacementOverridden@1 Unknown OverriddenPending: There are still 2 cluster(s) in the process of overriding the selected resources if there is any override defined
        Overridden@1 Unknown OverriddenPending: In the process of overriding the selected resources if there is any override defined
        ClusterResourcePlacementOverridden@1 False OverriddenFailed: Failed to override resources in 2 cluster(s)
        Overridden@1 False OverriddenFailed: Failed to apply the override rules on the resources: oops
        ClusterResourcePlacementWorkSynchronized@1 Unknown WorkSynchronizedUnknown: There are still 2 cluster(s) in the process of creating or updating the work object(s) in the hub cluster
        WorkSynchronized@1 Unknown WorkSynchronizedUnknown: In the process of creating or updating the work object(s) in the hub cluster
        ClusterResourcePlacementWorkSynchronized@1 False WorkNotSynchronizedYet: There are 2 cluster(s) which have not finished creating or updating work(s) yet
        WorkSynchronized@1 False SyncWorkFailed: Failed to synchronize the work to the latest: oops
        ClusterResourcePlacementApplied@1 Unknown ApplyPending: There are still 2 cluster(s) in the process of applying the resources on the member cluster
        Applied@1 Unknown ApplyPending: In the process of applying the resources on the member cluster
        ClusterResourcePlacementApplied@1 False ApplyFailed: Failed to apply resources to 2 cluster(s), please check the `failedPlacements` status
        Applied@1 False NotAllWorkHaveBeenApplied: Work object web-work has failed to apply
        ClusterResourcePlacementAvailable@1 Unknown ResourceAvailableUnknown: There are still 2 cluster(s) in the process of checking the availability of the selected resources
        Available@1 Unknown ResourceAvailableUnknown: The availability of the selected resources is unknown yet 
        ClusterResourcePlacementAvailable@1 False ResourceNotAvailableYet: The selected resources in 2 cluster(s) are still not available yet
        Available@1 False NotAllWorkAreAvailable: Work object web-work is not yet available
    "#]]
    .assert_eq(&text);
}

// checklist 20.31
#[test]
fn unknown_wins_over_false() {
    let not_applied = "RolloutStarted=True Overridden=True WorkSynchronized=True Applied=False";
    let applying = "RolloutStarted=True Overridden=True WorkSynchronized=True";
    let rows = [
        ([AVAILABLE, not_applied, ""], "RolloutStarted=Unknown", "There are still 1 cluster(s)"),
        (
            [AVAILABLE, not_applied, applying],
            "RolloutStarted=True Overridden=True WorkSynchronized=True Applied=Unknown",
            "There are still 1 cluster(s)",
        ),
        (
            [AVAILABLE, not_applied, not_applied],
            "RolloutStarted=True Overridden=True WorkSynchronized=True Applied=False",
            "Failed to apply resources to 2 cluster(s)",
        ),
    ];
    for (bindings, want, words) in rows {
        let mut fixture = over(&["c1", "c2", "c3"]);
        for (cluster, conditions) in ["c1", "c2", "c3"].into_iter().zip(bindings) {
            fixture.deliver(cluster, 0, conditions);
        }
        fixture.step();
        assert_eq!(fixture.in_short(), format!("Scheduled=True {want}"));
        let last = fixture.status().conditions.last().unwrap();
        assert!(last.message.starts_with(words), "{}", last.message);
    }
}

// checklist 20.32
#[test]
fn a_binding_on_an_old_snapshot_is_blocked_or_undecided() {
    for (rollout, stale, want, message) in [
        ("False", false, "False", "The rollout is being blocked by the rollout strategy"),
        (
            "True",
            false,
            "Unknown",
            "In the process of deciding whether to roll out some version of the resources or not",
        ),
        (
            "False",
            true,
            "Unknown",
            "In the process of deciding whether to roll out some version of the resources or not",
        ),
    ] {
        let mut fixture = over(&["c1"]);
        fixture.deliver("c1", 0, AVAILABLE);
        fixture.step();
        fixture.select(&["app", "more"]);
        fixture.deliver(
            "c1",
            0,
            &AVAILABLE.replace("RolloutStarted=True", &format!("RolloutStarted={rollout}")),
        );
        if stale {
            fixture.bind("c1").generation = 2;
        }
        fixture.step();
        let entry = &fixture.status().placement_statuses[0];
        let last = entry.conditions.last().unwrap();
        assert_eq!((last.type_.as_str(), last.status.as_str()), ("RolloutStarted", want));
        assert_eq!(last.message, message);
        assert_eq!(entry.observed_resource_index, "1");
        assert_eq!(fixture.in_short(), format!("Scheduled=True RolloutStarted={want}"));
    }
}

// checklist 20.32
#[test]
fn stale_conditions_of_a_binding_count_as_unknown() {
    let mut fixture = over(&["c1"]);
    fixture.deliver("c1", 0, AVAILABLE);
    let binding = fixture.bind("c1");
    binding.generation = 3;
    for condition in binding.status.conditions.iter_mut().take(3) {
        condition.observed_generation = Some(3);
    }
    fixture.step();
    assert_eq!(
        fixture.in_short(),
        "Scheduled=True RolloutStarted=True Overridden=True WorkSynchronized=True Applied=Unknown"
    );
}

#[test]
fn only_bindings_of_this_policy_that_stay_are_read() {
    type Spoil = fn(&mut Fixture);
    let rows: [(&str, Spoil); 3] = [
        ("deleting", |w| w.bind("c1").deleting = true),
        ("another policy snapshot", |w| {
            w.bind("c1").spec.scheduling_policy_snapshot_name = "web-9".into();
        }),
        ("no cluster", |w| w.bind("c1").spec.target_cluster.clear()),
    ];
    for (what, spoil) in rows {
        let mut fixture = over(&["c1"]);
        fixture.deliver("c1", 0, AVAILABLE);
        spoil(&mut fixture);
        fixture.step();
        assert_eq!(fixture.in_short(), "Scheduled=True RolloutStarted=Unknown", "{what}");
    }
    // Of two bindings the last by name counts, and the state of a binding does not.
    let mut fixture = over(&["c1"]);
    fixture.deliver("c1", 0, "");
    let mut last = (*fixture.seen.bindings[0]).clone();
    last.name = "web-z".into();
    last.spec.state = BindingState::Unscheduled;
    last.status.conditions.push(said("RolloutStarted", "False", 1, now()));
    fixture.seen.bindings.insert(0, Arc::new(last));
    fixture.step();
    assert_eq!(fixture.in_short(), "Scheduled=True RolloutStarted=False");
}

// checklist 20.33
#[test]
fn a_new_generation_starts_over_but_keeps_the_old_words_while_scheduling() {
    let mut fixture = over(&["c1"]);
    fixture.deliver("c1", 0, AVAILABLE);
    fixture.step();
    fixture.later(60);
    fixture.edit(|spec| spec["policy"]["tolerations"] = json!([{"operator": "Exists"}]));
    fixture.step();
    let told = fixture.told();
    assert!(
        told.starts_with("ClusterResourcePlacementScheduled@2 Unknown SchedulePending"),
        "{told}"
    );
    assert_eq!(told.matches("@1 True").count(), 5, "old words keep the old generation");
    assert!(fixture.clusters().is_empty());
    fixture.schedule(&["c1"], &[]);
    fixture.bind("c1").spec.scheduling_policy_snapshot_name = "web-1".into();
    fixture.step();
    assert_eq!(fixture.told().matches("@2 True").count(), 6);
}

#[test]
fn transition_times_move_with_the_status_only() {
    let mut fixture = over(&["c1"]);
    fixture.deliver("c1", 0, AVAILABLE);
    fixture.step();
    fixture.later(60);
    fixture.edit(|spec| spec["revisionHistoryLimit"] = json!(3));
    fixture.step();
    fixture.schedule(&["c1"], &[]);
    fixture.deliver("c1", 0, &AVAILABLE.replace("Available=True", "Available=False"));
    fixture.step();
    let since = |conditions: &[flagship_api::condition::Condition]| {
        conditions.iter().map(|c| c.last_transition_time.0 > now()).collect::<Vec<_>>()
    };
    // Scheduled was Unknown in between; nobody had an entry in between.
    assert_eq!(
        since(&fixture.status().conditions),
        [true, false, false, false, false, true],
        "{}",
        fixture.told()
    );
}

// checklist 20.33
#[test]
fn changing_to_report_diff_removes_the_other_family_and_back() {
    let mut fixture = over(&["c1"]);
    fixture.deliver("c1", 0, AVAILABLE);
    fixture.step();
    let compared = "RolloutStarted=True Overridden=True WorkSynchronized=True DiffReported=True";
    for (kind, conditions) in [("ReportDiff", compared), ("ServerSideApply", AVAILABLE)] {
        fixture.edit(|spec| spec["strategy"]["applyStrategy"]["type"] = kind.into());
        fixture.step();
        fixture.schedule(&["c1"], &[]);
        fixture.deliver("c1", 0, conditions);
        let plan = fixture.step();
        let mut short: Vec<String> = fixture.in_short().split(' ').map(str::to_owned).collect();
        let mut want: Vec<String> =
            format!("Scheduled=True {conditions}").split(' ').map(str::to_owned).collect();
        short.sort();
        want.sort();
        assert_eq!(short, want);
        assert_eq!(fixture.status().placement_statuses[0].conditions.len(), short.len());
        assert!(plan.events.iter().any(|e| e.reason == "PlacementRolloutCompleted"));
    }
}

// checklist 20.34
#[test]
fn overrides_are_listed_and_change_the_reason() {
    let mut fixture = over(&["c1", "c2"]);
    fixture.deliver("c1", 0, AVAILABLE);
    fixture.deliver("c2", 0, AVAILABLE);
    let ro = NamespacedName { name: "ro-0".into(), namespace: "app".into() };
    fixture.bind("c1").spec.resource_override_snapshots = vec![ro.clone()];
    fixture.bind("c1").spec.cluster_resource_override_snapshots = vec!["cro-0".into()];
    fixture.step();
    let entry = &fixture.status().placement_statuses[0];
    assert_eq!(entry.applicable_resource_overrides, [ro]);
    assert_eq!(entry.applicable_cluster_resource_overrides, ["cro-0"]);
    assert!(fixture.told().contains(
        "Overridden@1 True OverriddenSucceeded: The selected resources are successfully overridden in 2 cluster(s)"
    ));
}

fn failed() -> FailedResourcePlacement {
    FailedResourcePlacement {
        resource: namespace_id("app"),
        condition: said("Applied", "False", 1, now()),
    }
}

fn drifted() -> DriftedResourcePlacement {
    DriftedResourcePlacement {
        resource: namespace_id("app"),
        observation_time: Time(now()),
        target_cluster_observed_generation: 2,
        first_drifted_observed_time: Time(now()),
        observed_drifts: vec![PatchDetail { path: "/spec".into(), ..PatchDetail::default() }],
    }
}

fn diffed() -> DiffedResourcePlacement {
    DiffedResourcePlacement {
        resource: namespace_id("app"),
        observation_time: Time(now()),
        target_cluster_observed_generation: None,
        first_diffed_observed_time: Time(now()),
        observed_diffs: vec![PatchDetail { path: "/spec".into(), ..PatchDetail::default() }],
    }
}

// checklist 20.34
#[test]
fn details_are_copied_where_they_explain_something() {
    let applied = "RolloutStarted=True Overridden=True WorkSynchronized=True";
    // conditions, reporting differences, failed, drifted, diffed
    let rows = [
        (String::new(), false, 0, 0, 0),
        (applied.to_owned(), false, 0, 0, 0),
        (format!("{applied} Applied=False"), false, 1, 1, 1),
        (format!("{applied} Applied=True"), false, 0, 1, 0),
        (format!("{applied} Applied=True Available=False"), false, 1, 1, 1),
        (AVAILABLE.to_owned(), false, 0, 1, 0),
        (format!("{applied} DiffReported=True"), true, 0, 0, 1),
        (format!("{applied} DiffReported=False"), true, 0, 0, 0),
    ];
    for (conditions, diff, failures, drifts, diffs) in rows {
        let mut fixture = if diff { reporting_diff(&["c1"]) } else { over(&["c1"]) };
        fixture.deliver("c1", 0, &conditions);
        let status = &mut fixture.bind("c1").status;
        status.failed_placements = vec![failed()];
        status.drifted_placements = vec![drifted()];
        status.diffed_placements = vec![diffed()];
        fixture.step();
        let entry = &fixture.status().placement_statuses[0];
        let counts = (
            entry.failed_placements.len(),
            entry.drifted_placements.len(),
            entry.diffed_placements.len(),
        );
        assert_eq!(counts, (failures, drifts, diffs), "{conditions}");
    }
}

// checklist 20.35
#[test]
fn reporting_differences_complete_pending_failed_and_not_synced() {
    let synced = "RolloutStarted=True Overridden=True WorkSynchronized=True";
    let rows = [
        (
            format!("{synced} DiffReported=True"),
            "DiffReported@1 True DiffReportingCompleted: Diff reporting in 2 cluster(s) has been completed",
        ),
        (
            synced.to_owned(),
            "DiffReported@1 Unknown DiffReportingPending: There are still 1 cluster(s) in the process of checking for configuration differences",
        ),
        (
            format!("{synced} DiffReported=False"),
            "DiffReported@1 False DiffReportingIncompleteOrFailed: Diff reporting in 1 clusters is still in progress or has failed",
        ),
        (
            "RolloutStarted=True Overridden=True WorkSynchronized=False".to_owned(),
            "WorkSynchronized@1 False WorkNotSynchronizedYet: There are 1 cluster(s) which have not finished creating or updating work(s) yet",
        ),
    ];
    for (conditions, want) in rows {
        let mut fixture = reporting_diff(&["c1", "c2"]);
        fixture.deliver("c1", 0, &format!("{synced} DiffReported=True"));
        fixture.deliver("c2", 0, &conditions);
        let plan = fixture.step();
        assert_eq!(
            fixture.told().lines().last(),
            Some(format!("ClusterResourcePlacement{want}").as_str())
        );
        let complete = want.contains("True");
        assert_eq!(plan.wake.is_none(), complete);
        let reported = plan.events.iter().find(|e| e.reason == "PlacementDiffReported");
        assert_eq!(reported.is_some(), complete);
    }
}

// checklist 20.37
#[test]
fn a_resource_placement_says_the_same_under_its_own_prefix() {
    let mut fixture = Fixture::rp(json!({"policy": {"placementType": "PickAll"}}));
    fixture.step();
    assert_eq!(
        fixture.told(),
        "ResourcePlacementScheduled@1 Unknown SchedulePending: Scheduling has not completed\n"
    );
    fixture.schedule(&["c1"], &[]);
    fixture.deliver("c1", 0, AVAILABLE);
    fixture.step();
    assert_eq!(fixture.in_short(), format!("Scheduled=True {AVAILABLE}"));
    assert!(fixture.told().lines().all(|line| line.starts_with("ResourcePlacement")));
}

// checklist 20.37
#[test]
fn the_metric_names_the_first_thing_that_is_not_true() {
    let series = |fixture: &Fixture| {
        let series = fixture.plan().series.unwrap();
        format!("{} {} {}", series.condition, series.status, series.reason)
    };
    let mut fixture = over(&["c1"]);
    assert_eq!(
        series(&fixture),
        "ClusterResourcePlacementRolloutStarted Unknown RolloutStartedUnknown"
    );
    fixture.deliver("c1", 0, AVAILABLE);
    assert_eq!(series(&fixture), "Completed True Completed");
    fixture.step();
    fixture.edit(|spec| spec["revisionHistoryLimit"] = json!(3));
    assert_eq!(series(&fixture), "ClusterResourcePlacementScheduled Unknown SchedulePending");
    fixture.seen.selection = Err(PassError::Expected("wait".into()));
    assert_eq!(series(&fixture), "ClusterResourcePlacementScheduled nil nil");
    fixture.seen.placement.deleting = true;
    assert_eq!(fixture.plan().series, None);
}

// checklist 20.23
#[test]
fn during_batching_the_old_index_and_resources_stay() {
    let mut fixture = over(&["c1"]);
    fixture.deliver("c1", 0, AVAILABLE);
    fixture.step();
    fixture.seen.batching = crate::placement::Batching::default();
    fixture.later(100);
    fixture.select(&["app", "more"]);
    let plan = fixture.step();
    assert_eq!(plan.wake, Some(jiff::SignedDuration::from_secs(15)));
    assert!(!plan.actions.iter().any(|a| matches!(a, Action::Status(_))), "nothing to say");
    assert_eq!(fixture.status().observed_resource_index, "0");
    fixture.later(15);
    fixture.step();
    assert_eq!(fixture.status().observed_resource_index, "1");
    assert_eq!(fixture.status().selected_resources.len(), 2);
    assert_eq!(fixture.in_short(), "Scheduled=True RolloutStarted=Unknown");
}

#[test]
fn a_status_that_grew_too_large_loses_details_first_and_conditions_never() {
    let size = |status: &PlacementStatus| serde_json::to_string(status).unwrap().len();
    let mut fixture = over(&["c1", "c2", "c3"]);
    for cluster in ["c1", "c2", "c3"] {
        fixture.deliver(cluster, 0, &AVAILABLE.replace("Available=True", "Available=False"));
        let status = &mut fixture.bind(cluster).status;
        let mut drift = drifted();
        drift.observed_drifts[0].value_in_hub = "x".repeat(2_000);
        status.drifted_placements = vec![drift; if cluster == "c2" { 20 } else { 5 }];
        status.failed_placements = vec![failed(); 3];
    }
    fixture.step();
    let whole = fixture.status().clone();
    assert!(size(&whole) < MOST_BYTES);

    let mut one = whole.clone();
    fit(&mut one, size(&whole) - 1);
    let details = |s: &PlacementStatus| -> Vec<usize> {
        let drifts = |e: &flagship_api::placement_status::PerClusterPlacementStatus| {
            e.drifted_placements.iter().map(|d| d.observed_drifts.len()).sum()
        };
        s.placement_statuses.iter().map(drifts).collect()
    };
    assert_eq!(details(&one), [5, 0, 5], "the largest entry pays first");
    assert_eq!(one.placement_statuses[1].drifted_placements.len(), 20);

    let mut least = whole.clone();
    fit(&mut least, 0);
    for (cut, full) in least.placement_statuses.iter().zip(&whole.placement_statuses) {
        assert_eq!(cut.conditions, full.conditions);
        assert!(cut.drifted_placements.is_empty() && cut.failed_placements.is_empty());
    }
    assert_eq!(least.conditions, whole.conditions);
}
