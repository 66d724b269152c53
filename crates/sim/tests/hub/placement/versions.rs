//! How content and policy become versions, when, and how many are kept.

use expect_test::expect;
use flagship_rules::placement::Batching;
use serde_json::json;

use crate::placement::story::{CRS, RS, Story, everywhere, map, namespace};
use flagship_sim::testing::{CRP, CSPS, RP};

#[tokio::test(start_paused = true)]
async fn a_placement_gets_its_snapshots_its_clusters_and_its_status() {
    let story = Story::cluster_wide(1).await.starts().await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "app", "name": "cm"}, "data": {"k": "a<b"}});
    story.create("configmaps", map).await;
    story.crp("web", everywhere(&[namespace("app")])).await;
    story.settle().await;
    assert_eq!(story.version(CRP, "", "web"), "0: Namespace app, ConfigMap cm");
    assert_eq!(story.snapshots(CSPS), ["web-0 latest"]);
    assert_eq!(story.snapshots(CRS), ["web-0-snapshot latest"]);
    assert_eq!(story.bindings("web"), ["member1 Scheduled web-0", "member2 Scheduled web-0"]);
    assert_eq!(
        story.conditions(CRP, "", "web"),
        [
            "Scheduled True SchedulingPolicyFulfilled (1)",
            "RolloutStarted Unknown RolloutStartedUnknown (1)"
        ]
    );
    let snapshot = story.get(CRS, "", "web-0-snapshot");
    // The published vector of this very content.
    expect![[r#"
        {
          "kubernetes-fleet.io/number-of-enveloped-object": "0",
          "kubernetes-fleet.io/number-of-resource-snapshots": "1",
          "kubernetes-fleet.io/resource-hash": "47765e86044204c2eb4ec5872fc4b3cd44a7873435e82da5eb7c3f5d1ed21601"
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&snapshot["metadata"]["annotations"]).unwrap());
    let owner = &snapshot["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["controller"]),
        (&json!("ClusterResourcePlacement"), &json!(true))
    );
    story.rolls_out("web", "web-0-snapshot").await;
    story.settle().await;
    expect![[r#"
        [
            "Scheduled True SchedulingPolicyFulfilled (1)",
            "RolloutStarted True RolloutStarted (1)",
            "Overridden True NoOverrideSpecified (1)",
            "WorkSynchronized True WorkSynchronized (1)",
            "Applied True ApplySucceeded (1)",
            "Available True ResourceAvailable (1)",
        ]
    "#]]
    .assert_debug_eq(&story.conditions(CRP, "", "web"));
    expect![[r#"
        [
            "Normal PlacementApplied web: Resources have been applied to the selected cluster(s) (x1)",
            "Normal PlacementAvailable web: Resources are available on the selected cluster(s) (x1)",
            "Normal PlacementOverriddenSucceeded web: Placement has been successfully overridden (x1)",
            "Normal PlacementRolloutCompleted web: Placement has finished the rollout process and reached the desired status (x1)",
            "Normal PlacementRolloutStarted web: Started rolling out the latest resources (x1)",
            "Normal PlacementWorkSynchronized web: Work(s) have been created or updated successfully for the selected cluster(s) (x1)",
        ]
    "#]].assert_debug_eq(&story.events("ClusterResourcePlacement"));
    let metrics = story.metrics.render();
    let completed = "fleet_workload_placement_status_last_timestamp_seconds{namespace=\"\",name=\"web\",generation=\"1\",conditionType=\"Completed\",status=\"True\",reason=\"Completed\"}";
    assert!(metrics.contains(completed), "{metrics}");
}

// checklist 20.16
#[tokio::test(start_paused = true)]
async fn each_change_of_content_is_one_version_and_nothing_else_is() {
    let story = Story::cluster_wide(2).await.starts().await;
    story.map("app", "settings", "one").await;
    story.crp("web", everywhere(&[namespace("app")])).await;
    story.settle().await;
    story.change("app", "settings", "two").await;
    story.settle().await;
    assert_eq!(story.snapshots(CRS), ["web-0-snapshot", "web-1-snapshot latest"]);
    assert_eq!(story.version(CRP, "", "web"), "1: Namespace app, ConfigMap settings");
    // What a server or a client writes down for itself is no content.
    let notes = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"});
    let patch = json!({"metadata": {"annotations": notes}});
    story.patch("configmaps", "app", "settings", patch).await;
    story.map("fleet-system", "elsewhere", "x").await;
    story.settle().await;
    assert_eq!(story.version(CRP, "", "web"), "1: Namespace app, ConfigMap settings");
    // The way back is a new version, too.
    story.change("app", "settings", "one").await;
    story.settle().await;
    assert_eq!(story.snapshots(CRS), ["web-0-snapshot", "web-1-snapshot", "web-2-snapshot latest"]);
    let hash = |name: &str| {
        story.get(CRS, "", name)["metadata"]["annotations"]["kubernetes-fleet.io/resource-hash"]
            .clone()
    };
    assert_eq!(hash("web-0-snapshot"), hash("web-2-snapshot"));
    assert_ne!(hash("web-0-snapshot"), hash("web-1-snapshot"));
}

// checklist 20.23
#[tokio::test(start_paused = true)]
async fn changes_are_gathered_before_they_become_a_version() {
    let mut story = Story::cluster_wide(3).await;
    story.options.batching = Batching::default();
    let story = story.starts().await;
    story.map("app", "settings", "0").await;
    story.crp("web", everywhere(&[namespace("app")])).await;
    story.pass(5).await;
    assert_eq!(story.version(CRP, "", "web"), "0: Namespace app, ConfigMap settings");
    // A snapshot of 0 s and a change at 5 s: due at 30 s.
    story.map("app", "more", "1").await;
    story.pass(5).await;
    story.change("app", "settings", "1").await;
    story.pass(19).await;
    assert_eq!(story.version(CRP, "", "web"), "0: Namespace app, ConfigMap settings");
    story.pass(2).await;
    assert_eq!(
        story.version(CRP, "", "web"),
        "1: Namespace app, ConfigMap more, ConfigMap settings"
    );
    // Long after the last one: due when changes were gathered for 15 s.
    story.pass(100).await;
    story.change("app", "settings", "2").await;
    story.pass(14).await;
    assert_eq!(story.snapshots(CRS).len(), 2);
    story.pass(2).await;
    assert_eq!(story.snapshots(CRS).len(), 3);
}

// checklist 20.20
#[tokio::test(start_paused = true)]
async fn as_many_versions_are_kept_as_the_limit_says() {
    let story = Story::cluster_wide(4).await.starts().await;
    for (name, limit) in [("one", 1), ("two", 2)] {
        let mut spec = everywhere(&[namespace("app")]);
        spec["revisionHistoryLimit"] = json!(limit);
        story.crp(name, spec).await;
    }
    story.settle().await;
    for n in 1..=3 {
        story.map("app", &format!("map-{n}"), "x").await;
        story.settle().await;
    }
    assert_eq!(
        story.snapshots(CRS),
        ["one-3-snapshot latest", "two-2-snapshot", "two-3-snapshot latest"]
    );
    assert!(story.version(CRP, "", "one").starts_with("3: "));
    // Policies are kept by the same limit.
    for key in ["a", "b", "c"] {
        let policy = json!({"tolerations": [{"key": key, "operator": "Exists"}]});
        for name in ["one", "two"] {
            story.patch(CRP, "", name, json!({"spec": {"policy": policy}})).await;
        }
        story.settle().await;
    }
    assert_eq!(story.snapshots(CSPS), ["one-3 latest", "two-2", "two-3 latest"]);
    assert_eq!(story.conditions(CRP, "", "two")[0], "Scheduled True SchedulingPolicyFulfilled (4)");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_somebody_rolls_out_is_not_pruned() {
    let story = Story::cluster_wide(5).await.starts().await;
    let mut spec = everywhere(&[namespace("app")]);
    spec["revisionHistoryLimit"] = json!(1);
    story.crp("web", spec).await;
    story.settle().await;
    story.rolls_out("web", "web-0-snapshot").await;
    story.settle().await;
    story.map("app", "new", "x").await;
    story.settle().await;
    assert_eq!(story.snapshots(CRS), ["web-0-snapshot", "web-1-snapshot latest"]);
    story.rolls_out("web", "web-1-snapshot").await;
    story.settle().await;
    assert_eq!(story.snapshots(CRS), ["web-1-snapshot latest"]);
}

#[tokio::test(start_paused = true)]
async fn scaling_is_written_on_the_policy_and_a_new_policy_is_a_new_snapshot() {
    let story = Story::cluster_wide(6).await.starts().await;
    let policy = json!({"placementType": "PickN", "numberOfClusters": 1});
    story.crp("web", json!({"resourceSelectors": [namespace("app")], "policy": policy})).await;
    story.settle().await;
    story.patch(CRP, "", "web", json!({"spec": {"policy": {"numberOfClusters": 2}}})).await;
    story.settle().await;
    assert_eq!(story.snapshots(CSPS), ["web-0 latest"]);
    assert_eq!(
        story.get(CSPS, "", "web-0")["metadata"]["annotations"],
        json!({"kubernetes-fleet.io/CRP-generation": "2", "kubernetes-fleet.io/number-of-clusters": "2"})
    );
    assert_eq!(story.bindings("web").len(), 2);
    let spread = json!([{"topologyKey": "region"}]);
    let patch = json!({"spec": {"policy": {"topologySpreadConstraints": spread}}});
    story.patch(CRP, "", "web", patch).await;
    story.settle().await;
    assert_eq!(story.snapshots(CSPS), ["web-0", "web-1 latest"]);
    // Another selector is no other policy.
    let selectors = json!([namespace("app"), namespace("missing")]);
    story.patch(CRP, "", "web", json!({"spec": {"resourceSelectors": selectors}})).await;
    story.settle().await;
    assert_eq!(story.snapshots(CSPS), ["web-0", "web-1 latest"]);
    let notes = &story.get(CSPS, "", "web-1")["metadata"]["annotations"];
    assert_eq!(notes["kubernetes-fleet.io/CRP-generation"], "4");
}

// checklist 20.19
#[tokio::test(start_paused = true)]
async fn large_content_is_split_and_a_torn_group_is_completed() {
    let story = Story::cluster_wide(7).await.starts().await;
    for n in 0..3 {
        story.map("app", &format!("map-{n}"), &"x".repeat(280_000)).await;
    }
    story.crp("web", everywhere(&[namespace("app")])).await;
    story.settle().await;
    assert_eq!(story.snapshots(CRS), ["web-0-0", "web-0-snapshot latest"]);
    let wanted = "0: Namespace app, ConfigMap map-0, ConfigMap map-1, ConfigMap map-2";
    assert_eq!(story.version(CRP, "", "web"), wanted);
    let master = story.get(CRS, "", "web-0-snapshot");
    let notes = &master["metadata"]["annotations"];
    assert_eq!(notes["kubernetes-fleet.io/number-of-resource-snapshots"], "2");
    // As if the hub had crashed between the two.
    story.delete(CRS, "", "web-0-0").await;
    story.patch(CRP, "", "web", json!({"spec": {"revisionHistoryLimit": 5}})).await;
    story.settle().await;
    assert_eq!(story.snapshots(CRS), ["web-0-0", "web-0-snapshot latest"]);
    assert_eq!(story.version(CRP, "", "web"), wanted);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_starts_again_writes_nothing() {
    let mut story = Story::both_scopes(8).await.starts().await;
    story.map("app", "settings", "x").await;
    story.crp("web", everywhere(&[namespace("app")])).await;
    let mut accessible = everywhere(&[namespace("app")]);
    accessible["statusReportingScope"] = json!("NamespaceAccessible");
    story.crp("shown", accessible).await;
    story.crp("wrong", everywhere(&[namespace("kube-system")])).await;
    story.rp("web", everywhere(&[map("settings")])).await;
    story.settle().await;
    story.rolls_out("web", "web-0-snapshot").await;
    story.settle().await;
    for name in ["second", "third"] {
        story.kill(if name == "second" { "hub" } else { "second" }).await;
        story.pass(60).await;
        story.start_as(name).await;
        assert_eq!(story.writes(name), [""; 0]);
        assert!(story.passes("cluster-resource-placement-controller-v1beta1") > 0);
    }
    assert_eq!(story.version(RP, "app", "web"), "0: ConfigMap settings");
    assert_eq!(story.snapshots(RS), ["web-0-snapshot latest"]);
    // And it goes on where the first one was.
    story.change("app", "settings", "y").await;
    story.settle().await;
    assert_eq!(story.snapshots(RS), ["web-0-snapshot", "web-1-snapshot latest"]);
}
