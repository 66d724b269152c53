//! One user's requests, and everybody else's: who waits, who is refused, and on which threads
//! large requests are worked on.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use flagship_apiserver::rest::{Admission, Review};
use flagship_base::machinery::status::ApiError;
use flagship_edge::Limits;
use futures::future::{Either, select};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::client::{Reply, TestServer, get};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const EXEC: &str = "/api/v1/namespaces/default/pods/p/exec";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// Has creations of Secrets, and connections to pods, wait for a webhook that never answers.
/// Whoever accepts a connection of it knows that a request is under way.
async fn silent_webhook(api: &TestServer) -> TcpListener {
    let listener = TcpListener::bind(TestServer::any_port()).await.unwrap();
    let rule = |operation: &str, resource: &str| {
        json!({"operations": [operation], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": [resource]})
    };
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let hook = json!({"name": "silent.example.com", "failurePolicy": "Fail",
        "rules": [rule("CREATE", "secrets"), rule("CONNECT", "pods/exec")],
        "clientConfig": {"url": url}, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30});
    api.make(WEBHOOKS, json!({"metadata": {"name": "silent"}, "webhooks": [hook]})).await;
    listener
}

/// A request of an administrator of this name.
async fn ask(api: &TestServer, user: &str, method: &str, path: &str, body: Value) -> Reply {
    let headers = [&*format!("Impersonate-User: {user}"), "Impersonate-Group: system:masters"];
    api.call_with(&headers, method, path, body).await
}

fn map() -> Value {
    json!({"metadata": {"generateName": "m-"}})
}

#[tokio::test]
async fn who_has_too_much_under_way_waits_and_nobody_else_does() {
    let limits = Limits { requests_each: 1, reads_each: 1, waiting_each: 0, ..Limits::default() };
    let api = TestServer::within(limits).await;
    api.make(LEASES, json!({"metadata": {"name": "leader"}})).await;
    let webhook = silent_webhook(&api).await;
    let too_many = "too many requests of this user wait, please try again later".to_owned();
    let secret = json!({"metadata": {"name": "s"}});
    for (method, path, body) in [("POST", SECRETS, secret), ("GET", EXEC, Value::Null)] {
        let is_read = method == "GET";
        let (held, others) = (ask(&api, "eve", method, path, body), async {
            let _unanswered = webhook.accept().await.unwrap();
            let (method, body) = if is_read { ("GET", Value::Null) } else { ("POST", map()) };
            let refused = ask(&api, "eve", method, MAPS, body.clone()).await;
            assert_eq!(refused.refusal(), (429, too_many.clone()), "{method}");
            let taken = ask(&api, "ann", method, MAPS, body).await.code;
            assert_eq!(taken, if is_read { 200 } else { 201 });
            // Probes, and leases by which agents lead, wait for nobody.
            assert_eq!(ask(&api, "eve", "GET", "/readyz", Value::Null).await.code, 200);
            let lease = format!("{LEASES}/leader");
            let renewal = json!({"spec": {"holderIdentity": "eve"}});
            assert_eq!(ask(&api, "eve", "PATCH", &lease, renewal).await.code, 200);
        });
        match select(pin!(held), pin!(others)).await {
            Either::Left((held, _)) => panic!("it should be under way: {held:?}"),
            Either::Right(((), _)) => {}
        }
    }
}

/// Notes on which threads objects are written, by their names.
#[derive(Default)]
struct Threads(Mutex<BTreeMap<String, String>>);

impl Admission for Threads {
    fn validate(&self, review: &mut Review<'_>) -> Result<(), ApiError> {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        self.0.lock().unwrap().insert(review.name.to_owned(), thread);
        Ok(())
    }
}

#[tokio::test]
async fn large_requests_are_worked_on_apart_whatever_they_are_about() {
    let api = TestServer::new().await;
    let threads = Arc::new(Threads::default());
    api.server.add_admission(threads.clone());
    let long = "v".repeat(20_000);
    api.make(MAPS, json!({"metadata": {"name": "small"}})).await;
    api.make(MAPS, json!({"metadata": {"name": "large"}, "data": {"k": long}})).await;
    // A lease is let pass before others because it is small, not because it is a lease.
    api.make(LEASES, json!({"metadata": {"name": "lease"}})).await;
    let (lease, large) = (format!("{LEASES}/lease"), format!("{LEASES}/large-lease"));
    let patch = json!({"spec": {"holderIdentity": "me"}});
    assert_eq!(api.call_with(&[], "PATCH", &lease, patch).await.code, 200);
    let made = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"annotations": {"k": long}}});
    let headers = ["Content-Type: application/apply-patch+yaml"];
    let path = format!("{large}?fieldManager=test");
    assert_eq!(api.call_with(&headers, "PATCH", &path, made).await.code, 201);
    let noted = threads.0.lock().unwrap();
    let apart = |name: &str| noted[name] == "busy-users";
    let found = ["small", "large", "lease", "large-lease"].map(apart);
    assert_eq!(found, [false, true, false, true], "{noted:?}");
}

#[tokio::test]
async fn a_watch_that_leaves_too_much_unread_ends_with_410() {
    let api = TestServer::within(Limits { unread_each: 2000, ..Limits::default() }).await;
    let path = format!("/clusters/hub{MAPS}?watch=true&timeoutSeconds=60");
    let mut watch = api.begin(Some(&api.admin()), get(&path, &[])).await.into_body();
    let mut events = Vec::new();
    for (name, length) in [("small", 10), ("large", 10_000)] {
        let data = json!({"k": "v".repeat(length)});
        api.make(MAPS, json!({"metadata": {"name": name}, "data": data})).await;
        let frame = watch.frame().await.unwrap().unwrap().into_data().unwrap();
        events.push(serde_json::from_slice::<Value>(&frame).unwrap());
    }
    assert_eq!(events[0]["object"]["metadata"]["name"], "small");
    let told = (&events[1]["type"], &events[1]["object"]["code"], &events[1]["object"]["reason"]);
    assert_eq!(told, (&json!("ERROR"), &json!(410), &json!("Expired")));
    assert!(watch.frame().await.is_none(), "its client lists again");
}
