//! Runs that take themselves back: `then: Rollback`.

use serde_json::json;

use super::clusters::policy;
use crate::update_run::story::{CLUSTER, SCOPES, Scope, Story, stage};
use flagship_sim::testing::without_profiles;

/// Every cluster has the first version, and the second is on its way to `m1`, the first
/// of production; the canary has it and works.
async fn second_version_under_way(scope: Scope) -> Story {
    let story = Story::begin(scope).await;
    let failure = json!({"progressDeadline": "1m", "then": "Rollback"});
    policy(&story, "prod", json!({"failure": failure})).await;
    let asks = json!({"beforeStageTasks": [{"type": "Approval"}]});
    story.strategy(json!([stage("canary", json!({})), stage("prod", asks)])).await;
    story.run("first", json!({"state": "Run"})).await;
    story.works("m2").await;
    story.approve("first-before-prod").await;
    story.all_work().await;
    assert!(story.said("first", "Succeeded").starts_with("True"), "{}", story.told("first"));
    story.new_version("2").await;
    story.pass(1).await;
    story.run("r", json!({"state": "Run"})).await;
    story.works("m2").await;
    story.approve("r-before-prod").await;
    assert_eq!(
        story.holds(),
        ["m1 Bound web-1-snapshot", "m2 Bound web-1-snapshot", "m3 Bound web-0-snapshot"]
    );
    story
}

