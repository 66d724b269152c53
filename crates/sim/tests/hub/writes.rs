//! The write budget: how many requests of which kind it takes to place something on a hundred
//! clusters and to run an update through them, conflicts included.
//!
//! What is counted here is what `docs/benchmarks/writes.md` says; the tables there are held
//! against these. Requests are counted, not time: they are what an API server has to do.

#![allow(clippy::unwrap_used)] // a story that cannot be told has failed

use std::collections::BTreeMap;
use std::time::Duration;

use flagship_rules::placement::Batching;
use flagship_sim::testing::{CRB, CRP, TestHub, WORK, text, without_profiles};
use flagship_store::{ObjectKey, Scope};
use serde_json::{Value, json};

const RUNS: &str = "clusterstagedupdateruns.placement.kubernetes-fleet.io";
const STRATEGIES: &str = "clusterstagedupdatestrategies.placement.kubernetes-fleet.io";
const STAGES: [(&str, usize); 3] = [("a", 20), ("b", 30), ("c", 50)];
/// Kinds that the hub itself works with.
const OURS: [&str; 9] = [
    "clusterresourcebindings",
    "clusterresourceoverridesnapshots",
    "clusterresourceplacements",
    "clusterresourcesnapshots",
    "clusterschedulingpolicysnapshots",
    "clusterstagedupdateruns",
    "memberclusters",
    "resourceoverridesnapshots",
    "works",
];
/// What a list of any other kind is counted as: a first version freezes what the server has.
const SELECTABLE: &str = "kinds that may be selected";
/// How soon members answer.
const ANSWERS_AFTER: Duration = Duration::from_millis(20);
/// Where the budget is published.
const PUBLISHED: &str = include_str!("../../../../docs/benchmarks/writes.md");

/// Where the sizes of objects are.
const SCALE: &str = include_str!("../../../../docs/benchmarks/scale.md");

/// Requests by verb and resource, and how many of each were conflicts.
#[derive(Debug, Default, PartialEq)]
struct Requests(BTreeMap<(String, String), (usize, usize)>);

impl Requests {
    /// Of calls as `verb resource name code`.
    fn of(calls: &[String]) -> Self {
        let mut requests = Self::default();
        for call in calls {
            let words: Vec<&str> = call.split(' ').collect();
            let is_ours = OURS.contains(&words[1]);
            let resource = if words[0] == "list" && !is_ours { SELECTABLE } else { words[1] };
            let key = (words[0].to_owned(), resource.to_owned());
            let (count, conflicts) = requests.0.entry(key).or_default();
            *count += 1;
            *conflicts += usize::from(words.last() == Some(&"409"));
        }
        requests
    }

    fn count(&self, verb: &str, resource: &str) -> usize {
        self.0.get(&(verb.to_owned(), resource.to_owned())).map_or(0, |(count, _)| *count)
    }

    fn of_verb(&self, verb: &str) -> usize {
        self.0.iter().filter(|((of, _), _)| of == verb).map(|(_, (count, _))| count).sum()
    }

    fn conflicts(&self) -> usize {
        self.0.values().map(|(_, conflicts)| conflicts).sum()
    }

    fn writes(&self) -> usize {
        let reads = ["get", "list", "watch"];
        let writes = self.0.iter().filter(|((verb, _), _)| !reads.contains(&&**verb));
        writes.map(|(_, (count, _))| count).sum()
    }

    /// As rows of a table.
    fn table(&self) -> String {
        let row = |((verb, resource), (count, conflicts)): (&(String, String), &(usize, usize))| {
            format!("| {verb} | {resource} | {count} | {conflicts} |\n")
        };
        self.0.iter().map(row).collect()
    }
}

