//! Who moves when.

use serde_json::{Value, json};

use crate::rollout::story::{CLUSTER_WIDE, CRS, IN_NAMESPACE, Side, Story, rolling};
use flagship_sim::testing::text;

// checklist 12 rollout decisions: fresh placement binds all Scheduled bindings in one pass,
// RolloutStarted True on each.
#[tokio::test(start_paused = true)]
async fn a_fresh_placement_reaches_every_cluster_at_once() {
    for (seed, side) in [(1, CLUSTER_WIDE), (2, IN_NAMESPACE)] {
        let story = Story::begin(seed, side, 3).await;
        story.places(json!({})).await;
        assert_eq!(
            story.told(),
            ["m1 Bound 0 started", "m2 Bound 0 started", "m3 Bound 0 started"]
        );
        let binding = story.binding("m1");
        let said = &binding["status"]["conditions"][0];
        assert_eq!(
            said["message"],
            "Detected the new changes on the resources and started the rollout process"
        );
        // Strategy and resources by one write.
        assert_eq!(binding["metadata"]["generation"], 2);
        assert_eq!(binding["spec"]["applyStrategy"]["type"], "ClientSideApply");
    }
}

async fn one_after_the_other(seed: u64, side: Side) {
    let story = Story::begin(seed, side, 3).await;
    story.places(rolling(json!(1), json!(0))).await;
    story.all_work().await;
    story.changes("v1").await;
    assert_eq!(
        story.told(),
        ["m1 Bound 1 started", "m2 Bound 0 held back", "m3 Bound 0 held back"]
    );
    let held = &story.binding("m2")["status"]["conditions"][0].clone();
    assert_eq!(
        (text(&held["reason"]), text(&held["message"])),
        (
            "RolloutNotStartedYet".to_owned(),
            "The resources cannot be updated to the latest because of the rollout strategy"
                .to_owned()
        )
    );
    story.works("m1").await;
    assert_eq!(story.told(), ["m1 Bound 1 started", "m2 Bound 1 started", "m3 Bound 0 held back"]);
    story.works("m2").await;
    story.works("m3").await;
    assert_eq!(story.told(), ["m1 Bound 1 started", "m2 Bound 1 started", "m3 Bound 1 started"]);
}

// checklist 12 rollout decisions: new snapshot with U=1 updates exactly one ready binding;
// the rest get `RolloutNotStartedYet`. Both scopes.
#[tokio::test(start_paused = true)]
async fn a_new_version_goes_from_cluster_to_cluster_as_each_works() {
    one_after_the_other(3, CLUSTER_WIDE).await;
    one_after_the_other(4, IN_NAMESPACE).await;
}

// checklist 12 rollout decisions: blocked roll-out by an unavailable workload.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_does_not_work_keeps_the_others_back_until_it_is_repaired() {
    let story = Story::begin(5, CLUSTER_WIDE, 3).await;
    story.places(rolling(json!(1), json!(0))).await;
    story.all_work().await;
    story.changes("bad").await;
    story.is_down("m1").await;
    let blocked = ["m1 Bound 1 started", "m2 Bound 0 held back", "m3 Bound 0 held back"];
    assert_eq!(story.told(), blocked);
    // Nothing happens, and nobody looks either.
    let passes = story.rollout_passes();
    story.heartbeats(3).await;
    assert_eq!(story.told(), blocked);
    assert_eq!(story.rollout_passes(), passes);
    // A better version goes where the bad one is, and then on.
    story.changes("good").await;
    assert_eq!(
        story.told(),
        ["m1 Bound 2 started", "m2 Bound 0 held back", "m3 Bound 0 held back"]
    );
    story.works("m1").await;
    story.works("m2").await;
    assert_eq!(story.told(), ["m1 Bound 2 started", "m2 Bound 2 started", "m3 Bound 2 started"]);
}

