//! What the server or the user gets wrong, as the status tells it.

use serde_json::json;

use crate::work::story::{CLUSTER_WIDE, IN_NAMESPACE, Story, map};
use flagship_sim::testing::WORK;

const SPACE: &str = "fleet-member-m1";
const SYNC: &str = "WorkSynchronized False SyncWorkFailed";
const TRIED: &str = "Failed to synchronize the work to the latest:";

// checklist 12.34
#[tokio::test(start_paused = true)]
async fn an_override_that_breaks_metadata_is_refused_by_the_server_and_told() {
    let story = Story::running(1).await;
    let told = CLUSTER_WIDE;
    story.snapshots(told, 0, &[vec![map("one", "1")]]).await;
    story.delivers(told, "web-m1", "m1", 0).await;
    let patch = json!([{"op": "add", "path": "/metadata/annotations", "value": "text"}]);
    story.override_snapshot("ro-0", "one", json!({"jsonPatchOverrides": patch})).await;
    let names = json!([{"name": "ro-0", "namespace": "app"}]);
    let spec = json!({"spec": {"resourceOverrideSnapshots": names}});
    story.patch(told.binding, told.space, "web-m1", spec).await;
    story.started(told, "web-m1").await;
    story.pass(2).await;
    let ours = story.ours(told, "web-m1");
    assert_eq!(
        ours[0],
        "Overridden True OverriddenSucceeded (3): Successfully applied the override rules on the \
         resources"
    );
    assert!(ours[1].starts_with(&format!("{SYNC} (3): {TRIED} ")), "{ours:?}");
    assert!(ours[1].contains("annotations"), "{ours:?}");
    assert_eq!(ours.len(), 2);
    assert_eq!(story.works("m1"), ["web-work (0, 1): ConfigMap one"]);
    // It is tried again, and nothing is written while nothing changes.
    let tries = || story.writes("hub").iter().filter(|call| call.contains("web-work 422")).count();
    let (before, writes) = (tries(), story.writes("hub").len());
    story.pass(600).await;
    assert!(tries() > before);
    assert_eq!(story.writes("hub").len() - writes, tries() - before);
}

