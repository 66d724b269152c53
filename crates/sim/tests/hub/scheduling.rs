//! Stories of the scheduler at work: a hub on the embedded server, paused time,
//! policy snapshots written by hand.
//!
//! What it decides is told beside the rules; here is when it looks, what it writes,
//! and what it leaves alone.

use expect_test::expect;
use flagship_hub::Options;
use flagship_runtime::lease::LeaseConfig;
use flagship_sim::testing::{
    CLUSTERS, CRB, CRP, CSPS, IMC, RB, RP, SPS, TestHub, line, text, without_placement,
};
use flagship_store::env::plan::{Effect, Rule, Verbs, When};
use flagship_store::env::{FaultOutcome as Fault, Point};
use serde_json::{Value, json};

/// The controller whose passes are counted.
const SCHEDULER: &str = "scheduler-queue";

fn pick_all() -> Value {
    json!({"placementType": "PickAll"})
}

fn pick_n(n: u64) -> Value {
    json!({"placementType": "PickN", "numberOfClusters": n})
}

fn pick_fixed(names: &[&str]) -> Value {
    json!({"placementType": "PickFixed", "clusterNames": names})
}

/// PickAll or PickN, of clusters with these labels only.
fn among(mut policy: Value, labels: Value) -> Value {
    let terms = json!([{"labelSelector": {"matchLabels": labels}}]);
    policy["affinity"] = json!({"clusterAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms},
    }});
    policy
}

