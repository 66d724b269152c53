//! ValidatingAdmissionPolicies that a hub installs for itself.
//!
//! They say in the API server's own language what the webhooks say over the network, so
//! that it also holds while no hub runs. Off unless `--enable-admission-policy-manager`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Which policies a hub wants, from `--admission-policy-manager-config`. A policy whose key
/// is left out is not wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Pods and ReplicaSets only in reserved namespaces.
    #[serde(default, rename = "denyPodsAndReplicaSetsOutsideReservedNamespaces")]
    pub workloads: Option<Reserved>,
    /// No ServiceAccounts or tokens in reserved namespaces.
    #[serde(default, rename = "denyServiceAccountsAndTokenRequestsInReservedNamespaces")]
    pub accounts: Option<Accounts>,
}

/// Which namespaces are reserved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserved {
    /// What the names of reserved namespaces begin with.
    #[serde(rename = "ReservedNamespacePrefixes")]
    pub prefixes: Vec<String>,
}

/// Who may write service accounts in reserved namespaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accounts {
    /// What the names of reserved namespaces begin with.
    #[serde(rename = "ReservedNamespacePrefixes")]
    pub prefixes: Vec<String>,
    /// Users who may, besides those Kubernetes itself needs.
    #[serde(default, rename = "WhitelistedUsernames")]
    pub users: Vec<String>,
    /// Groups that may, besides those Kubernetes itself needs.
    #[serde(default, rename = "WhitelistedUserGroups")]
    pub groups: Vec<String>,
}

/// By which everything the manager made is found again.
pub const LABELS: [(&str, &str); 3] = [
    ("app.kubernetes.io/managed-by", "fleet-hub-agent"),
    ("app.kubernetes.io/part-of", "fleet"),
    ("app.kubernetes.io/component", "admission-policy-manager"),
];

const USERS: [&str; 2] = ["system:kube-scheduler", "system:kube-controller-manager"];
const GROUPS: [&str; 4] =
    ["system:nodes", "system:masters", "kubeadm:cluster-admins", "system:serviceaccounts"];

impl Default for Config {
    fn default() -> Self {
        let prefixes = || vec!["fleet-".to_owned(), "kube-".to_owned()];
        let accounts = Accounts { prefixes: prefixes(), users: Vec::new(), groups: Vec::new() };
        Self { workloads: Some(Reserved { prefixes: prefixes() }), accounts: Some(accounts) }
    }
}

impl Config {
    /// What cannot be meant, said so that the file can be corrected. Prefixes and names go
    /// into expressions, so nothing that ends a string may be in them.
    pub fn mistakes(&self) -> Vec<String> {
        let mut mistakes = Vec::new();
        let lists = [
            (
                "denyPodsAndReplicaSetsOutsideReservedNamespaces",
                self.workloads.as_ref().map(|p| &p.prefixes),
            ),
            (
                "denyServiceAccountsAndTokenRequestsInReservedNamespaces",
                self.accounts.as_ref().map(|p| &p.prefixes),
            ),
        ];
        for (policy, prefixes) in lists {
            let Some(prefixes) = prefixes else { continue };
            if prefixes.is_empty() {
                mistakes.push(format!(
                    "{policy}: ReservedNamespacePrefixes must name at least one prefix"
                ));
            }
            for prefix in prefixes.iter().filter(|prefix| !is_prefix(prefix)) {
                mistakes.push(format!("{policy}: the prefix {prefix:?} must consist of lower case letters, digits and '-'"));
            }
        }
        let names =
            self.accounts.iter().flat_map(|accounts| accounts.users.iter().chain(&accounts.groups));
        for name in names.filter(|name| name.is_empty() || name.contains(['\'', '"', '\\'])) {
            mistakes.push(format!("denyServiceAccountsAndTokenRequestsInReservedNamespaces: the name {name:?} must not be empty or contain quotes or backslashes"));
        }
        mistakes
    }

