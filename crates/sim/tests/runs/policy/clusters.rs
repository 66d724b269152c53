//! Clusters that join, leave, are silent or fail under a policy.

use serde_json::{Value, json};

use crate::update_run::story::{CLUSTER, SCOPES, Story, said, stage};
use flagship_sim::testing::without_profiles;

const POLICIES: &str = "rolloutpolicies.flagship.dev";

pub async fn policy(story: &Story, name: &str, spec: Value) {
    story.create(POLICIES, json!({"metadata": {"name": name}, "spec": spec})).await;
}

/// What a run says of a cluster: `status reason: message`.
fn of_cluster(story: &Story, run: &str, stage: &str, cluster: &str) -> String {
    let stage = story.stage(run, stage);
    let mut clusters = stage["clusters"].as_array().into_iter().flatten();
    let found = clusters.find(|found| found["clusterName"] == cluster);
    found.map_or_else(String::new, |found| said(&found["conditions"], "Succeeded"))
}

#[tokio::test(start_paused = true)]
async fn a_cluster_joins_and_one_leaves_in_mid_run() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        policy(&story, "calm", json!({"clusters": {"membership": "Frozen"}})).await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        story.cluster("m4", json!({"env": "prod"})).await;
        story.leaves("m1").await;
        story.settle().await;
        story.works("m2").await;
        story.settle().await;
        assert_eq!(
            of_cluster(&story, "r", "prod", "m1"),
            "False ClusterSkipped: Skipped: m1 left the placement while the run was under way"
        );
        story.works("m3").await;
        assert_eq!(
            story.said("r", "Succeeded"),
            "True UpdateRunSucceeded: All stages are completed; skipped: m1"
        );
        // Whoever came meanwhile waits for the next run.
        assert_eq!(text_of(&story, "m4"), "m4 Scheduled");
    }
}

fn text_of(story: &Story, cluster: &str) -> String {
    story.holds().into_iter().find(|held| held.starts_with(cluster)).unwrap_or_default()
}

// What KubeFleet does, and runs do without a policy.
#[tokio::test(start_paused = true)]
async fn without_a_policy_a_run_fails_when_a_cluster_joins() {
    let story = Story::begin(CLUSTER).await;
    story.two_stages().await;
    story.run("r", json!({"state": "Run"})).await;
    story.cluster("m4", json!({"env": "prod"})).await;
    story.settle().await;
    assert!(story.said("r", "Succeeded").starts_with("False UpdateRunFailed"));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_no_stage_names_is_left_out() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        policy(&story, "calm", json!({"clusters": {"unmatched": "Skip"}})).await;
        story.strategy(json!([stage("prod", json!({}))])).await;
        story.run("r", json!({"state": "Run"})).await;
        story.all_work().await;
        assert!(story.said("r", "Succeeded").starts_with("True"), "{}", story.told("r"));
        assert_eq!(text_of(&story, "m2"), "m2 Scheduled");
    }
}

