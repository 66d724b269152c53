//! Selectors that cannot work, told to whoever wrote them.

use serde_json::{Value, json};

use crate::placement::story::{CRS, RS, Story, everywhere, map, namespace};
use flagship_sim::testing::{CRP, CSPS, RP, SPS};

const CLIENT_ERROR: &str =
    "The resource selectors are invalid: failed to process the request due to a client error: ";

// checklist 20.8
#[tokio::test(start_paused = true)]
async fn a_selector_that_cannot_work_stops_the_placement_and_is_explained() {
    let story = Story::both_scopes(51).await.starts().await;
    let deployment = json!({"group": "apps", "version": "v1", "kind": "Deployment", "name": "x"});
    let unknown = json!({"group": "x.io", "version": "v1", "kind": "X"});
    let inside = |name: &str| {
        let mut term = namespace(name);
        term["selectionScope"] = json!("NamespaceWithResourceSelectors");
        term
    };
    let wide: [(&str, Vec<Value>, &str); 6] = [
        (
            "reserved",
            vec![namespace("kube-system")],
            "invalid clusterRresourcePlacement reserved: namespace kube-system is not allowed to propagate",
        ),
        (
            "default",
            vec![namespace("default")],
            "invalid clusterRresourcePlacement default: namespace default is not allowed to propagate",
        ),
        (
            "twice",
            vec![namespace("app"), namespace("app")],
            "found duplicate resource {Group: Version:v1 Kind:Namespace Name:app Namespace: Envelope:<nil>}",
        ),
        (
            "unknown",
            vec![unknown],
            "invalid placement /unknown, failed to get GVR of the selector: no matches for kind \"X\" in version \"x.io/v1\"",
        ),
        (
            "scope",
            vec![deployment],
            "invalid placement /scope: cannot select namespace-scoped resource apps/v1, Resource=deployments in a clusterResourcePlacement",
        ),
        (
            "nowhere",
            vec![inside("missing"), map("x")],
            "invalid clusterResourcePlacement nowhere: NamespaceWithResourceSelectors mode requires exactly one namespace, but no namespaces were selected",
        ),
    ];
    let role = json!({"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "x"});
    let narrow: [(&str, Vec<Value>, &str); 2] = [
        (
            "space",
            vec![namespace("app")],
            "invalid placement app/space: cannot select cluster-scoped resource Namespace in a resourcePlacement",
        ),
        (
            "role",
            vec![role],
            "invalid placement app/role: cannot select cluster-scoped resource rbac.authorization.k8s.io/v1, Resource=clusterroles in a resourcePlacement",
        ),
    ];
    for (name, selectors, _) in &wide {
        story.crp(name, everywhere(selectors)).await;
    }
    for (name, selectors, _) in &narrow {
        story.rp(name, everywhere(selectors)).await;
    }
    story.settle().await;
    let all = wide.iter().map(|(name, _, why)| (CRP, "", *name, *why));
    let all = all.chain(narrow.iter().map(|(name, _, why)| (RP, "app", *name, *why)));
    for (resource, space, name, why) in all {
        let told = story.message(resource, space, name, "Scheduled");
        assert_eq!(told, format!("{CLIENT_ERROR}{why}"));
        let conditions = story.conditions(resource, space, name);
        assert_eq!(conditions, ["Scheduled False InvalidResourceSelectors (1)"], "{name}");
        let object = story.get(resource, space, name);
        assert_eq!(object["metadata"]["finalizers"], json!(["kubernetes-fleet.io/crp-cleanup"]));
        assert_eq!(object["status"].as_object().unwrap().len(), 1, "{name}");
    }
    for snapshots in [CSPS, SPS, CRS, RS] {
        assert_eq!(story.snapshots(snapshots), [""; 0]);
    }
    // One is mended, one is given up.
    story.patch(CRP, "", "twice", json!({"spec": {"resourceSelectors": [namespace("app")]}})).await;
    story.delete(CRP, "", "reserved").await;
    story.settle().await;
    assert_eq!(
        story.conditions(CRP, "", "twice")[0],
        "Scheduled True SchedulingPolicyFulfilled (2)"
    );
    assert!(story.find(CRP, "", "reserved").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_mistake_made_later_leaves_what_was_placed() {
    let story = Story::cluster_wide(52).await.starts().await;
    story.crp("web", everywhere(&[namespace("app")])).await;
    story.settle().await;
    story.rolls_out("web", "web-0-snapshot").await;
    story.settle().await;
    let before = story.get(CRP, "", "web")["status"].clone();
    let selectors = json!([namespace("app"), namespace("default")]);
    story.patch(CRP, "", "web", json!({"spec": {"resourceSelectors": selectors}})).await;
    story.settle().await;
    let after = story.get(CRP, "", "web")["status"].clone();
    for field in ["placementStatuses", "selectedResources", "observedResourceIndex"] {
        assert_eq!(before[field], after[field], "{field}");
    }
    let conditions = story.conditions(CRP, "", "web");
    assert_eq!(conditions[0], "Scheduled False InvalidResourceSelectors (2)");
    assert_eq!(conditions[5], "Available True ResourceAvailable (1)");
    assert_eq!(story.bindings("web").len(), 2);
    assert_eq!(story.snapshots(CRS), ["web-0-snapshot latest"]);
}

#[tokio::test(start_paused = true)]
async fn a_label_that_also_means_reserved_namespaces_names_them_all() {
    let story = Story::cluster_wide(53).await.starts().await;
    for name in ["kube-a", "kube-b", "fine"] {
        story.namespace(name, json!({"ship": "yes"})).await;
    }
    let term = json!({"group": "", "version": "v1", "kind": "Namespace",
        "labelSelector": {"matchLabels": {"ship": "yes"}}});
    story.crp("web", everywhere(&[term])).await;
    story.settle().await;
    assert_eq!(
        story.message(CRP, "", "web", "Scheduled"),
        format!(
            "{CLIENT_ERROR}invalid clusterRresourcePlacement web: namespace kube-a is not allowed to propagate; neither are kube-b"
        )
    );
    // Not the placement is changed but the namespaces: that is noticed, too.
    for name in ["kube-a", "kube-b"] {
        story.patch("namespaces", "", name, json!({"metadata": {"labels": {"ship": null}}})).await;
    }
    story.pass(1).await;
    assert_eq!(story.version(CRP, "", "web"), "0: Namespace fine");
}
