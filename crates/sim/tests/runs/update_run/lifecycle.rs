//! From the creation of a run to its end, and the deletion of one.

use expect_test::expect;
use serde_json::{Value, json};

use crate::update_run::story::{SCOPES, Story, fixed, stage};
use flagship_sim::testing::text;

// checklist 13.5 single stage without tasks, 13.7 omitted index
#[tokio::test(start_paused = true)]
async fn a_run_takes_a_version_and_brings_it_to_every_cluster_in_order() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        assert_eq!(story.resource_snapshots(), [] as [String; 0]);
        story.run("r", json!({"state": "Run"})).await;
        assert_eq!(story.resource_snapshots(), ["web-0-snapshot"]);
        assert_eq!(story.holds(), ["m1 Scheduled", "m2 Bound web-0-snapshot", "m3 Scheduled"]);
        assert_eq!(
            story.said("r", "Progressing"),
            "True UpdateRunProgressing: The update run is making progress"
        );
        story.works("m2").await;
        assert_eq!(
            story.holds(),
            ["m1 Bound web-0-snapshot", "m2 Bound web-0-snapshot", "m3 Scheduled"]
        );
        story.works("m1").await;
        story.works("m3").await;
        expect![[r#"
            run: Initialized=True/UpdateRunInitializedSuccessfully Progressing=False/UpdateRunSucceeded Succeeded=True/UpdateRunSucceeded
              canary: Progressing=False/StageUpdatingSucceeded Succeeded=True/StageUpdatingSucceeded
                m2: Started=True/ClusterUpdatingStarted Succeeded=True/ClusterUpdatingSucceeded
              prod: Progressing=False/StageUpdatingSucceeded Succeeded=True/StageUpdatingSucceeded
                m1: Started=True/ClusterUpdatingStarted Succeeded=True/ClusterUpdatingSucceeded
                m3: Started=True/ClusterUpdatingStarted Succeeded=True/ClusterUpdatingSucceeded
              kubernetes-fleet.io/deleteStage: Progressing=False/StageUpdatingSucceeded Succeeded=True/StageUpdatingSucceeded
        "#]]
        .assert_eq(&story.told("r"));
        assert_eq!(story.object("r")["status"]["resourceSnapshotIndexUsed"], "0");
    }
}

// spec 1.2: the API lets an index be removed, and the run has chosen by then
#[tokio::test(start_paused = true)]
async fn whoever_removes_the_index_of_a_run_is_told_that_it_is_too_late() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        story.first_version().await;
        story.run("r", json!({"resourceSnapshotIndex": "0"})).await;
        let without = json!({"spec": {"resourceSnapshotIndex": null}});
        story.patch(&scope.runs(), scope.space, "r", without).await;
        story.soon().await;
        let told = "Warning ResourceSnapshotIndexIgnored r: resourceSnapshotIndex 0 was removed after the update run had chosen it; that has no effect, 0 is rolled out (x1)";
        let events = story.events_of("StagedUpdateRun");
        let ignored: Vec<_> =
            events.iter().filter(|event| event.contains("ResourceSnapshotIndexIgnored")).collect();
        assert_eq!(ignored, [told], "once, and not before it was removed");
    }
}

// checklist 13.2 finalizer
#[tokio::test(start_paused = true)]
async fn the_finalizer_is_put_there_alone() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        story.run("r", json!({})).await;
        let run = story.object("r");
        assert_eq!(
            run["metadata"]["finalizers"],
            json!(["kubernetes-fleet.io/stagedupdaterun-finalizer"])
        );
        // KubeFleet writes the whole object, and the spec is changed by it.
        assert_eq!(run["metadata"]["generation"], 1);
        assert!(run["spec"].get("resourceSnapshotIndex").is_none());
        let fields = run["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let guard = fields.iter().find(|f| f["manager"] == "cluster-staged-update-run-controller");
        assert!(guard.is_some(), "{fields:?}");
    }
}

