//! The heartbeat: what the agent of a member says to the hub about itself and its cluster.
//!
//! Everything goes through the status of one InternalMemberCluster, which other agents of
//! the member write too: theirs is kept as it is. The heartbeat is said whatever else is
//! wrong, because a member that is ill is still there.
//!
//! What the hub makes of it is in `membership`; how properties are summed up, in
//! `properties`.

#[cfg(test)]
mod tests;

use flagship_api::cluster::{AgentStatus, AgentType, MemberClusterStatus};
use flagship_api::condition::{
    ConditionDraft, ConditionStatus, Conditions, Generation, draft, wire_time,
};
use flagship_api::condition_type::member_cluster as kind;
use flagship_api::reason::membership::agent as reason;
use jiff::Timestamp;

use crate::event::Event;
use crate::properties::Collected;

/// What the hub was told last, and about which of its wishes.
#[derive(Debug, Clone, PartialEq)]
pub struct Internal<'a> {
    /// The present moment.
    pub now: Timestamp,
    /// `metadata.generation`.
    pub generation: Generation,
    /// The status as last written.
    pub status: &'a MemberClusterStatus,
}

/// What one look at the member found.
#[derive(Debug, Clone, PartialEq)]
pub struct MemberHealth {
    /// HTTP status of the member's `/readyz`; 0 is no answer.
    pub readyz: u16,
    /// What the member has to offer; `None` if that could not be collected, and what was
    /// said before stands.
    pub collected: Option<Collected>,
    /// How the property provider does, if there is one.
    pub provider: Vec<ConditionDraft>,
}

/// What to tell the hub.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The status to write.
    pub status: MemberClusterStatus,
    /// What is worth an event.
    pub events: Vec<Event>,
    /// Whether the member has only just joined or left.
    pub turned: bool,
}

/// When any agent of a member last said something, as this status has it.
pub fn last_heard(status: &MemberClusterStatus) -> Option<Timestamp> {
    let beats = status.agent_status.iter();
    beats.filter_map(|agent| agent.last_received_heartbeat.as_ref()).map(|time| time.0).max()
}

/// The member takes part: a heartbeat, its health and its properties.
pub fn joined(internal: &Internal<'_>, checkup: &MemberHealth) -> Report {
    let mut words = Words::new(internal);
    words.agent.last_received_heartbeat = Some(wire_time(internal.now));
    words.health(checkup.readyz);
    if let Some(collected) = &checkup.collected {
        words.status.properties.clone_from(&collected.properties);
        words.status.resource_usage.clone_from(&collected.resource_usage);
        words.status.namespaces.clone_from(&collected.namespaces);
        words.provider(&collected.conditions);
    }
    words.provider_events(&checkup.provider);
    words.provider(&checkup.provider);
    words.joining(
        draft(kind::JOINED).is_true(reason::JOINED),
        Event::normal(reason::JOINED, "internal member cluster joined"),
    )
}

/// The member has left, or could not because of `failure`.
pub fn left(internal: &Internal<'_>, failure: Option<&str>) -> Report {
    let words = Words::new(internal);
    match failure {
        None => words.joining(
            draft(kind::JOINED).is_false(reason::LEFT),
            Event::normal(reason::LEFT, "internal member cluster left"),
        ),
        Some(why) => words.joining(
            draft(kind::JOINED).is_unknown(reason::FAILED_TO_LEAVE).because(why),
            Event::normal(reason::FAILED_TO_LEAVE, "internal member cluster failed to leave"),
        ),
    }
}

/// A report in the making.
struct Words<'a> {
    internal: &'a Internal<'a>,
    status: MemberClusterStatus,
    agent: AgentStatus,
    events: Vec<Event>,
}

impl<'a> Words<'a> {
    fn new(internal: &'a Internal<'a>) -> Self {
        let said = internal.status.agent_status.iter().find(|agent| is_ours(agent));
        let agent = said.cloned().unwrap_or(AgentStatus {
            r#type: AgentType::MemberAgent,
            conditions: Vec::new(),
            last_received_heartbeat: None,
        });
        Self { internal, status: internal.status.clone(), agent, events: Vec::new() }
    }

    fn health(&mut self, readyz: u16) {
        let was = self.agent.conditions.of_type(kind::HEALTHY).map(ConditionStatus::of);
        let subject = draft(kind::HEALTHY);
        let (is, said, event) = if readyz == 200 {
            let event = Event::normal(reason::HEALTHY, "internal member cluster healthy");
            (ConditionStatus::True, subject.is_true(reason::HEALTHY), event)
        } else {
            let why = format!("health probe failed with status code {readyz}");
            let event = Event::warning(reason::UNHEALTHY, "internal member cluster unhealthy");
            (ConditionStatus::False, subject.is_false(reason::UNHEALTHY).because(why), event)
        };
        said.set(&mut self.agent.conditions, self.internal.generation, self.internal.now);
        if was != Some(is) {
            self.events.push(event);
        }
    }

    /// Conditions of the property provider stand beside the agents.
    fn provider(&mut self, said: &[ConditionDraft]) {
        let Internal { generation, now, .. } = *self.internal;
        for condition in said {
            condition.clone().set(&mut self.status.conditions, generation, now);
        }
    }

    /// A provider that starts or fails to is told once; one that does not answer, each time.
    fn provider_events(&mut self, said: &[ConditionDraft]) {
        let Internal { generation, now, status } = *self.internal;
        for condition in said {
            let is = condition.clone().into_condition(generation, now);
            let was = status.conditions.of_type(&is.type_).map(ConditionStatus::of);
            let turned = was != Some(ConditionStatus::of(&is));
            let good = ConditionStatus::of(&is) == ConditionStatus::True;
            match is.type_.as_str() {
                kind::PROPERTY_PROVIDER_STARTED if turned && good => {
                    self.events.push(Event::normal(&is.reason, &is.message));
                }
                kind::PROPERTY_PROVIDER_STARTED if turned => {
                    self.events.push(Event::warning(&is.reason, &is.message));
                }
                kind::PROPERTY_COLLECTION_SUCCEEDED if !good => {
                    self.events.push(Event::warning(&is.reason, &is.message));
                }
                _ => {}
            }
        }
    }

    fn joining(mut self, said: ConditionDraft, event: Event) -> Report {
        let Internal { generation, now, .. } = *self.internal;
        let was = self.agent.conditions.of_type(kind::JOINED).cloned();
        said.set(&mut self.agent.conditions, generation, now);
        let is = self.agent.conditions.of_type(kind::JOINED);
        let turned = was.as_ref().map(ConditionStatus::of) != is.map(ConditionStatus::of);
        if turned || was.as_ref().map(Generation::seen_by) != is.map(Generation::seen_by) {
            self.events.push(event);
        }
        match self.status.agent_status.iter_mut().find(|agent| is_ours(agent)) {
            Some(place) => *place = self.agent,
            None => self.status.agent_status.push(self.agent),
        }
        Report { status: self.status, events: self.events, turned }
    }
}

fn is_ours(agent: &AgentStatus) -> bool {
    agent.r#type == AgentType::MemberAgent
}