#[tokio::test(start_paused = true)]
async fn touched_clusters_go_back_to_what_they_had_and_others_are_never_touched() {
    for scope in SCOPES {
        let story = second_version_under_way(scope).await;
        let untouched = story.binding("m3")["metadata"].clone();
        story.pass(61).await;
        story.soon().await;
        assert_eq!(
            story.said("r", "Succeeded"),
            "False UpdateRunFailed: cannot continue the updateRun: the failure budget of stage `prod` is spent, 1 cluster(s) have failed and 0 may: m1 (policy prod); 2 cluster(s) go back to snapshot 0 in update run `r-rollback`, and snapshot 1 is quarantined"
        );
        // The last stage first, and nobody is asked again.
        story.pass(2).await;
        assert_eq!(
            story.holds(),
            ["m1 Bound web-0-snapshot", "m2 Bound web-1-snapshot", "m3 Bound web-0-snapshot"]
        );
        assert_eq!(story.requests().iter().filter(|name| name.contains("rollback")).count(), 0);
        story.works("m1").await;
        story.works("m2").await;
        story.soon().await;
        assert!(
            story.said("r-rollback", "Succeeded").starts_with("True"),
            "{}",
            story.told("r-rollback")
        );
        assert_eq!(
            story.holds(),
            ["m1 Bound web-0-snapshot", "m2 Bound web-0-snapshot", "m3 Bound web-0-snapshot"]
        );
        assert_eq!(
            story.binding("m3")["metadata"]["resourceVersion"],
            untouched["resourceVersion"]
        );
        // Nothing more follows.
        let before = story.writes("hub").len();
        story.pass(600).await;
        assert_eq!(story.list(&scope.runs(), "").len(), 3);
        assert_eq!(story.writes("hub").len(), before, "it is quiet");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollback_that_fails_stops() {
    for scope in SCOPES {
        let story = second_version_under_way(scope).await;
        story.pass(61).await;
        story.pass(63).await;
        assert_eq!(
            story.said("r-rollback", "Succeeded"),
            "False UpdateRunFailed: cannot continue the updateRun: the failure budget of stage `prod` is spent, 1 cluster(s) have failed and 0 may: m1 (policy prod)"
        );
        assert_eq!(story.holds()[1], "m2 Bound web-1-snapshot", "nothing else begins");
        story.pass(600).await;
        assert_eq!(story.list(&scope.runs(), "").len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_writes_the_annotation_by_hand_gets_nothing_by_it() {
    for scope in SCOPES {
        let story = second_version_under_way(scope).await;
        let uid = story.object("first")["metadata"]["uid"].clone();
        let mut meta = scope.meta("first-rollback");
        meta["annotations"] = json!({"flagship.dev/rollback-of": uid});
        let spec = json!({"placementName": "web", "stagedRolloutStrategyName": "plan",
            "state": "Run", "resourceSnapshotIndex": "0"});
        story.create(&scope.runs(), json!({"metadata": meta, "spec": spec})).await;
        story.soon().await;
        let said = story.said("first-rollback", "Initialized");
        assert!(
            said.starts_with("False")
                && said.contains("no policy wants update run `first` to be rolled back"),
            "{said}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_rolled_back_is_refused_until_it_is_lifted() {
    for scope in SCOPES {
        let story = second_version_under_way(scope).await;
        story.pass(61).await;
        story.soon().await;
        story.pass(2).await;
        story.all_work().await;
        assert!(story.said("r-rollback", "Succeeded").starts_with("True"));
        let space = if scope.space.is_empty() { "" } else { "-n app " };
        let refused = |told: &str| {
            format!(
                "{told} is quarantined by update run {}r: the failure budget of stage `prod` is spent, 1 cluster(s) have failed and 0 may: m1 (policy prod); to roll it out all the same, lift it: flagship quarantine {space}web --lift",
                if scope.space.is_empty() { "" } else { "app/" }
            )
        };
        story.run("again", json!({"state": "Run"})).await;
        let said = story.said("again", "Initialized");
        assert!(
            said.starts_with("False") && said.contains(&refused("resource snapshot 1")),
            "{said}"
        );
        // Somebody goes back to what was there, and forward to the same content once more.
        story.new_version("1").await;
        story.pass(1).await;
        story.run("calm", json!({"state": "Run"})).await;
        story.all_work().await;
        story.new_version("2").await;
        story.pass(1).await;
        story.run("once-more", json!({"state": "Run"})).await;
        let said = story.said("once-more", "Initialized");
        assert!(
            said.contains(&refused("resource snapshot 3, which has the content of snapshot 1,")),
            "{said}"
        );
        let lifted = json!({"metadata": {"annotations": {"flagship.dev/quarantined": null}}});
        story.patch(&scope.snapshots(), scope.space, "web-1-snapshot", lifted).await;
        story.soon().await;
        story.run("lifted", json!({"state": "Run"})).await;
        let said = story.said("lifted", "Initialized");
        assert!(said.starts_with("True"), "{said}");
    }
}

/// Writes of the hub for a second version on twenty clusters.
async fn writes_of_a_second_version(policed: bool) -> usize {
    let mut options = without_profiles();
    // A record has its own price: a write in each pass that changes the run.
    options.update_runs.records = flagship_rules::record::Keep::Off;
    let mut story = Story::prepared(CLUSTER, options).await;
    for at in 0..17 {
        story.cluster(&format!("x{at:02}"), json!({"env": "prod"})).await;
    }
    story.place("web", json!({"placementType": "PickAll"})).await;
    story.start_as("hub").await;
    story.strategy(json!([{"name": "all", "labelSelector": {}, "maxConcurrency": 5}])).await;
    story.first_version().await;
    if policed {
        let failure = json!({"progressDeadline": "10m", "finalCauses": "Fail",
            "budget": {"run": "10%"}, "then": "Rollback"});
        let clusters = json!({"membership": "Frozen", "unreachable": "Skip"});
        policy(&story, "prod", json!({"failure": failure, "clusters": clusters})).await;
    }
    story.new_version("2").await;
    story.pass(1).await;
    let before = story.writes("hub").len();
    story.run("r", json!({"state": "Run"})).await;
    story.all_work().await;
    assert!(story.said("r", "Succeeded").starts_with("True"), "{}", story.told("r"));
    story.writes("hub").len() - before
}

#[tokio::test(start_paused = true)]
async fn a_policy_costs_a_run_one_write() {
    let (without, with) =
        (writes_of_a_second_version(false).await, writes_of_a_second_version(true).await);
    assert!(without > 20, "{without}");
    assert_eq!(with, without + 1, "the note of what it follows, and of what clusters had");
}
