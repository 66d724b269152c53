//! Statuses that come back from a member to the selected objects on the hub.

use serde_json::{Value, json};

use crate::work::story::{CLUSTER_WIDE, Story};
use flagship_sim::testing::{CRP, WORK};

const SPACE: &str = "fleet-member-m1";

const INGRESSES: &str = "ingresses.networking.k8s.io";

/// An Ingress of namespace `app`: nobody on the hub writes its status but us.
fn ingress() -> Value {
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "web", "namespace": "app"}, "spec": {"defaultBackend": backend}})
}

fn status(address: &str) -> Value {
    json!({"loadBalancer": {"ingress": [{"ip": address}]}})
}

/// A placement with these policy and selection, delivered to `m1`, with statuses to come back.
async fn placed(story: &Story, policy: Value, selected: &[&str]) {
    let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
    let mirror = json!({"type": "Mirror", "destination": "OriginalResource"});
    let spec = json!({"resourceSelectors": selector, "policy": policy,
        "strategy": {"reportBackStrategy": mirror}});
    story.create(CRP, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let selected: Vec<Value> = selected
        .iter()
        .map(|name| {
            json!({"group": "networking.k8s.io", "version": "v1", "kind": "Ingress", "name": name,
                "namespace": "app"})
        })
        .collect();
    story.says(CRP, "", "web", json!({"selectedResources": selected})).await;
    story.create(INGRESSES, ingress()).await;
    story.snapshots(CLUSTER_WIDE, 0, &[vec![ingress()]]).await;
    story.delivers(CLUSTER_WIDE, "web-m1", "m1", 0).await;
}

/// The member applied the Ingress and tells its status, under this resource name.
async fn reports(story: &Story, resource: &str, address: &str) {
    let told = json!([{
        "identifier": {"ordinal": 0, "group": "networking.k8s.io", "version": "v1",
            "kind": "Ingress", "resource": resource, "name": "web", "namespace": "app"},
        "conditions": [],
        "backReportedStatus": {"observationTime": story.now(), "observedStatus":
            {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "status": status(address)}},
    }]);
    let applied = [("Applied", "True", "AllManifestsApplied")];
    story.member_says("m1", "web-work", &applied, told).await;
    story.pass(1).await;
}

fn found(story: &Story) -> Value {
    story.get(INGRESSES, "app", "web")["status"].clone()
}

// checklist 12.53
#[tokio::test(start_paused = true)]
async fn the_original_shows_what_its_one_member_says() {
    let story = Story::running(1).await;
    let policy = json!({"placementType": "PickFixed", "clusterNames": ["m1"]});
    placed(&story, policy, &["web"]).await;
    assert_eq!(story.get(WORK, SPACE, "web-work")["spec"]["reportBackStrategy"]["type"], "Mirror");
    reports(&story, "ingresses", "10.0.0.1").await;
    assert_eq!(found(&story), status("10.0.0.1"));
    let before = story.writes("hub").len();
    reports(&story, "ingresses", "10.0.0.1").await;
    story.pass(600).await;
    let more: Vec<String> = story.writes("hub")[before..].to_vec();
    assert!(!more.iter().any(|call| call.contains("ingresses")), "{more:?}");
    // The member names another resource for what was selected: it is not believed.
    for lie in ["networkpolicies", "ingresses/status", ""] {
        reports(&story, lie, "6.6.6.6").await;
        assert_eq!(found(&story), status("10.0.0.1"), "{lie}");
    }
    reports(&story, "ingresses", "10.0.0.2").await;
    assert_eq!(found(&story), status("10.0.0.2"));
    // Once it is not selected any more, nothing comes back.
    story.says(CRP, "", "web", json!({"selectedResources": null})).await;
    reports(&story, "ingresses", "10.0.0.3").await;
    assert_eq!(found(&story), status("10.0.0.2"));
}

// checklist 12.53
#[tokio::test(start_paused = true)]
async fn a_placement_on_many_clusters_is_told_why_nothing_comes_back() {
    let story = Story::running(2).await;
    let two = json!({"placementType": "PickN", "numberOfClusters": 2});
    placed(&story, two, &["web"]).await;
    // Said once, however much there is to report.
    for address in ["10.0.0.2", "10.0.0.1"] {
        reports(&story, "ingresses", address).await;
        story.settle().await;
    }
    assert_ne!(found(&story), status("10.0.0.1"));
    assert_eq!(
        story.events("ClusterResourcePlacement"),
        ["Warning StatusBackReportingRefused web: the scheduling policy in use is of the PickN \
          type, but the number of target clusters is not set to 1; cannot back-report status to original resources (x1)"]
    );
    // The policy is changed, and what waited comes back.
    let policy = json!({"numberOfClusters": 1});
    story.patch(CRP, "", "web", json!({"spec": {"policy": policy}})).await;
    story.pass(1).await;
    assert_eq!(found(&story), status("10.0.0.1"));
}
