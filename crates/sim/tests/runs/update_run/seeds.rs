//! What the troubleshooting guides print, one story for each situation. Numbers are those
//! of the scenario table.

use serde_json::{Value, json};

use crate::update_run::story::{CLUSTER, SCOPES, Story, said, stage};
use flagship_sim::testing::{CLUSTERS, text};

const USER: &str = "cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: ";

fn conditions(object: &Value) -> Vec<String> {
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let line = |c: &Value| ["type", "status", "reason"].map(|field| text(&c[field])).join(" ");
    all.iter().map(line).collect()
}

#[tokio::test(start_paused = true)]
async fn scenario_1_a_run_without_state_is_initialized_and_waits() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        story.run("r", json!({})).await;
        let run = story.object("r");
        assert_eq!(run["spec"]["state"], "Initialize");
        assert_eq!(conditions(&run), ["Initialized True UpdateRunInitializedSuccessfully"]);
        story.pass(600).await;
        assert_eq!(story.object("r")["status"], run["status"]);
        assert_eq!(story.holds(), ["m1 Scheduled", "m2 Scheduled", "m3 Scheduled"]);
        story.set_state("r", "Run").await;
        story.all_work().await;
        assert!(story.said("r", "Succeeded").starts_with("True"));
    }
}

// checklist 13.3 details recorded for PickAll, apply strategy copied (defaults applied)
#[tokio::test(start_paused = true)]
async fn the_status_right_after_initialization() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        let wait = json!({"afterStageTasks": [{"type": "TimedWait", "waitTime": "90m"}]});
        let gates = json!({"beforeStageTasks": [{"type": "Approval"}], "maxConcurrency": "50%"});
        story.strategy(json!([stage("canary", wait), stage("prod", gates)])).await;
        story.run("r", json!({})).await;
        let mut status = story.object("r")["status"].clone();
        status["conditions"][0]["lastTransitionTime"] = Value::Null;
        let selector = |env: &str| json!({"matchLabels": {"env": env}});
        assert_eq!(
            status,
            json!({
                "appliedStrategy": {"comparisonOption": "PartialComparison", "type": "ClientSideApply",
                    "whenToApply": "Always", "whenToTakeOver": "Always"},
                "conditions": [{"type": "Initialized", "status": "True", "observedGeneration": 1,
                    "reason": "UpdateRunInitializedSuccessfully", "lastTransitionTime": null,
                    "message": "The UpdateRun initialized successfully"}],
                "policySnapshotIndexUsed": "0",
                "policyObservedClusterCount": 3,
                "resourceSnapshotIndexUsed": "0",
                "stagedUpdateStrategySnapshot": {"stages": [
                    {"name": "canary", "labelSelector": selector("canary"), "maxConcurrency": 1,
                        "afterStageTasks": [{"type": "TimedWait", "waitTime": "1h30m0s"}]},
                    {"name": "prod", "labelSelector": selector("prod"), "maxConcurrency": "50%",
                        "beforeStageTasks": [{"type": "Approval"}]},
                ]},
                "stagesStatus": [
                    {"stageName": "canary", "clusters": [{"clusterName": "m2"}],
                        "afterStageTaskStatus": [{"type": "TimedWait"}]},
                    {"stageName": "prod", "clusters": [{"clusterName": "m1"}, {"clusterName": "m3"}],
                        "beforeStageTaskStatus": [
                            {"type": "Approval", "approvalRequestName": "r-before-prod"}]},
                ],
                "deletionStageStatus": {"stageName": "kubernetes-fleet.io/deleteStage", "clusters": []},
            })
        );
    }
}

// checklist 13.7 no run: nothing placed, no resource snapshot, placement pending
#[tokio::test(start_paused = true)]
async fn scenario_3_a_placement_without_a_run_is_pending() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        let placement = story.get(scope.placements, scope.space, "web");
        let kind =
            if scope.space.is_empty() { "ClusterResourcePlacement" } else { "ResourcePlacement" };
        assert_eq!(
            conditions(&placement),
            [
                format!("{kind}Scheduled True SchedulingPolicyFulfilled"),
                format!("{kind}RolloutStarted Unknown RolloutControlledByExternalController"),
            ]
        );
        let status = &placement["status"];
        assert!(status.get("observedResourceIndex").is_none());
        assert!(status.get("selectedResources").is_none());
        assert_eq!(story.resource_snapshots(), [] as [String; 0]);
        assert_eq!(story.holds(), ["m1 Scheduled", "m2 Scheduled", "m3 Scheduled"]);
    }
}

