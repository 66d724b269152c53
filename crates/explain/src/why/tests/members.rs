//! From a cluster that does not get ready to the pod, the refusal or the silence behind it.

use expect_test::expect;
use serde_json::{Value, json};

use super::*;

fn updating_member2(reason: &str) -> Facts {
    let started =
        condition("Started", "True", "ClusterUpdatingStarted", "Cluster update started", 312);
    let mut facts = run(
        "Run",
        json!({
            "conditions": [initialized(), condition("Progressing", "False", reason, "", 12)],
            "stagesStatus": [{
                "stageName": "staging",
                "startTime": ago(312),
                "clusters": [{"clusterName": "member2", "conditions": [started]}],
                "conditions": [condition("Progressing", "True", "StageUpdatingStarted", "", 312)],
            }],
        }),
    );
    facts.clusters.insert("member2".into(), member(5));
    facts
}

fn failing(kind: &str, reason: &str, message: &str) -> Value {
    let summary =
        if kind == "Applied" { "NotAllWorkHaveBeenApplied" } else { "NotAllWorkAreAvailable" };
    json!({
        "conditions": [condition(kind, "False", summary, "", 300)],
        "failedPlacements": [{
            "group": "apps", "version": "v1", "kind": "Deployment",
            "name": "nginx-deployment", "namespace": "test-namespace",
            "condition": condition(kind, "False", reason, message, 300),
        }],
    })
}

fn unavailable(view: MemberView) -> Facts {
    let mut facts = updating_member2("UpdateRunStuck");
    facts.bindings = vec![binding(
        "member2",
        failing(
            "Available",
            "ManifestNotAvailableYet",
            "Manifest is not yet available; Fleet will check again later",
        ),
    )];
    facts.members.insert("member2".into(), view);
    facts
}

fn pod(container: Value) -> MemberView {
    MemberView {
        object: Some(json!({"spec": {"replicas": 3}, "status": {"replicas": 3}})),
        pods: vec![json!({
            "metadata": {"name": "nginx-deployment-5d9874b8b9-gnmm2"},
            "status": {"containerStatuses": [container]},
        })],
        ..MemberView::default()
    }
}

fn waiting_for(reason: &str, message: &str) -> MemberView {
    pod(json!({
        "name": "nginx", "image": "nginx:1.28:latest", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": reason, "message": message}},
    }))
}

#[test]
fn the_stuck_rollout_of_the_guide_ends_at_the_image() {
    let mut facts = unavailable(waiting_for("InvalidImageName", ""));
    facts.proven = vec!["0".into()];
    expect![[r#"
        example-run is stuck in stage staging: member2 has not become available for 5m12s.
        stuck IMAGE_NAME_INVALID: Deployment test-namespace/nginx-deployment cannot start a pod
        because container nginx: image "nginx:1.28:latest" is not a valid reference
          run example-run: Progressing=False  UpdateRunStuck
          binding example-placement-member2-e1a567da: Available=False  NotAllWorkAreAvailable
          work fleet-member-member2/example-placement-work: Available=False  ManifestNotAvailableYet
          object Deployment test-namespace/nginx-deployment  (member2): 0/3 ready
          pod nginx-deployment-5d9874b8b9-gnmm2: InvalidImageName
        fix: correct the image on the hub: kubectl --context hub -n test-namespace set image deployment.apps/nginx-deployment nginx=IMAGE
        then: roll the fix out: flagship run example-placement
        or: go back to the last good version: flagship rollback example-placement
    "#]]
    .assert_eq(&read(&facts));
}

#[test]
fn nobody_is_sent_back_to_a_version_that_never_was() {
    let mut facts = unavailable(waiting_for("InvalidImageName", ""));
    let offered = |facts: &Facts| explain(facts).hints.iter().any(|hint| hint.lead == "or");
    assert!(!offered(&facts));
    facts.run.as_mut().unwrap().status.resource_snapshot_index_used = "1".into();
    facts.proven = vec!["1".into()];
    assert!(!offered(&facts), "that is the very one that fails");
    facts.proven.push("0".into());
    assert!(offered(&facts));
}

#[test]
fn what_keeps_a_container_from_running_is_told_apart() {
    for (reason, message, cause) in [
        ("ErrImagePull", "manifest for nginx:9 not found: manifest unknown", Cause::ImageNotFound),
        (
            "ImagePullBackOff",
            "pull access denied, repository does not exist or may require authorization",
            Cause::ImagePullDenied,
        ),
        ("ErrImagePull", "dial tcp: i/o timeout", Cause::ImagePullFailed),
        ("CrashLoopBackOff", "back-off 5m0s restarting failed container", Cause::CrashLoop),
        ("CreateContainerConfigError", "configmap \"app\" not found", Cause::ContainerConfig),
    ] {
        assert_eq!(explain(&unavailable(waiting_for(reason, message))).cause, cause, "{message}");
    }
    let unready = pod(json!({"name": "nginx", "ready": false, "state": {"running": {}}}));
    assert_eq!(explain(&unavailable(unready)).cause, Cause::PodNotReady);
}

#[test]
fn a_pod_without_a_node_says_what_the_scheduler_said() {
    let words = "0/2 nodes are available: 2 Insufficient cpu.";
    let view = MemberView {
        pods: vec![json!({
            "metadata": {"name": "p"},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}]},
        })],
        ..MemberView::default()
    };
    let found = explain(&unavailable(view));
    assert_eq!((found.cause, found.because.as_str()), (Cause::PodUnschedulable, words));
}

