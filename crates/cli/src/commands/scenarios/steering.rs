//! What steering commands refuse, so that nobody does harm by following advice.

use expect_test::expect;
use serde_json::json;

use super::{CLUSTER, NAMESPACED, Scenario, Scope, stage};

/// `example-run` waits for an approval after staging; `later-run` has brought the next
/// version everywhere.
async fn passed_by_a_newer_run(scope: Scope) -> Scenario {
    let scenario =
        Scenario::rolling(scope, json!({"afterStageTasks": [{"type": "Approval"}]})).await;
    scenario.until("example-run", "UpdateRunWaiting").await;
    scenario.deploy("nginx:1.28").await;
    let stages = json!([stage("staging", json!({})), stage("canary", json!({}))]);
    scenario.make("StagedUpdateStrategy", "straight", json!({"stages": stages})).await;
    let later = json!({"state": "Run", "stagedRolloutStrategyName": "straight"});
    scenario.run_with("later-run", later).await;
    scenario.until("later-run", "UpdateRunSucceeded").await;
    scenario
}

#[tokio::test(start_paused = true)]
async fn an_old_waiting_run_does_not_downgrade_silently() {
    let scenario = passed_by_a_newer_run(CLUSTER).await;
    expect![[r#"
        example-run waits, and later-run, a newer run, has taken 3 of its 3 cluster(s) to snapshot 1, <age> ago.

          cause  SUPERSEDED  if it goes on, it takes them back to snapshot 0

          run  example-run  Progressing=False  UpdateRunWaiting
          stage  staging  Progressing=False  StageUpdatingWaiting
          approval  example-run-after-staging  not approved

          fix  end it:  kubectl --context hub delete csur example-run
          look  see the newer run:  flagship status later-run
          or  go back on purpose:  flagship approve example-run staging --force
          more  flagship explain SUPERSEDED
        [exit 4]
    "#]].assert_eq(&scenario.why("example-run").await);
    expect![[r#"
        example-run  example-placement (snapshot 0)  WAITING  stage 1 of 2  0/3 clusters  <clock>

          staging  ⇢ member2 taken by later-run  ◐ after: approval
          canary  ⇢ member1 taken by later-run  ⇢ member3 taken by later-run

          next: example-run waits, and later-run, a newer run, has taken 3 of its 3 cluster(s) to snapshot 1, <age> ago. kubectl --context hub delete csur example-run
        [exit 4]
    "#]].assert_eq(&scenario.status("example-run").await);
    expect![[r#"
        error: later-run, a newer run, has taken 3 of its 3 cluster(s) to snapshot 1, <age> ago; if example-run goes on, it takes them back to snapshot 0. `flagship why example-run` says more, --force does it all the same
    "#]].assert_eq(&scenario.approve("example-run").await);
    let planned = scenario.plan("example-placement --strategy straight").await;
    assert!(
        planned.contains("note:  example-run is still open, and later-run, a newer run, has taken 3 of its 3 cluster(s) to snapshot 1 at <moment>"),
        "{planned}"
    );
    // A waiting run looks once a minute at the latest.
    scenario.pass(61).await;
    let events = scenario.hub().events("ClusterStagedUpdateRun").await;
    let told: Vec<&String> =
        events.iter().filter(|event| event.contains("UpdateRunSuperseded")).collect();
    assert_eq!(told.len(), 1, "{events:#?}");
    assert!(
        told[0].contains("later-run, a newer run, has taken 3 of its 3 cluster(s)"),
        "{told:?}"
    );
    expect![[r#"
        example-run-after-staging approved
        follow it:  flagship watch example-run
        [exit 0]
    "#]]
    .assert_eq(&scenario.approve("example-run --force").await);
    scenario.until("example-run", "UpdateRunSucceeded").await;
    // Now it is the newer run whose clusters were taken.
    expect![[r#"
        later-run  example-placement (snapshot 1)  SUCCEEDED  stage 2 of 2  1/3 clusters  <clock>

          staging  ✔ member2
          canary  ⇢ member1 taken by example-run  ⇢ member3 taken by example-run

          next: later-run is done; since then example-run, an older run, has taken 2 of its 3 cluster(s) to snapshot 0.
        [exit 0]
    "#]]
    .assert_eq(&scenario.status("later-run").await);
    expect![[r#"
        later-run is done; since then example-run, an older run, has taken 2 of its 3 cluster(s) to snapshot 0.

          cause  DONE  everything asked for has happened

          run  later-run  Succeeded=True  UpdateRunSucceeded
        [exit 0]
    "#]].assert_eq(&scenario.why("later-run").await);
}

#[tokio::test(start_paused = true)]
async fn an_old_stopped_run_is_not_resumed_silently() {
    let scenario = passed_by_a_newer_run(NAMESPACED).await;
    scenario.patch("StagedUpdateRun", "example-run", json!({"spec": {"state": "Stop"}})).await;
    scenario.until("example-run", "UpdateRunStopped").await;
    expect![[r#"
        error: later-run, a newer run, has taken 3 of its 3 cluster(s) to snapshot 1, <age> ago; if my-app-namespace/example-run goes on, it takes them back to snapshot 0. `flagship why -n my-app-namespace example-run` says more, --force does it all the same
    "#]].assert_eq(&scenario.resume("example-run").await);
    expect![[r#"
        my-app-namespace/example-run goes on
        follow it:  flagship watch -n my-app-namespace example-run
        [exit 0]
    "#]]
    .assert_eq(&scenario.resume("example-run --force").await);
}

#[tokio::test(start_paused = true)]
async fn run_and_rollback_create_no_doomed_run() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({})).await;
    expect![[r#"
        a run of example-placement would be refused: there is no strategy nope.

          cause  STRATEGY_MISSING  the strategy does not exist
          because  referenced updateStrategy not found: `/nope`

          look  see which strategies exist:  kubectl --context hub get csus
          then  start again with a new run:  flagship run example-placement
          more  flagship explain STRATEGY_MISSING

        Nothing was created; --anyway creates the run all the same.
        [exit 5]
    "#]]
    .assert_eq(&scenario.start("example-placement --strategy nope").await);
    expect![[r#"
        a run of example-placement would be refused: example-placement has no snapshot 99.

          cause  SNAPSHOT_MISSING  the resource snapshot does not exist
          because  no resourceSnapshots with index `99` found for placement `/example-placement`

          look  see which versions exist:  kubectl --context hub get clusterresourcesnapshots -l kubernetes-fleet.io/parent-CRP=example-placement
          then  roll out what is on the hub now:  flagship run example-placement
          more  flagship explain SNAPSHOT_MISSING

        Nothing was created; --anyway creates the run all the same.
        [exit 5]
    "#]].assert_eq(&scenario.start("example-placement --snapshot 99").await);
    expect![[r#"
        a run of example-placement would be refused: example-placement has no snapshot 99.

          cause  SNAPSHOT_MISSING  the resource snapshot does not exist
          because  no resourceSnapshots with index `99` found for placement `/example-placement`

          look  see which versions exist:  kubectl --context hub get clusterresourcesnapshots -l kubernetes-fleet.io/parent-CRP=example-placement
          then  roll out what is on the hub now:  flagship run example-placement
          more  flagship explain SNAPSHOT_MISSING

        Nothing was created; --anyway creates the run all the same.
        [exit 5]
    "#]].assert_eq(&scenario.rollback("example-placement --to 99").await);
    let runs = scenario.hub().list("ClusterStagedUpdateRun", "").await;
    assert_eq!(runs.len(), 0, "{runs:#?}");
    expect![[r#"
        example-placement-1 created: rolls out snapshot 99 of example-placement, with strategy example-strategy
        follow it:  flagship watch example-placement-1
        [exit 0]
    "#]].assert_eq(&scenario.start("example-placement --snapshot 99 --anyway").await);
    scenario.until("example-placement-1", "UpdateRunInitializedFailed").await;
}

#[tokio::test(start_paused = true)]
async fn a_placement_that_rolls_out_by_itself_gets_no_run() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.place(json!({"type": "RollingUpdate"})).await;
    scenario.strategy(json!({})).await;
    expect![[r#"
        a run of example-placement would be refused: placement example-placement rolls out by itself and takes no runs.

          cause  PLACEMENT_NOT_EXTERNAL  the placement does not leave rollouts to runs
          because  parent placement does not have an external rollout strategy, current strategy: RollingUpdate

          fix  leave rollouts to runs:  kubectl --context hub patch crp example-placement --type=merge -p '{"spec":{"strategy":{"type":"External"}}}'
          then  start again with a new run:  flagship run example-placement
          more  flagship explain PLACEMENT_NOT_EXTERNAL

        Nothing was created; --anyway creates the run all the same.
        [exit 5]
    "#]].assert_eq(&scenario.start("example-placement").await);
}

// The API's own words for it are a rule in CEL.
#[tokio::test(start_paused = true)]
async fn a_run_that_was_never_started_is_not_stopped() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({})).await;
    scenario.run("example-run", "Initialize").await;
    scenario.until("example-run", "UpdateRunInitializedSuccessfully").await;
    expect![[r#"
        error: example-run was not started, so there is nothing to stop; start it: flagship resume example-run
    "#]].assert_eq(&scenario.stop("example-run").await);
}
