//! From a bound binding to Works, and from what members say back to the binding.

use std::time::Duration;

use expect_test::expect;
use flagship_store::env::plan::{Effect, Rule, Verbs};
use flagship_store::env::{FaultOutcome as Fault, Point};
use serde_json::json;

use crate::work::story::{CLUSTER_WIDE, IN_NAMESPACE, Story, Told, map, namespace};
use flagship_sim::testing::WORK;

const SPACE: &str = "fleet-member-m1";

#[tokio::test(start_paused = true)]
async fn a_bound_binding_becomes_works_and_their_state_its_status() {
    for told in [CLUSTER_WIDE, IN_NAMESPACE] {
        let story = Story::running(1).await;
        // A placement in a namespace places nothing but what is in it.
        let (first, line) = match told.space {
            "" => (namespace("app"), "Namespace app"),
            _ => (map("zero", "0"), "ConfigMap zero"),
        };
        story.snapshots(told, 0, &[vec![first, map("one", "1")]]).await;
        story.scheduled(told, "web-m1", "m1").await;
        story.settle().await;
        // checklist 12.38
        assert_eq!(story.works("m1"), Vec::<String>::new());
        assert!(story.get(told.binding, told.space, "web-m1")["metadata"]["finalizers"].is_null());

        story.bound(told, "web-m1", 0).await;
        story.settle().await;
        let work = format!("{}-work", told.base);
        let lines = [format!("{work} (0, 1): {line}, ConfigMap one")];
        assert_eq!(story.works("m1"), lines);
        assert_eq!(
            story.ours(told, "web-m1"),
            [
                "Overridden True NoOverrideSpecified (2): No override rules are configured for the selected resources",
                "WorkSynchronized True AllWorkSynced (2): All of the works are synchronized to the latest",
                "Applied False ApplyInProgress (2): Resources are being applied",
            ]
        );
        let finalizers = &story.get(told.binding, told.space, "web-m1")["metadata"]["finalizers"];
        assert_eq!(*finalizers, json!(["kubernetes-fleet.io/work-cleanup"]));

        story.member_is_fine("m1", &work).await;
        // At once: no timer has to pass.
        story.pass(1).await;
        assert_eq!(
            story.ours(told, "web-m1")[2..],
            [
                "Applied True AllWorkHaveBeenApplied (2): All corresponding work objects are applied",
                "Available True AllWorkAreAvailable (2): All corresponding work objects are available",
            ]
        );
        // checklist 12.43
        assert_eq!(story.works("m1"), lines);
        quiet(&story, told).await;
    }
}

/// Nothing is written when nothing happens, and nothing when the member repeats itself.
async fn quiet(story: &Story, told: Told) {
    let before = story.writes("hub").len();
    let work = format!("{}-work", told.base);
    story.pass(3600).await;
    let object = story.get(WORK, SPACE, &work);
    story.says(WORK, SPACE, &work, object["status"].clone()).await;
    story.settle().await;
    assert_eq!(story.writes("hub")[before..], Vec::<String>::new());
}

