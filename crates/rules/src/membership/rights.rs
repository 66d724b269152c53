//! What a member may do on the hub: its part in its own namespace, nothing elsewhere.

use flagship_api::cluster::MemberClusterSpec;
use flagship_api::defaults::complete_identity;
use flagship_api::keys::group;
use flagship_api::names::member_role;
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef};
use serde::{Deserialize, Serialize};

use super::observed::{Options, RoleBinding};

const RBAC: &str = "rbac.authorization.k8s.io";

/// What a member may do in its namespace with [`Rights::Needed`], as people have read it:
/// one line a resource, `group resource: verbs`, after some that begin with `#`.
pub const REVIEWED_RIGHTS: &str = include_str!("reviewed-rights.txt");

/// How much of its namespace a member is given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rights {
    /// What agents need, KubeFleet's included: to read their Works, to mark them as claimed,
    /// and to write statuses and events.
    #[default]
    Needed,
    /// Every verb on every kind of ours, as KubeFleet gives it. A member could then write
    /// placements of its own in its namespace.
    Original,
}

/// The rules of a member's Role, in this order.
pub fn rules(options: &Options) -> Vec<PolicyRule> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources.iter().map(|word| (*word).to_owned()).collect()),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    };
    let all = |group| rule(group, &["*"], &["*"]);
    let events = rule("", &["events"], &["get", "list", "update", "patch", "watch", "create"]);
    let (read, say) = (&["get", "list", "watch"], &["get", "update", "patch"]);
    match options.rights {
        Rights::Original => {
            vec![all(group::CLUSTER), all(group::PLACEMENT), all(group::NETWORKING), events]
        }
        Rights::Needed => {
            let mut rules = vec![
                rule(group::CLUSTER, &["internalmemberclusters"], read),
                rule(group::CLUSTER, &["internalmemberclusters/status"], say),
                // The finalizer that marks a Work as claimed is not in its status.
                rule(group::PLACEMENT, &["works"], &["get", "list", "watch", "update", "patch"]),
                rule(group::PLACEMENT, &["works/status"], say),
            ];
            rules.extend(options.networking_agents.then(|| all(group::NETWORKING)));
            rules.push(events);
            rules
        }
    }
}

/// The RoleBinding of a member: its identity has its Role. The identity is completed as
/// the server would, or the binding would be rewritten for ever.
pub fn binding(member: &str, spec: &MemberClusterSpec) -> RoleBinding {
    let mut subject = spec.identity.clone();
    complete_identity(&mut subject);
    // An empty word and no word are the same to a server, and it keeps the latter.
    subject.api_group = subject.api_group.filter(|group| !group.is_empty());
    subject.namespace = subject.namespace.filter(|namespace| !namespace.is_empty());
    let role = RoleRef {
        api_group: Some(RBAC.to_owned()),
        kind: "Role".to_owned(),
        name: member_role(member),
    };
    RoleBinding { subjects: vec![subject], role }
}
