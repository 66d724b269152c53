//! The stuck rollout of the troubleshooting guides, with placement controller, scheduler
//! and work generator at work; the story plays the update run and the member.

use expect_test::expect;
use flagship_hub::Options;
use serde_json::{Value, json};

use crate::work::story::{CRS, RS, Story};
use flagship_sim::testing::{CRB, CRP, RB, RP, text};

/// One way to place the Deployment of the guides.
struct Guide {
    placement: &'static str,
    binding: &'static str,
    snapshot: &'static str,
    space: &'static str,
    name: &'static str,
    selector: Value,
    deployment: (&'static str, &'static str),
    work: &'static str,
}

async fn stuck(seed: u64, guide: Guide) -> (Story, Value) {
    let mut story = Story::new(seed).await;
    story.options = Options::default();
    story.start_as("hub").await;
    let (space, name) = guide.deployment;
    story.create("namespaces", json!({"metadata": {"name": space}})).await;
    let container = json!({"name": "c", "image": "nginx:1.0.invalid.image"});
    let labels = json!({"app": name});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}});
    let meta = json!({"name": name, "namespace": space});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": meta, "spec": spec});
    story.create("deployments.apps", deployment.clone()).await;
    let in_scope = |mut meta: Value| {
        if !guide.space.is_empty() {
            meta["namespace"] = json!(guide.space);
        }
        meta
    };
    let policy = json!({"placementType": "PickFixed", "clusterNames": ["m1"]});
    let spec = json!({"resourceSelectors": [guide.selector], "policy": policy,
        "strategy": {"type": "External"}});
    let meta = in_scope(json!({"name": guide.name}));
    story.create(guide.placement, json!({"metadata": meta, "spec": spec})).await;
    story.settle().await;

    let bindings = story.bindings_of(guide.binding, guide.name);
    let of = text(&bindings[0]["metadata"]["name"]);
    let snapshot = format!("{}-0-snapshot", guide.name);
    let meta = in_scope(json!({
        "name": snapshot,
        "labels": {"kubernetes-fleet.io/parent-CRP": guide.name,
            "kubernetes-fleet.io/is-latest-snapshot": "true",
            "kubernetes-fleet.io/resource-index": "0"},
        "annotations": {"kubernetes-fleet.io/resource-hash": "h",
            "kubernetes-fleet.io/number-of-resource-snapshots": "1",
            "kubernetes-fleet.io/number-of-enveloped-object": "0"},
    }));
    let held = json!({"metadata": meta, "spec": {"selectedResources": [deployment]}});
    story.create(guide.snapshot, held).await;
    let bound = json!({"spec": {"state": "Bound", "resourceSnapshotName": snapshot}});
    story.patch(guide.binding, guide.space, &of, bound).await;
    let message = "Detected the new changes on the resources and started the rollout process, \
                   resourceSnapshotIndex: 0, updateRun: example-run";
    let generation = story.get(guide.binding, guide.space, &of)["metadata"]["generation"].clone();
    let started = json!([{"type": "RolloutStarted", "status": "True", "reason": "RolloutStarted",
        "message": message, "observedGeneration": generation, "lastTransitionTime": story.now()}]);
    story.says(guide.binding, guide.space, &of, json!({"conditions": started})).await;
    story.pass(2).await;

    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "observedGeneration": 1, "lastTransitionTime": "2026-01-12T22:44:08Z"})
    };
    let not_yet = "Manifest is not yet available; Fleet will check again later";
    let told = json!([{
        "identifier": {"ordinal": 0, "group": "apps", "version": "v1", "kind": "Deployment",
            "resource": "deployments", "name": name, "namespace": space},
        "conditions": [
            condition("Applied", "True", "Applied", "Manifest has been applied successfully"),
            condition("Available", "False", "ManifestNotAvailableYet", not_yet),
        ],
    }]);
    let says = [
        ("Applied", "True", "AllManifestsApplied"),
        ("Available", "False", "SomeManifestsAreNotAvailable"),
    ];
    story.member_says("m1", guide.work, &says, told).await;
    story.pass(2).await;
    let status = story.get(guide.placement, guide.space, guide.name)["status"].clone();
    let on_binding = story.get(guide.binding, guide.space, &of)["status"].clone();
    let shown = &status["placementStatuses"][0];
    assert_eq!(shown["failedPlacements"], on_binding["failedPlacements"]);
    (story, shown.clone())
}

