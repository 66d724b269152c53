//! Guard rails: who may touch what the fleet itself lives on.
//!
//! Schemas and `review` judge what an object says; guard rails judge who sends it. They
//! cover the fleet's CRDs, MemberClusters, and everything in namespaces called `fleet-*`
//! or `kube-*`. Off unless an operator asks for them; RBAC stays the first line.
//!
//! `rules` lists which requests an API server must show us. Messages are API.

mod rules;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use flagship_api::cluster::{MemberCluster, MemberClusterSpec};
use flagship_api::names::{SYSTEM_NAMESPACE, cluster_of_namespace, is_reserved_namespace};

use super::{Answer, JOINING, Operation, PLACING, Request, read};
use crate::placement::selection::Kind;

pub use rules::{CONFIGURATION, GuardRail, NamespaceMatch, PATH, ResourceRule, guard_rails};

/// Who sent a request, as authentication knows them.
#[derive(Debug, Clone, Copy)]
pub struct Sender<'a> {
    /// User name.
    pub name: &'a str,
    /// Groups of the user.
    pub groups: &'a [&'a str],
    /// The kind as sent, which a refusal names; the request itself may be converted.
    pub sent_kind: &'a Kind,
}

/// What an operator chose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// `--whitelisted-users`: users who count as administrators.
    pub administrators: Vec<String>,
    /// `--deny-modify-member-cluster-labels`: labels of members are not edited on the hub.
    pub lock_member_labels: bool,
}

/// Annotations with this prefix mark a MemberCluster that a managed service owns.
const MANAGED: &str = "fleet.azure.com";
/// Labels with this prefix are the fleet's own, and never locked.
const OWN_LABELS: &str = "kubernetes-fleet.io/";
/// The networking agents' group.
const NETWORKING: &str = "networking.fleet.azure.com";
/// Groups whose CRDs the fleet cannot do without.
const FLEET_GROUPS: [&str; 4] = [NETWORKING, JOINING, PLACING, "multicluster.x-k8s.io"];
const MASTERS: &str = "system:masters";

/// Name of the member whose identity decides about this request, if one does. The caller
/// reads that MemberCluster before it asks [`judge`].
pub fn member_of<'a>(request: &Request<'a>) -> Option<&'a str> {
    is_a_members_own(request.kind).then(|| cluster_of_namespace(request.namespace)).flatten()
}

/// Judges a request by who sends it. `identity` is the subject that [`member_of`] the
/// request names, if that MemberCluster could be read.
pub fn judge(
    request: &Request<'_>,
    sender: &Sender<'_>,
    identity: Option<&str>,
    options: &Options,
) -> Answer {
    match (request.group(), request.kind.kind.as_str()) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let group = request.name.split_once('.').map_or("", |(_, group)| group);
            let free = !FLEET_GROUPS.contains(&group) || sender.is_administrator(options);
            allow_if(free, request, sender)
        }
        ("", "Namespace") => {
            let free = !is_reserved_namespace(request.name) || sender.is_trusted(options);
            allow_if(free, request, sender)
        }
        (JOINING, "MemberCluster") => member_cluster(request, sender, options),
        ("", "Event") | ("events.k8s.io", "Event") => allowed(),
        _ if is_a_members_own(request.kind) => {
            let member = member_of(request);
            let is_member = identity.is_some_and(|identity| sender.is(identity));
            // Nobody can tell whose namespace it is without its MemberCluster: let it pass,
            // as KubeFleet does, for RBAC has allowed it already.
            let unknown = member.is_some() && identity.is_none();
            allow_if(unknown || is_member || sender.is_trusted(options), request, sender)
        }
        _ => allow_if(sender.is_trusted(options), request, sender),
    }
}

impl Sender<'_> {
    fn is_administrator(&self, options: &Options) -> bool {
        options.administrators.iter().any(|user| user == self.name)
            || self.belongs_to(MASTERS)
            || self.belongs_to("kubeadm:cluster-admins")
    }

    fn is_trusted(&self, options: &Options) -> bool {
        const USERS: [&str; 3] =
            ["system:kube-scheduler", "system:kube-controller-manager", "aks-support"];
        self.is_administrator(options)
            || self.belongs_to("system:serviceaccounts")
            || self.belongs_to("system:nodes")
            || USERS.contains(&self.name)
    }

    fn belongs_to(&self, group: &str) -> bool {
        self.groups.contains(&group)
    }

    /// Whether the sender is the subject a MemberCluster names. Service accounts of members
    /// live in the system namespace, whatever the identity says about a namespace.
    fn is(&self, identity: &str) -> bool {
        self.name == identity
            || self.name.strip_prefix("system:serviceaccount:").is_some_and(|account| {
                account.split_once(':') == Some((SYSTEM_NAMESPACE, identity))
            })
    }
}

