//! `flagship simulate` on a fleet that can then really roll out.

use std::collections::BTreeSet;
use std::time::Duration;

use expect_test::expect;
use flagship_apiserver::rest::{ClusterHandle, PatchKind, WriteOptions};
use flagship_explain::rehearsal::{Ready, spread};
use flagship_sim::testing::{CLUSTERS, IMC, WORK};
use flagship_store::Scope as Within;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::super::simulate::chance;
use super::{CLUSTER, HUB, Scenario, stage};

/// Everything stored on the hub but what members say of themselves.
fn stored(scenario: &Scenario) -> Vec<(String, u64)> {
    let store = scenario.handle(HUB).store();
    let mut all = Vec::new();
    for resource in store.resources() {
        let alive = resource.contains("memberclusters") || resource.starts_with("leases");
        for object in store.list(&resource, Within::All).items.iter().filter(|_| !alive) {
            all.push((format!("{resource} {}", object.key.name), object.revision));
        }
    }
    all
}

#[tokio::test(start_paused = true)]
async fn a_rehearsal_says_when_where_and_who_and_writes_nothing() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.place(json!({"type": "External"})).await;
    let wait = json!([{"type": "TimedWait", "waitTime": "2m"}, {"type": "Approval"}]);
    scenario.strategy(json!({"afterStageTasks": wait})).await;
    scenario.pass(5).await;
    let before = stored(&scenario);
    let words = "example-placement --ready p50=40s,p99=3m --fail 3% --silent 1% --seed 7";
    let first = scenario.simulate(words).await;
    expect![[r#"
        Rehearsed example-placement with strategy example-strategy: 3 cluster(s) in 2 stage(s), 500 runs, seed 7
        ready times p50=<clock> p99=<clock>, as given; 3% fail, 1% stay silent

        Ends after <clock>; one in ten before <clock>, one in ten after <clock>, one in a hundred after <clock>

            <clock>  ################  71
            <clock>  ######################################## 178
            <clock>  #########################  108
            <clock>  ###########  45
            <clock>  #######  28
            <clock>  ###  10
            <clock>  #  1
            <clock>  #  2
            <clock>  0
            <clock>  #  1

        STAGE  CLUSTERS  AT ONCE  TAKES  OF THE WHOLE  STOPS HERE
        staging  1  1  <clock>  65%, the longest  4.4%
        canary  2  1  <clock>  35%  6.8%

        11.2% of the runs stop at a cluster that does not become ready, and wait for somebody.
        somebody approves after staging:  <clock> after the start, one in ten after <clock>
        nothing was written; start it:  flagship run example-placement
        [exit 0]
    "#]]
    .assert_eq(&first);
    assert_eq!(scenario.simulate(words).await, first, "the same seed, the same answer");
    let assumed = scenario.simulate("example-placement").await;
    assert!(assumed.contains("assumed, since no run of this placement"), "{assumed}");
    let json = scenario.simulate("example-placement -o json --runs 5").await;
    assert!(json.contains("\"share\""), "{json}");
    assert_eq!(stored(&scenario), before);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_meant_is_said_and_a_run_that_would_be_refused_too() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.place(json!({"type": "External"})).await;
    let none = scenario.simulate("example-placement --strategy missing").await;
    assert!(none.contains("would be refused"), "{none}");
    let wrong = scenario.simulate("example-placement --ready fast").await;
    assert!(wrong.contains("--ready is given as p50="), "{wrong}");
}

// Fed with how long clusters took, the median is what a run took.
#[tokio::test(start_paused = true)]
async fn the_predicted_median_is_what_an_executed_run_takes() {
    let scenario = Scenario::with(CLUSTER, |config| {
        config.workloads.ready_after = SignedDuration::from_secs(47);
    })
    .await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({"afterStageTasks": [{"type": "TimedWait", "waitTime": "90s"}]})).await;
    let start = scenario.fleet.env.now();
    scenario.run("first", "Run").await;
    scenario.until("first", "UpdateRunSucceeded").await;
    let took = scenario.fleet.env.now().duration_since(start).as_secs_f64();
    scenario.pass(5).await;
    let (predicted, from) = predicted(&scenario, "").await;
    assert!(from.starts_with("learned from 3"), "{from}");
    assert!(took > 100.0, "{took}");
    assert_near(predicted, took);
}

