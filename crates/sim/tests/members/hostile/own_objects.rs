//! Manifests of what the agents live by, and of what no member can take.

use expect_test::expect;
use flagship_sim::fleet::FleetConfig;
use serde_json::{Value, json};

use crate::hostile::scene::*;

// laws 2.7: a manifest that deletes the agent's own namespace, role or definitions
#[tokio::test(start_paused = true)]
async fn a_placement_cannot_take_the_agent_or_other_works() {
    let scene = Scene::new().await;
    for member in scene.fleet.clusters.members() {
        member.apply("{apiVersion: v1, kind: Namespace, metadata: {name: fleet-system}}").await;
    }
    let named = |api_version: &str, kind: &str, name: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    let mut binding = named("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "agent");
    binding["roleRef"] =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"});
    binding["subjects"] =
        json!([{"kind": "ServiceAccount", "namespace": "fleet-system", "name": "member-agent-sa"}]);
    let mut bad = named("placement.kubernetes-fleet.io/v1beta1", "AppliedWork", "bystander-work");
    bad["spec"] = json!({"workName": "bystander-work", "workNamespace": "fleet-member-member1"});
    scene
        .envelope(
            "bad",
            &[
                bad,
                named("v1", "Namespace", "fleet-system"),
                binding,
                named("v1", "Namespace", "harmless"),
            ],
        )
        .await;
    scene.place("bad", &[envelope_selector("bad")], json!({})).await;
    let told = scene.failing_on("bad", "member1").await;
    expect![[r#"
        Applied=False NotAllWorkHaveBeenApplied: Work object bad-work-envelope-e292202a60ac7afd has failed to apply
        failed Namespace -/fleet-system
        Applied=False ManifestApplyFailed: Failed to apply the manifest (error: failed to apply the manifest: Namespace fleet-system belongs to the member agent, and no placement may touch it)
        failed AppliedWork -/bystander-work
        Applied=False ManifestApplyFailed: Failed to apply the manifest (error: failed to apply the manifest: AppliedWork bystander-work belongs to the member agent, and no placement may touch it)
        failed ClusterRoleBinding -/agent
        Applied=False ManifestApplyFailed: Failed to apply the manifest (error: failed to apply the manifest: ClusterRoleBinding agent gives rights to the member agent, which no placement may)
    "#]].assert_eq(&told);
    scene.member("member1").eventually("namespaces", "", "harmless", |found| found.is_some()).await;
    scene.nothing_else_suffers().await;
    scene.hub().delete(CRP, "", "bad").await;
    scene.hub().goes(CRP, "", "bad").await;
    for member in scene.fleet.clusters.members() {
        let home = member.get("namespaces", "", "fleet-system").await;
        assert!(home["metadata"]["ownerReferences"].is_null());
        let applied = member.get("appliedworks", "", "bystander-work").await;
        assert!(applied["metadata"]["ownerReferences"].is_null());
        member.goes("namespaces", "", "harmless").await;
    }
    scene.nothing_else_suffers().await;
}

// laws 2.7: envelope inside envelope, objects with generateName
#[tokio::test(start_paused = true)]
async fn what_cannot_be_a_manifest_is_told_by_its_place() {
    let scene = Scene::new().await;
    let inner = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourceEnvelope", "metadata": {"name": "inner"},
        "data": {"n": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "deep"}}}});
    let nameless =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "some-"}});
    let good = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "good"}});
    scene.envelope("odd", &[inner, nameless, good]).await;
    scene.place("odd", &[envelope_selector("odd")], json!({})).await;
    let told = scene.failing_on("odd", "member2").await;
    expect![[r#"
        Applied=False NotAllWorkHaveBeenApplied: Work object odd-work-envelope-5c27e03eb5984742 has failed to apply
        failed Namespace -/
        Applied=False FoundGenerateName: Failed to apply the manifest (error: objects with only generate name are not supported)
        failed ClusterResourceEnvelope -/inner
        Applied=False DecodingErred: Failed to apply the manifest (error: failed to decode manifest: failed to find GVR from member cluster client REST mapping: no matches for kind "ClusterResourceEnvelope" in version "placement.kubernetes-fleet.io/v1beta1")
    "#]].assert_eq(&told);
    assert!(scene.member("member2").find("namespaces", "", "good").await.is_some());
    assert!(scene.member("member2").find("namespaces", "", "deep").await.is_none());
    scene.nothing_else_suffers().await;
}

// laws 2.7: overrides whose JSON patch removes `metadata.name` or moves the namespace
#[tokio::test(start_paused = true)]
async fn an_override_cannot_move_an_object_to_the_agent() {
    // The webhooks would have refused both overrides; without them the hub does.
    let scene = Scene::with(FleetConfig::of(2).without_admission()).await;
    scene.namespace("moved").await;
    for name in ["nameless", "runaway", "stays"] {
        scene.map("moved", name, json!({})).await;
    }
    let patch = |name: &str, op: Value| {
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceOverride",
        "metadata": {"name": name, "namespace": "moved"},
        "spec": {"placement": {"name": "moved"},
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": name}],
            "policy": {"overrideRules": [
                {"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": [op]}]}}})
    };
    let removed = json!({"op": "remove", "path": "/metadata/name"});
    scene.hub().apply_object(&patch("nameless", removed)).await;
    let to = json!({"op": "replace", "path": "/metadata/namespace", "value": "fleet-system"});
    scene.hub().apply_object(&patch("runaway", to)).await;
    scene.place("moved", &[selector("", "v1", "Namespace", "moved")], json!({})).await;
    scene.becomes("moved", "Overridden", "False").await;
    let told = scene.told("moved", "member1").await;
    expect![[r#"
        Overridden=False OverriddenFailed: Failed to apply the override rules on the resources: ResourceOverrideSnapshot "nameless-0" failed to apply on ConfigMap "nameless" in namespace "moved": [invalid JSONPatchOverride {remove /metadata/name {}}: cannot override metadata fields except annotations and labels, metadata.name would change from "nameless" to nothing, which no override may do]
    "#]].assert_eq(&told);
    for member in scene.fleet.clusters.members() {
        for name in ["nameless", "runaway", "stays"] {
            assert!(member.find("configmaps", "moved", name).await.is_none(), "{name}");
        }
    }
    // Once the mistakes are gone, all of it is delivered.
    for name in ["nameless", "runaway"] {
        scene.hub().delete("resourceoverrides", "moved", name).await;
    }
    scene.becomes("moved", "Available", "True").await;
    scene.nothing_else_suffers().await;
}

// laws 2.7: immutable field changes, namespaces deleted under us
#[tokio::test(start_paused = true)]
async fn a_change_that_cannot_be_and_a_namespace_that_goes() {
    let scene = Scene::new().await;
    scene.namespace("fixed").await;
    let job = |image: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "once", "namespace": "fixed"},
        "spec": {"template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": image}]}}}})
    };
    scene.hub().apply_object(&job("one")).await;
    scene.place("fixed", &[selector("", "v1", "Namespace", "fixed")], json!({})).await;
    scene.becomes("fixed", "Available", "True").await;
    // The hub lets a Job be replaced; a member cannot change one.
    scene.hub().delete("jobs", "fixed", "once").await;
    scene.hub().goes("jobs", "fixed", "once").await;
    scene.hub().apply_object(&job("two")).await;
    let told = scene.failing_on("fixed", "member1").await;
    assert!(told.contains("ManifestApplyFailed"), "{told}");
    assert!(told.contains("field is immutable"), "{told}");
    scene.hub().delete("jobs", "fixed", "once").await;
    scene.becomes("fixed", "Available", "True").await;
    let member = scene.member("member2");
    let before = member.get("namespaces", "", "fixed").await["metadata"]["uid"].clone();
    member.delete("namespaces", "", "fixed").await;
    let back = |found: Option<&Value>| {
        found.is_some_and(|one| {
            one["metadata"]["uid"] != before && one["metadata"]["deletionTimestamp"].is_null()
        })
    };
    member.eventually("namespaces", "", "fixed", back).await;
    scene.nothing_else_suffers().await;
}
