//! Publishes each joined member as a ClusterProfile, for tools that read the inventory API.
//!
//! One profile a member, in the fleet's own namespace and named like it. Users' edits are
//! undone and a deleted profile comes back. What a member stopped reporting stays as it
//! was last known; only its health follows the heartbeat, and a silent member is looked at
//! again when its heartbeat would be too old.

#[cfg(test)]
mod tests;

use flagship_api::cluster::{AgentType, MemberClusterStatus};
use flagship_api::cluster_profile::{
    AccessProvider, ClusterEndpoint, ClusterManager, ClusterProfile, ClusterProfileSpec,
    ClusterProfileStatus,
};
use flagship_api::condition::{ConditionDraft, ConditionStatus, Conditions, Generation, draft};
use flagship_api::condition_type::{cluster_profile, member_cluster};
use flagship_api::keys::{label, property};
use flagship_api::reason::inventory as reason;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};

/// Who manages the clusters of a fleet, by the name that KubeFleet gives itself.
pub const MANAGER: &str = "KubeFleet";

/// Everything one pass over a member's profile may look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The present moment.
    pub now: Timestamp,
    /// Since when this hub listens: what members said before, it may not have heard.
    #[serde(default)]
    pub listening_since: Timestamp,
    /// The MemberCluster; `None` once it is gone.
    pub member: Option<Member>,
    /// Its profile, if there is one.
    pub profile: Option<Profile>,
    /// `--cluster-unhealthy-threshold`: a heartbeat older than this is lost.
    pub heartbeat_threshold: SignedDuration,
}

/// What is read of a MemberCluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it carries the finalizer that keeps it until its profile is gone.
    pub has_finalizer: bool,
    /// What its agents report.
    pub status: MemberClusterStatus,
}

impl Member {
    /// Whether a condition of the member is true of its present generation.
    fn says(&self, kind: &str) -> bool {
        self.status.conditions.is_true_at(kind, Generation(self.generation))
    }
}

/// What is read of a ClusterProfile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// `metadata.generation`.
    pub generation: i64,
    /// Label `x-k8s.io/cluster-manager`.
    pub manager_label: Option<String>,
    /// The spec as stored.
    pub spec: ClusterProfileSpec,
    /// The status as stored.
    pub status: ClusterProfileStatus,
}

impl Profile {
    /// What the rules read of a ClusterProfile.
    pub fn read(from: &ClusterProfile) -> Self {
        let labels = from.metadata.labels.as_ref();
        Self {
            generation: from.metadata.generation.unwrap_or_default(),
            manager_label: labels.and_then(|labels| labels.get(label::CLUSTER_MANAGER)).cloned(),
            spec: from.spec.clone(),
            status: from.status.clone().unwrap_or_default(),
        }
    }
}

/// What one pass decided, in the order to carry it out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Writes, in order.
    pub actions: Vec<Action>,
    /// When to look again even if nothing happens.
    pub wake: Option<SignedDuration>,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Put the profile's finalizer on the MemberCluster.
    AddFinalizer,
    /// Create the profile with this spec and the manager's label. Its status is written by
    /// the pass that sees it.
    Create(ClusterProfileSpec),
    /// Put spec and label of the profile right.
    Update(ClusterProfileSpec),
    /// Write the profile's status.
    Status(ClusterProfileStatus),
    /// Delete the profile.
    Delete,
    /// Take the profile's finalizer off the MemberCluster.
    RemoveFinalizer,
}

/// Decides one pass over the profile of one member.
pub fn plan(seen: &Observed) -> Plan {
    let Some(member) = seen.member.as_ref().filter(|member| !member.deleting) else {
        return retire(seen);
    };
    let mut plan = Plan::default();
    if !member.says(member_cluster::JOINED) {
        return plan;
    }
    if !member.has_finalizer {
        plan.actions.push(Action::AddFinalizer);
    }
    let spec = ClusterProfileSpec {
        display_name: member.name.clone(),
        cluster_manager: ClusterManager { name: MANAGER.to_owned() },
    };
    let Some(profile) = &seen.profile else {
        plan.actions.push(Action::Create(spec));
        return plan;
    };
    if profile.spec != spec || profile.manager_label.as_deref() != Some(MANAGER) {
        plan.actions.push(Action::Update(spec));
    }
    let (status, wake) = status(seen, member, profile);
    if status != profile.status {
        plan.actions.push(Action::Status(status));
    }
    plan.wake = wake;
    plan
}

