//! What the agents say, told on the member.

use flagship_api::cluster::AgentType;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::fixture::{Fixture, condition, events, now};

const MEMBER: AgentType = AgentType::MemberAgent;
const SERVICES: AgentType = AgentType::MultiClusterServiceAgent;
const EXPORTS: AgentType = AgentType::ServiceExportImportAgent;

fn other() -> AgentType {
    AgentType::Other("Stranger".into())
}

/// What the agents said, whether networking agents are expected, what is told.
#[test]
fn joined_is_what_all_expected_agents_say() {
    type Row<'a> = (&'a [(AgentType, &'a str)], bool, &'a str);
    let rows: Vec<Row<'_>> = vec![
        (
            &[(MEMBER, "True")],
            false,
            "True MemberClusterJoined: Member cluster has successfully joined the fleet",
        ),
        (&[(MEMBER, "False")], false, "False MemberClusterLeft: Member cluster has left the fleet"),
        (
            &[(MEMBER, "Unknown")],
            false,
            "Unknown MemberClusterJoinStateUnknown: Member agents are not in a consistent state",
        ),
        (
            &[],
            false,
            "Unknown MemberClusterJoinStateUnknown: Member cluster c1 has not reported all the expected agents, expected 1, got 0",
        ),
        (
            &[(MEMBER, "True")],
            true,
            "Unknown MemberClusterJoinStateUnknown: Member cluster c1 has not reported all the expected agents, expected 3, got 1",
        ),
        (
            &[(MEMBER, "")],
            false,
            "Unknown MemberClusterJoinStateUnknown: Member cluster c1 has not reported the join condition for agent MemberAgent",
        ),
        (
            &[(MEMBER, "True"), (SERVICES, "True"), (EXPORTS, "True")],
            true,
            "True MemberClusterJoined: Member cluster has successfully joined the fleet",
        ),
        (
            &[(MEMBER, "True"), (SERVICES, "False"), (EXPORTS, "True")],
            true,
            "Unknown MemberClusterJoinStateUnknown: Member agents are not in a consistent state",
        ),
        (
            &[(MEMBER, "False"), (SERVICES, "False"), (EXPORTS, "False")],
            true,
            "False MemberClusterLeft: Member cluster has left the fleet",
        ),
        (
            &[(MEMBER, "True"), (SERVICES, ""), (EXPORTS, "True")],
            true,
            "Unknown MemberClusterJoinStateUnknown: Member cluster c1 has not reported the join condition for agent MultiClusterServiceAgent",
        ),
    ];
    for (said, networking, want) in rows {
        let mut fixture = Fixture::new();
        fixture.seen.options.networking_agents = networking;
        fixture.step();
        for (agent, joined) in said {
            fixture.say(agent.clone(), joined);
        }
        fixture.step();
        let told = fixture.told();
        assert_eq!(told.lines().last().unwrap(), format!("Joined@1 {want}"), "{said:?}");
        let ready = if want.starts_with("False") {
            "ReadyToJoin@1 False MemberClusterNotReadyToJoin: Member cluster is not ready to join the fleet"
        } else {
            "ReadyToJoin@1 True MemberClusterReadyToJoin: Member cluster is ready to join the fleet"
        };
        assert_eq!(told.lines().next().unwrap(), ready, "{said:?}");
        assert_eq!(fixture.step().actions, [], "said once: {said:?}");
    }
}

#[test]
fn strangers_are_copied_but_do_not_count() {
    let mut fixture = Fixture::new();
    fixture.step();
    fixture.say(other(), "False");
    fixture.step();
    assert!(fixture.told().ends_with("expected 1, got 0\n"), "{}", fixture.told());
    fixture.say(MEMBER, "True");
    fixture.step();
    assert!(fixture.told().contains("Joined@1 True"));
    assert_eq!(fixture.seen.member.status.agent_status.len(), 2);
}

