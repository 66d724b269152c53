//! Bindings that somebody made under the names that the scheduler gives its own.
//!
//! The names follow from what can be read, so whoever may write bindings can be first. That
//! must neither keep a cluster without its binding nor make a stranger's binding the placement's.

use std::collections::BTreeSet;

use flagship_api::{hash, names};
use flagship_sim::testing::{CRB, CSPS, RB, SPS, TestHub, text, without_placement};
use serde_json::{Value, json};

/// The name of the placement's next binding for `m1`, while these are in the way.
fn next_name(policy: &Value, in_the_way: &[&Value]) -> String {
    let uids: BTreeSet<&str> = in_the_way.iter().map(|one| uid(one)).collect();
    let suffix = hash::of_text(&format!("{} m1 {uids:?}", uid(policy)));
    names::binding("web", "m1", suffix).expect("a name can be made")
}

fn uid(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn stranger(name: &str, cluster: &str, labels: Value) -> Value {
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"state": "Scheduled", "targetCluster": cluster, "resourceSnapshotName": "evil",
            "schedulingPolicySnapshotName": "evil", "clusterDecision":
            {"clusterName": cluster, "selected": true, "reason": "because"}},
    })
}

/// What the Event about a taken name says.
fn said(name: &str) -> String {
    format!(
        "Warning BindingNameTaken web: binding {name} has the name of a new one for cluster m1 and is not of this placement and cluster; it is left alone, and the new one gets another name. Delete it if nobody needs it (x1)"
    )
}

fn pick_all() -> Value {
    json!({"placementType": "PickAll"})
}

#[tokio::test(start_paused = true)]
async fn names_that_strangers_took_keep_no_cluster_without_its_binding() {
    let mut test = TestHub::new(40).await;
    test.cluster("m1", json!({})).await;
    test.places("web", pick_all()).await;
    let policy = test.get(CSPS, "", "web-0");
    let first = test.create(CRB, stranger(&next_name(&policy, &[]), "m1", json!({}))).await;
    // Whoever knows what the next name depends on has time to take that one, too.
    let other = json!({"kubernetes-fleet.io/parent-CRP": "other"});
    let second = stranger(&next_name(&policy, &[&first]), "m1", other);
    let second = test.create(CRB, second).await;
    test.start("hub", without_placement());
    test.settle().await;
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-0"]);
    let name = text(&test.bindings_of(CRB, "web")[0]["metadata"]["name"]);
    assert_eq!(name, next_name(&policy, &[&first, &second]));
    let mut events = test.events("ClusterResourcePlacement");
    events.sort();
    let names = [&first, &second].map(|one| text(&one["metadata"]["name"]));
    let mut expected = names.clone().map(|name| said(&name));
    expected.sort();
    assert_eq!(events, expected);
    // Theirs are as they made them, and nothing is written any more.
    for (name, made) in names.iter().zip([&first, &second]) {
        let there = test.get(CRB, "", name);
        assert_eq!(there["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    }
    let passes = test.passes("scheduler-queue");
    test.pass(3600).await;
    assert_eq!(test.passes("scheduler-queue"), passes);
}

#[tokio::test(start_paused = true)]
async fn a_binding_of_the_placement_for_another_cluster_does_not_take_the_name() {
    let mut test = TestHub::new(41).await;
    test.cluster("m1", json!({})).await;
    test.places("web", pick_all()).await;
    let policy = test.get(CSPS, "", "web-0");
    let labels = json!({"kubernetes-fleet.io/parent-CRP": "web"});
    let name = next_name(&policy, &[]);
    test.create(CRB, stranger(&name, "m9", labels)).await;
    test.start("hub", without_placement());
    test.settle().await;
    let mut bindings = test.bindings("web");
    bindings.sort();
    // The rules judge it as any binding for a cluster that is not there.
    assert_eq!(bindings, ["m1 Scheduled web-0", "m9 Unscheduled evil was Scheduled"]);
    assert_eq!(test.events("ClusterResourcePlacement"), [said(&name)]);
}

#[tokio::test(start_paused = true)]
async fn names_in_a_namespace_are_taken_only_there() {
    let mut test = TestHub::new(42).await;
    test.cluster("m1", json!({})).await;
    test.places_in("app", "web", pick_all()).await;
    let policy = test.get(SPS, "app", "web-0");
    let name = next_name(&policy, &[]);
    let mut taken = stranger(&name, "m1", json!({}));
    taken["metadata"]["namespace"] = json!("app");
    test.create(RB, taken).await;
    test.create(CRB, stranger(&name, "m1", json!({}))).await;
    test.start("hub", without_placement());
    test.settle().await;
    let ours: Vec<Value> = test.list(RB, "app");
    let ours: Vec<&Value> =
        ours.iter().filter(|one| one["metadata"]["name"] != name.as_str()).collect();
    assert_eq!(ours.len(), 1, "{ours:?}");
    assert_eq!(ours[0]["spec"]["targetCluster"], "m1");
    assert_eq!(test.events("ResourcePlacement"), [said(&name)]);
}
