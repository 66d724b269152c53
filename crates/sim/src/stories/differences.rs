//! Members that are not as the hub wants them.

use serde_json::{Value, json};

use super::delivery::{is_available, open_shop};
use super::telling::{conditions, placement, rows};
use crate::fleet::Clusters;

const CRP: &str = "clusterresourceplacements";

pub(super) async fn undone(clusters: &Clusters) {
    open_shop(clusters, "mended", "nginx:1.25").await;
    let member = clusters.member("member2");
    member.patch("configmaps", "mended", "settings", json!({"data": {"greeting": "edited"}})).await;
    let is_mended =
        |found: Option<&Value>| found.is_some_and(|map| map["data"]["greeting"] == "hello");
    member.eventually("configmaps", "mended", "settings", is_mended).await;
    member.delete("deployments", "mended", "web").await;
    let works = |found: Option<&Value>| {
        found.is_some_and(|web| {
            web["metadata"]["deletionTimestamp"].is_null()
                && web["status"]["availableReplicas"] == 2
        })
    };
    member.eventually("deployments", "mended", "web", works).await;
    is_available(clusters, "mended").await;
}

/// A namespace with one ConfigMap, placed on all members with a strategy.
async fn settings(clusters: &Clusters, name: &str, strategy: Value) {
    clusters
        .hub
        .apply(&format!(
            "
apiVersion: v1
kind: Namespace
metadata: {{name: {name}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings, namespace: {name}}}
data: {{greeting: hello}}
"
        ))
        .await;
    let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": name}]);
    let crp = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": name},
        "spec": {"resourceSelectors": selector, "policy": {"placementType": "PickAll"},
            "strategy": {"type": "RollingUpdate", "applyStrategy": strategy}},
    });
    clusters.hub.apply_object(&crp).await;
}

fn on_member2<'a>(placement: &'a Value, list: &'a str) -> Vec<&'a Value> {
    rows(&placement["status"], "placementStatuses")
        .filter(|cluster| cluster["clusterName"] == "member2")
        .flat_map(|cluster| rows(cluster, list))
        .collect()
}

pub(super) async fn drifted(clusters: &Clusters) {
    settings(clusters, "drifted", json!({"whenToApply": "IfNotDrifted"})).await;
    is_available(clusters, "drifted").await;
    let member = clusters.member("member2");
    member
        .patch("configmaps", "drifted", "settings", json!({"data": {"greeting": "edited"}}))
        .await;
    let is_told = |found: Option<&Value>| {
        found.is_some_and(|crp| !on_member2(crp, "driftedPlacements").is_empty())
    };
    clusters.hub.eventually(CRP, "", "drifted", is_told).await;
    let told = placement(&clusters.hub, "drifted").await;
    let (_, rest) = told.split_once("member2:\n").unwrap_or_default();
    let (member2, _) = rest.split_once("member3:\n").unwrap_or_default();
    let (_, found) = member2.split_once("  Applied=").unwrap_or_default();
    assert_eq!(
        found,
        "\
False NotAllWorkHaveBeenApplied: Work object drifted-work has failed to apply
  failed ConfigMap drifted/settings
    Applied=False FoundDrifts: Failed to apply the manifest (error: cannot apply manifest: drifts are found between the manifest and the object from the member cluster)
  drifted ConfigMap drifted/settings
    /data/greeting member=edited hub=hello
",
        "{told}"
    );
    member.patch("configmaps", "drifted", "settings", json!({"data": {"greeting": "hello"}})).await;
    is_available(clusters, "drifted").await;
}

