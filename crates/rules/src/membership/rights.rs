//! What a member may do on the hub: everything in its own namespace, nothing elsewhere.

use flagship_api::cluster::MemberClusterSpec;
use flagship_api::defaults::complete_identity;
use flagship_api::keys::group;
use flagship_api::names::member_role;
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef};

use super::observed::RoleBinding;

const RBAC: &str = "rbac.authorization.k8s.io";

/// The rules of a member's Role, in this order.
pub fn rules() -> Vec<PolicyRule> {
    let rule = |group: &str, resources: &str, verbs: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resources.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    };
    let all = |group| rule(group, "*", &["*"]);
    vec![
        all(group::CLUSTER),
        all(group::PLACEMENT),
        all(group::NETWORKING),
        rule("", "events", &["get", "list", "update", "patch", "watch", "create"]),
    ]
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
