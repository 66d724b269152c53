//! Versions forward and back, stages, gates and stops.

use expect_test::expect;
use serde_json::json;

use super::{Team, external};
use crate::update_run::story::{SCOPES, said};

// checklist 13.7 no run: nothing placed; omitted index: snapshot 0 created, canary first,
// approvals, prod, completed; configmap change alone changes nothing; second run; rollback
#[tokio::test(start_paused = true)]
async fn a_version_goes_out_and_comes_back_stage_by_stage() {
    for scope in SCOPES {
        let team = Team::begin(scope).await;
        expect![[r#"
            index -, selected nothing
            undecided: no resource snapshot name is observed across clusters, probably rollout has not started yet
            m1 -: pending
            m2 -: pending
            m3 -: pending
        "#]].assert_eq(&team.told().await);
        assert_eq!((team.held().await.as_str(), team.snapshots().await.len()), ("- - -", 0));
        team.run("first", json!({})).await;
        assert_eq!(team.held().await, "- 1 -");
        assert_eq!(team.snapshots().await, ["web-0-snapshot"]);
        expect![[r#"
            index -, selected nothing
            undecided: different resource snapshot versions are observed across clusters
            m1 -: pending
            m2 0: available
            m3 -: pending
        "#]]
        .assert_eq(&team.told().await);
        team.approve("first-after-canary").await;
        team.fleet.pass(10).await;
        assert_eq!(team.open_requests().await, ["first-before-prod"]);
        assert_eq!(team.held().await, "- 1 -");
        team.ends("first").await;
        assert_eq!(team.held().await, "1 1 1");
        let completed = team.told().await;
        expect![[r#"
            index 0, selected all
            completed
            m1 0: available
            m2 0: available
            m3 0: available
        "#]]
        .assert_eq(&completed);
        // A hub edit alone changes nothing, not even the status.
        team.edit("2").await;
        team.fleet.pass(60).await;
        assert_eq!(team.held().await, "1 1 1");
        assert_eq!(team.told().await, completed);
        assert_eq!(team.snapshots().await.len(), 1);
        team.run("second", json!({})).await;
        assert_eq!(team.held().await, "1 2 1");
        expect![[r#"
            index -, selected nothing
            undecided: different resource snapshot versions are observed across clusters
            m1 0: available
            m2 1: available
            m3 0: available
        "#]]
        .assert_eq(&team.told().await);
        team.ends("second").await;
        assert_eq!(team.held().await, "2 2 2");
        assert_eq!(team.told().await, completed.replace('0', "1"));
        // Back by index; the newest stays the newest, and a run without one takes it again.
        team.run("back", json!({"resourceSnapshotIndex": "0"})).await;
        assert_eq!(team.held().await, "2 1 2");
        team.ends("back").await;
        assert_eq!(team.held().await, "1 1 1");
        assert_eq!(team.told().await, completed);
        team.rolls_out("again", json!({})).await;
        assert_eq!(team.held().await, "2 2 2");
        assert_eq!(team.snapshots().await, ["web-0-snapshot", "web-1-snapshot"]);
        assert_eq!(team.status("again").await["resourceSnapshotIndexUsed"], "1");
    }
}

// checklist 13.7 Initialize -> Run -> Stop -> Run with approvals
#[tokio::test(start_paused = true)]
async fn a_run_is_initialized_started_stopped_and_resumed_between_approvals() {
    for scope in SCOPES {
        let team = Team::begin(scope).await;
        team.run("r", json!({"state": "Initialize"})).await;
        team.fleet.pass(60).await;
        assert_eq!((team.held().await.as_str(), team.open_requests().await.len()), ("- - -", 0));
        team.set_state("r", "Run").await;
        assert_eq!(team.held().await, "- 1 -");
        team.set_state("r", "Stop").await;
        team.approve("r-after-canary").await;
        team.fleet.pass(60).await;
        let told = said(&team.status("r").await["conditions"], "Progressing");
        assert_eq!(told, "False UpdateRunStopped: The update run has been stopped");
        assert_eq!(team.open_requests().await, [] as [String; 0]);
        team.set_state("r", "Run").await;
        assert_eq!(team.open_requests().await, ["r-before-prod"]);
        team.set_state("r", "Stop").await;
        team.approve("r-before-prod").await;
        team.fleet.pass(60).await;
        assert_eq!(team.held().await, "- 1 -");
        team.set_state("r", "Run").await;
        team.ends("r").await;
        assert_eq!(team.held().await, "1 1 1");
    }
}

// checklist 13.7 maxConcurrency 3 (all in parallel) and 70% of 3 (=2)
#[tokio::test(start_paused = true)]
async fn as_many_real_members_as_allowed_are_updated_at_once() {
    for scope in SCOPES {
        let team = Team::begin(scope).await;
        for (name, most) in [("three", json!(3)), ("most", json!("70%"))] {
            let all = json!({"name": "all", "labelSelector": {}, "maxConcurrency": most});
            team.strategy(name, json!([all])).await;
        }
        let begun = team.fleet.env.now();
        team.rolls_out("three", json!({"stagedRolloutStrategyName": "three"})).await;
        team.edit("2").await;
        team.rolls_out("most", json!({"stagedRolloutStrategyName": "most"})).await;
        assert_eq!(team.held().await, "2 2 2");
        // The reference suite allows 20 s and 40 s.
        assert!(team.fleet.env.now().duration_since(begun).as_secs() < 60);
        let status = team.status("three").await;
        let clusters =
            status["stagesStatus"][0]["clusters"].as_array().cloned().unwrap_or_default();
        let mut started: Vec<_> =
            clusters.iter().map(|c| c["conditions"][0]["lastTransitionTime"].clone()).collect();
        started.dedup();
        assert_eq!((clusters.len(), started.len()), (3, 1), "{clusters:?}");
    }
}

// checklist 13.7 RollingUpdate -> External: status unchanged, hub edits not rolled out, new
// run creates next index
#[tokio::test(start_paused = true)]
async fn a_placement_that_rolled_by_itself_is_given_to_runs() {
    for scope in SCOPES {
        let all = json!({"placementType": "PickAll"});
        let rolling = json!({"policy": all, "strategy": {"type": "RollingUpdate",
            "rollingUpdate": {"unavailablePeriodSeconds": 1}}});
        let team = Team::placing(scope, rolling).await;
        team.fleet.pass(60).await;
        assert_eq!(team.held().await, "1 1 1");
        let completed = team.told().await;
        expect![[r#"
            index 0, selected all
            completed
            m1 0: available
            m2 0: available
            m3 0: available
        "#]]
        .assert_eq(&completed);
        // A person takes the old strategy out and puts the new one in.
        let patch = json!({"spec": {"strategy": {"type": "External", "rollingUpdate": null}}});
        team.fleet.clusters.hub.patch(scope.placements, scope.space, "web", patch).await;
        team.fleet.pass(30).await;
        assert_eq!(team.told().await, completed);
        team.edit("2").await;
        team.fleet.pass(120).await;
        assert_eq!((team.held().await, team.told().await), ("1 1 1".to_owned(), completed));
        team.run("r", json!({})).await;
        assert_eq!(team.snapshots().await, ["web-0-snapshot", "web-1-snapshot"]);
        assert_eq!(team.held().await, "1 2 1");
        team.ends("r").await;
        assert_eq!(team.held().await, "2 2 2");
        // What is there already can be named.
        team.rolls_out("back", json!({"resourceSnapshotIndex": "0"})).await;
        assert_eq!(team.held().await, "1 1 1");
    }
}

// checklist 13.7 ReportDiff: diffs reported, nothing placed
#[tokio::test(start_paused = true)]
async fn a_comparison_is_rolled_out_without_changing_anything() {
    for scope in SCOPES {
        let mut spec = external(json!({"placementType": "PickAll"}));
        let apply = json!({"type": "ReportDiff", "comparisonOption": "PartialComparison"});
        spec["strategy"]["applyStrategy"] = apply;
        let team = Team::placing(scope, spec).await;
        // One member has something else there already.
        let m1 = team.fleet.clusters.member("m1");
        m1.apply("{apiVersion: v1, kind: Namespace, metadata: {name: app}}").await;
        m1.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: app}, data: {v: own}}")
            .await;
        team.rolls_out("r", json!({})).await;
        assert_eq!(team.held().await, "own - -");
        // The namespace is selected in one scope only.
        let told = team.told().await;
        let missing = "  differs Namespace app: / hub=(the whole object) member=\n";
        let selects_it = scope.space.is_empty();
        assert_eq!(told.matches(missing).count(), if selects_it { 2 } else { 0 });
        expect![[r#"
            index 0, selected all
            Scheduled=True/SchedulingPolicyFulfilled RolloutStarted=True/RolloutStarted Overridden=True/NoOverrideSpecified WorkSynchronized=True/WorkSynchronized DiffReported=True/DiffReportingCompleted
            m1 0: Scheduled=True/Scheduled RolloutStarted=True/RolloutStarted Overridden=True/NoOverrideSpecified WorkSynchronized=True/AllWorkSynced DiffReported=True/AllWorkHaveDiffReported
              differs ConfigMap c: /data/v hub=1 member=own
            m2 0: Scheduled=True/Scheduled RolloutStarted=True/RolloutStarted Overridden=True/NoOverrideSpecified WorkSynchronized=True/AllWorkSynced DiffReported=True/AllWorkHaveDiffReported
              differs ConfigMap c: / hub=(the whole object) member=
            m3 0: Scheduled=True/Scheduled RolloutStarted=True/RolloutStarted Overridden=True/NoOverrideSpecified WorkSynchronized=True/AllWorkSynced DiffReported=True/AllWorkHaveDiffReported
              differs ConfigMap c: / hub=(the whole object) member=
        "#]].assert_eq(&told.replace(missing, ""));
    }
}