#[tokio::test(start_paused = true)]
async fn one_silent_cluster_is_skipped_fails_the_run_or_is_waited_for() {
    let stale = "HEARTBEAT_STALE, m1 has not been heard of since";
    let table = [
        ("Skip", format!("False ClusterSkipped: Skipped under policy calm: {stale}"), "True"),
        (
            "Fail",
            format!("False ClusterUpdatingFailed: Failed under policy calm: {stale}"),
            "False",
        ),
        ("Wait", String::new(), ""),
    ];
    for scope in SCOPES {
        for (unreachable, says, ends) in &table {
            let story = Story::begin(scope).await;
            let rules = match *unreachable {
                "Wait" => json!({"unreachable": "Wait"}),
                other => json!({"unreachable": other, "unreachableAfter": "2m"}),
            };
            policy(&story, "calm", json!({"clusters": rules})).await;
            story.two_stages().await;
            story.run("r", json!({"state": "Run"})).await;
            story.works("m2").await;
            // Nobody hears of anybody but m3 any more.
            for _ in 0..9 {
                story.pass(30).await;
                story.joins("m3").await;
            }
            story.soon().await;
            let said = of_cluster(&story, "r", "prod", "m1");
            assert!(said.starts_with(says) && said.is_empty() == says.is_empty(), "{said}");
            if *unreachable == "Skip" {
                story.works("m3").await;
            }
            let ended = story.said("r", "Succeeded");
            assert!(ended.starts_with(ends) && ended.is_empty() == ends.is_empty(), "{ended}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_bad_cluster_of_twenty_with_budget_one_then_a_second() {
    for scope in SCOPES {
        let mut story = Story::prepared(scope, without_profiles()).await;
        for at in 0..17 {
            story.cluster(&format!("x{at:02}"), json!({"env": "prod"})).await;
        }
        story.place("web", json!({"placementType": "PickAll"})).await;
        story.start_as("hub").await;
        let failure = json!({"progressDeadline": "1m", "budget": {"run": 1}, "then": "Stop"});
        policy(&story, "prod", json!({"failure": failure})).await;
        story.strategy(json!([{"name": "all", "labelSelector": {}, "maxConcurrency": 2}])).await;
        story.run("r", json!({"state": "Run"})).await;
        let under_way = |story: &Story| -> Vec<String> {
            let bound = story.holds().into_iter().filter(|held| held.contains("Bound"));
            bound.map(|held| held.split(' ').next().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(under_way(&story), ["m1", "m2"]);
        story.pass(30).await;
        story.works("m2").await;
        // m1 has had its minute: it gives its slot back, and the run goes on.
        story.pass(31).await;
        let told =
            "False ClusterUpdatingFailed: Failed under policy prod: not available within 1m0s";
        assert_eq!(of_cluster(&story, "r", "all", "m1"), told);
        assert_eq!(story.said("r", "Succeeded"), "");
        story.works("x00").await;
        // m3 is the second.
        story.pass(30).await;
        let begun = under_way(&story).len();
        let said = story.said("r", "Succeeded");
        assert_eq!(said, "", "x01 is under way and finishes");
        story.works("x01").await;
        assert_eq!(under_way(&story).len(), begun, "a spent budget starts nothing");
        assert_eq!(
            story.said("r", "Succeeded"),
            "False UpdateRunFailed: cannot continue the updateRun: the failure budget of the run is spent, 2 cluster(s) have failed and 1 may: m1, m3 (policy prod)"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn under_continue_every_cluster_is_tried_and_the_run_fails_at_its_end() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        let failure = json!({"progressDeadline": "1m", "then": "Continue"});
        policy(&story, "prod", json!({"failure": failure})).await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        story.pass(61).await;
        story.works("m1").await;
        story.works("m3").await;
        assert_eq!(
            story.said("r", "Succeeded"),
            "False UpdateRunFailed: cannot continue the updateRun: the failure budget of stage `canary` is spent, 1 cluster(s) have failed and 0 may: m2 (policy prod)"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_gives_a_cluster_its_time_again_before_it_counts() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        let failure = json!({"progressDeadline": "1m", "retries": 1, "retryAfter": "30s"});
        policy(&story, "prod", json!({"failure": failure})).await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        story.pass(148).await;
        assert_eq!(story.said("r", "Succeeded"), "");
        story.pass(5).await;
        assert!(story.said("r", "Succeeded").contains("1 cluster(s) have failed and 0 may: m2"));
    }
}

#[tokio::test(start_paused = true)]
async fn policies_are_copied_when_the_run_begins_and_may_not_disagree() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        policy(&story, "a", json!({"failure": {"progressDeadline": "1m"}})).await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        let never = json!({"spec": {"failure": {"progressDeadline": "10h"}}});
        story.patch(POLICIES, "", "a", never).await;
        story.pass(61).await;
        assert!(story.said("r", "Succeeded").starts_with("False"), "the copy counts");
        policy(&story, "b", json!({"failure": {"then": "Continue"}})).await;
        story.patch(POLICIES, "", "a", json!({"spec": {"failure": {"then": "Stop"}}})).await;
        story.run("s", json!({"state": "Run"})).await;
        let said = story.said("s", "Initialized");
        assert!(said.contains("rollout policies disagree on failure.then of stage `canary`: `a` says Stop, `b` says Continue"), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_overtaken_takes_nothing_back() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        policy(&story, "strict", json!({"clusters": {"overtaken": "Fail"}})).await;
        let wait = json!({"afterStageTasks": [{"type": "Approval"}]});
        story.strategy(json!([stage("canary", wait), stage("prod", json!({}))])).await;
        story.run("old", json!({"state": "Run"})).await;
        story.works("m2").await;
        story.new_version("2").await;
        story.pass(2).await;
        story.run("new", json!({"state": "Run"})).await;
        story.works("m2").await;
        let said = story.said("old", "Succeeded");
        assert!(
            said.contains(
                "the run was overtaken by update run `new`, which has taken 1 cluster(s) to snapshot"
            ),
            "{said}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn somebody_skips_a_cluster() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        let skips = json!({"m2": {"reason": "is broken", "by": "bob"}, "m3": {"reason": "later"}});
        let note = json!({"metadata": {"annotations": {"flagship.dev/skipped-clusters": skips.to_string()}}});
        story.patch(&scope.runs(), scope.space, "r", note).await;
        story.soon().await;
        assert_eq!(
            of_cluster(&story, "r", "canary", "m2"),
            "False ClusterSkipped: Skipped by bob: is broken"
        );
        story.works("m1").await;
        assert_eq!(
            story.said("r", "Succeeded"),
            "True UpdateRunSucceeded: All stages are completed; skipped: m2, m3"
        );
        assert_eq!(text_of(&story, "m3"), "m3 Scheduled");
        // What `flagship retry` makes of it.
        let only = json!({"annotations": {"flagship.dev/only-clusters": "[\"m2\", \"m3\"]"}});
        let mut meta = scope.meta("r-retry");
        meta["annotations"] = only["annotations"].clone();
        let spec = json!({"placementName": "web", "stagedRolloutStrategyName": "plan",
            "state": "Run", "resourceSnapshotIndex": "0"});
        story.create(&scope.runs(), json!({"metadata": meta, "spec": spec})).await;
        story.soon().await;
        story.all_work().await;
        assert!(
            story.said("r-retry", "Succeeded").starts_with("True"),
            "{}",
            story.told("r-retry")
        );
        assert_eq!(story.stage("r-retry", "prod")["clusters"].as_array().map(Vec::len), Some(1));
        assert!(text_of(&story, "m3").starts_with("m3 Bound"));
    }
}
