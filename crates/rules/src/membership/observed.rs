//! What the hub sees of one member: what the user wrote, what the hub made of it, and
//! what the member's agents said.

use flagship_api::cluster::{InternalMemberClusterSpec, MemberClusterSpec, MemberClusterStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};
use serde::{Deserialize, Serialize};

use super::rights::Rights;

/// Everything one pass over a member may look at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The present moment.
    pub now: Timestamp,
    /// The MemberCluster.
    pub member: Member,
    /// Its namespace on the hub.
    pub namespace: Option<Namespace>,
    /// Rules of its Role.
    pub role: Option<Vec<PolicyRule>>,
    /// Its RoleBinding.
    pub role_binding: Option<RoleBinding>,
    /// Its InternalMemberCluster.
    pub internal: Option<Internal>,
    /// Works in its namespace that have finalizers, by name. Only read while it leaves.
    pub works_with_finalizers: Vec<String>,
    /// Choices of the operator.
    pub options: Options,
}

/// Choices an operator makes for the whole hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Whether the two networking agents are expected besides the member agent.
    pub networking_agents: bool,
    /// How long a member that says nothing may take to leave.
    pub force_delete_wait: SignedDuration,
    /// How much of its namespace a member is given.
    pub rights: Rights,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            networking_agents: false,
            force_delete_wait: SignedDuration::from_mins(15),
            rights: Rights::Needed,
        }
    }
}

/// A MemberCluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`, for owner references.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// When it was deleted; it is leaving since.
    pub leaving_since: Option<Timestamp>,
    /// Whether it carries our finalizer.
    pub has_finalizer: bool,
    /// Label `member-name`, as written.
    pub label: Option<String>,
    /// The spec. Its taints are the scheduler's and not looked at.
    pub spec: MemberClusterSpec,
    /// The status as last written.
    pub status: MemberClusterStatus,
}

/// The namespace of a member on the hub.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Whether label `is-fleet-resource` says anything.
    pub labelled: bool,
    /// When it was deleted, if it was.
    pub deleting_since: Option<Timestamp>,
}

/// The RoleBinding of a member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoleBinding {
    /// Who is given the rights.
    pub subjects: Vec<Subject>,
    /// Which rights.
    pub role: RoleRef,
}

/// The InternalMemberCluster of a member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Internal {
    /// What the hub tells the agent.
    pub spec: InternalMemberClusterSpec,
    /// What the agents tell the hub.
    pub status: MemberClusterStatus,
    /// When the hub's API server last took a status, if it says so.
    #[serde(default)]
    pub written: Option<Timestamp>,
}
