//! Several runs of one placement, and other hands on its bindings.

use serde_json::json;

use crate::update_run::story::{SCOPES, Story, said};
use flagship_sim::testing::text;

// scenario 9; checklist 13.7 two concurrent runs with different indices
#[tokio::test(start_paused = true)]
async fn scenario_9_a_newer_run_takes_the_cluster_and_the_older_one_says_so() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        story.first_version().await;
        story.new_version("2").await;
        story.run("old", json!({"state": "Run"})).await;
        story.new_version("3").await;
        story.pass(2).await;
        story.run("new", json!({"state": "Run"})).await;
        let binding = story.binding("m2");
        let name = scope.slashed(&text(&binding["metadata"]["name"]));
        let name = name.trim_start_matches('/');
        let why = format!(
            "failed to process the request due to a client error: the binding of the updating cluster `m2` in the stage `canary` is not up-to-date with the desired status, please check the status of binding `{name}` and see if there is a concurrent updateRun referencing the same placement and updating the same cluster"
        );
        let failed = format!("cannot continue the updateRun: {why}");
        assert_eq!(
            story.said("old", "Progressing"),
            "False UpdateRunFailed: The stages are aborted due to a non-recoverable error"
        );
        assert_eq!(story.said("old", "Succeeded"), format!("False UpdateRunFailed: {failed}"));
        let canary = story.stage("old", "canary");
        assert_eq!(
            said(&canary["clusters"][0]["conditions"], "Succeeded"),
            format!("False ClusterUpdatingFailed: {why}")
        );
        assert_eq!(
            said(&canary["conditions"], "Progressing"),
            "False StageUpdatingFailed: Stage update aborted due to a non-recoverable error"
        );
        assert_eq!(
            said(&canary["conditions"], "Succeeded"),
            format!("False StageUpdatingFailed: {failed}")
        );
        assert_eq!(binding["spec"]["resourceSnapshotName"], "web-2-snapshot");
        let signal = said(&binding["status"]["conditions"], "RolloutStarted");
        assert!(signal.ends_with("resourceSnapshotIndex: 2, updateRun: new"), "{signal}");
        // The winner says whom it took the cluster from, and goes on.
        let events = story.events_of("StagedUpdateRun");
        assert!(
            events.iter().any(|e| e.contains("new: cluster m2 is taken over from update run old")),
            "{events:?}"
        );
        story.all_work().await;
        assert!(story.said("new", "Succeeded").starts_with("True"));
    }
}

// checklist 13.5 in-sync comparison: two runs of the same version do not disturb each other
#[tokio::test(start_paused = true)]
async fn two_runs_of_the_same_version_share_their_clusters() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        story.run("one", json!({"state": "Run"})).await;
        story.run("two", json!({"state": "Run"})).await;
        story.all_work().await;
        for run in ["one", "two"] {
            assert!(story.said(run, "Succeeded").starts_with("True"), "{}", story.told(run));
        }
        let signal = said(&story.binding("m2")["status"]["conditions"], "RolloutStarted");
        assert!(signal.ends_with("updateRun: one"), "{signal}");
    }
}

// checklist 13.5 binding forced back to Scheduled -> aborted with user_error metric
#[tokio::test(start_paused = true)]
async fn a_hand_on_the_binding_of_a_started_cluster_ends_the_run() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        let name = text(&story.binding("m2")["metadata"]["name"]);
        let back = json!({"spec": {"state": "Scheduled"}});
        story.patch(scope.bindings, scope.space, &name, back).await;
        story.soon().await;
        let failed = story.said("r", "Succeeded");
        assert!(failed.starts_with("False UpdateRunFailed: cannot continue the updateRun: failed to process the request due to a client error: the binding of the updating cluster `m2`"), "{failed}");
        let metrics = story.metrics.render();
        let series = "condition=\"Succeeded\",status=\"False\",reason=\"UpdateRunFailed\",failureType=\"user_error\"";
        assert!(metrics.contains(series), "{metrics}");
    }
}

// 12.9: the scheduler moves on without touching what is delivered
#[tokio::test(start_paused = true)]
async fn a_stale_start_signal_is_given_again() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        let name = text(&story.binding("m2")["metadata"]["name"]);
        let reason = json!({"spec": {"clusterDecision": {"reason": "still the best"}}});
        story.patch(scope.bindings, scope.space, &name, reason).await;
        story.soon().await;
        let binding = story.binding("m2");
        assert_eq!(binding["metadata"]["generation"], 3);
        let conditions = binding["status"]["conditions"].as_array().unwrap();
        let signal = conditions.iter().find(|c| c["type"] == "RolloutStarted").unwrap();
        assert_eq!(signal["observedGeneration"], 3);
        story.all_work().await;
        assert!(story.said("r", "Succeeded").starts_with("True"), "{}", story.told("r"));
    }
}

// A deleted run leaves bindings as they are, and its successor takes them over.
#[tokio::test(start_paused = true)]
async fn the_clusters_of_a_deleted_run_are_free() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        story.run("gone", json!({"state": "Run"})).await;
        story.delete(&scope.runs(), scope.space, "gone").await;
        story.soon().await;
        assert_eq!(story.holds()[1], "m2 Bound web-0-snapshot");
        story.new_version("2").await;
        story.pass(1).await;
        story.run("next", json!({"state": "Run"})).await;
        assert_eq!(story.holds()[1], "m2 Bound web-1-snapshot");
        story.all_work().await;
        assert!(story.said("next", "Succeeded").starts_with("True"), "{}", story.told("next"));
    }
}

// 12.20: runs of different placements do not wait for each other
#[tokio::test(start_paused = true)]
async fn runs_of_many_placements_go_side_by_side() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.strategy(json!([{"name": "all", "labelSelector": {}, "maxConcurrency": 3}])).await;
        for index in 0..5 {
            story.place(&format!("p{index}"), json!({"placementType": "PickAll"})).await;
        }
        story.settle().await;
        for index in 0..5 {
            let name = format!("r{index}");
            story.run(&name, json!({"placementName": format!("p{index}"), "state": "Run"})).await;
        }
        story.all_work().await;
        for index in 0..5 {
            let said = story.said(&format!("r{index}"), "Succeeded");
            assert!(said.starts_with("True"), "r{index}: {said}");
        }
    }
}