/// The median that a rehearsal says, in seconds, and where its ready times come from.
async fn predicted(scenario: &Scenario, words: &str) -> (f64, String) {
    let told = scenario.simulate(&format!("example-placement -o json {words}")).await;
    let (json, _) = told.rsplit_once('}').expect("a JSON document");
    let told: Value = serde_json::from_str(&format!("{json}}}")).expect("JSON");
    let median = told["rehearsal"]["seconds"]["p50"].as_f64().expect("a median");
    (median, told["readyTimes"].as_str().expect("words").to_owned())
}

/// Within a fifth.
fn assert_near(predicted: f64, took: f64) {
    let off = (predicted - took).abs() / took;
    assert!(off < 0.2, "predicted {predicted} s, took {took} s");
}

/// Plays members: each is available with what it is given after a time of its own.
async fn play(hub: ClusterHandle, ready: Ready) {
    let (mut chance, mut known) = (chance(23), BTreeSet::new());
    loop {
        for work in hub.store().list(WORK, Within::All).items {
            if known.insert((work.key.clone(), work.head.generation)) {
                let wait = Duration::from_secs_f64(ready.draw(&mut chance));
                let hub = hub.clone();
                tokio::spawn(async move {
                    sleep(wait).await;
                    let says = |kind: &str| {
                        json!({"type": kind, "status": "True", "reason": "Played", "message": "",
                            "observedGeneration": work.head.generation,
                            "lastTransitionTime": "2026-01-01T00:00:00Z"})
                    };
                    let patch =
                        json!({"status": {"conditions": [says("Applied"), says("Available")]}});
                    let (space, name) = (&*work.key.namespace, &*work.key.name);
                    let (kind, options) = (PatchKind::Merge, WriteOptions::default());
                    let member = hub.local("member");
                    let said = member.patch(WORK, space, name, "status", kind, patch, &options);
                    said.await.expect("the Work is there");
                });
            }
        }
        sleep(Duration::from_secs(1)).await;
    }
}

// Runs over forty clusters whose ready times are known in distribution: the median of the runs
// is the one that was predicted before the first, and what is learned from them predicts it too.
#[tokio::test(start_paused = true)]
async fn the_predicted_median_is_that_of_executed_runs() {
    let scenario = Scenario::with(CLUSTER, |config| config.members.clear()).await;
    grown_to(&scenario, 43).await;
    scenario.place(json!({"type": "External"})).await;
    let wait = json!([{"type": "TimedWait", "waitTime": "1m"}]);
    scenario
        .stages(json!([
            stage("staging", json!({"maxConcurrency": "50%", "afterStageTasks": wait})),
            stage("canary", json!({"maxConcurrency": "25%"})),
        ]))
        .await;
    let given = "--ready p50=40s,p99=3m --seed 7";
    let (foreseen, from) = predicted(&scenario, given).await;
    assert_eq!(from, "as given");
    let truth = Ready::Percentiles { p50: 40.0, p99: 180.0 };
    let playing = tokio::spawn(play(scenario.handle(HUB).clone(), truth));
    let mut took = Vec::new();
    for number in 1..=5 {
        scenario.deploy(&format!("nginx:1.{number}")).await;
        scenario.pass(60).await;
        let (run, start) = (format!("run{number}"), scenario.fleet.env.now());
        scenario.run(&run, "Run").await;
        scenario.until(&run, "UpdateRunSucceeded").await;
        took.push(scenario.fleet.env.now().duration_since(start).as_secs_f64());
    }
    playing.abort();
    let median = spread(&took).p50;
    let (learned, from) = predicted(&scenario, "").await;
    assert!(from.starts_with("learned from 200"), "{from}");
    println!("predicted {foreseen:.0} s, learned {learned:.0} s, took {took:.0?}");
    assert_near(foreseen, median);
    assert_near(learned, median);
}

