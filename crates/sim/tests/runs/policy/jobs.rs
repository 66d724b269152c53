//! Checks by Jobs on a hub with all its controllers. The stories play the members: a Work is what
//! they are sent, and its status what they report.

use flagship_api::condition::Generation;
use flagship_rules::policy::Adopted;
use flagship_rules::update_run::trusted::vouch;
use serde_json::{Value, json};

use super::checks::entries;
use super::clusters::policy;
use crate::update_run::story::{CLUSTER, SCOPES, Story, said};
use flagship_sim::testing::text;

const WORKS: &str = "works.placement.kubernetes-fleet.io";

/// A policy `prod` with one check of a stage, or of each of its clusters.
async fn checked(story: &Story, stage: &str, after: &str, then: &str) {
    let pod =
        json!({"restartPolicy": "Never", "containers": [{"name": "probe", "image": "probe:1"}]});
    let job = json!({"namespace": "web", "timeout": "5m",
        "template": {"spec": {"backoffLimit": 0, "template": {"spec": pod}}}});
    let spec = json!({"selects": {"stages": [stage]}, "failure": {"then": then},
        "checks": [{"name": "smoke", "after": after, "job": job}]});
    policy(story, "prod", spec).await;
}

/// The Works of checks in the namespace of a member.
fn sent(story: &Story, cluster: &str) -> Vec<Value> {
    let mut works = story.list(WORKS, &format!("fleet-member-{cluster}"));
    works.retain(|work| !work["metadata"]["annotations"]["flagship.dev/check"].is_null());
    works
}

/// A member reports the status of the one Job that it was sent.
async fn reports(story: &Story, cluster: &str, status: Value) {
    let works = sent(story, cluster);
    let [work] = works.as_slice() else { panic!("{cluster} was sent {works:?}") };
    let job = &work["spec"]["workload"]["manifests"][0];
    let observed = json!({"apiVersion": "batch/v1", "kind": "Job", "status": status});
    let identifier = json!({"ordinal": 0, "group": "batch", "version": "v1", "kind": "Job",
        "resource": "jobs", "namespace": "web", "name": job["metadata"]["name"]});
    let told = json!({"conditions": [], "manifestConditions": [{"identifier": identifier,
        "conditions": [], "backReportedStatus": {"observedStatus": observed,
            "observationTime": story.now()}}]});
    let (space, name) = (format!("fleet-member-{cluster}"), text(&work["metadata"]["name"]));
    story.user_patches(WORKS, &space, &name, "status", json!({"status": told})).await;
    story.soon().await;
}

fn ended(kind: &str, reason: &str, story: &Story) -> Value {
    json!({"startTime": story.now(), "conditions": [{"type": kind, "status": "True",
        "reason": reason, "lastTransitionTime": story.now()}]})
}

async fn completes(story: &Story, cluster: &str) {
    reports(story, cluster, ended("Complete", "CompletionsReached", story)).await;
}

/// The Job has failed; a moment later the agent says why.
async fn fails(story: &Story, cluster: &str, says: &str) {
    reports(story, cluster, ended("Failed", "BackoffLimitExceeded", story)).await;
    let works = sent(story, cluster);
    let name = text(&works[0]["metadata"]["name"]);
    let causes = json!([{"group": "batch", "kind": "Job", "namespace": "web", "name": name,
        "cause": "CHECK_FAILED", "says": says}]);
    let patch =
        json!({"metadata": {"annotations": {"flagship.dev/failure-causes": causes.to_string()}}});
    story.user_patches(WORKS, &format!("fleet-member-{cluster}"), &name, "", patch).await;
    story.soon().await;
}

