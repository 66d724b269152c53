//! The stories that are cut at every write.

use flagship_rules::record::Keep;
use serde_json::{Value, json};

use crate::crash_everywhere::deaths::{Setting, stages, survives};
use crate::update_run::story::{Story, fixed};

fn plain() -> Setting {
    Setting {
        policy: json!({"placementType": "PickAll"}),
        stages: stages(json!({}), json!({})),
        two_hubs: false,
        records: Keep::Policies,
    }
}

/// Waits until something is so: a hub that has just died takes a moment.
async fn until(story: &Story, what: &str, so: impl Fn() -> bool) {
    for _ in 0..600 {
        if so() {
            return;
        }
        story.soon().await;
    }
    panic!(
        "never: {what}: {:?}, initialized {:?}, progressing {:?}, succeeded {:?}",
        story.holds(),
        story.said("r", "Initialized"),
        story.said("r", "Progressing"),
        story.said("r", "Succeeded")
    );
}

fn says(story: &Story, run: &str, kind: &str, begins: &str) -> bool {
    story.said(run, kind).starts_with(begins)
}

/// People approve and members work until the run has ended.
async fn ends(story: &Story, run: &str) {
    for _ in 0..200 {
        story.all_work().await;
        for request in story.requests() {
            if story.request(&request)["status"]["conditions"].is_null() {
                story.approve(&request).await;
            }
        }
        if !story.said(run, "Succeeded").is_empty() {
            return;
        }
        story.pass(1).await;
    }
    panic!("{run} does not end: {}", story.told(run));
}

async fn goes(story: &Story, run: &str) {
    story.run(run, json!({"state": "Run"})).await;
}

async fn starts_on(story: &Story, cluster: usize) {
    until(story, "the cluster is bound", || story.holds()[cluster].contains("Bound")).await;
}

