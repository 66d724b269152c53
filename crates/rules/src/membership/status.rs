//! What the agents of a member say, told on its MemberCluster.
//!
//! Time alone changes nothing: a member that falls silent stays joined, and whoever cares
//! reads the heartbeat. No heartbeat is later than the hub's own clock.

use flagship_api::cluster::{AgentType, MemberClusterStatus};
use flagship_api::condition::{
    ConditionDraft, ConditionStatus, Conditions, Generation, draft, relabel, wire_time,
};
use flagship_api::condition_type::member_cluster as kind;
use flagship_api::reason::membership as reason;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::observed::{Internal, Member};
use crate::event::Event;

/// The status of a member, and what it is worth telling as events. `ready` says that the
/// hub has made everything the member needs.
pub fn report(
    member: &Member,
    internal: Option<&Internal>,
    expected: &[AgentType],
    ready: bool,
    now: Timestamp,
) -> (MemberClusterStatus, Vec<Event>) {
    let generation = Generation(member.generation);
    let mut status = member.status.clone();
    let joined = internal.map(|internal| {
        adopt(&mut status, internal, generation, now);
        joined(&member.name, &status, expected)
    });
    // Said once, after all is known: a member that has left is not ready to join.
    let left = joined.as_ref().is_some_and(|(truth, _)| *truth == ConditionStatus::False);
    if left {
        draft(kind::READY_TO_JOIN)
            .is_false(reason::NOT_READY_TO_JOIN)
            .because("Member cluster is not ready to join the fleet")
            .set(&mut status.conditions, generation, now);
    } else if ready {
        draft(kind::READY_TO_JOIN)
            .is_true(reason::READY_TO_JOIN)
            .because("Member cluster is ready to join the fleet")
            .set(&mut status.conditions, generation, now);
    }
    if let Some((_, joined)) = joined {
        joined.set(&mut status.conditions, generation, now);
    }
    let events = events(member, &status);
    (status, events)
}

/// Takes over everything the agents report, as if it were about the MemberCluster.
fn adopt(
    status: &mut MemberClusterStatus,
    internal: &Internal,
    generation: Generation,
    now: Timestamp,
) {
    let told = &internal.status;
    // A member's clock may be wrong. What it dates later than the hub took it would count as
    // fresh for ever; and it must not become fresher each time the hub looks.
    let latest = internal.written.map_or(now, |written| written.min(now));
    let dated = |time: &Time| if time.0 > now { wire_time(latest) } else { time.clone() };
    if !told.agent_status.is_empty() {
        status.agent_status.clone_from(&told.agent_status);
        for agent in &mut status.agent_status {
            relabel(&mut agent.conditions, generation);
            agent.last_received_heartbeat = agent.last_received_heartbeat.as_ref().map(dated);
            for condition in &mut agent.conditions {
                condition.last_transition_time = dated(&condition.last_transition_time);
            }
        }
    }
    status.resource_usage.clone_from(&told.resource_usage);
    status.properties.clone_from(&told.properties);
    status.namespaces.clone_from(&told.namespaces);
    for condition in &told.conditions {
        draft(condition.type_.clone()).is_as(condition).set(
            &mut status.conditions,
            generation,
            dated(&condition.last_transition_time).0,
        );
    }
}

/// Whether the member has joined: all expected agents must agree.
fn joined(
    name: &str,
    status: &MemberClusterStatus,
    expected: &[AgentType],
) -> (ConditionStatus, ConditionDraft) {
    let unknown = |message: String| {
        let draft = draft(kind::JOINED).is_unknown(reason::JOIN_STATE_UNKNOWN).because(message);
        (ConditionStatus::Unknown, draft)
    };
    let want = expected.len();
    let too_few = |got: usize| {
        unknown(format!(
            "Member cluster {name} has not reported all the expected agents, expected {want}, got {got}"
        ))
    };
    if status.agent_status.len() < want {
        return too_few(status.agent_status.len());
    }
    let mut told: Vec<(&AgentType, ConditionStatus)> = Vec::new();
    for agent in status.agent_status.iter().filter(|agent| expected.contains(&agent.r#type)) {
        let Some(condition) = agent.conditions.of_type(kind::JOINED) else {
            let word = spelled(&agent.r#type);
            return unknown(format!(
                "Member cluster {name} has not reported the join condition for agent {word}"
            ));
        };
        told.push((&agent.r#type, ConditionStatus::of(condition)));
    }
    let kinds = expected.iter().filter(|kind| told.iter().any(|(agent, _)| agent == kind)).count();
    if kinds < want {
        return too_few(kinds);
    }
    if told.iter().all(|(_, truth)| *truth == ConditionStatus::True) {
        let draft = draft(kind::JOINED)
            .is_true(reason::JOINED)
            .because("Member cluster has successfully joined the fleet");
        return (ConditionStatus::True, draft);
    }
    if told.iter().all(|(_, truth)| *truth == ConditionStatus::False) {
        let draft =
            draft(kind::JOINED).is_false(reason::LEFT).because("Member cluster has left the fleet");
        return (ConditionStatus::False, draft);
    }
    unknown("Member agents are not in a consistent state".to_owned())
}

fn spelled(agent: &AgentType) -> &str {
    match agent {
        AgentType::MemberAgent => "MemberAgent",
        AgentType::MultiClusterServiceAgent => "MultiClusterServiceAgent",
        AgentType::ServiceExportImportAgent => "ServiceExportImportAgent",
        AgentType::Other(word) => word,
    }
}

/// What a condition says now, if it is new or said something else before.
pub fn turned(
    was: &MemberClusterStatus,
    is: &MemberClusterStatus,
    kind: &str,
) -> Option<ConditionStatus> {
    let now = ConditionStatus::of(is.conditions.of_type(kind)?);
    let before = was.conditions.of_type(kind).map(ConditionStatus::of);
    (before != Some(now)).then_some(now)
}

/// Conditions that are new, or say something else than before.
fn events(member: &Member, status: &MemberClusterStatus) -> Vec<Event> {
    let turned = |kind: &str| turned(&member.status, status, kind);
    let mut events = Vec::new();
    if turned(kind::READY_TO_JOIN) == Some(ConditionStatus::True) {
        events.push(Event::normal(reason::READY_TO_JOIN, "member cluster ready to join"));
    }
    match turned(kind::JOINED) {
        Some(ConditionStatus::True) => {
            events.push(Event::normal(reason::JOINED, "member cluster joined"));
        }
        // The reason is that of joining, as it has always been.
        Some(ConditionStatus::False) => {
            events.push(Event::normal(reason::JOINED, "member cluster left"));
        }
        Some(ConditionStatus::Unknown) => events
            .push(Event::warning(reason::JOIN_STATE_UNKNOWN, "member cluster join state unknown")),
        None => {}
    }
    events
}
