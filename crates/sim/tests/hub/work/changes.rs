//! What changes after the first delivery, and how far it reaches.

use serde_json::{Value, json};

use crate::work::story::{CLUSTER_WIDE, RO_SNAPSHOTS, Story, map};
use flagship_sim::testing::{CLUSTERS, CRP, WORK};

const SPACE: &str = "fleet-member-m1";

// checklist 12.41
#[tokio::test(start_paused = true)]
async fn a_version_is_delivered_once_all_of_it_is_there() {
    let story = Story::running(1).await;
    let told = CLUSTER_WIDE;
    // The binding is seen before anything it names.
    story.delivers(told, "web-m1", "m1", 0).await;
    let failed = "Overridden False OverriddenFailed (2): Failed to apply the override rules on \
                  the resources: ";
    let missing = format!("{failed}the master resource snapshot is not found");
    assert_eq!(story.ours(told, "web-m1"), [missing]);
    story.snapshot(told, 0, 0, 2, &[map("one", "1")]).await;
    story.pass(1).await;
    assert_eq!(
        story.ours(told, "web-m1"),
        [format!(
            "{failed}not all resource snapshot in the same index group are created: resource \
             snapshots are still being created for the masterResourceSnapshot web-0-snapshot, \
             total snapshot in the index group = 2, num Of existing snapshot in the group= 1, \
             placement = web"
        )]
    );
    story.snapshot(told, 0, 1, 2, &[map("two", "2")]).await;
    story.pass(1).await;
    assert_eq!(
        story.works("m1"),
        ["web-0 (0, 1): ConfigMap two", "web-work (0, 1): ConfigMap one"]
    );

    story.snapshots(told, 1, &[vec![map("one", "9")]]).await;
    story.bound(told, "web-m1", 1).await;
    story.pass(1).await;
    assert_eq!(story.works("m1"), ["web-work (1, 2): ConfigMap one"]);
}

// checklist 12.48
#[tokio::test(start_paused = true)]
async fn a_trimmed_version_keeps_reporting_and_a_new_one_repairs_it() {
    let story = Story::running(2).await;
    let told = CLUSTER_WIDE;
    story.snapshots(told, 0, &[vec![map("one", "1")]]).await;
    story.delivers(told, "web-m1", "m1", 0).await;
    story.delete(told.snapshot, told.space, "web-0-snapshot").await;
    story.member_is_fine("m1", "web-work").await;
    story.pass(1).await;
    let fine =
        "Available True AllWorkAreAvailable (2): All corresponding work objects are available";
    assert_eq!(story.ours(told, "web-m1")[3], fine);
    // Somebody wipes what the member said; it says it again.
    story
        .says(WORK, SPACE, "web-work", json!({"conditions": [], "manifestConditions": null}))
        .await;
    story.pass(1).await;
    assert_eq!(
        story.ours(told, "web-m1")[2..],
        [
            "Applied False NotAllWorkHaveBeenApplied (2): Work object web-work has not yet completed \
          the apply op"
        ]
    );
    story.member_is_fine("m1", "web-work").await;
    story.pass(1).await;
    assert_eq!(story.ours(told, "web-m1")[3], fine);
    story.snapshots(told, 1, &[vec![map("one", "2")]]).await;
    story.bound(told, "web-m1", 1).await;
    story.pass(1).await;
    assert_eq!(story.works("m1"), ["web-work (1, 2): ConfigMap one"]);
}

// checklist 12.47
#[tokio::test(start_paused = true)]
async fn another_strategy_reaches_the_member_whole() {
    let story = Story::running(3).await;
    let told = CLUSTER_WIDE;
    story.snapshots(told, 0, &[vec![map("one", "1")]]).await;
    story.delivers(told, "web-m1", "m1", 0).await;
    let strategy = |of: Value| json!({"spec": {"applyStrategy": of}});
    let server_side = json!({"type": "ServerSideApply", "serverSideApplyConfig": {"force": true}});
    story.patch(told.binding, told.space, "web-m1", strategy(server_side)).await;
    story.started(told, "web-m1").await;
    story.pass(1).await;
    let on = |story: &Story, resource: &str, space: &str, name: &str| {
        story.get(resource, space, name)["spec"]["applyStrategy"].clone()
    };
    let work = on(&story, WORK, SPACE, "web-work");
    assert_eq!(work["serverSideApplyConfig"], json!({"force": true}));
    assert_eq!(work, on(&story, told.binding, told.space, "web-m1"));
    // What the new one lacks is gone, and not merged.
    let client_side = json!({"type": "ReportDiff", "serverSideApplyConfig": null});
    story.patch(told.binding, told.space, "web-m1", strategy(client_side)).await;
    story.started(told, "web-m1").await;
    story.pass(1).await;
    let work = on(&story, WORK, SPACE, "web-work");
    assert!(work["serverSideApplyConfig"].is_null());
    assert_eq!(work, on(&story, told.binding, told.space, "web-m1"));
    let last =
        "DiffReported False DiffReportInProgress (4): Diff reporting on resources is in progress";
    assert_eq!(story.ours(told, "web-m1")[2..], [last]);
}

