//! Overrides all the way into Works: rollout, override snapshots and work generator together.

use serde_json::{Value, json};

use crate::rollout::story::{
    CLUSTER_WIDE, CRO, IN_NAMESPACE, RO, Side, Story, of_namespace, of_settings, rolling,
};

fn adding(path: &str, value: Value) -> Value {
    json!({"overrideRules": [{
        "clusterSelector": {"clusterSelectorTerms": []},
        "jsonPatchOverrides": [{"op": "add", "path": path, "value": value}],
    }]})
}

async fn fresh(seed: u64, side: Side) -> Story {
    let story = Story::delivering(seed, side, 2).await;
    story.places(rolling(json!(1), json!(0))).await;
    story.member_is_fine("m1").await;
    story.member_is_fine("m2").await;
    assert_eq!(story.told(), ["m1 Bound 0 started", "m2 Bound 0 started"]);
    story
}

// checklist 12 overrides: override update without resource change still refreshes Works and
// status; override deletion reverts. Cluster-name and label variables.
#[tokio::test(start_paused = true)]
async fn an_override_reaches_the_works_and_its_end_does_too() {
    for (seed, side, scope) in [(80, CLUSTER_WIDE, "Cluster"), (81, IN_NAMESPACE, "Namespaced")] {
        let story = fresh(seed, side).await;
        let value = json!("${MEMBER-CLUSTER-NAME} in ${MEMBER-CLUSTER-LABEL-KEY-env}");
        story.ro("narrow", of_settings(scope, adding("/data/where", value))).await;
        let place = |cluster: &str| story.manifest(cluster).unwrap()["data"]["where"].clone();
        assert_eq!((place("m1"), place("m2")), (json!("m1 in canary"), Value::Null));
        story.member_is_fine("m1").await;
        assert_eq!(place("m2"), json!("m2 in prod"));
        story.member_is_fine("m2").await;
        assert_eq!(
            story.said("m2", "Overridden"),
            "True OverriddenSucceeded: Successfully applied the override rules on the resources"
        );
        let policy = adding("/data/where", json!("here"));
        story.patch(RO, "app", "narrow", json!({"spec": {"policy": policy}})).await;
        story.settle().await;
        story.member_is_fine("m1").await;
        assert_eq!((place("m1"), place("m2")), (json!("here"), json!("here")));
        story.member_is_fine("m2").await;
        story.delete(RO, "app", "narrow").await;
        story.settle().await;
        story.member_is_fine("m1").await;
        assert_eq!((place("m1"), place("m2")), (Value::Null, Value::Null));
        assert_eq!(
            story.said("m1", "Overridden"),
            "True NoOverrideSpecified: No override rules are configured for the selected resources"
        );
    }
}

// checklist 12 overrides: missing label → error naming snapshot and target; existing Work
// untouched. 13: one cluster `OverriddenFailed`, the others held back.
#[tokio::test(start_paused = true)]
async fn a_mistake_in_an_override_stops_at_the_first_cluster() {
    let story = fresh(82, CLUSTER_WIDE).await;
    let before = (story.manifest("m1"), story.manifest("m2"));
    let missing = adding("/data/where", json!("${MEMBER-CLUSTER-LABEL-KEY-zone}"));
    story.ro("narrow", of_settings("Cluster", missing)).await;
    assert_eq!(story.told(), ["m1 Bound 0 with narrow-0 started", "m2 Bound 0 held back"]);
    assert_eq!(
        story.said("m1", "Overridden"),
        "False OverriddenFailed: Failed to apply the override rules on the resources: \
         ResourceOverrideSnapshot \"narrow-0\" failed to apply on ConfigMap \"settings\" in namespace \
         \"app\": label key zone not found on cluster m1"
    );
    story.heartbeats(1).await;
    assert_eq!((story.manifest("m1"), story.manifest("m2")), before);
    // Corrected, it goes where it failed, and then on.
    let policy = adding("/data/where", json!("here"));
    story.patch(RO, "app", "narrow", json!({"spec": {"policy": policy}})).await;
    story.settle().await;
    assert_eq!(story.told(), ["m1 Bound 0 with narrow-1 started", "m2 Bound 0 held back"]);
    story.member_is_fine("m1").await;
    assert_eq!(story.told()[1], "m2 Bound 0 with narrow-1 started");
}

// checklist 12 overrides: wrong path → `OverriddenFailed`, no Work written; Delete on one
// cluster only; namespace-selecting CRO hits all objects in the namespace.
#[tokio::test(start_paused = true)]
async fn what_is_taken_out_on_a_cluster_is_in_no_work_of_it() {
    let story = fresh(83, CLUSTER_WIDE).await;
    let canaries = json!([{"labelSelector": {"matchLabels": {"env": "canary"}}}]);
    let policy = json!({"overrideRules": [
        {"clusterSelector": {"clusterSelectorTerms": canaries}, "overrideType": "Delete"},
    ]});
    story.cro("wide", of_namespace(policy)).await;
    assert_eq!(story.told(), ["m1 Bound 0 with wide-0 started", "m2 Bound 0 started"]);
    assert_eq!(story.manifest("m1"), None);
    assert!(story.manifest("m2").is_some());
    story.member_is_fine("m1").await;

    let nowhere = adding("/spec/a/b", json!(1));
    story.patch(CRO, "", "wide", json!({"spec": {"policy": nowhere}})).await;
    story.settle().await;
    assert!(
        story.said("m1", "Overridden").ends_with(
            "failed to apply on Namespace \"app\": add operation does not apply: doc is missing path: \
             \"/spec/a/b\": missing value"
        ),
        "{}",
        story.said("m1", "Overridden")
    );
    assert_eq!(story.manifest("m1"), None);
    assert_eq!(story.told()[1], "m2 Bound 0 held back");
}
