//! Webhooks that really listen, and writes that wait for them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flagship_edge::{Authority, Credentials};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::client::{Reply, TestServer};

const CONFIGS: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A listening webhook that answers by the path it is asked at.
struct Hook {
    address: SocketAddr,
    authority: Authority,
    /// The certificate that it shows.
    shown: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Hook {
    async fn start(api: &TestServer) -> Self {
        let now = api.env.clock.now();
        let authority = Authority::create(now).unwrap();
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let Credentials { certificate: shown, key } = authority.server(&names, now).unwrap();
        let certificate = CertificateDer::from_pem_slice(shown.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(TestServer::any_port()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let notes = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, notes) = (acceptor.clone(), notes.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let answer = service_fn(move |request| answer(request, notes.clone()));
                    let server = hyper::server::conn::http1::Builder::new();
                    server.serve_connection(TokioIo::new(stream), answer).await.ok();
                });
            }
        });
        Self { address, authority, shown, asked }
    }

    fn at(&self, path: &str) -> Value {
        let bundle = STANDARD.encode(self.authority.certificate_pem());
        json!({"url": format!("https://{}{path}", self.address), "caBundle": bundle})
    }

    fn asked(&self) -> Vec<Value> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

async fn answer(
    request: Request<Incoming>,
    notes: Arc<Mutex<Vec<Value>>>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    let patch = |patch: Value| STANDARD.encode(patch.to_string());
    let data = &review["request"]["object"]["data"];
    let mut code = 200;
    match path.as_str() {
        "/deny" => {
            response["allowed"] = json!(false);
            response["status"] = json!({"message": "no way", "code": 403, "reason": "Forbidden"});
        }
        "/deny-bare" => response["allowed"] = json!(false),
        "/warn" => response["warnings"] = json!(["careful"]),
        "/uid" => response["uid"] = json!("x"),
        "/patch" => {
            response["patchType"] = json!("JSONPatch");
            response["patch"] =
                json!(patch(json!([{"op": "add", "path": "/data/x", "value": "1"}])));
        }
        "/seven" => {
            response["patchType"] = json!("JSONPatch");
            response["patch"] =
                json!(patch(json!([{"op": "replace", "path": "/spec/replicas", "value": 7}])));
        }
        // Counts how often it was asked.
        "/count" => {
            let count =
                data["n"].as_str().and_then(|n| n.parse::<i64>().ok()).unwrap_or_default() + 1;
            let add = json!([{"op": "add", "path": "/data/n", "value": count.to_string()}]);
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(patch(add));
        }
        "/bad-patch" => {
            response["patchType"] = json!("JSONPatch");
            response["patch"] =
                json!(patch(json!([{"op": "replace", "path": "/no/way", "value": 1}])));
        }
        "/bad-field" => {
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(patch(json!([{"op": "add", "path": "/data", "value": 5}])));
        }
        "/untyped" => response["patch"] = json!(patch(json!([]))),
        "/fail" => code = 500,
        "/moved" | "/away" | "/round" => code = 307,
        "/hang" => std::future::pending().await,
        _ => {}
    }
    notes.lock().unwrap().push(review);
    let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
    let body = match path.as_str() {
        "/junk" => "hello".to_owned(),
        "/absent" => {
            json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}).to_string()
        }
        _ => review.to_string(),
    };
    let mut response = Response::builder().status(code);
    response = match path.as_str() {
        "/moved" => response.header("Location", "/deny"),
        "/round" => response.header("Location", "/round"),
        "/away" => response.header("Location", "https://example.com/deny"),
        _ => response,
    };
    Ok(response.body(Full::new(body.into())).unwrap())
}

fn webhook(client: Value, more: Value) -> Value {
    let mut hook = json!({
        "name": "probe.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "timeoutSeconds": 1, "clientConfig": client,
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
    });
    let more: BTreeMap<String, Value> = serde_json::from_value(more).unwrap();
    for (key, value) in more {
        hook[key] = value;
    }
    hook
}

