//! Overrides become numbered snapshots.

use serde_json::{Value, json};

use crate::rollout::story::{
    CLUSTER_WIDE, CRO, CROS, IN_NAMESPACE, RO, ROS, Story, labelling, of_namespace, of_settings,
};
use flagship_sim::testing::text;

// checklist 12 overrides: create → snapshot `-0` latest; update → `-1` latest and `-0`
// false; no change → no new snapshot; latest label repaired.
#[tokio::test(start_paused = true)]
async fn every_change_of_an_override_is_one_snapshot() {
    let story = Story::begin(40, CLUSTER_WIDE, 0).await;
    story.cro("wide", of_namespace(labelling(None, "a"))).await;
    story.ro("narrow", of_settings("Cluster", labelling(None, "a"))).await;
    for (kind, frozen, space, name) in [(CRO, CROS, "", "wide"), (RO, ROS, "app", "narrow")] {
        let (first, second) = (format!("{name}-0"), format!("{name}-1"));
        assert_eq!(story.frozen(frozen), [format!("{first} latest")]);
        let snapshot = story.get(frozen, space, &first);
        let meta = &snapshot["metadata"];
        assert_eq!(
            meta["labels"],
            json!({"kubernetes-fleet.io/is-latest-snapshot": "true",
                "kubernetes-fleet.io/override-index": "0",
                "kubernetes-fleet.io/parent-resource-override": name})
        );
        let owner = &meta["ownerReferences"][0];
        assert_eq!((&owner["name"], &owner["controller"]), (&json!(name), &json!(true)));
        assert_eq!(snapshot["spec"]["overrideSpec"], story.get(kind, space, name)["spec"]);
        let finalizers = &story.get(kind, space, name)["metadata"]["finalizers"];
        assert_eq!(*finalizers, json!(["kubernetes-fleet.io/override-cleanup"]));

        // A label on the override is no change of it.
        story.patch(kind, space, name, json!({"metadata": {"labels": {"x": "y"}}})).await;
        story.settle().await;
        assert_eq!(story.frozen(frozen).len(), 1);
        story.patch(kind, space, name, json!({"spec": {"policy": labelling(None, "b")}})).await;
        story.settle().await;
        assert_eq!(story.frozen(frozen), [first, format!("{second} latest")]);
        let unlabelled =
            json!({"metadata": {"labels": {"kubernetes-fleet.io/is-latest-snapshot": null}}});
        story.patch(frozen, space, &second, unlabelled).await;
        story.settle().await;
        assert!(story.frozen(frozen).contains(&format!("{second} latest")));
        // Even one that was deleted by hand comes back.
        story.delete(frozen, space, &second).await;
        story.settle().await;
        assert!(story.frozen(frozen).contains(&format!("{second} latest")));
    }
}

// ours (11.2 #8): create the new snapshot first, then flip the old one.
#[tokio::test(start_paused = true)]
async fn there_is_a_latest_snapshot_at_any_time() {
    let story = Story::begin(41, CLUSTER_WIDE, 0).await;
    story.cro("wide", of_namespace(labelling(None, "a"))).await;
    story.patch(CRO, "", "wide", json!({"spec": {"policy": labelling(None, "b")}})).await;
    story.settle().await;
    let mut writes = story.writes("hub");
    writes.retain(|write| write.contains("clusterresourceoverridesnapshots"));
    let names: Vec<&str> = writes.iter().map(|write| write.as_str()).collect();
    assert!(names[1].starts_with("create ") && names[2].starts_with("patch "), "{names:?}");
    assert!(names[2].contains("wide-0"), "{names:?}");
}

// checklist 12 overrides: deletion removes all snapshots and the finalizer; no finalizer → no
// action.
#[tokio::test(start_paused = true)]
async fn a_deleted_override_takes_its_snapshots_along() {
    let story = Story::begin(42, CLUSTER_WIDE, 0).await;
    story.cro("wide", of_namespace(labelling(None, "a"))).await;
    story.cro("other", of_other_namespace()).await;
    story.patch(CRO, "", "wide", json!({"spec": {"policy": labelling(None, "b")}})).await;
    story.settle().await;
    assert_eq!(story.frozen(CROS), ["other-0 latest", "wide-0", "wide-1 latest"]);
    story.delete(CRO, "", "wide").await;
    story.settle().await;
    assert_eq!(story.find(CRO, "", "wide"), None);
    assert_eq!(story.frozen(CROS), ["other-0 latest"]);
}

