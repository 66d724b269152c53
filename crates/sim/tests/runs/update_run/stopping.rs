//! Stop and resume.

use serde_json::{Value, json};

use crate::update_run::lifecycle::generations;
use crate::update_run::story::{SCOPES, Story, fixed, said, stage};

const STOPPED: &str = "False UpdateRunStopped: The update run has been stopped";
const STOPPING: &str = "Unknown UpdateRunStopping: The update run is the process of stopping, waiting for all the updating/deleting clusters to finish updating before completing the stop process";

fn all_at(story: &Story, generation: i64) {
    let run = story.object("r");
    assert_eq!(run["metadata"]["generation"], generation);
    let mut found = Vec::new();
    generations(&run["status"], &mut found);
    assert!(found.iter().all(|seen| *seen == generation), "{found:?}");
}

// checklist 13.6 stop during before-approval; approve while stopped does nothing; resume
#[tokio::test(start_paused = true)]
async fn an_approval_given_while_stopped_counts_after_the_resume() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        let tasks = json!({"beforeStageTasks": [{"type": "Approval"}]});
        story.strategy(json!([stage("canary", tasks), stage("prod", json!({}))])).await;
        story.run("r", json!({"state": "Run"})).await;
        story.set_state("r", "Stop").await;
        assert_eq!(story.said("r", "Progressing"), STOPPED);
        all_at(&story, 2);
        assert_eq!(
            said(&story.stage("r", "canary")["conditions"], "Progressing"),
            "False StageUpdatingStopped: All the updating clusters have finished updating, the stage is now stopped, waiting to be resumed"
        );
        story.approve("r-before-canary").await;
        story.pass(120).await;
        assert_eq!(
            said(&story.request("r-before-canary")["status"]["conditions"], "ApprovalAccepted"),
            ""
        );
        assert_eq!(story.holds()[1], "m2 Scheduled");
        story.set_state("r", "Run").await;
        all_at(&story, 3);
        assert!(story.holds()[1].starts_with("m2 Bound"));
        assert!(
            said(&story.request("r-before-canary")["status"]["conditions"], "ApprovalAccepted")
                .starts_with("True")
        );
        story.all_work().await;
        assert!(story.said("r", "Succeeded").starts_with("True"));
    }
}

// checklist 13.6 stop mid-cluster -> Stopping until cluster done -> Stopped; resume continues
#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_the_cluster_in_flight_and_a_resume_goes_on_with_the_next() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        story.works("m2").await;
        story.set_state("r", "Stop").await;
        assert_eq!(story.said("r", "Progressing"), STOPPING);
        assert_eq!(
            said(&story.stage("r", "prod")["conditions"], "Progressing"),
            "Unknown StageUpdatingStopping: Waiting for all the updating clusters to finish updating before completing the stop process"
        );
        story.works("m1").await;
        assert_eq!(story.said("r", "Progressing"), STOPPED);
        all_at(&story, 2);
        story.pass(300).await;
        assert_eq!(story.holds()[2], "m3 Scheduled");
        story.set_state("r", "Run").await;
        assert!(story.holds()[2].starts_with("m3 Bound"));
        story.works("m3").await;
        assert!(story.said("r", "Succeeded").starts_with("True"));
        all_at(&story, 3);
    }
}

// checklist 13.6 resume with only in-flight clusters left
#[tokio::test(start_paused = true)]
async fn a_resume_with_all_clusters_in_flight_says_so() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story
            .strategy(json!([{"name": "all", "labelSelector": {}, "maxConcurrency": "100%"}]))
            .await;
        story.run("r", json!({"state": "Run"})).await;
        story.set_state("r", "Stop").await;
        assert_eq!(story.said("r", "Progressing"), STOPPING);
        story.set_state("r", "Run").await;
        assert!(story.said("r", "Progressing").starts_with("True UpdateRunProgressing"));
        let progressing = said(&story.stage("r", "all")["conditions"], "Progressing");
        assert_eq!(
            progressing,
            "True StageUpdatingStarted: Clusters in the stage started updating"
        );
        story.all_work().await;
        assert!(story.said("r", "Succeeded").starts_with("True"));
    }
}

