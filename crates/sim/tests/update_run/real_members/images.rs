//! Deployments: what a person does with kubectl on the hub arrives as Pods on the members,
//! stage by stage, or does not.

use flagship_sim::fleet::{Fleet, FleetConfig};
use serde_json::{Value, json};

use crate::hub_world::text;
use crate::story::said;

const STRATEGY: &str = "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: example-strategy}
spec:
  stages:
  - {name: staging, labelSelector: {matchLabels: {environment: staging}}, afterStageTasks: [{type: Approval}]}
  - {name: canary, labelSelector: {matchLabels: {environment: canary}}, maxConcurrency: 2}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: example-placement}
spec:
  resourceSelectors: [{group: '', kind: Namespace, version: v1, name: test-namespace}]
  policy: {placementType: PickAll}
  strategy: {type: External}
";

/// Three members, `member2` is the staging one; a Deployment waits to be rolled out.
async fn fleet() -> Fleet {
    let config = FleetConfig::of(3)
        .labelled("member1", "environment", "canary")
        .labelled("member2", "environment", "staging")
        .labelled("member3", "environment", "canary");
    let mut config = config;
    config.workloads.missing_images = vec!["nginx:broken".to_owned()];
    let fleet = Fleet::joined(config).await;
    fleet
        .world
        .hub
        .apply("{apiVersion: v1, kind: Namespace, metadata: {name: test-namespace}}")
        .await;
    deploy(&fleet, "nginx:1.20").await;
    fleet.world.hub.apply(STRATEGY).await;
    let kind = "ClusterResourcePlacementScheduled";
    fleet
        .world
        .hub
        .becomes("clusterresourceplacements", "", "example-placement", kind, "True")
        .await;
    fleet
}

async fn deploy(fleet: &Fleet, image: &str) {
    let labels = json!({"app": "web"});
    fleet
        .world
        .hub
        .apply_object(&json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "test-namespace"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": image}]}}},
        }))
        .await;
}

async fn run(fleet: &Fleet, name: &str) {
    fleet
        .world
        .hub
        .apply_object(&json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterStagedUpdateRun",
            "metadata": {"name": name},
            "spec": {"placementName": "example-placement",
                "stagedRolloutStrategyName": "example-strategy", "state": "Run"},
        }))
        .await;
}

async fn approve(fleet: &Fleet, request: &str) {
    let hub = &fleet.world.hub;
    hub.eventually("clusterapprovalrequests", "", request, |found| found.is_some()).await;
    let approved = json!({"type": "Approved", "status": "True", "reason": "approved",
        "message": "approved", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    hub.patch_status("clusterapprovalrequests", "", request, json!({"conditions": [approved]}))
        .await;
}

/// The image that runs on a member; empty if nothing does.
async fn image(fleet: &Fleet, member: &str) -> String {
    let found = fleet.world.member(member).find("deployments", "test-namespace", "web").await;
    let found = found.unwrap_or_default();
    text(&found["spec"]["template"]["spec"]["containers"][0]["image"])
}

async fn status(fleet: &Fleet, name: &str) -> Value {
    fleet.world.hub.get("clusterstagedupdateruns", "", name).await["status"].clone()
}

// checklist 13.7 omitted index: snapshot 0 created, staging first, approvals, the rest
#[tokio::test(start_paused = true)]
async fn a_version_reaches_real_members_stage_by_stage() {
    let fleet = fleet().await;
    let hub = &fleet.world.hub;
    run(&fleet, "example-run").await;
    hub.eventually("clusterapprovalrequests", "", "example-run-after-staging", |f| f.is_some())
        .await;
    assert_eq!(image(&fleet, "member2").await, "nginx:1.20");
    assert_eq!(
        (image(&fleet, "member1").await, image(&fleet, "member3").await),
        (String::new(), String::new())
    );
    approve(&fleet, "example-run-after-staging").await;
    hub.becomes("clusterstagedupdateruns", "", "example-run", "Succeeded", "True").await;
    for member in ["member1", "member2", "member3"] {
        assert_eq!(image(&fleet, member).await, "nginx:1.20", "{member}");
    }
    let placement = "example-placement";
    let kind = "ClusterResourcePlacementAvailable";
    let placement = hub.becomes("clusterresourceplacements", "", placement, kind, "True").await;
    assert_eq!(placement["status"]["observedResourceIndex"], "0");
    // An edit alone changes nothing; the next run takes it along.
    deploy(&fleet, "nginx:1.21").await;
    fleet.pass(120).await;
    assert_eq!(image(&fleet, "member2").await, "nginx:1.20");
    run(&fleet, "second").await;
    approve(&fleet, "second-after-staging").await;
    hub.becomes("clusterstagedupdateruns", "", "second", "Succeeded", "True").await;
    assert_eq!(image(&fleet, "member3").await, "nginx:1.21");
}

// scenario 11 end to end: an image that cannot be pulled, and its repair
#[tokio::test(start_paused = true)]
async fn an_image_that_cannot_be_pulled_stops_the_run_at_its_first_stage() {
    let fleet = fleet().await;
    let hub = &fleet.world.hub;
    run(&fleet, "good").await;
    approve(&fleet, "good-after-staging").await;
    hub.becomes("clusterstagedupdateruns", "", "good", "Succeeded", "True").await;
    deploy(&fleet, "nginx:broken").await;
    run(&fleet, "example-run").await;
    fleet.pass(310).await;
    let told = status(&fleet, "example-run").await;
    assert_eq!(
        said(&told["conditions"], "Progressing"),
        "False UpdateRunStuck: The updateRun is stuck waiting for member2 cluster(s) in stage staging to finish updating, please check placement status for potential errors"
    );
    assert_eq!(said(&told["conditions"], "Succeeded"), "");
    assert!(told["stagesStatus"][1].get("conditions").is_none());
    for member in ["member1", "member3"] {
        assert_eq!(image(&fleet, member).await, "nginx:1.20", "{member} is not touched");
    }
    let placement = hub.get("clusterresourceplacements", "", "example-placement").await;
    let clusters = placement["status"]["placementStatuses"].as_array().cloned().unwrap_or_default();
    let sick = clusters.iter().find(|c| c["clusterName"] == "member2").cloned().unwrap_or_default();
    assert!(said(&sick["conditions"], "Applied").starts_with("True"), "{sick:#}");
    assert!(
        said(&sick["conditions"], "Available").starts_with(
            "False NotAllWorkAreAvailable: Work object example-placement-work is not yet available"
        ),
        "{sick:#}"
    );
    assert_eq!(sick["failedPlacements"][0]["condition"]["reason"], "ManifestNotAvailableYet");
    // A new run with a working image takes over from the stuck one.
    deploy(&fleet, "nginx:1.21").await;
    run(&fleet, "repair").await;
    approve(&fleet, "repair-after-staging").await;
    hub.becomes("clusterstagedupdateruns", "", "repair", "Succeeded", "True").await;
    let lost = status(&fleet, "example-run").await;
    let failed = said(&lost["conditions"], "Succeeded");
    assert!(
        failed.contains("the binding of the updating cluster `member2` in the stage `staging`"),
        "{failed}"
    );
    for member in ["member1", "member2", "member3"] {
        assert_eq!(image(&fleet, member).await, "nginx:1.21", "{member}");
    }
}