/// A hub with a hundred members, and something to place.
async fn hub() -> TestHub {
    let mut hub = TestHub::new(7).await;
    for (stage, count) in STAGES {
        for number in 0..count {
            hub.cluster(&format!("{stage}{number:02}"), json!({"stage": stage})).await;
        }
    }
    let data = json!({"key": "x".repeat(1024)});
    hub.create("configmaps", json!({"metadata": {"namespace": "app", "name": "c"}, "data": data}))
        .await;
    let labels = json!({"app": "web"});
    let template = json!({"metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
    hub.create(
        "deployments.apps",
        json!({"metadata": {"namespace": "app", "name": "web"},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}}),
    )
    .await;
    hub.options = without_profiles();
    hub.options.batching = Batching::NONE;
    hub.start_as("hub").await;
    hub.pass(60).await;
    hub.heartbeats(1).await;
    hub
}

fn placement(strategy: Value) -> Value {
    let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
    json!({"metadata": {"name": "web"}, "spec": {"resourceSelectors": selector,
        "policy": {"placementType": "PickAll"}, "strategy": strategy}})
}

/// Lets members answer until the object says so, and everybody comes to rest. Their answers.
async fn until(hub: &TestHub, resource: &str, kind: &str) -> usize {
    let mut answers = 0;
    for _ in 0..5_000 {
        tokio::time::sleep(ANSWERS_AFTER).await;
        for work in hub.hub.store().list(WORK, Scope::All).items {
            let object: Value = serde_json::from_slice(&work.json).unwrap();
            let said = &object["status"]["conditions"][0]["observedGeneration"];
            if *said != object["metadata"]["generation"] {
                answer(hub, &object).await;
                answers += 1;
            }
        }
        let stored = hub.hub.store().get(resource, &ObjectKey::new("", "web")).unwrap();
        let object: Value = serde_json::from_slice(&stored.json).unwrap();
        let said = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let generation = &object["metadata"]["generation"];
        let is_so = |c: &Value| {
            c["type"] == kind && c["status"] == "True" && c["observedGeneration"] == *generation
        };
        if said.iter().any(is_so) {
            hub.pass(5).await;
            return answers;
        }
    }
    panic!("{resource} web did not become {kind}");
}

async fn answer(hub: &TestHub, work: &Value) {
    let meta = &work["metadata"];
    let says = |kind: &str, reason: &str| {
        json!({"type": kind, "status": "True", "reason": reason, "message": "",
            "observedGeneration": meta["generation"], "lastTransitionTime": hub.now()})
    };
    let said = [says("Applied", "AllManifestsApplied"), says("Available", "AllManifestsAvailable")];
    let (space, name) = (text(&meta["namespace"]), text(&meta["name"]));
    let status = json!({"status": {"conditions": said}});
    hub.user_patches(WORK, &space, &name, "status", status).await;
}

/// What the hub asks for while the story is told, and how often members answered.
async fn counted(hub: &TestHub, story: impl Future<Output = usize>) -> (Requests, usize) {
    let before = hub.calls("hub").len();
    let answers = story.await;
    let mut calls = hub.calls("hub");
    calls.drain(..before);
    // A lease is kept whether anything happens or not.
    calls.retain(|call| !call.contains(" leases "));
    (Requests::of(&calls), answers)
}

/// What `docs/benchmarks/writes.md` lacks.
fn unpublished(requests: &Requests, title: &str) -> Option<String> {
    let heading = "| verb | resource | requests | conflicts |\n|---|---|---|---|\n";
    let wanted = format!("### {title}\n\n{heading}{}", requests.table());
    (!PUBLISHED.contains(&wanted)).then(|| format!("writes.md has to say:\n{wanted}"))
}

#[tokio::test(start_paused = true)]
async fn placing_on_a_hundred_clusters_takes_five_writes_a_cluster() {
    let hub = hub().await;
    let all_at_once = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}});
    let (requests, answers) = counted(&hub, async {
        hub.create(CRP, placement(all_at_once)).await;
        until(&hub, CRP, "ClusterResourcePlacementAvailable").await
    })
    .await;
    let mut lacks = Vec::from_iter(unpublished(&requests, "One placement on 100 clusters"));
    assert_eq!(hub.list(CRB, "").len(), 100);
    assert_eq!(requests.conflicts(), 0, "nobody stands in another's way:\n{}", requests.table());
    let of_pairs = requests.count("create", "clusterresourcebindings")
        + requests.count("patch", "clusterresourcebindings")
        + requests.count("create", "works")
        + requests.count("patch", "works");
    assert_eq!((of_pairs + answers) / 100, 5, "{answers} answers, {}", requests.table());
    assert!(requests.writes() - of_pairs <= 20, "beside them:\n{}", requests.table());
    // Clusters are chosen by what the server has: another hub may believe that it leads.
    let lists = requests.of_verb("list") - requests.count("list", SELECTABLE);
    assert_eq!(lists, requests.count("list", "clusterresourcebindings"), "{}", requests.table());
    assert_eq!(lists, 1, "{}", requests.table());

    let sizes = [("placement", CRP), ("binding", CRB), ("Work", WORK)].map(|(what, resource)| {
        let stored = hub.hub.store().list(resource, Scope::All).items;
        let bytes: usize = stored.iter().map(|one| one.json.len()).sum();
        format!("| {what} | {:.1} KB |\n", bytes as f64 / stored.len() as f64 / 1000.0)
    });
    let sizes = sizes.concat();
    if !SCALE.contains(&sizes) {
        lacks.push(format!("scale.md has to say:\n{sizes}"));
    }

    // From here on a pass finds everything in mirrors.
    let (again, answers) = counted(&hub, async {
        hub.patch("configmaps", "app", "c", json!({"data": {"key": "y".repeat(1024)}})).await;
        // Until the placement says that it is under way again.
        tokio::time::sleep(ANSWERS_AFTER * 5).await;
        until(&hub, CRP, "ClusterResourcePlacementAvailable").await
    })
    .await;
    assert_eq!(answers, 100);
    assert_eq!(again.conflicts(), 0, "{}", again.table());
    assert_eq!(again.of_verb("list"), 0, "{}", again.table());
    lacks.extend(unpublished(&again, "Another version of it"));
    assert!(lacks.is_empty(), "in docs/benchmarks {}", lacks.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_run_through_a_hundred_clusters_keeps_its_budget() {
    let hub = hub().await;
    let stages = STAGES.map(|(name, _)| {
        json!({"name": name, "labelSelector": {"matchLabels": {"stage": name}},
            "maxConcurrency": "50%"})
    });
    let strategy = json!({"metadata": {"name": "plan"}, "spec": {"stages": stages}});
    hub.create(STRATEGIES, strategy).await;
    hub.create(CRP, placement(json!({"type": "External"}))).await;
    hub.pass(30).await;
    let (requests, answers) = counted(&hub, async {
        let spec = json!({"placementName": "web", "stagedRolloutStrategyName": "plan",
            "state": "Run"});
        hub.create(RUNS, json!({"metadata": {"name": "web"}, "spec": spec})).await;
        until(&hub, RUNS, "Succeeded").await
    })
    .await;
    assert_eq!(answers, 100);
    assert_eq!(requests.conflicts(), 0, "{}", requests.table());
    let of_pairs = requests.count("patch", "clusterresourcebindings")
        + requests.count("create", "works")
        + requests.count("patch", "works");
    assert_eq!((of_pairs + answers) / 100, 4, "{answers} answers, {}", requests.table());
    let lacks = unpublished(&requests, "One run through stages of 20, 30 and 50");
    assert!(lacks.is_none(), "in docs/benchmarks {}", lacks.unwrap_or_default());
}