// checklist 12.37
#[tokio::test(start_paused = true)]
async fn an_override_and_the_labels_it_asks_for_reach_the_manifest() {
    let story = Story::running(4).await;
    let told = CLUSTER_WIDE;
    story.snapshots(told, 0, &[vec![map("one", "1"), map("two", "2")]]).await;
    let patch = json!([{"op": "replace", "path": "/data/key",
        "value": "${MEMBER-CLUSTER-NAME} ${MEMBER-CLUSTER-LABEL-KEY-env}"}]);
    story.override_snapshot("ro-0", "one", json!({"jsonPatchOverrides": patch})).await;
    story.scheduled(told, "web-m1", "m1").await;
    let names = json!([{"name": "ro-0", "namespace": "app"}]);
    let spec = json!({"spec": {"resourceOverrideSnapshots": names}});
    story.patch(told.binding, told.space, "web-m1", spec).await;
    story.bound(told, "web-m1", 0).await;
    story.settle().await;
    let value = |story: &Story, at: usize| {
        story.get(WORK, SPACE, "web-work")["spec"]["workload"]["manifests"][at]["data"]["key"]
            .clone()
    };
    assert_eq!((value(&story, 0), value(&story, 1)), (json!("m1 prod"), json!("2")));
    story.member_is_fine("m1", "web-work").await;
    story.pass(1).await;

    let label = |key: &str, to: &str| json!({"metadata": {"labels": {key: to}}});
    story.patch(CLUSTERS, "", "m1", label("team", "blue")).await;
    story.settle().await;
    // Nobody asked for that one.
    assert_eq!(story.works("m1"), ["web-work (0, 1): ConfigMap one, ConfigMap two"]);
    assert!(story.ours(told, "web-m1")[3].starts_with("Available True"));
    story.patch(CLUSTERS, "", "m1", label("env", "test")).await;
    story.settle().await;
    assert_eq!(value(&story, 0), "m1 test");

    // A snapshot that nobody needs any more may go, and the binding does not notice.
    story.delete(RO_SNAPSHOTS, "app", "ro-0").await;
    story.member_is_fine("m1", "web-work").await;
    story.pass(1).await;
    assert!(story.ours(told, "web-m1")[3].starts_with("Available True"));

    // An override that is made anew gets its first names again; what it says now counts.
    let patch = json!([{"op": "replace", "path": "/data/key", "value": "anew"}]);
    story.override_snapshot("ro-0", "one", json!({"jsonPatchOverrides": patch})).await;
    story.settle().await;
    assert_eq!(value(&story, 0), "anew");
}

#[tokio::test(start_paused = true)]
async fn what_a_placement_says_past_its_bindings_reaches_its_works() {
    let story = Story::running(5).await;
    let told = CLUSTER_WIDE;
    let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
    let spec = json!({"resourceSelectors": selector});
    story.create(CRP, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    story.snapshots(told, 0, &[vec![map("one", "1")]]).await;
    story.delivers(told, "web-m1", "m1", 0).await;
    let mirror = json!({"type": "Mirror", "destination": "OriginalResource"});
    let strategy = json!({"reportBackStrategy": mirror,
        "deleteStrategy": {"propagationPolicy": "Abandon"}});
    story.patch(CRP, "", "web", json!({"spec": {"strategy": strategy}})).await;
    story.pass(1).await;
    let work = story.get(WORK, SPACE, "web-work");
    assert_eq!(work["spec"]["reportBackStrategy"], mirror);
    story.settle().await;
    let notes = &story.get(WORK, SPACE, "web-work")["metadata"]["annotations"];
    assert_eq!(notes["flagship.dev/delete-policy"], "Abandon");
}
