//! Certificates that are asked for, approved, signed and shown.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flagship_edge::Credentials;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};

use crate::client::TestServer;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const CLIENTS: &str = "kubernetes.io/kube-apiserver-client";

/// A request for `ann` of the group `devs`, as the API wants it.
fn request(key: &KeyPair, name: &str, usages: &[&str]) -> Value {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "ann");
    params.distinguished_name.push(DnType::OrganizationName, "devs");
    let pem = params.serialize_request(key).unwrap().pem().unwrap();
    json!({
        "metadata": {"name": name},
        "spec": {
            "request": STANDARD.encode(pem), "signerName": CLIENTS, "usages": usages,
            "expirationSeconds": 600, "username": "system:admin", "groups": ["system:masters"],
        },
    })
}

fn verdict(kind: &str) -> Value {
    json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": "Test"}]}})
}

/// Lets `bob` do something with requests, by a role of its own.
async fn grant(api: &TestServer, name: &str, rule: Value) {
    let group = "/apis/rbac.authorization.k8s.io/v1";
    api.make(
        &format!("{group}/clusterroles"),
        json!({"metadata": {"name": name}, "rules": [rule]}),
    )
    .await;
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    });
    api.make(&format!("{group}/clusterrolebindings"), binding).await;
}

#[tokio::test]
async fn an_approved_request_becomes_a_certificate_that_opens_this_server() {
    let api = TestServer::new().await;
    let resources = [
        "certificatesigningrequests",
        "certificatesigningrequests/approval",
        "certificatesigningrequests/status",
    ];
    let rule =
        json!({"apiGroups": ["certificates.k8s.io"], "resources": resources, "verbs": ["*"]});
    grant(&api, "requests", rule).await;
    let key = KeyPair::generate().unwrap();
    let made = api.call("bob", "POST", REQUESTS, request(&key, "ann", &["client auth"])).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let spec = made.json()["spec"].clone();
    assert_eq!(
        (&spec["username"], &spec["groups"]),
        (&json!("bob"), &json!(["system:authenticated"]))
    );

    let approval = format!("{REQUESTS}/ann/approval");
    let refused = api.call("bob", "PATCH", &approval, verdict("Approved")).await.refusal();
    let says = |verb: &str| {
        format!(
            "certificatesigningrequests.certificates.k8s.io \"ann\" is forbidden: user not permitted to {verb} requests with signerName \"{CLIENTS}\""
        )
    };
    assert_eq!(refused, (403, says("approve")));
    let status = format!("{REQUESTS}/ann/status");
    let refused = api.call("bob", "PATCH", &status, verdict("Failed")).await.refusal();
    assert_eq!(refused, (403, says("sign")));
    let rule = json!({
        "apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["approve"],
        "resourceNames": ["kubernetes.io/*"],
    });
    grant(&api, "signers", rule).await;
    let approved = api.call("bob", "PATCH", &approval, verdict("Approved")).await;
    assert_eq!(approved.code, 200, "{}", approved.text);

    let signed = api.call("bob", "GET", &format!("{REQUESTS}/ann"), Value::Null).await.json();
    let pem = STANDARD.decode(signed["status"]["certificate"].as_str().unwrap()).unwrap();
    let certificate = String::from_utf8(pem).unwrap();
    let shown = Credentials { certificate, key: key.serialize_pem() };
    let who = api.get(Some(&shown), "/clusters/hub/api/v1/nodes").await.refusal();
    assert_eq!(
        who.1,
        "nodes is forbidden: User \"ann\" cannot list resource \"nodes\" in API group \"\" at the cluster scope"
    );
    let group = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let binding = json!({
        "metadata": {"name": "devs"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "devs"}],
    });
    api.make(group, binding).await;
    assert_eq!(api.get(Some(&shown), "/clusters/hub/api/v1/nodes").await.code, 200);
    // The same authority signs for all clusters, but only this one approved.
    let elsewhere = api.get(Some(&shown), "/clusters/member1/version").await.refusal();
    assert_eq!(elsewhere, (401, "Unauthorized".to_owned()));
    let myself = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let known = api.call_as(&shown, "POST", review, myself).await.json();
    let extra = known["status"]["userInfo"]["extra"].as_object().unwrap();
    assert_eq!(
        extra.keys().collect::<Vec<_>>(),
        ["authentication.kubernetes.io/credential-id"],
        "what is only ours is not told"
    );
    // Neither is it good in a cluster that has come to the name.
    api.server.remove_cluster("hub");
    api.server.add_cluster("hub");
    let namesake = api.get(Some(&shown), "/clusters/hub/version").await.refusal();
    assert_eq!(namesake, (401, "Unauthorized".to_owned()));
}

#[tokio::test]
async fn what_is_not_for_clients_fails_and_what_is_denied_is_not_signed() {
    let api = TestServer::new().await;
    let key = KeyPair::generate().unwrap();
    let table = [
        (
            "server",
            &["client auth", "server auth"][..],
            "Approved",
            Some("invalid usage for client certificate: server auth"),
        ),
        (
            "none",
            &["digital signature"],
            "Approved",
            Some("missing required usage for client certificate: client auth"),
        ),
        ("denied", &["client auth"], "Denied", None),
    ];
    for (name, usages, kind, why) in table {
        api.make(REQUESTS, request(&key, name, usages)).await;
        let judged = api
            .call_with(&[], "PATCH", &format!("{REQUESTS}/{name}/approval"), verdict(kind))
            .await;
        assert_eq!(judged.code, 200, "{}", judged.text);
        let request =
            api.call_with(&[], "GET", &format!("{REQUESTS}/{name}"), Value::Null).await.json();
        assert!(request["status"]["certificate"].is_null(), "{name}");
        let conditions = request["status"]["conditions"].as_array().unwrap();
        let failed = conditions.iter().find(|condition| condition["type"] == "Failed");
        assert_eq!(failed.and_then(|failed| failed["message"].as_str()), why, "{name}");
    }
}
