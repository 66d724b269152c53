//! From API objects to what the scheduler sees, and back. Both scopes meet here.

use std::collections::BTreeMap;

use flagship_api::binding::BindingState;
use flagship_api::cluster::{AgentType, MemberCluster};
use flagship_api::keys::annotation;
use flagship_api::policy::TaintEffect;
use flagship_api::snapshot::{
    ClusterDecision, ClusterScore, SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use super::decision::{Decision, Score, Verdict};
use super::facts::Facts;
use super::observed::{Agent, Cluster, Health, Recorded, Snapshot, State, Taint};
use crate::model::Binding;

impl Cluster {
    /// What the scheduler reads of a member cluster.
    pub fn read(from: &MemberCluster) -> Self {
        let status = from.status.clone().unwrap_or_default();
        let agent = status.agent_status.iter().find(|a| a.r#type == AgentType::MemberAgent);
        let taints = from.spec.taints.iter().map(|taint| Taint {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect: match taint.effect {
                TaintEffect::NoSchedule => "NoSchedule".to_owned(),
            },
        });
        Self {
            name: from.metadata.name.clone().unwrap_or_default(),
            labels: from.metadata.labels.clone().unwrap_or_default().into(),
            leaving: from.metadata.deletion_timestamp.is_some(),
            taints: taints.collect(),
            agent: agent.map(|agent| Agent {
                // Never heard of counts as heard of at the beginning of time.
                heartbeat: agent
                    .last_received_heartbeat
                    .clone()
                    .map_or_else(Default::default, |t| t.0),
                joined: find(&agent.conditions, "Joined").is_some_and(|c| c.status == "True"),
                health: find(&agent.conditions, "Healthy").map(|condition| Health {
                    healthy: condition.status == "True",
                    since: condition.last_transition_time.0,
                }),
            }),
            properties: status.properties.into_iter().map(|(name, p)| (name, p.value)).collect(),
            capacity: plain(status.resource_usage.capacity),
            allocatable: plain(status.resource_usage.allocatable),
            available: plain(status.resource_usage.available),
            collects_namespaces: find(&status.conditions, "NamespaceCollectionSucceeded").is_some(),
            namespaces: Some(status.namespaces).filter(|known| !known.is_empty()),
        }
    }
}

impl Binding {
    /// The state, as far as the scheduler tells states apart.
    pub fn state(&self) -> State {
        match self.spec.state {
            BindingState::Scheduled => State::Scheduled,
            BindingState::Bound => State::Bound,
            BindingState::Unscheduled => State::Unscheduled,
            BindingState::Other(_) => State::Foreign,
        }
    }

    /// The state it had before it was let go, where its annotation names a live one.
    pub fn previous_state(&self) -> Option<State> {
        match self.previous.as_deref() {
            Some("Scheduled") => Some(State::Scheduled),
            Some("Bound") => Some(State::Bound),
            _ => None,
        }
    }

    /// Why its cluster was chosen.
    pub fn decision(&self) -> Decision {
        Decision::read(&self.spec.cluster_decision)
    }
}

impl Snapshot {
    /// What the scheduler reads of a policy snapshot of either scope.
    pub fn read(
        metadata: &ObjectMeta,
        spec: &SchedulingPolicySnapshotSpec,
        status: Option<&SchedulingPolicySnapshotStatus>,
    ) -> Self {
        let note = |key: &str| metadata.annotations.as_ref()?.get(key).cloned();
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            policy: spec.policy.clone(),
            number_of_clusters: note(annotation::NUMBER_OF_CLUSTERS),
            placement_generation: note(annotation::PLACEMENT_GENERATION),
            recorded: status.map(|status| Recorded {
                placement_generation: status.observed_crp_generation,
                decisions: status.target_clusters.iter().map(Decision::read).collect(),
                verdict: find(&status.conditions, "Scheduled").and_then(Verdict::read),
            }),
        }
    }
}

impl Verdict {
    /// A condition that this version of the scheduler would write; anything else is
    /// read as nothing, and so written again.
    fn read(condition: &Condition) -> Option<Self> {
        let digits = condition.message.rsplit_once("found ")?.1.split_once(' ')?.0;
        let verdict = Self { fulfilled: condition.status == "True", found: digits.parse().ok()? };
        let same = verdict.message() == condition.message && verdict.reason() == condition.reason;
        same.then_some(verdict)
    }
}

impl Score {
    /// The score of a decision; absent for PickFixed.
    pub fn read(from: &ClusterDecision) -> Option<Self> {
        from.cluster_score.as_ref().map(|score| Self {
            spread: score.priority_score.unwrap_or_default(),
            affinity: score.affinity_score.unwrap_or_default(),
        })
    }
}

impl Decision {
    fn read(from: &ClusterDecision) -> Self {
        Self {
            cluster: from.cluster_name.clone(),
            selected: from.selected,
            score: Score::read(from),
            reason: from.reason.clone(),
        }
    }

    /// The decision on the wire.
    pub fn on_the_wire(&self) -> ClusterDecision {
        ClusterDecision {
            cluster_name: self.cluster.clone(),
            selected: self.selected,
            cluster_score: self.score.map(|score| ClusterScore {
                affinity_score: Some(score.affinity),
                priority_score: Some(score.spread),
            }),
            reason: self.reason.clone(),
        }
    }
}

fn find<'a>(conditions: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == kind)
}

fn plain(quantities: BTreeMap<String, Quantity>) -> Facts {
    quantities.into_iter().map(|(name, quantity)| (name, quantity.0)).collect()
}
