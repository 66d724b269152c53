//! Profiles over the life of a member.

use serde_json::{Value, json};

use super::*;

const NOW: i64 = 1_000_000;

fn at(second: i64) -> String {
    Timestamp::from_second(second).unwrap().to_string()
}

fn condition(kind: &str, status: &str, generation: i64) -> Value {
    json!({"type": kind, "status": status, "reason": "R", "message": "",
        "observedGeneration": generation, "lastTransitionTime": at(0)})
}

/// A member of generation 3 whose agent reported this.
fn member(conditions: Value, agents: Value) -> Member {
    let status = json!({"conditions": conditions, "agentStatus": agents, "properties": {
        "k8s.io/k8s-version": {"value": "1.34.1", "observationTime": at(0)},
        "k8s.io/cluster-entrypoint": {"value": "https://m1", "observationTime": at(0)},
        "k8s.io/cluster-certificate-authority-data": {"value": "PEM", "observationTime": at(0)},
    }});
    Member {
        name: "m1".to_owned(),
        generation: 3,
        deleting: false,
        has_finalizer: true,
        status: serde_json::from_value(status).unwrap(),
    }
}

fn joined() -> Value {
    json!([condition("Joined", "True", 3)])
}

fn healthy(heartbeat: i64, status: &str) -> Value {
    json!([{"type": "MemberAgent", "conditions": [condition("Healthy", status, 3)],
        "lastReceivedHeartbeat": at(heartbeat)}])
}

fn profile() -> Profile {
    Profile {
        generation: 1,
        manager_label: Some(MANAGER.to_owned()),
        spec: ClusterProfileSpec {
            display_name: "m1".to_owned(),
            cluster_manager: ClusterManager { name: MANAGER.to_owned() },
        },
        status: ClusterProfileStatus::default(),
    }
}

fn observed(member: Option<Member>, profile: Option<Profile>) -> Observed {
    Observed {
        now: Timestamp::from_second(NOW).unwrap(),
        listening_since: Timestamp::UNIX_EPOCH,
        member,
        profile,
        heartbeat_threshold: SignedDuration::from_secs(60),
    }
}

fn status_of(plan: &Plan) -> &ClusterProfileStatus {
    let written = plan.actions.iter().find_map(|action| match action {
        Action::Status(status) => Some(status),
        _ => None,
    });
    written.expect("the plan writes a status")
}

#[test]
fn a_member_that_joins_gets_a_profile_and_a_finalizer() {
    let newcomer = Member { has_finalizer: false, ..member(joined(), json!([])) };
    let plan = plan(&observed(Some(newcomer), None));
    assert_eq!(plan.actions, [Action::AddFinalizer, Action::Create(profile().spec)]);
}

#[test]
fn a_member_that_has_not_joined_at_this_generation_gets_nothing() {
    for conditions in [
        json!([]),
        json!([condition("Joined", "False", 3)]),
        json!([condition("Joined", "True", 2)]),
    ] {
        let waiting = member(conditions, json!([]));
        assert_eq!(plan(&observed(Some(waiting), None)), Plan::default());
    }
}

#[test]
fn an_edited_profile_is_put_right() {
    let mut edited = profile();
    edited.spec.display_name = "mine".to_owned();
    let mut unlabelled = profile();
    unlabelled.manager_label = None;
    for broken in [edited, unlabelled] {
        let plan = plan(&observed(Some(member(joined(), json!([]))), Some(broken)));
        assert_eq!(plan.actions[0], Action::Update(profile().spec));
    }
}

#[test]
fn a_member_that_leaves_takes_its_profile_along() {
    let leaving = Member { deleting: true, ..member(joined(), json!([])) };
    let told = plan(&observed(Some(leaving), Some(profile())));
    assert_eq!(told.actions, [Action::Delete, Action::RemoveFinalizer]);
    assert_eq!(plan(&observed(None, Some(profile()))).actions, [Action::Delete]);
    assert_eq!(plan(&observed(None, None)), Plan::default());
}