// checklist 12.36
#[tokio::test(start_paused = true)]
async fn an_override_snapshot_that_is_missing_is_named_and_not_asked_for_again() {
    let story = Story::running(2).await;
    let told = IN_NAMESPACE;
    story.snapshots(told, 0, &[vec![map("one", "1")]]).await;
    story.scheduled(told, "web-m1", "m1").await;
    let spec = json!({"spec": {"clusterResourceOverrideSnapshots": ["cro-7"]}});
    story.patch(told.binding, told.space, "web-m1", spec).await;
    story.bound(told, "web-m1", 0).await;
    story.settle().await;
    assert_eq!(
        story.ours(told, "web-m1"),
        ["Overridden False OverriddenFailed (3): Failed to apply the override rules on the \
          resources: clusterResourceOverrideSnapshot cro-7 is not found"]
    );
    let calls = |story: &Story| {
        story.calls("hub").iter().filter(|call| call.contains("overridesnapshots cro-7")).count()
    };
    let before = calls(&story);
    story.pass(3600).await;
    assert_eq!(calls(&story), before);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_not_there_is_told_until_it_is() {
    let mut story = Story::new(3).await;
    story.options.controllers.membership = false;
    story.start_as("hub").await;
    let told = CLUSTER_WIDE;
    story.snapshots(told, 0, &[vec![map("one", "1")]]).await;
    let spec = json!({"identity": {"kind": "User", "name": "m3"}});
    let clusters = "memberclusters.cluster.kubernetes-fleet.io";
    story.create(clusters, json!({"metadata": {"name": "m3"}, "spec": spec})).await;
    story.delivers(told, "web-m3", "m3", 0).await;
    assert_eq!(
        story.ours(told, "web-m3")[1],
        format!("{SYNC} (2): {TRIED} namespaces \"fleet-member-m3\" not found")
    );
    story.create("namespaces", json!({"metadata": {"name": "fleet-member-m3"}})).await;
    story.pass(60).await;
    assert_eq!(story.works("m3"), ["web-work (0, 1): ConfigMap one"]);
}

// Dots are legal in names: ClusterResourcePlacement `app.web` and ResourcePlacement
// `app/web` want the same Works.
#[tokio::test(start_paused = true)]
async fn a_work_of_another_placement_is_not_taken() {
    let story = Story::running(4).await;
    let told = IN_NAMESPACE;
    let labels = json!({"kubernetes-fleet.io/parent-resource-binding": "app.web-m1-x"});
    let meta = json!({"name": "app.web-work", "namespace": SPACE, "labels": labels});
    let workload = json!({"manifests": [map("theirs", "1")]});
    story.create(WORK, json!({"metadata": meta, "spec": {"workload": workload}})).await;
    story.snapshots(told, 0, &[vec![map("one", "1")]]).await;
    story.delivers(told, "web-m1", "m1", 0).await;
    assert_eq!(
        story.ours(told, "web-m1")[1],
        format!("{SYNC} (2): {TRIED} work app.web-work is already owned by binding app.web-m1-x")
    );
    assert_eq!(story.works("m1"), ["app.web-work (, 1): ConfigMap theirs"]);
    story.delete(WORK, SPACE, "app.web-work").await;
    story.pass(20).await;
    assert_eq!(story.works("m1"), ["app.web-work (0, 1): ConfigMap one"]);
}

// checklist 12.52
#[tokio::test(start_paused = true)]
async fn works_of_the_other_scope_and_of_other_members_do_not_count() {
    let story = Story::running(5).await;
    for told in [CLUSTER_WIDE, IN_NAMESPACE] {
        story.snapshots(told, 0, &[vec![map("one", "1")]]).await;
        story.delivers(told, "web-m1", "m1", 0).await;
    }
    // A member that pretends: a Work in its own namespace with another's binding on it.
    let mut forged = story.get(WORK, SPACE, "web-work");
    forged["metadata"] = json!({"name": "forged", "namespace": "fleet-member-m2",
        "labels": forged["metadata"]["labels"], "annotations": forged["metadata"]["annotations"]});
    story.create(WORK, forged).await;
    story.member_is_fine("m1", "web-work").await;
    story.settle().await;
    assert!(story.ours(CLUSTER_WIDE, "web-m1")[3].starts_with("Available True"));
    assert!(story.ours(IN_NAMESPACE, "web-m1")[2].starts_with("Applied False ApplyInProgress"));
    story.member_is_fine("m1", "app.web-work").await;
    story.settle().await;
    assert!(story.ours(IN_NAMESPACE, "web-m1")[3].starts_with("Available True"));
    assert_eq!(story.works("m1").len(), 2);
}

// checklist 12.45
#[tokio::test(start_paused = true)]
async fn two_works_for_one_envelope_are_an_event_on_the_binding() {
    let story = Story::running(6).await;
    let told = CLUSTER_WIDE;
    let envelope = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ResourceEnvelope", "metadata": {"name": "env", "namespace": "app"},
        "data": {"a": map("wrapped", "1")}});
    story.snapshots(told, 0, &[vec![envelope]]).await;
    story.delivers(told, "web-m1", "m1", 0).await;
    let works = story.list(WORK, SPACE);
    let mut twin = works.iter().find(|w| w["metadata"]["name"] != "web-work").unwrap().clone();
    let name = twin["metadata"]["name"].as_str().unwrap().to_owned();
    twin["metadata"] = json!({"name": "web-work-twin", "namespace": SPACE,
        "labels": twin["metadata"]["labels"], "annotations": twin["metadata"]["annotations"]});
    story.create(WORK, twin).await;
    story.member_is_fine("m1", "web-work").await;
    story.settle().await;
    let events = story.events("ClusterResourceBinding");
    let event = format!(
        "Warning DuplicateEnvelopeWorks web-m1: Multiple Work objects ([{name} web-work-twin]) \
         found for envelope app/env in namespace fleet-member-m1; delete all but the oldest to \
         recover"
    );
    assert!(events[0].starts_with(&event), "{events:?}");
    assert_eq!(story.works("m1").len(), 3);
    story.delete(WORK, SPACE, "web-work-twin").await;
    story.settle().await;
    assert!(story.ours(told, "web-m1")[1].starts_with("WorkSynchronized True"));
}