    /// The policies and their bindings, as objects to store.
    pub fn objects(&self) -> Vec<Value> {
        let mut objects = Vec::new();
        if let Some(workloads) = &self.workloads {
            objects.extend(policy(
                "deny-pods-and-replicasets-outside-reserved-namespaces",
                json!([
                    rule("", &["pods"], &["CREATE"]),
                    rule("apps", &["replicasets"], &["CREATE"]),
                ]),
                &any(workloads.prefixes.iter().map(|prefix| starts(prefix))),
                "creating pods and replicas is disallowed in the fleet hub cluster",
            ));
        }
        if let Some(accounts) = &self.accounts {
            let reserved = any(accounts.prefixes.iter().map(|prefix| starts(prefix)));
            let users = USERS.into_iter().chain(accounts.users.iter().map(String::as_str));
            let groups = GROUPS.into_iter().chain(accounts.groups.iter().map(String::as_str));
            let users = users.map(|user| format!("request.userInfo.username == \"{user}\""));
            let groups = groups.map(|group| format!("\"{group}\" in request.userInfo.groups"));
            let free = std::iter::once(format!("!({reserved})")).chain(users).chain(groups);
            objects.extend(policy(
                "deny-serviceaccounts-and-tokenrequests-in-reserved-namespaces",
                json!([
                    rule("", &["serviceaccounts"], &["CREATE", "UPDATE", "DELETE"]),
                    rule("", &["serviceaccounts/token"], &["CREATE"]),
                ]),
                &any(free),
                "writing service accounts in reserved namespaces or requesting tokens from such service accounts is disallowed",
            ));
        }
        objects
    }
}

fn is_prefix(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(allowed)
}

fn starts(prefix: &str) -> String {
    format!("request.namespace.startsWith(\"{prefix}\")")
}

/// An expression that is true if one of these is.
fn any(terms: impl Iterator<Item = String>) -> String {
    terms.map(|term| format!("({term})")).collect::<Vec<_>>().join(" || ")
}

fn rule(group: &str, resources: &[&str], operations: &[&str]) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["v1"], "resources": resources, "operations": operations, "scope": "*"})
}

/// A policy and its binding.
fn policy(name: &str, rules: Value, expression: &str, message: &str) -> [Value; 2] {
    let labels: serde_json::Map<String, Value> =
        LABELS.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    [
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": rules},
                "validations": [{"expression": expression, "message": message, "reason": "Forbidden"}],
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": flagship_api::names::admission_policy_binding(name), "labels": labels},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: Value) -> Config {
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn without_a_file_both_policies_are_wanted() {
        let objects = Config::default().objects();
        let names: Vec<&str> =
            objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "deny-pods-and-replicasets-outside-reserved-namespaces",
                "deny-pods-and-replicasets-outside-reserved-namespaces-binding",
                "deny-serviceaccounts-and-tokenrequests-in-reserved-namespaces",
                "deny-serviceaccounts-and-tokenrequests-in-reserved-namespaces-binding",
            ]
        );
        assert_eq!(
            objects[0]["spec"]["validations"][0]["expression"],
            r#"(request.namespace.startsWith("fleet-")) || (request.namespace.startsWith("kube-"))"#
        );
        assert!(Config::default().mistakes().is_empty());
    }

    #[test]
    fn a_key_that_is_left_out_disables_its_policy_and_exemptions_are_added() {
        let config = read(json!({"denyServiceAccountsAndTokenRequestsInReservedNamespaces": {
            "ReservedNamespacePrefixes": ["ops-"], "WhitelistedUsernames": ["ana"], "WhitelistedUserGroups": ["sre"]}}));
        let objects = config.objects();
        assert_eq!(objects.len(), 2);
        let expression = objects[0]["spec"]["validations"][0]["expression"].as_str().unwrap();
        assert!(expression.starts_with(r#"(!((request.namespace.startsWith("ops-")))) || "#));
        assert!(expression.contains(r#"(request.userInfo.username == "ana")"#));
        assert!(expression.ends_with(r#"("sre" in request.userInfo.groups)"#));
    }

    #[test]
    fn what_cannot_be_meant_is_named() {
        let config = read(json!({
            "denyPodsAndReplicaSetsOutsideReservedNamespaces": {"ReservedNamespacePrefixes": []},
            "denyServiceAccountsAndTokenRequestsInReservedNamespaces": {
                "ReservedNamespacePrefixes": ["A_"], "WhitelistedUsernames": ["o'neil"]}}));
        assert_eq!(
            config.mistakes(),
            [
                "denyPodsAndReplicaSetsOutsideReservedNamespaces: ReservedNamespacePrefixes must name at least one prefix",
                "denyServiceAccountsAndTokenRequestsInReservedNamespaces: the prefix \"A_\" must consist of lower case letters, digits and '-'",
                "denyServiceAccountsAndTokenRequestsInReservedNamespaces: the name \"o'neil\" must not be empty or contain quotes or backslashes",
            ]
        );
        assert!(serde_json::from_value::<Config>(json!({"denyPods": {}})).is_err());
    }
}
