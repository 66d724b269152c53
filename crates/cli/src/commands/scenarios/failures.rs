//! Runs that cannot begin, or end badly on the way.

use expect_test::expect;
use serde_json::{Value, json};

use super::{CLUSTER, HUB, NAMESPACED, Scenario, Scope, stage};

/// A run that cannot be initialized.
async fn refused(scope: Scope, stages: Value, run: Value) -> Scenario {
    let scenario = Scenario::begin(scope).await;
    scenario.place(json!({"type": "External"})).await;
    scenario.stages(stages).await;
    scenario.run_with("example-run", run).await;
    scenario.until("example-run", "UpdateRunInitializedFailed").await;
    scenario
}

fn two_stages() -> Value {
    json!([stage("staging", json!({})), stage("canary", json!({}))])
}

// Guide 4 "Investigate StagedUpdateRun initialization failure", guide 5 "Investigate
// ClusterStagedUpdateRun initialization failure" and the same for StagedUpdateRun.
#[tokio::test(start_paused = true)]
async fn a_version_that_does_not_exist_is_named() {
    for (scope, told) in [
        (
            CLUSTER,
            expect![[r#"
                example-run could not be initialized: example-placement has no snapshot 1.

                  cause  SNAPSHOT_MISSING  the resource snapshot does not exist
                  because  no resourceSnapshots with index `1` found for placement `/example-placement`

                  run  example-run  Initialized=False  UpdateRunInitializedFailed

                  look  see which versions exist:  kubectl --context hub get clusterresourcesnapshots -l kubernetes-fleet.io/parent-CRP=example-placement
                  then  roll out what is on the hub now:  flagship run example-placement
                  more  flagship explain SNAPSHOT_MISSING
                [exit 5]
            "#]],
        ),
        (
            NAMESPACED,
            expect![[r#"
                my-app-namespace/example-run could not be initialized: example-placement has no snapshot 1.

                  cause  SNAPSHOT_MISSING  the resource snapshot does not exist
                  because  no resourceSnapshots with index `1` found for placement `my-app-namespace/example-placement`

                  run  my-app-namespace/example-run  Initialized=False  UpdateRunInitializedFailed

                  look  see which versions exist:  kubectl --context hub -n my-app-namespace get resourcesnapshots -l kubernetes-fleet.io/parent-CRP=example-placement
                  then  roll out what is on the hub now:  flagship run -n my-app-namespace example-placement
                  more  flagship explain SNAPSHOT_MISSING
                [exit 5]
            "#]],
        ),
    ] {
        let wanted = json!({"state": "Run", "resourceSnapshotIndex": "1"});
        let scenario = refused(scope, two_stages(), wanted).await;
        told.assert_eq(&scenario.why("example-run").await);
    }
}

// There is no snapshot before the first run of a placement that was born External.
#[tokio::test(start_paused = true)]
async fn a_first_run_that_names_version_0_is_told_how_to_make_one() {
    for (scope, command) in [
        (CLUSTER, "flagship run example-placement"),
        (NAMESPACED, "flagship run -n my-app-namespace example-placement"),
    ] {
        let wanted = json!({"state": "Run", "resourceSnapshotIndex": "0"});
        let scenario = refused(scope, two_stages(), wanted).await;
        // Word for word what KubeFleet says.
        let kind = scope.kind("StagedUpdateRun");
        let run = scenario.hub().get(&kind, scope.space(), "example-run").await;
        let initialized = &run["status"]["conditions"][0];
        let placement = format!("{}/example-placement", scope.space());
        let message = format!(
            "cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: no resourceSnapshots with index `0` found for placement `{placement}`"
        );
        assert_eq!(
            [
                &initialized["type"],
                &initialized["status"],
                &initialized["reason"],
                &initialized["message"]
            ],
            ["Initialized", "False", "UpdateRunInitializedFailed", &message]
        );
        // Programs get the condition as it is, beside the sentence for people.
        let told = scenario.why("example-run -o json").await;
        let told: Value = serde_json::from_str(told.split("[exit").next().unwrap()).unwrap();
        let seen = &told["evidence"][0];
        assert_eq!(seen["says"], "Initialized=False  UpdateRunInitializedFailed");
        assert_eq!(seen["condition"]["message"], json!(message));
        assert!(seen["condition"]["at"].is_string(), "{seen}");
        let told = scenario.why("example-run").await;
        assert!(told.contains("because  no resourceSnapshots with index `0` found"), "{told}");
        let hint = format!("then  roll out what is on the hub now:  {command}\n");
        assert!(told.contains(&hint), "{told}");
    }
}

// Its record is closed: a state that is written to it changes nothing.
#[tokio::test(start_paused = true)]
async fn a_run_that_could_not_be_initialized_cannot_be_resumed() {
    for (scope, told) in [
        (
            CLUSTER,
            expect![[r#"
                error: example-run can never go on, it could not be initialized: no resourceSnapshots with index `1` found for placement `/example-placement`; start a new run: flagship run example-placement
            "#]],
        ),
        (
            NAMESPACED,
            expect![[r#"
                error: my-app-namespace/example-run can never go on, it could not be initialized: no resourceSnapshots with index `1` found for placement `my-app-namespace/example-placement`; start a new run: flagship run -n my-app-namespace example-placement
            "#]],
        ),
    ] {
        let wanted = json!({"state": "Initialize", "resourceSnapshotIndex": "1"});
        let scenario = refused(scope, two_stages(), wanted).await;
        told.assert_eq(&scenario.resume("example-run").await);
    }
}

// Guide 3 "Placement not found" and "Parent placement not found", guide 4 "1. Validation
// Failure During Reconciliation", guide 5 "Investigate … execution failure", first case.
#[tokio::test(start_paused = true)]
async fn a_placement_deleted_under_its_run_is_missed() {
    for (scope, told) in [
        (
            CLUSTER,
            expect![[r#"
                example-run failed: placement example-placement was deleted while the run was under way.

                  cause  PLACEMENT_MISSING  the placement does not exist
                  because  parent placement not found

                  run  example-run  Succeeded=False  UpdateRunFailed

                  look  see which placements exist:  kubectl --context hub get crp
                  then  create the placement, and start a new run:  flagship run example-placement
                  more  flagship explain PLACEMENT_MISSING
                [exit 5]
            "#]],
        ),
        (
            NAMESPACED,
            expect![[r#"
                my-app-namespace/example-run failed: placement example-placement was deleted while the run was under way.

                  cause  PLACEMENT_MISSING  the placement does not exist
                  because  parent placement not found

                  run  my-app-namespace/example-run  Succeeded=False  UpdateRunFailed

                  look  see which placements exist:  kubectl --context hub -n my-app-namespace get rp
                  then  create the placement, and start a new run:  flagship run -n my-app-namespace example-placement
                  more  flagship explain PLACEMENT_MISSING
                [exit 5]
            "#]],
        ),
    ] {
        let scenario =
            Scenario::rolling(scope, json!({"beforeStageTasks": [{"type": "Approval"}]})).await;
        scenario.until("example-run", "UpdateRunWaiting").await;
        let kind = scope.kind("ResourcePlacement");
        scenario.hub().delete(&kind, scope.space(), "example-placement").await;
        scenario.until("example-run", "UpdateRunFailed").await;
        told.assert_eq(&scenario.why("example-run").await);
    }
}

// Guide 3 "Strategy not found". A run keeps a copy of its strategy, so that only the
// beginning needs it; what the guide tells of a running one does not happen here.
#[tokio::test(start_paused = true)]
async fn a_strategy_is_missed_at_the_beginning_and_not_later() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.place(json!({"type": "External"})).await;
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunInitializedFailed").await;
    expect![[r#"
        example-run could not be initialized: there is no strategy example-strategy.

          cause  STRATEGY_MISSING  the strategy does not exist
          because  referenced updateStrategy not found: `/example-strategy`

          run  example-run  Initialized=False  UpdateRunInitializedFailed

          look  see which strategies exist:  kubectl --context hub get csus
          then  start again with a new run:  flagship run example-placement
          more  flagship explain STRATEGY_MISSING
        [exit 5]
    "#]]
    .assert_eq(&scenario.why("example-run").await);
    scenario.strategy(json!({"beforeStageTasks": [{"type": "Approval"}]})).await;
    scenario.run("second-run", "Run").await;
    scenario.until("second-run", "UpdateRunWaiting").await;
    scenario.hub().delete("ClusterStagedUpdateStrategy", "", "example-strategy").await;
    scenario.pass(60).await;
    let told = scenario.why("second-run").await;
    assert!(told.contains("APPROVAL_MISSING"), "{told}");
}

// Guide 3 "Invalid stage tasks". The server refuses such a strategy; an older one let it in.
#[tokio::test(start_paused = true)]
async fn stage_tasks_that_cannot_be_are_quoted() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.place(json!({"type": "External"})).await;
    let tasks = json!({"beforeStageTasks": [{"type": "TimedWait", "waitTime": "1m"}]});
    scenario.smuggle_strategy(json!([stage("staging", tasks), stage("canary", json!({}))]));
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunInitializedFailed").await;
    expect![[r#"
        example-run could not be initialized: strategy example-strategy has a mistake.

          cause  STRATEGY_INVALID  the strategy has a mistake
          because  the before stage tasks are invalid, updateStrategy: `/example-strategy`, stage: staging, err: task 0 of type TimedWait is not allowed in beforeStageTasks, allowed type: Approval

          run  example-run  Initialized=False  UpdateRunInitializedFailed

          fix  correct the strategy:  kubectl --context hub edit csus example-strategy
          then  start again with a new run:  flagship run example-placement
          more  flagship explain STRATEGY_INVALID
        [exit 5]
    "#]].assert_eq(&scenario.why("example-run").await);
}

// The schema takes any integer, and the type holds 32 bits: such a strategy is there, and
// nobody can read it. The run used to stand without a word.
#[tokio::test(start_paused = true)]
async fn a_strategy_that_cannot_be_read_is_not_absent() {
    for scope in [CLUSTER, NAMESPACED] {
        let scenario = Scenario::begin(scope).await;
        scenario.place(json!({"type": "External"})).await;
        let mut staging = stage("staging", json!({}));
        staging["maxConcurrency"] = json!(2_147_483_648_i64);
        scenario.stages(json!([staging, stage("canary", json!({}))])).await;
        scenario.run("example-run", "Run").await;
        scenario.until("example-run", "UpdateRunInputUnreadable").await;
        let told = scenario.why("example-run").await;
        for words in ["OBJECT_UNREADABLE", "example-strategy", "maxConcurrency", "[exit 3]"] {
            assert!(told.contains(words), "{words} is missing: {told}");
        }
        scenario.stages(two_stages()).await;
        scenario.until("example-run", "UpdateRunSucceeded").await;
    }
}

// A record that no schema refuses and nobody can read. The run used to stand without a word,
// and `why` ended with an error.
#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_read_says_so_itself_and_goes_on_when_mended() {
    for scope in [CLUSTER, NAMESPACED] {
        let scenario =
            Scenario::rolling(scope, json!({"beforeStageTasks": [{"type": "Approval"}]})).await;
        scenario.until("example-run", "UpdateRunWaiting").await;
        let (kind, space) = (scope.kind("StagedUpdateRun"), scope.space());
        let good = scenario.hub().get(&kind, space, "example-run").await;
        let good = &good["status"]["stagedUpdateStrategySnapshot"];
        let mut bad = good.clone();
        bad["stages"][0]["maxConcurrency"] = json!(2_147_483_648_i64);
        let status = |stages: &Value| json!({"stagedUpdateStrategySnapshot": stages});
        scenario.hub().patch_status(&kind, space, "example-run", status(&bad)).await;
        scenario.until("example-run", "UpdateRunInputUnreadable").await;
        let conditions = scenario.hub().get(&kind, space, "example-run").await;
        let conditions = conditions["status"]["conditions"].as_array().unwrap().clone();
        let told = conditions.iter().find(|told| told["reason"] == "UpdateRunInputUnreadable");
        let told = told.unwrap();
        assert_eq!(
            (told["type"].as_str(), told["status"].as_str()),
            (Some("Progressing"), Some("Unknown"))
        );
        let field =
            "field status.stagedUpdateStrategySnapshot.stages[0].maxConcurrency of the update run";
        assert!(told["message"].as_str().unwrap().contains(field), "{told}");
        let events = scenario.hub().events(&kind).await;
        assert!(events.iter().any(|event| event.contains("MalformedObject")), "{events:?}");
        let why = scenario.why("example-run").await;
        for words in ["OBJECT_UNREADABLE", "maxConcurrency", "[exit 3]"] {
            assert!(why.contains(words), "{words} is missing: {why}");
        }
        // Nothing of it is acted upon, and an approval is not lost.
        scenario.pass(60).await;
        scenario.hub().patch_status(&kind, space, "example-run", status(good)).await;
        scenario.until("example-run", "UpdateRunWaiting").await;
        let approved = scenario.approve("example-run").await;
        assert!(approved.ends_with("[exit 0]\n"), "{approved}");
        scenario.until("example-run", "UpdateRunSucceeded").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_placement_or_policy_that_cannot_be_read_is_not_absent_to_why() {
    for (kind, name, status) in [
        ("ResourcePlacement", "example-placement", json!({"selectedResources": "all of them"})),
        ("SchedulingPolicySnapshot", "example-placement-0", json!({"targetClusters": "many"})),
    ] {
        let mut scenario = Scenario::begin(CLUSTER).await;
        scenario.place(json!({"type": "RollingUpdate"})).await;
        // No hub corrects what follows.
        scenario.fleet.kill(HUB).await;
        scenario.spoil_status(kind, name, status).await;
        let why = scenario.why("example-placement").await;
        for words in ["OBJECT_UNREADABLE", "cannot be read", name, "[exit 3]"] {
            assert!(why.contains(words), "{words} is missing: {why}");
        }
    }
}

// Guide 3 "Cluster appears more than one time".
#[tokio::test(start_paused = true)]
async fn a_cluster_in_two_stages_is_named() {
    let all = json!({"name": "all", "labelSelector": {}});
    let stages = json!([stage("staging", json!({})), all]);
    let scenario = refused(CLUSTER, stages, json!({"state": "Run"})).await;
    expect![[r#"
        example-run could not be initialized: member2 is in stages staging and all.

          cause  CLUSTER_IN_TWO_STAGES  a cluster's labels match two stages
          because  cluster `member2` appears in more than one stages

          run  example-run  Initialized=False  UpdateRunInitializedFailed
          cluster  member2  environment=staging

          look  compare labels and stages:  kubectl --context hub get memberclusters --show-labels
          fix  correct the strategy:  kubectl --context hub edit csus example-strategy
          then  start again with a new run:  flagship run example-placement
          more  flagship explain CLUSTER_IN_TWO_STAGES
        [exit 5]
    "#]]
    .assert_eq(&scenario.why("example-run").await);
}

// Guide 3 "Cluster appears more than one time": labels that change during the run.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_moves_into_a_second_stage_ends_the_run() {
    let scenario = Scenario::begin(NAMESPACED).await;
    scenario.place(json!({"type": "External"})).await;
    let second = json!({"name": "rest", "labelSelector": {"matchExpressions": [
        {"key": "environment", "operator": "In", "values": ["canary"]}]}});
    let first = json!({"name": "pilot", "labelSelector": {"matchLabels": {"pilot": "true"}},
        "beforeStageTasks": [{"type": "Approval"}]});
    scenario.stages(json!([first, stage("staging", json!({})), second])).await;
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunInitializedSuccessfully").await;
    let pilot = json!({"metadata": {"labels": {"pilot": "true"}}});
    scenario.hub().patch("memberclusters", "", "member3", pilot).await;
    scenario.until("example-run", "UpdateRunFailed").await;
    expect![[r#"
        my-app-namespace/example-run failed: member3 is in stages pilot and rest.

          cause  CLUSTER_IN_TWO_STAGES  a cluster's labels match two stages
          because  cluster `member3` appears in more than one stages

          run  my-app-namespace/example-run  Succeeded=False  UpdateRunFailed
          cluster  member3  environment=canary,pilot=true

          look  compare labels and stages:  kubectl --context hub get memberclusters --show-labels
          fix  correct the strategy:  kubectl --context hub -n my-app-namespace edit sus example-strategy
          then  start again with a new run:  flagship run -n my-app-namespace example-placement
          more  flagship explain CLUSTER_IN_TWO_STAGES
        [exit 5]
    "#]].assert_eq(&scenario.why("example-run").await);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_in_no_stage_is_named() {
    let stages = json!([stage("staging", json!({}))]);
    let scenario = refused(CLUSTER, stages, json!({"state": "Run"})).await;
    expect![[r#"
        example-run could not be initialized: no stage selects member1, member3.

          cause  CLUSTER_IN_NO_STAGE  a chosen cluster's labels match no stage
          because  some clusters are not placed in any stage, total 2, showing up to 10: member1, member3

          run  example-run  Initialized=False  UpdateRunInitializedFailed
          cluster  member1  environment=canary
          cluster  member3  environment=canary

          look  compare labels and stages:  kubectl --context hub get memberclusters --show-labels
          fix  correct the strategy:  kubectl --context hub edit csus example-strategy
          then  start again with a new run:  flagship run example-placement
          more  flagship explain CLUSTER_IN_NO_STAGE
        [exit 5]
    "#]].assert_eq(&scenario.why("example-run").await);
}

#[tokio::test(start_paused = true)]
async fn a_placement_that_rolls_out_by_itself_takes_no_runs() {
    for (scope, told) in [
        (
            CLUSTER,
            expect![[r#"
                example-run could not be initialized: placement example-placement rolls out by itself and takes no runs.

                  cause  PLACEMENT_NOT_EXTERNAL  the placement does not leave rollouts to runs
                  because  parent placement does not have an external rollout strategy, current strategy: RollingUpdate

                  run  example-run  Initialized=False  UpdateRunInitializedFailed

                  fix  leave rollouts to runs:  kubectl --context hub patch crp example-placement --type=merge -p '{"spec":{"strategy":{"type":"External"}}}'
                  then  start again with a new run:  flagship run example-placement
                  more  flagship explain PLACEMENT_NOT_EXTERNAL
                [exit 5]
            "#]],
        ),
        (
            NAMESPACED,
            expect![[r#"
                my-app-namespace/example-run could not be initialized: placement example-placement rolls out by itself and takes no runs.

                  cause  PLACEMENT_NOT_EXTERNAL  the placement does not leave rollouts to runs
                  because  parent placement does not have an external rollout strategy, current strategy: RollingUpdate

                  run  my-app-namespace/example-run  Initialized=False  UpdateRunInitializedFailed

                  fix  leave rollouts to runs:  kubectl --context hub -n my-app-namespace patch rp example-placement --type=merge -p '{"spec":{"strategy":{"type":"External"}}}'
                  then  start again with a new run:  flagship run -n my-app-namespace example-placement
                  more  flagship explain PLACEMENT_NOT_EXTERNAL
                [exit 5]
            "#]],
        ),
    ] {
        let scenario = Scenario::begin(scope).await;
        scenario.place(json!({"type": "RollingUpdate"})).await;
        scenario.strategy(json!({})).await;
        scenario.run("example-run", "Run").await;
        scenario.until("example-run", "UpdateRunInitializedFailed").await;
        told.assert_eq(&scenario.why("example-run").await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_placement_without_all_its_clusters_is_not_ready_for_a_run() {
    let scenario = Scenario::begin(CLUSTER).await;
    let policy = json!({"placementType": "PickN", "numberOfClusters": 5});
    scenario.place_with(json!({"policy": policy, "strategy": {"type": "External"}})).await;
    scenario.strategy(json!({})).await;
    scenario.pass(2).await;
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunInitializedFailed").await;
    expect![[r#"
        example-run could not be initialized: placement example-placement has not found all the clusters it asks for.

          cause  PLACEMENT_NOT_SCHEDULED  the policy is not fully scheduled
          because  policy snapshot `example-placement-0` not fully scheduled yet

          run  example-run  Initialized=False  UpdateRunInitializedFailed
          placement example-placement  Scheduled=False  could not find all clusters needed as specified by the scheduling policy, found 3 cluster(s) instead

          look  see why clusters are missing:  flagship why placement example-placement
          then  start again with a new run:  flagship run example-placement
          more  flagship explain PLACEMENT_NOT_SCHEDULED
        [exit 5]
    "#]]
    .assert_eq(&scenario.why("example-run").await);
    // The placement itself says which clusters are missing.
    expect![[r#"
        example-placement has not found the clusters it asks for.

          cause  PLACEMENT_NOT_SCHEDULED  the policy asks for 5 cluster(s)
          because  could not find all clusters needed as specified by the scheduling policy, found 3 cluster(s) instead

          placement example-placement  ClusterResourcePlacementRolloutStarted=Unknown  RolloutControlledByExternalController

          look  compare with the members' labels:  kubectl --context hub get memberclusters --show-labels
          fix  correct the policy:  kubectl --context hub edit crp example-placement
          more  flagship explain PLACEMENT_NOT_SCHEDULED
        [exit 3]
    "#]].assert_eq(&scenario.why("placement example-placement").await);
}

// Guide 3 "Concurrent update run preemptions", guide 4 "2. Concurrent UpdateRun Preemption",
// guide 5 "Investigate … execution failure", second case; both scopes.
#[tokio::test(start_paused = true)]
async fn a_newer_run_that_takes_over_is_named() {
    for (scope, told) in [
        (
            CLUSTER,
            expect![[r#"
                example-run failed: example-run-1 took over member2 in stage staging.

                  cause  PREEMPTED  another run or person took over a cluster
                  because  example-run-1 gave member2 snapshot 1; example-run had begun to give it snapshot 0, and gave up at <moment>

                  run  example-run  Succeeded=False  UpdateRunFailed
                  binding  example-placement-member2-<hash>  RolloutStarted=True  by example-run-1

                  then  let the newer run finish:  flagship watch example-run-1
                  or  stop it, if it is not what you want:  flagship stop example-run-1
                  more  flagship explain PREEMPTED
                [exit 5]
            "#]],
        ),
        (
            NAMESPACED,
            expect![[r#"
                my-app-namespace/example-run failed: my-app-namespace/example-run-1 took over member2 in stage staging.

                  cause  PREEMPTED  another run or person took over a cluster
                  because  my-app-namespace/example-run-1 gave member2 snapshot 1; my-app-namespace/example-run had begun to give it snapshot 0, and gave up at <moment>

                  run  my-app-namespace/example-run  Succeeded=False  UpdateRunFailed
                  binding  my-app-namespace/example-placement-member2-<hash>  RolloutStarted=True  by example-run-1

                  then  let the newer run finish:  flagship watch -n my-app-namespace example-run-1
                  or  stop it, if it is not what you want:  flagship stop -n my-app-namespace example-run-1
                  more  flagship explain PREEMPTED
                [exit 5]
            "#]],
        ),
    ] {
        let scenario = Scenario::begin(scope).await;
        scenario.deploy("nginx:1.28-typo").await;
        scenario.place(json!({"type": "External"})).await;
        scenario.strategy(json!({"afterStageTasks": [{"type": "Approval"}]})).await;
        scenario.run("example-run", "Run").await;
        scenario.until_failed_on("member2").await;
        scenario.deploy("nginx:1.28").await;
        scenario.pass(2).await;
        scenario.run("example-run-1", "Run").await;
        scenario.until("example-run", "UpdateRunFailed").await;
        told.assert_eq(&scenario.why("example-run").await);
    }
}

// A run that took over and is done is still the one to be named.
#[tokio::test(start_paused = true)]
async fn a_rival_that_has_ended_is_named_too() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.deploy("nginx:1.28-typo").await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({})).await;
    scenario.run("example-run", "Run").await;
    scenario.until_failed_on("member2").await;
    scenario.deploy("nginx:1.28").await;
    scenario.pass(2).await;
    scenario.run("example-run-1", "Run").await;
    scenario.until("example-run-1", "UpdateRunSucceeded").await;
    expect![[r#"
        example-run failed: example-run-1 took over member2 in stage staging.

          cause  PREEMPTED  another run or person took over a cluster
          because  example-run-1 gave member2 snapshot 1; example-run had begun to give it snapshot 0, and gave up at <moment>

          run  example-run  Succeeded=False  UpdateRunFailed
          binding  example-placement-member2-<hash>  RolloutStarted=True  by example-run-1

          look  see how the newer run ended:  flagship status example-run-1
          more  flagship explain PREEMPTED
        [exit 5]
    "#]].assert_eq(&scenario.why("example-run").await);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_leaves_under_a_run_ends_it() {
    let scenario =
        Scenario::rolling(CLUSTER, json!({"beforeStageTasks": [{"type": "Approval"}]})).await;
    scenario.until("example-run", "UpdateRunWaiting").await;
    scenario.hub().delete("memberclusters", "", "member3").await;
    scenario.until("example-run", "UpdateRunFailed").await;
    expect![[r#"
        example-run failed: member3 left the fleet while the run was under way.

          cause  CLUSTERS_CHANGED  the set of clusters changed during the run
          because  some clusters are not placed in any stage, total 1, showing up to 10: member3

          run  example-run  Succeeded=False  UpdateRunFailed

          look  see who is in the fleet:  flagship clusters
          then  start again with a new run:  flagship run example-placement
          more  flagship explain CLUSTERS_CHANGED
        [exit 5]
    "#]]
    .assert_eq(&scenario.why("example-run").await);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_not_there_is_said_so() {
    let scenario = Scenario::begin(CLUSTER).await;
    expect![[r#"
        there is no run no-such-run.

          cause  NOT_FOUND  there is no such object

          look  see which runs exist:  kubectl --context hub get csur
          more  flagship explain NOT_FOUND
        [exit 5]
    "#]]
    .assert_eq(&scenario.why("run no-such-run").await);
    // Nobody said what it is: so nothing of that name is what is found.
    expect![[r#"
        there is no run, placement or member no-such-thing.

          cause  NOT_FOUND  there is no such object

          look  see which runs exist:  kubectl --context hub get csur,sur -A
          look  see which placements exist:  kubectl --context hub get crp,rp -A
          look  see which members exist:  flagship clusters
          more  flagship explain NOT_FOUND
        [exit 5]
    "#]]
    .assert_eq(&scenario.why("no-such-thing").await);
}
