//! What members get that the hub's own objects do not say: overrides, and what was wrapped.

use serde_json::{Value, json};

use super::delivery::is_available;
use super::telling::{placement, rows};
use crate::fleet::Clusters;

const CRP: &str = "clusterresourceplacements";

/// A placement of one namespace on all members, which are updated all at once.
async fn place(clusters: &Clusters, name: &str) {
    let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": name}]);
    let rolling = json!({"maxUnavailable": "100%", "unavailablePeriodSeconds": 1});
    let crp = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": name},
        "spec": {"resourceSelectors": selector, "policy": {"placementType": "PickAll"},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}},
    });
    clusters.hub.apply_object(&crp).await;
}

pub(super) async fn overridden(clusters: &Clusters) {
    clusters
        .hub
        .apply(
            "
apiVersion: v1
kind: Namespace
metadata: {name: overridden, labels: {team: none}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: overridden, labels: {team: none}}
data: {greeting: hello, cluster: none}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: extra, namespace: overridden, labels: {team: none}}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourceOverride
metadata: {name: overridden}
spec:
  placement: {name: overridden}
  clusterResourceSelectors: [{group: '', version: v1, kind: Namespace, name: overridden}]
  policy:
    overrideRules:
    - clusterSelector: {clusterSelectorTerms: []}
      jsonPatchOverrides: [{op: add, path: /metadata/labels/team, value: a}]
    - clusterSelector:
        clusterSelectorTerms:
        - labelSelector: {matchLabels: {kubernetes-fleet.io/member-name: member1}}
      jsonPatchOverrides: [{op: replace, path: /metadata/labels/team, value: b}]
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceOverride
metadata: {name: settings, namespace: overridden}
spec:
  placement: {name: overridden}
  resourceSelectors: [{group: '', version: v1, kind: ConfigMap, name: settings}]
  policy:
    overrideRules:
    - clusterSelector: {clusterSelectorTerms: []}
      jsonPatchOverrides:
      - {op: replace, path: /data/cluster, value: 'on ${MEMBER-CLUSTER-NAME}'}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceOverride
metadata: {name: extra, namespace: overridden}
spec:
  placement: {name: overridden}
  resourceSelectors: [{group: '', version: v1, kind: ConfigMap, name: extra}]
  policy:
    overrideRules:
    - clusterSelector:
        clusterSelectorTerms:
        - labelSelector: {matchLabels: {kubernetes-fleet.io/member-name: member3}}
      overrideType: Delete
",
        )
        .await;
    for (kind, space, name) in [
        ("clusterresourceoverridesnapshots", "", "overridden-0"),
        ("resourceoverridesnapshots", "overridden", "settings-0"),
        ("resourceoverridesnapshots", "overridden", "extra-0"),
    ] {
        clusters.hub.eventually(kind, space, name, |found| found.is_some()).await;
    }
    place(clusters, "overridden").await;
    is_available(clusters, "overridden").await;
    for member in clusters.members() {
        let name = member.name();
        let space = member.get("namespaces", "", "overridden").await;
        let team = if name == "member1" { "b" } else { "a" };
        assert_eq!(space["metadata"]["labels"]["team"], team, "{name}");
        let settings = member.get("configmaps", "overridden", "settings").await;
        assert_eq!(settings["metadata"]["labels"]["team"], team, "what is in it follows suit");
        let data = json!({"greeting": "hello", "cluster": format!("on {name}")});
        assert_eq!(settings["data"], data, "{name}");
        let extra = member.find("configmaps", "overridden", "extra").await;
        assert_eq!(extra.is_some(), name != "member3", "{name}");
    }
    let crp = clusters.hub.get(CRP, "", "overridden").await;
    let applicable: Vec<&Value> = rows(&crp["status"], "placementStatuses")
        .map(|cluster| &cluster["applicableClusterResourceOverrides"])
        .collect();
    assert_eq!(applicable, [&json!(["overridden-0"]); 3]);
    // An override that cannot be applied says so, and what is there stays.
    let wrong = json!({"spec": {"policy": {"overrideRules": [{"clusterSelector": {"clusterSelectorTerms": []},
        "jsonPatchOverrides": [{"op": "replace", "path": "/data/missing", "value": "x"}]}]}}});
    clusters.hub.patch("resourceoverrides", "overridden", "settings", wrong).await;
    let kind = "ClusterResourcePlacementOverridden";
    clusters.hub.becomes(CRP, "", "overridden", kind, "False").await;
    let told = placement(&clusters.hub, "overridden").await;
    let said = "Overridden=False OverriddenFailed: Failed to apply the override rules on the \
                resources: ResourceOverrideSnapshot \"settings-1\" failed to apply on ConfigMap \
                \"settings\" in namespace \"overridden\": replace operation does not apply: doc is \
                missing key: /data/missing: missing value";
    assert!(told.contains(said), "{told}");
    let settings = clusters.member("member2").get("configmaps", "overridden", "settings").await;
    assert_eq!(settings["data"]["cluster"], "on member2");
    // Without it the objects are as the hub has them.
    clusters.hub.delete("resourceoverrides", "overridden", "settings").await;
    for member in clusters.members() {
        let plain =
            |found: Option<&Value>| found.is_some_and(|map| map["data"]["cluster"] == "none");
        member.eventually("configmaps", "overridden", "settings", plain).await;
    }
    is_available(clusters, "overridden").await;
}

