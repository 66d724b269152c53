//! Stories of placements on a hub that delivers nothing: what is selected becomes a
//! version, clusters are chosen for it, and the status says how far it came.

use expect_test::expect;
use flagship_sim::testing::{
    CRP, CSPS, IMC, RP, TestHub, WORK, text, without_delivery, without_profiles,
};
use serde_json::{Value, json};

use crate::placement::story::{COPIES, CRS, RS};

async fn running(seed: u64) -> TestHub {
    let test = TestHub::running_with(seed, without_delivery()).await;
    test.cluster("m1", json!({})).await;
    test.cluster("m2", json!({})).await;
    map(&test, "one", "1").await;
    test.settle().await;
    test
}

async fn map(test: &TestHub, name: &str, value: &str) {
    let meta = json!({"name": name, "namespace": "app"});
    test.create("configmaps", json!({"metadata": meta, "data": {"v": value}})).await;
}

async fn place(test: &TestHub, name: &str, spec: Value) {
    let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
    let mut all = json!({"resourceSelectors": selector, "policy": {"placementType": "PickAll"}});
    for (key, value) in spec.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    test.create(CRP, json!({"metadata": {"name": name}, "spec": all})).await;
    test.settle().await;
}

/// The conditions, and what was selected.
fn told(test: &TestHub, resource: &str, space: &str, name: &str) -> String {
    let status = &test.get(resource, space, name)["status"];
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
fn versions(test: &TestHub, resource: &str) -> Vec<String> {
    let latest = |object: &Value| {
        let label = &object["metadata"]["labels"]["kubernetes-fleet.io/is-latest-snapshot"];
        format!("{} {}", text(&object["metadata"]["name"]), text(label))
    };
    test.list(resource, "").iter().map(latest).collect()
}

#[tokio::test(start_paused = true)]
async fn a_placement_is_selected_frozen_scheduled_and_reported() {
    let test = running(1).await;
    place(&test, "web", json!({})).await;
    expect![[r#"
        index "0"
        Namespace app
        ConfigMap one
        ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled
        ClusterResourcePlacementRolloutStarted=Unknown RolloutStartedUnknown"#]]
    .assert_eq(&told(&test, CRP, "", "web"));
    assert_eq!(versions(&test, CRS), ["web-0-snapshot true"]);
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-0", "m2 Scheduled web-0"]);
    let mut finalizers: Vec<String> = test.get(CRP, "", "web")["metadata"]["finalizers"]
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
    let snapshot = test.get(CRS, "", "web-0-snapshot");
    let manifests = snapshot["spec"]["selectedResources"].as_array().unwrap();
    assert_eq!(
        manifests[1],
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"v": "1"},
            "metadata": {"name": "one", "namespace": "app"}})
    );
}

