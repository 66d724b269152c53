//! Stories of the scheduler at work: a hub on the embedded server, paused time,
//! policy snapshots written by hand.
//!
//! What it decides is told beside the rules; here is when it looks, what it writes,
//! and what it leaves alone.

mod hub_world;

use expect_test::expect;
use hub_world::{CRB, CRP, CSPS, World, text};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_policy_puts_a_binding_on_every_ready_cluster() {
    let world = World::running(1).await;
    world.cluster("m1", json!({})).await;
    world.cluster("m2", json!({})).await;
    world.newcomer("m3", json!({})).await;
    world.places("web", json!({"placementType": "PickAll"})).await;
    world.settle().await;
    assert_eq!(world.bindings("web"), ["m1 Scheduled web-0", "m2 Scheduled web-0"]);
    let binding = &world.bindings_of(CRB, "web")[0];
    let name = text(&binding["metadata"]["name"]);
    assert!(name.starts_with("web-m1-") && name.len() == "web-m1-".len() + 8, "{name}");
    expect![[r#"
        {
          "clusterDecision": {
            "clusterName": "m1",
            "clusterScore": {
              "affinityScore": 0,
              "priorityScore": 0
            },
            "reason": "Successfully scheduled resources for placement in \"m1\" (affinity score: 0, topology spread score: 0): picked by scheduling policy",
            "selected": true
          },
          "resourceSnapshotName": "",
          "schedulingPolicySnapshotName": "web-0",
          "state": "Scheduled",
          "targetCluster": "m1"
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&binding["spec"]).unwrap());
    assert_eq!(
        binding["metadata"]["finalizers"],
        json!(["kubernetes-fleet.io/scheduler-crb-cleanup"])
    );
    assert!(binding["metadata"]["ownerReferences"].is_null());
    assert_eq!(
        world.get(CRP, "", "web")["metadata"]["finalizers"],
        json!(["kubernetes-fleet.io/scheduler-cleanup"])
    );
    expect![[r#"
        True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 2 cluster(s) (generation 1)
        + Successfully scheduled resources for placement in "m1" (affinity score: 0, topology spread score: 0): picked by scheduling policy
        + Successfully scheduled resources for placement in "m2" (affinity score: 0, topology spread score: 0): picked by scheduling policy
        - ClusterUnschedulable, cluster is not connected to the fleet: member agent not online yet
    "#]]
    .assert_eq(&world.decision(CSPS, "", "web-0"));
}
