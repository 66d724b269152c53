//! The fleet itself: members that are away, and a hub that does not answer.

use expect_test::expect;
use flagship_api::names::HUB_LEASE;
use flagship_runtime::lease::LeaseConfig;
use serde_json::json;

use super::{CLUSTER, HUB, NAMESPACED, Scenario};

#[tokio::test(start_paused = true)]
async fn a_member_that_fell_silent_is_named_before_what_it_did_not_do() {
    let mut scenario = Scenario::begin(CLUSTER).await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({})).await;
    scenario.fleet.kill("member2").await;
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunStuck").await;
    scenario.pass(200).await;
    expect![[r#"
        example-run is stuck in stage staging: member2 has not become available for <age>.

          cause  HEARTBEAT_STALE  the agent of member2 last reported <age> ago, and should every <age>

          run  example-run  Progressing=False  UpdateRunStuck
          binding  example-placement-member2-<hash>  Applied=False  ApplyInProgress
          cluster  member2  last heartbeat <moment>

          look  see what the hub knows of it:  kubectl --context hub describe membercluster member2
          fix  start its agent:  flagship member --name member2 --kubeconfig MEMBER --hub-kubeconfig HUB
          then  nothing more: the run goes on by itself
          more  flagship explain HEARTBEAT_STALE
        [exit 3]
    "#]].assert_eq(&scenario.why("example-run").await);
    expect![[r#"
        member2 has not been heard of for <age>.

          cause  HEARTBEAT_STALE  the agent of member2 last reported <age> ago, and should every <age>

          cluster  member2  last heartbeat <moment>

          look  see what the hub knows of it:  kubectl --context hub describe membercluster member2
          fix  start its agent:  flagship member --name member2 --kubeconfig MEMBER --hub-kubeconfig HUB
          more  flagship explain HEARTBEAT_STALE
        [exit 3]
    "#]].assert_eq(&scenario.why("cluster member2").await);
    expect![[r#"
        member1 is healthy; example-placement is not on it yet, its turn in example-run comes.

          cause  IN_PROGRESS  it is moving

          binding  example-placement-member1-<hash>  Scheduled, no conditions yet

          look  see what the run waits for:  flagship why example-run
          more  flagship explain IN_PROGRESS
        [exit 4]
    "#]]
    .assert_eq(&scenario.why("cluster member1").await);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_is_not_running_is_named_for_runs_placements_and_members() {
    let mut scenario = Scenario::begin(CLUSTER).await;
    scenario.strategy(json!({})).await;
    scenario.fleet.kill(HUB).await;
    scenario
        .place_with(
            json!({"policy": {"placementType": "PickAll"}, "strategy": {"type": "External"}}),
        )
        .await;
    scenario.run("example-run", "Run").await;
    scenario.pass(200).await;
    expect![[r#"
        example-run does not move: the hub's controllers have been silent for <age>.

          cause  HUB_SILENT  the hub's controllers do not answer
          because  members report, and nobody has taken it down since <moment>

          run  example-run  no conditions yet

          fix  start the embedded fleet:  flagship up
          or  look at the controllers on a real hub:  kubectl --context hub -n fleet-system get pods
          more  flagship explain HUB_SILENT
        [exit 3]
    "#]]
    .assert_eq(&scenario.why("run example-run").await);
    expect![[r#"
        example-placement does not move: the hub's controllers have been silent for <age>.

          cause  HUB_SILENT  the hub's controllers do not answer
          because  members report, and nobody has taken it down since <moment>

          placement example-placement  no conditions yet

          fix  start the embedded fleet:  flagship up
          or  look at the controllers on a real hub:  kubectl --context hub -n fleet-system get pods
          more  flagship explain HUB_SILENT
        [exit 3]
    "#]]
    .assert_eq(&scenario.why("placement example-placement").await);
    expect![[r#"
        nothing new is known of member1: the hub's controllers have been silent for <age>.

          cause  HUB_SILENT  the hub's controllers do not answer
          because  members report, and nobody has taken it down since <moment>

          fix  start the embedded fleet:  flagship up
          or  look at the controllers on a real hub:  kubectl --context hub -n fleet-system get pods
          more  flagship explain HUB_SILENT
        [exit 3]
    "#]]
    .assert_eq(&scenario.why("cluster member1").await);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_died_in_the_middle_of_a_run_is_named() {
    let mut scenario = Scenario::begin(NAMESPACED).await;
    scenario.deploy("nginx:1.28:latest").await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({})).await;
    scenario.run("example-run", "Run").await;
    scenario.until_failed_on("member2").await;
    scenario.fleet.kill(HUB).await;
    scenario.pass(200).await;
    expect![[r#"
        my-app-namespace/example-run does not move: the hub's controllers have been silent for <age>.

          cause  HUB_SILENT  the hub's controllers do not answer
          because  members report, and nobody has taken it down since <moment>

          run  my-app-namespace/example-run  Progressing=True  UpdateRunProgressing

          fix  start the embedded fleet:  flagship up
          or  look at the controllers on a real hub:  kubectl --context hub -n fleet-system get pods
          more  flagship explain HUB_SILENT
        [exit 3]
    "#]].assert_eq(&scenario.why("example-run").await);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_lost_its_lease_is_named() {
    let env = flagship_runtime::env::Env::simulated(7);
    let lease = LeaseConfig::new(&env, HUB_LEASE, "hub");
    let mut scenario = Scenario::with(CLUSTER, |config| config.hub.lease = Some(lease)).await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({"afterStageTasks": [{"type": "Approval"}]})).await;
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunWaiting").await;
    scenario.fleet.kill(HUB).await;
    scenario.pass(200).await;
    expect![[r#"
        example-run does not move: the hub's controllers have been silent for <age>.

          cause  HUB_SILENT  the hub's controllers do not answer
          because  the hub's lease was last renewed at <moment>

          run  example-run  Progressing=False  UpdateRunWaiting

          fix  start the embedded fleet:  flagship up
          or  look at the controllers on a real hub:  kubectl --context hub -n fleet-system get pods
          more  flagship explain HUB_SILENT
        [exit 3]
    "#]]
    .assert_eq(&scenario.why("example-run").await);
    expect![[r#"
        example-placement does not move: the hub's controllers have been silent for <age>.

          cause  HUB_SILENT  the hub's controllers do not answer
          because  the hub's lease was last renewed at <moment>

          placement example-placement  ClusterResourcePlacementRolloutStarted=Unknown  RolloutControlledByExternalController

          fix  start the embedded fleet:  flagship up
          or  look at the controllers on a real hub:  kubectl --context hub -n fleet-system get pods
          more  flagship explain HUB_SILENT
        [exit 3]
    "#]].assert_eq(&scenario.why("placement example-placement").await);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_never_joined_and_one_that_is_cordoned() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.hub()
        .apply("{apiVersion: cluster.kubernetes-fleet.io/v1beta1, kind: MemberCluster, metadata: {name: member4}, spec: {identity: {kind: User, name: member4-agent}}}")
        .await;
    scenario.pass(5).await;
    expect![[r#"
        member4 has not joined.

          cause  CLUSTER_NOT_JOINED  the agent of member4 has not reported that it joined

          cluster  member4  Joined=Unknown  MemberClusterJoinStateUnknown

          fix  start its agent:  flagship member --name member4 --kubeconfig MEMBER --hub-kubeconfig HUB
          more  flagship explain CLUSTER_NOT_JOINED
        [exit 4]
    "#]].assert_eq(&scenario.why("cluster member4").await);
    let taints = json!({"spec": {"taints": [{"key": "maintenance", "value": "true", "effect": "NoSchedule"}]}});
    scenario.hub().patch("memberclusters", "", "member1", taints).await;
    expect![[r#"
        member1 is healthy and takes no new placements.

          cause  CLUSTER_CORDONED  the cluster has taints that keep placements away
          because  maintenance=true:NoSchedule

          look  see its taints:  kubectl --context hub describe membercluster member1
          more  flagship explain CLUSTER_CORDONED
        [exit 4]
    "#]]
    .assert_eq(&scenario.why("cluster member1").await);
    expect![[r#"
        there is no member member9.

          cause  NOT_FOUND  there is no such object

          look  see which members exist:  kubectl --context hub get memberclusters
          more  flagship explain NOT_FOUND
        [exit 5]
    "#]]
    .assert_eq(&scenario.why("cluster member9").await);
}
