//! Placements that are deleted, and what stays behind.

use serde_json::json;

use crate::placement::story::{CRS, RS, Story, everywhere, map, namespace};
use flagship_sim::testing::{CRP, CSPS, RP, SPS};

// checklist 20.24
#[tokio::test(start_paused = true)]
async fn namesakes_of_both_scopes_do_not_see_each_other() {
    let story = Story::both_scopes(31).await.starts().await;
    story.map("app", "settings", "x").await;
    story.crp("web", everywhere(&[namespace("app")])).await;
    story.rp("web", everywhere(&[map("settings")])).await;
    story.settle().await;
    assert_eq!(story.version(CRP, "", "web"), "0: Namespace app, ConfigMap settings");
    assert_eq!(story.version(RP, "app", "web"), "0: ConfigMap settings");
    assert_eq!(
        story.conditions(RP, "app", "web"),
        [
            "Scheduled True SchedulingPolicyFulfilled (1)",
            "RolloutStarted Unknown RolloutStartedUnknown (1)"
        ]
    );
    assert_eq!(
        story.get(RP, "app", "web")["status"]["conditions"][0]["type"],
        "ResourcePlacementScheduled"
    );
    story.delete(CRP, "", "web").await;
    story.settle().await;
    assert!(story.find(CRP, "", "web").is_none());
    assert_eq!(story.snapshots(CRS).len() + story.snapshots(CSPS).len(), 0);
    assert_eq!(story.snapshots(RS), ["web-0-snapshot latest"]);
    assert_eq!(story.snapshots(SPS), ["web-0 latest"]);
    assert_eq!(
        story.events("ClusterResourcePlacement"),
        [
            "Normal PlacementCleanupFinalizerRemoved web: Deleted the snapshots and removed the placement cleanup finalizer (x1)"
        ]
    );
    let metrics = story.metrics.render();
    let series = |space: &str| {
        let line = format!(
            "fleet_workload_placement_status_last_timestamp_seconds{{namespace=\"{space}\",name=\"web\""
        );
        metrics.lines().filter(|one| one.starts_with(&line)).count()
    };
    assert_eq!(series(""), 0);
    assert!(series("app") > 0);
}

// checklist 20.38
#[tokio::test(start_paused = true)]
async fn somebody_elses_finalizer_holds_the_placement_but_not_ours() {
    let story = Story::cluster_wide(32).await.starts().await;
    let meta = json!({"name": "web", "finalizers": ["example.com/mine"]});
    let spec = everywhere(&[namespace("app")]);
    story.create(CRP, json!({"metadata": meta, "spec": spec})).await;
    story.settle().await;
    assert_eq!(
        story.get(CRP, "", "web")["metadata"]["finalizers"],
        json!([
            "example.com/mine",
            "kubernetes-fleet.io/crp-cleanup",
            "kubernetes-fleet.io/scheduler-cleanup"
        ])
    );
    story.delete(CRP, "", "web").await;
    story.settle().await;
    assert_eq!(story.get(CRP, "", "web")["metadata"]["finalizers"], json!(["example.com/mine"]));
    assert_eq!(story.snapshots(CRS).len() + story.snapshots(CSPS).len(), 0);
    // Changes concern it no more.
    story.map("app", "settings", "x").await;
    story.settle().await;
    assert_eq!(story.snapshots(CRS).len(), 0);
    story.patch(CRP, "", "web", json!({"metadata": {"finalizers": []}})).await;
    story.settle().await;
    assert!(story.find(CRP, "", "web").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_placement_goes_with_its_namespace() {
    let story = Story::both_scopes(33).await.starts().await;
    story.map("app", "settings", "x").await;
    story.rp("web", everywhere(&[map("settings")])).await;
    story.settle().await;
    assert_eq!(story.snapshots(RS), ["web-0-snapshot latest"]);
    story.delete("namespaces", "", "app").await;
    story.pass(120).await;
    assert!(story.find("namespaces", "", "app").is_none());
    assert!(story.find(RP, "app", "web").is_none());
    assert_eq!(story.snapshots(RS).len() + story.snapshots(SPS).len(), 0);
}