fn retire(seen: &Observed) -> Plan {
    let mut actions = Vec::new();
    if seen.profile.is_some() {
        actions.push(Action::Delete);
    }
    if seen.member.as_ref().is_some_and(|member| member.has_finalizer) {
        actions.push(Action::RemoveFinalizer);
    }
    Plan { actions, wake: None }
}

fn status(
    seen: &Observed,
    member: &Member,
    profile: &Profile,
) -> (ClusterProfileStatus, Option<SignedDuration>) {
    let mut status = profile.status.clone();
    if member.says(member_cluster::PROPERTY_COLLECTION_SUCCEEDED) {
        let known = |name: &str| {
            let property = member.status.properties.get(name);
            property.map(|property| property.value.clone()).unwrap_or_default()
        };
        status.version.kubernetes = known(property::K8S_VERSION);
        let authority = known(property::CERTIFICATE_AUTHORITY);
        status.access_providers = vec![AccessProvider {
            name: MANAGER.to_owned(),
            cluster: Some(ClusterEndpoint {
                server: known(property::ENTRYPOINT),
                certificate_authority_data: (!authority.is_empty())
                    .then(|| ByteString(authority.into_bytes())),
                ..ClusterEndpoint::default()
            }),
        }];
    }
    let (health, wake) = health(seen, member, profile);
    health.set(&mut status.conditions, Generation(profile.generation), seen.now);
    (status, wake)
}

/// How long past the threshold the next heartbeat may come. Threshold and heartbeats are both
/// a minute by default: looking at the very moment would call a member lost between two
/// heartbeats, and write it twice a minute.
const NEXT_HEARTBEAT: SignedDuration = SignedDuration::from_secs(60);

/// How long a hub that has just begun to listen goes on waiting before it calls a member lost: as
/// long as for one that it has just heard. What it already called lost, it does not take back.
fn waits_still(seen: &Observed, profile: &Profile) -> Option<SignedDuration> {
    let known = profile.status.conditions.of_type(cluster_profile::CONTROL_PLANE_HEALTHY);
    if known.is_some_and(|known| known.reason == reason::HEARTBEAT_LOST) {
        return None;
    }
    let listened = seen.now.duration_since(seen.listening_since);
    let left = seen.heartbeat_threshold + NEXT_HEARTBEAT - listened;
    (left > SignedDuration::ZERO).then_some(left)
}

/// Whether the member's API server answers, and when a heartbeat that is good now would be
/// too old.
fn health(
    seen: &Observed,
    member: &Member,
    profile: &Profile,
) -> (ConditionDraft, Option<SignedDuration>) {
    let subject = || draft(cluster_profile::CONTROL_PLANE_HEALTHY);
    let agents = &member.status.agent_status;
    let Some(agent) = agents.iter().find(|agent| agent.r#type == AgentType::MemberAgent) else {
        let said = "The Fleet member agent has not reported its status yet";
        return (subject().is_unknown(reason::NO_STATUS).because(said), None);
    };
    let Some(healthy) = agent.conditions.of_type(member_cluster::HEALTHY) else {
        let said =
            "The Fleet member agent has reported its status, but the health condition is missing";
        return (subject().is_unknown(reason::NO_HEALTH_INFO).because(said), None);
    };
    let heard = agent.last_received_heartbeat.as_ref().map_or(Timestamp::UNIX_EPOCH, |at| at.0);
    let left = seen.heartbeat_threshold - seen.now.duration_since(heard);
    let is_old = left < SignedDuration::ZERO;
    let waits = waits_still(seen, profile).filter(|_| is_old);
    if is_old && waits.is_none() {
        let said =
            "The Fleet member agent has lost its heartbeat connection to the Fleet hub cluster";
        return (subject().is_false(reason::HEARTBEAT_LOST).because(said), None);
    }
    let told = match ConditionStatus::of(healthy) {
        ConditionStatus::Unknown => subject()
            .is_unknown(reason::NO_HEALTH_INFO)
            .because("The Fleet member agent health check result is out of date or unknown"),
        ConditionStatus::False => subject()
            .is_false(reason::UNHEALTHY)
            .because("The Fleet member agent reports that the API server is unhealthy"),
        ConditionStatus::True => subject()
            .is_true(reason::HEALTHY)
            .because("The Fleet member agent reports that the API server is healthy"),
    };
    (told, Some(waits.unwrap_or(left + NEXT_HEARTBEAT)))
}
