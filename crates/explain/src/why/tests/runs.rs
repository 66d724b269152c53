//! Runs that wait, stop, fail or move: each section of the troubleshooting guides.

use expect_test::expect;
use flagship_api::condition::Generation;
use serde_json::{Value, json};

use super::*;

const VALID: &str = "cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client error: ";

fn failed(message: &str) -> Facts {
    run(
        "Run",
        json!({"conditions": [
            initialized(),
            condition("Progressing", "False", "UpdateRunFailed", "The stages are aborted due to a non-recoverable error", 60),
            condition("Succeeded", "False", "UpdateRunFailed", message, 60),
        ]}),
    )
}

fn waiting(task: Value, seconds: i64) -> Facts {
    let strategy = json!({"stages": [{
        "name": "staging",
        "afterStageTasks": [{"type": "Approval"}, {"type": "TimedWait", "waitTime": "5m0s"}],
    }]});
    run(
        "Run",
        json!({
            "conditions": [initialized(), condition("Progressing", "False", "UpdateRunWaiting", "", seconds)],
            "stagedUpdateStrategySnapshot": strategy,
            "stagesStatus": [{
                "stageName": "staging",
                "clusters": [],
                "startTime": ago(500),
                "afterStageTaskStatus": task,
                "conditions": [condition("Progressing", "False", "StageUpdatingWaiting", "", seconds)],
            }],
        }),
    )
}

#[test]
fn every_final_message_has_a_cause() {
    for (detail, cause) in [
        ("parent placement not found", Cause::PlacementMissing),
        (
            "parent placement does not have an external rollout strategy, current strategy: RollingUpdate",
            Cause::PlacementNotExternal,
        ),
        ("referenced updateStrategy not found: `/example-strategy`", Cause::StrategyMissing),
        ("cluster `member-1` appears in more than one stages", Cause::ClusterInTwoStages),
        (
            "some clusters are not placed in any stage, total 1, showing up to 10: member3",
            Cause::ClusterInNoStage,
        ),
        (
            "no resourceSnapshots with index `1` found for placement `/example-placement`",
            Cause::SnapshotMissing,
        ),
        (
            "the resource snapshot with index `1` that the updateRun rolls out is gone: it, or its placement, was deleted meanwhile; create another updateRun",
            Cause::SnapshotMissing,
        ),
        (
            "the before stage tasks are invalid, updateStrategy: `/s`, stage: x, err: e",
            Cause::StrategyInvalid,
        ),
        (
            "policy snapshot `example-placement-0` not fully scheduled yet",
            Cause::PlacementNotScheduled,
        ),
        ("anything else", Cause::RunFailed),
    ] {
        let found = explain(&failed(&format!("{VALID}{detail}")));
        assert_eq!((found.cause, found.because.as_str()), (cause, detail));
        assert_eq!(found.state, State::Failed);
        assert!(!found.hints.is_empty(), "{detail}");
    }
}

