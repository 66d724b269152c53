//! Bindings and Works that go, and what follows them.

use serde_json::{Value, json};

use crate::work::story::{CLUSTER_WIDE, Story, map};
use flagship_api::keys::label;
use flagship_sim::testing::{CRP, WORK};

const SPACE: &str = "fleet-member-m1";

fn held(by: Value) -> Value {
    json!({"metadata": {"finalizers": by}})
}

/// The member holds a Work until it has cleaned up.
async fn hold(story: &Story, work: &str) {
    story.patch(WORK, SPACE, work, held(json!(["kubernetes-fleet.io/work-cleanup"]))).await;
}

async fn release(story: &Story, work: &str) {
    story.patch(WORK, SPACE, work, held(json!(null))).await;
}

// checklist 12.51
#[tokio::test(start_paused = true)]
async fn a_deleted_binding_waits_until_its_works_are_gone() {
    let story = Story::running(1).await;
    let told = CLUSTER_WIDE;
    story.snapshots(told, 0, &[vec![map("one", "1")], vec![map("two", "2")]]).await;
    story.delivers(told, "web-m1", "m1", 0).await;
    hold(&story, "web-work").await;
    hold(&story, "web-0").await;
    story.delete(told.binding, told.space, "web-m1").await;
    story.settle().await;
    let going = ["web-0 (0, 2) deleting: ConfigMap two", "web-work (0, 2) deleting: ConfigMap one"];
    assert_eq!(story.works("m1"), going);
    release(&story, "web-0").await;
    story.pass(120).await;
    assert!(story.find(told.binding, told.space, "web-m1").is_some());
    release(&story, "web-work").await;
    story.pass(1).await;
    assert_eq!(story.works("m1"), Vec::<String>::new());
    assert!(story.find(told.binding, told.space, "web-m1").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_new_binding_takes_over_the_names_of_the_old_one_when_they_are_free() {
    let story = Story::running(2).await;
    let told = CLUSTER_WIDE;
    story.snapshots(told, 0, &[vec![map("one", "1")]]).await;
    story.delivers(told, "web-old", "m1", 0).await;
    hold(&story, "web-work").await;
    story.delete(told.binding, told.space, "web-old").await;
    story.settle().await;
    story.delivers(told, "web-new", "m1", 0).await;
    assert_eq!(
        story.ours(told, "web-new")[1],
        "WorkSynchronized False SyncWorkFailed (2): Failed to synchronize the work to the latest: \
         work web-work is already owned by binding web-old"
    );
    release(&story, "web-work").await;
    story.pass(1).await;
    assert_eq!(story.works("m1"), ["web-work (0, 1): ConfigMap one"]);
    assert!(story.ours(told, "web-new")[2].starts_with("Applied False ApplyInProgress"));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_work_that_lingers_does_not_hold_the_status_up() {
    let story = Story::running(3).await;
    let told = CLUSTER_WIDE;
    story.snapshots(told, 0, &[vec![map("one", "1")], vec![map("two", "2")]]).await;
    story.delivers(told, "web-m1", "m1", 0).await;
    hold(&story, "web-0").await;
    story.snapshots(told, 1, &[vec![map("one", "1")]]).await;
    story.bound(told, "web-m1", 1).await;
    story.settle().await;
    story.member_is_fine("m1", "web-work").await;
    story.pass(1).await;
    assert_eq!(story.works("m1").len(), 2);
    assert!(story.ours(told, "web-m1")[3].starts_with("Available True AllWorkAreAvailable"));
}

#[tokio::test(start_paused = true)]
async fn a_placement_that_abandons_tells_its_members_first() {
    let story = Story::running(4).await;
    let told = CLUSTER_WIDE;
    let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
    let strategy = json!({"deleteStrategy": {"propagationPolicy": "Abandon"}});
    let spec = json!({"resourceSelectors": selector, "strategy": strategy});
    story.create(CRP, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    story.snapshots(told, 0, &[vec![map("one", "1")]]).await;
    story.delivers(told, "web-m1", "m1", 0).await;
    hold(&story, "web-work").await;
    story.delete(CRP, "", "web").await;
    story.delete(told.binding, told.space, "web-m1").await;
    story.settle().await;
    let work = story.get(WORK, SPACE, "web-work");
    assert_eq!(work["metadata"]["annotations"]["flagship.dev/abandoned"], "true");
    assert!(!work["metadata"]["deletionTimestamp"].is_null());
}

// Law L5: a hub that did not know yet that the binding goes may write a Work after the last look
// at them. Nobody would ever ask for it again.
#[tokio::test(start_paused = true)]
async fn a_work_that_outlives_its_binding_goes_and_one_made_by_hand_stays() {
    let story = Story::running(7).await;
    let told = CLUSTER_WIDE;
    story.snapshots(told, 0, &[vec![map("one", "1")]]).await;
    story.delivers(told, "web-m1", "m1", 0).await;
    let left =
        |binding: &str| json!({label::PARENT_BINDING: binding, label::PARENT_PLACEMENT: "web"});
    for (name, labels) in [("late", left("web-gone")), ("by-hand", json!({}))] {
        let meta = json!({"name": name, "namespace": SPACE, "labels": labels});
        let spec = json!({"workload": {"manifests": [map(name, "1")]}});
        story.create(WORK, json!({"metadata": meta, "spec": spec})).await;
    }
    story.settle().await;
    let is_there = |name: &str| story.find(WORK, SPACE, name).is_some();
    assert!(!is_there("late"), "nobody answers for it");
    assert!(is_there("by-hand") && is_there("web-work"));
    // One that is written while the binding goes is found when the binding is gone.
    hold(&story, "web-work").await;
    story.delete(told.binding, told.space, "web-m1").await;
    story.settle().await;
    let meta = json!({"name": "later", "namespace": SPACE, "labels": left("web-m1")});
    let spec = json!({"workload": {"manifests": [map("later", "1")]}});
    release(&story, "web-work").await;
    story.create(WORK, json!({"metadata": meta, "spec": spec})).await;
    story.pass(60).await;
    assert!(story.find(told.binding, told.space, "web-m1").is_none());
    assert!(!is_there("later") && is_there("by-hand"));
}