// ours (11.2 #1 and triggers): a delivery under way holds its place; that it turns out
// broken is noticed although only Applied changed.
#[tokio::test(start_paused = true)]
async fn a_delivery_that_turns_out_broken_makes_room_for_another() {
    let story = Story::begin(6, CLUSTER_WIDE, 4).await;
    let policy = |names: Value| json!({"placementType": "PickFixed", "clusterNames": names});
    let mut spec = rolling(json!(0), json!(1));
    spec["policy"] = policy(json!(["m1", "m2"]));
    story.places(spec).await;
    story.works("m1").await;
    story.works("m2").await;
    story.edits_placement(json!({"policy": policy(json!(["m3", "m4"]))})).await;
    let told = story.told();
    assert_eq!(told[..2], ["m1 Unscheduled 0 (stale)", "m2 Unscheduled 0 (stale)"]);
    assert_eq!(told[2..], ["m3 Bound 0 started", "m4 Scheduled - held back"]);
    story.says("m3", "Applied", "False ApplyInProgress", "Resources are being applied").await;
    story.settle().await;
    assert_eq!(story.told()[3], "m4 Scheduled - held back");
    let broken = "Work object web-work has failed to apply";
    story.says("m3", "Applied", "False NotAllWorkHaveBeenApplied", broken).await;
    story.settle().await;
    assert_eq!(story.told()[3], "m4 Bound 0 started");
}

// checklist 12 rollout decisions: custom resources (untrackable) wait unavailablePeriod
// between clusters; the shortest remaining wait is returned.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_tracked_takes_a_period_a_cluster() {
    let story = Story::begin(7, CLUSTER_WIDE, 3).await;
    let mut spec = rolling(json!(1), json!(0));
    spec["strategy"]["rollingUpdate"]["unavailablePeriodSeconds"] = json!(30);
    story.places(spec).await;
    story.all_work().await;
    story.changes("v1").await;
    story.is_applied("m1").await;
    story.pass(29).await;
    assert_eq!(story.told()[1], "m2 Bound 0 held back");
    story.pass(2).await;
    assert_eq!(story.told()[1..], ["m2 Bound 1 started", "m3 Bound 0 held back"]);
    story.is_applied("m2").await;
    story.pass(29).await;
    assert_eq!(story.told()[2], "m3 Bound 0 held back");
    story.pass(2).await;
    assert_eq!(story.told()[2], "m3 Bound 1 started");
}

// ours (11.2 #3): enqueue on any change of `spec.strategy`.
#[tokio::test(start_paused = true)]
async fn wider_limits_count_at_once() {
    let story = Story::begin(8, CLUSTER_WIDE, 3).await;
    story.places(rolling(json!(0), json!(1))).await;
    story.all_work().await;
    story.changes("v1").await;
    let held = ["m1 Bound 0 held back", "m2 Bound 0 held back", "m3 Bound 0 held back"];
    assert_eq!(story.told(), held);
    story.edits_placement(rolling(json!("100%"), json!(1))).await;
    assert_eq!(story.told(), ["m1 Bound 1 started", "m2 Bound 1 started", "m3 Bound 1 started"]);
}

// checklist 12 rollout triggers: latest master snapshot creation enqueues; sub-snapshot,
// non-latest, label-less or malformed ones do not.
#[tokio::test(start_paused = true)]
async fn only_resources_to_roll_out_are_looked_at() {
    let story = Story::begin(9, CLUSTER_WIDE, 1).await;
    story.places(json!({})).await;
    let passes = story.rollout_passes();
    let latest = "kubernetes-fleet.io/is-latest-snapshot";
    let parent = "kubernetes-fleet.io/parent-CRP";
    let hash = "kubernetes-fleet.io/resource-hash";
    for (name, labels, notes) in [
        ("sub", json!({parent: "web", latest: "true"}), json!({})),
        ("old", json!({parent: "web", latest: "false"}), json!({hash: "h"})),
        ("orphan", json!({latest: "true"}), json!({hash: "h"})),
        ("odd", json!({parent: "web", latest: "yes"}), json!({hash: "h"})),
    ] {
        let meta = json!({"name": name, "labels": labels, "annotations": notes});
        story.create(CRS, json!({"metadata": meta, "spec": {"selectedResources": []}})).await;
        story.settle().await;
        // The placement cannot number another version beside them.
        story.delete(CRS, "", name).await;
        story.settle().await;
        assert_eq!(story.rollout_passes(), passes, "{name}");
    }
    story.changes("v1").await;
    assert!(story.rollout_passes() > passes);
}