// checklist 13.6 TimedWait and approval task across Stop/Run; stop during after-tasks
#[tokio::test(start_paused = true)]
async fn a_wait_goes_on_while_the_run_is_stopped_and_nothing_advances() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        let after = json!([{"type": "TimedWait", "waitTime": "10m"}, {"type": "Approval"}]);
        story
            .strategy(json!([
                stage("canary", json!({"afterStageTasks": after})),
                stage("prod", json!({}))
            ]))
            .await;
        story.run("r", json!({"state": "Run"})).await;
        story.works("m2").await;
        let since = story.stage("r", "canary")["conditions"][0]["lastTransitionTime"].clone();
        story.pass(60).await;
        story.set_state("r", "Stop").await;
        assert_eq!(story.said("r", "Progressing"), STOPPED);
        story.approve("r-after-canary").await;
        story.pass(300).await;
        assert_eq!(story.holds()[0], "m1 Scheduled");
        story.set_state("r", "Run").await;
        // False stays False: the time does not move, so the wait is not begun again.
        let canary = story.stage("r", "canary");
        assert_eq!(canary["conditions"][0]["lastTransitionTime"], since);
        story.pass(235).await;
        assert_eq!(story.holds()[0], "m1 Scheduled");
        story.pass(10).await;
        assert!(story.holds()[0].starts_with("m1 Bound"), "{}", story.told("r"));
    }
}

// checklist 13.6 run created in Stop; scenario 2
#[tokio::test(start_paused = true)]
async fn a_run_created_stopped_is_initialized_and_stands() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        story.run("r", json!({"state": "Stop"})).await;
        assert_eq!(
            story.said("r", "Initialized"),
            "True UpdateRunInitializedSuccessfully: The UpdateRun initialized successfully"
        );
        assert_eq!(story.said("r", "Progressing"), STOPPED);
        assert!(story.stage("r", "canary").get("startTime").is_none());
        story.set_state("r", "Run").await;
        story.all_work().await;
        assert!(story.said("r", "Succeeded").starts_with("True"));
    }
}

// checklist 13.6 stop in deletion stage: Stopping while terminating, Stopped after, resume
#[tokio::test(start_paused = true)]
async fn a_stop_in_the_deletion_stage_waits_for_what_is_going() {
    for scope in SCOPES {
        let story = Story::picking(scope, fixed(&["m1", "m2", "m3"])).await;
        story.two_stages().await;
        story.first_version().await;
        let named = json!({"spec": {"policy": {"clusterNames": ["m2", "m3"]}}});
        story.patch(scope.placements, scope.space, "web", named).await;
        story.settle().await;
        // Somebody holds the binding that is to go.
        let going = story.binding("m1")["metadata"]["name"].as_str().unwrap().to_owned();
        let mut held = story.binding("m1")["metadata"]["finalizers"].as_array().cloned().unwrap();
        held.push(json!("example.com/held"));
        let patch = json!({"metadata": {"finalizers": held}});
        story.patch(scope.bindings, scope.space, &going, patch).await;
        story.run("r", json!({"state": "Run"})).await;
        story.all_work().await;
        assert_ne!(story.binding("m1")["metadata"]["deletionTimestamp"], Value::Null);
        assert!(
            said(&story.stage("r", "delete")["conditions"], "Progressing")
                .starts_with("True StageUpdatingStarted")
        );
        story.set_state("r", "Stop").await;
        assert_eq!(story.said("r", "Progressing"), STOPPING);
        let rest: Vec<Value> = story.binding("m1")["metadata"]["finalizers"]
            .as_array()
            .cloned()
            .unwrap()
            .into_iter()
            .filter(|f| f != "example.com/held")
            .collect();
        story
            .patch(scope.bindings, scope.space, &going, json!({"metadata": {"finalizers": rest}}))
            .await;
        story.soon().await;
        assert_eq!(story.said("r", "Progressing"), STOPPED);
        story.set_state("r", "Run").await;
        assert!(story.said("r", "Succeeded").starts_with("True"), "{}", story.told("r"));
    }
}

// A v1alpha1 client that writes a run back drops the state it does not know.
#[tokio::test(start_paused = true)]
async fn a_run_whose_state_was_dropped_stands_still_and_says_so() {
    let story = Story::begin(crate::update_run::story::CLUSTER).await;
    story.two_stages().await;
    story.run("r", json!({"state": "Run", "resourceSnapshotIndex": ""})).await;
    let mut run = story.object("r");
    run["spec"].as_object_mut().unwrap().remove("state");
    run["metadata"]["generation"] = json!(2);
    story.smuggle(&story.scope.runs(), run);
    story.soon().await;
    story.works("m2").await;
    assert_eq!(story.holds()[0], "m1 Scheduled");
    let events = story.events_of("StagedUpdateRun");
    let told = "Warning UpdateRunStateLost r: the state of the update run was lost after it had begun, nothing more is started; set spec.state to Run to go on or to Stop to stop it (x1)";
    assert!(events.iter().any(|event| event == told), "{events:?}");
}