// checklist 13.3 snapshot index: not a number; negative; none exist
#[tokio::test(start_paused = true)]
async fn scenario_4_a_version_that_does_not_exist() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run", "resourceSnapshotIndex": "1"})).await;
        let placement = scope.slashed("web");
        assert_eq!(
            story.said("r", "Initialized"),
            format!(
                "False UpdateRunInitializedFailed: {USER}no resourceSnapshots with index `1` found for placement `{placement}`"
            )
        );
        // Nor is there one before the first run of a placement that was born External.
        story.run("first", json!({"state": "Run", "resourceSnapshotIndex": "0"})).await;
        assert_eq!(
            story.said("first", "Initialized"),
            format!(
                "False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: no resourceSnapshots with index `0` found for placement `{placement}`"
            )
        );
        let status = &story.object("r")["status"];
        let fields: Vec<&str> = status.as_object().unwrap().keys().map(String::as_str).collect();
        let mut fields = fields.clone();
        fields.sort_unstable();
        assert_eq!(
            fields,
            [
                "appliedStrategy",
                "conditions",
                "deletionStageStatus",
                "policyObservedClusterCount",
                "policySnapshotIndexUsed",
                "stagedUpdateStrategySnapshot",
                "stagesStatus",
            ]
        );
        assert_eq!(story.said("r", "Progressing"), "");
        for (name, index) in [("word", "latest"), ("negative", "-1"), ("odd", "1 of 2")] {
            story.run(name, json!({"resourceSnapshotIndex": index})).await;
            assert_eq!(
                story.said(name, "Initialized"),
                format!(
                    "False UpdateRunInitializedFailed: {USER}invalid resource snapshot index `{index}` provided, expected an integer >= 0"
                )
            );
        }
        // It stays so, whatever is done to it.
        story.set_state("word", "Run").await;
        story.pass(300).await;
        assert!(story.said("word", "Initialized").starts_with("False"));
        assert_eq!(story.said("word", "Progressing"), "");
        assert_eq!(story.holds()[1], "m2 Scheduled");
    }
}

// checklist 13.3 snapshot index: wrong parent label; no index label; non-master only
#[tokio::test(start_paused = true)]
async fn snapshots_that_do_not_count() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        let info = flagship_api::kinds::find(&scope.snapshots()).unwrap();
        let parent = "kubernetes-fleet.io/parent-CRP";
        let index = "kubernetes-fleet.io/resource-index";
        for (name, labels, hash) in [
            ("other-5-snapshot", json!({parent: "other", index: "5"}), "h5"),
            ("web-6-snapshot", json!({parent: "web"}), "h6"),
            ("web-7-0", json!({parent: "web", index: "7"}), ""),
        ] {
            let mut meta = scope.meta(name);
            meta["labels"] = labels;
            meta["annotations"] = json!({"kubernetes-fleet.io/resource-hash": hash});
            let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
                "kind": info.kind, "metadata": meta, "spec": {"selectedResources": []}});
            story.smuggle(&scope.snapshots(), object);
        }
        let placement = scope.slashed("web");
        let missing = |n: u8| {
            format!("{USER}no resourceSnapshots with index `{n}` found for placement `{placement}`")
        };
        let no_master = format!(
            "cannot continue the updateRun: failed to validate the updateRun: unexpected behavior which cannot be handled by the controller: no master resourceSnapshot found for placement {placement}"
        );
        for (run, index, why) in
            [("a", "5", missing(5)), ("b", "6", missing(6)), ("c", "7", no_master)]
        {
            story.run(run, json!({"state": "Run", "resourceSnapshotIndex": index})).await;
            let told = story.said(run, "Initialized");
            assert_eq!(told, format!("False UpdateRunInitializedFailed: {why}"));
        }
    }
}

