//! Requests that a webhook server would hand over, answered from what the hub's server
//! says, and the same answers in the admission of an embedded hub.

use flagship_apiserver::rest::{PatchKind, WriteOptions};
use flagship_base::machinery::status::ApiError;
use flagship_fleet::HubAdmission;
use flagship_hub::admission::{Admission, Answer, Options, Request};
use flagship_rules::admission::Operation;
use flagship_rules::placement::selection::Kind;
use flagship_runtime::client::Client;
use serde_json::{Value, json};

use crate::placement::story::{Story, everywhere, map, namespace};
use flagship_sim::testing::{CLUSTERS, CRP, CSPS, RP, SPS};

async fn asked(admission: &Admission, kind: &str, object: &Value) -> Answer {
    let kind = Kind::new("placement.kubernetes-fleet.io", "v1beta1", kind);
    let request = Request {
        operation: Operation::Create,
        kind: &kind,
        subresource: "",
        namespace: "",
        name: object["metadata"]["name"].as_str().unwrap_or_default(),
        object,
        old: None,
    };
    admission.review(&request).await.expect("placements and evictions are judged")
}

#[tokio::test(start_paused = true)]
async fn requests_are_judged_by_what_the_server_knows() {
    let story = Story::cluster_wide(81).await;
    let client = Client::in_process(story.hub.called_by("webhook"));
    let admission = Admission::new(&client, Options::default());
    let crp = |term: Value| json!({"metadata": {"name": "web"}, "spec": everywhere(&[term])});
    let answer = asked(&admission, "ClusterResourcePlacement", &crp(namespace("app"))).await;
    assert_eq!(answer, Answer::Allowed("any user is allowed to modify v1beta1 CRP".to_owned()));
    let map = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"});
    let answer = asked(&admission, "ClusterResourcePlacement", &crp(map)).await;
    assert_eq!(
        answer.message(),
        "deny create/update v1beta1 CRP has invalid fields the resource is not found in schema (please retry) or it is not a cluster scoped resource: /v1, Kind=ConfigMap"
    );
    let planet = json!({"group": "example.com", "version": "v1", "kind": "Planet"});
    let answer = asked(&admission, "ClusterResourcePlacement", &crp(planet)).await;
    assert_eq!(
        answer.message(),
        "deny create/update v1beta1 CRP has invalid fields failed to get GVR of the selector: no matches for kind \"Planet\" in version \"example.com/v1\""
    );
    // An eviction is held against the placement that it names.
    let eviction = json!({"metadata": {"name": "e"},
        "spec": {"placementName": "web", "clusterName": "member1"}});
    let kind = "ClusterResourcePlacementEviction";
    assert_eq!(asked(&admission, kind, &eviction).await.code(), 200);
    let mut spec = everywhere(&[namespace("app")]);
    spec["policy"] = json!({"placementType": "PickFixed", "clusterNames": ["member1"]});
    story.crp("web", spec).await;
    assert_eq!(
        asked(&admission, kind, &eviction).await,
        Answer::Denied(
            "cluster resource placement policy type PickFixed is not supported".to_owned()
        )
    );
}

/// A hub whose server asks the checks itself.
async fn guarded(seed: u64) -> Story {
    let story = Story::both_scopes(seed).await;
    HubAdmission::install(&story.hub, &story.options);
    story
}

/// `code reason: message` of a refusal.
fn told(refused: Result<Value, ApiError>) -> String {
    let refused = refused.expect_err("it is refused");
    format!("{} {}: {}", refused.code, refused.reason, refused.message)
}

async fn created(story: &Story, resource: &str, mut object: Value) -> Result<Value, ApiError> {
    let of = flagship_api::kinds::find(resource);
    if let Some(info) = of {
        object["apiVersion"] = json!(format!("{}/v1beta1", info.group));
        object["kind"] = json!(info.kind);
    }
    let space = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    story.user.create(resource, &space, object).await
}

