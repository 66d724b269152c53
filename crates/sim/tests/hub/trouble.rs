//! The hub in trouble: lost answers, cut watches, conflicts and crashes. Whatever
//! happens on the way, the end is the same; and the same seed takes the same way.

use std::time::Duration;

use flagship_hub::{Hub, Options};
use flagship_runtime::client::Client;
use flagship_sim::testing::{
    CLUSTERS, CRP, Delays, TestHub, faults, text, tries_everything, without_delivery,
};
use flagship_store::env::plan::Rule;
use serde_json::{Value, json};

const CRS: &str = "clusterresourcesnapshots.placement.kubernetes-fleet.io";

/// How late answers and events may come while a hub is in trouble.
const LATE: Delays = Delays { request: Duration::from_secs(5), event: Duration::from_secs(20) };

/// A few minutes in the life of a fleet; the hub crashes in between.
async fn live(test: &mut TestHub, rules: Vec<Rule>) {
    test.disturb(rules);
    test.start("hub", without_delivery());
    for name in ["m1", "m2", "m3"] {
        test.cluster(name, json!({"env": "prod"})).await;
    }
    let map = json!({"metadata": {"name": "one", "namespace": "app"}, "data": {"v": "1"}});
    test.create("configmaps", map).await;
    let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
    for (name, policy) in [
        ("all", json!({"placementType": "PickAll"})),
        ("named", json!({"placementType": "PickFixed", "clusterNames": ["m1", "m2"]})),
        ("gone", json!({"placementType": "PickAll"})),
    ] {
        let spec = json!({"resourceSelectors": selector, "policy": policy});
        test.create(CRP, json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    test.heartbeats(5).await;
    test.kill("hub").await;
    test.start("hub", without_delivery());
    test.patch("configmaps", "app", "one", json!({"data": {"v": "2"}})).await;
    test.heartbeats(5).await;
    let names = json!({"clusterNames": ["m2", "m3"]});
    test.patch(CRP, "", "named", json!({"spec": {"policy": names}})).await;
    test.delete(CRP, "", "gone").await;
    test.heartbeats(5).await;
    test.leaves("m3").await;
    test.heartbeats(5).await;
    test.faults.heal();
    test.heartbeats(20).await;
}

/// What a person would see in the end.
fn seen(test: &TestHub) -> String {
    let mut lines = Vec::new();
    for placement in test.list(CRP, "") {
        let name = text(&placement["metadata"]["name"]);
        let index = text(&placement["status"]["observedResourceIndex"]);
        lines.push(format!("{name} at {index}: {:?}", test.bindings(&name)));
        for c in placement["status"]["conditions"].as_array().into_iter().flatten() {
            lines.push(format!("  {}={}", text(&c["type"]), text(&c["status"])));
        }
    }
    let names = |objects: Vec<Value>| -> Vec<String> {
        objects.iter().map(|object| text(&object["metadata"]["name"])).collect()
    };
    lines.push(format!("clusters {:?}", names(test.list(CLUSTERS, ""))));
    lines.push(format!("versions {:?}", names(test.list(CRS, ""))));
    lines.join("\n")
}

#[tokio::test(start_paused = true)]
async fn whatever_goes_wrong_the_fleet_ends_the_same() {
    let mut calm = TestHub::new(1).await;
    live(&mut calm, Vec::new()).await;
    let expected = seen(&calm);
    assert!(expected.contains("\"m2 Scheduled named-1\""), "{expected}");
    for seed in if tries_everything() { 2..8 } else { 2..3 } {
        let mut test = TestHub::new(seed).await;
        live(&mut test, faults("hub", LATE)).await;
        assert_eq!(seen(&test), expected, "seed {seed}");
        let before = test.scheduling_writes("hub").len();
        test.heartbeats(20).await;
        let more = &test.scheduling_writes("hub")[before..];
        assert_eq!(more, [] as [String; 0], "seed {seed} is not quiet");
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_takes_the_same_way() {
    let mut ways = Vec::new();
    for _ in 0..2 {
        let mut test = TestHub::new(7).await;
        live(&mut test, faults("hub", LATE)).await;
        ways.push(test.story());
    }
    assert!(ways[0].len() > 500, "only {} steps", ways[0].len());
    let parted = ways[0].iter().zip(&ways[1]).position(|(one, two)| one != two);
    assert_eq!(parted.map(|at| (&ways[0][at], &ways[1][at])), None);
    assert_eq!(ways[0].len(), ways[1].len());
}

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// A hub that is not started yet.
fn newcomer(test: &TestHub, options: Options) -> Hub {
    let client = Client::in_process(test.hub.called_by("hub")).named("hub");
    Hub::new(client, test.env.clone(), test.metrics.clone(), options)
}

// update runs 1.6: the three definitions of each scope, or the hub does not start
#[tokio::test(start_paused = true)]
async fn a_hub_whose_definitions_are_missing_says_which_and_how_to_install_them() {
    let test = TestHub::new(1).await;
    assert_eq!(newcomer(&test, Options::default()).look_for_definitions().await, Ok(()));
    let gone = ["clusterapprovalrequests", "stagedupdatestrategies"];
    for plural in gone {
        test.delete(DEFINITIONS, "", &format!("{plural}.placement.kubernetes-fleet.io")).await;
    }
    let hub = newcomer(&test, Options::default());
    let refusal = hub.look_for_definitions().await.unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "the API server lacks 2 CustomResourceDefinition(s) this hub needs:
  clusterapprovalrequests.placement.kubernetes-fleet.io/v1beta1
  stagedupdatestrategies.placement.kubernetes-fleet.io/v1beta1
install them with
  flagship crds | kubectl apply --server-side -f -
and start the hub again; or do without: --enable-staged-update-run-apis=false"
    );
    // One that carries no update runs out needs none of them.
    let mut options = Options::default();
    options.controllers.update_runs = false;
    assert_eq!(newcomer(&test, options).look_for_definitions().await, Ok(()));
    // They may be on their way when the hub is started.
    let waiting = tokio::spawn(async move { hub.look_for_definitions().await });
    test.pass(2).await;
    for plural in gone {
        let name = format!("{plural}.placement.kubernetes-fleet.io");
        let definition = flagship_api::crd::of(&name).unwrap();
        test.create(DEFINITIONS, definition).await;
    }
    assert_eq!(waiting.await.unwrap(), Ok(()));
}