// checklist 13.3 snapshot index omitted: none, different hash, equal hash
#[tokio::test(start_paused = true)]
async fn a_new_version_is_frozen_at_once_and_an_old_one_is_used_again() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        story.first_version().await;
        story.run("same", json!({"state": "Run"})).await;
        assert_eq!(story.resource_snapshots(), ["web-0-snapshot"]);
        assert!(story.said("same", "Succeeded").starts_with("True"));
        // No collection of changes, no pause: what is there now is rolled out.
        story.new_version("2").await;
        story.run("next", json!({"state": "Run"})).await;
        assert_eq!(story.resource_snapshots(), ["web-0-snapshot", "web-1-snapshot"]);
        let frozen = story.get(&scope.snapshots(), scope.space, "web-1-snapshot");
        let maps = frozen["spec"]["selectedResources"].as_array().unwrap();
        assert_eq!(maps.iter().find(|m| m["kind"] == "ConfigMap").unwrap()["data"]["v"], "2");
        assert_eq!(story.binding("m2")["spec"]["resourceSnapshotName"], "web-1-snapshot");
        story.all_work().await;
        // Back to where we were, by index; the newest stays the newest.
        story.run("back", json!({"state": "Run", "resourceSnapshotIndex": "0"})).await;
        story.all_work().await;
        assert!(story.said("back", "Succeeded").starts_with("True"));
        assert_eq!(story.binding("m3")["spec"]["resourceSnapshotName"], "web-0-snapshot");
        let newest = story.get(&scope.snapshots(), scope.space, "web-1-snapshot");
        let labels = &newest["metadata"]["labels"];
        assert_eq!(labels["kubernetes-fleet.io/is-latest-snapshot"], "true");
    }
}

// checklist 13.5 maxConcurrency
#[tokio::test(start_paused = true)]
async fn as_many_clusters_as_allowed_are_updated_at_once() {
    for scope in SCOPES {
        for (most, started) in [(json!(3), 3), (json!("70%"), 2), (json!(1), 1), (json!("1%"), 1)] {
            let story = Story::begin(scope).await;
            let all = json!({"name": "all", "labelSelector": {}, "maxConcurrency": most});
            story.strategy(json!([all])).await;
            story.run("r", json!({"state": "Run"})).await;
            let bound = story.holds().iter().filter(|line| line.contains("Bound")).count();
            assert_eq!(bound, started, "{most}");
            story.all_work().await;
            assert!(story.said("r", "Succeeded").starts_with("True"));
        }
    }
}

// checklist 13.5 order inside a stage
#[tokio::test(start_paused = true)]
async fn clusters_go_by_the_number_of_a_label() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        for (name, order) in [("m1", "20"), ("m2", "007"), ("m3", "8")] {
            let labels = json!({"metadata": {"labels": {"order": order}}});
            story.patch(flagship_sim::testing::CLUSTERS, "", name, labels).await;
        }
        story
            .strategy(json!([{"name": "all", "labelSelector": {}, "sortingLabelKey": "order"}]))
            .await;
        story.run("r", json!({})).await;
        let listed = story.stage("r", "all")["clusters"].as_array().cloned().unwrap();
        let names: Vec<String> = listed.iter().map(|c| text(&c["clusterName"])).collect();
        assert_eq!(names, ["m2", "m3", "m1"]);
    }
}

// checklist 13.5 empty stage
#[tokio::test(start_paused = true)]
async fn a_stage_without_clusters_is_skipped_with_its_tasks() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        let approval = json!([{"type": "Approval"}]);
        let tasks = json!({"beforeStageTasks": approval, "afterStageTasks": approval});
        let stages =
            json!([stage("canary", json!({})), stage("nobody", tasks), stage("prod", json!({}))]);
        story.strategy(stages).await;
        story.run("r", json!({"state": "Run"})).await;
        story.all_work().await;
        assert!(story.said("r", "Succeeded").starts_with("True"), "{}", story.told("r"));
        let skipped = story.stage("r", "nobody");
        assert_eq!(skipped["clusters"], json!([]));
        let reasons: Vec<Value> =
            skipped["conditions"].as_array().unwrap().iter().map(|c| c["reason"].clone()).collect();
        assert_eq!(reasons, ["StageUpdatingSkippedNoClusters", "StageUpdatingSkippedNoClusters"]);
        assert_eq!(story.requests(), [] as [String; 0]);
    }
}

