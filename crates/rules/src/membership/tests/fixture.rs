//! One member and a hub that carries its own plans out.

use flagship_api::cluster::{AgentStatus, AgentType, MemberClusterStatus};
use flagship_api::condition::{Condition, ConditionStatus, Generation, draft};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use crate::membership::{Action, Internal, Member, Namespace, Observed, Options, Plan, plan};

pub fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

pub struct Fixture {
    pub seen: Observed,
}

impl Fixture {
    pub fn new() -> Self {
        let spec =
            json!({"identity": {"kind": "User", "name": "agent"}, "heartbeatPeriodSeconds": 30});
        let member = Member {
            name: "c1".into(),
            uid: "u".into(),
            generation: 1,
            spec: serde_json::from_value(spec).unwrap(),
            ..Member::default()
        };
        Self {
            seen: Observed {
                now: now(),
                member,
                namespace: None,
                role: None,
                role_binding: None,
                internal: None,
                works_with_finalizers: vec![],
                options: Options::default(),
            },
        }
    }

    /// A member that has joined.
    pub fn joined() -> Self {
        let mut fixture = Self::new();
        fixture.step();
        fixture.say(AgentType::MemberAgent, "True");
        fixture.step();
        fixture
    }

    pub fn step(&mut self) -> Plan {
        let plan = plan(&self.seen);
        let seen = &mut self.seen;
        for action in plan.actions.clone() {
            match action {
                Action::AddFinalizer => seen.member.has_finalizer = true,
                Action::RemoveFinalizer => seen.member.has_finalizer = false,
                Action::Label => seen.member.label = Some(seen.member.name.clone()),
                Action::CreateNamespace | Action::LabelNamespace => {
                    seen.namespace = Some(Namespace { labelled: true, deleting_since: None });
                }
                Action::CreateRole(rules) | Action::UpdateRole(rules) => seen.role = Some(rules),
                Action::CreateRoleBinding(binding)
                | Action::UpdateRoleBinding(binding)
                | Action::ReplaceRoleBinding(binding) => seen.role_binding = Some(binding),
                Action::CreateInternal(spec) => {
                    let status = MemberClusterStatus::default();
                    seen.internal = Some(Internal { spec, status, written: None });
                }
                Action::UpdateInternal(spec) => seen.internal.as_mut().unwrap().spec = spec,
                Action::Status(status) => seen.member.status = status,
                Action::RemoveWorkFinalizers { name } => {
                    seen.works_with_finalizers.retain(|work| *work != name);
                }
                Action::DeleteNamespace => {
                    seen.namespace.as_mut().unwrap().deleting_since = Some(seen.now);
                }
            }
        }
        plan
    }

    pub fn later(&mut self, seconds: i64) {
        self.seen.now += SignedDuration::from_secs(seconds);
    }

    /// The user deletes the member.
    pub fn delete(&mut self) {
        self.seen.member.leaving_since = Some(self.seen.now);
        self.seen.member.generation += 1;
    }

    /// An agent says whether it has joined; an empty word is no word about it.
    pub fn say(&mut self, agent: AgentType, joined: &str) {
        let now = self.seen.now;
        let told = &mut self.seen.internal.as_mut().unwrap().status.agent_status;
        told.retain(|status| status.r#type != agent);
        let conditions =
            if joined.is_empty() { vec![] } else { vec![condition("Joined", joined, 7, now)] };
        let heartbeat = Some(Time(now));
        told.push(AgentStatus { r#type: agent, conditions, last_received_heartbeat: heartbeat });
    }

    /// Conditions, one per line: `Type@generation Status Reason: Message`.
    pub fn told(&self) -> String {
        let line = |c: &Condition| {
            let generation = c.observed_generation.unwrap();
            format!("{}@{generation} {} {}: {}\n", c.type_, c.status, c.reason, c.message)
        };
        self.seen.member.status.conditions.iter().map(line).collect()
    }
}

pub fn condition(kind: &str, truth: &str, generation: i64, now: Timestamp) -> Condition {
    let truth = match truth {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    };
    draft(kind.to_owned()).is(truth, "Reason").into_condition(Generation(generation), now)
}

/// Events as `reason: message`, warnings with a mark.
pub fn events(plan: &Plan) -> Vec<String> {
    let line = |e: &crate::event::Event| {
        format!("{}{}: {}", if e.warning { "! " } else { "" }, e.reason, e.message)
    };
    plan.events.iter().map(|planned| line(&planned.event)).collect()
}
