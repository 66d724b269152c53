//! Crashes, conflicts and a second hub.

use serde_json::json;

use crate::hub_world::{CRB, text};
use crate::story::{CLUSTER_WIDE, Story, rolling};

// 8: a binding spec update and its `RolloutStarted` are two writes; a crash between them is
// repaired.
#[tokio::test(start_paused = true)]
async fn a_delivery_nobody_spoke_of_is_made_good_after_a_crash() {
    let mut story = Story::begin(60, CLUSTER_WIDE, 2).await;
    story.places(rolling(json!(1), json!(0))).await;
    story.all_work().await;
    story.kill("hub").await;
    // As if the hub had died between the two writes of its deliveries.
    for member in ["m1", "m2"] {
        let name = text(&story.binding(member)["metadata"]["name"]);
        let decision = json!({"clusterDecision": {"reason": "touched"}});
        story.patch(CRB, "", &name, json!({"spec": decision})).await;
    }
    assert_eq!(story.told(), ["m1 Bound 0 (stale)", "m2 Bound 0 (stale)"]);
    story.start_as("next").await;
    assert_eq!(story.told(), ["m1 Bound 0 started", "m2 Bound 0 started"]);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_starts_late_goes_on_where_the_other_stopped() {
    let mut story = Story::begin(61, CLUSTER_WIDE, 3).await;
    story.places(rolling(json!(1), json!(0))).await;
    story.all_work().await;
    story.changes("v1").await;
    story.kill("hub").await;
    story.works("m1").await;
    story.start_as("next").await;
    assert_eq!(story.told(), ["m1 Bound 1 started", "m2 Bound 1 started", "m3 Bound 0 held back"]);
}

#[tokio::test(start_paused = true)]
async fn when_all_is_rolled_out_nothing_is_written_and_nobody_looks() {
    let story = Story::begin(62, CLUSTER_WIDE, 3).await;
    story.places(rolling(json!(1), json!(0))).await;
    story.all_work().await;
    let (passes, writes) = (story.rollout_passes(), binding_writes(&story));
    story.heartbeats(5).await;
    assert_eq!(story.rollout_passes(), passes);
    assert_eq!(binding_writes(&story), writes);
}

fn binding_writes(story: &Story) -> usize {
    story.writes("hub").iter().filter(|write| write.contains("bindings")).count()
}
