//! The stories of delivery on embedded clusters, under paused time.
//!
//! They are told in `flagship_sim::stories`, for every sort of fleet.

mod limits;

use flagship_sim::fleet::{Fleet, FleetConfig};
use flagship_sim::stories;
use flagship_sim::testing::tries_everything;

async fn told(name: &str) {
    let fleet = Fleet::joined(FleetConfig::of(3)).await;
    stories::named(name)(&fleet.clusters).await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_reaches_every_member() {
    told("a namespace reaches every member").await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_reaches_every_member() {
    told("an edit reaches every member").await;
}

#[tokio::test(start_paused = true)]
async fn a_definition_travels_with_its_objects() {
    told("a definition travels with its objects").await;
}

#[tokio::test(start_paused = true)]
async fn overrides_make_each_member_its_own() {
    told("overrides make each member its own").await;
}

#[tokio::test(start_paused = true)]
async fn an_envelope_is_opened_on_the_member() {
    told("an envelope is opened on the member").await;
}

// propagation 11.2, 17: from the placement to the member
#[tokio::test(start_paused = true)]
async fn what_is_abandoned_stays() {
    told("what is abandoned stays").await;
}

#[tokio::test(start_paused = true)]
async fn an_object_has_one_placement() {
    told("an object has one placement").await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_placement_leaves_nothing_behind() {
    told("a deleted placement leaves nothing behind").await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_on_a_member_is_undone() {
    told("an edit on a member is undone").await;
}

#[tokio::test(start_paused = true)]
async fn a_drift_that_must_stay_is_told() {
    told("a drift that must stay is told").await;
}

#[tokio::test(start_paused = true)]
async fn a_foreign_object_fails_there_only() {
    told("a foreign object fails there only").await;
}

#[tokio::test(start_paused = true)]
async fn a_comparison_writes_nothing() {
    told("a comparison writes nothing").await;
}

#[tokio::test(start_paused = true)]
async fn a_bad_image_is_told_as_the_guide_prints_it() {
    told("a bad image is told as the guide prints it").await;
}

#[tokio::test(start_paused = true)]
async fn a_run_is_stuck_on_a_bad_image() {
    told("a run is stuck on a bad image").await;
}

/// All stories leave room for each other, as they must on a fleet that is there to stay.
#[tokio::test(start_paused = true)]
async fn all_stories_can_be_told_on_one_fleet() {
    let fleet = Fleet::joined(FleetConfig::of(3)).await;
    // Each is told on a fleet of its own above.
    let step = if tries_everything() { 1 } else { 2 };
    for (_, story) in stories::ALL.iter().step_by(step) {
        story(&fleet.clusters).await;
    }
}
