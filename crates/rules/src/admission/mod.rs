//! Which writes a hub refuses beyond what schemas refuse, and what it fills in.
//!
//! One function for every caller: a webhook server asks it over the network, the embedded
//! server in the process. It dispatches by kind and operation; a kind nobody has a word on
//! is none of its business. Messages are API.
//!
//! What is wrong with a placement is `placement::validation`'s knowledge. Who may do what
//! is decided in `guard_rails`, and for records of runs in `records`.

pub mod approvals;
mod evictions;
pub mod guard_rails;
mod members;
mod overrides;
pub mod policies;
pub mod records;
mod registration;
mod workloads;

#[cfg(test)]
mod tests;

use flagship_api::decode::decode_value;
use flagship_api::defaults::complete_placement;
use flagship_api::kinds::Scope;
use flagship_api::placement::{ClusterResourcePlacement, ResourcePlacement};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::placement::Placement;
use crate::placement::selection::Kind;
use crate::placement::validation::{self, Verdict};
use crate::policy::{Policy, checks, windows};

pub use overrides::Neighbour;
pub use registration::{Webhook, judge_of, webhooks};

/// What a request does to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// It is new.
    Create,
    /// It is there and changes.
    Update,
    /// It goes.
    Delete,
}

/// A write that is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// What it does.
    pub operation: Operation,
    /// Kind of the object, in the version that it is sent in.
    pub kind: &'a Kind,
    /// Such as `status`; empty for the object itself.
    pub subresource: &'a str,
    /// Namespace of the object; empty for a cluster-scoped one.
    pub namespace: &'a str,
    /// Name of the object; may be empty where the server makes one up.
    pub name: &'a str,
    /// The object as it would be; for deletions as it is.
    pub object: &'a Value,
    /// The object as it is; absent on creation.
    pub old: Option<&'a Value>,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It may pass, with a word for the audit log.
    Allowed(String),
    /// It may not: 403.
    Denied(String),
    /// It cannot be read: 400.
    Malformed(String),
    /// It cannot be judged now: 500.
    Failed(String),
}

/// What an answer may depend on besides the request.
pub trait Context {
    /// What discovery knows of a kind: `Err` that it knows nothing, `Ok(None)` that it is
    /// there but nobody watches it yet. `None` until the hub has asked its server.
    fn scope_of(&self, kind: &Kind) -> Option<Result<Option<Scope>, String>>;

    /// The cluster-scoped placement of that name.
    fn placement(&self, name: &str) -> Option<Placement>;

    /// Services that the member still exports, as `namespace/name`; none where no
    /// networking agents run.
    fn exports(&self, member: &str) -> Result<Vec<String>, String>;

    /// All overrides of the kind and namespace that is asked about, the one itself
    /// included if it is there.
    fn overrides(&self) -> Vec<Neighbour>;
}

/// What an operator allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// `--enable-workload`: workloads may run on the hub itself.
    pub workloads_run_here: bool,
    /// `--enable-pdbs`: PodDisruptionBudgets may be created on the hub.
    pub pod_disruption_budgets: bool,
    /// `--networking-agents-enabled`: members export services.
    pub networking_agents: bool,
}

impl Answer {
    /// The HTTP status that a webhook answers with.
    pub fn code(&self) -> u16 {
        match self {
            Self::Allowed(_) => 200,
            Self::Denied(_) => 403,
            Self::Malformed(_) => 400,
            Self::Failed(_) => 500,
        }
    }

    /// Why.
    pub fn message(&self) -> &str {
        let (Self::Allowed(why) | Self::Denied(why) | Self::Malformed(why) | Self::Failed(why)) =
            self;
        why
    }
}

impl From<Verdict> for Answer {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allowed(why) => Self::Allowed(why),
            Verdict::Denied(why) => Self::Denied(why),
        }
    }
}

/// What has to be read before a request can be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need<'a> {
    /// The request says it all.
    Nothing,
    /// Which kinds the server serves.
    Kinds,
    /// The cluster-scoped placement of that name.
    Placement(&'a str),
    /// All cluster-scoped overrides.
    ClusterOverrides,
    /// All overrides of that namespace.
    Overrides(&'a str),
    /// What the member of that name exports.
    Exports(&'a str),
}

/// Names what [`review`] will ask its surroundings about this request.
pub fn needs<'a>(request: &Request<'a>, options: Options) -> Need<'a> {
    if !request.subresource.is_empty() {
        return Need::Nothing;
    }
    match (request.group(), request.kind.kind.as_str(), request.operation) {
        (JOINING, "MemberCluster", Operation::Delete) if options.networking_agents => {
            Need::Exports(request.name)
        }
        (_, _, Operation::Delete) => Need::Nothing,
        (PLACING, "ClusterResourcePlacement" | "ResourcePlacement", _) => Need::Kinds,
        (PLACING, "ClusterResourcePlacementEviction", _) => {
            Need::Placement(request.object["spec"]["placementName"].as_str().unwrap_or_default())
        }
        (PLACING, "ClusterResourcePlacementDisruptionBudget", _) => Need::Placement(request.name),
        (PLACING, "ClusterResourceOverride", _) => Need::ClusterOverrides,
        (PLACING, "ResourceOverride", _) => Need::Overrides(request.namespace),
        _ => Need::Nothing,
    }
}

