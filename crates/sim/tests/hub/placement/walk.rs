//! Stories of placements on a hub that delivers nothing: what is selected becomes a
//! version, clusters are chosen for it, and the status says how far it came.

use expect_test::expect;
use flagship_hub::Options;
use flagship_sim::testing::{CRP, CSPS, IMC, RP, TestHub, WORK, text, without_delivery};
use serde_json::{Value, json};

use crate::placement::story::{COPIES, CRS, RS};

async fn world(seed: u64) -> TestHub {
    let world = TestHub::running_with(seed, without_delivery()).await;
    world.cluster("m1", json!({})).await;
    world.cluster("m2", json!({})).await;
    map(&world, "one", "1").await;
    world.settle().await;
    world
}

async fn map(world: &TestHub, name: &str, value: &str) {
    let meta = json!({"name": name, "namespace": "app"});
    world.create("configmaps", json!({"metadata": meta, "data": {"v": value}})).await;
}

async fn place(world: &TestHub, name: &str, spec: Value) {
    let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
    let mut all = json!({"resourceSelectors": selector, "policy": {"placementType": "PickAll"}});
    for (key, value) in spec.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    world.create(CRP, json!({"metadata": {"name": name}, "spec": all})).await;
    world.settle().await;
}

/// The conditions, and what was selected.
fn told(world: &TestHub, resource: &str, space: &str, name: &str) -> String {
    let status = &world.get(resource, space, name)["status"];
    let mut lines = vec![format!("index {:?}", text(&status["observedResourceIndex"]))];
    for resource in status["selectedResources"].as_array().into_iter().flatten() {
        lines.push(format!("{} {}", text(&resource["kind"]), text(&resource["name"])));
    }
    for c in status["conditions"].as_array().into_iter().flatten() {
        let word = |key: &str| text(&c[key]);
        lines.push(format!("{}={} {}", word("type"), word("status"), word("reason")));
    }
    lines.join("\n")
}

/// `name latest` of every resource snapshot.
fn versions(world: &TestHub, resource: &str) -> Vec<String> {
    let latest = |object: &Value| {
        let label = &object["metadata"]["labels"]["kubernetes-fleet.io/is-latest-snapshot"];
        format!("{} {}", text(&object["metadata"]["name"]), text(label))
    };
    world.list(resource, "").iter().map(latest).collect()
}

#[tokio::test(start_paused = true)]
async fn a_placement_is_selected_frozen_scheduled_and_reported() {
    let world = world(1).await;
    place(&world, "web", json!({})).await;
    expect![[r#"
        index "0"
        Namespace app
        ConfigMap one
        ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled
        ClusterResourcePlacementRolloutStarted=Unknown RolloutStartedUnknown"#]]
    .assert_eq(&told(&world, CRP, "", "web"));
    assert_eq!(versions(&world, CRS), ["web-0-snapshot true"]);
    assert_eq!(world.bindings("web"), ["m1 Scheduled web-0", "m2 Scheduled web-0"]);
    let mut finalizers: Vec<String> = world.get(CRP, "", "web")["metadata"]["finalizers"]
        .as_array()
        .unwrap()
        .iter()
        .map(text)
        .collect();
    finalizers.sort();
    assert_eq!(
        finalizers,
        ["kubernetes-fleet.io/crp-cleanup", "kubernetes-fleet.io/scheduler-cleanup"]
    );
    let snapshot = world.get(CRS, "", "web-0-snapshot");
    let manifests = snapshot["spec"]["selectedResources"].as_array().unwrap();
    assert_eq!(
        manifests[1],
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": "1"},
            "metadata": {"name": "one", "namespace": "app"}})
    );
}

