//! Roles, bindings and questions, as tables.

use serde_json::{Value, json};

use super::bootstrap;
use super::grant::Grant;
use super::policy::Policy;
use crate::auth::{Decision, RequestAttributes, User};

fn policy() -> Policy {
    let role = |name: &str, rules: Value| json!({"metadata": {"name": name}, "rules": rules});
    let bind = |name: &str, role: &str, subjects: Value| json!({"metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": subjects});
    let reader = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let roler = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["create", "update"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]);
    let binder = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "resourceNames": ["reader"], "verbs": ["bind"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["escalate"]},
    ]);
    let mut roles = bootstrap::roles().to_vec();
    roles.extend([role("reader", reader), role("roler", roler), role("binder", binder)]);
    let mut bindings = bootstrap::bindings().to_vec();
    let user = |name: &str| json!([{"kind": "User", "name": name}]);
    bindings.extend([
        bind("ann", "reader", user("ann")),
        bind("devs", "reader", json!([{"kind": "Group", "name": "devs"}])),
        bind("robot", "reader", json!([{"kind": "ServiceAccount", "name": "r", "namespace": "n"}])),
        bind("bob", "roler", user("bob")),
        bind("carl", "binder", user("carl")),
        bind("lost", "nope", user("bob")),
    ]);
    Policy::of(&roles, &bindings)
}

fn answer(user: &User, method: &str, path: &str) -> String {
    match policy().decide(user, &RequestAttributes::of(method, path, "")) {
        Decision::Allow(why) => format!("yes {why}").trim_end().to_owned(),
        Decision::Deny(why) => format!("no {why}").trim_end().to_owned(),
    }
}

#[test]
fn who_may_what_and_why() {
    let known = |name: &str| User::authenticated(name, []);
    let pod = "/api/v1/namespaces/n/pods/p";
    let table = [
        (
            known("ann"),
            "GET",
            pod,
            r#"yes RBAC: allowed by ClusterRoleBinding "ann" of ClusterRole "reader" to User "ann""#,
        ),
        (known("ann"), "DELETE", pod, "no"),
        (
            User::authenticated("eve", ["devs"]),
            "GET",
            pod,
            r#"yes RBAC: allowed by ClusterRoleBinding "devs" of ClusterRole "reader" to Group "devs""#,
        ),
        (
            known("system:serviceaccount:n:r"),
            "GET",
            pod,
            r#"yes RBAC: allowed by ClusterRoleBinding "robot" of ClusterRole "reader" to ServiceAccount "r/n""#,
        ),
        (
            known("bob"),
            "GET",
            pod,
            r#"no RBAC: clusterrole.rbac.authorization.k8s.io "nope" not found"#,
        ),
        (User::authenticated("root", ["system:masters"]), "DELETE", pod, "yes"),
        (
            known("eve"),
            "GET",
            "/apis/apps/v1",
            r#"yes RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated""#,
        ),
        (User::anonymous(), "GET", "/apis/apps/v1", "no"),
        (
            User::anonymous(),
            "GET",
            "/readyz",
            r#"yes RBAC: allowed by ClusterRoleBinding "system:public-info-viewer" of ClusterRole "system:public-info-viewer" to Group "system:unauthenticated""#,
        ),
        (User::anonymous(), "POST", "/readyz", "no"),
        (
            User::authenticated("probe", ["system:monitoring"]),
            "GET",
            "/metrics",
            r#"yes RBAC: allowed by ClusterRoleBinding "system:monitoring" of ClusterRole "system:monitoring" to Group "system:monitoring""#,
        ),
        // Rights are asked for what is served, however it is written.
        (
            User::authenticated("probe", ["system:monitoring"]),
            "GET",
            "/healthz%2Fetcd",
            r#"yes RBAC: allowed by ClusterRoleBinding "system:monitoring" of ClusterRole "system:monitoring" to Group "system:monitoring""#,
        ),
        (known("eve"), "GET", "/metrics", "no"),
        (known("eve"), "GET", "/", "no"),
    ];
    for (user, method, path, want) in table {
        assert_eq!(answer(&user, method, path), want, "{} {method} {path}", user.name);
    }
}

fn granted(user: &str, plural: &str, namespace: &str, new: Value, old: Option<Value>) -> String {
    let (policy, user) = (policy(), User::authenticated(user, []));
    let name = if old.is_some() { new["metadata"]["name"].as_str().unwrap() } else { "" };
    let grant = Grant { user: &user, policy: &policy, plural, namespace, name };
    match grant.check(&new, old.as_ref()) {
        Ok(()) => "yes".to_owned(),
        Err(error) => format!("{} {error}", error.code),
    }
}

#[test]
fn nobody_writes_a_role_with_more_than_they_hold() {
    let role = |rules: Value| json!({"metadata": {"name": "x"}, "rules": rules});
    let rule = |resource: &str, verbs: Value| json!([{"apiGroups": [""], "resources": [resource], "verbs": verbs}]);
    let held = role(rule("configmaps", json!(["get"])));
    assert_eq!(granted("bob", "clusterroles", "", held.clone(), None), "yes");
    let more = role(rule("configmaps", json!(["get", "list"])));
    let refusal = "403 clusterroles.rbac.authorization.k8s.io \"x\" is forbidden: user \"bob\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
                   {APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"list\"]}; resolution errors: [clusterroles.rbac.authorization.k8s.io \"nope\" not found]";
    assert_eq!(granted("bob", "clusterroles", "", more.clone(), None), refusal);
    assert_eq!(granted("bob", "clusterroles", "", more.clone(), Some(held)), refusal);
    assert_eq!(granted("bob", "clusterroles", "", more.clone(), Some(more.clone())), "yes");
    assert_eq!(granted("carl", "roles", "n", more.clone(), None), "yes");
    assert!(granted("carl", "clusterroles", "", more, None).starts_with("403 "));
    let gathers =
        json!({"metadata": {"name": "x"}, "aggregationRule": {"clusterRoleSelectors": [{}]}});
    assert_eq!(
        granted("bob", "clusterroles", "", gathers, None),
        "403 clusterroles.rbac.authorization.k8s.io \"x\" is forbidden: must have cluster-admin privileges to use the aggregationRule"
    );
}

#[test]
fn nobody_binds_a_role_with_more_than_they_hold() {
    let binding = |role: &str, to: &str| json!({"metadata": {"name": "x"}, "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [{"kind": "User", "name": to}]});
    let refused = granted("bob", "rolebindings", "n", binding("reader", "eve"), None);
    assert!(
        refused.starts_with(
            "403 rolebindings.rbac.authorization.k8s.io \"x\" is forbidden: user \"bob\""
        ),
        "{refused}"
    );
    assert_eq!(granted("carl", "rolebindings", "n", binding("reader", "eve"), None), "yes");
    assert!(
        granted("carl", "rolebindings", "n", binding("edit", "eve"), None).starts_with("yes"),
        "no rules yet"
    );
    assert!(
        granted("carl", "rolebindings", "n", binding("roler", "eve"), None).starts_with("403 ")
    );
    assert_eq!(
        granted("bob", "rolebindings", "n", binding("gone", "eve"), None),
        "404 rolebindings.rbac.authorization.k8s.io \"gone\" not found"
    );
    let same = binding("cluster-admin", "eve");
    assert_eq!(granted("bob", "rolebindings", "n", same.clone(), Some(same)), "yes");
}