// checklist 13.4 placement gone
#[tokio::test(start_paused = true)]
async fn scenario_5_the_placement_is_deleted_under_a_waiting_run() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        let tasks = json!({"beforeStageTasks": [{"type": "Approval"}]});
        story.strategy(json!([stage("canary", tasks), stage("prod", json!({}))])).await;
        story.run("r", json!({"state": "Run"})).await;
        story.delete(scope.placements, scope.space, "web").await;
        story.soon().await;
        assert_eq!(
            story.said("r", "Progressing"),
            "False UpdateRunFailed: The stages are aborted due to a non-recoverable error"
        );
        assert_eq!(
            story.said("r", "Succeeded"),
            format!("False UpdateRunFailed: {USER}parent placement not found")
        );
        // The stage keeps its word.
        assert_eq!(
            said(&story.stage("r", "canary")["conditions"], "Progressing"),
            "False StageUpdatingWaiting: Not all before-stage tasks are completed, waiting for approval"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn scenario_6_a_strategy_is_needed_once() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.run("early", json!({"state": "Run"})).await;
        assert_eq!(
            story.said("early", "Initialized"),
            format!(
                "False UpdateRunInitializedFailed: {USER}referenced updateStrategy not found: `{}`",
                scope.slashed("plan")
            )
        );
        // checklist 13.4 strategy edited or deleted during the run
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        let edited = json!({"spec": {"stages": [stage("canary", json!({}))]}});
        story.patch(&scope.strategies(), scope.space, "plan", edited).await;
        story.works("m2").await;
        story.delete(&scope.strategies(), scope.space, "plan").await;
        story.all_work().await;
        assert!(story.said("r", "Succeeded").starts_with("True"), "{}", story.told("r"));
    }
}

#[tokio::test(start_paused = true)]
async fn scenario_7_tasks_that_cannot_be() {
    for scope in SCOPES {
        for (tasks, side, why) in [
            (
                json!({"beforeStageTasks": [{"type": "TimedWait", "waitTime": "1m"}]}),
                "before",
                "task 0 of type TimedWait is not allowed in beforeStageTasks, allowed type: Approval",
            ),
            (
                json!({"afterStageTasks": [{"type": "Approval"}, {"type": "Approval"}]}),
                "after",
                "afterStageTasks cannot have two tasks of the same type: Approval",
            ),
            (
                json!({"afterStageTasks": [{"type": "TimedWait"}]}),
                "after",
                "task 0 of type TimedWait has wait duration set to nil",
            ),
            (
                json!({"afterStageTasks": [{"type": "TimedWait", "waitTime": "0s"}]}),
                "after",
                "task 0 of type TimedWait has wait duration <= 0",
            ),
            // checklist 12.37: one that no clock can hold
            (
                json!({"afterStageTasks": [{"type": "TimedWait", "waitTime": "99999999999h"}]}),
                "after",
                "task 0 of type TimedWait has a bad wait duration: time: invalid duration \"99999999999h\"",
            ),
        ] {
            let story = Story::begin(scope).await;
            // The server refuses most of these; an older one may not have.
            let info = flagship_api::kinds::find(&scope.strategies()).unwrap();
            let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": info.kind,
                "metadata": scope.meta("plan"), "spec": {"stages": [stage("canary", tasks)]}});
            story.smuggle(&scope.strategies(), object);
            story.run("r", json!({"state": "Run"})).await;
            assert_eq!(
                story.said("r", "Initialized"),
                format!(
                    "False UpdateRunInitializedFailed: {USER}the {side} stage tasks are invalid, updateStrategy: `{}`, stage: canary, err: {why}",
                    scope.slashed("plan")
                )
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn scenario_8_a_cluster_in_two_stages_before_and_during_a_run() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        let all = json!({"name": "all", "labelSelector": {}});
        story.strategy(json!([stage("canary", json!({})), all])).await;
        story.run("early", json!({"state": "Run"})).await;
        let twice = |name: &str| format!("{USER}cluster `{name}` appears in more than one stages");
        assert_eq!(
            story.said("early", "Initialized"),
            format!("False UpdateRunInitializedFailed: {}", twice("m2"))
        );
        let select = |key: &str| json!({"matchExpressions": [{"key": key, "operator": "Exists"}]});
        let stages = json!([
            {"name": "one", "labelSelector": select("one")},
            {"name": "rest", "labelSelector": {"matchExpressions": [{"key": "env", "operator": "Exists"}]}},
        ]);
        let fresh = json!({"spec": {"stages": stages}});
        story.patch(&scope.strategies(), scope.space, "plan", fresh).await;
        story.run("r", json!({"state": "Run"})).await;
        assert!(story.said("r", "Progressing").starts_with("True"), "{}", story.told("r"));
        // A label moves m3 into the first stage too, and is noticed at once.
        story.patch(CLUSTERS, "", "m3", json!({"metadata": {"labels": {"one": "yes"}}})).await;
        story.soon().await;
        assert_eq!(story.said("r", "Succeeded"), format!("False UpdateRunFailed: {}", twice("m3")));
    }
}

