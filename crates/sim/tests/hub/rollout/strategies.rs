//! How resources are applied, and who moves the clusters.

use serde_json::json;

use crate::rollout::story::{CLUSTER_WIDE, Story, rolling};

// checklist 12 rollout decisions: apply-strategy change is patched to Scheduled, Bound and
// Unscheduled but not deleting bindings, then requeues.
#[tokio::test(start_paused = true)]
async fn another_apply_strategy_reaches_all_clusters_at_once() {
    let story = Story::begin(20, CLUSTER_WIDE, 3).await;
    story.places(rolling(json!(1), json!(0))).await;
    story.all_work().await;
    story.changes("v1").await;
    let apply = json!({"type": "ServerSideApply", "serverSideApplyConfig": {"force": true},
        "allowCoOwnership": true});
    story.edits_placement(json!({"strategy": {"applyStrategy": apply}})).await;
    for cluster in ["m1", "m2", "m3"] {
        let strategy = &story.binding(cluster)["spec"]["applyStrategy"];
        assert_eq!(strategy["serverSideApplyConfig"]["force"], true, "{cluster}");
        assert_eq!(strategy["allowCoOwnership"], true, "{cluster}");
    }
    // Whom the budget held back is still told so, about what it is now.
    assert_eq!(
        story.told(),
        ["m1 Bound 1 started", "m2 Bound 0 held back", "m3 Bound 0 held back"]
    );
    // Back to the default: nothing of the old strategy stays behind.
    story.edits_placement(json!({"strategy": {"applyStrategy": null}})).await;
    assert_eq!(
        story.binding("m1")["spec"]["applyStrategy"],
        json!({"comparisonOption": "PartialComparison", "type": "ClientSideApply",
            "whenToApply": "Always", "whenToTakeOver": "Always"})
    );
}

// checklist 12 rollout decisions: RollingUpdate → External stops all writes. (Back again is
// refused by validation.)
#[tokio::test(start_paused = true)]
async fn external_placements_are_left_to_update_runs() {
    let mut story = Story::begin(21, CLUSTER_WIDE, 2).await;
    story.places(rolling(json!(1), json!(0))).await;
    story.all_work().await;
    story.edits_placement(json!({"strategy": {"type": "External", "rollingUpdate": null}})).await;
    let before = story.told();
    story.changes("v1").await;
    story.edits_placement(json!({"strategy": {"applyStrategy": {"type": "ReportDiff"}}})).await;
    story.cluster("m3", json!({})).await;
    story.settle().await;
    assert_eq!(story.told()[..2], before);
    assert_eq!(story.told()[2], "m3 Scheduled -");
    assert_eq!(story.binding("m1")["spec"]["applyStrategy"]["type"], "ClientSideApply");
    story.stop("hub").await;
}

// checklist 12 rollout decisions (3.11): DiffReported True is ready.
#[tokio::test(start_paused = true)]
async fn a_fleet_that_only_reports_goes_on_as_soon_as_it_has_reported() {
    let story = Story::begin(22, CLUSTER_WIDE, 2).await;
    let mut spec = rolling(json!(1), json!(0));
    spec["strategy"]["applyStrategy"] = json!({"type": "ReportDiff"});
    story.places(spec).await;
    for member in ["m1", "m2"] {
        story.says(member, "DiffReported", "True AllWorkHaveDiffReported", "").await;
    }
    story.changes("v1").await;
    assert_eq!(story.told(), ["m1 Bound 1 started", "m2 Bound 0 held back"]);
    story.says("m1", "DiffReported", "False NotAllWorkHaveDiffReported", "").await;
    story.settle().await;
    assert_eq!(story.told()[1], "m2 Bound 0 held back");
    story.says("m1", "DiffReported", "True AllWorkHaveDiffReported", "").await;
    story.settle().await;
    assert_eq!(story.told()[1], "m2 Bound 1 started");
}
