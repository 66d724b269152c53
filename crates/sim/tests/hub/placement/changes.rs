//! Which changes wake which placements, and how soon.

use serde_json::{Value, json};

use crate::placement::story::{CRS, Story, everywhere, map, namespace};
use flagship_sim::testing::{CRB, CRP, CSPS, RP, text};

const CRPS: &str = "cluster-resource-placement-controller-v1beta1";

// checklist 20.40
#[tokio::test(start_paused = true)]
async fn objects_of_a_selected_namespace_come_change_and_go() {
    let story = Story::cluster_wide(11).await.starts().await;
    let mut only = namespace("app");
    only["selectionScope"] = json!("NamespaceOnly");
    story.crp("all", everywhere(&[namespace("app")])).await;
    story.crp("only", everywhere(&[only])).await;
    story.settle().await;
    story.map("app", "settings", "x").await;
    story.pass(1).await;
    assert_eq!(story.version(CRP, "", "all"), "1: Namespace app, ConfigMap settings");
    story.change("app", "settings", "y").await;
    story.pass(1).await;
    assert!(story.version(CRP, "", "all").starts_with("2: "));
    story.delete("configmaps", "app", "settings").await;
    story.pass(1).await;
    assert_eq!(story.version(CRP, "", "all"), "3: Namespace app");
    assert_eq!(story.version(CRP, "", "only"), "0: Namespace app");
    // A namespace that carries a new label is new content for both.
    story.patch("namespaces", "", "app", json!({"metadata": {"labels": {"a": "b"}}})).await;
    story.pass(1).await;
    assert_eq!(story.version(CRP, "", "all"), "4: Namespace app");
    assert_eq!(story.version(CRP, "", "only"), "1: Namespace app");
}

// checklist 20.40
#[tokio::test(start_paused = true)]
async fn what_nobody_selects_wakes_nobody() {
    let story = Story::both_scopes(12).await.starts().await;
    let mut only = namespace("app");
    only["selectionScope"] = json!("NamespaceOnly");
    story.crp("only", everywhere(&[only])).await;
    story.namespace("other", json!({})).await;
    story.rp("web", everywhere(&[map("settings")])).await;
    story.settle().await;
    let before = (story.passes(CRPS), story.passes("resource-placement-controller"));
    story.map("app", "unrelated", "x").await;
    story.map("other", "settings", "x").await;
    story.change("app", "kube-root-ca.crt", "x").await;
    story.settle().await;
    let after = (story.passes(CRPS), story.passes("resource-placement-controller"));
    assert_eq!(before, after);
    assert!(story.passes("resource-change-controller") >= 2);
    // Its own object does, and only in its own namespace.
    story.map("app", "settings", "x").await;
    story.pass(1).await;
    assert_eq!(story.version(RP, "app", "web"), "1: ConfigMap settings");
    assert_eq!(story.passes(CRPS), before.0);
    story.delete("configmaps", "app", "settings").await;
    story.pass(1).await;
    assert_eq!(story.version(RP, "app", "web"), "2: ");
}

// checklist 20.1, 20.40
#[tokio::test(start_paused = true)]
async fn objects_outside_of_namespaces_are_selected_by_name_label_and_kind() {
    let story = Story::cluster_wide(13).await.starts().await;
    let role = |name: &str, labels: Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": name, "labels": labels}, "rules": []})
    };
    let term = |more: Value| {
        let mut term =
            json!({"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole"});
        term.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        term
    };
    let labelled = json!({"labelSelector": {"matchLabels": {"tier": "front"}}});
    story.crp("named", everywhere(&[term(json!({"name": "reader"}))])).await;
    story.crp("labelled", everywhere(&[term(labelled)])).await;
    story.settle().await;
    let roles = "clusterroles.rbac.authorization.k8s.io";
    story.create(roles, role("reader", json!({}))).await;
    story.create(roles, role("writer", json!({"tier": "front"}))).await;
    story.pass(1).await;
    assert_eq!(story.version(CRP, "", "named"), "1: ClusterRole reader");
    assert_eq!(story.version(CRP, "", "labelled"), "1: ClusterRole writer");
    // A label that comes or goes is a choice made anew.
    story.patch(roles, "", "reader", json!({"metadata": {"labels": {"tier": "front"}}})).await;
    story.patch(roles, "", "writer", json!({"metadata": {"labels": {"tier": null}}})).await;
    story.pass(1).await;
    assert!(story.version(CRP, "", "labelled").ends_with(": ClusterRole reader"));
    story.delete(roles, "", "reader").await;
    story.pass(1).await;
    assert_eq!(story.version(CRP, "", "named"), "3: ");
}