pub(super) async fn foreign(clusters: &Clusters) {
    let member = clusters.member("member2");
    member
        .apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: landlord, namespace: default}}")
        .await;
    let landlord = member.get("configmaps", "default", "landlord").await;
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "landlord",
        "uid": landlord["metadata"]["uid"]}]);
    let meta = json!({"name": "settings", "namespace": "default", "ownerReferences": owner});
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta,
        "data": {"greeting": "theirs"}});
    member.apply_object(&theirs).await;
    let ours = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: default}, data: {greeting: ours}}";
    clusters.hub.apply(ours).await;
    let selector = json!([{"group": "", "version": "v1", "kind": "ConfigMap", "name": "settings"}]);
    let rp = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourcePlacement",
        "metadata": {"name": "foreign", "namespace": "default"},
        "spec": {"resourceSelectors": selector, "policy": {"placementType": "PickAll"},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}}},
    });
    clusters.hub.apply_object(&rp).await;
    let is_told = |found: Option<&Value>| {
        found.is_some_and(|rp| !on_member2(rp, "failedPlacements").is_empty())
    };
    let rp = clusters.hub.eventually("resourceplacements", "default", "foreign", is_told).await;
    let rp = rp.unwrap_or_default();
    let failed = on_member2(&rp, "failedPlacements");
    assert_eq!(failed[0]["condition"]["reason"], "FailedToTakeOver");
    let uid = landlord["metadata"]["uid"].as_str().unwrap_or_default();
    assert_eq!(
        failed[0]["condition"]["message"],
        format!(
            "Failed to apply the manifest (error: failed to take over a pre-existing object: the \
             object is already owned by some other sources(s) and co-ownership is disallowed \
             (existingOwnerRefs: [{{APIVersion:v1 Kind:ConfigMap Name:landlord UID:{uid} \
             Controller:<nil> BlockOwnerDeletion:<nil>}}]))"
        )
    );
    let untouched = member.get("configmaps", "default", "settings").await;
    assert_eq!(untouched["data"], json!({"greeting": "theirs"}));
    for name in ["member1", "member3"] {
        let is_ours =
            |found: Option<&Value>| found.is_some_and(|map| map["data"]["greeting"] == "ours");
        clusters.member(name).eventually("configmaps", "default", "settings", is_ours).await;
    }
}

pub(super) async fn claimed(clusters: &Clusters) {
    settings(clusters, "claimed", json!({})).await;
    is_available(clusters, "claimed").await;
    let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "claimed"}]);
    let second = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "claimed-again"},
        "spec": {"resourceSelectors": selector, "policy": {"placementType": "PickAll"},
            "strategy": {"type": "RollingUpdate", "applyStrategy": {"allowCoOwnership": true}}},
    });
    clusters.hub.apply_object(&second).await;
    let is_told = |found: Option<&Value>| {
        found.is_some_and(|crp| on_member2(crp, "failedPlacements").len() == 2)
    };
    let crp = clusters.hub.eventually(CRP, "", "claimed-again", is_told).await.unwrap_or_default();
    for failed in on_member2(&crp, "failedPlacements") {
        assert_eq!(failed["condition"]["reason"], "FailedToTakeOver");
        assert_eq!(
            failed["condition"]["message"],
            "Failed to apply the manifest (error: failed to take over a pre-existing object: the \
             object is already owned by another Fleet AppliedWork object)"
        );
    }
    is_available(clusters, "claimed").await;
    // The one that has it keeps it when the other goes.
    clusters.hub.delete(CRP, "", "claimed-again").await;
    clusters.hub.goes(CRP, "", "claimed-again").await;
    for member in clusters.members() {
        let map = member.get("configmaps", "claimed", "settings").await;
        assert_eq!(map["metadata"]["ownerReferences"][0]["name"], "claimed-work");
        assert_eq!(rows(&map["metadata"], "ownerReferences").count(), 1);
    }
}

pub(super) async fn compared(clusters: &Clusters) {
    let member = clusters.member("member2");
    member.apply("{apiVersion: v1, kind: Namespace, metadata: {name: compared}}").await;
    member
        .apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: compared}, data: {greeting: theirs}}")
        .await;
    let strategy = json!({"type": "ReportDiff", "whenToTakeOver": "Never"});
    settings(clusters, "compared", strategy).await;
    let kind = "ClusterResourcePlacementDiffReported";
    let crp = clusters.hub.becomes(CRP, "", "compared", kind, "True").await;
    let diffs = on_member2(&crp, "diffedPlacements");
    assert_eq!(diffs.len(), 1, "{:#?}", conditions(&crp["status"]));
    assert_eq!(
        diffs[0]["observedDiffs"],
        json!([{"path": "/data/greeting", "valueInMember": "theirs", "valueInHub": "hello"}])
    );
    let untouched = member.get("configmaps", "compared", "settings").await;
    assert_eq!(untouched["data"], json!({"greeting": "theirs"}));
    assert!(untouched["metadata"]["ownerReferences"].is_null());
    assert!(clusters.member("member1").find("namespaces", "", "compared").await.is_none());
}
