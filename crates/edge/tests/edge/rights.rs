//! Roles and bindings over the wire: who may what, and what they are told.

use serde_json::{Value, json};

use crate::client::{TestServer, get};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn binding(name: &str, kind: &str, role: &str, user: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
    })
}

fn rule(resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [""], "resources": [resource], "verbs": verbs})
}

#[tokio::test]
async fn a_binding_opens_what_its_role_says_and_its_end_closes_it() {
    let api = TestServer::new().await;
    let refused = (
        403,
        r#"pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "default""#.to_owned(),
    );
    let list = async || api.call("bob", "GET", PODS, Value::Null).await;
    assert_eq!(list().await.refusal(), refused);
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    api.make(&bindings, binding("bob", "Role", "reader", "bob")).await;
    let unfound =
        format!("{}: RBAC: role.rbac.authorization.k8s.io \"reader\" not found", refused.1);
    assert_eq!(list().await.refusal(), (403, unfound));
    let roles = format!("{RBAC}/namespaces/default/roles");
    let role = json!({"metadata": {"name": "reader"}, "rules": [rule("pods", &["list"])]});
    api.make(&roles, role).await;
    assert_eq!(list().await.code, 200);
    assert_eq!(api.call("bob", "GET", "/api/v1/pods", Value::Null).await.code, 403);
    assert_eq!(api.call("bob", "GET", &format!("{PODS}/p"), Value::Null).await.code, 403);
    let more = json!({"rules": [rule("pods", &["get"])]});
    let patched = api.call_with(&[], "PATCH", &format!("{roles}/reader"), more).await;
    assert_eq!(patched.code, 200, "{}", patched.text);
    assert_eq!(list().await.refusal(), refused);
    assert_eq!(api.call("bob", "GET", &format!("{PODS}/p"), Value::Null).await.code, 404);
    api.call_with(&[], "DELETE", &format!("{bindings}/bob"), Value::Null).await;
    assert_eq!(api.call("bob", "GET", &format!("{PODS}/p"), Value::Null).await.code, 403);
}

#[tokio::test]
async fn view_edit_and_admin_gather_what_is_labelled_for_them() {
    let api = TestServer::new().await;
    api.make(&format!("{RBAC}/clusterrolebindings"), binding("v", "ClusterRole", "view", "vera"))
        .await;
    assert_eq!(api.call("vera", "GET", PODS, Value::Null).await.code, 200);
    let secrets = "/api/v1/namespaces/default/secrets";
    assert_eq!(api.call("vera", "GET", secrets, Value::Null).await.code, 403);
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    assert_eq!(api.call("vera", "GET", widgets, Value::Null).await.code, 403);
    let label = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    let rules =
        json!([{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["list"]}]);
    let role = json!({"metadata": {"name": "widgets", "labels": label}, "rules": rules});
    api.make(&format!("{RBAC}/clusterroles"), role).await;
    // Allowed now, and only therefore told that there is no such kind.
    assert_eq!(api.call("vera", "GET", widgets, Value::Null).await.code, 404);
    // Through `edit` into `admin`.
    let admin = api.call_with(&[], "GET", &format!("{RBAC}/clusterroles/admin"), Value::Null).await;
    let held = admin.json()["rules"].as_array().unwrap().clone();
    assert!(held.iter().any(|rule| rule["resources"] == json!(["widgets"])), "{held:?}");
    assert!(held.len() > 20);
    api.call_with(&[], "DELETE", &format!("{RBAC}/clusterroles/widgets"), Value::Null).await;
    assert_eq!(api.call("vera", "GET", widgets, Value::Null).await.code, 403);
}