/// Writes a configuration in place of the one before.
async fn configure(api: &TestServer, mutating: bool, hooks: Vec<Value>) {
    let kind = if mutating { "mutating" } else { "validating" };
    let path = format!("{CONFIGS}/{kind}webhookconfigurations");
    api.call_with(&[], "DELETE", &format!("{path}/probe"), Value::Null).await;
    api.make(&path, json!({"metadata": {"name": "probe"}, "webhooks": hooks})).await;
}

async fn create(api: &TestServer, query: &str) -> Reply {
    let map =
        json!({"metadata": {"generateName": "a-", "labels": {"app": "web"}}, "data": {"a": "b"}});
    api.call_with(&[], "POST", &format!("{MAPS}{query}"), map).await
}

#[tokio::test]
async fn a_webhook_says_no_in_kubernetes_words() {
    let api = TestServer::new().await;
    let hook = Hook::start(&api).await;
    let failed = r#"Internal error occurred: failed calling webhook "probe.example.com": "#;
    let bad = format!("{failed}received invalid webhook response: ");
    let table = [
        (
            "/deny",
            403,
            r#"admission webhook "probe.example.com" denied the request: no way"#.to_owned(),
        ),
        (
            "/deny-bare",
            400,
            r#"admission webhook "probe.example.com" denied the request without explanation"#
                .to_owned(),
        ),
        ("/absent", 500, format!("{bad}webhook response was absent")),
        (
            "/untyped",
            500,
            format!("{bad}webhook returned response.patch but not response.patchType"),
        ),
        (
            "/fail",
            500,
            format!(
                r#"{failed}failed to call webhook: an error on the server ("unknown") has prevented the request from succeeding"#
            ),
        ),
        (
            "/hang",
            500,
            format!(
                r#"{failed}failed to call webhook: Post "https://{}/hang?timeout=1s": context deadline exceeded"#,
                hook.address
            ),
        ),
    ];
    for (path, code, says) in table {
        configure(&api, false, vec![webhook(hook.at(path), json!({}))]).await;
        assert_eq!(create(&api, "").await.refusal(), (code, says), "{path}");
    }
    configure(&api, false, vec![webhook(hook.at("/uid"), json!({}))]).await;
    let says = create(&api, "").await.refusal().1;
    assert!(
        says.starts_with(&format!("{bad}expected response.uid=\""))
            && says.ends_with("\", got \"x\""),
        "{says}"
    );
    configure(&api, false, vec![webhook(hook.at("/junk"), json!({}))]).await;
    let says = create(&api, "").await.refusal().1;
    assert!(
        says.starts_with(&format!(
            "{failed}failed to call webhook: couldn't get version/kind; json parse error: "
        )),
        "{says}"
    );
}