#[test]
fn everything_reported_is_taken_over_under_the_members_generation() {
    let mut fixture = Fixture::joined();
    fixture.seen.member.generation = 4;
    let told = &mut fixture.seen.internal.as_mut().unwrap().status;
    told.conditions = vec![condition("ClusterPropertyProviderStarted", "True", 9, now())];
    told.namespaces = [("app".to_owned(), "work".to_owned())].into();
    told.properties = serde_json::from_value(
        json!({"n": {"value": "1", "observationTime": "2026-01-01T00:00:00Z"}}),
    )
    .unwrap();
    told.resource_usage = serde_json::from_value(json!({"capacity": {"cpu": "4"}})).unwrap();
    let want = told.clone();
    fixture.step();
    let status = &fixture.seen.member.status;
    assert_eq!(status.namespaces, want.namespaces);
    assert_eq!(status.properties, want.properties);
    assert_eq!(status.resource_usage, want.resource_usage);
    assert_eq!(status.agent_status[0].conditions[0].observed_generation, Some(4));
    assert!(fixture.told().contains("ClusterPropertyProviderStarted@4 True Reason: \n"));
    // An empty list of agents is no word about them.
    fixture.seen.internal.as_mut().unwrap().status.agent_status.clear();
    fixture.step();
    assert_eq!(fixture.seen.member.status.agent_status.len(), 1);
    assert!(fixture.told().contains("Joined@4 True"));
}

#[test]
fn a_condition_taken_over_keeps_the_time_of_the_agent() {
    let mut fixture = Fixture::joined();
    let told = |truth: &str, seconds: i64| {
        condition(
            "ClusterPropertyProviderStarted",
            truth,
            1,
            now() - SignedDuration::from_secs(seconds),
        )
    };
    let since = |fixture: &Fixture| {
        let found = fixture.seen.member.status.conditions.iter();
        let found = found.filter(|c| c.type_.starts_with("ClusterProperty"));
        found.map(|c| now().duration_since(c.last_transition_time.0).as_secs()).next().unwrap()
    };
    fixture.seen.internal.as_mut().unwrap().status.conditions = vec![told("True", 50)];
    fixture.step();
    assert_eq!(since(&fixture), 50);
    fixture.seen.internal.as_mut().unwrap().status.conditions = vec![told("False", 20)];
    fixture.step();
    assert_eq!(since(&fixture), 20);
}

#[test]
fn a_heartbeat_is_a_change_and_silence_is_none() {
    let mut fixture = Fixture::joined();
    fixture.later(30);
    assert_eq!(fixture.step().actions, [], "nobody writes because time passes");
    fixture.say(MEMBER, "True");
    let plan = fixture.step();
    assert_eq!((plan.actions.len(), events(&plan).len()), (1, 0));
}

#[test]
fn changes_of_the_join_state_are_told_once() {
    let mut fixture = Fixture::new();
    fixture.step();
    let mut said = Vec::new();
    for joined in ["Unknown", "True", "True", "False", "True"] {
        fixture.say(MEMBER, joined);
        said.push(events(&fixture.step()).join(", "));
    }
    assert_eq!(
        said,
        [
            "! MemberClusterJoinStateUnknown: member cluster join state unknown",
            "MemberClusterJoined: member cluster joined",
            "",
            "MemberClusterJoined: member cluster left",
            "MemberClusterReadyToJoin: member cluster ready to join, MemberClusterJoined: member cluster joined",
        ]
    );
}

#[test]
fn a_heartbeat_from_the_future_counts_as_of_when_the_hub_took_it() {
    let mut fixture = Fixture::joined();
    fixture.later(30);
    fixture.say(MEMBER, "True");
    let future: Timestamp = "2099-01-01T00:00:00Z".parse().unwrap();
    let taken = fixture.seen.now;
    let internal = fixture.seen.internal.as_mut().unwrap();
    internal.written = Some(taken);
    let agent = &mut internal.status.agent_status[0];
    agent.last_received_heartbeat = Some(Time(future));
    agent.conditions[0].last_transition_time = Time(future);
    internal.status.conditions = vec![condition("Started", "True", 1, future)];
    fixture.step();
    let beat = |fixture: &Fixture| {
        let agent = &fixture.seen.member.status.agent_status[0];
        agent.last_received_heartbeat.as_ref().unwrap().0
    };
    assert_eq!(beat(&fixture), taken);
    let status = &fixture.seen.member.status;
    assert_eq!(status.agent_status[0].conditions[0].last_transition_time.0, taken);
    assert!(status.conditions.iter().all(|c| c.last_transition_time.0 <= taken));
    // It fell silent then; that the hub looks again does not make it speak.
    fixture.later(300);
    fixture.step();
    assert_eq!(beat(&fixture), taken);
    // A clock that is behind is believed: an old heartbeat does no harm.
    let past: Timestamp = "2020-01-01T00:00:00Z".parse().unwrap();
    let agent = &mut fixture.seen.internal.as_mut().unwrap().status.agent_status[0];
    agent.last_received_heartbeat = Some(Time(past));
    fixture.step();
    assert_eq!(beat(&fixture), past);
}