async fn patched(
    story: &Story,
    resource: &str,
    name: &str,
    spec: Value,
) -> Result<Value, ApiError> {
    let (kind, options) = (PatchKind::Merge, WriteOptions::default());
    story.user.patch(resource, "", name, "", kind, json!({"spec": spec}), &options).await
}

// checklist 20.45
#[tokio::test(start_paused = true)]
async fn an_embedded_hub_fills_in_what_the_sender_left_out() {
    let story = guarded(82).await.starts().await;
    let selectors = json!([namespace("app")]);
    story.crp("web", json!({"resourceSelectors": selectors})).await;
    story.rp("web", json!({"resourceSelectors": [map("settings")]})).await;
    story.settle().await;
    let crp = story.get(CRP, "", "web");
    assert_eq!(crp["metadata"]["generation"], 1);
    assert_eq!(crp["spec"]["policy"], json!({"placementType": "PickAll"}));
    assert_eq!(
        crp["spec"]["strategy"],
        json!({
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%", "unavailablePeriodSeconds": 60},
            "applyStrategy": {"comparisonOption": "PartialComparison", "type": "ClientSideApply",
                "whenToApply": "Always", "whenToTakeOver": "Always"},
        })
    );
    // Nobody completes the namespaced one: its policy stays open, and hashes as `null`.
    let rp = story.get(RP, "app", "web");
    assert!(rp["spec"].get("policy").is_none() && rp["spec"].get("strategy").is_none(), "{rp}");
    let (frozen, open) = (story.get(CSPS, "", "web-0"), story.get(SPS, "app", "web-0"));
    assert_eq!(frozen["spec"]["policy"], json!({"placementType": "PickAll"}));
    assert!(open["spec"].get("policy").is_none());
    assert_ne!(frozen["spec"]["policyHash"], open["spec"]["policyHash"]);
    // Sent again as it was first sent, it is what it is.
    let again = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "web", "resourceVersion": crp["metadata"]["resourceVersion"]},
        "spec": {"resourceSelectors": selectors}});
    let sent = story.user.update(CRP, again).await.expect("it is completed again");
    assert_eq!((&sent["metadata"]["generation"], &sent["spec"]), (&json!(1), &crp["spec"]));
}

// checklist 20.45
#[tokio::test(start_paused = true)]
async fn an_embedded_hub_refuses_as_its_webhooks_would() {
    let story = guarded(83).await;
    let web = |spec: Value| json!({"metadata": {"name": "web"}, "spec": spec});
    let spec = |policy: Value| json!({"resourceSelectors": [namespace("app")], "policy": policy});
    let crp = "403 Forbidden: admission webhook \"fleet.clusterresourceplacementv1beta1.validating\" denied the request: ";
    let invalid = format!("{crp}deny create/update v1beta1 CRP has invalid fields ");
    let twice = json!({"placementType": "PickFixed", "clusterNames": ["member1", "member1"]});
    assert_eq!(
        told(created(&story, CRP, web(spec(twice))).await),
        format!(
            "{invalid}the placement policy field is invalid: cluster names must be unique for policy type PickFixed"
        )
    );
    let planet = json!({"group": "example.com", "version": "v1", "kind": "Planet"});
    assert_eq!(
        told(created(&story, CRP, web(everywhere(std::slice::from_ref(&planet)))).await),
        format!(
            "{invalid}failed to get GVR of the selector: no matches for kind \"Planet\" in version \"example.com/v1\""
        )
    );
    // Namespaced placements are judged by the same rules.
    let rp = json!({"metadata": {"name": "web", "namespace": "app"},
        "spec": {"resourceSelectors": [namespace("app")]}});
    assert_eq!(
        told(created(&story, RP, rp).await),
        "403 Forbidden: admission webhook \"fleet.resourceplacementv1beta1.validating\" denied the request: deny create/update v1beta1 RP has invalid fields the resource is not found in schema (please retry) or it is a cluster scoped resource: /v1, Kind=Namespace"
    );
    // An open policy is PickAll, and stays that.
    let toleration = json!({"key": "a", "operator": "Exists"});
    story.crp("web", json!({"resourceSelectors": [namespace("app")]})).await;
    let some = json!({"policy": {"placementType": "PickN", "numberOfClusters": 1}});
    let changed = told(patched(&story, CRP, "web", some).await);
    assert!(changed.contains("placement type is immutable"), "{changed}");
    let tolerant = json!({"policy": {"tolerations": [toleration]}});
    patched(&story, CRP, "web", tolerant).await.expect("one more may be tolerated");
    assert_eq!(
        told(patched(&story, CRP, "web", json!({"policy": {"tolerations": null}})).await),
        format!(
            "{crp}tolerations have been updated/deleted, only additions to tolerations are allowed"
        )
    );
    // What is none of the kinds is none of its business; statuses are not either.
    story.map("app", "settings", "x").await;
    story.patch_status(CRP, "web", json!({"observedResourceIndex": "7"})).await;
}