/// Judges a request. `None`: nobody here has a word on it, so it may pass.
pub fn review(request: &Request<'_>, context: &dyn Context, options: Options) -> Option<Answer> {
    if !request.subresource.is_empty() {
        return None;
    }
    let answer = match (request.group(), request.kind.kind.as_str(), request.operation) {
        (_, _, Operation::Delete) if !request.is_member() => return None,
        (PLACING, "ClusterResourcePlacement", _) => {
            admit(request, context, |object: &ClusterResourcePlacement| {
                let status = object.status.clone().unwrap_or_default();
                Placement::read(&object.metadata, &object.spec, &status)
            })
        }
        (PLACING, "ResourcePlacement", _) => {
            admit(request, context, |object: &ResourcePlacement| {
                let status = object.status.clone().unwrap_or_default();
                Placement::read(&object.metadata, &object.spec, &status)
            })
        }
        (PLACING, "ClusterResourceOverride", _) => overrides::cluster_override(request, context),
        (PLACING, "ResourceOverride", _) => overrides::namespaced_override(request, context),
        (PLACING, "ClusterResourcePlacementEviction", Operation::Create) => {
            evictions::eviction(request, context)
        }
        (PLACING, "ClusterResourcePlacementDisruptionBudget", _) => {
            evictions::budget(request, context)
        }
        (OWN, "RolloutPolicy", _) => rollout_policy(request),
        (JOINING, "MemberCluster", _) => members::member(request, context, options),
        (_, _, Operation::Create) => return workloads::workload(request, options),
        _ => return None,
    };
    Some(answer.unwrap_or_else(|refused| refused))
}

/// The object with everything filled in that its sender left out; `None` if nothing was,
/// or it is not ours to fill.
pub fn complete(request: &Request<'_>) -> Option<Value> {
    let fills = request.group() == PLACING
        && request.kind.kind == "ClusterResourcePlacement"
        && request.subresource.is_empty()
        && request.operation != Operation::Delete;
    let mut object: ClusterResourcePlacement =
        fills.then(|| decode_value(request.object).ok()).flatten()?;
    let before = object.spec.clone();
    complete_placement(&mut object.spec);
    if object.spec == before {
        return None;
    }
    let mut completed = request.object.clone();
    completed["spec"] = serde_json::to_value(&object.spec).ok()?;
    Some(completed)
}

const PLACING: &str = flagship_api::keys::group::PLACEMENT;
const JOINING: &str = flagship_api::keys::group::CLUSTER;
const OWN: &str = flagship_api::keys::group::POLICY;

impl Request<'_> {
    fn group(&self) -> &str {
        &self.kind.group
    }

    fn is_member(&self) -> bool {
        self.group() == JOINING && self.kind.kind == "MemberCluster"
    }
}

/// Reads an object, or says where it cannot be read.
fn read<K: DeserializeOwned>(object: &Value) -> Result<K, Answer> {
    decode_value(object).map_err(|error| Answer::Malformed(error.to_string()))
}

/// What a schema cannot tell of a policy: zones that do not exist, windows that never open,
/// checks that are asked too seldom.
fn rollout_policy(request: &Request<'_>) -> Result<Answer, Answer> {
    let policy = Policy::read(&read(request.object)?);
    Ok(match windows::mistakes(&policy).or_else(|| checks::mistakes(&policy)) {
        None => Answer::Allowed("the windows of the policy can be followed".to_owned()),
        Some(why) => Answer::Denied(why),
    })
}

fn admit<K: DeserializeOwned>(
    request: &Request<'_>,
    context: &dyn Context,
    seen: impl Fn(&K) -> Placement,
) -> Result<Answer, Answer> {
    let new = seen(&read(request.object)?);
    let old = request.old.map(read).transpose()?.map(|old| seen(&old));
    let looked =
        new.spec.resource_selectors.first().is_none_or(|term| {
            context.scope_of(&crate::placement::selection::kind_of(term)).is_some()
        });
    let kinds = |kind: &Kind| context.scope_of(kind).unwrap_or(Ok(None));
    Ok(validation::admit(old.as_ref(), &new, looked.then_some(&kinds)).into())
}