// checklist 12.40
#[tokio::test(start_paused = true)]
async fn works_are_labelled_by_where_they_come_from() {
    let story = Story::running(2).await;
    for told in [CLUSTER_WIDE, IN_NAMESPACE] {
        story.snapshots(told, 0, &[vec![map("one", "1")], vec![map("two", "2")]]).await;
        story.delivers(told, "web-m1", "m1", 0).await;
    }
    const NULL: &str = "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b";
    let mut text = String::new();
    for work in story.list(WORK, SPACE) {
        let meta = &work["metadata"];
        assert!(meta["ownerReferences"].is_null());
        assert_eq!(work["spec"]["applyStrategy"]["type"], "ClientSideApply");
        let tell = |(key, value): (&String, &serde_json::Value)| format!("  {key}: {value}\n");
        let each =
            |field: &str| meta[field].as_object().unwrap().iter().map(tell).collect::<String>();
        text.push_str(&format!("{}\n{}{}", meta["name"], each("labels"), each("annotations")));
    }
    let text = text.replace("kubernetes-fleet.io/", "").replace(NULL, "null");
    expect![[r#"
        "app.web-0"
          parent-CRP: "web"
          parent-placement-namespace: "app"
          parent-resource-binding: "web-m1"
          parent-resource-snapshot-index: "0"
          parent-cluster-resource-override-snapshot-hash: "null"
          parent-resource-override-snapshot-hash: "null"
          parent-resource-snapshot-name: "web-0-snapshot"
        "app.web-work"
          parent-CRP: "web"
          parent-placement-namespace: "app"
          parent-resource-binding: "web-m1"
          parent-resource-snapshot-index: "0"
          parent-cluster-resource-override-snapshot-hash: "null"
          parent-resource-override-snapshot-hash: "null"
          parent-resource-snapshot-name: "web-0-snapshot"
        "web-0"
          parent-CRP: "web"
          parent-resource-binding: "web-m1"
          parent-resource-snapshot-index: "0"
          parent-cluster-resource-override-snapshot-hash: "null"
          parent-resource-override-snapshot-hash: "null"
          parent-resource-snapshot-name: "web-0-snapshot"
        "web-work"
          parent-CRP: "web"
          parent-resource-binding: "web-m1"
          parent-resource-snapshot-index: "0"
          parent-cluster-resource-override-snapshot-hash: "null"
          parent-resource-override-snapshot-hash: "null"
          parent-resource-snapshot-name: "web-0-snapshot"
    "#]]
    .assert_eq(&text);
}

#[tokio::test(start_paused = true)]
async fn nothing_starts_before_the_rollout_says_so() {
    // checklist 12.39
    let story = Story::running(3).await;
    let told = CLUSTER_WIDE;
    story.snapshots(told, 0, &[vec![map("one", "1")]]).await;
    story.scheduled(told, "web-m1", "m1").await;
    let spec = json!({"state": "Bound", "resourceSnapshotName": "web-0-snapshot"});
    story.patch(told.binding, told.space, "web-m1", json!({"spec": spec})).await;
    story.pass(3600).await;
    assert_eq!(story.works("m1"), Vec::<String>::new());
    // Waiting costs nothing: the finalizer is all that was written.
    let writes = story.writes("hub");
    let mine: Vec<&String> = writes.iter().filter(|call| call.contains("web-m1")).collect();
    assert_eq!(mine, ["patch clusterresourcebindings web-m1 200"]);
    story.started(told, "web-m1").await;
    story.pass(1).await;
    assert_eq!(story.works("m1"), ["web-work (0, 1): ConfigMap one"]);
    let signal = &story.conditions(told, "web-m1")[0];
    assert_eq!(signal, "RolloutStarted True RolloutStarted (2): started");

    // An unscheduled binding is kept in step without being asked to start.
    story.snapshots(told, 1, &[vec![map("one", "2")]]).await;
    let spec = json!({"state": "Unscheduled", "resourceSnapshotName": "web-1-snapshot"});
    story.patch(told.binding, told.space, "web-m1", json!({"spec": spec})).await;
    story.pass(1).await;
    assert_eq!(story.works("m1"), ["web-work (1, 2): ConfigMap one"]);
    assert_eq!(&story.conditions(told, "web-m1")[0], signal);
}

#[tokio::test(start_paused = true)]
async fn a_binding_for_a_cluster_that_does_not_exist_is_left_alone_until_it_does() {
    // checklist 12.38
    let story = Story::running(4).await;
    let told = CLUSTER_WIDE;
    story.snapshots(told, 0, &[vec![map("one", "1")]]).await;
    story.delivers(told, "web-m9", "m9", 0).await;
    let binding = story.get(told.binding, told.space, "web-m9");
    assert!(binding["metadata"]["finalizers"].is_null());
    assert_eq!(story.ours(told, "web-m9"), Vec::<String>::new());
    story.cluster("m9", json!({})).await;
    story.settle().await;
    assert_eq!(story.works("m9"), ["web-work (0, 1): ConfigMap one"]);
}

// checklist 12.39
#[tokio::test(start_paused = true)]
async fn a_word_of_the_rollout_that_comes_in_between_is_kept() {
    let story = Story::running(7).await;
    let told = CLUSTER_WIDE;
    story.snapshots(told, 0, &[vec![map("one", "1")]]).await;
    // Guard, Work and status take three seconds each.
    let slow = Rule {
        who: "hub".to_owned(),
        verbs: Verbs::Writes,
        ..Rule::at(Point::Request, Effect::Do(Fault::Delay(Duration::from_secs(3))))
    };
    story.disturb(vec![slow]);
    story.scheduled(told, "web-m1", "m1").await;
    story.bound(told, "web-m1", 0).await;
    story.pass(7).await;
    let mut status = story.get(told.binding, told.space, "web-m1")["status"].clone();
    status["conditions"][0]["message"] = json!("said again");
    story.says(told.binding, told.space, "web-m1", status).await;
    story.pass(60).await;
    let refused = story.writes("hub").iter().any(|call| call.ends_with("web-m1 409"));
    assert!(refused, "{:?}", story.writes("hub"));
    let conditions = story.conditions(told, "web-m1");
    assert_eq!(conditions[0], "RolloutStarted True RolloutStarted (2): said again");
    assert!(conditions[3].starts_with("Applied False"), "{conditions:?}");
}
