//! Evictions, carried out and refused: what is said, what goes, and what comes after it.

use std::time::Duration;

use flagship_store::env::plan::{Effect, Rule, Verbs, When};
use flagship_store::env::{FaultOutcome, Point};
use serde_json::{Value, json};

use crate::rollout::story::{CLUSTER_WIDE, Story, rolling};
use flagship_sim::testing::{CLUSTERS, CRB, CRP, text};

const CRPE: &str = "clusterresourceplacementevictions.placement.kubernetes-fleet.io";
const CRPDB: &str = "clusterresourceplacementdisruptionbudgets.placement.kubernetes-fleet.io";

const VALID: &str = "Valid=True ClusterResourcePlacementEvictionValid: Eviction is valid";

async fn begin(seed: u64, policy: Value) -> Story {
    let story = Story::begin(seed, CLUSTER_WIDE, 3).await;
    let mut spec = rolling(json!(1), json!(0));
    if !policy.is_null() {
        spec["policy"] = policy;
    }
    story.places(spec).await;
    for binding in story.bindings_of(CRB, "web") {
        story.works(&text(&binding["spec"]["targetCluster"])).await;
    }
    story
}

async fn ask(story: &Story, name: &str, cluster: &str) {
    let spec = json!({"placementName": "web", "clusterName": cluster});
    story.create(CRPE, json!({"metadata": {"name": name}, "spec": spec})).await;
}

async fn budget(story: &Story, spec: Value) {
    story.create(CRPDB, json!({"metadata": {"name": "web"}, "spec": spec})).await;
}

async fn taint(story: &Story, cluster: &str) {
    let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    story.patch(CLUSTERS, "", cluster, json!({"spec": {"taints": taint}})).await;
}

fn answer(story: &Story, name: &str) -> Vec<String> {
    let eviction = story.get(CRPE, "", name);
    let said = eviction["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let line = |c: &Value| {
        assert_eq!(c["observedGeneration"], eviction["metadata"]["generation"]);
        let [kind, status] = ["type", "status"].map(|field| text(&c[field]));
        format!("{kind}={status} {}: {}", text(&c["reason"]), text(&c["message"]))
    };
    said.iter().map(line).collect()
}

fn executed(why: &str) -> String {
    format!("Executed=True ClusterResourcePlacementEvictionExecuted: {why}")
}

fn not_executed(why: &str) -> String {
    format!("Executed=False ClusterResourcePlacementEvictionNotExecuted: {why}")
}

fn outcome(story: &Story, name: &str) -> Vec<String> {
    let wanted = format!("fleet_workload_eviction_complete{{name=\"{name}\",");
    let printed = story.metrics.render();
    let lines = printed.lines().filter_map(|line| line.strip_prefix(&wanted));
    lines.map(|line| line.split('}').next().unwrap_or_default().to_owned()).collect()
}

// checklist fleet 12.34: no budget; picked again unless tainted. KubeFleet's tool waits
// for the answer a third of a second.
#[tokio::test(start_paused = true)]
async fn an_evicted_cluster_is_picked_again_unless_it_is_tainted() {
    let story = begin(80, json!({"placementType": "PickAll"})).await;
    let old = text(&story.binding("m1")["metadata"]["uid"]);
    ask(&story, "out", "m1").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let allowed =
        executed("Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified");
    assert_eq!(answer(&story, "out"), [VALID.to_owned(), allowed.clone()]);
    story.settle().await;
    assert_ne!(text(&story.binding("m1")["metadata"]["uid"]), old);
    assert_eq!(
        story.told(),
        ["m1 Bound 0 started", "m2 Bound 0 started", "m3 Bound 0 started"],
        "it came back"
    );
    story.works("m1").await;
    taint(&story, "m1").await;
    ask(&story, "out-for-good", "m1").await;
    story.settle().await;
    assert_eq!(answer(&story, "out-for-good"), [VALID.to_owned(), allowed]);
    assert_eq!(story.told(), ["m2 Bound 0 started", "m3 Bound 0 started"]);
    let writes = story.writes("hub");
    let concluded = writes.iter().filter(|w| w.contains("evictions") && w.contains("out ")).count();
    assert_eq!(concluded, 2, "intent and answer, no more: {writes:?}");
}