#[tokio::test]
async fn nobody_hands_out_more_than_they_hold() {
    let api = TestServer::new().await;
    let roler = json!({"metadata": {"name": "roler"}, "rules": [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["create", "update", "get", "patch"]},
        rule("configmaps", &["get"]),
    ]});
    api.make(&format!("{RBAC}/clusterroles"), roler).await;
    api.make(&format!("{RBAC}/clusterrolebindings"), binding("bob", "ClusterRole", "roler", "bob"))
        .await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let role =
        |verbs: &[&str]| json!({"metadata": {"name": "x"}, "rules": [rule("configmaps", verbs)]});
    let refusal = "roles.rbac.authorization.k8s.io \"x\" is forbidden: user \"bob\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
                   {APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"list\"]}";
    let wide = api.call("bob", "POST", &roles, role(&["get", "list"])).await;
    assert_eq!(wide.refusal(), (403, refusal.to_owned()));
    assert_eq!(api.call("bob", "POST", &roles, role(&["get"])).await.code, 201);
    let one = format!("{roles}/x");
    let patch = json!({"rules": [rule("configmaps", &["get", "list"])]});
    assert_eq!(api.call("bob", "PATCH", &one, patch).await.refusal(), (403, refusal.to_owned()));
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(api.call("bob", "PATCH", &one, labels).await.code, 200);
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let up = binding("up", "ClusterRole", "cluster-admin", "bob");
    let refused = api.call("bob", "POST", &bindings, up).await.refusal();
    assert_eq!(refused.0, 403);
    assert!(refused.1.contains("{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}"), "{}", refused.1);
    assert_eq!(
        api.call("bob", "POST", &bindings, binding("x", "Role", "x", "eve")).await.code,
        201
    );
    let moved = json!({"roleRef": {"name": "other"}});
    let moved = api.call_with(&[], "PATCH", &format!("{bindings}/x"), moved).await;
    assert_eq!(moved.code, 422);
    assert!(moved.text.contains("cannot change roleRef"), "{}", moved.text);
}

#[tokio::test]
async fn impersonation_is_a_right_like_any_other() {
    let api = TestServer::new().await;
    let list = async |headers: &[&str]| {
        let mut all = vec!["Authorization: Bearer weak"];
        all.extend(headers);
        api.send(None, get(&format!("/clusters/hub{MAPS}"), &all)).await
    };
    assert_eq!(
        list(&["Impersonate-User: ann"]).await.refusal(),
        (403, r#"users "ann" is forbidden: User "weak" cannot impersonate resource "users" in API group "" at the cluster scope"#.to_owned())
    );
    let role = json!({"metadata": {"name": "stage"}, "rules": [
        {"apiGroups": [""], "resources": ["users"], "resourceNames": ["ann"], "verbs": ["impersonate"]},
        {"apiGroups": [""], "resources": ["groups"], "resourceNames": ["actors"], "verbs": ["impersonate"]},
        {"apiGroups": ["authentication.k8s.io"], "resources": ["userextras/scopes"], "verbs": ["impersonate"]},
    ]});
    api.make(&format!("{RBAC}/clusterroles"), role).await;
    api.make(&format!("{RBAC}/clusterrolebindings"), binding("w", "ClusterRole", "stage", "weak"))
        .await;
    api.make(&format!("{RBAC}/clusterrolebindings"), binding("a", "ClusterRole", "view", "ann"))
        .await;
    assert_eq!(
        list(&[
            "Impersonate-User: ann",
            "Impersonate-Group: actors",
            "Impersonate-Extra-Scopes: x"
        ])
        .await
        .code,
        200
    );
    assert_eq!(list(&["Impersonate-User: ann", "Impersonate-Group: other"]).await.code, 403);
    assert_eq!(list(&["Impersonate-User: bea"]).await.code, 403);
    assert_eq!(
        list(&["Impersonate-User: system:serviceaccount:a:b"]).await.refusal().1,
        r#"serviceaccounts "b" is forbidden: User "weak" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "a""#
    );
}

#[tokio::test]
async fn reviews_say_who_may_what_and_why() {
    let api = TestServer::new().await;
    api.make(&format!("{RBAC}/clusterrolebindings"), binding("v", "ClusterRole", "view", "vera"))
        .await;
    let reviews = "/apis/authorization.k8s.io/v1";
    let pods = json!({"verb": "list", "resource": "pods", "namespace": "default"});
    let ask = json!({"spec": {"user": "vera", "resourceAttributes": pods}});
    let said = api.make(&format!("{reviews}/subjectaccessreviews"), ask.clone()).await;
    let why = r#"RBAC: allowed by ClusterRoleBinding "v" of ClusterRole "view" to User "vera""#;
    assert_eq!(said["status"], json!({"allowed": true, "reason": why}));
    let local = format!("{reviews}/namespaces/default/localsubjectaccessreviews");
    assert_eq!(api.make(&local, ask.clone()).await["status"]["allowed"], true);
    let other = format!("{reviews}/namespaces/kube-system/localsubjectaccessreviews");
    assert_eq!(
        api.call_with(&[], "POST", &other, ask.clone()).await.refusal(),
        (422, ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid value: \"default\": must match metadata.namespace".to_owned())
    );
    let nobody = json!({"spec": {"resourceAttributes": pods}});
    let nobody =
        api.call_with(&[], "POST", &format!("{reviews}/subjectaccessreviews"), nobody).await;
    assert_eq!(
        nobody.refusal(),
        (422, ".authorization.k8s.io \"\" is invalid: spec.user: Invalid value: \"\": at least one of user or group must be specified".to_owned())
    );
    // Reviewing others is a right; reviewing oneself is everybody's.
    assert_eq!(
        api.call("vera", "POST", &format!("{reviews}/subjectaccessreviews"), ask).await.code,
        403
    );
    let own = json!({"spec": {"resourceAttributes": {"verb": "delete", "resource": "pods"}}});
    let own = api.call("vera", "POST", &format!("{reviews}/selfsubjectaccessreviews"), own).await;
    assert_eq!(own.json()["status"], json!({"allowed": false}));
    let rules = json!({"spec": {"namespace": "default"}});
    let rules =
        api.call("eve", "POST", &format!("{reviews}/selfsubjectrulesreviews"), rules).await.json();
    assert_eq!(
        rules["status"],
        json!({
            "resourceRules": [
                {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]},
                {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
            ],
            "nonResourceRules": [
                {"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version", "/version/"]},
                {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]},
            ],
            "incomplete": false,
        })
    );
}

