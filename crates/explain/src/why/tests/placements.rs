//! Placements that found no clusters, wait for a run, or are done.

use serde_json::{Value, json};

use super::*;

fn placement(strategy: &str, conditions: Value, entries: Value) -> Facts {
    let key = ObjectKey::cluster("example-placement");
    let spec = json!({
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}],
        "strategy": {"type": strategy},
    });
    let status = json!({"conditions": conditions, "placementStatuses": entries, "observedResourceIndex": "0"});
    Facts {
        placement: Some(PlacementFacts {
            generation: flagship_api::condition::Generation(1),
            created: Some(ago(300).parse().unwrap()),
            spec: serde_json::from_value(spec).unwrap(),
            status: serde_json::from_value(status).unwrap(),
        }),
        ..facts(Subject::Placement(key))
    }
}

fn scheduled(status: &str, message: &str) -> Value {
    condition("ClusterResourcePlacementScheduled", status, "x", message, 100)
}

fn entry(name: &str, status: &str, message: &str) -> Value {
    json!({"clusterName": name, "conditions": [condition("Scheduled", status, "x", message, 100)]})
}

#[test]
fn an_external_placement_without_a_run_asks_for_one() {
    let facts = placement(
        "External",
        json!([scheduled("True", "")]),
        json!([entry("member1", "True", ""), entry("member2", "True", "")]),
    );
    let found = explain(&facts);
    assert_eq!(found.cause, Cause::RunMissing);
    assert_eq!(found.headline, "example-placement has 2 cluster(s) and waits for a run.");
    assert_eq!(found.hints[1].command, "flagship run example-placement");
}

#[test]
fn clusters_left_out_are_quoted() {
    let facts = placement(
        "External",
        json!([scheduled(
            "False",
            "could not find all the clusters needed as specified by the scheduling policy"
        )]),
        json!([entry(
            "member1",
            "False",
            "cluster does not match with the required affinity terms"
        )]),
    );
    let found = explain(&facts);
    assert_eq!((found.cause, found.state), (Cause::PlacementNotScheduled, State::Stuck));
    assert_eq!(found.evidence[1].says, "cluster does not match with the required affinity terms");
}

#[test]
fn a_placement_everywhere_is_done() {
    let available = condition("ClusterResourcePlacementAvailable", "True", "x", "", 10);
    let facts = placement(
        "RollingUpdate",
        json!([scheduled("True", ""), available]),
        json!([entry("member1", "True", "")]),
    );
    let found = explain(&facts);
    assert_eq!(found.headline, "example-placement is on all 1 cluster(s), snapshot 0.");
    assert_eq!(found.state.exit_code(), 0);
}

#[test]
fn a_placement_nobody_looks_at_means_a_silent_hub() {
    let found = explain(&placement("External", json!([]), json!([])));
    assert_eq!(found.cause, Cause::HubSilent);
}

/// A binding that holds this version of `example-placement`.
fn holds(cluster: &str, index: u32) -> BindingFacts {
    let available = condition("Available", "True", "x", "", 100);
    let mut bound = binding(cluster, json!({"conditions": [available]}));
    bound.spec.resource_snapshot_name = format!("example-placement-{index}-snapshot");
    bound
}

fn everywhere() -> Facts {
    let available = condition("ClusterResourcePlacementAvailable", "True", "x", "", 10);
    let entries: Vec<Value> = (1..=3).map(|n| entry(&format!("member{n}"), "True", "")).collect();
    let mut facts =
        placement("External", json!([scheduled("True", ""), available]), json!(entries));
    facts.bindings = (1..=3).map(|n| holds(&format!("member{n}"), 1)).collect();
    facts
}

#[test]
fn mixed_versions_are_not_hidden_behind_a_placement_that_is_available() {
    let mut facts = everywhere();
    assert_eq!(explain(&facts).cause, Cause::Done);
    facts.bindings[2] = holds("member3", 0);
    let found = explain(&facts);
    assert_eq!((found.cause, found.state), (Cause::MixedVersions, State::Waiting));
    assert_eq!(
        found.headline,
        "example-placement has mixed versions: snapshot 1 on 2 cluster(s), snapshot 0 on 1 cluster(s)."
    );
    assert_eq!(found.evidence[1].says, "member3");
    assert_eq!(found.hints[0].command, "flagship run example-placement");
    // A cluster that no run has reached is a version of its own.
    facts.bindings[2].spec.state = flagship_api::binding::BindingState::Scheduled;
    assert_eq!(
        explain(&facts).headline,
        "example-placement has mixed versions: snapshot 1 on 2 cluster(s), none on 1."
    );
}

#[test]
fn the_failed_run_before_is_not_hidden_either() {
    let mut facts = everywhere();
    let message = "cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: referenced updateStrategy not found: `/example-strategy`";
    let failed = run(
        "Run",
        json!({"conditions": [
        condition("Initialized", "False", "UpdateRunInitializedFailed", message, 5)]}),
    );
    facts.last_run = Some(("example-run".to_owned(), failed.run.unwrap()));
    let found = explain(&facts);
    assert_eq!((found.cause, found.state), (Cause::StrategyMissing, State::Failed));
    assert_eq!(
        found.headline,
        "example-placement is on all 3 cluster(s), snapshot 1; its last run example-run could not be initialized: there is no strategy example-strategy."
    );
}
