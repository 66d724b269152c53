//! A tenant who may write in a namespace of the hub, and what a member must never get from
//! there: anything cluster-scoped, anything of another namespace, any other object than the
//! one that was placed.
//!
//! Where a webhook refuses an override, its snapshot is written by hand: whoever may write
//! in a namespace may do that, and no webhook looks at snapshots.

use flagship_api::keys::label;
use serde_json::{Value, json};

use crate::fleet::Clusters;

const HOME: &str = "tenant";
const FLEET: &str = "placement.kubernetes-fleet.io/v1beta1";
const RP: &str = "resourceplacements";
const CRP: &str = "clusterresourceplacements";
const ATTACKER: &str = "mallory";

/// Patches of a ConfigMap, each with a word that refuses it. `ADMIN` is a whole
/// ClusterRoleBinding.
const PATCHES: &[(&str, &str)] = &[
    (
        r#"[{"op":"replace","path":"/apiVersion","value":"rbac.authorization.k8s.io/v1"},
            {"op":"replace","path":"/kind","value":"ClusterRoleBinding"},
            {"op":"remove","path":"/metadata/namespace"},
            {"op":"remove","path":"/data"},
            {"op":"add","path":"/roleRef","value":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}},
            {"op":"add","path":"/subjects","value":[{"kind":"User","name":"mallory","apiGroup":"rbac.authorization.k8s.io"}]}]"#,
        "kind would change from",
    ),
    (
        r#"[{"op":"replace","path":"/metadata/namespace","value":"kube-system"}]"#,
        "to \"kube-system\"",
    ),
    (r#"[{"op":"add","path":"/metadata/namespace","value":"kube-system"}]"#, "to \"kube-system\""),
    (r#"[{"op":"remove","path":"/metadata/namespace"}]"#, "to nothing"),
    (r#"[{"op":"add","path":"/metadata/namespace","value":""}]"#, "to nothing"),
    (
        r#"[{"op":"add","path":"/metadata/namespace","value":"${MEMBER-CLUSTER-NAME}"}]"#,
        "to \"member",
    ),
    (
        r#"[{"op":"add","path":"/metadata/namespace","value":"${MEMBER-CLUSTER-LABEL-KEY-kubernetes-fleet.io/member-name}"}]"#,
        "failed to apply on",
    ),
    (r#"[{"op":"replace","path":"/kind","value":"Secret"}]"#, "to \"Secret\""),
    (r#"[{"op":"add","path":"/kind","value":"Secret"}]"#, "to \"Secret\""),
    (r#"[{"op":"remove","path":"/kind"}]"#, "typeMeta"),
    (r#"[{"op":"replace","path":"/kind","value":"ConfigMap"}]"#, "typeMeta"),
    (r#"[{"op":"add","path":"/kind/","value":"Secret"}]"#, "typeMeta"),
    (r#"[{"op":"replace","path":"/apiVersion","value":"v2"}]"#, "to \"v2\""),
    (r#"[{"op":"add","path":"/apiVersion","value":7}]"#, "to what is no text"),
    (r#"[{"op":"remove","path":"/apiVersion"}]"#, "typeMeta"),
    (r#"[{"op":"replace","path":"/metadata/name","value":"other"}]"#, "to \"other\""),
    (r#"[{"op":"add","path":"/metadata/name","value":"other"}]"#, "to \"other\""),
    (r#"[{"op":"remove","path":"/metadata/name"}]"#, "to nothing"),
    (r#"[{"op":"add","path":"/metadata/generateName","value":"other-"}]"#, "except annotations"),
    (r#"[{"op":"add","path":"/metadata/ownerReferences","value":[]}]"#, "except annotations"),
    (r#"[{"op":"add","path":"/metadata/finalizers","value":["x.y/z"]}]"#, "except annotations"),
    (r#"[{"op":"add","path":"/metadata/uid","value":"x"}]"#, "except annotations"),
    (r#"[{"op":"add","path":"/metadata/managedFields","value":[]}]"#, "except annotations"),
    (r#"[{"op":"replace","path":"","value":ADMIN}]"#, "kind would change from"),
    (r#"[{"op":"add","path":"","value":ADMIN}]"#, "kind would change from"),
    (r#"[{"op":"add","path":"","value":[]}]"#, "kind would change from"),
    (r#"[{"op":"remove","path":""}]"#, "path cannot be empty"),
    (r#"[{"op":"replace","path":"/metadata","value":{"name":"other"}}]"#, "field metadata"),
    (
        r#"[{"op":"add","path":"/metadata","value":{"name":"other","namespace":"kube-system"}}]"#,
        "field metadata",
    ),
    (r#"[{"op":"remove","path":"/metadata"}]"#, "field metadata"),
    (r#"[{"op":"add","path":"/metadata/","value":"x"}]"#, "except annotations"),
    (r#"[{"op":"add","path":"/metadata//namespace","value":"kube-system"}]"#, "except annotations"),
    (r#"[{"op":"add","path":"//kind","value":"Secret"}]"#, "empty string"),
    (r#"[{"op":"add","path":"/","value":ADMIN}]"#, "empty string"),
    (r#"[{"op":"add","path":"/ /kind","value":"Secret"}]"#, "empty string"),
    (r#"[{"op":"add","path":"/metadata/labels/","value":"x"}]"#, "empty string"),
    (r#"[{"op":"replace","path":"kind","value":"Secret"}]"#, "start with /"),
    (r#"[{"op":"replace","path":"x/kind","value":"Secret"}]"#, "to \"Secret\""),
    (
        r#"[{"op":"replace","path":"x/metadata/namespace","value":"kube-system"}]"#,
        "to \"kube-system\"",
    ),
    (r#"[{"op":"add","path":"/metadata/~0namespace","value":"x"}]"#, "except annotations"),
    (r#"[{"op":"add","path":"/metadata/name~1","value":"x"}]"#, "except annotations"),
    (r#"[{"op":"add","path":"/metadata/-","value":"x"}]"#, "except annotations"),
    (r#"[{"op":"add","path":"/metadata/0","value":"x"}]"#, "except annotations"),
    (r#"[{"op":"add","path":"/status","value":{}}]"#, "status fields"),
    (r#"[{"op":"remove","path":"/data/k","value":"v"}]"#, "cannot have value"),
    (
        r#"[{"op":"replace","path":"/kind","value":"Pod"},{"op":"replace","path":"/kind","value":"ConfigMap"}]"#,
        "typeMeta",
    ),
];

/// Told with the rest, and on fleets with and without webhooks.
pub(super) async fn stays_at_home(clusters: &Clusters) {
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}});
    clusters.hub.apply_object(&space).await;
    for member in clusters.members() {
        member.apply_object(&space).await;
    }
    assert!(PATCHES.len() > 40);
    other_operations(clusters).await;
    for (at, (patches, _)) in PATCHES.iter().enumerate() {
        let name = format!("patched-{at}");
        let patches: Value = serde_json::from_str(&patches.replace("ADMIN", &admin().to_string()))
            .unwrap_or_else(|error| panic!("{patches}: {error}"));
        config_map(clusters, &name).await;
        forge(clusters, &name, &name, &patches).await;
        place(clusters, &name, "ConfigMap", "v1").await;
    }
    let enveloped = envelopes();
    for (at, (wrapped, _)) in enveloped.iter().enumerate() {
        envelope(clusters, &format!("wrapped-{at}"), wrapped).await;
    }
    // What is wrapped is overridden too, and judged alike.
    let inside = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "inside", "namespace": HOME}, "data": {"k": "v"}});
    let patches: Value = serde_json::from_str(PATCHES[1].0).expect("it is JSON");
    forge(clusters, "wrapped", "inside", &patches).await;
    envelope(clusters, "wrapped", &inside).await;

    for (at, (patches, word)) in PATCHES.iter().enumerate() {
        let name = format!("patched-{at}");
        let told = refused(clusters, &name, "ResourcePlacementOverridden").await;
        let object = format!("failed to apply on ConfigMap \"{name}\" in namespace \"{HOME}\"");
        for word in ["OverriddenFailed", object.as_str(), *word] {
            assert!(told.contains(word), "{patches} lacks {word:?}: {told}");
        }
    }
    for (at, (wrapped, (kind, word))) in enveloped.iter().enumerate() {
        let told = refused(clusters, &format!("wrapped-{at}"), kind).await;
        assert!(told.contains(word), "{wrapped} lacks {word:?}: {told}");
    }
    let told = refused(clusters, "wrapped", "ResourcePlacementOverridden").await;
    assert!(told.contains("from envelope tenant/wrapped"), "{told}");
    wide(clusters).await;
    nothing_came(clusters).await;
}

fn admin() -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "evil"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": ATTACKER, "apiGroup": "rbac.authorization.k8s.io"}]})
}

/// What a ResourceEnvelope may not bring, the condition that says so, and a word of it.
fn envelopes() -> Vec<(Value, (&'static str, &'static str))> {
    let sync = "ResourcePlacementWorkSynchronized";
    let mut at_home = admin();
    at_home["metadata"]["namespace"] = HOME.into();
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "evil"}});
    let mut space_at_home = space.clone();
    space_at_home["metadata"]["namespace"] = HOME.into();
    let elsewhere = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "evil", "namespace": "kube-system"}});
    let list = json!({"apiVersion": "v1", "kind": "List",
        "metadata": {"name": "evil", "namespace": HOME}, "items": [admin()]});
    let nested = json!({"apiVersion": FLEET, "kind": "ClusterResourceEnvelope",
        "metadata": {"name": "evil", "namespace": HOME}, "data": {"o": admin()}});
    vec![
        (admin(), (sync, "a cluster scope object o (evil) has been wrapped")),
        (space, (sync, "a cluster scope object o (evil) has been wrapped")),
        (elsewhere, (sync, "from another namespace (tenant/")),
        // Cluster-scoped kinds with a namespace: only a member knows better.
        (at_home, ("ResourcePlacementApplied", "ClusterRoleBinding")),
        (space_at_home, ("ResourcePlacementApplied", "Namespace")),
        // What holds other objects is an object like others, of a kind that no member has.
        (list, ("ResourcePlacementApplied", "no matches for kind \"List\"")),
        (nested, ("ResourcePlacementApplied", "no matches for kind \"ClusterResourceEnvelope\"")),
    ]
}

async fn config_map(clusters: &Clusters, name: &str) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": HOME}, "data": {"k": "v"}});
    clusters.hub.apply_object(&map).await;
}

async fn envelope(clusters: &Clusters, name: &str, wrapped: &Value) {
    let object = json!({"apiVersion": FLEET, "kind": "ResourceEnvelope",
        "metadata": {"name": name, "namespace": HOME}, "data": {"o": wrapped}});
    clusters.hub.apply_object(&object).await;
    place(clusters, name, "ResourceEnvelope", FLEET).await;
}

fn strategy() -> Value {
    json!({"type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "100%", "unavailablePeriodSeconds": 1}})
}

/// A placement of one object in the tenant's namespace, of the object's name.
async fn place(clusters: &Clusters, name: &str, kind: &str, api_version: &str) {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let selector = json!([{"group": group, "version": version, "kind": kind, "name": name}]);
    let placement = json!({"apiVersion": FLEET, "kind": "ResourcePlacement",
        "metadata": {"name": name, "namespace": HOME},
        "spec": {"resourceSelectors": selector, "policy": {"placementType": "PickAll"},
            "strategy": strategy()}});
    clusters.hub.apply_object(&placement).await;
}

/// An override for a placement of the tenant, or its snapshot if the override is refused.
async fn forge(clusters: &Clusters, placement: &str, target: &str, patches: &Value) {
    let selector = json!([{"group": "", "version": "v1", "kind": "ConfigMap", "name": target}]);
    let rule =
        json!({"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": patches});
    let spec = json!({"placement": {"name": placement, "scope": "Namespaced"},
        "resourceSelectors": selector, "policy": {"overrideRules": [rule]}});
    let object = json!({"apiVersion": FLEET, "kind": "ResourceOverride",
        "metadata": {"name": placement, "namespace": HOME}, "spec": spec});
    let snapshot = format!("{placement}-0");
    match clusters.hub.try_apply(&object).await {
        Ok(_) => {
            let there = |found: Option<&Value>| found.is_some();
            clusters.hub.eventually("resourceoverridesnapshots", HOME, &snapshot, there).await;
        }
        Err(refused) => {
            assert_eq!(refused.code, 403, "{refused}");
            let snapshot = by_hand("ResourceOverrideSnapshot", &snapshot, placement, spec);
            clusters.hub.apply_object(&snapshot).await;
        }
    }
}

/// Operations that overrides do not have: the API server stores neither an override with one nor
/// its snapshot.
async fn other_operations(clusters: &Clusters) {
    for operation in ["move", "copy", "test", "Replace"] {
        let patch = json!({"op": operation, "path": "/kind", "value": "Secret"});
        let rule = json!({"clusterSelector": {"clusterSelectorTerms": []},
            "jsonPatchOverrides": [patch]});
        let selector = json!([{"group": "", "version": "v1", "kind": "ConfigMap", "name": "any"}]);
        let spec = json!({"resourceSelectors": selector, "policy": {"overrideRules": [rule]}});
        let object = json!({"apiVersion": FLEET, "kind": "ResourceOverride",
            "metadata": {"name": "operation", "namespace": HOME}, "spec": spec});
        let snapshot = by_hand("ResourceOverrideSnapshot", "operation-0", "operation", spec);
        for object in [object, snapshot] {
            match clusters.hub.try_apply(&object).await {
                Err(refused) => assert_eq!(refused.code, 422, "{operation}: {refused}"),
                Ok(made) => panic!("{operation} was stored: {made:#}"),
            }
        }
    }
}

fn by_hand(kind: &str, name: &str, of: &str, spec: Value) -> Value {
    let labels = json!({(label::OVERRIDE_INDEX): "0", (label::IS_LATEST_SNAPSHOT): "true",
        (label::PARENT_OVERRIDE): of});
    let mut object = json!({"apiVersion": FLEET, "kind": kind,
        "metadata": {"name": name, "labels": labels},
        "spec": {"overrideSpec": spec, "overrideHash": "MDA="}});
    if kind == "ResourceOverrideSnapshot" {
        object["metadata"]["namespace"] = HOME.into();
    }
    object
}

/// Waits for a condition that is false, and tells everything the placement says.
async fn refused(clusters: &Clusters, placement: &str, kind: &str) -> String {
    let object = clusters.hub.becomes(RP, HOME, placement, kind, "False").await;
    object["status"].to_string().replace("\\\"", "\"")
}

/// The same for an override of the whole cluster, about a role and about a namespace.
async fn wide(clusters: &Clusters) {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "tenant-reader"}, "rules": []});
    clusters.hub.apply_object(&role).await;
    let selector = json!([{"group": "rbac.authorization.k8s.io", "version": "v1",
        "kind": "ClusterRole", "name": "tenant-reader"}]);
    let rule = json!({"clusterSelector": {"clusterSelectorTerms": []},
        "jsonPatchOverrides": [{"op": "replace", "path": "", "value": admin()}]});
    let spec = json!({"placement": {"name": "tenant-reader"},
        "clusterResourceSelectors": selector, "policy": {"overrideRules": [rule]}});
    let object = json!({"apiVersion": FLEET, "kind": "ClusterResourceOverride",
        "metadata": {"name": "tenant-reader"}, "spec": spec});
    let snapshot = "tenant-reader-0";
    if clusters.hub.try_apply(&object).await.is_err() {
        let forged = by_hand("ClusterResourceOverrideSnapshot", snapshot, "tenant-reader", spec);
        clusters.hub.apply_object(&forged).await;
    }
    let there = |found: Option<&Value>| found.is_some();
    clusters.hub.eventually("clusterresourceoverridesnapshots", "", snapshot, there).await;
    let placement = json!({"apiVersion": FLEET, "kind": "ClusterResourcePlacement",
        "metadata": {"name": "tenant-reader"},
        "spec": {"resourceSelectors": selector, "policy": {"placementType": "PickAll"},
            "strategy": strategy()}});
    clusters.hub.apply_object(&placement).await;
    let kind = "ClusterResourcePlacementOverridden";
    let object = clusters.hub.becomes(CRP, "", "tenant-reader", kind, "False").await;
    let told = object.to_string();
    assert!(told.contains("kind would change from"), "{told}");
}

async fn nothing_came(clusters: &Clusters) {
    for member in clusters.members() {
        let name = member.name();
        for kind in ["clusterrolebindings", "clusterroles", "namespaces", "secrets"] {
            for object in member.list(kind, "").await {
                let is_evil = object["metadata"]["name"] == "evil"
                    || object.to_string().contains(ATTACKER)
                    || object["metadata"]["name"] == "tenant-reader";
                assert!(!is_evil, "{name}: {object:#}");
            }
        }
        for object in member.list("configmaps", "").await {
            let own = object["metadata"]["name"].as_str().unwrap_or_default();
            let ours = own.starts_with("patched-") || ["evil", "inside", "other"].contains(&own);
            assert!(!ours, "{name}: {object:#}");
        }
    }
}