#[tokio::test]
async fn what_cannot_be_reached_fails_or_is_ignored_as_its_policy_says() {
    let api = TestServer::new().await;
    let hook = Hook::start(&api).await;
    let refused = {
        let listener = TcpListener::bind(TestServer::any_port()).await.unwrap();
        listener.local_addr().unwrap()
    };
    let mut closed = hook.at("/x");
    closed["url"] = json!(format!("https://{refused}/x"));
    let mut unknown = hook.at("/x");
    unknown["caBundle"] = json!(STANDARD.encode(api.edge.authority().certificate_pem()));
    let service =
        |name: &str| json!({"service": {"name": name, "namespace": "default", "path": "/x"}});
    let table = [
        (closed, format!(r#"Post "https://{refused}/x?timeout=1s": dial tcp {refused}: connect: connection refused"#)),
        (unknown, format!(r#"Post "https://{}/x?timeout=1s": tls: failed to verify certificate: x509: certificate signed by unknown authority"#, hook.address)),
        (service("s"), r#"Post "https://s.default.svc:443/x?timeout=1s": service "s" not found"#.to_owned()),
        (service("kubernetes"), r#"Post "https://kubernetes.default.svc:443/x?timeout=1s": services have no endpoints that this server can reach; give the webhook a url instead of service "kubernetes""#.to_owned()),
    ];
    for (client, why) in table {
        configure(&api, false, vec![webhook(client.clone(), json!({}))]).await;
        let says = format!(
            r#"Internal error occurred: failed calling webhook "probe.example.com": failed to call webhook: {why}"#
        );
        assert_eq!(create(&api, "").await.refusal(), (500, says));
        configure(&api, false, vec![webhook(client, json!({"failurePolicy": "Ignore"}))]).await;
        assert_eq!(create(&api, "").await.code, 201);
    }
}

#[tokio::test]
async fn redirects_within_a_server_are_followed_and_paths_are_cleaned() {
    let api = TestServer::new().await;
    let hook = Hook::start(&api).await;
    let denied = r#"admission webhook "probe.example.com" denied the request: no way"#;
    for path in ["/deny", "//deny/", "/moved"] {
        configure(&api, false, vec![webhook(hook.at(path), json!({}))]).await;
        assert_eq!(create(&api, "").await.refusal(), (403, denied.to_owned()), "{path}");
    }
    for (path, why) in [
        ("/away", "the webhook sends its caller on to another server: https://example.com/deny"),
        ("/round", "stopped after 10 redirects"),
    ] {
        configure(&api, false, vec![webhook(hook.at(path), json!({"timeoutSeconds": 10}))]).await;
        let (code, says) = create(&api, "").await.refusal();
        assert_eq!(code, 500);
        assert!(says.ends_with(why), "{says}");
    }
}

#[tokio::test]
async fn a_ca_bundle_may_be_the_certificate_that_the_webhook_shows() {
    let api = TestServer::new().await;
    let hook = Hook::start(&api).await;
    let mut client = hook.at("/warn");
    client["caBundle"] = json!(STANDARD.encode(&hook.shown));
    configure(&api, false, vec![webhook(client, json!({}))]).await;
    let reply = create(&api, "").await;
    assert_eq!(reply.code, 201, "{reply:?}");
    assert_eq!(hook.asked().len(), 1);
}

#[tokio::test]
async fn a_review_tells_the_webhook_what_happens() {
    let api = TestServer::new().await;
    let hook = Hook::start(&api).await;
    configure(&api, false, vec![webhook(hook.at("/warn"), json!({}))]).await;
    let made = create(&api, "?dryRun=All").await;
    assert_eq!(made.code, 201, "{}", made.text);
    let made = create(&api, "").await.json();
    let name = made["metadata"]["name"].as_str().unwrap();
    let one = format!("{MAPS}/{name}");
    let patched = format!("{one}?fieldManager=tool");
    api.call_with(&[], "PATCH", &patched, json!({"data": {"a": "c"}})).await;
    api.call_with(&[], "DELETE", &one, Value::Null).await;
    let asked = hook.asked();
    let told: Vec<(&Value, &Value, bool, bool)> = asked
        .iter()
        .map(|review| {
            let request = &review["request"];
            (
                &request["operation"],
                &request["dryRun"],
                request["object"].is_null(),
                request["oldObject"].is_null(),
            )
        })
        .collect();
    let (yes, no) = (&json!(true), &json!(false));
    assert_eq!(
        told,
        [
            (&json!("CREATE"), yes, false, true),
            (&json!("CREATE"), no, false, true),
            (&json!("UPDATE"), no, false, false),
            (&json!("DELETE"), no, true, false),
        ]
    );
    let mut request = asked[2]["request"].clone();
    for key in ["uid", "object", "oldObject"] {
        request[key] = Value::Null;
    }
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    assert_eq!(
        request,
        json!({
            "uid": null, "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
            "name": name, "namespace": "default", "operation": "UPDATE", "dryRun": false,
            "userInfo": {
                "username": "admin", "groups": ["system:masters", "system:authenticated"],
                "extra": request["userInfo"]["extra"],
            },
            "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "tool"},
            "object": null, "oldObject": null,
        })
    );
}

#[tokio::test]
async fn webhooks_change_objects_one_after_the_other() {
    let api = TestServer::new().await;
    let hook = Hook::start(&api).await;
    let named = |name: &str, path: &str, again: &str| {
        webhook(hook.at(path), json!({"name": name, "reinvocationPolicy": again}))
    };
    configure(
        &api,
        true,
        vec![named("a.b.c", "/count", "IfNeeded"), named("b.b.c", "/patch", "Never")],
    )
    .await;
    // Asked again, for the second changed the object after it.
    assert_eq!(create(&api, "").await.json()["data"], json!({"a": "b", "n": "2", "x": "1"}));
    configure(
        &api,
        true,
        vec![named("a.b.c", "/count", "Never"), named("b.b.c", "/patch", "Never")],
    )
    .await;
    assert_eq!(create(&api, "").await.json()["data"], json!({"a": "b", "n": "1", "x": "1"}));
    configure(
        &api,
        true,
        vec![named("a.b.c", "/patch", "Never"), named("b.b.c", "/count", "IfNeeded")],
    )
    .await;
    assert_eq!(create(&api, "").await.json()["data"], json!({"a": "b", "n": "1", "x": "1"}));
    for path in ["/bad-patch", "/bad-field"] {
        configure(&api, true, vec![named("a.b.c", path, "Never")]).await;
        let (code, says) = create(&api, "").await.refusal();
        assert!(
            code == 500 && says.starts_with("Internal error occurred: "),
            "{path}: {code} {says}"
        );
    }
}

#[tokio::test]
async fn rules_selectors_and_conditions_pick_what_is_asked_about() {
    let api = TestServer::new().await;
    let hook = Hook::start(&api).await;
    let rule = |operations: &[&str], resources: &[&str], scope: &str| json!({"rules": [{"operations": operations, "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources, "scope": scope}]});
    let condition =
        |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
    let table = [
        (rule(&["CREATE"], &["configmaps"], "*"), true),
        (rule(&["UPDATE"], &["configmaps"], "*"), false),
        (rule(&["*"], &["*"], "Namespaced"), true),
        (rule(&["*"], &["*"], "Cluster"), false),
        (rule(&["*"], &["configmaps/*"], "*"), true),
        (rule(&["*"], &["configmaps/status", "secrets"], "*"), false),
        (rule(&["*"], &["*/*"], "*"), true),
        (json!({"objectSelector": {"matchLabels": {"app": "web"}}}), true),
        (json!({"objectSelector": {"matchLabels": {"app": "db"}}}), false),
        (
            json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}),
            true,
        ),
        (
            json!({"namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]}]}}),
            false,
        ),
        (condition("object.data.a == 'b'"), true),
        (condition("request.userInfo.username == 'bob'"), false),
        (condition("!('system:masters' in request.userInfo.groups)"), false),
    ];
    for (more, want) in table {
        configure(&api, false, vec![webhook(hook.at("/deny"), more.clone())]).await;
        assert_eq!(create(&api, "").await.code == 403, want, "{more}");
    }
    let broken = condition("object.data.zz == '1'");
    configure(&api, false, vec![webhook(hook.at("/ok"), broken)]).await;
    let (code, says) = create(&api, "").await.refusal();
    assert_eq!(code, 403);
    assert!(
        says.ends_with(
            "is forbidden: expression 'object.data.zz == '1'' resulted in error: no such key: zz"
        ),
        "{says}"
    );
    let senseless = json!({"metadata": {"name": "x"}, "webhooks": [webhook(hook.at("/ok"), condition("nothing =="))]});
    let path = format!("{CONFIGS}/validatingwebhookconfigurations");
    assert_eq!(api.call_with(&[], "POST", &path, senseless).await.code, 422);
}

#[tokio::test]
async fn a_webhook_that_hangs_holds_nobody_else() {
    let api = TestServer::new().await;
    let hook = Hook::start(&api).await;
    configure(&api, false, vec![webhook(hook.at("/hang"), json!({"timeoutSeconds": 30}))]).await;
    let slow = create(&api, "");
    let secret = json!({"metadata": {"name": "s"}});
    let quick = async {
        // Not asked about, so not held; and the webhook itself can be taken away.
        api.make("/api/v1/namespaces/default/secrets", secret).await;
        let path = format!("{CONFIGS}/validatingwebhookconfigurations/probe");
        assert_eq!(api.call_with(&[], "DELETE", &path, Value::Null).await.code, 200);
        create(&api, "").await.code
    };
    let (slow, quick) = (std::pin::pin!(slow), std::pin::pin!(quick));
    match futures::future::select(slow, quick).await {
        futures::future::Either::Left((slow, _)) => panic!("{slow:?}"),
        futures::future::Either::Right((code, _)) => assert_eq!(code, 201),
    }
}

#[tokio::test]
async fn equivalent_versions_are_asked_about_in_their_own() {
    let api = TestServer::new().await;
    let hook = Hook::start(&api).await;
    let rules = json!([{"operations": ["*"], "apiGroups": ["autoscaling"], "apiVersions": ["v2"], "resources": ["horizontalpodautoscalers"]}]);
    let scaler = json!({"metadata": {"generateName": "a-"}, "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "targetCPUUtilizationPercentage": 50}});
    let old = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    configure(&api, false, vec![webhook(hook.at("/ok"), json!({"rules": rules}))]).await;
    api.make(old, scaler.clone()).await;
    let asked = hook.asked();
    assert_eq!(asked[0]["request"]["kind"]["version"], "v2");
    assert_eq!(asked[0]["request"]["requestKind"]["version"], "v1");
    assert_eq!(asked[0]["request"]["object"]["apiVersion"], "autoscaling/v2");
    configure(
        &api,
        false,
        vec![webhook(hook.at("/ok"), json!({"rules": rules, "matchPolicy": "Exact"}))],
    )
    .await;
    api.make(old, scaler).await;
    assert!(hook.asked().is_empty());
}

#[tokio::test]
async fn a_webhook_is_asked_about_connections() {
    let api = TestServer::new().await;
    let hook = Hook::start(&api).await;
    let rules = json!([{"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*/*"]}]);
    configure(&api, false, vec![webhook(hook.at("/deny"), json!({"rules": rules}))]).await;
    let within = "/api/v1/namespaces/default";
    let table = [
        (
            "POST",
            format!(
                "{within}/pods/p/exec?command=ls&command=-l&container=c&stdin=true&tty=1&stdout=false"
            ),
            json!({"kind": "PodExecOptions", "apiVersion": "v1", "stdin": true, "tty": true, "container": "c", "command": ["ls", "-l"]}),
        ),
        (
            "GET",
            format!("{within}/pods/p/exec"),
            json!({"kind": "PodExecOptions", "apiVersion": "v1", "command": null}),
        ),
        (
            "POST",
            format!("{within}/pods/p/attach?stdout=true"),
            json!({"kind": "PodAttachOptions", "apiVersion": "v1", "stdout": true}),
        ),
        (
            "POST",
            format!("{within}/pods/p/portforward?ports=80,81"),
            json!({"kind": "PodPortForwardOptions", "apiVersion": "v1", "ports": [80, 81]}),
        ),
        (
            "DELETE",
            format!("{within}/pods/p:80/proxy/a/b?x=1"),
            json!({"kind": "PodProxyOptions", "apiVersion": "v1", "path": "/a/b"}),
        ),
        (
            "GET",
            format!("{within}/services/https:s:443/proxy"),
            json!({"kind": "ServiceProxyOptions", "apiVersion": "v1"}),
        ),
        (
            "PUT",
            "/api/v1/nodes/n/proxy/metrics".to_owned(),
            json!({"kind": "NodeProxyOptions", "apiVersion": "v1", "path": "/metrics"}),
        ),
    ];
    for (method, path, options) in table {
        let said = api.call_with(&[], method, &path, Value::Null).await.refusal();
        let denied = "admission webhook \"probe.example.com\" denied the request: no way";
        assert_eq!(said, (403, denied.to_owned()), "{path}");
        let asked = hook.asked();
        let request = &asked[0]["request"];
        let kind = json!({"group": "", "version": "v1", "kind": options["kind"]});
        assert_eq!(request["object"], options, "{path}");
        assert_eq!((&request["kind"], &request["requestKind"]), (&kind, &kind));
        assert_eq!(request["operation"], "CONNECT");
        assert_eq!(
            request["subResource"].as_str(),
            path.split(['/', '?'])
                .find(|part| ["exec", "attach", "portforward", "proxy"].contains(part))
        );
        let of_namespace = path.starts_with(within);
        assert_eq!(request["namespace"].as_str(), of_namespace.then_some("default"), "{path}");
        assert!(request["oldObject"].is_null() && request["options"].is_null());
        assert_eq!(request["dryRun"], false);
    }
}

#[tokio::test]
async fn a_webhook_is_asked_about_small_objects_below_others() {
    let api = TestServer::new().await;
    let hook = Hook::start(&api).await;
    let within = "/api/v1/namespaces/default";
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec =
        json!({"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    api.make(
        "/apis/apps/v1/namespaces/default/deployments",
        json!({"metadata": {"name": "d"}, "spec": spec}),
    )
    .await;
    api.make(
        &format!("{within}/pods"),
        json!({"metadata": {"name": "p"}, "spec": template["spec"]}),
    )
    .await;
    api.make(&format!("{within}/serviceaccounts"), json!({"metadata": {"name": "s"}})).await;
    let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*", "*/*"]}]);
    configure(&api, false, vec![webhook(hook.at("/deny"), json!({"rules": rules}))]).await;
    hook.asked();
    let table = [
        (
            "POST",
            format!("{within}/pods/p/binding"),
            json!({"target": {"kind": "Node", "name": "n"}}),
            ["", "v1", "Binding"],
            json!({"target": {"kind": "Node", "name": "n"}}),
        ),
        (
            "POST",
            format!("{within}/pods/p/eviction?dryRun=All"),
            json!({"deleteOptions": {"gracePeriodSeconds": 3}}),
            ["policy", "v1", "Eviction"],
            json!({"deleteOptions": {"gracePeriodSeconds": 3}}),
        ),
        (
            "POST",
            format!("{within}/serviceaccounts/s/token"),
            json!({"spec": {"expirationSeconds": 600}}),
            ["authentication.k8s.io", "v1", "TokenRequest"],
            json!({"status": {"token": "", "expirationTimestamp": null}}),
        ),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/default/deployments/d/scale".to_owned(),
            json!({"spec": {"replicas": 2}}),
            ["autoscaling", "v1", "Scale"],
            json!({"spec": {"replicas": 2}}),
        ),
    ];
    for (method, path, body, [group, version, kind], part) in table {
        let said = api.call_with(&[], method, &path, body).await.refusal();
        assert_eq!(said.0, 403, "{path}: {}", said.1);
        let asked = hook.asked();
        assert_eq!(asked.len(), 1, "{path}");
        let request = &asked[0]["request"];
        assert_eq!(request["kind"], json!({"group": group, "version": version, "kind": kind}));
        let resource = path.rsplit('/').nth(2).unwrap();
        assert_eq!(request["resource"]["resource"], resource);
        let object = &request["object"];
        assert_eq!(object["kind"], kind);
        for (key, value) in part.as_object().unwrap() {
            assert_eq!(object[key], *value, "{path}");
        }
        let update = method == "PATCH";
        assert_eq!(request["operation"], if update { "UPDATE" } else { "CREATE" });
        assert_eq!(request["oldObject"]["spec"]["replicas"].as_i64(), update.then_some(1));
        assert_eq!(request["dryRun"], path.contains("dryRun"));
    }
    // An eviction is asked about once: the deletion that follows is the server's.
    let rules = json!([{"operations": ["DELETE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["pods"]}]);
    configure(&api, false, vec![webhook(hook.at("/deny"), json!({"rules": rules}))]).await;
    let evicted = api.call_with(&[], "POST", &format!("{within}/pods/p/eviction"), json!({})).await;
    assert_eq!(evicted.code, 201, "{}", evicted.text);
    assert!(hook.asked().is_empty());
}

#[tokio::test]
async fn a_webhook_changes_a_scale_and_with_it_the_object() {
    let api = TestServer::new().await;
    let hook = Hook::start(&api).await;
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec =
        json!({"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    let path = "/apis/apps/v1/namespaces/default/deployments";
    api.make(path, json!({"metadata": {"name": "d"}, "spec": spec})).await;
    let rules = json!([{"operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments/scale"]}]);
    configure(&api, true, vec![webhook(hook.at("/seven"), json!({"rules": rules}))]).await;
    let scale = json!({"spec": {"replicas": 3}});
    let scaled = api.call_with(&[], "PATCH", &format!("{path}/d/scale"), scale).await;
    assert_eq!(scaled.json()["spec"]["replicas"], 7, "{}", scaled.text);
    let object = api.call_with(&[], "GET", &format!("{path}/d"), Value::Null).await.json();
    assert_eq!(object["spec"]["replicas"], 7);
}
