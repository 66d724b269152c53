//! Service accounts and their tokens over the wire.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::client::TestServer;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const WHOAMI: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

async fn account(api: &TestServer, name: &str) -> Value {
    api.make(ACCOUNTS, json!({"metadata": {"name": name}})).await
}

async fn token(api: &TestServer, name: &str, spec: Value) -> String {
    let made = api.make(&format!("{ACCOUNTS}/{name}/token"), json!({"spec": spec})).await;
    made["status"]["token"].as_str().unwrap().to_owned()
}

async fn who(api: &TestServer, token: &str) -> (u16, Value) {
    let reply = api.call_by_token(token, "POST", WHOAMI, json!({})).await;
    (reply.code, reply.json()["status"]["userInfo"].clone())
}

fn claims(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[tokio::test]
async fn a_token_is_its_account_for_as_long_as_that_lives() {
    let api = TestServer::new().await;
    let robot = account(&api, "robot").await;
    let token = token(&api, "robot", json!({})).await;
    let claims = claims(&token);
    assert_eq!(claims["aud"], json!([ISSUER]));
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 3600);
    let uid = &robot["metadata"]["uid"];
    assert_eq!(
        claims["kubernetes.io"],
        json!({"namespace": "default", "serviceaccount": {"name": "robot", "uid": uid}})
    );
    let jti = claims["jti"].as_str().unwrap();
    assert_eq!(
        who(&api, &token).await,
        (
            201,
            json!({
                "username": "system:serviceaccount:default:robot", "uid": uid,
                "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
                "extra": {"authentication.kubernetes.io/credential-id": [format!("JTI={jti}")]},
            })
        )
    );
    let binding = json!({
        "metadata": {"name": "robot"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot"}],
    });
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(api.call_by_token(&token, "GET", pods, Value::Null).await.code, 403);
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    api.make(bindings, binding).await;
    assert_eq!(api.call_by_token(&token, "GET", pods, Value::Null).await.code, 200);
    // In another cluster the same token proves nothing.
    let header = format!("Authorization: Bearer {token}");
    let elsewhere = crate::client::get("/clusters/member1/api", &[&header]);
    assert_eq!(api.send(None, elsewhere).await.code, 401);
    api.call_with(&[], "DELETE", &format!("{ACCOUNTS}/robot"), Value::Null).await;
    assert_eq!(who(&api, &token).await.0, 401);
    account(&api, "robot").await;
    assert_eq!(who(&api, &token).await.0, 401, "another account of the same name");
}

#[tokio::test]
async fn nobody_writes_their_own_token() {
    let api = TestServer::new().await;
    account(&api, "robot").await;
    let token = token(&api, "robot", json!({})).await;
    let parts: Vec<&str> = token.split('.').collect();
    let mut forged = claims(&token);
    forged["exp"] = json!(forged["exp"].as_i64().unwrap() + 1);
    let forged = URL_SAFE_NO_PAD.encode(forged.to_string());
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    for bad in [
        format!("{}.{forged}.{}", parts[0], parts[2]),
        format!("{none}.{}.", parts[1]),
        format!("{none}.{}.{}", parts[1], parts[2]),
        format!("{}.{}.", parts[0], parts[1]),
        format!("{}.{}", parts[0], parts[1]),
    ] {
        assert_eq!(who(&api, &bad).await.0, 401, "{bad}");
    }
}

#[tokio::test]
async fn requests_for_tokens_are_bounded_and_say_what_is_wrong() {
    let api = TestServer::new().await;
    account(&api, "robot").await;
    api.make(SECRETS, json!({"metadata": {"name": "s"}})).await;
    let bound = |kind: &str, name: &str, uid: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid}});
    let table = [
        (
            "robot",
            json!({"expirationSeconds": 5}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes",
        ),
        (
            "robot",
            json!({"expirationSeconds": 99_999_999_999_i64}),
            422,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 99999999999: may not specify a duration larger than 2^32 seconds",
        ),
        ("nobody", json!({}), 404, "serviceaccounts \"nobody\" not found"),
        ("robot", bound("Pod", "gone", ""), 404, "pods \"gone\" not found"),
        (
            "robot",
            bound("ConfigMap", "a", ""),
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
        (
            "robot",
            bound("Secret", "s", "x"),
            409,
            "Operation cannot be fulfilled on Secret \"s\": the UID in the bound object reference (x) does not match the UID in record. The object might have been deleted and then recreated",
        ),
    ];
    for (name, spec, code, says) in table {
        let path = format!("{ACCOUNTS}/{name}/token");
        let reply = api.call_with(&[], "POST", &path, json!({"spec": spec})).await;
        assert_eq!(reply.refusal(), (code, says.to_owned()));
    }
    let refused = api.call("bob", "POST", &format!("{ACCOUNTS}/robot/token"), json!({})).await;
    assert_eq!(
        refused.refusal().1,
        "serviceaccounts \"robot\" is forbidden: User \"bob\" cannot create resource \"serviceaccounts/token\" in API group \"\" in the namespace \"default\""
    );
}

#[tokio::test]
async fn a_bound_token_ends_with_its_object() {
    let api = TestServer::new().await;
    account(&api, "robot").await;
    api.make(SECRETS, json!({"metadata": {"name": "s"}})).await;
    let bound = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "s"}, "audiences": ["vault", ISSUER]});
    let token = token(&api, "robot", bound).await;
    assert_eq!(who(&api, &token).await.0, 201);
    let review = async |audiences: Value| {
        let spec = json!({"spec": {"token": token, "audiences": audiences}});
        api.make("/apis/authentication.k8s.io/v1/tokenreviews", spec).await["status"].clone()
    };
    let good = review(json!(["vault", "bank"])).await;
    assert_eq!((&good["authenticated"], &good["audiences"]), (&json!(true), &json!(["vault"])));
    assert_eq!(
        review(json!(["bank"])).await,
        json!({"user": {}, "error": format!("[invalid bearer token, token audiences [\"vault\" \"{ISSUER}\"] is invalid for the target audiences [\"bank\"]]")})
    );
    api.call_with(&[], "DELETE", &format!("{SECRETS}/s"), Value::Null).await;
    assert_eq!(who(&api, &token).await.0, 401);
}