#[tokio::test(start_paused = true)]
async fn approvals_before_and_after_a_stage() {
    let approval = json!([{"type": "Approval"}]);
    let stages =
        stages(json!({"afterStageTasks": approval}), json!({"beforeStageTasks": approval}));
    survives(Setting { stages, ..plain() }, async |story| {
        goes(story, "r").await;
        ends(story, "r").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn waits_after_each_stage() {
    let wait = json!({"afterStageTasks": [{"type": "TimedWait", "waitTime": "20s"}]});
    survives(Setting { stages: stages(wait.clone(), wait), ..plain() }, async |story| {
        goes(story, "r").await;
        ends(story, "r").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_a_cluster_is_in_flight_and_a_resume() {
    survives(plain(), async |story| {
        goes(story, "r").await;
        starts_on(story, 1).await;
        story.set_state("r", "Stop").await;
        story.pass(1).await;
        story.all_work().await;
        until(story, "stopped", || says(story, "r", "Progressing", "False UpdateRunStopped")).await;
        story.set_state("r", "Run").await;
        ends(story, "r").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_at_a_gate_an_approval_meanwhile_and_a_resume() {
    let stages = stages(json!({"beforeStageTasks": [{"type": "Approval"}]}), json!({}));
    survives(Setting { stages, ..plain() }, async |story| {
        goes(story, "r").await;
        until(story, "asked", || !story.requests().is_empty()).await;
        story.set_state("r", "Stop").await;
        until(story, "stopped", || says(story, "r", "Progressing", "False UpdateRunStopped")).await;
        story.approve("r-before-canary").await;
        story.set_state("r", "Run").await;
        ends(story, "r").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_preempted_by_another_version() {
    survives(plain(), async |story| {
        goes(story, "a").await;
        starts_on(story, 1).await;
        story.pass(5).await;
        story.new_version("2").await;
        story.pass(1).await;
        goes(story, "b").await;
        until(story, "a gave way", || says(story, "a", "Succeeded", "False")).await;
        ends(story, "b").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_rollback_to_an_older_index() {
    survives(plain(), async |story| {
        goes(story, "first").await;
        ends(story, "first").await;
        story.new_version("2").await;
        story.pass(1).await;
        goes(story, "second").await;
        ends(story, "second").await;
        story.run("back", json!({"state": "Run", "resourceSnapshotIndex": "0"})).await;
        ends(story, "back").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stage_without_clusters() {
    let mut stages = stages(json!({}), json!({}));
    let tasks = json!({"afterStageTasks": [{"type": "Approval"}]});
    let empty = crate::update_run::story::stage("nowhere", tasks);
    stages.as_array_mut().unwrap().insert(1, empty);
    survives(Setting { stages, ..plain() }, async |story| {
        goes(story, "r").await;
        ends(story, "r").await;
    })
    .await;
}

/// A placement that shrinks from three clusters to one.
async fn shrinks(story: &Story) {
    goes(story, "first").await;
    ends(story, "first").await;
    let policy = json!({"spec": {"policy": fixed(&["m3"])}});
    let scope = story.scope;
    story.patch(scope.placements, scope.space, "web", policy).await;
    story.settle().await;
    story.run("second", json!({"state": "Run", "resourceSnapshotIndex": "0"})).await;
}

#[tokio::test(start_paused = true)]
async fn a_fixed_choice_that_shrinks_to_one_cluster() {
    let policy = fixed(&["m1", "m2", "m3"]);
    survives(Setting { policy, ..plain() }, async |story| {
        shrinks(story).await;
        ends(story, "second").await;
        assert_eq!(story.holds(), ["m3 Bound web-0-snapshot"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_stage_that_is_stopped() {
    let policy = fixed(&["m1", "m2", "m3"]);
    survives(Setting { policy, ..plain() }, async |story| {
        shrinks(story).await;
        story.set_state("second", "Stop").await;
        story.pass(1).await;
        story.all_work().await;
        let stopped = || says(story, "second", "Progressing", "False UpdateRunStopped");
        until(story, "stopped", stopped).await;
        story.set_state("second", "Run").await;
        ends(story, "second").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_override_that_changes_between_two_runs() {
    survives(plain(), async |story| {
        overridden(story, 0).await;
        goes(story, "first").await;
        ends(story, "first").await;
        overridden(story, 1).await;
        goes(story, "second").await;
        ends(story, "second").await;
        let spec = story.binding("m1")["spec"].clone();
        assert_eq!(spec["clusterResourceOverrideSnapshots"], json!(["o-1"]));
    })
    .await;
}

/// Version `index` of an override of everything in the namespace, and no older one.
async fn overridden(story: &Story, index: u64) {
    const SNAPSHOTS: &str = "clusterresourceoverridesnapshots.placement.kubernetes-fleet.io";
    if index > 0 {
        story.delete(SNAPSHOTS, "", &format!("o-{}", index - 1)).await;
    }
    let labels = json!({"kubernetes-fleet.io/is-latest-snapshot": "true",
        "kubernetes-fleet.io/override-index": index.to_string(),
        "kubernetes-fleet.io/parent-resource-override": "o"});
    let patch = json!([{"op": "add", "path": "/metadata/labels/v", "value": index.to_string()}]);
    let rule =
        json!({"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": patch});
    let selectors = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
    let spec: Value = json!({"overrideHash": "aGFzaA==", "overrideSpec":
        {"clusterResourceSelectors": selectors, "policy": {"overrideRules": [rule]}}});
    let meta = json!({"name": format!("o-{index}"), "labels": labels});
    story.create(SNAPSHOTS, json!({"metadata": meta, "spec": spec})).await;
    story.pass(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_stuck_and_recovers() {
    survives(plain(), async |story| {
        goes(story, "r").await;
        starts_on(story, 1).await;
        story.pass(1).await;
        story.reports("m2", "Available", "False", "NotAllWorkAreAvailable").await;
        story.pass(300).await;
        until(story, "stuck", || says(story, "r", "Progressing", "False UpdateRunStuck")).await;
        ends(story, "r").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn two_hubs_that_both_lead() {
    let approval = json!([{"type": "Approval"}]);
    let stages = stages(json!({"afterStageTasks": approval}), json!({}));
    survives(Setting { stages, two_hubs: true, records: Keep::All, ..plain() }, async |story| {
        goes(story, "r").await;
        starts_on(story, 1).await;
        story.set_state("r", "Stop").await;
        story.pass(1).await;
        story.all_work().await;
        until(story, "stopped", || says(story, "r", "Progressing", "False UpdateRunStopped")).await;
        story.set_state("r", "Run").await;
        ends(story, "r").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_deleted_at_a_gate() {
    let stages = stages(json!({}), json!({"beforeStageTasks": [{"type": "Approval"}]}));
    survives(Setting { stages, ..plain() }, async |story| {
        goes(story, "r").await;
        until(story, "m2 is bound", || story.holds()[1].contains("Bound")).await;
        story.pass(1).await;
        story.all_work().await;
        until(story, "asked", || !story.requests().is_empty()).await;
        story.pass(1).await;
        story.delete(&story.scope.runs(), story.scope.space, "r").await;
        let gone = || story.find(&story.scope.runs(), story.scope.space, "r").is_none();
        until(story, "the run is gone", gone).await;
        assert_eq!(story.requests(), Vec::<String>::new());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_freeze_in_the_middle_that_is_lifted() {
    const FREEZES: &str = "freezes.flagship.dev";
    survives(Setting { records: Keep::All, ..plain() }, async |story| {
        goes(story, "r").await;
        starts_on(story, 1).await;
        let freeze = json!({"metadata": {"name": "stop"}, "spec": {"reason": "incident"}});
        story.create(FREEZES, freeze).await;
        until(story, "frozen", || says(story, "r", "Progressing", "False UpdateRunFrozen")).await;
        story.pass(1).await;
        story.all_work().await;
        story.pass(30).await;
        assert_eq!(story.holds()[0], "m1 Scheduled");
        story.delete(FREEZES, "", "stop").await;
        ends(story, "r").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_fails_within_the_budget_of_a_policy() {
    let failure = json!({"progressDeadline": "1m", "budget": {"run": 1}});
    survives(plain(), async |story| {
        let policy = json!({"metadata": {"name": "p"}, "spec": {"failure": failure}});
        story.create("rolloutpolicies.flagship.dev", policy).await;
        goes(story, "r").await;
        starts_on(story, 1).await;
        story.pass(70).await;
        until(story, "m1 begins", || story.holds()[0].contains("Bound")).await;
        story.works("m1").await;
        until(story, "m3 begins", || story.holds()[2].contains("Bound")).await;
        story.works("m3").await;
        until(story, "done", || says(story, "r", "Succeeded", "True")).await;
    })
    .await;
}

/// A version that does not come up on the canary, and goes back by itself.
async fn goes_back(story: &Story) {
    goes(story, "first").await;
    ends(story, "first").await;
    let failure = json!({"progressDeadline": "1m", "then": "Rollback"});
    let policy = json!({"metadata": {"name": "p"}, "spec": {"failure": failure}});
    story.create("rolloutpolicies.flagship.dev", policy).await;
    story.new_version("2").await;
    story.pass(1).await;
    goes(story, "r").await;
    until(story, "m2 begins", || story.holds()[1].contains("web-1-snapshot")).await;
    story.works("m2").await;
    until(story, "m1 begins", || story.holds()[0].contains("web-1-snapshot")).await;
    story.pass(70).await;
    until(story, "r has failed", || says(story, "r", "Succeeded", "False")).await;
    ends(story, "r-rollback").await;
    let back = ["m1 Bound web-0-snapshot", "m2 Bound web-0-snapshot", "m3 Bound web-0-snapshot"];
    assert_eq!(story.holds(), back);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_itself_back() {
    survives(plain(), goes_back).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_itself_back_under_two_hubs() {
    survives(Setting { two_hubs: true, ..plain() }, goes_back).await;
}