#[test]
fn no_pod_at_all_sends_us_to_the_events() {
    for (message, cause) in [
        (
            "pods \"x\" is forbidden: exceeded quota: compute, requested: pods=1",
            Cause::QuotaExceeded,
        ),
        ("admission webhook \"deny.example.com\" denied the request: no", Cause::WebhookDenied),
        ("pods \"x\" is forbidden: error looking up service account", Cause::PodCreationFailed),
    ] {
        let event = json!({"type": "Warning", "reason": "FailedCreate", "message": message});
        let view = MemberView { events: vec![event], ..MemberView::default() };
        let found = explain(&unavailable(view));
        assert_eq!((found.cause, found.because.as_str()), (cause, message));
    }
}

#[test]
fn a_member_that_cannot_be_looked_at_is_said_to_be_so() {
    let view = MemberView {
        blind: "no context member2 in the kubeconfig".into(),
        ..MemberView::default()
    };
    let found = explain(&unavailable(view));
    assert_eq!(found.cause, Cause::ObjectNotReady);
    assert_eq!(
        found.because,
        "member2 could not be looked at: no context member2 in the kubeconfig"
    );
}

#[test]
fn refusals_of_a_member_have_causes() {
    for (reason, message, cause) in [
        (
            "ManifestApplyFailed",
            "admission webhook \"deny\" denied the request",
            Cause::WebhookDenied,
        ),
        (
            "ManifestApplyFailed",
            "Deployment is invalid: spec.selector: Invalid value: field is immutable",
            Cause::FieldImmutable,
        ),
        // What others chose stands in quotes, and says nothing about a field.
        (
            "ManifestApplyFailed",
            "configmaps \"this is immutable\" is forbidden: User \"owned by me\" cannot patch",
            Cause::MemberForbidden,
        ),
        (
            "ManifestApplyFailed",
            "Service \"immutable\" is invalid: spec.type: Unsupported value: \"a \\\"is immutable\\\" b\"",
            Cause::ManifestInvalid,
        ),
        (
            "ManifestApplyFailed",
            "Service \"a\" is invalid: spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set",
            Cause::FieldImmutable,
        ),
        (
            "ManifestApplyFailed",
            "no matches for kind \"Widget\" in version \"example.com/v1\"",
            Cause::KindMissing,
        ),
        ("ManifestApplyFailed", "namespaces \"test-namespace\" not found", Cause::NamespaceMissing),
        ("ManifestApplyFailed", "exceeded quota: compute", Cause::QuotaExceeded),
        ("NotTakenOver", "whatever it says", Cause::OwnershipConflict),
        ("FailedToTakeOver", "whatever it says", Cause::OwnershipConflict),
        ("FoundDrifts", "found drifts", Cause::Drifted),
        (
            "ManifestApplyFailed",
            "deployments is forbidden: User cannot create",
            Cause::MemberForbidden,
        ),
        ("ManifestApplyFailed", "something new", Cause::ApplyFailed),
    ] {
        let mut facts = updating_member2("UpdateRunStuck");
        facts.bindings = vec![binding("member2", failing("Applied", reason, message))];
        let found = explain(&facts);
        assert_eq!((found.cause, found.because.as_str()), (cause, message));
        assert!(!found.hints.is_empty());
    }
}

#[test]
fn a_drift_shows_the_field() {
    let mut status = failing("Applied", "FoundDrifts", "found drifts");
    status["driftedPlacements"] = json!([{
        "group": "apps", "version": "v1", "kind": "Deployment",
        "name": "nginx-deployment", "namespace": "test-namespace",
        "observationTime": ago(5), "firstDriftedObservedTime": ago(60),
        "targetClusterObservedGeneration": 2,
        "observedDrifts": [{"path": "/spec/replicas", "valueInMember": "5", "valueInHub": "3"}],
    }]);
    let mut facts = updating_member2("UpdateRunStuck");
    facts.bindings = vec![binding("member2", status)];
    assert_eq!(explain(&facts).because, "/spec/replicas: \"5\" on the member, \"3\" on the hub");
}