/// Registers members that only say that they are there, until there are so many.
async fn grown_to(scenario: &Scenario, members: u64) {
    let hub = scenario.handle(HUB).local("people");
    let name = |number: u64| format!("member{number}");
    for number in 4..=members {
        let environment = match number {
            ..11 => "staging",
            11..61 => "canary",
            _ => "production",
        };
        let identity = json!({"kind": "User", "name": format!("agent-{number}"),
            "apiGroup": "rbac.authorization.k8s.io"});
        let meta = json!({"name": name(number), "labels": {"environment": environment}});
        let object = json!({"apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
            "kind": "MemberCluster", "metadata": meta,
            "spec": {"identity": identity, "heartbeatPeriodSeconds": 600}});
        hub.create(CLUSTERS, "", object).await.expect("a member that is allowed");
    }
    scenario.pass(5).await;
    let now = scenario.fleet.env.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let says = |kind: &str| {
        json!({"type": kind, "status": "True", "reason": "Agent", "message": "",
            "lastTransitionTime": now})
    };
    let agent = json!({"type": "MemberAgent", "lastReceivedHeartbeat": now,
        "conditions": [says("Joined"), says("Healthy")]});
    for number in 4..=members {
        let (name, options) = (name(number), WriteOptions::default());
        let (space, patch) =
            (format!("fleet-member-{name}"), json!({"status": {"agentStatus": [agent]}}));
        let patched = hub.patch(IMC, &space, &name, "status", PatchKind::Merge, patch, &options);
        patched.await.expect("the hub has made it");
    }
    scenario.pass(5).await;
}

// Three waves over 300 clusters: which one takes longest, and who is asked when.
#[tokio::test(start_paused = true)]
async fn a_rehearsal_on_three_hundred_clusters() {
    let scenario = Scenario::begin(CLUSTER).await;
    grown_to(&scenario, 300).await;
    scenario.place(json!({"type": "External"})).await;
    let wait = json!([{"type": "TimedWait", "waitTime": "10m"}]);
    let asks = json!([{"type": "Approval"}]);
    scenario
        .stages(json!([
            stage("staging", json!({"maxConcurrency": "100%", "afterStageTasks": wait})),
            stage("canary", json!({"maxConcurrency": 10, "beforeStageTasks": asks})),
            stage("production", json!({"maxConcurrency": "10%", "beforeStageTasks": asks})),
        ]))
        .await;
    scenario.pass(5).await;
    let words = "example-placement --ready p50=40s,p99=3m --fail 0.1% --seed 7";
    expect![[r#"
        Rehearsed example-placement with strategy example-strategy: 300 cluster(s) in 3 stage(s), 500 runs, seed 7
        ready times p50=<clock> p99=<clock>, as given; 0.1% fail, 0% stay silent

        Ends after <clock>; one in ten before <clock>, one in ten after <clock>, one in a hundred after <clock>

            <clock>  ###  5
            <clock>  ########  19
            <clock>  #####################################  88
            <clock>  ######################################## 96
            <clock>  #########################  60
            <clock>  #######################  53
            <clock>  ########  17
            <clock>  ########  18
            <clock>  ###  7
            <clock>  ##  3

        STAGE  CLUSTERS  AT ONCE  TAKES  OF THE WHOLE  STOPS HERE
        staging  8  8  <clock>  43%, the longest  1.2%
        canary  52  10  <clock>  20%  5.2%
        production  240  24  <clock>  37%  20.4%

        26.8% of the runs stop at a cluster that does not become ready, and wait for somebody.
        somebody approves before canary:  <clock> after the start, one in ten after <clock>
        somebody approves before production:  <clock> after the start, one in ten after <clock>
        nothing was written; start it:  flagship run example-placement
        [exit 0]
    "#]]
    .assert_eq(&scenario.simulate(words).await);
}