#[tokio::test]
async fn a_secret_for_an_account_is_filled_and_goes_with_it() {
    let api = TestServer::new().await;
    account(&api, "robot").await;
    let secret = json!({
        "metadata": {"name": "tok", "annotations": {"kubernetes.io/service-account.name": "robot"}},
        "type": "kubernetes.io/service-account-token",
    });
    api.make(SECRETS, secret).await;
    let one = format!("{SECRETS}/tok");
    let filled = api.call_with(&[], "GET", &one, Value::Null).await.json();
    let text = |key: &str| {
        let bytes = STANDARD.decode(filled["data"][key].as_str().unwrap()).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    assert_eq!(text("namespace"), "default");
    assert_eq!(text("ca.crt"), api.edge.authority().certificate_pem());
    let token = text("token");
    assert_eq!(who(&api, &token).await.1["username"], "system:serviceaccount:default:robot");
    let cut = api.call_with(&[], "PATCH", &one, json!({"data": {"token": "YQ=="}})).await;
    assert_eq!(cut.code, 200, "{}", cut.text);
    assert_eq!(who(&api, &token).await.0, 401, "the secret holds another token now");
    api.call_with(&[], "DELETE", &format!("{ACCOUNTS}/robot"), Value::Null).await;
    assert_eq!(api.call_with(&[], "GET", &one, Value::Null).await.code, 404);
}

#[tokio::test]
async fn others_can_fetch_the_key_and_nobody_the_secret_half() {
    let api = TestServer::new().await;
    account(&api, "robot").await;
    let token = token(&api, "robot", json!({})).await;
    let keys = api.call_by_token(&token, "GET", "/openid/v1/jwks", Value::Null).await.json();
    let key = &keys["keys"][0];
    assert_eq!((&key["alg"], &key["crv"]), (&json!("ES256"), &json!("P-256")));
    for part in ["x", "y"] {
        assert_eq!(URL_SAFE_NO_PAD.decode(key[part].as_str().unwrap()).unwrap().len(), 32);
    }
    let about =
        api.call_by_token(&token, "GET", "/.well-known/openid-configuration", Value::Null).await;
    assert_eq!(about.json()["issuer"], ISSUER);
    let hidden = api.call_with(&[], "GET", "/apis/internal/v1/signingkeys", Value::Null).await;
    assert_eq!(hidden.code, 404);
}