#[test]
fn an_override_that_does_not_fit_stops_before_the_member() {
    let mut facts = updating_member2("UpdateRunStuck");
    let message =
        "Failed to apply the override rules on the resources: remove operation does not apply";
    facts.bindings = vec![binding(
        "member2",
        json!({"conditions": [condition("Overridden", "False", "OverriddenFailed", message, 300)]}),
    )];
    // The member is silent too, but the hub never got that far.
    facts.clusters.insert("member2".into(), member(9000));
    let found = explain(&facts);
    assert_eq!(found.cause, Cause::OverrideInvalid);
    assert_eq!(found.because, "remove operation does not apply");
}

#[test]
fn a_silent_member_is_the_cause_of_what_it_did_not_do() {
    let mut facts = updating_member2("UpdateRunStuck");
    facts.bindings = vec![binding(
        "member2",
        json!({"conditions": [condition("Applied", "False", "ApplyInProgress", "", 300)]}),
    )];
    facts.clusters.insert("member2".into(), member(400));
    let found = explain(&facts);
    assert_eq!(found.cause, Cause::HeartbeatStale);
    assert_eq!(found.what, "the agent of member2 last reported 6m40s ago, and should every 15s");
}

#[test]
fn a_cluster_that_is_just_being_updated_is_in_progress() {
    let mut facts = updating_member2("UpdateRunProgressing");
    facts.bindings = vec![binding("member2", json!({}))];
    let found = explain(&facts);
    assert_eq!((found.cause, found.state), (Cause::InProgress, State::Waiting));
}

#[test]
fn members_themselves_can_be_asked_about() {
    let asked = |name: &str| facts(Subject::Cluster(name.into()));
    let mut healthy = asked("member2");
    healthy.clusters.insert("member2".into(), member(5));
    assert_eq!(explain(&healthy).headline, "member2 is healthy; nothing is placed on it.");
    let mut silent = asked("member2");
    silent.clusters.insert("member2".into(), member(3700));
    assert_eq!(explain(&silent).headline, "member2 has not been heard of for 1h01m.");
    assert_eq!(explain(&asked("nobody")).cause, Cause::NotFound);
}

/// `member2` with this binding, asked about as a cluster.
fn asked(bindings: Vec<BindingFacts>) -> Facts {
    let mut facts = facts(Subject::Cluster("member2".into()));
    facts.clusters.insert("member2".into(), member(5));
    facts.bindings = bindings;
    facts
}

#[test]
fn a_member_with_nothing_on_it_is_not_done() {
    // Just joined, or drained: no placement has chosen it.
    let found = explain(&asked(vec![]));
    assert_eq!((found.cause, found.state), (Cause::NothingPlaced, State::Done));
    assert_eq!(found.headline, "member2 is healthy; nothing is placed on it.");

    // Uncordoned: chosen again, and no run has brought anything.
    let mut chosen = binding("member2", json!({}));
    chosen.spec.state = flagship_api::binding::BindingState::Scheduled;
    let mut facts = asked(vec![chosen]);
    let key = ObjectKey::cluster("example-placement");
    facts.placements.insert(key.clone(), PlacementGlance { external: true, open_run: None });
    let found = explain(&facts);
    assert_eq!((found.cause, found.state), (Cause::RunMissing, State::Waiting));
    assert_eq!(
        found.headline,
        "member2 is healthy; example-placement has chosen it, and nothing of it is there."
    );
    let open_run = Some("example-run".to_owned());
    facts.placements.insert(key, PlacementGlance { external: true, open_run });
    let found = explain(&facts);
    assert_eq!((found.cause, found.state), (Cause::InProgress, State::Waiting));
    assert_eq!(found.hints[0].command, "flagship why example-run");
    // A placement that rolls out by itself comes by itself.
    facts.placements.clear();
    assert_eq!(
        explain(&facts).headline,
        "member2 is healthy; example-placement is being rolled out to it."
    );
}

#[test]
fn a_member_under_deletion_is_leaving() {
    let available = condition("Available", "True", "x", "", 100);
    let mut facts = asked(vec![binding("member2", json!({"conditions": [available]}))]);
    facts.clusters.get_mut("member2").unwrap().leaving = true;
    let found = explain(&facts);
    assert_eq!((found.cause, found.state), (Cause::ClusterLeaving, State::Waiting));
    assert_eq!(found.headline, "member2 is leaving the fleet.");
    assert_eq!(found.what, "1 placement(s) are still on it: example-placement");
    let rows = crate::clusters::rows(facts.clone());
    assert_eq!(rows[0].joined, "leaving");
    // Its agent is away: nobody cleans up.
    facts.clusters.insert("member2".into(), ClusterFacts { leaving: true, ..member(900) });
    let found = explain(&facts);
    assert_eq!((found.cause, found.state), (Cause::ClusterLeaving, State::Stuck));
    assert_eq!(
        found.headline,
        "member2 is leaving the fleet, and its agent does not answer: has not been heard of for 15m00s."
    );
}

#[test]
fn every_code_that_agents_report_is_a_cause() {
    for code in flagship_rules::diagnosis::code::ALL {
        assert!(Cause::read(code).is_some(), "{code}");
    }
}
