//! Records of runs: what is written down, when, and what is left of it.

use std::collections::BTreeMap;
use std::time::Duration;

use flagship_api::rollout_record::{RecordEntry, RolloutRecordSpec, What};
use flagship_hub::Options;
use flagship_rules::record::{Keep, chain};
use serde_json::{Value, json};

use super::clusters::policy;
use crate::update_run::story::{CLUSTER, SCOPES, Story, fixed, stage};
use flagship_sim::testing::{Scope, text, tries_everything, without_profiles};
use flagship_store::env::plan::{Effect, Rule, Verbs};
use flagship_store::env::{FaultOutcome, Point};

/// The resource of records in a scope.
pub fn records(scope: Scope) -> &'static str {
    match scope.space {
        "" => "clusterrolloutrecords.flagship.dev",
        _ => "rolloutrecords.flagship.dev",
    }
}

/// The parts of the record of a run, in order.
pub fn parts(story: &Story, run: &str) -> Vec<RolloutRecordSpec> {
    let all = story.list(records(story.scope), "");
    let read =
        all.iter().map(|object| serde_json::from_value(object["spec"].clone()).expect("a record"));
    let mut parts: Vec<RolloutRecordSpec> = read.collect();
    parts.retain(|part| part.run.name == run);
    parts.sort_by_key(|part| part.part);
    parts
}

fn entries(story: &Story, run: &str) -> Vec<RecordEntry> {
    parts(story, run).into_iter().flat_map(|part| part.entries).collect()
}

/// What a record tells, in short.
pub fn told(story: &Story, run: &str) -> String {
    let line = |entry: &RecordEntry| {
        let who = entry
            .who
            .as_ref()
            .map_or_else(String::new, |who| format!(" by {} {:?}", who.name, who.known));
        let about = [&entry.stage, &entry.cluster, &entry.gate, &entry.cause];
        let about: Vec<&str> = about.into_iter().flatten().map(String::as_str).collect();
        format!("{} {:?} {}{who}\n", entry.n, entry.what, about.join(" "))
    };
    entries(story, run).iter().map(line).collect()
}

/// P6 of what is stored: chains verify, nothing is told twice, and whatever run a binding
/// bears has told that its cluster began.
pub fn hold(story: &Story) {
    let mut by_run: BTreeMap<String, Vec<RolloutRecordSpec>> = BTreeMap::new();
    for object in story.list(records(story.scope), "") {
        let part: RolloutRecordSpec =
            serde_json::from_value(object["spec"].clone()).expect("a record");
        by_run.entry(part.run.uid.clone()).or_default().push(part);
    }
    for parts in by_run.values_mut() {
        parts.sort_by_key(|part| part.part);
        let all: Vec<&RolloutRecordSpec> = parts.iter().collect();
        assert_eq!(chain::verify(&all), []);
    }
    for binding in story.bindings_of(story.scope.bindings, "web") {
        let uid = text(&binding["metadata"]["annotations"]["flagship.dev/update-run-uid"]);
        let cluster = text(&binding["spec"]["targetCluster"]);
        let Some(parts) = by_run.get(&uid) else { continue };
        let entries = parts.iter().flat_map(|part| &part.entries);
        let begun = entries.filter(|entry| {
            entry.what == What::ClusterBegan && entry.cluster.as_ref() == Some(&cluster)
        });
        assert_eq!(begun.count(), 1, "{cluster} of {uid}");
    }
}

fn keeping(keep: Keep) -> Options {
    let mut options = without_profiles();
    options.update_runs.records = keep;
    options
}