/// As the guides print it: each condition, then the failures.
fn printed(status: &Value) -> String {
    let mut lines = vec![format!("Cluster Name: {}", text(&status["clusterName"]))];
    let tell = |c: &Value| {
        let [message, reason, status, kind] =
            ["message", "reason", "status", "type"].map(|field| text(&c[field]));
        format!("{kind} {status} {reason} ({}): {message}", c["observedGeneration"])
    };
    lines.extend(status["conditions"].as_array().into_iter().flatten().map(tell));
    for failed in status["failedPlacements"].as_array().into_iter().flatten() {
        let [group, version, kind, space, name] =
            ["group", "version", "kind", "namespace", "name"].map(|field| text(&failed[field]));
        lines.push(format!("failed: {group}/{version} {kind} {space}/{name}"));
        lines.push(tell(&failed["condition"]));
    }
    lines.join("\n") + "\n"
}

#[tokio::test(start_paused = true)]
async fn a_bad_image_shows_as_the_guide_prints_it() {
    let selector = json!({"group": "", "version": "v1", "kind": "Namespace",
        "name": "test-namespace"});
    let guide = Guide {
        placement: CRP,
        binding: CRB,
        snapshot: CRS,
        space: "",
        name: "example-placement",
        selector,
        deployment: ("test-namespace", "nginx-deployment"),
        work: "example-placement-work",
    };
    let (_, status) = stuck(1, guide).await;
    expect![[r#"
        Cluster Name: m1
        Scheduled True Scheduled (1): Successfully scheduled resources for placement in "m1": picked by scheduling policy
        RolloutStarted True RolloutStarted (1): Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 0, updateRun: example-run
        Overridden True NoOverrideSpecified (1): No override rules are configured for the selected resources
        WorkSynchronized True AllWorkSynced (1): All of the works are synchronized to the latest
        Applied True AllWorkHaveBeenApplied (1): All corresponding work objects are applied
        Available False NotAllWorkAreAvailable (1): Work object example-placement-work is not yet available
        failed: apps/v1 Deployment test-namespace/nginx-deployment
        Available False ManifestNotAvailableYet (1): Manifest is not yet available; Fleet will check again later
    "#]].assert_eq(&printed(&status));
}

#[tokio::test(start_paused = true)]
async fn a_bad_image_of_a_namespaced_placement_shows_as_the_guide_prints_it() {
    let selector = json!({"group": "apps", "version": "v1", "kind": "Deployment",
        "name": "web-app"});
    let guide = Guide {
        placement: RP,
        binding: RB,
        snapshot: RS,
        space: "my-app-namespace",
        name: "web-app-placement",
        selector,
        deployment: ("my-app-namespace", "web-app"),
        work: "my-app-namespace.web-app-placement-work",
    };
    let (_, status) = stuck(2, guide).await;
    expect![[r#"
        Cluster Name: m1
        Scheduled True Scheduled (1): Successfully scheduled resources for placement in "m1": picked by scheduling policy
        RolloutStarted True RolloutStarted (1): Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 0, updateRun: example-run
        Overridden True NoOverrideSpecified (1): No override rules are configured for the selected resources
        WorkSynchronized True AllWorkSynced (1): All of the works are synchronized to the latest
        Applied True AllWorkHaveBeenApplied (1): All corresponding work objects are applied
        Available False NotAllWorkAreAvailable (1): Work object my-app-namespace.web-app-placement-work is not yet available
        failed: apps/v1 Deployment my-app-namespace/web-app
        Available False ManifestNotAvailableYet (1): Manifest is not yet available; Fleet will check again later
    "#]].assert_eq(&printed(&status));
}
