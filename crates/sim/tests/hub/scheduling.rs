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
use flagship_store::env::{Point, Verdict as Fault};
use serde_json::{Value, json};

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
    let world = TestHub::running(1).await;
    world.cluster("m1", json!({})).await;
    world.cluster("m2", json!({})).await;
    world.newcomer("m3", json!({})).await;
    world.places("web", pick_all()).await;
    world.settle().await;
    assert_eq!(world.bindings("web"), ["m1 Scheduled web-0", "m2 Scheduled web-0"]);
    let binding = &world.bindings_of(CRB, "web")[0];
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
        world.get(CRP, "", "web")["metadata"]["finalizers"],
        json!(["kubernetes-fleet.io/scheduler-cleanup"])
    );
    expect![[r#"
        True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 2 cluster(s) (generation 1)
        + Successfully scheduled resources for placement in "m1" (affinity score: 0, topology spread score: 0): picked by scheduling policy
        + Successfully scheduled resources for placement in "m2" (affinity score: 0, topology spread score: 0): picked by scheduling policy
        - ClusterUnschedulable, cluster is not connected to the fleet: member agent not online yet
    "#]]
    .assert_eq(&world.decision(CSPS, "", "web-0"));
}

// checklist 18.30
#[tokio::test(start_paused = true)]
async fn a_cluster_that_gets_ready_is_picked_and_one_that_falls_silent_is_kept() {
    let world = TestHub::running(2).await;
    world.cluster("m1", json!({})).await;
    world.newcomer("m2", json!({})).await;
    world.places("web", Value::Null).await;
    world.settle().await;
    assert_eq!(world.bindings("web"), ["m1 Scheduled web-0"]);
    world.joins("m2").await;
    world.settle().await;
    let both = ["m1 Scheduled web-0", "m2 Scheduled web-0"];
    assert_eq!(world.bindings("web"), both);
    // Ten silent minutes later a third one wakes the placement.
    world.pass(600).await;
    world.cluster("m3", json!({})).await;
    world.settle().await;
    assert_eq!(world.bindings("web"), [both[0], both[1], "m3 Scheduled web-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_policy_keeps_what_it_can_and_lets_the_rest_go() {
    let world = TestHub::running(3).await;
    for (name, env) in [("a", "prod"), ("b", "prod"), ("c", "test")] {
        world.cluster(name, json!({"env": env})).await;
    }
    world.places("web", pick_n(2)).await;
    world.settle().await;
    world.bind_all("web").await;
    assert_eq!(world.bindings("web"), ["b Bound web-0", "c Bound web-0"]);
    let kept = world.binding_on("web", "c");
    let notes = json!({"metadata": {"annotations": {"owner": "ann"}}});
    world.patch(CRB, "", &kept, notes).await;
    world.policy("web", 1, among(pick_n(2), json!({"env": "prod"}))).await;
    world.settle().await;
    assert_eq!(
        world.bindings("web"),
        ["a Scheduled web-1", "b Bound web-1", "c Unscheduled web-0 was Bound"]
    );
    let released = world.get(CRB, "", &kept);
    assert_eq!(released["metadata"]["annotations"]["owner"], "ann", "others' notes stay");
    assert_eq!(released["spec"]["resourceSnapshotName"], "web-0-snapshot");
    // The old policy comes back before anybody deleted the binding.
    world.policy("web", 2, among(pick_n(1), json!({"env": "test"}))).await;
    world.settle().await;
    assert_eq!(
        world.bindings("web"),
        ["a Unscheduled web-1 was Scheduled", "b Unscheduled web-1 was Bound", "c Bound web-2"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_fixed_choice_has_no_score_even_where_there_was_one() {
    let world = TestHub::running(4).await;
    world.cluster("m1", json!({})).await;
    world.places("web", pick_all()).await;
    world.settle().await;
    world.policy("web", 1, pick_fixed(&["m1", "m9"])).await;
    world.settle().await;
    assert_eq!(world.bindings("web"), ["m1 Scheduled web-1"]);
    let binding = &world.bindings_of(CRB, "web")[0];
    assert!(binding["spec"]["clusterDecision"].get("clusterScore").is_none());
    expect![[r#"
        False SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the scheduling policy, found 1 cluster(s) instead (generation 2)
        + Successfully scheduled resources for placement in "m1": picked by scheduling policy
        - Specified cluster "m9" is not found
    "#]]
    .assert_eq(&world.decision(CSPS, "", "web-1"));
    // The missing one turns up.
    world.cluster("m9", json!({})).await;
    world.settle().await;
    assert_eq!(world.bindings("web"), ["m1 Scheduled web-1", "m9 Scheduled web-1"]);
}

// checklist 18.30
#[tokio::test(start_paused = true)]
async fn a_leaving_cluster_is_looked_at_when_it_is_gone() {
    let world = TestHub::running(5).await;
    for name in ["m1", "m2", "m3"] {
        world.cluster(name, json!({})).await;
    }
    world.places("web", pick_n(2)).await;
    world.settle().await;
    world.bind_all("web").await;
    assert_eq!(world.bindings("web"), ["m2 Bound web-0", "m3 Bound web-0"]);
    world.delete(CLUSTERS, "", "m3").await;
    world.settle().await;
    assert_eq!(world.bindings("web"), ["m2 Bound web-0", "m3 Bound web-0"], "not before");
    world.leaves("m3").await;
    assert!(world.find(CLUSTERS, "", "m3").is_none());
    assert_eq!(
        world.bindings("web"),
        ["m1 Scheduled web-0", "m2 Bound web-0", "m3 Unscheduled web-0 was Bound"]
    );
}

// checklist 18.32
#[tokio::test(start_paused = true)]
async fn a_deleted_binding_is_let_go_and_its_place_filled() {
    let world = TestHub::running(6).await;
    world.cluster("m1", json!({})).await;
    world.places("web", pick_all()).await;
    world.settle().await;
    let old = world.binding_on("web", "m1");
    world.delete(CRB, "", &old).await;
    world.settle().await;
    assert!(world.find(CRB, "", &old).is_none());
    assert_eq!(world.bindings("web"), ["m1 Scheduled web-0"]);
    // One that others hold stays beside its successor.
    let held = world.binding_on("web", "m1");
    let finalizers =
        ["kubernetes-fleet.io/scheduler-crb-cleanup", "kubernetes-fleet.io/work-cleanup"];
    world.patch(CRB, "", &held, json!({"metadata": {"finalizers": finalizers}})).await;
    world.delete(CRB, "", &held).await;
    world.settle().await;
    let left = world.get(CRB, "", &held);
    assert_eq!(left["metadata"]["finalizers"], json!(["kubernetes-fleet.io/work-cleanup"]));
    let mut lines = world.bindings("web");
    lines.sort();
    assert_eq!(lines, ["m1 Scheduled web-0", "m1 Scheduled web-0 deleting"]);
}

// checklist 18.16, 18.31
#[tokio::test(start_paused = true)]
async fn scaling_follows_the_annotation() {
    let world = TestHub::running(7).await;
    for name in ["a", "b", "c"] {
        world.cluster(name, json!({})).await;
    }
    world.places("web", pick_n(1)).await;
    world.settle().await;
    assert_eq!(world.bindings("web"), ["c Scheduled web-0"]);
    world.wants("web-0", 3).await;
    world.settle().await;
    world.bind_all("web").await;
    assert_eq!(world.bindings("web"), ["a Bound web-0", "b Bound web-0", "c Bound web-0"]);
    world.wants("web-0", 1).await;
    world.settle().await;
    let trimmed =
        ["a Unscheduled web-0 was Bound", "b Unscheduled web-0 was Bound", "c Bound web-0"];
    assert_eq!(world.bindings("web"), trimmed);
    world.wants("web-0", 0).await;
    world.settle().await;
    assert_eq!(world.bindings("web")[2], "c Unscheduled web-0 was Bound");
    expect![[r#"
        True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 0 cluster(s) (generation 1)
    "#]]
    .assert_eq(&world.decision(CSPS, "", "web-0"));
}

// checklist 18.8, 18.31
#[tokio::test(start_paused = true)]
async fn a_new_generation_rewrites_the_status_and_nothing_else() {
    let world = TestHub::running(8).await;
    world.cluster("m1", json!({})).await;
    world.places("web", pick_all()).await;
    world.settle().await;
    let before = world.writes("hub").len();
    let notes = json!({"kubernetes-fleet.io/CRP-generation": "7"});
    world.patch(CSPS, "", "web-0", json!({"metadata": {"annotations": notes}})).await;
    world.settle().await;
    assert_eq!(world.writes("hub")[before..], ["patch clusterschedulingpolicysnapshots web-0 200"]);
    assert_eq!(world.get(CSPS, "", "web-0")["status"]["observedCRPGeneration"], 7);
    // A status that somebody else writes is no question to the scheduler.
    let calls = world.calls("hub").len();
    world.patch_status(CSPS, "web-0", json!({"observedCRPGeneration": 9})).await;
    world.settle().await;
    assert_eq!(world.calls("hub").len(), calls, "no pass, so not even a list");
}

// checklist 18.31
#[tokio::test(start_paused = true)]
async fn a_repaired_latest_flag_is_a_new_policy() {
    let world = TestHub::running(9).await;
    world.cluster("m1", json!({})).await;
    world.places("web", pick_all()).await;
    world.settle().await;
    let flag = |to: &str| {
        let labels = json!({"kubernetes-fleet.io/is-latest-snapshot": to});
        json!({"metadata": {"labels": labels}})
    };
    world.patch(CSPS, "", "web-0", flag("maybe")).await;
    world.delete(CRB, "", &world.binding_on("web", "m1")).await;
    world.settle().await;
    assert_eq!(world.bindings("web"), ["m1 Scheduled web-0 deleting"], "no policy, no pass");
    world.patch(CSPS, "", "web-0", flag("true")).await;
    world.settle().await;
    assert_eq!(world.bindings("web"), ["m1 Scheduled web-0"]);
}

#[tokio::test(start_paused = true)]
async fn two_latest_policies_wait_until_one_is_left() {
    let world = TestHub::running(10).await;
    world.cluster("m1", json!({"env": "prod"})).await;
    world.cluster("m2", json!({})).await;
    world.places("web", pick_all()).await;
    world.settle().await;
    let flag =
        |to: &str| json!({"metadata": {"labels": {"kubernetes-fleet.io/is-latest-snapshot": to}}});
    world.policy("web", 1, among(pick_all(), json!({"env": "prod"}))).await;
    world.patch(CSPS, "", "web-0", flag("true")).await;
    world.patch(CSPS, "", "web-1", json!({"metadata": {"annotations": {"a": "b"}}})).await;
    world.settle().await;
    world.patch(CSPS, "", "web-0", flag("false")).await;
    world.settle().await;
    assert_eq!(world.bindings("web"), ["m1 Scheduled web-1", "m2 Unscheduled web-0 was Scheduled"]);
}

// checklist 18.32, 18.33
#[tokio::test(start_paused = true)]
async fn a_deleted_placement_takes_its_own_bindings_along_and_no_others() {
    let world = TestHub::running(11).await;
    world.cluster("m1", json!({})).await;
    world.places("web", pick_all()).await;
    world.places("api", pick_all()).await;
    world.places_in("app", "web", pick_all()).await;
    world.settle().await;
    let held = world.binding_on("web", "m1");
    let finalizers =
        ["kubernetes-fleet.io/scheduler-crb-cleanup", "kubernetes-fleet.io/work-cleanup"];
    world.patch(CRB, "", &held, json!({"metadata": {"finalizers": finalizers}})).await;
    world.delete(CRP, "", "web").await;
    world.settle().await;
    assert!(world.find(CRP, "", "web").is_none(), "it does not wait for its bindings");
    assert_eq!(world.bindings("web"), ["m1 Scheduled web-0 deleting"], "the work side holds it");
    assert_eq!(world.bindings("api"), ["m1 Scheduled api-0"]);
    assert_eq!(world.list(RB, "app").len(), 1);
    world.delete(RP, "app", "web").await;
    world.settle().await;
    assert!(world.find(RP, "app", "web").is_none());
    assert!(world.list(RB, "app").is_empty());
}

// checklist 18.32, 18.34
#[tokio::test(start_paused = true)]
async fn a_binding_that_is_deleted_is_one_pass_and_whatever_else_becomes_of_it_is_none() {
    let world = TestHub::running(33).await;
    world.cluster("m1", json!({})).await;
    world.places("web", pick_all()).await;
    world.settle().await;
    let cycles = || {
        let printed = world.metrics.render();
        let counted = "scheduling_cycle_duration_milliseconds_count{is_failed=\"false\",needs_requeue=\"false\"} ";
        let line = printed.lines().find_map(|line| line.strip_prefix(counted));
        line.map_or(0, |count| count.parse::<u64>().unwrap())
    };
    let before = cycles();
    assert!(before > 0, "a pass that went well is counted");
    let name = world.binding_on("web", "m1");
    let bound = json!({"state": "Bound", "resourceSnapshotName": "web-0-snapshot"});
    world.patch(CRB, "", &name, json!({"spec": bound})).await;
    world.patch(CRB, "", &name, json!({"metadata": {"labels": {"a": "b"}}})).await;
    let told = json!([{"type": "Applied", "status": "True", "reason": "r", "message": "",
        "lastTransitionTime": world.now()}]);
    world.patch_status(CRB, &name, json!({"conditions": told})).await;
    world.settle().await;
    assert_eq!(cycles(), before, "none of this is the scheduler's business");
    world.delete(CRB, "", &name).await;
    world.settle().await;
    assert_eq!(cycles(), before + 1);
    // A placement that goes is cleaned up; nothing is chosen for it.
    world.delete(CRP, "", "web").await;
    world.settle().await;
    assert!(world.find(CRP, "", "web").is_none());
    let after = cycles() - before;
    assert!(after <= 2, "{after}");
}

#[tokio::test(start_paused = true)]
async fn a_property_that_nobody_can_read_is_told_on_the_placement() {
    let world = TestHub::running(34).await;
    world.cluster("m1", json!({})).await;
    world.cluster("m2", json!({})).await;
    for (name, value) in [("m1", "12"), ("m2", "a dozen")] {
        let mut status = world.get(IMC, &format!("fleet-member-{name}"), name)["status"].clone();
        let at = world.now();
        status["properties"] = json!({"nodes": {"value": value, "observationTime": at}});
        world.agent_says(name, status).await;
    }
    let sorted = json!([{"weight": 10, "preference":
        {"propertySorter": {"name": "nodes", "sortOrder": "Descending"}}}]);
    let mut policy = pick_n(1);
    policy["affinity"] =
        json!({"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": sorted}});
    world.places("web", policy).await;
    world.settle().await;
    let told = world.events("ClusterResourcePlacement");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("Warning MalformedProperty web: value a dozen of property nodes from cluster m2 is not a valid quantity: "),
        "{told:?}"
    );
}

// checklist 18.32
#[tokio::test(start_paused = true)]
async fn a_placement_whose_finalizer_is_gone_is_not_ours_to_clean_up() {
    let world = TestHub::running(12).await;
    world.cluster("m1", json!({})).await;
    world.places("web", pick_all()).await;
    world.settle().await;
    let other = json!({"metadata": {"finalizers": ["example.com/other"]}});
    world.patch(CRP, "", "web", other).await;
    world.delete(CRP, "", "web").await;
    world.settle().await;
    assert_eq!(world.bindings("web"), ["m1 Scheduled web-0"]);
    assert_eq!(
        world.get(CRP, "", "web")["metadata"]["finalizers"],
        json!(["example.com/other"]),
        "nor is a finalizer added to it"
    );
}

// checklist 18.33
#[tokio::test(start_paused = true)]
async fn placements_of_both_scopes_may_share_a_name() {
    let world = TestHub::running(13).await;
    world.cluster("m1", json!({})).await;
    world.cluster("m2", json!({})).await;
    world.places("web", pick_fixed(&["m1"])).await;
    world.places_in("app", "web", pick_fixed(&["m2"])).await;
    world.settle().await;
    assert_eq!(world.bindings("web"), ["m1 Scheduled web-0"]);
    let namespaced: Vec<String> = world.list(RB, "app").iter().map(line).collect();
    assert_eq!(namespaced, ["m2 Scheduled web-0"]);
    let found = "True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 1 cluster(s) (generation 1)\n";
    assert!(world.decision(CSPS, "", "web-0").starts_with(found));
    assert!(world.decision(SPS, "app", "web-0").starts_with(found));
    let guard = json!(["kubernetes-fleet.io/scheduler-cleanup"]);
    assert_eq!(world.get(CRP, "", "web")["metadata"]["finalizers"], guard);
    assert_eq!(world.get(RP, "app", "web")["metadata"]["finalizers"], guard);
}

#[tokio::test(start_paused = true)]
async fn namespaced_placements_can_be_switched_off() {
    let mut world = TestHub::new(14).await;
    world.start("hub", Options { resource_placement: false, ..without_placement() });
    world.cluster("m1", json!({})).await;
    world.places_in("app", "web", pick_all()).await;
    world.places("web", pick_all()).await;
    world.settle().await;
    assert!(world.list(RB, "app").is_empty());
    assert_eq!(world.bindings("web"), ["m1 Scheduled web-0"]);
}

// checklist 18.18, 18.34
#[tokio::test(start_paused = true)]
async fn spread_fills_one_cluster_a_pass_without_pause() {
    let world = TestHub::running(15).await;
    for n in 0..12 {
        let region = ["east", "west", "north"][n % 3];
        world.cluster(&format!("m{n:02}"), json!({"region": region})).await;
    }
    world.settle().await;
    let begun = tokio::time::Instant::now();
    let mut policy = pick_n(12);
    policy["topologySpreadConstraints"] =
        json!([{"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]);
    world.places("web", policy).await;
    while world.bindings("web").len() < 12 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        assert!(begun.elapsed().as_secs() < 1, "{:?}", world.bindings("web"));
    }
    world.settle().await;
    let status = world.decision(CSPS, "", "web-0");
    assert!(status.starts_with("True SchedulingPolicyFulfilled"), "{status}");
    let reports = world.writes("hub").iter().filter(|w| w.contains("policysnapshots")).count();
    assert_eq!(reports, 1, "only the last pass reports");
    assert!(world.metrics.render().contains(
        "scheduling_cycle_duration_milliseconds_count{is_failed=\"false\",needs_requeue=\"true\"} 11"
    ));
}

// checklist 18.3
#[tokio::test(start_paused = true)]
async fn lost_answers_and_conflicts_leave_one_binding_a_cluster() {
    let world = TestHub::new(16).await;
    let mut world = world;
    for name in ["m1", "m2", "m3"] {
        world.cluster(name, json!({})).await;
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
    world.disturb(vec![
        rule(Point::PostCommit, CRB, "create", Fault::Sever),
        rule(Point::Request, CRP, "patch", conflict),
        rule(Point::Request, CRB, "patch", conflict),
        rule(Point::PreCommit, CSPS, "patch", busy),
        rule(Point::Request, CRB, "list", busy),
    ]);
    world.start("hub", without_placement());
    world.places("web", pick_all()).await;
    world.pass(60).await;
    world.policy("web", 1, pick_fixed(&["m2"])).await;
    world.pass(60).await;
    assert_eq!(
        world.bindings("web"),
        [
            "m1 Unscheduled web-0 was Scheduled",
            "m2 Scheduled web-1",
            "m3 Unscheduled web-0 was Scheduled"
        ]
    );
    assert!(world.faults.fired().iter().all(|fired| *fired == 2), "{:?}", world.faults.fired());
}

// checklist 18.3
#[tokio::test(start_paused = true)]
async fn a_binding_that_rollout_moves_under_the_scheduler_keeps_its_true_state() {
    let mut world = TestHub::new(17).await;
    world.cluster("m1", json!({})).await;
    world.start("hub", without_placement());
    world.places("web", pick_all()).await;
    world.settle().await;
    // The release hangs in the air while the rollout side binds.
    world.disturb(vec![Rule {
        who: "hub".to_owned(),
        resource: CRB.to_owned(),
        verbs: Verbs::Only(vec!["patch".to_owned()]),
        when: When::Nth(1),
        ..Rule::at(Point::Request, Effect::Do(Fault::Delay(std::time::Duration::from_secs(5))))
    }]);
    world.policy("web", 1, pick_fixed(&["m9"])).await;
    world.pass(2).await;
    world.bind_all("web").await;
    world.settle().await;
    assert_eq!(world.bindings("web"), ["m1 Unscheduled web-0 was Bound"]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing() {
    let mut world = TestHub::running(18).await;
    for name in ["m1", "m2", "m3"] {
        world.cluster(name, json!({"env": "prod"})).await;
    }
    world.newcomer("m4", json!({})).await;
    world.places("all", pick_all()).await;
    world.places("some", pick_n(2)).await;
    world.places("few", among(pick_n(5), json!({"env": "prod"}))).await;
    world.places("named", pick_fixed(&["m1", "m9"])).await;
    world.places_in("app", "all", pick_all()).await;
    world.settle().await;
    world.bind_all("all").await;
    world.settle().await;
    world.stop("hub").await;
    world.start("again", without_placement());
    world.settle().await;
    assert!(
        world.calls("again").iter().any(|call| call.starts_with("list clusterresourcebindings"))
    );
    assert_eq!(world.writes("again"), Vec::<String>::new());
}

// checklist 18.34
#[tokio::test(start_paused = true)]
async fn what_cannot_be_scheduled_is_said_and_tried_again() {
    let world = TestHub::running(19).await;
    world.cluster("m1", json!({})).await;
    world.places("web", pick_n(1)).await;
    world.settle().await;
    world.places("odd", pick_n(1)).await;
    let erased = json!({"kubernetes-fleet.io/number-of-clusters": null});
    world.patch(CSPS, "", "odd-0", json!({"metadata": {"annotations": erased}})).await;
    world.settle().await;
    let said = "Warning SchedulingFailed odd: policy snapshot odd-0 has no annotation kubernetes-fleet.io/number-of-clusters";
    assert_eq!(world.events("ClusterResourcePlacement"), [format!("{said} (x1)")]);
    // checklist 18.34
    let failed = "scheduling_cycle_duration_milliseconds_count{is_failed=\"true\",needs_requeue=\"false\"} 1\n";
    assert!(world.metrics.render().contains(failed), "{}", world.metrics.render());
    world.pass(300).await;
    assert_eq!(world.events("ClusterResourcePlacement"), [format!("{said} (x2)")]);
    // The mistake is mended; no need to wait.
    world.joins("m1").await;
    world.wants("odd-0", 1).await;
    world.settle().await;
    assert_eq!(world.bindings("odd"), ["m1 Scheduled odd-0"]);
    world.pass(900).await;
    assert_eq!(world.events("ClusterResourcePlacement"), [format!("{said} (x2)")]);
}

#[tokio::test(start_paused = true)]
async fn an_unfulfilled_placement_looks_again_by_itself() {
    let world = TestHub::running(20).await;
    world.cluster("m1", json!({})).await;
    world.places("web", pick_n(2)).await;
    world.settle().await;
    world.places("one", pick_n(1)).await;
    world.settle().await;
    let passes = |calls: Vec<String>| {
        calls.iter().filter(|call| call.starts_with("list clusterresourcebindings")).count()
    };
    let before = passes(world.calls("hub"));
    world.heartbeats(17).await;
    assert_eq!(passes(world.calls("hub")) - before, 1, "the fulfilled one is left alone");
}

// checklist 18.34
#[tokio::test(start_paused = true)]
async fn bursts_of_cluster_changes_are_one_pass() {
    let world = TestHub::running(21).await;
    for n in 0..20 {
        world.cluster(&format!("m{n:02}"), json!({})).await;
    }
    world.places("web", pick_all()).await;
    world.settle().await;
    let passes = |calls: Vec<String>| {
        calls.iter().filter(|call| call.starts_with("list clusterresourcebindings")).count()
    };
    let before = passes(world.calls("hub"));
    for n in 0..20 {
        let labels = json!({"metadata": {"labels": {"wave": "2"}}});
        world.patch(CLUSTERS, "", &format!("m{n:02}"), labels).await;
    }
    world.settle().await;
    assert_eq!(passes(world.calls("hub")) - before, 1);
}

// checklist 18.30
#[tokio::test(start_paused = true)]
async fn a_cluster_change_wakes_those_who_may_gain_by_it() {
    let world = TestHub::running(22).await;
    world.cluster("m1", json!({"env": "prod"})).await;
    world.cluster("m2", json!({})).await;
    world.places("all", among(pick_all(), json!({"env": "prod"}))).await;
    world.places("full", pick_n(1)).await;
    world.places("short", among(pick_n(2), json!({"env": "prod"}))).await;
    world.settle().await;
    let condition = json!({"type": "ClusterResourcePlacementScheduled", "status": "True",
        "reason": "SchedulingPolicyFulfilled", "message": "", "observedGeneration": 1,
        "lastTransitionTime": world.now()});
    world.patch_status(CRP, "full", json!({"conditions": [condition]})).await;
    world.settle().await;
    let looked = |from: usize| {
        let calls = world.calls("hub");
        let new = calls[from..].iter();
        new.filter(|call| call.starts_with("list clusterresourcebindings")).count()
    };
    let change = async |patch: Value| {
        let from = world.calls("hub").len();
        world.patch(CLUSTERS, "", "m2", patch).await;
        world.settle().await;
        looked(from)
    };
    let taint = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
    assert_eq!(change(json!({"spec": {"taints": [taint]}})).await, 0, "an added taint");
    assert_eq!(change(json!({"spec": {"taints": []}})).await, 2, "a removed taint");
    assert_eq!(change(json!({"metadata": {"annotations": {"a": "b"}}})).await, 0);
    assert_eq!(change(json!({"metadata": {"labels": {"env": "prod"}}})).await, 2, "a label");
    assert_eq!(world.bindings("all"), ["m1 Scheduled all-0", "m2 Scheduled all-0"]);
    assert_eq!(world.bindings("short"), ["m1 Scheduled short-0", "m2 Scheduled short-0"]);
    let from = world.calls("hub").len();
    let usage = json!({"resourceUsage": {"capacity": {"cpu": "4"}}});
    world.agent_says("m2", usage).await;
    world.settle().await;
    assert_eq!(looked(from), 0, "no policy mentions numbers");
}

// checklist 18.15
#[tokio::test(start_paused = true)]
async fn numbers_wake_policies_that_read_them() {
    let world = TestHub::running(23).await;
    world.cluster("m1", json!({})).await;
    let mut policy = pick_all();
    let expression = json!({"name": "resources.kubernetes-fleet.io/total-cpu",
        "operator": "Ge", "values": ["4"]});
    let terms = json!([{"propertySelector": {"matchExpressions": [expression]}}]);
    policy["affinity"] = json!({"clusterAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms},
    }});
    world.places("web", policy).await;
    world.settle().await;
    assert_eq!(world.bindings("web"), Vec::<String>::new());
    let usage = |cpu: &str| json!({"resourceUsage": {"capacity": {"cpu": cpu}}});
    world.agent_says("m1", usage("4")).await;
    world.settle().await;
    assert_eq!(world.bindings("web"), ["m1 Scheduled web-0"]);
    let lists = |calls: Vec<String>| {
        calls.iter().filter(|call| call.starts_with("list clusterresourcebindings")).count()
    };
    let before = lists(world.calls("hub"));
    world.agent_says("m1", usage("4000m")).await;
    world.settle().await;
    assert_eq!(lists(world.calls("hub")), before, "the same amount, written otherwise");
}

// checklist 18.28
#[tokio::test(start_paused = true)]
async fn a_namespace_that_appears_on_a_member_admits_placements_of_it() {
    let world = TestHub::running(24).await;
    world.cluster("m1", json!({})).await;
    let collected = json!({"type": "NamespaceCollectionSucceeded", "status": "True",
        "reason": "Collected", "message": "", "lastTransitionTime": world.now()});
    let status = |names: Value| json!({"conditions": [collected.clone()], "namespaces": names});
    world.agent_says("m1", status(json!({"other": ""}))).await;
    world.places_in("app", "web", pick_all()).await;
    world.settle().await;
    assert!(world.list(RB, "app").is_empty());
    world.agent_says("m1", status(json!({"other": "", "app": ""}))).await;
    world.settle().await;
    assert_eq!(world.list(RB, "app").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_second_binding_for_a_cluster_is_let_go() {
    let world = TestHub::running(25).await;
    world.cluster("m1", json!({})).await;
    world.places("web", pick_all()).await;
    world.settle().await;
    world.bind_all("web").await;
    let mut twin = world.bindings_of(CRB, "web").remove(0);
    twin["metadata"] = json!({"name": "twin", "labels": twin["metadata"]["labels"]});
    twin["spec"]["state"] = json!("Scheduled");
    world.create(CRB, twin).await;
    world.joins("m1").await;
    world.patch(CLUSTERS, "", "m1", json!({"metadata": {"labels": {"a": "b"}}})).await;
    world.settle().await;
    let mut lines = world.bindings("web");
    lines.sort();
    assert_eq!(lines, ["m1 Bound web-0", "m1 Unscheduled web-0 was Scheduled"]);
    assert_eq!(
        world.events("ClusterResourcePlacement"),
        [
            "Warning SurplusBindingUnscheduled web: cluster m1 has more than one binding; twin is unscheduled (x1)"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn objects_nobody_can_read_harm_only_themselves() {
    let mut world = TestHub::new(26).await;
    world.cluster("m1", json!({})).await;
    world.cluster("m2", json!({})).await;
    world.start("hub", without_placement());
    world.places("web", pick_all()).await;
    world.places("api", pick_all()).await;
    world.settle().await;
    world.stop("hub").await;
    let broken = |kind: &str, group: &str, name: &str, labels: Value| {
        json!({"apiVersion": format!("{group}/v1beta1"), "kind": kind,
            "metadata": {"name": name, "labels": labels}, "spec": 7})
    };
    let (placing, joining) = ("placement.kubernetes-fleet.io", "cluster.kubernetes-fleet.io");
    world.smuggle(CLUSTERS, broken("MemberCluster", joining, "m2", json!({})));
    world.smuggle(CRP, broken("ClusterResourcePlacement", placing, "odd", json!({})));
    let latest = json!({"kubernetes-fleet.io/is-latest-snapshot": "true",
        "kubernetes-fleet.io/parent-CRP": "odd"});
    world.smuggle(CSPS, broken("ClusterSchedulingPolicySnapshot", placing, "odd-0", latest));
    let parent = json!({"kubernetes-fleet.io/parent-CRP": "api"});
    world.smuggle(CRB, broken("ClusterResourceBinding", placing, "api-odd", parent));
    world.start("hub", without_placement());
    world.cluster("m3", json!({})).await;
    world.settle().await;
    assert_eq!(
        world.bindings("web"),
        ["m1 Scheduled web-0", "m2 Scheduled web-0", "m3 Scheduled web-0"],
        "what a broken cluster has is not taken away"
    );
    let named: Vec<_> = world.bindings("api").into_iter().filter(|b| b.starts_with('m')).collect();
    assert_eq!(named, ["m1 Scheduled api-0", "m2 Scheduled api-0"], "no guess about its binding");
    let events = world.events("ClusterResourcePlacement");
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events[0].starts_with("Warning MalformedObject odd: Field spec "), "{events:?}");
    assert!(events[1].starts_with("Warning SchedulingFailed api: a binding cannot be read: ClusterResourceBinding api-odd: "), "{events:?}");
    // Deleting the placement takes even the broken binding along.
    world.delete(CRP, "", "api").await;
    world.settle().await;
    assert_eq!(world.bindings("api"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_settled_hub_writes_nothing_for_an_hour() {
    let world = TestHub::running(27).await;
    for n in 0..6 {
        world.cluster(&format!("m{n}"), json!({"env": "prod"})).await;
    }
    world.newcomer("m9", json!({})).await;
    world.places("all", pick_all()).await;
    world.places("some", among(pick_n(3), json!({"env": "prod"}))).await;
    world.places("named", pick_fixed(&["m1", "m2"])).await;
    world.places("short", among(pick_n(9), json!({"env": "prod"}))).await;
    world.places_in("app", "all", pick_all()).await;
    world.settle().await;
    let before = world.scheduling_writes("hub").len();
    let all = world.writes("hub").len();
    world.heartbeats(60).await;
    assert_eq!(world.scheduling_writes("hub")[before..], [] as [String; 0]);
    let rest = &world.writes("hub")[all..];
    assert!(rest.iter().all(|write| write.starts_with("update memberclusters m")), "{rest:?}");
    assert_eq!(rest.len(), 6 * 60, "each heartbeat is passed on, and that is all");
}

#[tokio::test(start_paused = true)]
async fn one_hub_leads_and_the_next_takes_over() {
    let mut world = TestHub::new(28).await;
    world.cluster("m1", json!({})).await;
    for name in ["one", "two"] {
        let lease = LeaseConfig::new(&world.env, flagship_api::names::HUB_LEASE, name);
        world.start(name, Options { lease: Some(lease), ..without_placement() });
        world.settle().await;
    }
    world.places("web", pick_all()).await;
    world.settle().await;
    let bindings = |writes: Vec<String>| {
        writes.iter().filter(|w| w.contains("clusterresourcebinding")).count()
    };
    assert_eq!((bindings(world.writes("one")), bindings(world.writes("two"))), (1, 0));
    world.stop("one").await;
    world.cluster("m2", json!({})).await;
    world.settle().await;
    assert_eq!(world.bindings("web").len(), 2, "given back, so taken at once");
    world.start("one", {
        let lease = LeaseConfig::new(&world.env, flagship_api::names::HUB_LEASE, "one");
        Options { lease: Some(lease), ..without_placement() }
    });
    world.settle().await;
    world.kill("two").await;
    world.cluster("m3", json!({})).await;
    world.pass(40).await;
    assert_eq!(world.bindings("web").len(), 3, "a dead leader is waited out");
}

#[tokio::test(start_paused = true)]
async fn a_named_cluster_that_falls_ill_keeps_the_placement_and_an_event_says_so() {
    let world = TestHub::running(29).await;
    world.cluster("m1", json!({})).await;
    world.places("web", pick_fixed(&["m1", "m9"])).await;
    world.settle().await;
    // Nobody is heard for an hour; the placement lacks m9 and looks again now and then.
    world.pass(3600).await;
    assert_eq!(world.bindings("web"), ["m1 Scheduled web-0"]);
    assert!(world.decision(CSPS, "", "web-0").contains("+ Successfully scheduled resources"));
    let events = world.events("ClusterResourcePlacement");
    let said = "Warning SelectedClusterNotEligible web: cluster m1 keeps the placement although it is not eligible: cluster is not connected to the fleet: no recent heartbeat signals (x1)";
    assert!(!events.is_empty() && events.iter().all(|event| event == said), "{events:?}");
}