#[tokio::test(start_paused = true)]
async fn changes_are_collected_into_one_new_version() {
    let world = world(2).await;
    place(&world, "web", json!({})).await;
    world.pass(60).await;
    world.patch("configmaps", "app", "one", json!({"data": {"v": "2"}})).await;
    world.pass(5).await;
    map(&world, "two", "x").await;
    assert_eq!(versions(&world, CRS), ["web-0-snapshot true"]);
    world.pass(20).await;
    assert_eq!(versions(&world, CRS), ["web-0-snapshot false", "web-1-snapshot true"]);
    let status = told(&world, CRP, "", "web");
    assert!(
        status.starts_with("index \"1\"\nNamespace app\nConfigMap one\nConfigMap two\n"),
        "{status}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_the_policy_reaches_the_clusters() {
    let world = world(3).await;
    place(&world, "web", json!({"policy": {"placementType": "PickN", "numberOfClusters": 1}}))
        .await;
    assert_eq!(world.bindings("web"), ["m2 Scheduled web-0"]);
    world.patch(CRP, "", "web", json!({"spec": {"policy": {"numberOfClusters": 2}}})).await;
    world.settle().await;
    assert_eq!(world.bindings("web"), ["m1 Scheduled web-0", "m2 Scheduled web-0"]);
    let tolerations = json!([{"key": "k", "operator": "Exists"}]);
    world.patch(CRP, "", "web", json!({"spec": {"policy": {"tolerations": tolerations}}})).await;
    world.settle().await;
    assert_eq!(world.bindings("web"), ["m1 Scheduled web-1", "m2 Scheduled web-1"]);
    let latest = |name: &str| {
        let labels = world.get(CSPS, "", name)["metadata"]["labels"].clone();
        text(&labels["kubernetes-fleet.io/is-latest-snapshot"])
    };
    assert_eq!((latest("web-0"), latest("web-1")), ("false".to_owned(), "true".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn selectors_that_cannot_work_are_told_and_nothing_is_frozen() {
    let world = world(4).await;
    let selector =
        json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "kube-system"}]);
    place(&world, "web", json!({"resourceSelectors": selector})).await;
    let status = &world.get(CRP, "", "web")["status"];
    expect!["The resource selectors are invalid: failed to process the request due to a client error: invalid clusterRresourcePlacement web: namespace kube-system is not allowed to propagate"]
        .assert_eq(&text(&status["conditions"][0]["message"]));
    assert_eq!(versions(&world, CRS), Vec::<String>::new());
    assert_eq!(world.list(CSPS, "").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_appears_later_is_waited_for() {
    let world = world(5).await;
    let selector = json!([{"group": "example.com", "version": "v1", "kind": "Shop", "name": "s"}]);
    place(&world, "web", json!({"resourceSelectors": selector})).await;
    let message = text(&world.get(CRP, "", "web")["status"]["conditions"][0]["message"]);
    assert!(
        message.ends_with("no matches for kind \"Shop\" in version \"example.com/v1\""),
        "{message}"
    );
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let names =
        json!({"kind": "Shop", "listKind": "ShopList", "plural": "shops", "singular": "shop"});
    let spec =
        json!({"group": "example.com", "names": names, "scope": "Cluster", "versions": [version]});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "shops.example.com"}, "spec": spec});
    world.create("customresourcedefinitions.apiextensions.k8s.io", definition).await;
    world.settle().await;
    let shop = json!({"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "s"}});
    world.create("shops.example.com", shop).await;
    world.pass(60).await;
    assert!(
        told(&world, CRP, "", "web").contains("\nShop s\n"),
        "{}",
        told(&world, CRP, "", "web")
    );
}

#[tokio::test(start_paused = true)]
async fn a_namespaced_placement_selects_in_its_own_namespace() {
    let world = world(6).await;
    let selector = json!([{"group": "", "version": "v1", "kind": "ConfigMap", "name": "one"}]);
    let spec = json!({"resourceSelectors": selector, "policy": {"placementType": "PickAll"}});
    world.create(RP, json!({"metadata": {"name": "web", "namespace": "app"}, "spec": spec})).await;
    world.settle().await;
    expect![[r#"
        index "0"
        ConfigMap one
        ResourcePlacementScheduled=True SchedulingPolicyFulfilled
        ResourcePlacementRolloutStarted=Unknown RolloutStartedUnknown"#]]
    .assert_eq(&told(&world, RP, "app", "web"));
    assert_eq!(versions(&world, RS), ["web-0-snapshot true"]);
}

#[tokio::test(start_paused = true)]
async fn versions_are_left_to_update_runs_where_the_strategy_says_so() {
    let world = world(7).await;
    place(&world, "web", json!({"strategy": {"type": "External"}})).await;
    assert_eq!(versions(&world, CRS), Vec::<String>::new());
    assert_eq!(world.bindings("web").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_status_is_copied_into_the_placed_namespace_and_comes_back_if_deleted() {
    let world = world(8).await;
    place(&world, "web", json!({"statusReportingScope": "NamespaceAccessible"})).await;
    let copy = world.get(COPIES, "app", "web");
    assert_eq!(copy["sourceStatus"]["observedResourceIndex"], "0");
    world.delete(COPIES, "app", "web").await;
    world.settle().await;
    assert!(world.find(COPIES, "app", "web").is_some());
    assert!(told(&world, CRP, "", "web").contains("StatusSynced=True StatusSyncSucceeded"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_placement_leaves_nothing_behind() {
    let world = world(9).await;
    place(&world, "web", json!({})).await;
    place(&world, "api", json!({})).await;
    world.delete(CRP, "", "web").await;
    world.settle().await;
    assert!(world.find(CRP, "", "web").is_none());
    assert_eq!(versions(&world, CRS), ["api-0-snapshot true"]);
    assert_eq!(world.list(CSPS, "").len(), 1);
    assert_eq!(world.bindings("web"), Vec::<String>::new());
    assert_eq!(world.bindings("api").len(), 2);
    let metrics = world.metrics.render();
    assert!(!metrics.contains("name=\"web\""), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn a_settled_fleet_is_quiet_through_hours_and_restarts() {
    let mut world = world(10).await;
    place(&world, "web", json!({})).await;
    place(&world, "copied", json!({"statusReportingScope": "NamespaceAccessible"})).await;
    place(&world, "runs", json!({"strategy": {"type": "External"}})).await;
    world.pass(60).await;
    let before = world.writes("hub").len();
    world.heartbeats(120).await;
    let heard = world.list(IMC, "").len() * 120;
    let writes = &world.writes("hub")[before..];
    let others: Vec<_> =
        writes.iter().filter(|w| !w.starts_with("update memberclusters")).collect();
    assert_eq!(others, Vec::<&String>::new());
    assert_eq!(writes.len(), heard, "heartbeats, and nothing else");
    world.kill("hub").await;
    world.start("again", without_delivery());
    world.settle().await;
    assert_eq!(world.writes("again"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_waits_for_its_members_writes_nothing_when_it_starts_again() {
    let mut world = TestHub::running_with(11, Options::default()).await;
    for member in ["m1", "m2", "m3"] {
        world.cluster(member, json!({})).await;
    }
    place(&world, "web", json!({"strategy": {"rollingUpdate": {"maxUnavailable": "100%"}}})).await;
    world.heartbeats(2).await;
    assert_eq!(world.list(WORK, "").len(), 3, "nobody has reported on them");
    world.stop("hub").await;
    world.start("again", Options::default());
    world.settle().await;
    assert_eq!(world.writes("again"), Vec::<String>::new());
}