#[test]
fn version_and_address_follow_only_a_collection_that_succeeded() {
    let collected = json!([
        condition("Joined", "True", 3),
        condition("ClusterPropertyCollectionSucceeded", "True", 3)
    ]);
    let told = plan(&observed(Some(member(collected, json!([]))), Some(profile())));
    let status = status_of(&told);
    assert_eq!(status.version.kubernetes, "1.34.1");
    assert_eq!(
        serde_json::to_value(&status.access_providers).unwrap(),
        json!([{"name": "KubeFleet", "cluster":
            {"server": "https://m1", "certificate-authority-data": "UEVN"}}])
    );
    // Later it fails: what was known stays.
    let failed = json!([
        condition("Joined", "True", 3),
        condition("ClusterPropertyCollectionSucceeded", "False", 3)
    ]);
    let known = Profile { status: status.clone(), ..profile() };
    assert_eq!(plan(&observed(Some(member(failed, json!([]))), Some(known))).actions, []);
}

#[test]
fn health_has_six_outcomes_and_the_first_that_fits_counts() {
    let silent =
        json!([{"type": "MemberAgent", "conditions": [], "lastReceivedHeartbeat": at(NOW)}]);
    let rows = [
        (json!([]), "Unknown", "MemberAgentReportedNoStatus", None),
        (silent, "Unknown", "MemberAgentReportedNoHealthInfo", None),
        (healthy(NOW - 61, "True"), "False", "MemberAgentHeartbeatLost", None),
        (healthy(NOW - 60, "Unknown"), "Unknown", "MemberAgentReportedNoHealthInfo", Some(60_000)),
        (healthy(NOW - 10, "False"), "False", "MemberClusterAPIServerUnhealthy", Some(110_000)),
        (healthy(NOW, "True"), "True", "MemberClusterAPIServerHealthy", Some(120_000)),
    ];
    for (agents, status, reason, wake) in rows {
        let plan = plan(&observed(Some(member(joined(), agents)), Some(profile())));
        let [health] = &status_of(&plan).conditions[..] else { panic!("one condition") };
        assert_eq!((health.status.as_str(), health.reason.as_str()), (status, reason));
        assert_eq!(health.observed_generation, Some(1));
        assert_eq!(plan.wake, wake.map(SignedDuration::from_millis), "{reason}");
    }
}

// Members were heard by nobody while no hub listened.
#[test]
fn a_hub_that_has_just_begun_to_listen_waits_before_it_calls_a_member_lost() {
    let told = |listened: i64, profile: Profile| {
        let silent = member(joined(), healthy(NOW - 3600, "True"));
        let seen = Observed {
            listening_since: Timestamp::from_second(NOW - listened).unwrap(),
            ..observed(Some(silent), Some(profile))
        };
        let plan = plan(&seen);
        let status = plan.actions.iter().find_map(|action| match action {
            Action::Status(status) => Some(status.conditions[0].reason.clone()),
            _ => None,
        });
        (status, plan.wake.map(|wake| wake.as_secs()), plan)
    };
    let healthy = Some("MemberClusterAPIServerHealthy".to_owned());
    let lost = Some("MemberAgentHeartbeatLost".to_owned());
    assert_eq!(told(0, profile()).0, healthy);
    assert_eq!(told(0, profile()).1, Some(120), "as long as after a heartbeat");
    assert_eq!(told(119, profile()).1, Some(1));
    let (status, wake, plan) = told(120, profile());
    assert_eq!((status, wake), (lost, None));
    // What an earlier hub called lost stays so until it is heard.
    let known = Profile { status: status_of(&plan).clone(), ..profile() };
    assert_eq!(told(0, known).0, None);
}

#[test]
fn a_status_that_says_the_same_is_not_written() {
    let member = member(joined(), healthy(NOW, "True"));
    let told = plan(&observed(Some(member.clone()), Some(profile())));
    let known = Profile { status: status_of(&told).clone(), ..profile() };
    assert_eq!(plan(&observed(Some(member), Some(known))).actions, []);
}
