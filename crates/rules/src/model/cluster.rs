//! A member cluster, as everybody but `membership` reads it.
//!
//! Membership keeps the object's whole spec and status, because it writes them. All others
//! look up a few facts of many clusters, and share this value.

use std::collections::BTreeMap;

use flagship_api::cluster::{AgentType, MemberCluster};
use flagship_api::condition::{Condition, ConditionStatus, Conditions};
use flagship_api::condition_type::member_cluster::{
    HEALTHY, JOINED, NAMESPACE_COLLECTION_SUCCEEDED,
};
use flagship_api::policy::TaintEffect;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::PackedMap;

/// A member cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.labels`.
    pub labels: PackedMap,
    /// Whether it is being deleted.
    pub leaving: bool,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// What its member agent last said; `None` before the first word.
    pub agent: Option<Agent>,
    /// `status.properties`, values only.
    pub properties: PackedMap,
    /// `status.resourceUsage.capacity`.
    pub capacity: PackedMap,
    /// `status.resourceUsage.allocatable`.
    pub allocatable: PackedMap,
    /// `status.resourceUsage.available`.
    pub available: PackedMap,
    /// Whether the agent collects namespaces at all.
    pub collects_namespaces: bool,
    /// `status.namespaces`; `None` when never reported.
    pub namespaces: Option<BTreeMap<String, String>>,
}

/// A taint of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Taint {
    /// Key, never empty.
    pub key: String,
    /// Value, may be empty.
    pub value: String,
    /// Effect as printed; only `NoSchedule` exists.
    pub effect: String,
}

/// The last word of a cluster's member agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// When it was last heard.
    pub heartbeat: Timestamp,
    /// Whether condition `Joined` is True; missing counts as no.
    pub joined: bool,
    /// Condition `Healthy`, and since when; `None` when missing.
    pub health: Option<Health>,
}

/// The agent's condition `Healthy`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Whether it is True.
    pub healthy: bool,
    /// When it last changed.
    pub since: Timestamp,
}

impl Cluster {
    /// Takes a member cluster apart.
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
            taints: taints.collect(),
            agent: agent.map(|agent| Agent {
                // Never heard of counts as heard of at the beginning of time.
                heartbeat: agent
                    .last_received_heartbeat
                    .clone()
                    .map_or_else(Default::default, |t| t.0),
                joined: agent.conditions.of_type(JOINED).is_some_and(is_true),
                health: agent.conditions.of_type(HEALTHY).map(|condition| Health {
                    healthy: is_true(condition),
                    since: condition.last_transition_time.0,
                }),
            }),
            properties: status.properties.into_iter().map(|(name, p)| (name, p.value)).collect(),
            capacity: plain(status.resource_usage.capacity),
            allocatable: plain(status.resource_usage.allocatable),
            available: plain(status.resource_usage.available),
            collects_namespaces: status
                .conditions
                .of_type(NAMESPACE_COLLECTION_SUCCEEDED)
                .is_some(),
            namespaces: Some(status.namespaces).filter(|known| !known.is_empty()),
            ..Self::named(&from.metadata)
        }
    }

    /// What its metadata alone say.
    pub fn named(metadata: &ObjectMeta) -> Self {
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default().into(),
            leaving: metadata.deletion_timestamp.is_some(),
            ..Self::default()
        }
    }
}

fn is_true(condition: &Condition) -> bool {
    ConditionStatus::of(condition) == ConditionStatus::True
}

fn plain(quantities: BTreeMap<String, Quantity>) -> PackedMap {
    quantities.into_iter().map(|(name, quantity)| (name, quantity.0)).collect()
}