#[test]
fn a_missing_snapshot_is_explained_as_the_guide_does() {
    let message = format!(
        "{VALID}no resourceSnapshots with index `1` found for placement `/example-placement`"
    );
    let facts = run(
        "Run",
        json!({"conditions": [condition("Initialized", "False", "UpdateRunInitializedFailed", &message, 5)]}),
    );
    expect![[r#"
        example-run could not be initialized: the resource snapshot does not exist.
        failed SNAPSHOT_MISSING: the resource snapshot does not exist
        because no resourceSnapshots with index `1` found for placement `/example-placement`
          run example-run: Initialized=False  UpdateRunInitializedFailed
        look: see which versions exist: kubectl --context hub get clusterresourcesnapshots -l kubernetes-fleet.io/parent-CRP=example-placement
        then: roll out what is on the hub now: flagship run example-placement
    "#]]
    .assert_eq(&read(&facts));
}

#[test]
fn a_preempted_run_names_the_one_that_took_over() {
    let mut facts = failed(
        "cannot continue the updateRun: failed to process the request due to a client error: the binding of the updating cluster `member2` in the stage `staging` is not up-to-date with the desired status, please check the status of binding `example-placement-member2-e1a567da` and see if there is a concurrent updateRun referencing the same placement and updating the same cluster",
    );
    let signal = |run: &str| {
        let message = format!(
            "Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 1, updateRun: {run}"
        );
        json!({"conditions": [condition("RolloutStarted", "True", "RolloutStarted", &message, 60)]})
    };
    facts.bindings = vec![binding("member2", signal("example-run-1"))];
    let found = explain(&facts);
    assert_eq!(
        found.headline,
        "example-run failed: example-run-1 took over member2 in stage staging."
    );
    assert_eq!(found.hints[0].command, "flagship status example-run-1");
    facts.rivals = vec!["example-run-1".into()];
    assert_eq!(explain(&facts).hints[0].command, "flagship watch example-run-1");
    // Whoever holds the binding today came later: the records say who took it.
    facts.run.as_mut().unwrap().status.stages_status = serde_json::from_value(json!([{
        "stageName": "staging", "clusters": [{"clusterName": "member2", "conditions": [
            condition("Started", "True", "ClusterUpdatingStarted", "", 120)]}],
    }]))
    .unwrap();
    let rival = |name: &str, since: i64| flagship_rules::update_run::OtherRun {
        name: name.to_owned(),
        version: "1".to_owned(),
        started: [("member2".to_owned(), ago(since).parse().unwrap())].into(),
        ..flagship_rules::update_run::OtherRun::departed(name)
    };
    facts.others = vec![rival("too-early", 300), rival("example-run-1", 90), rival("later", 10)];
    facts.bindings = vec![binding("member2", signal("later"))];
    let found = explain(&facts);
    assert_eq!(
        found.headline,
        "example-run failed: example-run-1 took over member2 in stage staging."
    );
    assert_eq!(found.evidence[1].says, "RolloutStarted=True  by later since");
    facts.others.clear();
    // Nobody else signed: a hand has been on the binding.
    facts.bindings = vec![binding("member2", signal("example-run"))];
    let found = explain(&facts);
    assert_eq!(found.cause, Cause::Preempted);
    assert_eq!(
        found.hints[0].command,
        "kubectl --context hub get crb example-placement-member2-e1a567da -o yaml"
    );
}

#[test]
fn a_hub_that_takes_no_report_down_is_silent_and_a_single_stale_member_is_not() {
    let told = |heard: [i64; 2], reported: [i64; 2]| {
        let mut facts = run("Run", json!({"conditions": [initialized()]}));
        for (at, name) in ["member1", "member2"].into_iter().enumerate() {
            let reported = Some(ago(reported[at]).parse().unwrap());
            facts.clusters.insert(name.into(), ClusterFacts { reported, ..member(heard[at]) });
        }
        let found = explain(&facts).cause;
        // Where reports are not asked for, they would not have changed the answer.
        if !wants_reports(None, &facts.clusters, facts.now) {
            facts.clusters.values_mut().for_each(|member| member.reported = None);
            assert_eq!(explain(&facts).cause, found);
        }
        assert!(!wants_reports(Some(facts.now), &facts.clusters, facts.now), "a lease is enough");
        found
    };
    assert_eq!(told([300, 310], [10, 5]), Cause::HubSilent);
    assert_ne!(told([300, 10], [10, 10]), Cause::HubSilent);
    assert_ne!(told([300, 310], [300, 310]), Cause::HubSilent, "they are all away");
}

#[test]
fn a_run_without_a_state_waits_to_be_started() {
    let facts = run("Initialize", json!({"conditions": [initialized()]}));
    expect![[r#"
        example-run is initialized and has not been started.
        waiting NOT_STARTED: spec.state is Initialize: the stages are computed, and nothing is rolled out
          run example-run: Initialized=True  UpdateRunInitializedSuccessfully
        fix: start it: flagship resume example-run
    "#]]
    .assert_eq(&read(&facts));
}

#[test]
fn an_open_approval_comes_before_a_wait() {
    let created =
        condition("ApprovalRequestCreated", "True", "StageTaskApprovalRequestCreated", "", 90);
    let facts = waiting(
        json!([
            {"type": "Approval", "approvalRequestName": "example-run-after-staging", "conditions": [created]},
            {"type": "TimedWait"},
        ]),
        90,
    );
    expect![[r#"
        example-run waits for an approval after stage staging for 1m30s.
        waiting APPROVAL_MISSING: nobody has approved example-run-after-staging
        because the stage also waits until 2026-02-11T22:29:30Z
          run example-run: Progressing=False  UpdateRunWaiting
          stage staging: Progressing=False  StageUpdatingWaiting
          approval example-run-after-staging: not approved
        fix: approve it: flagship approve example-run staging
        look: see the request: kubectl --context hub describe careq example-run-after-staging
    "#]]
    .assert_eq(&read(&facts));
}

#[test]
fn an_approval_for_generation_zero_is_found_out() {
    let task = json!([{"type": "Approval", "approvalRequestName": "example-run-after-staging"}]);
    let mut facts = waiting(task, 90);
    let approved = json!({"conditions": [{
        "type": "Approved", "status": "True", "reason": "approved", "message": "",
        "observedGeneration": 0, "lastTransitionTime": ago(30),
    }]});
    facts.approvals.insert(
        "example-run-after-staging".into(),
        ApprovalFacts {
            generation: Generation(1),
            status: serde_json::from_value(approved).unwrap(),
        },
    );
    assert_eq!(explain(&facts).cause, Cause::ApprovalStale);
}

#[test]
fn a_timed_wait_says_when_it_ends() {
    let done =
        condition("ApprovalRequestApproved", "True", "StageTaskApprovalRequestApproved", "", 60);
    let task = json!([
        {"type": "Approval", "approvalRequestName": "a", "conditions": [done]},
        {"type": "TimedWait"},
    ]);
    expect![[r#"
        example-run waits 3m31s more after stage staging.
        waiting TIMED_WAIT: the wait after stage staging ends at 2026-02-11T22:29:30Z
          run example-run: Progressing=False  UpdateRunWaiting
          stage staging: Progressing=False  StageUpdatingWaiting
    "#]]
    .assert_eq(&read(&waiting(task, 90)));
}

#[test]
fn a_stopped_run_is_resumed() {
    let facts = run(
        "Stop",
        json!({"conditions": [initialized(), condition("Progressing", "False", "UpdateRunStopped", "The update run has been stopped", 20)]}),
    );
    let found = explain(&facts);
    assert_eq!((found.cause, found.state), (Cause::Stopped, State::Waiting));
    assert_eq!(found.hints[0].command, "flagship resume example-run");
}

#[test]
fn a_run_whose_policies_were_changed_says_what_follows() {
    let follows = condition(
        "FollowsPolicies",
        "True",
        "RolloutPoliciesAdopted",
        "follows rollout policy night; the copy of them in annotation flagship.dev/adopted-policies has the SHA-256 0123",
        600,
    );
    let facts = run("Run", json!({"conditions": [initialized(), follows]}));
    let found = explain(&facts);
    assert_eq!((found.cause, found.state), (Cause::PoliciesChanged, State::Stuck));
    assert!(found.what.contains("the update run follows rollout policy night"), "{}", found.what);
    assert_eq!(found.hints[1].command, "kubectl --context hub delete csur example-run");
}

#[test]
fn a_run_nobody_looks_at_means_a_silent_hub() {
    let facts = run("Run", json!({"conditions": []}));
    expect![[r#"
        example-run does not move: the hub's controllers have been silent for 10m00s.
        stuck HUB_SILENT: the hub's controllers do not answer
        because generation 1 of the run has not been looked at
          run example-run: no conditions yet
        fix: start the embedded fleet: flagship up
        or: look at the controllers on a real hub: kubectl --context hub -n fleet-system get pods
    "#]]
    .assert_eq(&read(&facts));
}

#[test]
fn a_run_that_is_not_there_is_said_so() {
    let found = explain(&facts(Subject::Run(ObjectKey::namespaced("app", "x"))));
    assert_eq!(found.headline, "there is no run app/x.");
    assert_eq!(found.hints[0].command, "kubectl --context hub -n app get sur");
}

/// A run that updates these clusters of stage `canary`, and is stuck or not.
fn updating(clusters: &[&str], state: &str, reason: &str) -> Facts {
    let started = condition("Started", "True", "ClusterUpdatingStarted", "", 320);
    let clusters: Vec<Value> =
        clusters.iter().map(|name| json!({"clusterName": name, "conditions": [started]})).collect();
    run(
        state,
        json!({
            "conditions": [initialized(), condition("Progressing", "False", reason, "", 20)],
            "stagesStatus": [{"stageName": "canary", "clusters": clusters, "startTime": ago(320),
                "conditions": [condition("Progressing", "True", "StageUpdatingStarted", "", 320)]}],
        }),
    )
}

/// A binding whose Deployment is not available.
fn unavailable(cluster: &str) -> BindingFacts {
    let not = condition("Available", "False", "NotAllWorkAreAvailable", "", 300);
    let failed = json!({"group": "apps", "version": "v1", "kind": "Deployment",
        "name": "web", "namespace": "app",
        "condition": condition("Available", "False", "ManifestNotAvailableYet", "x", 300)});
    binding(cluster, json!({"conditions": [not], "failedPlacements": [failed]}))
}

fn report(cause: &str) -> Vec<flagship_rules::diagnosis::report::Reported> {
    let annotation = json!([{"group": "apps", "kind": "Deployment", "namespace": "app",
        "name": "web", "cause": cause, "container": "web", "says": "container web: as reported"}]);
    flagship_rules::diagnosis::report::read(&annotation.to_string())
}

#[test]
fn what_agents_report_makes_why_complete_from_the_hub_alone() {
    let mut facts = updating(&["member2"], "Run", "UpdateRunStuck");
    facts.clusters = [("member2".to_owned(), member(5))].into();
    facts.bindings = vec![unavailable("member2")];
    facts.reports = [("member2".to_owned(), report("CRASH_LOOP"))].into();
    expect![[r#"
        example-run is stuck in stage canary: member2 has not become available for 5m20s.
        stuck CRASH_LOOP: Deployment app/web starts and ends again and again
        because container web: as reported
          run example-run: Progressing=False  UpdateRunStuck
          binding example-placement-member2-e1a567da: Available=False  NotAllWorkAreAvailable
          work fleet-member-member2/example-placement-work: Available=False  ManifestNotAvailableYet
          object Deployment app/web  (member2): not available
        look: read what the container said: kubectl --context member2 -n app logs deployment.apps/web -c web --previous
        then: roll the fix out: flagship run example-placement
    "#]]
    .assert_eq(&read(&facts));
    // A cause of a newer agent is no reason to say nothing.
    facts.reports = [("member2".to_owned(), report("FROM_THE_FUTURE"))].into();
    let found = explain(&facts);
    assert_eq!(
        (found.cause, found.because.as_str()),
        (Cause::ObjectNotReady, "container web: as reported")
    );
}

#[test]
fn many_stuck_clusters_are_counted_by_cause_and_the_most_frequent_is_explained() {
    let names: Vec<String> = (1..=150).map(|n| format!("member{n}")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut facts = updating(&all, "Run", "UpdateRunStuck");
    for name in &names {
        let silent = matches!(name.as_str(), "member1" | "member10");
        facts.clusters.insert(name.clone(), member(if silent { 900 } else { 5 }));
        facts.bindings.push(unavailable(name));
        facts.reports.insert(name.clone(), report("IMAGE_NOT_FOUND"));
    }
    let found = explain(&facts);
    assert_eq!(
        found.headline,
        "example-run is stuck in stage canary: member2 has not become available for 5m20s. 150 stuck: 148 IMAGE_NOT_FOUND, 2 HEARTBEAT_STALE."
    );
    assert_eq!(found.cause, Cause::ImageNotFound);
    assert_eq!(found.stuck[1].clusters, ["member1", "member10"]);
    assert_eq!(causes(&facts).len(), 150);
    // Few members are looked at, whoever has access: those the answer is about.
    let looks: Vec<String> = worth_a_look(&facts).into_iter().map(|(name, _)| name).collect();
    assert_eq!(looks, ["member2", "member3", "member4"]);
}

#[test]
fn a_cluster_that_is_merely_slow_does_not_hide_one_that_cannot_start() {
    let mut facts = updating(&["member1", "member2"], "Run", "UpdateRunProgressing");
    facts.clusters = [("member1".to_owned(), member(5)), ("member2".to_owned(), member(5))].into();
    facts.bindings = vec![unavailable("member1"), unavailable("member2")];
    facts.reports = [("member2".to_owned(), report("IMAGE_NOT_FOUND"))].into();
    let found = explain(&facts);
    assert_eq!((found.cause, found.state), (Cause::ImageNotFound, State::Waiting));
    assert_eq!(
        found.headline,
        "example-run is updating 2 clusters in stage canary, member2 for 5m20s now."
    );
}

#[test]
fn stuck_is_never_in_progress() {
    let mut facts = updating(&["member2"], "Run", "UpdateRunStuck");
    facts.clusters = [("member2".to_owned(), member(5))].into();
    let begun = condition("RolloutStarted", "True", "RolloutStarted", "", 320);
    facts.bindings = vec![binding("member2", json!({"conditions": [begun]}))];
    let found = explain(&facts);
    assert_eq!((found.cause, found.state), (Cause::NotReported, State::Stuck));
    // It has become available, and the run has not noticed yet.
    let available = condition("Available", "True", "x", "", 1);
    facts.bindings = vec![binding("member2", json!({"conditions": [available]}))];
    let found = explain(&facts);
    assert_eq!((found.cause, found.state), (Cause::InProgress, State::Waiting));
}

#[test]
fn a_stuck_run_that_was_told_to_stop_says_both() {
    let mut facts = updating(&["member2"], "Stop", "UpdateRunStuck");
    facts.clusters = [("member2".to_owned(), member(5))].into();
    facts.bindings = vec![unavailable("member2")];
    assert_eq!(
        explain(&facts).headline,
        "example-run was told to stop and is stuck in stage canary: member2, begun before the stop, has not become available for 5m20s."
    );
}

#[test]
fn ten_of_three_hundred_do_not_read_as_if_they_were_all() {
    let names: Vec<String> = (1..=10).map(|n| format!("member{n}")).collect();
    let detail = format!(
        "some clusters are not placed in any stage, total 300, showing up to 10: {}",
        names.join(", ")
    );
    let found = explain(&failed(&format!("{VALID}{detail}")));
    assert!(
        found.headline.contains("no stage selects 300 clusters, among them member1, member2"),
        "{}",
        found.headline
    );
}

#[test]
fn a_run_whose_clusters_changed_names_who_came_and_who_went() {
    let mut facts = updating(&["member1", "member2"], "Run", "UpdateRunFailed");
    let message = "cannot continue the updateRun: failed to process the request due to a client error: the number of clusters in the stage `canary` has changed, new: 2, existing: 2";
    let failed = condition("Succeeded", "False", "UpdateRunFailed", message, 60);
    let conditions = json!([initialized(), failed]);
    let run = facts.run.as_mut().unwrap();
    run.status.conditions = serde_json::from_value(conditions).unwrap();
    facts.placement = Some(PlacementFacts::default());
    facts.bindings = vec![binding("member2", json!({})), binding("member10", json!({}))];
    let found = explain(&facts);
    assert_eq!(found.cause, Cause::ClustersChanged);
    assert_eq!(
        found.headline,
        "example-run failed: member10 joined and member1 left while the run was under way."
    );
}