// checklist 18.31
#[tokio::test(start_paused = true)]
async fn a_policy_puts_a_binding_on_every_ready_cluster() {
    let test = TestHub::running(1).await;
    test.cluster("m1", json!({})).await;
    test.cluster("m2", json!({})).await;
    test.newcomer("m3", json!({})).await;
    test.places("web", pick_all()).await;
    test.settle().await;
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-0", "m2 Scheduled web-0"]);
    let binding = &test.bindings_of(CRB, "web")[0];
    let name = text(&binding["metadata"]["name"]);
    assert!(name.starts_with("web-m1-") && name.len() == "web-m1-".len() + 8, "{name}");
    expect![[r#"
        {
          "clusterDecision": {
            "clusterName": "m1",
            "clusterScore": {
              "affinityScore": 0,
              "priorityScore": 0
            },
            "reason": "Successfully scheduled resources for placement in \"m1\" (affinity score: 0, topology spread score: 0): picked by scheduling policy",
            "selected": true
          },
          "resourceSnapshotName": "",
          "schedulingPolicySnapshotName": "web-0",
          "state": "Scheduled",
          "targetCluster": "m1"
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&binding["spec"]).unwrap());
    assert_eq!(
        binding["metadata"]["finalizers"],
        json!(["kubernetes-fleet.io/scheduler-crb-cleanup"])
    );
    assert!(binding["metadata"]["ownerReferences"].is_null());
    assert_eq!(
        test.get(CRP, "", "web")["metadata"]["finalizers"],
        json!(["kubernetes-fleet.io/scheduler-cleanup"])
    );
    expect![[r#"
        True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 2 cluster(s) (generation 1)
        + Successfully scheduled resources for placement in "m1" (affinity score: 0, topology spread score: 0): picked by scheduling policy
        + Successfully scheduled resources for placement in "m2" (affinity score: 0, topology spread score: 0): picked by scheduling policy
        - ClusterUnschedulable, cluster is not connected to the fleet: member agent not online yet
    "#]]
    .assert_eq(&test.decision(CSPS, "", "web-0"));
}

// checklist 18.30
#[tokio::test(start_paused = true)]
async fn a_cluster_that_gets_ready_is_picked_and_one_that_falls_silent_is_kept() {
    let test = TestHub::running(2).await;
    test.cluster("m1", json!({})).await;
    test.newcomer("m2", json!({})).await;
    test.places("web", Value::Null).await;
    test.settle().await;
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-0"]);
    test.joins("m2").await;
    test.settle().await;
    let both = ["m1 Scheduled web-0", "m2 Scheduled web-0"];
    assert_eq!(test.bindings("web"), both);
    // Ten silent minutes later a third one wakes the placement.
    test.pass(600).await;
    test.cluster("m3", json!({})).await;
    test.settle().await;
    assert_eq!(test.bindings("web"), [both[0], both[1], "m3 Scheduled web-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_policy_keeps_what_it_can_and_lets_the_rest_go() {
    let test = TestHub::running(3).await;
    for (name, env) in [("a", "prod"), ("b", "prod"), ("c", "test")] {
        test.cluster(name, json!({"env": env})).await;
    }
    test.places("web", pick_n(2)).await;
    test.settle().await;
    test.bind_all("web").await;
    assert_eq!(test.bindings("web"), ["b Bound web-0", "c Bound web-0"]);
    let kept = test.binding_on("web", "c");
    let notes = json!({"metadata": {"annotations": {"owner": "ann"}}});
    test.patch(CRB, "", &kept, notes).await;
    test.policy("web", 1, among(pick_n(2), json!({"env": "prod"}))).await;
    test.settle().await;
    assert_eq!(
        test.bindings("web"),
        ["a Scheduled web-1", "b Bound web-1", "c Unscheduled web-0 was Bound"]
    );
    let released = test.get(CRB, "", &kept);
    assert_eq!(released["metadata"]["annotations"]["owner"], "ann", "others' notes stay");
    assert_eq!(released["spec"]["resourceSnapshotName"], "web-0-snapshot");
    // The old policy comes back before anybody deleted the binding.
    test.policy("web", 2, among(pick_n(1), json!({"env": "test"}))).await;
    test.settle().await;
    assert_eq!(
        test.bindings("web"),
        ["a Unscheduled web-1 was Scheduled", "b Unscheduled web-1 was Bound", "c Bound web-2"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_fixed_choice_has_no_score_even_where_there_was_one() {
    let test = TestHub::running(4).await;
    test.cluster("m1", json!({})).await;
    test.places("web", pick_all()).await;
    test.settle().await;
    test.policy("web", 1, pick_fixed(&["m1", "m9"])).await;
    test.settle().await;
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-1"]);
    let binding = &test.bindings_of(CRB, "web")[0];
    assert!(binding["spec"]["clusterDecision"].get("clusterScore").is_none());
    expect![[r#"
        False SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the scheduling policy, found 1 cluster(s) instead (generation 2)
        + Successfully scheduled resources for placement in "m1": picked by scheduling policy
        - Specified cluster "m9" is not found
    "#]]
    .assert_eq(&test.decision(CSPS, "", "web-1"));
    // The missing one turns up.
    test.cluster("m9", json!({})).await;
    test.settle().await;
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-1", "m9 Scheduled web-1"]);
}

// checklist 18.30
#[tokio::test(start_paused = true)]
async fn a_leaving_cluster_is_looked_at_when_it_is_gone() {
    let test = TestHub::running(5).await;
    for name in ["m1", "m2", "m3"] {
        test.cluster(name, json!({})).await;
    }
    test.places("web", pick_n(2)).await;
    test.settle().await;
    test.bind_all("web").await;
    assert_eq!(test.bindings("web"), ["m2 Bound web-0", "m3 Bound web-0"]);
    test.delete(CLUSTERS, "", "m3").await;
    test.settle().await;
    assert_eq!(test.bindings("web"), ["m2 Bound web-0", "m3 Bound web-0"], "not before");
    test.leaves("m3").await;
    assert!(test.find(CLUSTERS, "", "m3").is_none());
    assert_eq!(
        test.bindings("web"),
        ["m1 Scheduled web-0", "m2 Bound web-0", "m3 Unscheduled web-0 was Bound"]
    );
}

// checklist 18.32
#[tokio::test(start_paused = true)]
async fn a_deleted_binding_is_let_go_and_its_place_filled() {
    let test = TestHub::running(6).await;
    test.cluster("m1", json!({})).await;
    test.places("web", pick_all()).await;
    test.settle().await;
    let old = test.binding_on("web", "m1");
    test.delete(CRB, "", &old).await;
    test.settle().await;
    assert!(test.find(CRB, "", &old).is_none());
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-0"]);
    // One that others hold stays beside its successor.
    let held = test.binding_on("web", "m1");
    let finalizers =
        ["kubernetes-fleet.io/scheduler-crb-cleanup", "kubernetes-fleet.io/work-cleanup"];
    test.patch(CRB, "", &held, json!({"metadata": {"finalizers": finalizers}})).await;
    test.delete(CRB, "", &held).await;
    test.settle().await;
    let left = test.get(CRB, "", &held);
    assert_eq!(left["metadata"]["finalizers"], json!(["kubernetes-fleet.io/work-cleanup"]));
    let mut lines = test.bindings("web");
    lines.sort();
    assert_eq!(lines, ["m1 Scheduled web-0", "m1 Scheduled web-0 deleting"]);
}

// checklist 18.16, 18.31
#[tokio::test(start_paused = true)]
async fn scaling_follows_the_annotation() {
    let test = TestHub::running(7).await;
    for name in ["a", "b", "c"] {
        test.cluster(name, json!({})).await;
    }
    test.places("web", pick_n(1)).await;
    test.settle().await;
    assert_eq!(test.bindings("web"), ["c Scheduled web-0"]);
    test.wants("web-0", 3).await;
    test.settle().await;
    test.bind_all("web").await;
    assert_eq!(test.bindings("web"), ["a Bound web-0", "b Bound web-0", "c Bound web-0"]);
    test.wants("web-0", 1).await;
    test.settle().await;
    let trimmed =
        ["a Unscheduled web-0 was Bound", "b Unscheduled web-0 was Bound", "c Bound web-0"];
    assert_eq!(test.bindings("web"), trimmed);
    test.wants("web-0", 0).await;
    test.settle().await;
    assert_eq!(test.bindings("web")[2], "c Unscheduled web-0 was Bound");
    expect![[r#"
        True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 0 cluster(s) (generation 1)
    "#]]
    .assert_eq(&test.decision(CSPS, "", "web-0"));
}

// checklist 18.8, 18.31
#[tokio::test(start_paused = true)]
async fn a_new_generation_rewrites_the_status_and_nothing_else() {
    let test = TestHub::running(8).await;
    test.cluster("m1", json!({})).await;
    test.places("web", pick_all()).await;
    test.settle().await;
    let before = test.writes("hub").len();
    let notes = json!({"kubernetes-fleet.io/CRP-generation": "7"});
    test.patch(CSPS, "", "web-0", json!({"metadata": {"annotations": notes}})).await;
    test.settle().await;
    assert_eq!(test.writes("hub")[before..], ["patch clusterschedulingpolicysnapshots web-0 200"]);
    assert_eq!(test.get(CSPS, "", "web-0")["status"]["observedCRPGeneration"], 7);
    // A status that somebody else writes is no question to the scheduler.
    let calls = test.calls("hub").len();
    test.patch_status(CSPS, "web-0", json!({"observedCRPGeneration": 9})).await;
    test.settle().await;
    assert_eq!(test.calls("hub").len(), calls, "no pass, so not even a list");
}

// checklist 18.31
#[tokio::test(start_paused = true)]
async fn a_repaired_latest_flag_is_a_new_policy() {
    let test = TestHub::running(9).await;
    test.cluster("m1", json!({})).await;
    test.places("web", pick_all()).await;
    test.settle().await;
    let flag = |to: &str| {
        let labels = json!({"kubernetes-fleet.io/is-latest-snapshot": to});
        json!({"metadata": {"labels": labels}})
    };
    test.patch(CSPS, "", "web-0", flag("maybe")).await;
    test.delete(CRB, "", &test.binding_on("web", "m1")).await;
    test.settle().await;
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-0 deleting"], "no policy, no pass");
    test.patch(CSPS, "", "web-0", flag("true")).await;
    test.settle().await;
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-0"]);
}

#[tokio::test(start_paused = true)]
async fn two_latest_policies_wait_until_one_is_left() {
    let test = TestHub::running(10).await;
    test.cluster("m1", json!({"env": "prod"})).await;
    test.cluster("m2", json!({})).await;
    test.places("web", pick_all()).await;
    test.settle().await;
    let flag =
        |to: &str| json!({"metadata": {"labels": {"kubernetes-fleet.io/is-latest-snapshot": to}}});
    test.policy("web", 1, among(pick_all(), json!({"env": "prod"}))).await;
    test.patch(CSPS, "", "web-0", flag("true")).await;
    test.patch(CSPS, "", "web-1", json!({"metadata": {"annotations": {"a": "b"}}})).await;
    test.settle().await;
    test.patch(CSPS, "", "web-0", flag("false")).await;
    test.settle().await;
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-1", "m2 Unscheduled web-0 was Scheduled"]);
}

// checklist 18.32, 18.33
#[tokio::test(start_paused = true)]
async fn a_deleted_placement_takes_its_own_bindings_along_and_no_others() {
    let test = TestHub::running(11).await;
    test.cluster("m1", json!({})).await;
    test.places("web", pick_all()).await;
    test.places("api", pick_all()).await;
    test.places_in("app", "web", pick_all()).await;
    test.settle().await;
    let held = test.binding_on("web", "m1");
    let finalizers =
        ["kubernetes-fleet.io/scheduler-crb-cleanup", "kubernetes-fleet.io/work-cleanup"];
    test.patch(CRB, "", &held, json!({"metadata": {"finalizers": finalizers}})).await;
    test.delete(CRP, "", "web").await;
    test.settle().await;
    assert!(test.find(CRP, "", "web").is_none(), "it does not wait for its bindings");
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-0 deleting"], "the work side holds it");
    assert_eq!(test.bindings("api"), ["m1 Scheduled api-0"]);
    assert_eq!(test.list(RB, "app").len(), 1);
    test.delete(RP, "app", "web").await;
    test.settle().await;
    assert!(test.find(RP, "app", "web").is_none());
    assert!(test.list(RB, "app").is_empty());
}

// checklist 18.32, 18.34
#[tokio::test(start_paused = true)]
async fn a_binding_that_is_deleted_is_one_pass_and_whatever_else_becomes_of_it_is_none() {
    let test = TestHub::running(33).await;
    test.cluster("m1", json!({})).await;
    test.places("web", pick_all()).await;
    test.settle().await;
    let cycles = || {
        let printed = test.metrics.render();
        let counted = "scheduling_cycle_duration_milliseconds_count{is_failed=\"false\",needs_requeue=\"false\"} ";
        let line = printed.lines().find_map(|line| line.strip_prefix(counted));
        line.map_or(0, |count| count.parse::<u64>().unwrap())
    };
    let before = cycles();
    assert!(before > 0, "a pass that went well is counted");
    let name = test.binding_on("web", "m1");
    let bound = json!({"state": "Bound", "resourceSnapshotName": "web-0-snapshot"});
    test.patch(CRB, "", &name, json!({"spec": bound})).await;
    test.patch(CRB, "", &name, json!({"metadata": {"labels": {"a": "b"}}})).await;
    let told = json!([{"type": "Applied", "status": "True", "reason": "r", "message": "",
        "lastTransitionTime": test.now()}]);
    test.patch_status(CRB, &name, json!({"conditions": told})).await;
    test.settle().await;
    assert_eq!(cycles(), before, "none of this is the scheduler's business");
    test.delete(CRB, "", &name).await;
    test.settle().await;
    assert_eq!(cycles(), before + 1);
    // A placement that goes is cleaned up; nothing is chosen for it.
    test.delete(CRP, "", "web").await;
    test.settle().await;
    assert!(test.find(CRP, "", "web").is_none());
    let after = cycles() - before;
    assert!(after <= 2, "{after}");
}

#[tokio::test(start_paused = true)]
async fn a_property_that_nobody_can_read_is_told_on_the_placement() {
    let test = TestHub::running(34).await;
    test.cluster("m1", json!({})).await;
    test.cluster("m2", json!({})).await;
    for (name, value) in [("m1", "12"), ("m2", "a dozen")] {
        let mut status = test.get(IMC, &format!("fleet-member-{name}"), name)["status"].clone();
        let at = test.now();
        status["properties"] = json!({"nodes": {"value": value, "observationTime": at}});
        test.agent_says(name, status).await;
    }
    let sorted = json!([{"weight": 10, "preference":
        {"propertySorter": {"name": "nodes", "sortOrder": "Descending"}}}]);
    let mut policy = pick_n(1);
    policy["affinity"] =
        json!({"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": sorted}});
    test.places("web", policy).await;
    test.settle().await;
    let told = test.events("ClusterResourcePlacement");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("Warning MalformedProperty web: value a dozen of property nodes from cluster m2 is not a valid quantity: "),
        "{told:?}"
    );
}

// checklist 18.32
#[tokio::test(start_paused = true)]
async fn a_placement_whose_finalizer_is_gone_is_not_ours_to_clean_up() {
    let test = TestHub::running(12).await;
    test.cluster("m1", json!({})).await;
    test.places("web", pick_all()).await;
    test.settle().await;
    let other = json!({"metadata": {"finalizers": ["example.com/other"]}});
    test.patch(CRP, "", "web", other).await;
    test.delete(CRP, "", "web").await;
    test.settle().await;
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-0"]);
    assert_eq!(
        test.get(CRP, "", "web")["metadata"]["finalizers"],
        json!(["example.com/other"]),
        "nor is a finalizer added to it"
    );
}

// checklist 18.33
#[tokio::test(start_paused = true)]
async fn placements_of_both_scopes_may_share_a_name() {
    let test = TestHub::running(13).await;
    test.cluster("m1", json!({})).await;
    test.cluster("m2", json!({})).await;
    test.places("web", pick_fixed(&["m1"])).await;
    test.places_in("app", "web", pick_fixed(&["m2"])).await;
    test.settle().await;
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-0"]);
    let namespaced: Vec<String> = test.list(RB, "app").iter().map(line).collect();
    assert_eq!(namespaced, ["m2 Scheduled web-0"]);
    let found = "True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 1 cluster(s) (generation 1)\n";
    assert!(test.decision(CSPS, "", "web-0").starts_with(found));
    assert!(test.decision(SPS, "app", "web-0").starts_with(found));
    let guard = json!(["kubernetes-fleet.io/scheduler-cleanup"]);
    assert_eq!(test.get(CRP, "", "web")["metadata"]["finalizers"], guard);
    assert_eq!(test.get(RP, "app", "web")["metadata"]["finalizers"], guard);
}

#[tokio::test(start_paused = true)]
async fn namespaced_placements_can_be_switched_off() {
    let mut test = TestHub::new(14).await;
    test.start("hub", Options { resource_placement: false, ..without_placement() });
    test.cluster("m1", json!({})).await;
    test.places_in("app", "web", pick_all()).await;
    test.places("web", pick_all()).await;
    test.settle().await;
    assert!(test.list(RB, "app").is_empty());
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-0"]);
}

// checklist 18.18, 18.34
#[tokio::test(start_paused = true)]
async fn spread_fills_one_cluster_a_pass_without_pause() {
    let test = TestHub::running(15).await;
    for n in 0..12 {
        let region = ["east", "west", "north"][n % 3];
        test.cluster(&format!("m{n:02}"), json!({"region": region})).await;
    }
    test.settle().await;
    let begun = tokio::time::Instant::now();
    let mut policy = pick_n(12);
    policy["topologySpreadConstraints"] =
        json!([{"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]);
    test.places("web", policy).await;
    while test.bindings("web").len() < 12 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        assert!(begun.elapsed().as_secs() < 1, "{:?}", test.bindings("web"));
    }
    test.settle().await;
    let status = test.decision(CSPS, "", "web-0");
    assert!(status.starts_with("True SchedulingPolicyFulfilled"), "{status}");
    let reports = test.writes("hub").iter().filter(|w| w.contains("policysnapshots")).count();
    assert_eq!(reports, 1, "only the last pass reports");
    assert!(test.metrics.render().contains(
        "scheduling_cycle_duration_milliseconds_count{is_failed=\"false\",needs_requeue=\"true\"} 11"
    ));
}

// checklist 18.3
#[tokio::test(start_paused = true)]
async fn lost_answers_and_conflicts_leave_one_binding_a_cluster() {
    let test = TestHub::new(16).await;
    let mut test = test;
    for name in ["m1", "m2", "m3"] {
        test.cluster(name, json!({})).await;
    }
    let rule = |point, resource: &str, verb: &str, fault| Rule {
        who: "hub".to_owned(),
        resource: resource.to_owned(),
        verbs: Verbs::Only(vec![verb.to_owned()]),
        when: When::First(2),
        ..Rule::at(point, Effect::Do(fault))
    };
    let conflict = Fault::Answer { code: 409, retry_after: None };
    let busy = Fault::Answer { code: 503, retry_after: None };
    test.disturb(vec![
        rule(Point::PostCommit, CRB, "create", Fault::Sever),
        rule(Point::Request, CRP, "patch", conflict),
        rule(Point::Request, CRB, "patch", conflict),
        rule(Point::PreCommit, CSPS, "patch", busy),
    ]);
    test.start("hub", without_placement());
    test.places("web", pick_all()).await;
    test.pass(60).await;
    test.policy("web", 1, pick_fixed(&["m2"])).await;
    test.pass(60).await;
    assert_eq!(
        test.bindings("web"),
        [
            "m1 Unscheduled web-0 was Scheduled",
            "m2 Scheduled web-1",
            "m3 Unscheduled web-0 was Scheduled"
        ]
    );
    assert!(test.faults.fired().iter().all(|fired| *fired == 2), "{:?}", test.faults.fired());
}

// checklist 18.3
#[tokio::test(start_paused = true)]
async fn a_binding_that_rollout_moves_under_the_scheduler_keeps_its_true_state() {
    let mut test = TestHub::new(17).await;
    test.cluster("m1", json!({})).await;
    test.start("hub", without_placement());
    test.places("web", pick_all()).await;
    test.settle().await;
    // The release hangs in the air while the rollout side binds.
    test.disturb(vec![Rule {
        who: "hub".to_owned(),
        resource: CRB.to_owned(),
        verbs: Verbs::Only(vec!["patch".to_owned()]),
        when: When::Nth(1),
        ..Rule::at(Point::Request, Effect::Do(Fault::Delay(std::time::Duration::from_secs(5))))
    }]);
    test.policy("web", 1, pick_fixed(&["m9"])).await;
    test.pass(2).await;
    test.bind_all("web").await;
    test.settle().await;
    assert_eq!(test.bindings("web"), ["m1 Unscheduled web-0 was Bound"]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing() {
    let mut test = TestHub::running(18).await;
    for name in ["m1", "m2", "m3"] {
        test.cluster(name, json!({"env": "prod"})).await;
    }
    test.newcomer("m4", json!({})).await;
    test.places("all", pick_all()).await;
    test.places("some", pick_n(2)).await;
    test.places("few", among(pick_n(5), json!({"env": "prod"}))).await;
    test.places("named", pick_fixed(&["m1", "m9"])).await;
    test.places_in("app", "all", pick_all()).await;
    test.settle().await;
    test.bind_all("all").await;
    test.settle().await;
    test.stop("hub").await;
    let before = test.passes(SCHEDULER);
    test.start("again", without_placement());
    test.settle().await;
    assert_eq!(test.passes(SCHEDULER) - before, 5, "every placement is looked at once");
    assert_eq!(test.writes("again"), Vec::<String>::new());
}

// checklist 18.34
#[tokio::test(start_paused = true)]
async fn what_cannot_be_scheduled_is_said_and_tried_again() {
    let test = TestHub::running(19).await;
    test.cluster("m1", json!({})).await;
    test.places("web", pick_n(1)).await;
    test.settle().await;
    test.places("odd", pick_n(1)).await;
    let erased = json!({"kubernetes-fleet.io/number-of-clusters": null});
    test.patch(CSPS, "", "odd-0", json!({"metadata": {"annotations": erased}})).await;
    test.settle().await;
    let said = "Warning SchedulingFailed odd: policy snapshot odd-0 has no annotation kubernetes-fleet.io/number-of-clusters";
    assert_eq!(test.events("ClusterResourcePlacement"), [format!("{said} (x1)")]);
    // checklist 18.34
    let failed = "scheduling_cycle_duration_milliseconds_count{is_failed=\"true\",needs_requeue=\"false\"} 1\n";
    assert!(test.metrics.render().contains(failed), "{}", test.metrics.render());
    test.pass(300).await;
    assert_eq!(test.events("ClusterResourcePlacement"), [format!("{said} (x2)")]);
    // The mistake is mended; no need to wait.
    test.joins("m1").await;
    test.wants("odd-0", 1).await;
    test.settle().await;
    assert_eq!(test.bindings("odd"), ["m1 Scheduled odd-0"]);
    test.pass(900).await;
    assert_eq!(test.events("ClusterResourcePlacement"), [format!("{said} (x2)")]);
}

#[tokio::test(start_paused = true)]
async fn an_unfulfilled_placement_looks_again_by_itself() {
    let test = TestHub::running(20).await;
    test.cluster("m1", json!({})).await;
    test.places("web", pick_n(2)).await;
    test.settle().await;
    test.places("one", pick_n(1)).await;
    test.settle().await;
    let before = test.passes(SCHEDULER);
    test.heartbeats(17).await;
    assert_eq!(test.passes(SCHEDULER) - before, 1, "the fulfilled one is left alone");
}

// checklist 18.34
#[tokio::test(start_paused = true)]
async fn bursts_of_cluster_changes_are_one_pass() {
    let test = TestHub::running(21).await;
    for n in 0..20 {
        test.cluster(&format!("m{n:02}"), json!({})).await;
    }
    test.places("web", pick_all()).await;
    test.settle().await;
    let before = test.passes(SCHEDULER);
    for n in 0..20 {
        let labels = json!({"metadata": {"labels": {"wave": "2"}}});
        test.patch(CLUSTERS, "", &format!("m{n:02}"), labels).await;
    }
    test.settle().await;
    assert_eq!(test.passes(SCHEDULER) - before, 1);
}

// checklist 18.30
#[tokio::test(start_paused = true)]
async fn a_cluster_change_wakes_those_who_may_gain_by_it() {
    let test = TestHub::running(22).await;
    test.cluster("m1", json!({"env": "prod"})).await;
    test.cluster("m2", json!({})).await;
    test.places("all", among(pick_all(), json!({"env": "prod"}))).await;
    test.places("full", pick_n(1)).await;
    test.places("short", among(pick_n(2), json!({"env": "prod"}))).await;
    test.settle().await;
    let condition = json!({"type": "ClusterResourcePlacementScheduled", "status": "True",
        "reason": "SchedulingPolicyFulfilled", "message": "", "observedGeneration": 1,
        "lastTransitionTime": test.now()});
    test.patch_status(CRP, "full", json!({"conditions": [condition]})).await;
    test.settle().await;
    let looked = |from: u64| test.passes(SCHEDULER) - from;
    let change = async |patch: Value| {
        let from = test.passes(SCHEDULER);
        test.patch(CLUSTERS, "", "m2", patch).await;
        test.settle().await;
        looked(from)
    };
    let taint = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
    assert_eq!(change(json!({"spec": {"taints": [taint]}})).await, 0, "an added taint");
    assert_eq!(change(json!({"spec": {"taints": []}})).await, 2, "a removed taint");
    assert_eq!(change(json!({"metadata": {"annotations": {"a": "b"}}})).await, 0);
    assert_eq!(change(json!({"metadata": {"labels": {"env": "prod"}}})).await, 2, "a label");
    assert_eq!(test.bindings("all"), ["m1 Scheduled all-0", "m2 Scheduled all-0"]);
    assert_eq!(test.bindings("short"), ["m1 Scheduled short-0", "m2 Scheduled short-0"]);
    let from = test.passes(SCHEDULER);
    let usage = json!({"resourceUsage": {"capacity": {"cpu": "4"}}});
    test.agent_says("m2", usage).await;
    test.settle().await;
    assert_eq!(looked(from), 0, "no policy mentions numbers");
}

// checklist 18.15
#[tokio::test(start_paused = true)]
async fn numbers_wake_policies_that_read_them() {
    let test = TestHub::running(23).await;
    test.cluster("m1", json!({})).await;
    let mut policy = pick_all();
    let expression = json!({"name": "resources.kubernetes-fleet.io/total-cpu",
        "operator": "Ge", "values": ["4"]});
    let terms = json!([{"propertySelector": {"matchExpressions": [expression]}}]);
    policy["affinity"] = json!({"clusterAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms},
    }});
    test.places("web", policy).await;
    test.settle().await;
    assert_eq!(test.bindings("web"), Vec::<String>::new());
    let usage = |cpu: &str| json!({"resourceUsage": {"capacity": {"cpu": cpu}}});
    test.agent_says("m1", usage("4")).await;
    test.settle().await;
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-0"]);
    let before = test.passes(SCHEDULER);
    test.agent_says("m1", usage("4000m")).await;
    test.settle().await;
    assert_eq!(test.passes(SCHEDULER), before, "the same amount, written otherwise");
}

// checklist 18.28
#[tokio::test(start_paused = true)]
async fn a_namespace_that_appears_on_a_member_admits_placements_of_it() {
    let test = TestHub::running(24).await;
    test.cluster("m1", json!({})).await;
    let collected = json!({"type": "NamespaceCollectionSucceeded", "status": "True",
        "reason": "Collected", "message": "", "lastTransitionTime": test.now()});
    let status = |names: Value| json!({"conditions": [collected.clone()], "namespaces": names});
    test.agent_says("m1", status(json!({"other": ""}))).await;
    test.places_in("app", "web", pick_all()).await;
    test.settle().await;
    assert!(test.list(RB, "app").is_empty());
    test.agent_says("m1", status(json!({"other": "", "app": ""}))).await;
    test.settle().await;
    assert_eq!(test.list(RB, "app").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_second_binding_for_a_cluster_is_let_go() {
    let test = TestHub::running(25).await;
    test.cluster("m1", json!({})).await;
    test.places("web", pick_all()).await;
    test.settle().await;
    test.bind_all("web").await;
    let mut twin = test.bindings_of(CRB, "web").remove(0);
    twin["metadata"] = json!({"name": "twin", "labels": twin["metadata"]["labels"]});
    twin["spec"]["state"] = json!("Scheduled");
    test.create(CRB, twin).await;
    test.settle().await;
    let mut lines = test.bindings("web");
    lines.sort();
    assert_eq!(lines, ["m1 Bound web-0", "m1 Unscheduled web-0 was Scheduled"]);
    assert_eq!(
        test.events("ClusterResourcePlacement"),
        [
            "Warning SurplusBindingUnscheduled web: cluster m1 has more than one binding; twin is unscheduled (x1)"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn objects_nobody_can_read_harm_only_themselves() {
    let mut test = TestHub::new(26).await;
    test.cluster("m1", json!({})).await;
    test.cluster("m2", json!({})).await;
    test.start("hub", without_placement());
    test.places("web", pick_all()).await;
    test.places("api", pick_all()).await;
    test.settle().await;
    test.stop("hub").await;
    let broken = |kind: &str, group: &str, name: &str, labels: Value| {
        json!({"apiVersion": format!("{group}/v1beta1"), "kind": kind,
            "metadata": {"name": name, "labels": labels}, "spec": 7})
    };
    let (placing, joining) = ("placement.kubernetes-fleet.io", "cluster.kubernetes-fleet.io");
    test.smuggle(CLUSTERS, broken("MemberCluster", joining, "m2", json!({})));
    test.smuggle(CRP, broken("ClusterResourcePlacement", placing, "odd", json!({})));
    let latest = json!({"kubernetes-fleet.io/is-latest-snapshot": "true",
        "kubernetes-fleet.io/parent-CRP": "odd"});
    test.smuggle(CSPS, broken("ClusterSchedulingPolicySnapshot", placing, "odd-0", latest));
    let parent = json!({"kubernetes-fleet.io/parent-CRP": "api"});
    test.smuggle(CRB, broken("ClusterResourceBinding", placing, "api-odd", parent));
    test.start("hub", without_placement());
    test.cluster("m3", json!({})).await;
    test.settle().await;
    assert_eq!(
        test.bindings("web"),
        ["m1 Scheduled web-0", "m2 Scheduled web-0", "m3 Scheduled web-0"],
        "what a broken cluster has is not taken away"
    );
    let named: Vec<_> = test.bindings("api").into_iter().filter(|b| b.starts_with('m')).collect();
    assert_eq!(named, ["m1 Scheduled api-0", "m2 Scheduled api-0"], "no guess about its binding");
    let events = test.events("ClusterResourcePlacement");
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events[0].starts_with("Warning MalformedObject odd: Field spec "), "{events:?}");
    assert!(events[1].starts_with("Warning SchedulingFailed api: a binding cannot be read: ClusterResourceBinding api-odd: "), "{events:?}");
    // Deleting the placement takes even the broken binding along.
    test.delete(CRP, "", "api").await;
    test.settle().await;
    assert_eq!(test.bindings("api"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_settled_hub_writes_nothing_for_an_hour() {
    let test = TestHub::running(27).await;
    for n in 0..6 {
        test.cluster(&format!("m{n}"), json!({"env": "prod"})).await;
    }
    test.newcomer("m9", json!({})).await;
    test.places("all", pick_all()).await;
    test.places("some", among(pick_n(3), json!({"env": "prod"}))).await;
    test.places("named", pick_fixed(&["m1", "m2"])).await;
    test.places("short", among(pick_n(9), json!({"env": "prod"}))).await;
    test.places_in("app", "all", pick_all()).await;
    test.settle().await;
    let before = test.scheduling_writes("hub").len();
    let all = test.writes("hub").len();
    test.heartbeats(60).await;
    assert_eq!(test.scheduling_writes("hub")[before..], [] as [String; 0]);
    let rest = &test.writes("hub")[all..];
    assert!(rest.iter().all(|write| write.starts_with("update memberclusters m")), "{rest:?}");
    assert_eq!(rest.len(), 6 * 60, "each heartbeat is passed on, and that is all");
}

#[tokio::test(start_paused = true)]
async fn one_hub_leads_and_the_next_takes_over() {
    let mut test = TestHub::new(28).await;
    test.cluster("m1", json!({})).await;
    for name in ["one", "two"] {
        let lease = LeaseConfig::new(&test.env, flagship_api::names::HUB_LEASE, name);
        test.start(name, Options { lease: Some(lease), ..without_placement() });
        test.settle().await;
    }
    test.places("web", pick_all()).await;
    test.settle().await;
    let bindings = |writes: Vec<String>| {
        writes.iter().filter(|w| w.contains("clusterresourcebinding")).count()
    };
    assert_eq!((bindings(test.writes("one")), bindings(test.writes("two"))), (1, 0));
    test.stop("one").await;
    test.cluster("m2", json!({})).await;
    test.settle().await;
    assert_eq!(test.bindings("web").len(), 2, "given back, so taken at once");
    test.start("one", {
        let lease = LeaseConfig::new(&test.env, flagship_api::names::HUB_LEASE, "one");
        Options { lease: Some(lease), ..without_placement() }
    });
    test.settle().await;
    test.kill("two").await;
    test.cluster("m3", json!({})).await;
    test.pass(40).await;
    assert_eq!(test.bindings("web").len(), 3, "a dead leader is waited out");
}

#[tokio::test(start_paused = true)]
async fn a_named_cluster_that_falls_ill_keeps_the_placement_and_an_event_says_so() {
    let test = TestHub::running(29).await;
    test.cluster("m1", json!({})).await;
    test.places("web", pick_fixed(&["m1", "m9"])).await;
    test.settle().await;
    // Nobody is heard for an hour; the placement lacks m9 and looks again now and then.
    test.pass(3600).await;
    assert_eq!(test.bindings("web"), ["m1 Scheduled web-0"]);
    assert!(test.decision(CSPS, "", "web-0").contains("+ Successfully scheduled resources"));
    let events = test.events("ClusterResourcePlacement");
    let said = "Warning SelectedClusterNotEligible web: cluster m1 keeps the placement although it is not eligible: cluster is not connected to the fleet: no recent heartbeat signals (x1)";
    assert!(!events.is_empty() && events.iter().all(|event| event == said), "{events:?}");
}
