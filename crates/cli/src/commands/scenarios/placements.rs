//! Placements before, beside and without runs.

use expect_test::expect;
use serde_json::json;

use super::{CLUSTER, NAMESPACED, Scenario, container};

// Guide 4 "Placement status without Staged Update Run", guide 5 "CRP status without Staged
// Update Run" and "ResourcePlacement status without Staged Update Run".
#[tokio::test(start_paused = true)]
async fn an_external_placement_waits_for_a_run() {
    for (scope, told) in [
        (
            CLUSTER,
            expect![[r#"
                example-placement has 3 cluster(s) and waits for a run.

                  cause  RUN_MISSING  its strategy is External: nothing is rolled out until a run says so

                  placement example-placement  ClusterResourcePlacementRolloutStarted=Unknown  RolloutControlledByExternalController

                  look  see what a run would do:  flagship plan example-placement
                  fix  start one:  flagship run example-placement
                  more  flagship explain RUN_MISSING
                [exit 4]
            "#]],
        ),
        (
            NAMESPACED,
            expect![[r#"
                my-app-namespace/example-placement has 3 cluster(s) and waits for a run.

                  cause  RUN_MISSING  its strategy is External: nothing is rolled out until a run says so

                  placement my-app-namespace/example-placement  ResourcePlacementRolloutStarted=Unknown  RolloutControlledByExternalController

                  look  see what a run would do:  flagship plan -n my-app-namespace example-placement
                  fix  start one:  flagship run -n my-app-namespace example-placement
                  more  flagship explain RUN_MISSING
                [exit 4]
            "#]],
        ),
    ] {
        let scenario = Scenario::begin(scope).await;
        scenario.place(json!({"type": "External"})).await;
        told.assert_eq(&scenario.why("placement example-placement").await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_placement_leads_to_the_run_that_rolls_it_out() {
    let scenario =
        Scenario::rolling(CLUSTER, json!({"afterStageTasks": [{"type": "Approval"}]})).await;
    scenario.until("example-run", "UpdateRunWaiting").await;
    expect![[r#"
        example-run waits for an approval after stage staging for <age>.

          cause  APPROVAL_MISSING  nobody has approved example-run-after-staging

          placement example-placement  ClusterResourcePlacementRolloutStarted=Unknown  RolloutControlledByExternalController
          run  example-run  Progressing=False  UpdateRunWaiting
          stage  staging  Progressing=False  StageUpdatingWaiting
          approval  example-run-after-staging  not approved

          fix  approve it:  flagship approve example-run staging
          look  see the request:  kubectl --context hub describe careq example-run-after-staging
          more  flagship explain APPROVAL_MISSING
        [exit 4]
    "#]].assert_eq(&scenario.why("example-placement").await);
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_that_holds_back_names_the_cluster_that_holds_it() {
    let scenario = Scenario::begin(CLUSTER).await;
    let careful = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0, "unavailablePeriodSeconds": 1}});
    scenario.place(careful).await;
    scenario
        .hub()
        .becomes(
            "ClusterResourcePlacement",
            "",
            "example-placement",
            "ClusterResourcePlacementAvailable",
            "True",
        )
        .await;
    scenario.deploy_with(json!({}), container("nginx:1.28:latest")).await;
    scenario.until_failed_on("member1").await;
    scenario.pass(10).await;
    expect![[r#"
        example-placement is not done on member1.

          cause  IMAGE_NAME_INVALID  Deployment test-namespace/nginx-deployment cannot start a pod
          because  container nginx: image "nginx:1.28:latest" is not a valid reference

          placement example-placement  ClusterResourcePlacementRolloutStarted=False  RolloutNotStartedYet
          binding  example-placement-member1-<hash>  Available=False  NotAllWorkAreAvailable
          work  fleet-member-member1/example-placement-work  Available=False  ManifestNotAvailableYet
          object  Deployment test-namespace/nginx-deployment  (member1)  3/3 ready, 1 of the new version
          pod  nginx-deployment-<hash>-<id>  InvalidImageName

          fix  correct the image on the hub:  kubectl --context hub -n test-namespace set image deployment.apps/nginx-deployment nginx=IMAGE
          more  flagship explain IMAGE_NAME_INVALID
        [exit 3]
    "#]].assert_eq(&scenario.why("placement example-placement").await);
    expect![[r#"
        example-placement is not done on member3.

          cause  ROLLOUT_HELD_BACK  member3 keeps what it has until others are available
          because  The resources cannot be updated to the latest because of the rollout strategy

          binding  example-placement-member3-<hash>  RolloutStarted=False  RolloutNotStartedYet

          look  see who holds it back:  flagship why placement example-placement
          more  flagship explain ROLLOUT_HELD_BACK
        [exit 4]
    "#]]
    .assert_eq(&scenario.why("cluster member3").await);
}

#[tokio::test(start_paused = true)]
async fn a_placement_that_is_everywhere_is_done() {
    let scenario = Scenario::rolling(NAMESPACED, json!({})).await;
    scenario.until("example-run", "UpdateRunSucceeded").await;
    scenario.pass(2).await;
    expect![[r#"
        my-app-namespace/example-placement is on all 3 cluster(s), snapshot 0.

          cause  DONE  everything asked for has happened

          placement my-app-namespace/example-placement  ResourcePlacementAvailable=True  ResourceAvailable
        [exit 0]
    "#]].assert_eq(&scenario.why("placement example-placement").await);
    expect![[r#"
        my-app-namespace/example-run is done: 3 cluster(s) run snapshot 0 of example-placement.

          cause  DONE  everything asked for has happened

          run  my-app-namespace/example-run  Succeeded=True  UpdateRunSucceeded
        [exit 0]
    "#]]
    .assert_eq(&scenario.why("run example-run").await);
}

#[tokio::test(start_paused = true)]
async fn a_selector_of_nothing_that_exists_is_told() {
    // On a hub without webhooks: they would have refused it.
    let scenario = Scenario::with(CLUSTER, |config| config.hub_admission = false).await;
    let selectors =
        json!([{"group": "example.com", "version": "v1", "kind": "Nonesuch", "name": "x"}]);
    scenario.place_with(json!({"resourceSelectors": selectors, "policy": {"placementType": "PickAll"}, "strategy": {"type": "External"}})).await;
    scenario.pass(5).await;
    expect![[r#"
        example-placement selects something that cannot be placed.

          cause  SELECTION_INVALID  the placement's resource selectors have a mistake
          because  invalid placement /example-placement, failed to get GVR of the selector: no matches for kind "Nonesuch" in version "example.com/v1"

          placement example-placement  ClusterResourcePlacementScheduled=False  InvalidResourceSelectors

          fix  correct the selectors:  kubectl --context hub edit crp example-placement
          more  flagship explain SELECTION_INVALID
        [exit 3]
    "#]].assert_eq(&scenario.why("placement example-placement").await);
}
