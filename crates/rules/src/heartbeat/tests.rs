//! What was said before and what is so, and what is said then.

use flagship_api::cluster::PropertyValue;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn well() -> MemberHealth {
    MemberHealth { readyz: 200, collected: Some(Collected::default()), provider: Vec::new() }
}

fn internal(status: &MemberClusterStatus, second: i64) -> Internal<'_> {
    Internal { now: at(second), generation: Generation(1), status }
}

fn told(report: &Report) -> Vec<String> {
    let agent = &report.status.agent_status[0];
    let conditions = agent.conditions.iter().map(|c| {
        let generation = c.observed_generation.unwrap_or_default();
        let since = c.last_transition_time.0.as_second();
        format!("{}={} {} {:?} g{generation} @{since}", c.type_, c.status, c.reason, c.message)
    });
    let events = report.events.iter().map(|event| {
        let sort = if event.warning { "Warning" } else { "Normal" };
        format!("{sort} {} {}", event.reason, event.message)
    });
    conditions.chain(events).collect()
}

#[test]
fn the_first_word_is_joined_and_healthy_with_a_heartbeat() {
    let nothing = MemberClusterStatus::default();
    let report = joined(&internal(&nothing, 5), &well());
    assert_eq!(
        told(&report),
        [
            "Healthy=True InternalMemberClusterHealthy \"\" g1 @5",
            "Joined=True InternalMemberClusterJoined \"\" g1 @5",
            "Normal InternalMemberClusterHealthy internal member cluster healthy",
            "Normal InternalMemberClusterJoined internal member cluster joined",
        ]
    );
    assert!(report.turned);
    assert_eq!(report.status.agent_status[0].last_received_heartbeat, Some(Time(at(5))));
    let again = joined(&internal(&report.status, 65), &well());
    assert!(again.events.is_empty() && !again.turned);
    assert_eq!(again.status.agent_status[0].last_received_heartbeat, Some(Time(at(65))));
    assert_eq!(again.status.agent_status[0].conditions, report.status.agent_status[0].conditions);
}

// checklist fleet 12.18
#[test]
fn an_ill_member_still_has_a_heartbeat() {
    let nothing = MemberClusterStatus::default();
    let report = joined(&internal(&nothing, 5), &well());
    let ill = MemberHealth { readyz: 503, collected: None, provider: Vec::new() };
    let report = joined(&internal(&report.status, 65), &ill);
    assert_eq!(
        told(&report),
        [
            "Healthy=False InternalMemberClusterUnhealthy \"health probe failed with status code 503\" g1 @65",
            "Joined=True InternalMemberClusterJoined \"\" g1 @5",
            "Warning InternalMemberClusterUnhealthy internal member cluster unhealthy",
        ]
    );
    assert_eq!(report.status.agent_status[0].last_received_heartbeat, Some(Time(at(65))));
}

#[test]
fn a_new_wish_of_the_hub_is_answered_with_an_event() {
    let nothing = MemberClusterStatus::default();
    let first = joined(&internal(&nothing, 5), &well());
    let mut again = internal(&first.status, 65);
    again.generation = Generation(2);
    let report = joined(&again, &well());
    assert_eq!(report.events.len(), 1, "joined, and nothing said of health");
    assert!(!report.turned);
    assert_eq!(report.status.agent_status[0].conditions[1].observed_generation, Some(2));
}

#[test]
fn leaving_keeps_the_last_heartbeat_and_says_why_it_failed() {
    let nothing = MemberClusterStatus::default();
    let first = joined(&internal(&nothing, 5), &well());
    let stuck = left(&internal(&first.status, 65), Some("no answer"));
    assert_eq!(
        told(&stuck)[1..],
        [
            "Joined=Unknown InternalMemberClusterFailedToLeave \"no answer\" g1 @65",
            "Normal InternalMemberClusterFailedToLeave internal member cluster failed to leave",
        ]
    );
    let gone = left(&internal(&stuck.status, 70), None);
    assert_eq!(
        told(&gone)[1..],
        [
            "Joined=False InternalMemberClusterLeft \"\" g1 @70",
            "Normal InternalMemberClusterLeft internal member cluster left",
        ]
    );
    assert!(gone.turned);
    assert_eq!(gone.status.agent_status[0].last_received_heartbeat, Some(Time(at(5))));
}

// checklist fleet 12.25
#[test]
fn properties_survive_a_failed_collection_and_other_agents_are_left_alone() {
    let other = AgentStatus {
        r#type: AgentType::Other("Proxy".to_owned()),
        conditions: Vec::new(),
        last_received_heartbeat: Some(Time(at(1))),
    };
    let value = PropertyValue { value: "3".to_owned(), observation_time: Time(at(1)) };
    let before = MemberClusterStatus {
        properties: [("nodes".to_owned(), value)].into(),
        agent_status: vec![other.clone()],
        ..MemberClusterStatus::default()
    };
    let failed = MemberHealth { collected: None, ..well() };
    let report = joined(&internal(&before, 5), &failed);
    assert_eq!(report.status.properties, before.properties);
    assert_eq!(report.status.agent_status[0], other);
    assert_eq!(report.status.agent_status[1].r#type, AgentType::MemberAgent);
    let report = joined(&internal(&report.status, 65), &well());
    assert!(report.status.properties.is_empty(), "the whole map is replaced");
}

// checklist fleet 12.24, 12.25
#[test]
fn a_provider_is_told_of_beside_the_agents() {
    use crate::properties::provider;
    let nothing = MemberClusterStatus::default();
    let with = |provider: Vec<ConditionDraft>| MemberHealth { provider, ..well() };
    let said = |report: &Report| -> Vec<String> {
        let line = |c: &flagship_api::condition::Condition| {
            format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message)
        };
        report.status.conditions.iter().map(line).collect()
    };
    let failed =
        joined(&internal(&nothing, 5), &with(vec![provider::failed_to_start("no region")]));
    assert_eq!(
        said(&failed),
        [
            "ClusterPropertyProviderStarted=False FailedToStart: Failed to start the property provider: no region"
        ]
    );
    assert!(failed.events.iter().any(|event| event.warning && event.reason == "FailedToStart"));
    let again =
        joined(&internal(&failed.status, 65), &with(vec![provider::failed_to_start("no region")]));
    assert!(again.events.is_empty(), "it was said before");
    let slow = joined(&internal(&again.status, 125), &with(vec![provider::start_timed_out()]));
    assert_eq!(
        said(&slow),
        [
            "ClusterPropertyProviderStarted=False TimedOut: The property provider does not start up in time"
        ]
    );
    let good = vec![provider::started(), provider::collected()];
    let well = joined(&internal(&slow.status, 185), &with(good));
    assert_eq!(
        said(&well),
        [
            "ClusterPropertyProviderStarted=True Started: The property provider has started successfully",
            "ClusterPropertyCollectionSucceeded=True PropertiesCollected: The property provider has returned the latest cluster properties",
        ]
    );
    assert!(well.events.iter().any(|event| !event.warning && event.reason == "Started"));
    let late = joined(
        &internal(&well.status, 245),
        &with(vec![provider::started(), provider::collection_timed_out()]),
    );
    assert_eq!(
        said(&late)[1],
        "ClusterPropertyCollectionSucceeded=False TimedOut: The property provider does not respond in time"
    );
    assert_eq!(late.events.len(), 1);
}