fn of_other_namespace() -> Value {
    let mut spec = of_namespace(labelling(None, "a"));
    spec["clusterResourceSelectors"][0]["name"] = json!("other");
    spec
}

// checklist 12 overrides: trim at and above 10. Ours (11.2 #10): never what a live binding
// names.
#[tokio::test(start_paused = true)]
async fn old_snapshots_go_unless_a_cluster_still_has_them() {
    let story = Story::begin(43, CLUSTER_WIDE, 2).await;
    let mut rolling = crate::rollout::story::rolling(json!(1), json!(0));
    rolling["policy"] = json!({"placementType": "PickAll"});
    story.cro("wide", of_namespace(labelling(None, "0"))).await;
    story.places(rolling).await;
    story.all_work().await;
    assert_eq!(story.told(), ["m1 Bound 0 with wide-0 started", "m2 Bound 0 with wide-0 started"]);
    for version in 1..=11 {
        let policy = labelling(None, &version.to_string());
        story.patch(CRO, "", "wide", json!({"spec": {"policy": policy}})).await;
        story.settle().await;
        // m1 takes every version and never works, so m2 keeps the first.
        story.is_down("m1").await;
    }
    assert_eq!(story.told()[1], "m2 Bound 0 with wide-0 held back");
    let kept: Vec<String> = story.frozen(CROS);
    assert!(kept.contains(&"wide-0".to_owned()), "{kept:?}");
    assert!(!kept.contains(&"wide-1".to_owned()), "{kept:?}");
    assert!(kept.contains(&"wide-11 latest".to_owned()), "{kept:?}");
    assert_eq!(kept.len(), 10, "{kept:?}");
}

// checklist 12 overrides: override spec hash vectors of 1.4; unchanged override read back
// from an older installation creates no new snapshot.
#[tokio::test(start_paused = true)]
async fn an_override_of_an_older_installation_stays_as_it_is() {
    let mut story = Story::begin(44, IN_NAMESPACE, 0).await;
    story.stop("hub").await;
    let spec = json!({
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "cm"}],
        "policy": {"overrideRules": [{
            "clusterSelector": {"clusterSelectorTerms":
                [{"labelSelector": {"matchLabels": {"env": "prod"}}}]},
            "overrideType": "Delete",
        }]},
    });
    story.ro("narrow", spec.clone()).await;
    let hash =
        "ODBkOWI2OWUwNWFjZmRmMTI1MDI1NmU3ZmJmNmM4ZDQwNTQxNzIxZWQzZGUwNWRmMWI5OWZlODdjNTUyMmFlNg==";
    let labels = json!({"kubernetes-fleet.io/is-latest-snapshot": "true",
        "kubernetes-fleet.io/override-index": "4",
        "kubernetes-fleet.io/parent-resource-override": "narrow"});
    let meta = json!({"name": "narrow-4", "namespace": "app", "labels": labels});
    let frozen = json!({"overrideSpec": spec, "overrideHash": hash});
    story.create(ROS, json!({"metadata": meta, "spec": frozen})).await;
    story.start_as("later").await;
    assert_eq!(story.frozen(ROS), ["narrow-4 latest"]);
    // And what we freeze carries the same hash.
    story.delete(ROS, "app", "narrow-4").await;
    story.settle().await;
    let anew = story.get(ROS, "app", "narrow-0");
    assert_eq!(text(&anew["spec"]["overrideHash"]), hash);
}

// checklist 12 overrides: invalid index label errors.
#[tokio::test(start_paused = true)]
async fn nothing_is_frozen_while_a_number_cannot_be_read() {
    let story = Story::begin(45, CLUSTER_WIDE, 0).await;
    story.cro("wide", of_namespace(labelling(None, "a"))).await;
    let labels = |index: &str| json!({"metadata": {"labels": {"kubernetes-fleet.io/override-index": index}}});
    story.patch(CROS, "", "wide-0", labels("zero")).await;
    story.patch(CRO, "", "wide", json!({"spec": {"policy": labelling(None, "b")}})).await;
    story.settle().await;
    assert_eq!(story.frozen(CROS), ["wide-0 latest"]);
    story.patch(CROS, "", "wide-0", labels("0")).await;
    story.settle().await;
    assert_eq!(story.frozen(CROS), ["wide-0", "wide-1 latest"]);
}