#[tokio::test(start_paused = true)]
async fn a_run_under_a_policy_is_recorded_from_its_plan_to_its_end() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        let failure = json!({"progressDeadline": "1m", "budget": {"run": 1}});
        policy(&story, "calm", json!({"failure": failure})).await;
        let approval = json!({"afterStageTasks": [{"type": "Approval"}]});
        let wait = json!({"afterStageTasks": [{"type": "TimedWait", "waitTime": "20s"}]});
        story.strategy(json!([stage("canary", approval), stage("prod", wait)])).await;
        story.run("r", json!({"state": "Run"})).await;
        hold(&story);
        story.works("m2").await;
        story.set_state("r", "Stop").await;
        story.set_state("r", "Run").await;
        story.approve("r-after-canary").await;
        hold(&story);
        // m1 does not make it.
        story.pass(61).await;
        story.works("m3").await;
        story.pass(30).await;
        hold(&story);
        assert!(story.said("r", "Succeeded").starts_with("True"), "{}", story.told("r"));
        let expected = "\
1 Planned  by user ManagedFields
2 Started  by user ManagedFields
3 StageBegan canary
4 ClusterBegan canary m2
5 ClusterDone canary m2
6 GateWaits canary after-Approval
7 Stopped  by user ManagedFields
8 Resumed  by user ManagedFields
9 Approved canary after-Approval by user ManagedFields
10 StageDone canary
11 StageBegan prod
12 ClusterBegan prod m1
13 ClusterFailed prod m1 ClusterUpdatingFailed
14 ClusterBegan prod m3
15 ClusterDone prod m3
16 GateWaits prod after-TimedWait
17 WaitOver prod after-TimedWait
18 StageDone prod
19 Ended UpdateRunSucceeded
";
        assert_eq!(told(&story, "r"), expected);
        let record = story.list(records(scope), "").remove(0);
        assert_eq!(text(&record["metadata"]["name"]), "r");
        assert!(record["metadata"]["ownerReferences"].is_null(), "it outlives its run");
        let spec = &record["spec"];
        assert_eq!(spec["policies"][0]["name"], "calm");
        assert_eq!(
            spec["plan"]["stages"][1],
            json!({"name": "prod", "clusters": ["m1", "m3"],
            "gates": ["after-TimedWait 20s"]})
        );
        story.delete(&scope.runs(), scope.space, "r").await;
        story.settle().await;
        assert_eq!(told(&story, "r"), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn which_runs_are_recorded_is_for_the_operator_to_say() {
    for (keep, policed, recorded) in
        [(Keep::Policies, false, false), (Keep::Off, true, false), (Keep::All, false, true)]
    {
        let story = Story::begin_with(CLUSTER, keeping(keep)).await;
        if policed {
            policy(&story, "calm", json!({"clusters": {"membership": "Frozen"}})).await;
        }
        story.two_stages().await;
        story.first_version().await;
        hold(&story);
        assert_eq!(!parts(&story, "first").is_empty(), recorded, "{keep:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_freeze_a_spent_budget_a_skip_and_a_removal_are_told() {
    let mut story = Story::prepared(CLUSTER, keeping(Keep::All)).await;
    story.place("web", fixed(&["m1", "m2", "m3"])).await;
    story.start_as("hub").await;
    story.two_stages().await;
    story.first_version().await;
    let named = json!({"spec": {"policy": {"clusterNames": ["m2", "m3"]}}});
    story.patch(story.scope.placements, "", "web", named).await;
    story.settle().await;
    let note = json!({"m3": {"reason": "later", "by": "bob"}}).to_string();
    let meta = json!({"name": "r", "annotations": {"flagship.dev/skipped-clusters": note}});
    let spec = json!({"placementName": "web", "stagedRolloutStrategyName": "plan", "state": "Run"});
    let freeze = json!({"metadata": {"name": "stop",
        "annotations": {"flagship.dev/created-by": "alice"}}, "spec": {"reason": "incident"}});
    story.create("freezes.flagship.dev", freeze).await;
    story.create(&story.scope.runs(), json!({"metadata": meta, "spec": spec})).await;
    story.soon().await;
    story.pass(20).await;
    story.delete("freezes.flagship.dev", "", "stop").await;
    story.soon().await;
    story.all_work().await;
    story.settle().await;
    hold(&story);
    assert_eq!(
        told(&story, "r"),
        "\
1 Planned  by user ManagedFields
2 Started  by user ManagedFields
3 Frozen  by alice Said
4 Unfrozen  by  Unknown
5 StageBegan canary
6 ClusterBegan canary m2
7 ClusterDone canary m2
8 StageDone canary
9 ClusterSkipped prod m3 ClusterSkipped by bob Said
10 StageDone prod
11 StageBegan kubernetes-fleet.io/deleteStage
12 ClusterBegan kubernetes-fleet.io/deleteStage m1
13 ClusterDone kubernetes-fleet.io/deleteStage m1
14 StageDone kubernetes-fleet.io/deleteStage
15 Ended UpdateRunSucceeded
"
    );
    let follows = parts(&story, "r").remove(0).follows.unwrap();
    let before = entries(&story, "first");
    assert_eq!((follows.run.as_str(), &follows.hash), ("first", &before.last().unwrap().hash));
    let spent = Story::begin(CLUSTER).await;
    policy(&spent, "p", json!({"failure": {"progressDeadline": "1m"}})).await;
    spent.two_stages().await;
    spent.run("r", json!({"state": "Run"})).await;
    spent.pass(61).await;
    let whats: Vec<What> = entries(&spent, "r").iter().map(|entry| entry.what).collect();
    assert!(whats.ends_with(&[What::ClusterFailed, What::BudgetSpent, What::Ended]), "{whats:?}");
}

// A hub that finds its server without records goes on without.
#[tokio::test(start_paused = true)]
async fn a_hub_works_without_the_definitions_of_records() {
    let mut story = Story::prepared(CLUSTER, keeping(Keep::All)).await;
    for name in ["clusterrolloutrecords.flagship.dev", "rolloutrecords.flagship.dev"] {
        story.delete("customresourcedefinitions.apiextensions.k8s.io", "", name).await;
    }
    story.place("web", json!({"placementType": "PickAll"})).await;
    story.start_as("hub").await;
    story.two_stages().await;
    story.first_version().await;
}

#[tokio::test(start_paused = true)]
async fn names_that_are_taken_and_records_that_grow() {
    let mut story = Story::prepared(CLUSTER, keeping(Keep::All)).await;
    story.place("web", json!({"placementType": "PickAll"})).await;
    story.two_stages().await;
    // What another run of the name has left, as long as one object may be.
    let entry = |n: usize| {
        let hash = "0".repeat(64);
        json!({"n": n, "time": "2026-01-01T00:00:00Z", "what": "ClusterDone",
            "cluster": format!("c{n}"), "text": "x".repeat(1000), "previousHash": hash, "hash": hash})
    };
    let many: Vec<Value> = (1..=190).map(entry).collect();
    let object = |name: &str, uid: &str, entries: &[Value]| {
        json!({"metadata": {"name": name, "labels": {"flagship.dev/update-run-uid": uid}},
            "spec": {"run": {"name": "r", "uid": uid}, "part": 1, "entries": entries,
                "plan": {"placement": "web", "strategy": "plan", "snapshot": "0", "stages": [],
                    "hash": ""}}})
    };
    let resource = records(story.scope);
    story.create(resource, object("r", "another", &many)).await;
    story.start_as("hub").await;
    story.run("r", json!({"state": "Run"})).await;
    let uid = text(&story.object("r")["metadata"]["uid"]);
    let short: String = uid.chars().take(8).collect();
    let ours = |story: &Story| -> Vec<String> {
        let all = story.list(resource, "");
        let ours = all.iter().filter(|object| object["spec"]["run"]["uid"] == *uid);
        ours.map(|object| text(&object["metadata"]["name"])).collect()
    };
    assert_eq!(ours(&story), [format!("r-{short}")]);
    // A record that is full goes on in the next object, whoever filled it.
    story.kill("hub").await;
    story.delete(resource, "", &format!("r-{short}")).await;
    story.create(resource, object(&format!("r-{short}"), &uid, &many)).await;
    story.start_as("next").await;
    story.works("m2").await;
    story.settle().await;
    assert_eq!(ours(&story), ["r-2".to_owned(), format!("r-{short}")]);
    let second = story.get(resource, "", "r-2");
    assert_eq!(
        (&second["spec"]["part"], &second["spec"]["entries"][0]["n"]),
        (&json!(2), &json!(191))
    );
    assert!(second["spec"]["plan"].is_null());
}

#[tokio::test(start_paused = true)]
async fn old_records_go_and_a_checkpoint_stays() {
    let mut story = Story::begin_with(CLUSTER, keeping(Keep::All)).await;
    story.two_stages().await;
    story.first_version().await;
    story.pass(60).await;
    story.run("second", json!({"state": "Run"})).await;
    story.all_work().await;
    let last = entries(&story, "first").last().unwrap().hash.clone();
    // Ninety days later, which a hub need not live through, the first one is too old.
    story.kill("hub").await;
    story.pass(60 * 60 * 24 * 90 - 30).await;
    story.start_as("next").await;
    story.run("third", json!({"state": "Run"})).await;
    assert_eq!(parts(&story, "first"), []);
    let second = story.get(records(CLUSTER), "", "second");
    let checkpoint = text(&second["metadata"]["annotations"]["flagship.dev/record-checkpoint"]);
    assert!(checkpoint.contains(&last), "{checkpoint}");
    assert!(!parts(&story, "third").is_empty());
}

#[tokio::test(start_paused = true)]
async fn entries_are_only_added() {
    let story = Story::begin_with(CLUSTER, keeping(Keep::All)).await;
    story.two_stages().await;
    story.first_version().await;
    let resource = records(CLUSTER);
    let record = story.get(resource, "", "first");
    let refused = async |change: &dyn Fn(&mut Value)| {
        let mut object = record.clone();
        change(&mut object);
        let patched = story.user.update(resource, object).await;
        patched.map(drop).map_err(|error| error.message).unwrap_err()
    };
    let all = record["spec"]["entries"].as_array().unwrap().len();
    let shorter =
        refused(&|object| drop(object["spec"]["entries"].as_array_mut().unwrap().pop())).await;
    assert!(shorter.contains("entries are only added: none may be removed"), "{shorter}");
    let changed = refused(&|object| object["spec"]["entries"][all - 1]["hash"] = json!("0")).await;
    assert!(changed.contains("the last one that was there must stay where it is"), "{changed}");
    let moved = refused(&|object| object["spec"]["run"]["uid"] = json!("x")).await;
    assert!(moved.contains("a record stays with its run: run.uid is immutable"), "{moved}");
    let planless =
        refused(&|object| drop(object["spec"].as_object_mut().unwrap().remove("plan"))).await;
    assert!(planless.contains("set plan where part is 1"), "{planless}");
}

/// How large the record of a run over a hundred clusters is; decision 21 says so.
#[tokio::test(start_paused = true)]
async fn the_record_of_a_hundred_clusters_fits_one_object() {
    let mut story = Story::prepared(CLUSTER, keeping(Keep::All)).await;
    let clusters = if tries_everything() { 100 } else { 40 };
    for at in 3..clusters {
        story.cluster(&format!("cluster-{at:03}"), json!({"env": "prod"})).await;
    }
    story.place("web", json!({"placementType": "PickAll"})).await;
    story.start_as("hub").await;
    story.strategy(json!([{"name": "all", "labelSelector": {}, "maxConcurrency": "25%"}])).await;
    story.first_version().await;
    let parts = parts(&story, "first");
    let (size, count) = (chain::size(&parts[0]), parts[0].entries.len());
    assert_eq!((parts.len(), count), (1, 2 * clusters + 5));
    assert!((500..750).contains(&(size / clusters)), "{size} bytes");
    hold(&story);
}

/// A hub that leads, too, and hears late of a stop that another one has told, tells of the resume
/// when it sees it, and not only with the next cluster.
#[tokio::test(start_paused = true)]
async fn a_resume_is_told_at_once_by_a_hub_that_did_not_hear_of_the_stop() {
    for scope in SCOPES {
        let mut story = Story::begin_with(scope, keeping(Keep::All)).await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        story.start_as("other").await;
        let late = Effect::Do(FaultOutcome::Delay(Duration::from_secs(30)));
        let rule = Rule::at(Point::WatchEvent, late);
        story.disturb(vec![Rule { who: "other".to_owned(), resource: scope.runs(), ..rule }]);
        story.set_state("r", "Stop").await;
        assert!(told(&story, "r").ends_with("5 Stopped  by user ManagedFields\n"));
        story.kill("hub").await;
        story.set_state("r", "Run").await;
        story.pass(45).await;
        hold(&story);
        let told = told(&story, "r");
        assert!(
            told.ends_with("5 Stopped  by user ManagedFields\n6 Resumed  by user ManagedFields\n"),
            "{told}"
        );
    }
}

/// Two hubs that lead from the first entry to the last tell everything once, and in order.
#[tokio::test(start_paused = true)]
async fn two_hubs_that_both_lead_tell_stops_and_resumes_once() {
    for scope in SCOPES {
        let mut story = Story::begin_with(scope, keeping(Keep::All)).await;
        story.start_as("other").await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        for _ in 0..3 {
            story.set_state("r", "Stop").await;
            story.set_state("r", "Run").await;
        }
        story.all_work().await;
        story.settle().await;
        hold(&story);
        let turns = |what: What| entries(&story, "r").iter().filter(|e| e.what == what).count();
        assert_eq!([What::Stopped, What::Resumed, What::Ended].map(turns), [3, 3, 1]);
    }
}

/// Seconds until something is so.
async fn seconds_until(story: &Story, is_so: impl Fn(&Story) -> bool) -> u64 {
    for seconds in 0..60 {
        if is_so(story) {
            return seconds;
        }
        story.pass(1).await;
    }
    panic!("{}", story.told("r"));
}

/// Every write of the hub takes a second, so seconds are writes that wait for one another. Of the
/// whole run a record adds the policies that it follows, how it begins, who started it, and how
/// it ends; between two clusters it adds nothing.
#[tokio::test(start_paused = true)]
async fn from_one_cluster_to_the_next_a_run_with_a_record_waits_for_no_more_writes() {
    for scope in SCOPES {
        let mut told = Vec::new();
        for policed in [false, true] {
            let story = Story::begin(scope).await;
            if policed {
                policy(&story, "calm", json!({"failure": {"budget": {"run": 1}}})).await;
            }
            story.two_stages().await;
            let slow = Effect::Do(FaultOutcome::Delay(Duration::from_secs(1)));
            let rule = Rule { who: "hub".to_owned(), ..Rule::at(Point::Request, slow) };
            story.disturb(vec![Rule { verbs: Verbs::Writes, ..rule }]);
            story.run("r", json!({"state": "Run"})).await;
            let moved = |at: usize| move |story: &Story| story.holds()[at].contains(" Bound");
            let mut waits = vec![seconds_until(&story, moved(1)).await];
            for (works, next) in [("m2", 0), ("m1", 2)] {
                story.works(works).await;
                waits.push(seconds_until(&story, moved(next)).await);
            }
            story.works("m3").await;
            let ended = |story: &Story| story.said("r", "Succeeded").starts_with("True");
            waits.push(seconds_until(&story, ended).await);
            assert_eq!(told_something(&story), policed);
            told.push(waits);
        }
        let [without, with] = &told[..] else { panic!("{told:?}") };
        assert_eq!(with[1..3], without[1..3], "{told:?}");
        assert!(with[0] <= without[0] + 3 && with[3] <= without[3] + 1, "{told:?}");
    }
}

fn told_something(story: &Story) -> bool {
    !parts(story, "r").is_empty()
}
