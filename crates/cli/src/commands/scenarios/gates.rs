//! Runs that wait because somebody or something says so: states, approvals, time.

use expect_test::expect;
use serde_json::{Value, json};

use super::{CLUSTER, NAMESPACED, Scenario, Scope};

// Guide 2 "Things to keep in mind when using ClusterStagedUpdateRun", guide 5 "Things to
// keep in mind when using updateRun": a run without a state.
#[tokio::test(start_paused = true)]
async fn a_run_without_a_state_waits_to_be_started() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({})).await;
    scenario.run_with("example-run", json!({})).await;
    scenario.until("example-run", "UpdateRunInitializedSuccessfully").await;
    expect![[r#"
        example-run is initialized and has not been started.

          cause  NOT_STARTED  spec.state is Initialize: the stages are computed, and nothing is rolled out

          run  example-run  Initialized=True  UpdateRunInitializedSuccessfully

          fix  start it:  flagship resume example-run
          more  flagship explain NOT_STARTED
        [exit 4]
    "#]].assert_eq(&scenario.why("example-run").await);
}

// Guide 5 "Things to keep in mind when using updateRun": a run created stopped.
#[tokio::test(start_paused = true)]
async fn a_run_created_stopped_stands() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({})).await;
    scenario.run("example-run", "Stop").await;
    scenario.until("example-run", "UpdateRunStopped").await;
    expect![[r#"
        example-run is stopped.

          cause  STOPPED  spec.state is Stop; 3 cluster(s) are still on what they had

          run  example-run  Progressing=False  UpdateRunStopped

          fix  go on:  flagship resume example-run
          more  flagship explain STOPPED
        [exit 4]
    "#]]
    .assert_eq(&scenario.why("example-run").await);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_stopped_on_the_way_says_what_is_left() {
    let scenario =
        Scenario::rolling(CLUSTER, json!({"afterStageTasks": [{"type": "Approval"}]})).await;
    scenario.until("example-run", "UpdateRunWaiting").await;
    scenario.patch("StagedUpdateRun", "example-run", json!({"spec": {"state": "Stop"}})).await;
    scenario.until("example-run", "UpdateRunStopped").await;
    expect![[r#"
        example-run is stopped.

          cause  STOPPED  spec.state is Stop; 2 cluster(s) are still on what they had

          run  example-run  Progressing=False  UpdateRunStopped

          fix  go on:  flagship resume example-run
          more  flagship explain STOPPED
        [exit 4]
    "#]]
    .assert_eq(&scenario.why("example-run").await);
}

// Guide 3 "Investigate errors" shows a run that waits before its first stage.
#[tokio::test(start_paused = true)]
async fn an_approval_before_a_stage_is_asked_for() {
    for (scope, told) in [
        (
            CLUSTER,
            expect![[r#"
                example-run waits for an approval before stage staging for <age>.

                  cause  APPROVAL_MISSING  nobody has approved example-run-before-staging

                  run  example-run  Progressing=False  UpdateRunWaiting
                  stage  staging  Progressing=False  StageUpdatingWaiting
                  approval  example-run-before-staging  not approved

                  fix  approve it:  flagship approve example-run staging
                  look  see the request:  kubectl --context hub describe careq example-run-before-staging
                  more  flagship explain APPROVAL_MISSING
                [exit 4]
            "#]],
        ),
        (
            NAMESPACED,
            expect![[r#"
                my-app-namespace/example-run waits for an approval before stage staging for <age>.

                  cause  APPROVAL_MISSING  nobody has approved example-run-before-staging

                  run  my-app-namespace/example-run  Progressing=False  UpdateRunWaiting
                  stage  staging  Progressing=False  StageUpdatingWaiting
                  approval  example-run-before-staging  not approved

                  fix  approve it:  flagship approve -n my-app-namespace example-run staging
                  look  see the request:  kubectl --context hub -n my-app-namespace describe areq example-run-before-staging
                  more  flagship explain APPROVAL_MISSING
                [exit 4]
            "#]],
        ),
    ] {
        let scenario =
            Scenario::rolling(scope, json!({"beforeStageTasks": [{"type": "Approval"}]})).await;
        scenario.until("example-run", "UpdateRunWaiting").await;
        told.assert_eq(&scenario.why("example-run").await);
    }
}

#[tokio::test(start_paused = true)]
async fn an_approval_after_a_stage_is_asked_for_beside_a_wait() {
    let tasks =
        json!({"afterStageTasks": [{"type": "TimedWait", "waitTime": "1h"}, {"type": "Approval"}]});
    let scenario = Scenario::rolling(CLUSTER, tasks).await;
    scenario.until("example-run", "UpdateRunWaiting").await;
    expect![[r#"
        example-run waits for an approval after stage staging for <age>.

          cause  APPROVAL_MISSING  nobody has approved example-run-after-staging
          because  the stage also waits until <moment>

          run  example-run  Progressing=False  UpdateRunWaiting
          stage  staging  Progressing=False  StageUpdatingWaiting
          approval  example-run-after-staging  not approved

          fix  approve it:  flagship approve example-run staging
          look  see the request:  kubectl --context hub describe careq example-run-after-staging
          more  flagship explain APPROVAL_MISSING
        [exit 4]
    "#]]
    .assert_eq(&scenario.why("example-run").await);
}

#[tokio::test(start_paused = true)]
async fn a_timed_wait_says_how_long_it_still_is() {
    let tasks = json!({"afterStageTasks": [{"type": "TimedWait", "waitTime": "1h"}]});
    let scenario = Scenario::rolling(CLUSTER, tasks).await;
    scenario.until("example-run", "UpdateRunWaiting").await;
    scenario.pass(1200).await;
    expect![[r#"
        example-run waits <age> more after stage staging.

          cause  TIMED_WAIT  the wait after stage staging ends at <moment>

          run  example-run  Progressing=False  UpdateRunWaiting
          stage  staging  Progressing=False  StageUpdatingWaiting

          more  flagship explain TIMED_WAIT
        [exit 4]
    "#]]
    .assert_eq(&scenario.why("example-run").await);
}

/// Approves as the guides show it going wrong: with a generation that is not the request's.
async fn approve_nothing(scenario: &Scenario, request: &str) {
    let approved: Value = json!({"conditions": [{"type": "Approved", "status": "True",
        "reason": "approved", "message": "approved", "observedGeneration": 0,
        "lastTransitionTime": scenario.fleet.env.now().to_string()}]});
    let kind = scenario.scope.kind("ApprovalRequest");
    scenario.hub().patch_status(&kind, scenario.scope.space(), request, approved).await;
}

async fn approved_in_vain(scope: Scope, tasks: Value, request: &str) -> Scenario {
    let scenario = Scenario::rolling(scope, tasks).await;
    scenario.until("example-run", "UpdateRunWaiting").await;
    approve_nothing(&scenario, request).await;
    scenario.pass(60).await;
    scenario
}

// Guide 5 "ClusterApprovalRequest Troubleshooting".
#[tokio::test(start_paused = true)]
async fn an_approval_of_another_generation_is_found_out() {
    let tasks = json!({"afterStageTasks": [{"type": "Approval"}]});
    let scenario = approved_in_vain(CLUSTER, tasks, "example-run-after-staging").await;
    expect![[r#"
        example-run waits for an approval after stage staging for <age>.

          cause  APPROVAL_STALE  example-run-after-staging says Approved=True, but not for the request's generation, so it does not count

          run  example-run  Progressing=False  UpdateRunWaiting
          stage  staging  Progressing=False  StageUpdatingWaiting
          approval  example-run-after-staging  Approved=True  for another generation

          fix  approve it:  flagship approve example-run staging
          look  see the request:  kubectl --context hub describe careq example-run-after-staging
          more  flagship explain APPROVAL_STALE
        [exit 4]
    "#]].assert_eq(&scenario.why("example-run").await);
}

// Guide 5 "Namespace-Scoped Approval Troubleshooting".
#[tokio::test(start_paused = true)]
async fn a_namespaced_approval_of_another_generation_is_found_out() {
    let tasks = json!({"beforeStageTasks": [{"type": "Approval"}]});
    let scenario = approved_in_vain(NAMESPACED, tasks, "example-run-before-staging").await;
    expect![[r#"
        my-app-namespace/example-run waits for an approval before stage staging for <age>.

          cause  APPROVAL_STALE  example-run-before-staging says Approved=True, but not for the request's generation, so it does not count

          run  my-app-namespace/example-run  Progressing=False  UpdateRunWaiting
          stage  staging  Progressing=False  StageUpdatingWaiting
          approval  example-run-before-staging  Approved=True  for another generation

          fix  approve it:  flagship approve -n my-app-namespace example-run staging
          look  see the request:  kubectl --context hub -n my-app-namespace describe areq example-run-before-staging
          more  flagship explain APPROVAL_STALE
        [exit 4]
    "#]].assert_eq(&scenario.why("example-run").await);
}
