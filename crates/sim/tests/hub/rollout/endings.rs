//! Bindings that go, and what may begin in their place.

use serde_json::{Value, json};

use crate::rollout::story::{CLUSTER_WIDE, Story, rolling};
use flagship_sim::testing::{CRB, text};

const WORK: &str = "kubernetes-fleet.io/work-cleanup";

/// The work generator has something to clean up on the cluster.
async fn guarded(story: &Story, cluster: &str) -> String {
    let binding = story.binding(cluster);
    let name = text(&binding["metadata"]["name"]);
    let mut finalizers = binding["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.push(json!(WORK));
    story.patch(CRB, "", &name, json!({"metadata": {"finalizers": finalizers}})).await;
    name
}

// checklist 12 rollout decisions: policy change with surge binds new clusters before
// removing old ones; downscale removes Unscheduled.
#[tokio::test(start_paused = true)]
async fn new_clusters_work_before_old_ones_go() {
    let story = Story::begin(30, CLUSTER_WIDE, 4).await;
    let policy = |names: Value| json!({"placementType": "PickFixed", "clusterNames": names});
    let mut spec = rolling(json!(0), json!(2));
    spec["policy"] = policy(json!(["m1", "m2"]));
    story.places(spec).await;
    story.works("m1").await;
    story.works("m2").await;
    story.edits_placement(json!({"policy": policy(json!(["m3", "m4"]))})).await;
    assert_eq!(
        story.told(),
        [
            "m1 Unscheduled 0 (stale)",
            "m2 Unscheduled 0 (stale)",
            "m3 Bound 0 started",
            "m4 Bound 0 started"
        ]
    );
    // The old ones still report, about what they are now.
    story.works("m1").await;
    story.works("m2").await;
    story.works("m3").await;
    assert_eq!(story.told().len(), 3, "{:?}", story.told());
    story.works("m4").await;
    assert_eq!(story.told(), ["m3 Bound 0 started", "m4 Bound 0 started"]);
}

// checklist 12 rollout decisions: Scheduled + deleting binding on one cluster waits (ours,
// 11.2 #4: that cluster alone, woken by the deletion).
#[tokio::test(start_paused = true)]
async fn a_new_binding_waits_until_the_old_one_has_cleaned_up() {
    let story = Story::begin(31, CLUSTER_WIDE, 2).await;
    story.places(rolling(json!(1), json!(0))).await;
    story.all_work().await;
    let old = guarded(&story, "m1").await;
    story.delete(CRB, "", &old).await;
    story.settle().await;
    // The scheduler has put a new one in its place.
    let told = story.told();
    assert!(told.contains(&"m1 Bound 0 (stale) deleting".to_owned()), "{told:?}");
    assert!(told.contains(&"m1 Scheduled -".to_owned()), "{told:?}");
    let passes = story.rollout_passes();
    story.heartbeats(3).await;
    assert_eq!(story.rollout_passes(), passes);
    // Others go on meanwhile.
    story.changes("v1").await;
    assert!(story.told().contains(&"m2 Bound 0 held back".to_owned()), "{:?}", story.told());
    story.lets_go(&old).await;
    assert_eq!(story.told(), ["m1 Bound 1 started", "m2 Bound 0 held back"]);
}

// checklist 12 rollout decisions: eviction of a Bound binding unblocks a stuck roll-out.
#[tokio::test(start_paused = true)]
async fn taking_the_broken_cluster_away_lets_the_others_go_on() {
    let story = Story::begin(32, CLUSTER_WIDE, 3).await;
    let mut spec = rolling(json!(1), json!(0));
    spec["policy"] = json!({"placementType": "PickAll"});
    story.places(spec).await;
    story.all_work().await;
    story.changes("bad").await;
    story.is_down("m1").await;
    assert_eq!(story.told()[1..], ["m2 Bound 0 held back", "m3 Bound 0 held back"]);
    // Nothing may come back to the cluster, and what is there goes.
    let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
    story
        .patch(flagship_sim::testing::CLUSTERS, "", "m1", json!({"spec": {"taints": taint}}))
        .await;
    let name = text(&story.binding("m1")["metadata"]["name"]);
    story.delete(CRB, "", &name).await;
    story.settle().await;
    assert_eq!(story.told(), ["m2 Bound 1 started", "m3 Bound 0 held back"]);
}