// checklist fleet 12.36: PickN within a budget.
#[tokio::test(start_paused = true)]
async fn a_budget_lets_one_go_and_holds_the_next() {
    let story = begin(81, json!({"placementType": "PickN", "numberOfClusters": 3})).await;
    budget(&story, json!({"minAvailable": "50%"})).await;
    let before = "by specified ClusterResourcePlacementDisruptionBudget, availablePlacements";
    for cluster in ["m1", "m2"] {
        taint(&story, cluster).await;
        ask(&story, &format!("out-{cluster}"), cluster).await;
        story.settle().await;
    }
    let allowed = format!("Eviction is allowed {before}: 3, totalPlacements: 3");
    assert_eq!(answer(&story, "out-m1"), [VALID.to_owned(), executed(&allowed)]);
    let blocked = format!("Eviction is blocked {before}: 2, totalPlacements: 2");
    assert_eq!(answer(&story, "out-m2"), [VALID.to_owned(), not_executed(&blocked)]);
    assert_eq!(story.told(), ["m2 Bound 0 started", "m3 Bound 0 started"]);
    assert_eq!(outcome(&story, "out-m1"), [r#"isCompleted="true",isValid="true""#]);
    // The answer is final: room that comes later changes nothing.
    story.delete(CRPDB, "", "web").await;
    story.heartbeats(2).await;
    assert_eq!(answer(&story, "out-m2"), [VALID.to_owned(), not_executed(&blocked)]);
    assert_eq!(story.told().len(), 2);
}

// checklist fleet 12.32, and the metric that goes with the object.
#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_said_so_for_good() {
    let story = begin(82, Value::Null).await;
    let invalid =
        |why: &str| vec![format!("Valid=False ClusterResourcePlacementEvictionInvalid: {why}")];
    ask(&story, "nowhere", "m9").await;
    let spec = json!({"placementName": "unheard-of", "clusterName": "m1"});
    story.create(CRPE, json!({"metadata": {"name": "nobody"}, "spec": spec})).await;
    story.settle().await;
    assert_eq!(
        answer(&story, "nowhere"),
        invalid("Failed to find scheduler decision for placement in cluster targeted by eviction")
    );
    assert_eq!(
        answer(&story, "nobody"),
        invalid("Failed to find ClusterResourcePlacement targeted by eviction")
    );
    assert_eq!(outcome(&story, "nobody"), [r#"isCompleted="true",isValid="false""#]);
    story.delete(CRPE, "", "nobody").await;
    story.settle().await;
    assert_eq!(outcome(&story, "nobody"), Vec::<String>::new());
    story.patch(CRP, "", "web", json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    story.delete(CRP, "", "web").await;
    ask(&story, "late", "m1").await;
    story.settle().await;
    assert_eq!(
        answer(&story, "late"),
        invalid("Found deleting ClusterResourcePlacement targeted by eviction")
    );
}

// checklist fleet 12.33: on a live hub.
#[tokio::test(start_paused = true)]
async fn a_broken_cluster_may_go_whatever_the_budget_says() {
    let story = begin(83, Value::Null).await;
    budget(&story, json!({"minAvailable": 3})).await;
    ask(&story, "fine", "m2").await;
    story.settle().await;
    story.is_down("m1").await;
    ask(&story, "broken", "m1").await;
    story.settle().await;
    let before = "Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget";
    let blocked = format!("{before}, availablePlacements: 3, totalPlacements: 3");
    assert_eq!(answer(&story, "fine"), [VALID.to_owned(), not_executed(&blocked)]);
    let failed = executed("Eviction is allowed, placement has failed");
    assert_eq!(answer(&story, "broken"), [VALID.to_owned(), failed]);
}

// checklist fleet 12.37: a conflict is tried again.
#[tokio::test(start_paused = true)]
async fn a_binding_that_changes_under_the_deletion_is_judged_anew() {
    let story = begin(84, Value::Null).await;
    taint(&story, "m1").await;
    let conflict = Effect::Do(FaultOutcome::Answer { code: 409, retry_after: None });
    story.disturb(vec![Rule {
        who: "hub".to_owned(),
        resource: CRB.to_owned(),
        verbs: Verbs::Only(vec!["delete".to_owned()]),
        when: When::First(2),
        ..Rule::at(Point::Request, conflict)
    }]);
    ask(&story, "out", "m1").await;
    story.settle().await;
    assert_eq!(story.told(), ["m2 Bound 0 started", "m3 Bound 0 started"]);
    assert_eq!(answer(&story, "out").len(), 2);
    let deletions = story.writes("hub");
    let deletions: Vec<&String> = deletions.iter().filter(|w| w.starts_with("delete ")).collect();
    assert_eq!(deletions.len(), 3, "{deletions:?}");
}

// checklist fleet 12.37: executed once, also by a hub that dies between deed and word.
#[tokio::test(start_paused = true)]
async fn a_crash_between_deletion_and_answer_evicts_nobody_twice() {
    let mut story = begin(85, Value::Null).await;
    story.disturb(vec![Rule {
        who: "hub".to_owned(),
        resource: CRPE.to_owned(),
        verbs: Verbs::Only(vec!["patch".to_owned()]),
        when: When::Nth(2),
        ..Rule::at(Point::Request, Effect::Do(FaultOutcome::Hang))
    }]);
    ask(&story, "out", "m1").await;
    story.settle().await;
    assert_eq!(answer(&story, "out"), Vec::<String>::new(), "the answer never arrived");
    story.kill("hub").await;
    story.faults.heal();
    let next = text(&story.binding("m1")["metadata"]["uid"]);
    story.works("m1").await;
    story.start_as("next").await;
    assert_eq!(text(&story.binding("m1")["metadata"]["uid"]), next, "the new one stays");
    let going = executed(
        "Eviction is allowed, resources propagated by placement is currently being removed from \
         cluster targeted by eviction",
    );
    assert_eq!(answer(&story, "out"), [VALID.to_owned(), going]);
}

// checklist fleet 12.38
#[tokio::test(start_paused = true)]
async fn a_budget_that_cannot_be_meant_is_refused() {
    let story = Story::begin(86, CLUSTER_WIDE, 0).await;
    let kind = json!("ClusterResourcePlacementDisruptionBudget");
    let say = "If supplied value is String should match regex '^(100|[0-9]{1,2})%$' or If supplied \
               value is Integer must be greater than or equal to 0";
    for (spec, why) in [
        (
            json!({"maxUnavailable": 1, "minAvailable": 1}),
            "Both MaxUnavailable and MinAvailable cannot be specified",
        ),
        (json!({"maxUnavailable": -1}), say),
        (json!({"minAvailable": -1}), say),
        (json!({"maxUnavailable": "101%"}), say),
        (json!({"minAvailable": "half"}), say),
        (json!({"minAvailable": "1.5%"}), say),
    ] {
        let object = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind,
            "metadata": {"name": "web"}, "spec": spec});
        let refusal = story.user.create(CRPDB, "", object).await.unwrap_err();
        assert!(format!("{refusal:?}").contains(why), "{spec}: {refusal:?}");
    }
    for spec in [json!({}), json!({"maxUnavailable": 0}), json!({"minAvailable": "100%"})] {
        budget(&story, spec).await;
        story.delete(CRPDB, "", "web").await;
    }
}