pub(super) async fn wrapped(clusters: &Clusters) {
    let envelope = |hard: &str| {
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope",
        "metadata": {"name": "limits", "namespace": "wrapped"},
        "data": {
            "quota.yaml": {"apiVersion": "v1", "kind": "ResourceQuota",
                "metadata": {"name": "quota", "namespace": "wrapped"},
                "spec": {"hard": {"pods": hard}}},
            "hook.yaml": {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "inside", "namespace": "wrapped"}, "data": {"a": "1"}}}})
    };
    clusters.hub.apply("{apiVersion: v1, kind: Namespace, metadata: {name: wrapped}}").await;
    clusters.hub.apply_object(&envelope("10")).await;
    place(clusters, "wrapped").await;
    is_available(clusters, "wrapped").await;
    assert!(
        clusters.hub.find("resourcequotas", "wrapped", "quota").await.is_none(),
        "no quota here"
    );
    for member in clusters.members() {
        let quota = member.get("resourcequotas", "wrapped", "quota").await;
        assert_eq!(quota["spec"]["hard"], json!({"pods": "10"}), "{}", member.name());
        assert!(member.find("resourceenvelopes", "wrapped", "limits").await.is_none());
    }
    clusters.hub.apply_object(&envelope("20")).await;
    for member in clusters.members() {
        let is_new = |found: Option<&Value>| {
            found.is_some_and(|quota| quota["spec"]["hard"]["pods"] == "20")
        };
        member.eventually("resourcequotas", "wrapped", "quota", is_new).await;
    }
    // What fails inside says which envelope it came in.
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "late", "namespace": "wrapped"}, "data": {}});
    let mut broken = envelope("20");
    broken["data"]["late.yaml"] = theirs;
    broken["data"]["odd.yaml"] = json!({"apiVersion": "example.org/v1", "kind": "Unheard",
        "metadata": {"name": "odd", "namespace": "wrapped"}});
    clusters.hub.apply_object(&broken).await;
    let failed = |found: Option<&Value>| {
        found.is_some_and(|crp| {
            let mut rows_by_cluster = rows(&crp["status"], "placementStatuses");
            rows_by_cluster.any(|one| rows(one, "failedPlacements").next().is_some())
        })
    };
    let crp = clusters.hub.eventually(CRP, "", "wrapped", failed).await.unwrap_or_default();
    let first = rows(&crp["status"], "placementStatuses")
        .flat_map(|cluster| rows(cluster, "failedPlacements"))
        .next()
        .cloned()
        .unwrap_or_default();
    assert_eq!(first["kind"], "Unheard");
    assert_eq!(
        first["envelope"],
        json!({"name": "limits", "namespace": "wrapped", "type": "ResourceEnvelope"})
    );
    assert_eq!(first["condition"]["reason"], "DecodingErred");
    clusters.hub.delete("resourceenvelopes", "wrapped", "limits").await;
    for member in clusters.members() {
        member.goes("resourcequotas", "wrapped", "quota").await;
    }
    is_available(clusters, "wrapped").await;
}

pub(super) async fn abandoned(clusters: &Clusters) {
    clusters.hub.apply("{apiVersion: v1, kind: Namespace, metadata: {name: abandoned}}").await;
    clusters
        .hub
        .apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: abandoned}, data: {a: '1'}}")
        .await;
    place(clusters, "abandoned").await;
    let policy =
        json!({"spec": {"strategy": {"deleteStrategy": {"propagationPolicy": "Abandon"}}}});
    clusters.hub.patch(CRP, "", "abandoned", policy).await;
    is_available(clusters, "abandoned").await;
    clusters.hub.delete(CRP, "", "abandoned").await;
    clusters.hub.goes(CRP, "", "abandoned").await;
    for member in clusters.members() {
        for (kind, space, name) in
            [("namespaces", "", "abandoned"), ("configmaps", "abandoned", "settings")]
        {
            let free = |found: Option<&Value>| {
                found.is_some_and(|one| {
                    let meta = &one["metadata"];
                    meta["deletionTimestamp"].is_null()
                        && rows(meta, "ownerReferences").next().is_none()
                })
            };
            member.eventually(kind, space, name, free).await;
        }
        member.goes("appliedworks", "", "abandoned-work").await;
        // It is the member's own from here on.
        let mine = json!({"data": {"a": "mine"}});
        member.patch("configmaps", "abandoned", "settings", mine).await;
    }
}