#[tokio::test(start_paused = true)]
async fn changes_are_collected_into_one_new_version() {
    let test = running(2).await;
    place(&test, "web", json!({})).await;
    test.pass(60).await;
    test.patch("configmaps", "app", "one", json!({"data": {"v": "2"}})).await;
    test.pass(5).await;
    map(&test, "two", "x").await;
    assert_eq!(versions(&test, CRS), ["web-0-snapshot true"]);
    test.pass(20).await;
    assert_eq!(versions(&test, CRS), ["web-0-snapshot false", "web-1-snapshot true"]);
    let status = told(&test, CRP, "", "web");
    assert!(
        status.starts_with("index \"1\"\nNamespace app\nConfigMap one\nConfigMap two\n"),
        "{status}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_the_policy_reaches_the_clusters() {
    let test = running(3).await;
    place(&test, "web", json!({"policy": {"placementType": "PickN", "numberOfClusters": 1}})).await;
    assert_eq!(test.bindings("web"), ["m2 Scheduled web-0"]);
    test.patch(CRP, "", "web", json!({"spec": {"policy": {"numberOfClusters": 2}}})).await;
    test.settle().await;
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-0", "m2 Scheduled web-0"]);
    let tolerations = json!([{"key": "k", "operator": "Exists"}]);
    test.patch(CRP, "", "web", json!({"spec": {"policy": {"tolerations": tolerations}}})).await;
    test.settle().await;
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-1", "m2 Scheduled web-1"]);
    let latest = |name: &str| {
        let labels = test.get(CSPS, "", name)["metadata"]["labels"].clone();
        text(&labels["kubernetes-fleet.io/is-latest-snapshot"])
    };
    assert_eq!((latest("web-0"), latest("web-1")), ("false".to_owned(), "true".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn selectors_that_cannot_work_are_told_and_nothing_is_frozen() {
    let test = running(4).await;
    let selector =
        json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "kube-system"}]);
    place(&test, "web", json!({"resourceSelectors": selector})).await;
    let status = &test.get(CRP, "", "web")["status"];
    expect!["The resource selectors are invalid: failed to process the request due to a client error: invalid clusterRresourcePlacement web: namespace kube-system is not allowed to propagate"]
        .assert_eq(&text(&status["conditions"][0]["message"]));
    assert_eq!(versions(&test, CRS), Vec::<String>::new());
    assert_eq!(test.list(CSPS, "").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_appears_later_is_waited_for() {
    let test = running(5).await;
    let selector = json!([{"group": "example.com", "version": "v1", "kind": "Shop", "name": "s"}]);
    place(&test, "web", json!({"resourceSelectors": selector})).await;
    let message = text(&test.get(CRP, "", "web")["status"]["conditions"][0]["message"]);
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
    test.create("customresourcedefinitions.apiextensions.k8s.io", definition).await;
    test.settle().await;
    let shop = json!({"apiVersion": "example.com/v1", "kind": "Shop", "metadata": {"name": "s"}});
    test.create("shops.example.com", shop).await;
    test.pass(60).await;
    assert!(told(&test, CRP, "", "web").contains("\nShop s\n"), "{}", told(&test, CRP, "", "web"));
}

#[tokio::test(start_paused = true)]
async fn a_namespaced_placement_selects_in_its_own_namespace() {
    let test = running(6).await;
    let selector = json!([{"group": "", "version": "v1", "kind": "ConfigMap", "name": "one"}]);
    let spec = json!({"resourceSelectors": selector, "policy": {"placementType": "PickAll"}});
    test.create(RP, json!({"metadata": {"name": "web", "namespace": "app"}, "spec": spec})).await;
    test.settle().await;
    expect![[r#"
        index "0"
        ConfigMap one
        ResourcePlacementScheduled=True SchedulingPolicyFulfilled
        ResourcePlacementRolloutStarted=Unknown RolloutStartedUnknown"#]]
    .assert_eq(&told(&test, RP, "app", "web"));
    assert_eq!(versions(&test, RS), ["web-0-snapshot true"]);
}

#[tokio::test(start_paused = true)]
async fn versions_are_left_to_update_runs_where_the_strategy_says_so() {
    let test = running(7).await;
    place(&test, "web", json!({"strategy": {"type": "External"}})).await;
    assert_eq!(versions(&test, CRS), Vec::<String>::new());
    assert_eq!(test.bindings("web").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_status_is_copied_into_the_placed_namespace_and_comes_back_if_deleted() {
    let test = running(8).await;
    place(&test, "web", json!({"statusReportingScope": "NamespaceAccessible"})).await;
    let copy = test.get(COPIES, "app", "web");
    assert_eq!(copy["sourceStatus"]["observedResourceIndex"], "0");
    test.delete(COPIES, "app", "web").await;
    test.settle().await;
    assert!(test.find(COPIES, "app", "web").is_some());
    assert!(told(&test, CRP, "", "web").contains("StatusSynced=True StatusSyncSucceeded"));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_placement_leaves_nothing_behind() {
    let test = running(9).await;
    place(&test, "web", json!({})).await;
    place(&test, "api", json!({})).await;
    test.delete(CRP, "", "web").await;
    test.settle().await;
    assert!(test.find(CRP, "", "web").is_none());
    assert_eq!(versions(&test, CRS), ["api-0-snapshot true"]);
    assert_eq!(test.list(CSPS, "").len(), 1);
    assert_eq!(test.bindings("web"), Vec::<String>::new());
    assert_eq!(test.bindings("api").len(), 2);
    let metrics = test.metrics.render();
    assert!(!metrics.contains("name=\"web\""), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn a_settled_fleet_is_quiet_through_hours_and_restarts() {
    let mut test = running(10).await;
    place(&test, "web", json!({})).await;
    place(&test, "copied", json!({"statusReportingScope": "NamespaceAccessible"})).await;
    place(&test, "runs", json!({"strategy": {"type": "External"}})).await;
    test.pass(60).await;
    let before = test.writes("hub").len();
    test.heartbeats(120).await;
    let heard = test.list(IMC, "").len() * 120;
    let writes = &test.writes("hub")[before..];
    let others: Vec<_> =
        writes.iter().filter(|w| !w.starts_with("update memberclusters")).collect();
    assert_eq!(others, Vec::<&String>::new());
    assert_eq!(writes.len(), heard, "heartbeats, and nothing else");
    test.kill("hub").await;
    test.start("again", without_delivery());
    test.settle().await;
    assert_eq!(test.writes("again"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_waits_for_its_members_writes_nothing_when_it_starts_again() {
    let mut test = TestHub::running_with(11, without_profiles()).await;
    for member in ["m1", "m2", "m3"] {
        test.cluster(member, json!({})).await;
    }
    place(&test, "web", json!({"strategy": {"rollingUpdate": {"maxUnavailable": "100%"}}})).await;
    test.heartbeats(2).await;
    assert_eq!(test.list(WORK, "").len(), 3, "nobody has reported on them");
    test.stop("hub").await;
    test.start("again", without_profiles());
    test.settle().await;
    assert_eq!(test.writes("again"), Vec::<String>::new());
}