#[tokio::test(start_paused = true)]
async fn another_wording_reaches_the_status_once_a_second() {
    let story = Story::cluster_wide(14).await.starts().await;
    story.crp("web", everywhere(&[namespace("app")])).await;
    story.settle().await;
    story.rolls_out("web", "web-0-snapshot").await;
    story.settle().await;
    let name = story.binding_on("web", "member1");
    let reword = async |message: String| {
        let mut conditions = story.get(CRB, "", &name)["status"]["conditions"].clone();
        conditions[4]["message"] = json!(message);
        story.patch_status(CRB, &name, json!({"conditions": conditions})).await;
    };
    let told = || {
        let status = &story.get(CRP, "", "web")["status"]["placementStatuses"][0];
        let conditions = status["conditions"].as_array().unwrap().clone();
        text(&conditions.last().unwrap()["message"])
    };
    let before = story.passes(CRPS);
    for n in 0..30 {
        reword(format!("wording {n}")).await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    story.pass(2).await;
    assert_eq!(told(), "wording 29");
    let passes = story.passes(CRPS) - before;
    assert!((2..=4).contains(&passes), "{passes} passes in three seconds");
    // A new reason does not wait.
    let mut conditions = story.get(CRB, "", &name)["status"]["conditions"].clone();
    conditions[4]["status"] = json!("False");
    conditions[4]["reason"] = json!("NotAllWorkAreAvailable");
    story.patch_status(CRB, &name, json!({"conditions": conditions})).await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(story.conditions(CRP, "", "web")[5], "Available False ResourceNotAvailableYet (1)");
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_placement_looks_again_after_half_an_hour() {
    let story = Story::cluster_wide(15).await.starts().await;
    story.crp("web", everywhere(&[namespace("app")])).await;
    story.settle().await;
    // Nobody tells the controller that its label is gone.
    let labels = json!({"kubernetes-fleet.io/is-latest-snapshot": "false"});
    story.patch(CRS, "", "web-0-snapshot", json!({"metadata": {"labels": labels}})).await;
    story.pass(29 * 60).await;
    assert_eq!(story.snapshots(CRS), ["web-0-snapshot"]);
    story.pass(60).await;
    assert_eq!(story.snapshots(CRS), ["web-0-snapshot latest"]);
}

/// Nobody waits for the placements that a hub finds when it starts; somebody waits for the
/// one that was just made.
#[tokio::test(start_paused = true)]
async fn a_new_placement_overtakes_those_that_a_starting_hub_finds() {
    let mut story = Story::cluster_wide(29).await;
    story.options.max_concurrent_placements = 1;
    for number in 0..40 {
        story.crp(&format!("old-{number:02}"), everywhere(&[namespace("app")])).await;
    }
    let options = story.options.clone();
    story.start("hub", options);
    while story.list(CSPS, "").is_empty() {
        tokio::task::yield_now().await;
    }
    story.crp("new", everywhere(&[namespace("app")])).await;
    story.settle().await;
    let mut made = story.writes("hub");
    made.retain(|write| write.starts_with("create clusterschedulingpolicysnapshots "));
    assert_eq!(made.len(), 41);
    let place = made.iter().position(|write| write.contains(" new-")).expect("it has a policy");
    assert!(place < 20, "the new one was number {place}");
}