#[tokio::test]
async fn what_runs_inside_the_process_is_not_asked() {
    let api = TestServer::new().await;
    let cluster = api.server.cluster("hub").unwrap();
    let local = cluster.local("controller");
    let role =
        json!({"metadata": {"name": "all", "namespace": "default"}, "rules": [rule("*", &["*"])]});
    local.create("roles.rbac.authorization.k8s.io", "default", role).await.unwrap();
}

#[tokio::test]
async fn making_something_by_patch_or_put_needs_the_right_to_create() {
    let api = TestServer::new().await;
    let patcher = json!({"metadata": {"name": "patcher"}, "rules": [
        rule("configmaps", &["patch", "update"]),
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["update"]},
    ]});
    api.make(&format!("{RBAC}/clusterroles"), patcher).await;
    let bindings = format!("{RBAC}/clusterrolebindings");
    api.make(&bindings, binding("pat", "ClusterRole", "patcher", "pat")).await;
    let apply = async || {
        let headers = ["Impersonate-User: pat", "Content-Type: application/apply-patch+yaml"];
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}});
        api.call_with(&headers, "PATCH", &format!("{MAPS}/new?fieldManager=x"), map).await
    };
    let refusal = r#"configmaps "new" is forbidden: User "pat" cannot create resource "configmaps" in API group "" in the namespace "default""#;
    assert_eq!(apply().await.refusal(), (403, refusal.to_owned()));
    let role = json!({"metadata": {"name": "new"}});
    let put = api.call("pat", "PUT", &format!("{RBAC}/namespaces/default/roles/new"), role).await;
    assert_eq!(put.code, 403, "{}", put.text);
    api.make(MAPS, json!({"metadata": {"name": "new"}})).await;
    assert_eq!(apply().await.code, 200);
}

/// A copy holds the Secrets of all clusters: whoever rules one of them alone does not get it.
#[tokio::test]
async fn only_administrators_of_everything_have_it_copied() {
    let api = TestServer::new().await;
    api.make(
        &format!("{RBAC}/clusterrolebindings"),
        binding("all", "ClusterRole", "cluster-admin", "hub-admin"),
    )
    .await;
    let ask = async |user: &str, method: &str| api.call(user, method, "/backup", json!(null)).await;
    assert_eq!(ask("eve", "POST").await.code, 403);
    assert_eq!(
        ask("hub-admin", "POST").await.refusal(),
        (403, "only members of system:masters may have everything copied".to_owned())
    );
    let own = async |method: &str| api.call_with(&[], method, "/backup", json!(null)).await;
    assert_eq!(own("GET").await.code, 405);
    let made = own("POST").await;
    assert_eq!((made.code, made.json()), (200, json!({"file": "copy"})));
}