// checklist 13.5: RolloutStarted message; scenario 10
#[tokio::test(start_paused = true)]
async fn scenario_10_what_a_binding_looks_like() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        story.run("example-run", json!({"state": "Run"})).await;
        let binding = story.binding("m2");
        let name = text(&binding["metadata"]["name"]);
        assert!(name.starts_with("web-m2-"), "{name}");
        assert_eq!(binding["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"], "web");
        let finalizers = binding["metadata"]["finalizers"].as_array().unwrap();
        assert!(finalizers.contains(&json!("kubernetes-fleet.io/scheduler-crb-cleanup")));
        let mut spec = binding["spec"].clone();
        let decision = spec["clusterDecision"].take();
        assert_eq!((&decision["clusterName"], &decision["selected"]), (&json!("m2"), &json!(true)));
        assert_eq!(
            spec,
            json!({
                "applyStrategy": {"comparisonOption": "PartialComparison", "type": "ClientSideApply",
                    "whenToApply": "Always", "whenToTakeOver": "Always"},
                "clusterDecision": null,
                "resourceSnapshotName": "web-0-snapshot",
                "schedulingPolicySnapshotName": "web-0",
                "state": "Bound",
                "targetCluster": "m2",
            })
        );
        // The index used, although none was asked for.
        assert_eq!(
            said(&binding["status"]["conditions"], "RolloutStarted"),
            "True RolloutStarted: Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 0, updateRun: example-run"
        );
        let started = &binding["status"]["conditions"][0];
        assert_eq!(started["observedGeneration"], binding["metadata"]["generation"]);
        let uid = story.object("example-run")["metadata"]["uid"].clone();
        let notes = &binding["metadata"]["annotations"];
        assert_eq!(notes["flagship.dev/update-run-uid"], uid);
        assert_eq!(notes["flagship.dev/update-run-generation"], "1");
        // One that is not reached yet has nothing to show.
        let later = story.binding("m1");
        assert_eq!(later["spec"]["resourceSnapshotName"], "");
        assert!(later["status"].get("conditions").is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn scenario_17_a_run_from_the_first_word_to_the_last() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        story.run("r", json!({})).await;
        assert_eq!(
            conditions(&story.object("r")),
            ["Initialized True UpdateRunInitializedSuccessfully"]
        );
        story.set_state("r", "Run").await;
        assert_eq!(
            conditions(&story.object("r")),
            [
                "Initialized True UpdateRunInitializedSuccessfully",
                "Progressing True UpdateRunProgressing"
            ]
        );
        story.all_work().await;
        assert_eq!(
            conditions(&story.object("r")),
            [
                "Initialized True UpdateRunInitializedSuccessfully",
                "Progressing False UpdateRunSucceeded",
                "Succeeded True UpdateRunSucceeded",
            ]
        );
        assert_eq!(
            story.said("r", "Progressing"),
            "False UpdateRunSucceeded: All stages are completed"
        );
        assert_eq!(
            story.said("r", "Succeeded"),
            "True UpdateRunSucceeded: All stages are completed successfully"
        );
    }
}

// checklist 13.3: a run created right after its placement waits for the scheduler (12.14)
#[tokio::test(start_paused = true)]
async fn a_run_created_with_its_placement_waits_for_the_scheduler() {
    for scope in SCOPES {
        let mut story = Story::prepared(scope, Default::default()).await;
        story.start_as("hub").await;
        story.two_stages().await;
        story.place("web", json!({"placementType": "PickAll"})).await;
        story.run("r", json!({"state": "Run"})).await;
        story.pass(5).await;
        assert!(story.said("r", "Progressing").starts_with("True"), "{}", story.told("r"));
    }
    // One that stays unscheduled is told so after the grace.
    let story =
        Story::picking(CLUSTER, json!({"placementType": "PickN", "numberOfClusters": 10})).await;
    story.two_stages().await;
    story.run("r", json!({"state": "Run"})).await;
    assert_eq!(story.said("r", "Initialized"), "");
    story.pass(6).await;
    assert_eq!(
        story.said("r", "Initialized"),
        "False UpdateRunInitializedFailed: cannot continue the updateRun: failed to validate the updateRun: policy snapshot `web-0` not fully scheduled yet"
    );
}