// checklist 13.5 deletions, 13.7 PickFixed
#[tokio::test(start_paused = true)]
async fn clusters_that_are_no_longer_chosen_lose_their_binding_last() {
    for scope in SCOPES {
        let story = Story::picking(scope, fixed(&["m1", "m2", "m3"])).await;
        story.two_stages().await;
        story.first_version().await;
        let named = json!({"spec": {"policy": {"clusterNames": ["m3"]}}});
        story.patch(scope.placements, scope.space, "web", named).await;
        story.settle().await;
        assert_eq!(story.holds().len(), 3);
        story.run("fewer", json!({"state": "Run"})).await;
        let deleted = story.stage("fewer", "delete");
        assert_eq!(deleted["clusters"].as_array().unwrap().len(), 2);
        assert!(deleted.get("conditions").is_none());
        assert_eq!(story.holds().len(), 3);
        story.works("m3").await;
        story.settle().await;
        assert_eq!(story.holds(), ["m3 Bound web-0-snapshot"]);
        assert!(story.said("fewer", "Succeeded").starts_with("True"), "{}", story.told("fewer"));
        let events = story.events_of("StagedUpdateRun");
        let told = |words: &str| events.iter().filter(|event| event.contains(words)).count();
        assert_eq!(told("fewer: resources are being removed from m1, m2"), 1, "{events:?}");
        assert_eq!(told("fewer: the placement has left m1, m2"), 1, "{events:?}");
    }
}

// checklist 13.7 RollingUpdate placements are none of our business, 13.6 settled runs
#[tokio::test(start_paused = true)]
async fn a_finished_run_is_quiet_and_only_learns_of_new_generations() {
    for scope in SCOPES {
        let mut story = Story::begin(scope).await;
        story.two_stages().await;
        story.first_version().await;
        story.settle().await;
        let before = story.writes("hub").len();
        story.heartbeats(5).await;
        let writes = story.writes("hub");
        let more: Vec<_> =
            writes[before..].iter().filter(|w| !w.contains("memberclusters")).collect();
        assert_eq!(more, [] as [&String; 0]);
        story.set_state("first", "Stop").await;
        let run = story.object("first");
        assert_eq!(run["metadata"]["generation"], 2);
        let told = |value: &Value| -> Vec<i64> {
            let mut found = Vec::new();
            generations(value, &mut found);
            found
        };
        assert!(told(&run["status"]).iter().all(|generation| *generation == 2));
        assert!(story.said("first", "Succeeded").starts_with("True"));
        story.kill("hub").await;
        story.start_as("again").await;
        let writes = story.writes("again");
        let writes: Vec<_> = writes.iter().filter(|w| !w.contains("memberclusters")).collect();
        assert_eq!(writes, [] as [&String; 0]);
    }
}

/// Every `observedGeneration` in a value.
pub fn generations(value: &Value, into: &mut Vec<i64>) {
    match value {
        Value::Object(fields) => {
            into.extend(fields.get("observedGeneration").and_then(Value::as_i64));
            fields.values().for_each(|field| generations(field, into));
        }
        Value::Array(items) => items.iter().for_each(|item| generations(item, into)),
        _ => {}
    }
}

// checklist 13.2 deletion
#[tokio::test(start_paused = true)]
async fn a_deleted_run_takes_its_requests_and_metrics_with_it() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        let tasks = json!({"beforeStageTasks": [{"type": "Approval"}]});
        story.strategy(json!([stage("canary", tasks), stage("prod", json!({}))])).await;
        story.run("r", json!({"state": "Run"})).await;
        assert_eq!(story.requests(), ["r-before-canary"]);
        // One that only looks like ours, and one that bears our label.
        for (name, run) in [("bystander", "other"), ("labelled", "r")] {
            let mut meta = scope.meta(name);
            meta["labels"] = json!({"kubernetes-fleet.io/targetUpdateRun": run});
            let spec = json!({"parentStageRollout": "r", "targetStage": "canary"});
            story.create(&scope.approvals(), json!({"metadata": meta, "spec": spec})).await;
        }
        assert!(story.metrics.render().contains("name=\"r\""));
        story.delete(&scope.runs(), scope.space, "r").await;
        story.soon().await;
        assert!(story.find(&scope.runs(), scope.space, "r").is_none());
        assert_eq!(story.requests(), ["bystander"]);
        let metrics = story.metrics.render();
        assert!(!metrics.contains("name=\"r\""), "{metrics}");
    }
}