#[tokio::test(start_paused = true)]
async fn a_stage_is_not_done_before_the_job_is_complete_on_each_of_its_clusters() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        checked(&story, "prod", "Stage", "Stop").await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        story.works("m2").await;
        story.works("m1").await;
        assert_eq!(sent(&story, "m1").len(), 0, "the stage is not updated yet");
        story.works("m3").await;
        story.soon().await;
        let told = story.said("r", "Progressing");
        assert_eq!(
            told,
            "True UpdateRunChecking: checks of stage prod are not done: smoke (policy prod): 0 of 2 Jobs are complete; the Job for m1 is sent, and m1 has not reported it yet"
        );
        assert_eq!(sent(&story, "m2").len(), 0, "its stage is not checked");
        completes(&story, "m1").await;
        reports(&story, "m3", json!({"startTime": story.now(), "active": 1})).await;
        let told = story.said("r", "Progressing");
        assert!(told.contains("1 of 2 Jobs are complete; Job web/r-smoke-"), "{told}");
        story.pass(200).await;
        assert!(story.stage("r", "prod")["endTime"].is_null());
        completes(&story, "m3").await;
        story.settle().await;
        assert!(story.said("r", "Succeeded").starts_with("True"), "{}", story.told("r"));
        assert_eq!(entries(&story), ["CheckPassed prod/smoke"]);
        // What is complete goes with the end of the run.
        assert_eq!((sent(&story, "m1").len(), sent(&story, "m3").len()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_fails_is_a_failure_and_its_last_lines_are_the_reason() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        checked(&story, "canary", "Stage", "Stop").await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        story.works("m2").await;
        story.soon().await;
        fails(&story, "m2", "container probe ended with exit code 1: 3 of 10 failed").await;
        story.settle().await;
        let told = story.said("r", "Succeeded");
        let job = text(&sent(&story, "m2")[0]["metadata"]["name"]);
        assert_eq!(
            told,
            format!(
                "False UpdateRunFailed: cannot continue the updateRun: stage `canary` has not proved itself: Checks failed under policy prod: CHECK_FAILED, check smoke: Job web/{job} on m2 failed after 0s, BackoffLimitExceeded: container probe ended with exit code 1: 3 of 10 failed"
            )
        );
        assert_eq!(entries(&story), ["CheckFailed prod/smoke"]);
        assert_eq!(story.holds()[0], "m1 Scheduled", "nothing else began");
        // People may look at what has failed for as long as there is the run.
        story.pass(3600).await;
        assert_eq!(sent(&story, "m2").len(), 1);
        story.delete(&scope.runs(), scope.space, "r").await;
        story.settle().await;
        assert_eq!(sent(&story, "m2").len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_says_nothing_about_its_job_has_failed_the_check() {
    let story = Story::begin(CLUSTER).await;
    checked(&story, "canary", "Cluster", "Stop").await;
    story.two_stages().await;
    story.run("r", json!({"state": "Run"})).await;
    story.works("m2").await;
    story.pass(355).await;
    let told = story.said("r", "Progressing");
    assert!(told.starts_with("True UpdateRunChecking"), "{told}");
    story.pass(10).await;
    assert!(story.said("r", "Succeeded").starts_with("False"), "{}", story.told("r"));
    let told = said(&story.stage("r", "canary")["clusters"][0]["conditions"], "Succeeded");
    assert!(
        told.ends_with("CHECK_FAILED, check smoke: the Job for m2 is sent, and m2 has not reported it yet, and had to be done within 5m"),
        "{told}"
    );
    // What was not decided is of no use to anybody.
    story.settle().await;
    assert_eq!(sent(&story, "m2").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_new_leader_goes_on_with_the_jobs_of_the_last_one() {
    let mut story = Story::begin(CLUSTER).await;
    checked(&story, "canary", "Cluster", "Stop").await;
    story.two_stages().await;
    story.run("r", json!({"state": "Run"})).await;
    story.works("m2").await;
    story.pass(200).await;
    let before = sent(&story, "m2");
    story.kill("hub").await;
    story.start_as("hub").await;
    story.settle().await;
    assert_eq!(sent(&story, "m2"), before, "the same Job, not another");
    // What a run is stopped over goes on, and is looked at when the run does.
    story.set_state("r", "Stop").await;
    story.kill("hub").await;
    completes(&story, "m2").await;
    story.start_as("hub").await;
    story.settle().await;
    assert!(story.said("r", "Progressing").starts_with("False UpdateRunStopped"));
    story.set_state("r", "Run").await;
    story.settle().await;
    assert!(story.holds()[0].starts_with("m1 Bound"), "{:?}", story.holds());
    // A run that is deleted while no hub is there takes its Jobs with it, too.
    story.kill("hub").await;
    let run = json!({"metadata": {"finalizers": null}});
    story.patch(&story.scope.runs(), "", "r", run).await;
    story.delete(&story.scope.runs(), "", "r").await;
    assert_eq!(sent(&story, "m2").len(), 1);
    story.start_as("hub").await;
    story.settle().await;
    assert_eq!(sent(&story, "m2").len(), 0);
}

const ADOPTED: &str = "flagship.dev/adopted-policies";

/// Whoever may patch a run writes another Job into its copy of the policies; whoever may write its
/// status, too, has that vouch for the copy. No member is sent anything.
#[tokio::test(start_paused = true)]
async fn a_job_that_somebody_writes_on_a_run_reaches_no_member() {
    for scope in SCOPES {
        let story = Story::begin(scope).await;
        checked(&story, "canary", "Stage", "Stop").await;
        story.two_stages().await;
        story.run("r", json!({"state": "Run"})).await;
        let copy = text(&story.object("r")["metadata"]["annotations"][ADOPTED]);
        let forged = copy.replace("probe:1", "evil:1");
        assert_ne!(copy, forged);
        let patch = json!({"metadata": {"annotations": {ADOPTED: forged}}});
        story.user_patches(&scope.runs(), scope.space, "r", "", patch).await;
        story.works("m2").await;
        story.pass(120).await;
        assert_eq!(sent(&story, "m2").len(), 0);
        let told = story.said("r", "Progressing");
        assert!(told.starts_with("False UpdateRunPoliciesChanged"), "{told}");

        let mut status = story.status("r");
        let forged: Adopted = serde_json::from_str(&forged).unwrap();
        vouch(&mut status, &forged, None, Generation(1), story.env.now());
        let patch = json!({"status": {"conditions": status.conditions}});
        story.user_patches(&scope.runs(), scope.space, "r", "status", patch).await;
        story.pass(3600).await;
        assert_eq!(sent(&story, "m2").len(), 0);
        let told = story.said("r", "Progressing");
        assert!(
            told.contains("smoke (policy prod): its Jobs are not sent: check `smoke` of rollout policy `prod` is not what it was"),
            "{told}"
        );
    }
}

/// A run that follows no policy is not given a Job by a copy of one that is not there.
#[tokio::test(start_paused = true)]
async fn a_job_of_a_policy_that_is_not_there_reaches_no_member() {
    let story = Story::begin(CLUSTER).await;
    checked(&story, "canary", "Stage", "Stop").await;
    story.two_stages().await;
    story.run("r", json!({"state": "Run"})).await;
    let rpol = "rolloutpolicies.flagship.dev";
    let policy = story.get(rpol, "", "prod");
    story.delete(rpol, "", "prod").await;
    story.works("m2").await;
    story.pass(3600).await;
    assert_eq!(sent(&story, "m2").len(), 0);
    let told = story.said("r", "Progressing");
    assert!(
        told.contains("its Jobs are not sent: rollout policy `prod`, which has them, is gone"),
        "{told}"
    );
    // It goes on when the policy is back.
    story.create(rpol, json!({"metadata": {"name": "prod"}, "spec": policy["spec"]})).await;
    story.pass(60).await;
    completes(&story, "m2").await;
    story.settle().await;
    assert!(story.holds()[0].starts_with("m1 Bound"), "{:?}", story.holds());
}
