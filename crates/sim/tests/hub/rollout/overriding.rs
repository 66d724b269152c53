//! Overrides on their way into bindings.

use serde_json::{Value, json};

use crate::rollout::story::{
    CLUSTER_WIDE, CRO, IN_NAMESPACE, RO, Story, labelling, of_namespace, of_settings, rolling,
};
use flagship_sim::testing::CLUSTERS;

// checklist 12 rollout triggers: CRO snapshot with placement enqueues the CRP. Checklist 12
// overrides: override update without resource change; override deletion reverts.
#[tokio::test(start_paused = true)]
async fn an_override_is_rolled_out_updated_and_taken_back() {
    let story = Story::begin(50, CLUSTER_WIDE, 2).await;
    story.places(rolling(json!(1), json!(0))).await;
    story.all_work().await;
    story.cro("wide", of_namespace(labelling(None, "a"))).await;
    assert_eq!(story.told(), ["m1 Bound 0 with wide-0 started", "m2 Bound 0 held back"]);
    story.works("m1").await;
    story.works("m2").await;
    story.patch(CRO, "", "wide", json!({"spec": {"policy": labelling(Some("prod"), "b")}})).await;
    story.settle().await;
    // It is no longer for the first cluster, and new for the second.
    assert_eq!(story.told(), ["m1 Bound 0 started", "m2 Bound 0 with wide-0 held back"]);
    story.works("m1").await;
    assert_eq!(story.told(), ["m1 Bound 0 started", "m2 Bound 0 with wide-1 started"]);
    story.works("m2").await;
    story.delete(CRO, "", "wide").await;
    story.settle().await;
    assert_eq!(story.told(), ["m1 Bound 0 started", "m2 Bound 0 started"]);
}

// checklist 12 rollout triggers: RO snapshot/RO deletion goes to the CRP or RP controller
// according to scope, never both.
#[tokio::test(start_paused = true)]
async fn an_override_in_a_namespace_reaches_the_placement_it_names() {
    for (seed, side, scope) in [(51, CLUSTER_WIDE, "Cluster"), (52, IN_NAMESPACE, "Namespaced")] {
        let story = Story::begin(seed, side, 2).await;
        story.places(rolling(json!("100%"), json!(0))).await;
        story.all_work().await;
        let other = if scope == "Cluster" { "Namespaced" } else { "Cluster" };
        let passes = story.rollout_passes();
        let mut elsewhere = of_settings(other, labelling(None, "a"));
        elsewhere["resourceSelectors"][0]["name"] = json!("else");
        story.ro("elsewhere", elsewhere).await;
        let own = |story: &Story| {
            let name = match scope {
                "Cluster" => "cluster-resource-placement-rollout-controller",
                _ => "resource-placement-rollout-controller",
            };
            story.passes(name)
        };
        // The other controller looked for a placement that is not there.
        assert_eq!(story.rollout_passes(), passes + 1);
        let before = own(&story);
        story.ro("narrow", of_settings(scope, labelling(None, "a"))).await;
        assert!(own(&story) > before);
        assert_eq!(
            story.told(),
            ["m1 Bound 0 with narrow-0 started", "m2 Bound 0 with narrow-0 started"]
        );
        story.all_work().await;
        story.delete(RO, "app", "narrow").await;
        story.settle().await;
        assert_eq!(story.told(), ["m1 Bound 0 started", "m2 Bound 0 started"]);
    }
}

// checklist 12 rollout triggers: without placement or not latest does not enqueue.
#[tokio::test(start_paused = true)]
async fn an_override_without_a_placement_waits_for_the_next_pass() {
    let story = Story::begin(53, CLUSTER_WIDE, 1).await;
    story.places(rolling(json!(1), json!(0))).await;
    story.all_work().await;
    let passes = story.rollout_passes();
    let mut spec = of_namespace(labelling(None, "a"));
    spec.as_object_mut().unwrap().remove("placement");
    story.cro("wide", spec).await;
    assert_eq!(story.rollout_passes(), passes);
    assert_eq!(story.told(), ["m1 Bound 0 started"]);
    story.changes("v1").await;
    assert_eq!(story.told(), ["m1 Bound 1 with wide-0 started"]);
}

// ours (11.2 #13): enqueue placements with overrides when labels of a bound cluster change.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_relabelled_gets_the_overrides_for_it() {
    let story = Story::begin(54, CLUSTER_WIDE, 2).await;
    story.places(rolling(json!(1), json!(0))).await;
    story.all_work().await;
    story.cro("wide", of_namespace(labelling(Some("prod"), "a"))).await;
    assert_eq!(story.told(), ["m1 Bound 0 started", "m2 Bound 0 with wide-0 started"]);
    story.works("m2").await;
    let relabel = |env: &str| json!({"metadata": {"labels": {"env": env}}});
    story.patch(CLUSTERS, "", "m1", relabel("prod")).await;
    story.settle().await;
    assert_eq!(story.told()[0], "m1 Bound 0 with wide-0 started");
    story.works("m1").await;
    let passes = story.rollout_passes();
    story.heartbeats(2).await;
    assert_eq!(story.rollout_passes(), passes);
}

// 13: override create, update and delete with `unavailablePeriodSeconds` 2 and maxUnavailable
// 25 % roll all three clusters one after another in 10 s.
#[tokio::test(start_paused = true)]
async fn three_clusters_are_overridden_one_after_the_other_within_ten_seconds() {
    let story = Story::begin(55, CLUSTER_WIDE, 3).await;
    let mut spec = rolling(json!("25%"), json!("25%"));
    spec["strategy"]["rollingUpdate"]["unavailablePeriodSeconds"] = json!(2);
    story.places(spec).await;
    story.all_work().await;
    let meta = json!({"name": "wide"});
    let spec: Value = of_namespace(labelling(None, "a"));
    story.create(CRO, json!({"metadata": meta, "spec": spec})).await;
    for second in 0..10 {
        story.pass(1).await;
        // What members do takes no time here.
        for member in ["m1", "m2", "m3"] {
            let binding = story.binding(member);
            let said = binding["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let available = said.iter().find(|c| c["type"] == "Available");
            let fresh = available
                .is_some_and(|c| c["observedGeneration"] == binding["metadata"]["generation"]);
            if !fresh && !binding["spec"]["clusterResourceOverrideSnapshots"].is_null() {
                story.is_applied(member).await;
            }
        }
        if story.told().iter().all(|line| line.contains("wide-0")) {
            assert!(second >= 4, "each of the first two takes two seconds");
            return;
        }
    }
    panic!("{:?}", story.told());
}
