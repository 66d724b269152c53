//! Kinds that appear later, kinds that are never propagated, and objects nobody can read.

use flagship_rules::placement::selection::{SelectionOptions, SkippedNamespaces, TypeRules};
use serde_json::{Value, json};

use crate::placement::story::{COPIES, CRS, DEFINITIONS, RUNS, Story, everywhere, map, namespace};
use flagship_sim::testing::{CRB, CRP, CSPS, RP};

fn definition(kind: &str, scope: &str) -> Value {
    let singular = kind.to_lowercase();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{singular}s.example.com")},
        "spec": {
            "group": "example.com", "scope": scope,
            "names": {"plural": format!("{singular}s"), "singular": singular, "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

fn object(kind: &str, space: &str, name: &str) -> Value {
    let mut object = json!({"apiVersion": "example.com/v1", "kind": kind,
        "metadata": {"name": name}, "spec": {"n": 1}});
    if !space.is_empty() {
        object["metadata"]["namespace"] = json!(space);
    }
    object
}

fn term(kind: &str) -> Value {
    json!({"group": "example.com", "version": "v1", "kind": kind})
}

// checklist 20.39
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_defined_later_is_selected_as_soon_as_it_is_there() {
    let story = Story::both_scopes(41).await.starts().await;
    story.crp("wide", everywhere(&[term("Planet")])).await;
    story.crp("app", everywhere(&[namespace("app")])).await;
    story.rp("web", everywhere(&[term("Gadget")])).await;
    story.settle().await;
    assert_eq!(
        story.message(CRP, "", "wide", "Scheduled"),
        "The resource selectors are invalid: failed to process the request due to a client error: invalid placement /wide, failed to get GVR of the selector: no matches for kind \"Planet\" in version \"example.com/v1\""
    );
    story.create(DEFINITIONS, definition("Planet", "Cluster")).await;
    story.create(DEFINITIONS, definition("Gadget", "Namespaced")).await;
    story.pass(5).await;
    assert_eq!(
        story.conditions(RP, "app", "web")[0],
        "Scheduled True SchedulingPolicyFulfilled (1)"
    );
    story.create("planets.example.com", object("Planet", "", "earth")).await;
    story.create("gadgets.example.com", object("Gadget", "app", "one")).await;
    story.pass(5).await;
    assert!(story.version(CRP, "", "wide").ends_with(": Planet earth"));
    assert!(story.version(RP, "app", "web").ends_with(": Gadget one"));
    assert_eq!(story.version(CRP, "", "app"), "1: Namespace app, Gadget one");
    // The kind goes, and everything of it.
    story.delete(DEFINITIONS, "", "gadgets.example.com").await;
    story.pass(120).await;
    assert_eq!(story.version(CRP, "", "app"), "2: Namespace app");
    assert_eq!(
        story.conditions(RP, "app", "web")[0],
        "Scheduled False InvalidResourceSelectors (1)"
    );
}

#[tokio::test(start_paused = true)]
async fn records_of_runs_stay_on_the_hub_with_their_namespace_selected() {
    let story = Story::both_scopes(43).await.starts().await;
    let record = json!({"metadata": {"namespace": "app", "name": "run"},
        "spec": {"run": {"name": "run", "uid": "1"}, "part": 2, "entries": []}});
    story.create("rolloutrecords.flagship.dev", record).await;
    story.crp("app", everywhere(&[namespace("app")])).await;
    story.settle().await;
    assert_eq!(story.version(CRP, "", "app"), "0: Namespace app");
}

// checklist 20.11, 20.14
#[tokio::test(start_paused = true)]
async fn an_operator_decides_what_may_leave_the_hub() {
    let mut story = Story::cluster_wide(42).await;
    story.options.selection = SelectionOptions {
        types: TypeRules::read("v1/Secret", "").unwrap(),
        skipped_namespaces: SkippedNamespaces::read("private"),
        workloads_run_here: true,
    };
    let story = story.starts().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"namespace": "app", "name": "key"}});
    story.create("secrets", secret).await;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "app", "name": "disk"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    story.create("persistentvolumeclaims", claim).await;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"namespace": "app", "name": "reader"}, "rules": []});
    story.create("roles.rbac.authorization.k8s.io", role).await;
    story.map("app", "settings", "x").await;
    story.namespace("private", json!({})).await;
    story.crp("web", everywhere(&[namespace("app")])).await;
    story.crp("private", everywhere(&[namespace("private")])).await;
    let secrets = json!({"group": "", "version": "v1", "kind": "Secret", "name": "key"});
    let mut inside = namespace("app");
    inside["selectionScope"] = json!("NamespaceWithResourceSelectors");
    story.crp("keys", everywhere(&[inside, secrets])).await;
    story.settle().await;
    assert_eq!(story.version(CRP, "", "web"), "0: Namespace app, ConfigMap settings, Role reader");
    assert_eq!(story.version(CRP, "", "keys"), "0: Namespace app");
    assert_eq!(
        story.message(CRP, "", "private", "Scheduled"),
        "The resource selectors are invalid: failed to process the request due to a client error: invalid clusterRresourcePlacement private: namespace private is not allowed to propagate"
    );
    let events = story.events("ClusterResourcePlacement");
    assert!(
        events.iter().any(|e| e.starts_with("Warning SelectedTypeNotPropagated keys: ")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_nobody_can_read_leaves_every_other_placement_working() {
    let story = Story::both_scopes(43).await;
    let meta =
        |name: &str| json!({"name": name, "labels": {"kubernetes-fleet.io/parent-CRP": "web"}});
    let nonsense = |kind: &str, name: &str| {
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind,
            "metadata": meta(name), "spec": "nonsense", "sourceStatus": 7})
    };
    story.smuggle(CRP, nonsense("ClusterResourcePlacement", "bad"));
    story.smuggle(CSPS, nonsense("ClusterSchedulingPolicySnapshot", "bad-0"));
    story.smuggle(CRS, nonsense("ClusterResourceSnapshot", "bad-0-snapshot"));
    story.smuggle(CRB, nonsense("ClusterResourceBinding", "bad-member1-12345678"));
    story.smuggle(RUNS, nonsense("ClusterStagedUpdateRun", "bad-run"));
    let mut copy = nonsense("ClusterResourcePlacementStatus", "web");
    copy["metadata"]["namespace"] = json!("app");
    story.smuggle(COPIES, copy);
    let mut broken = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "broken", "name": "bad", "labels": {}}});
    broken["metadata"]["ownerReferences"] = json!("nonsense");
    story.namespace("broken", json!({})).await;
    story.smuggle("configmaps", broken);
    let story = story.starts().await;
    story.map("app", "settings", "x").await;
    let mut accessible = everywhere(&[namespace("app")]);
    accessible["statusReportingScope"] = json!("NamespaceAccessible");
    story.crp("web", accessible).await;
    story.crp("broken", everywhere(&[namespace("broken")])).await;
    story.rp("web", everywhere(&[map("settings")])).await;
    story.settle().await;
    assert_eq!(story.version(CRP, "", "web"), "0: Namespace app, ConfigMap settings");
    assert_eq!(story.version(RP, "app", "web"), "0: ConfigMap settings");
    // The copy is ours, whatever stood there.
    assert_eq!(story.get(COPIES, "app", "web")["sourceStatus"]["observedResourceIndex"], "0");
    assert_eq!(story.conditions(CRP, "", "broken"), [""; 0]);
    // The reader of the broken namespace goes on as soon as somebody mends it.
    story.delete("configmaps", "broken", "bad").await;
    story.pass(120).await;
    assert_eq!(story.version(CRP, "", "broken"), "0: Namespace broken");
}
