//! A tenant of the hub who wants to be more on members.

use flagship_api::keys::own;
use flagship_sim::fleet::{Fleet, FleetConfig, HUB};
use flagship_sim::stories;
use serde_json::{Value, json};

async fn told(config: FleetConfig) {
    let fleet = Fleet::joined(config).await;
    stories::named(stories::TENANT)(&fleet.clusters).await;
}

#[tokio::test(start_paused = true)]
async fn a_tenant_reaches_nothing_but_its_namespace() {
    told(FleetConfig::of(3)).await;
}

#[tokio::test(start_paused = true)]
async fn a_tenant_reaches_no_more_on_a_hub_without_webhooks() {
    told(FleetConfig::of(3).without_admission()).await;
}

const FLEET: &str = "placement.kubernetes-fleet.io/v1beta1";

fn admin() -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "evil"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}]})
}

/// A fleet that places two maps of a tenant, one of them overridden.
async fn placed() -> Fleet {
    let fleet = Fleet::joined(FleetConfig::of(1).without_admission()).await;
    let (hub, member) = (&fleet.clusters.hub, fleet.clusters.member("member1"));
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}});
    hub.apply_object(&space).await;
    member.apply_object(&space).await;
    let mut selectors = Vec::new();
    for name in ["one", "two"] {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "tenant"}, "data": {"k": "v"}});
        hub.apply_object(&map).await;
        selectors.push(json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": name}));
    }
    let rule = json!({"clusterSelector": {"clusterSelectorTerms": []},
        "jsonPatchOverrides": [{"op": "replace", "path": "/data/k", "value": "w"}]});
    let spec = json!({"resourceSelectors": [selectors[0]], "policy": {"overrideRules": [rule]}});
    hub.apply_object(&json!({"apiVersion": FLEET, "kind": "ResourceOverride",
        "metadata": {"name": "ro", "namespace": "tenant"}, "spec": spec}))
        .await;
    let there = |found: Option<&Value>| found.is_some();
    hub.eventually("resourceoverridesnapshots", "tenant", "ro-0", there).await;
    hub.apply_object(&json!({"apiVersion": FLEET, "kind": "ResourcePlacement",
        "metadata": {"name": "web", "namespace": "tenant"}, "spec": {
            "resourceSelectors": selectors, "policy": {"placementType": "PickAll"},
            "strategy": {"type": "RollingUpdate"}}}))
        .await;
    let overridden = |found: Option<&Value>| found.is_some_and(|map| map["data"]["k"] == "w");
    member.eventually("configmaps", "tenant", "one", overridden).await;
    member.eventually("configmaps", "tenant", "two", there).await;
    fleet
}

// Before overrides were judged where they are used, a hub wrote such Works. A new one has to
// find them by itself: nothing else changes.
#[tokio::test(start_paused = true)]
async fn what_a_tenant_gained_from_an_older_hub_is_taken_back_by_a_new_one() {
    for override_is_bad in [true, false] {
        let mut fleet = placed().await;
        fleet.kill(HUB).await;
        let (hub, member) = (&fleet.clusters.hub, fleet.clusters.member("member1"));
        if override_is_bad {
            let steps = json!([{"op": "replace", "path": "", "value": admin()}]);
            let rule = json!({"clusterSelector": {"clusterSelectorTerms": []},
                "overrideType": "JSONPatch", "jsonPatchOverrides": steps});
            let bad = json!({"spec": {"overrideSpec": {"policy": {"overrideRules": [rule]}}}});
            hub.patch("resourceoverridesnapshots", "tenant", "ro-0", bad).await;
        }
        let (space, name) = ("fleet-member-member1", "tenant.web-work");
        let work = hub.get("works", space, name).await;
        let two = work["spec"]["workload"]["manifests"][1].clone();
        hub.patch(
            "works",
            space,
            name,
            json!({
            "metadata": {"annotations": {(own::RENDERED_INPUTS_HASH): "of-an-older-hub"}},
            "spec": {"workload": {"manifests": [admin(), two]}}}),
        )
        .await;
        let there = |found: Option<&Value>| found.is_some();
        member.eventually("clusterrolebindings", "", "evil", there).await;
        fleet.start(HUB);
        let (hub, member) = (&fleet.clusters.hub, fleet.clusters.member("member1"));
        member.goes("clusterrolebindings", "", "evil").await;
        let work = hub.get("works", space, name).await;
        assert!(!work.to_string().contains("ClusterRoleBinding"), "{work:#}");
        // What is harmless of it stays.
        assert!(member.find("configmaps", "tenant", "two").await.is_some());
        let truth = if override_is_bad { "False" } else { "True" };
        hub.becomes("resourceplacements", "tenant", "web", "ResourcePlacementOverridden", truth)
            .await;
    }
}
