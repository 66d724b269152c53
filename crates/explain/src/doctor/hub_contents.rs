//! What a doctor sees of a hub: everything of ours that is stored there, and how the hub
//! itself answers. Both scopes are one, keys tell them apart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flagship_api::cluster::{MemberClusterSpec, MemberClusterStatus};
use flagship_api::names::ObjectKey;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use flagship_rules::model::{Binding, PolicySnapshot, ResourceSnapshot};
use flagship_rules::work::Work;
use flagship_rules::{eviction, placement, update_run};

/// One look at a hub.
#[derive(Debug, Clone, Default)]
pub struct HubContents {
    /// The present moment by the clock of whoever looks.
    pub now: Timestamp,
    /// The same moment by the hub's own clock, if it told.
    pub hub_time: Option<Timestamp>,
    /// The version of the API server.
    pub version: String,
    /// Which of its checks fail, each with its reason.
    pub unready: Vec<String>,
    /// CustomResourceDefinitions by name; nothing if they may not be read.
    pub definitions: Option<BTreeMap<String, Value>>,
    /// The lease that a leading hub renews.
    pub lease: Option<LeaseSeen>,
    /// What whoever looks may do; empty if the server does not say.
    pub rights: Vec<Right>,
    /// Namespaces.
    pub namespaces: BTreeSet<String>,
    /// Members by name.
    pub members: BTreeMap<String, MemberSeen>,
    /// Heartbeats as the members wrote them, by member.
    pub heartbeats: BTreeMap<String, Option<Timestamp>>,
    /// What members answer themselves, by member; only those that were asked.
    pub reached: BTreeMap<String, Reached>,
    /// Placements.
    pub placements: Vec<placement::Placement>,
    /// Policy snapshots.
    pub policies: Vec<Owned<PolicySnapshot>>,
    /// Resource snapshots.
    pub resources: Vec<Owned<ResourceSnapshot>>,
    /// Bindings.
    pub bindings: Vec<BindingSeen>,
    /// Works.
    pub works: Vec<WorkSeen>,
    /// Update runs.
    pub runs: Vec<update_run::Run>,
    /// Approval requests.
    pub approvals: Vec<ApprovalSeen>,
    /// Evictions.
    pub evictions: Vec<EvictionSeen>,
    /// Whatever is being deleted.
    pub deleting: Vec<Deleting>,
    /// Objects that cannot be read, each in a line.
    pub unreadable: Vec<String>,
    /// Kinds that could not be listed, as `plural.group`, each with the reason.
    pub unlisted: BTreeMap<String, Unlisted>,
}

/// Why a kind could not be listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unlisted {
    /// The server does not serve it.
    NotServed,
    /// Whoever looks may not, in the server's words.
    Forbidden(String),
    /// The server failed, or did not answer, in these words.
    Failed(String),
}

/// Who leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSeen {
    /// Its name for itself.
    pub holder: String,
    /// When it last said so.
    pub renewed: Option<Timestamp>,
    /// How long that is worth.
    pub lasts: SignedDuration,
}

/// Something one may have to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    /// `get`, `list`, `patch`, ...
    pub verb: String,
    /// `plural.group`, or `plural.group/subresource`.
    pub resource: String,
    /// Whether one may.
    pub allowed: bool,
}

/// A MemberCluster.
#[derive(Debug, Clone, Default)]
pub struct MemberSeen {
    /// Whether it is leaving.
    pub leaving: bool,
    /// What is wanted of it.
    pub spec: MemberClusterSpec,
    /// What is known of it.
    pub status: MemberClusterStatus,
}

/// What a member answers when it is asked directly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reached {
    /// It answers.
    Answers {
        /// Whether it knows what its agent keeps its books in.
        has_applied_works: bool,
    },
    /// It does not, for this reason.
    Silent(String),
}

/// Something that belongs to a placement.
#[derive(Debug, Clone)]
pub struct Owned<V> {
    /// Where it is.
    pub key: ObjectKey,
    /// The placement that its label names.
    pub placement: Option<ObjectKey>,
    /// As the rules see it.
    pub value: V,
}

/// A binding.
pub type BindingSeen = Owned<Arc<Binding>>;

/// A Work.
#[derive(Debug, Clone)]
pub struct WorkSeen {
    /// Where it is.
    pub key: ObjectKey,
    /// As the rules see it.
    pub value: Work,
}

/// An approval request.
#[derive(Debug, Clone)]
pub struct ApprovalSeen {
    /// Where it is.
    pub key: ObjectKey,
    /// As the rules see it.
    pub value: update_run::Approval,
}

/// An eviction.
#[derive(Debug, Clone)]
pub struct EvictionSeen {
    /// Its name.
    pub name: String,
    /// When it was asked for.
    pub created: Timestamp,
    /// As the rules see it.
    pub value: eviction::Eviction,
}

/// An object on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleting {
    /// `plural.group`, as kubectl takes it.
    pub resource: String,
    /// Where it is.
    pub key: ObjectKey,
    /// Since when.
    pub since: Timestamp,
    /// Who has to let it go.
    pub finalizers: Vec<String>,
}

impl HubContents {
    /// What was not read, if anything: then nothing can be called a left-over, for whatever it
    /// belongs to may be there.
    pub fn gap(&self) -> Option<String> {
        let kinds = self.unlisted.keys().next().map(|kind| format!("{kind} could not be listed"));
        kinds.or_else(|| self.unreadable.first().cloned())
    }

    /// The placement of that key.
    pub fn placement(&self, key: &ObjectKey) -> Option<&placement::Placement> {
        self.placements.iter().find(|placement| placement.key() == *key)
    }
}
