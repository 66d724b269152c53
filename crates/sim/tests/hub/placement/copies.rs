//! Copies of statuses in the placed namespace, and namespaces that go and come back.

use flagship_store::env::plan::{Effect, Rule, Verbs};
use flagship_store::env::{FaultOutcome as Fault, Point};
use serde_json::json;

use crate::placement::story::{COPIES, CRS, Story, everywhere, namespace};
use flagship_sim::testing::CRP;

fn accessible(name: &str) -> serde_json::Value {
    let mut spec = everywhere(&[namespace(name)]);
    spec["statusReportingScope"] = json!("NamespaceAccessible");
    spec
}

fn synced(story: &Story) -> String {
    let all = story.conditions(CRP, "", "web");
    all.into_iter().find(|line| line.starts_with("StatusSynced")).unwrap_or_default()
}

// checklist 20.41
#[tokio::test(start_paused = true)]
async fn a_copy_follows_the_status_and_goes_with_the_placement() {
    let story = Story::cluster_wide(21).await.starts().await;
    story.crp("web", accessible("app")).await;
    story.crp("plain", everywhere(&[namespace("app")])).await;
    story.settle().await;
    assert_eq!(story.list(COPIES, "").len(), 1);
    let copy = story.get(COPIES, "app", "web");
    let status = story.get(CRP, "", "web")["status"].clone();
    assert_eq!(copy["sourceStatus"]["placementStatuses"], status["placementStatuses"]);
    assert_eq!(copy["sourceStatus"]["conditions"].as_array().unwrap().len(), 2);
    assert_eq!(synced(&story), "StatusSynced True StatusSyncSucceeded (1)");
    assert_eq!(
        story.message(CRP, "", "web", "StatusSynced"),
        "Successfully created or updated ClusterResourcePlacementStatus in namespace 'app'"
    );
    story.map("app", "settings", "x").await;
    story.settle().await;
    let copy = story.get(COPIES, "app", "web");
    assert_eq!(copy["sourceStatus"]["observedResourceIndex"], "1");
    story.delete(COPIES, "app", "web").await;
    story.pass(1).await;
    assert_eq!(story.get(COPIES, "app", "web")["sourceStatus"], copy["sourceStatus"]);
    story.delete(CRP, "", "web").await;
    story.pass(60).await;
    assert!(story.find(CRP, "", "web").is_none());
    assert!(story.find(COPIES, "app", "web").is_none());
}

#[tokio::test(start_paused = true)]
async fn what_became_of_a_placement_is_told_although_its_copy_is_refused() {
    let story = Story::cluster_wide(27).await.starts().await;
    story.crp("web", accessible("app")).await;
    story.settle().await;
    let answer = Effect::Do(Fault::Answer { code: 403, retry_after: None });
    story.disturb(vec![Rule {
        who: "hub".to_owned(),
        resource: COPIES.to_owned(),
        verbs: Verbs::Writes,
        ..Rule::at(Point::Request, answer)
    }]);
    story.rolls_out("web", "web-0-snapshot").await;
    story.settle().await;
    assert_eq!(synced(&story), "StatusSynced False StatusSyncFailed (1)");
    let told = |count: usize| {
        let all = story.events("ClusterResourcePlacement");
        let available = all.iter().filter(|event| event.contains("PlacementAvailable"));
        assert_eq!(available.count(), count, "{all:?}");
        let done = all.iter().filter(|event| event.contains("PlacementRolloutCompleted"));
        assert_eq!(done.count(), count, "{all:?}");
        assert!(all.iter().all(|event| event.ends_with("(x1)")), "{all:?}");
    };
    told(1);
    story.faults.heal();
    story.pass(300).await;
    assert_eq!(synced(&story), "StatusSynced True StatusSyncSucceeded (1)");
    told(1);
}

// checklist 20.43
#[tokio::test(start_paused = true)]
async fn a_namespace_may_not_be_exchanged_under_its_readers() {
    let story = Story::cluster_wide(22).await.starts().await;
    story.namespace("other", json!({})).await;
    story.crp("web", accessible("app")).await;
    story.settle().await;
    let before = story.get(CRP, "", "web")["status"].clone();
    for other in ["other", "missing"] {
        let selectors = json!({"spec": {"resourceSelectors": [namespace(other)]}});
        story.patch(CRP, "", "web", selectors).await;
        story.settle().await;
        assert_eq!(
            story.message(CRP, "", "web", "Scheduled"),
            format!(
                "namespace resource selector is choosing a different namespace '{other}' from what was originally picked 'app'. This is not allowed for NamespaceAccessible ClusterResourcePlacement"
            )
        );
        assert_eq!(synced(&story), "StatusSynced True StatusSyncSucceeded (1)");
    }
    let frozen = story.get(CRP, "", "web")["status"].clone();
    for field in ["placementStatuses", "selectedResources", "observedResourceIndex"] {
        assert_eq!(frozen[field], before[field], "{field}");
    }
    assert_eq!(story.snapshots(CRS), ["web-0-snapshot latest"]);
    story.patch(CRP, "", "web", json!({"spec": {"resourceSelectors": [namespace("app")]}})).await;
    story.settle().await;
    assert_eq!(story.conditions(CRP, "", "web")[0], "Scheduled True SchedulingPolicyFulfilled (4)");
    assert_eq!(synced(&story), "StatusSynced True StatusSyncSucceeded (4)");
}

// checklist 20.39
#[tokio::test(start_paused = true)]
async fn a_deleted_namespace_is_withdrawn_and_comes_back_with_a_further_version() {
    let story = Story::cluster_wide(23).await.starts().await;
    story.map("app", "settings", "x").await;
    story.crp("web", accessible("app")).await;
    story.settle().await;
    assert_eq!(story.version(CRP, "", "web"), "0: Namespace app, ConfigMap settings");
    story.delete("namespaces", "", "app").await;
    story.pass(60).await;
    assert!(story.find("namespaces", "", "app").is_none());
    assert_eq!(story.version(CRP, "", "web"), "1: ");
    assert_eq!(synced(&story), "StatusSynced False StatusSyncFailed (1)");
    assert_eq!(
        story.message(CRP, "", "web", "StatusSynced"),
        "Failed to create or update ClusterResourcePlacementStatus: error returned by the API server: failed to create or update ClusterResourcePlacementStatus: namespaces \"app\" not found"
    );
    story.pass(600).await;
    assert_eq!(story.snapshots(CRS), ["web-0-snapshot", "web-1-snapshot latest"]);
    story.namespace("app", json!({})).await;
    story.pass(20).await;
    assert_eq!(story.version(CRP, "", "web"), "2: Namespace app");
    assert_eq!(synced(&story), "StatusSynced True StatusSyncSucceeded (1)");
    assert_eq!(story.get(COPIES, "app", "web")["sourceStatus"]["observedResourceIndex"], "2");
}