/// The kinds in a member's namespace that its agents write.
fn is_a_members_own(kind: &Kind) -> bool {
    match kind.group.as_str() {
        JOINING => kind.kind == "InternalMemberCluster",
        PLACING => kind.kind == "Work",
        NETWORKING => matches!(
            kind.kind.as_str(),
            "EndpointSliceExport"
                | "EndpointSliceImport"
                | "InternalServiceExport"
                | "InternalServiceImport"
        ),
        _ => false,
    }
}

fn member_cluster(request: &Request<'_>, sender: &Sender<'_>, options: &Options) -> Answer {
    match judge_member_cluster(request, sender, options) {
        Ok(answer) | Err(answer) => answer,
    }
}

fn judge_member_cluster(
    request: &Request<'_>,
    sender: &Sender<'_>,
    options: &Options,
) -> Result<Answer, Answer> {
    let new: MemberCluster = read(request.object)?;
    let trusted = |needed: bool| allow_if(!needed || sender.is_trusted(options), request, sender);
    let old: MemberCluster = match (request.operation, request.old) {
        (Operation::Update, Some(old)) => read(old)?,
        _ if managed(&new).next().is_some() => return Ok(trusted(true)),
        _ => {
            return Ok(Answer::Allowed(
                "upstream member cluster resource is allowed to be created/deleted by any user"
                    .to_owned(),
            ));
        }
    };
    if managed(&old).next().is_none() {
        if managed(&new).next().is_some() {
            return Ok(Answer::Denied(
                "no user is allowed to add a fleet pre-fixed annotation to an upstream member cluster".to_owned(),
            ));
        }
        return Ok(trusted(old.status != new.status));
    }
    if managed(&new).next().is_none() {
        return Ok(Answer::Denied(
            "no user is allowed to remove all fleet pre-fixed annotations from a fleet member cluster".to_owned(),
        ));
    }
    if options.lock_member_labels
        && lockable_labels(&old) != lockable_labels(&new)
        && !sender.belongs_to(MASTERS)
    {
        return Ok(Answer::Denied(
            "users are not allowed to modify labels through hub cluster directly".to_owned(),
        ));
    }
    let finalizers =
        |member: &MemberCluster| member.metadata.finalizers.clone().unwrap_or_default();
    let changed = without_taints(&old.spec) != without_taints(&new.spec)
        || old.status != new.status
        || finalizers(&old) != finalizers(&new)
        || claims_changed(&old, &new);
    Ok(trusted(changed))
}

/// The annotations by which a managed service claims the member.
fn managed(member: &MemberCluster) -> impl Iterator<Item = (&str, &str)> {
    let annotations = member.metadata.annotations.iter().flatten();
    annotations
        .filter(|(key, _)| key.starts_with(MANAGED))
        .map(|(key, value)| (key.as_str(), value.as_str()))
}

/// Whether an annotation of the managed service was changed or removed. One that was added
/// does not count.
fn claims_changed(old: &MemberCluster, new: &MemberCluster) -> bool {
    let now: BTreeMap<&str, &str> = managed(new).collect();
    managed(old).any(|(key, value)| now.get(key) != Some(&value))
}

fn lockable_labels(member: &MemberCluster) -> BTreeMap<&str, &str> {
    let labels = member.metadata.labels.iter().flatten();
    labels
        .filter(|(key, _)| !key.starts_with(OWN_LABELS))
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect()
}

fn without_taints(spec: &MemberClusterSpec) -> MemberClusterSpec {
    MemberClusterSpec { taints: Vec::new(), ..spec.clone() }
}

fn allowed() -> Answer {
    Answer::Allowed(String::new())
}

fn allow_if(free: bool, request: &Request<'_>, sender: &Sender<'_>) -> Answer {
    if free { allowed() } else { Answer::Denied(refusal(request, sender)) }
}

fn refusal(request: &Request<'_>, sender: &Sender<'_>) -> String {
    let groups = match sender.groups {
        [first, second, third, _, _, _, _, _, _, _, _, ..] => {
            format!("groups: [{first}, {second}, {third},......]")
        }
        groups => format!("groups: [{}]", groups.join(" ")),
    };
    let operation = match request.operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
    };
    let Kind { group, version, kind, .. } = sender.sent_kind;
    format!(
        "user: '{}' in '{groups}' is not allowed to {operation} resource {group}/{version}, Kind={kind}/{}: {}/{}",
        sender.name, request.subresource, request.namespace, request.name
    )
}
