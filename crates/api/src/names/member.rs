//! What a member cluster owns on the hub: a namespace, a role, a role binding, an
//! account to come in with and a profile for others to find it by.

use super::{ObjectKey, SYSTEM_NAMESPACE};

/// Namespaces of members on the hub start with this.
pub const MEMBER_NAMESPACE_PREFIX: &str = "fleet-member-";

/// The API refuses a longer cluster name: it must fit a label value.
pub const LONGEST_CLUSTER: usize = flagship_base::names::LONGEST_LABEL;

/// Beyond this a cluster is admitted but can never join: its namespace would be
/// longer than a namespace name may be, and the server refuses to make it.
pub const LONGEST_CLUSTER_WITH_NAMESPACE: usize = LONGEST_CLUSTER - MEMBER_NAMESPACE_PREFIX.len();

/// Namespace of a member on the hub: `fleet-member-{cluster}`.
pub fn member_namespace(cluster: &str) -> String {
    format!("{MEMBER_NAMESPACE_PREFIX}{cluster}")
}

/// The cluster a hub namespace belongs to, if it is a member namespace.
pub fn cluster_of_namespace(namespace: &str) -> Option<&str> {
    namespace.strip_prefix(MEMBER_NAMESPACE_PREFIX).filter(|cluster| !cluster.is_empty())
}

/// Role of a member in its namespace: `fleet-role-{cluster}`.
pub fn member_role(cluster: &str) -> String {
    format!("fleet-role-{cluster}")
}

/// Role binding of a member in its namespace: `fleet-rolebinding-{cluster}`.
pub fn member_role_binding(cluster: &str) -> String {
    format!("fleet-rolebinding-{cluster}")
}

/// Account a member comes to the hub with, where the set-up script made it:
/// `{cluster}-hub-cluster-access` in the system namespace of the hub.
pub fn hub_access_account(cluster: &str) -> ObjectKey {
    ObjectKey::namespaced(SYSTEM_NAMESPACE, &format!("{cluster}-hub-cluster-access"))
}

/// Secret on the hub with the token of that account.
pub fn hub_access_token(cluster: &str) -> ObjectKey {
    ObjectKey::namespaced(SYSTEM_NAMESPACE, &format!("{cluster}-hub-cluster-access-token"))
}

/// Secret on the member, in its default namespace, whose key `token` holds a copy
/// of that token.
pub const HUB_TOKEN_SECRET: &str = "hub-kubeconfig-secret";

/// Profile by which a member is found in the cluster inventory of the hub.
pub fn cluster_profile(cluster: &str) -> ObjectKey {
    ObjectKey::namespaced(SYSTEM_NAMESPACE, cluster)
}

/// Binding of an admission policy: `{policy}-binding`.
pub fn admission_policy_binding(policy: &str) -> String {
    format!("{policy}-binding")
}

/// Whether a namespace is Kubernetes' or ours and never propagated: the prefixes
/// `kube-` and `fleet-`. (`default` is skipped too, but is not reserved.)
pub fn is_reserved_namespace(namespace: &str) -> bool {
    namespace.starts_with("kube-") || namespace.starts_with("fleet-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagship_base::names as rule;

    #[test]
    fn a_member_has_a_namespace_a_role_and_a_role_binding() {
        assert_eq!(member_namespace("member1"), "fleet-member-member1");
        assert_eq!(member_role("member1"), "fleet-role-member1");
        assert_eq!(member_role_binding("member1"), "fleet-rolebinding-member1");
    }

    #[test]
    fn a_member_comes_in_by_an_account_and_is_found_by_a_profile() {
        for (key, name) in [
            (hub_access_account("member1"), "fleet-system/member1-hub-cluster-access"),
            (hub_access_token("member1"), "fleet-system/member1-hub-cluster-access-token"),
            (cluster_profile("member1"), "fleet-system/member1"),
        ] {
            assert_eq!(key.to_string(), name);
        }
        assert_eq!(HUB_TOKEN_SECRET, "hub-kubeconfig-secret");
    }

    #[test]
    fn a_policy_is_bound_by_its_own_name() {
        assert_eq!(admission_policy_binding("deny-pods"), "deny-pods-binding");
    }

    #[test]
    fn a_namespace_leads_back_to_its_member() {
        assert_eq!(cluster_of_namespace("fleet-member-a-b"), Some("a-b"));
        for other in ["fleet-member-", "fleet-system", "app", "xfleet-member-a"] {
            assert_eq!(cluster_of_namespace(other), None);
        }
    }

    #[test]
    fn fifty_characters_are_the_most_a_joining_cluster_can_have() {
        assert_eq!(LONGEST_CLUSTER_WITH_NAMESPACE, 50);
        let fits =
            |length: usize| rule::dns1123_label(&member_namespace(&"a".repeat(length))).is_empty();
        assert_eq!((fits(50), fits(51)), (true, false));
    }

    #[test]
    fn reserved_namespaces_go_by_prefix() {
        for reserved in ["kube-system", "fleet-system", "fleet-member-a"] {
            assert!(is_reserved_namespace(reserved));
        }
        for free in ["default", "kube", "app", "my-fleet-x"] {
            assert!(!is_reserved_namespace(free));
        }
    }
}