#[tokio::test(start_paused = true)]
async fn an_embedded_hub_judges_what_goes_with_placements() {
    let story = guarded(84).await;
    let fixed = json!({"placementType": "PickFixed", "clusterNames": ["member1"]});
    story.crp("fixed", json!({"resourceSelectors": [namespace("app")], "policy": fixed})).await;
    story.crp("all", json!({"resourceSelectors": [namespace("app")]})).await;
    let eviction = json!({"metadata": {"name": "e"},
        "spec": {"placementName": "fixed", "clusterName": "member1"}});
    let evictions = "clusterresourceplacementevictions.placement.kubernetes-fleet.io";
    assert_eq!(
        told(created(&story, evictions, eviction).await),
        "403 Forbidden: admission webhook \"fleet.clusterresourceplacementeviction.validating\" denied the request: cluster resource placement policy type PickFixed is not supported"
    );
    let budget = json!({"metadata": {"name": "all"}, "spec": {"maxUnavailable": 1}});
    let budgets = "clusterresourceplacementdisruptionbudgets.placement.kubernetes-fleet.io";
    assert_eq!(
        told(created(&story, budgets, budget).await),
        "403 Forbidden: admission webhook \"fleet.clusterresourceplacementdisruptionbudget.validating\" denied the request: cluster resource placement policy type PickAll is not supported with any specified max unavailable 1"
    );
    let patch = json!({"op": "add", "path": "/metadata/labels/a", "value": "b"});
    let overrides = "resourceoverrides.placement.kubernetes-fleet.io";
    let override_of = |name: &str| {
        json!({"metadata": {"name": name, "namespace": "app"}, "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}],
            "policy": {"overrideRules": [
                {"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": [patch]}]}}})
    };
    created(&story, overrides, override_of("first")).await.expect("nothing is wrong with it");
    assert_eq!(
        told(created(&story, overrides, override_of("second")).await),
        "403 Forbidden: admission webhook \"fleet.resourceoverride.validating\" denied the request: invalid resource selector {Group: Version:v1 Kind:ConfigMap Name:c}: the resource has been selected by both second and first, which is not supported"
    );
    let taints = json!([{"key": "a", "value": "b", "effect": "NoSchedule"},
        {"key": "a", "value": "b", "effect": "NoSchedule"}]);
    assert_eq!(
        told(patched(&story, CLUSTERS, "member1", json!({"taints": taints})).await),
        "403 Forbidden: admission webhook \"fleet.membercluster.validating\" denied the request: taint {Key:a Value:b Effect:NoSchedule} already exists, taints must be unique"
    );
    let pod = json!({"metadata": {"name": "web", "namespace": "app"},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]}});
    assert_eq!(
        told(created(&story, "pods", pod).await),
        "403 Forbidden: admission webhook \"fleet.pod.validating\" denied the request: Pod app/web creation is disallowed in the fleet hub cluster"
    );
    // Budgets of pods are placed like anything else, unless an operator forbids it.
    let pods = json!({"metadata": {"name": "web", "namespace": "app"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    created(&story, "poddisruptionbudgets.policy", pods).await.expect("it may be placed");
    story.delete(CLUSTERS, "", "member1").await;
}
