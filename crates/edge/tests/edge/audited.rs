//! The audit log: who did what, in Kubernetes' format.

use std::path::PathBuf;

use flagship_edge::{Audit, AuditConfig};
use serde_json::{Value, json};

use crate::client::TestServer;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

struct Log(PathBuf);

impl Log {
    fn new(name: &str) -> Self {
        let file = format!("flagship-audit-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(file).join("audit.log"))
    }

    async fn server(&self, rules: Option<&str>) -> TestServer {
        let policy = rules.map(|rules| {
            format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitManagedFields: true\nrules:\n{rules}\n")
        });
        let policy = policy.as_deref();
        let config = AuditConfig { path: &self.0, policy, most_bytes: 1 << 20, backups: 2 };
        TestServer::audited(Audit::open(&config).unwrap()).await
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.0).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The last lines about a verb on a resource.
    fn of(&self, verb: &str, resource: &str) -> Vec<Value> {
        let about =
            |line: &Value| line["verb"] == verb && line["objectRef"]["resource"] == resource;
        self.lines().into_iter().filter(about).collect()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        std::fs::remove_dir_all(self.0.parent().unwrap()).ok();
    }
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

/// A line without what differs from run to run.
fn plain(mut line: Value) -> Value {
    let stamps = ["auditID", "requestReceivedTimestamp", "stageTimestamp"];
    for key in stamps {
        let value = line.as_object_mut().unwrap().remove(key).unwrap();
        assert!(!value.as_str().unwrap().is_empty());
    }
    line["user"].as_object_mut().unwrap().remove("extra");
    line
}

#[tokio::test]
async fn without_a_policy_the_metadata_of_every_request_is_logged_once() {
    let log = Log::new("metadata");
    let api = log.server(None).await;
    let headers = ["User-Agent: kubectl/v1.34", "Impersonate-User: bob"];
    let refused = api.call_with(&headers, "POST", MAPS, map("a")).await;
    assert_eq!(refused.code, 403);
    api.make(MAPS, map("a")).await;
    api.get(None, "/clusters/hub/api/v1/nodes").await;
    let lines = log.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(
        plain(lines[0].clone()),
        json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
            "stage": "ResponseComplete", "requestURI": MAPS, "verb": "create",
            "user": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
            "impersonatedUser": {"username": "bob", "groups": ["system:authenticated"]},
            "sourceIPs": ["127.0.0.1"], "userAgent": "kubectl/v1.34",
            "objectRef": {"resource": "configmaps", "namespace": "default", "apiVersion": "v1"},
            "responseStatus": {"metadata": {}, "code": 403},
            "annotations": {"flagship.dev/cluster": "hub",
                "authorization.k8s.io/decision": "forbid", "authorization.k8s.io/reason": ""},
        })
    );
    let made = &lines[1];
    assert_eq!(made["responseStatus"]["code"], 201);
    assert_eq!(made["annotations"]["authorization.k8s.io/decision"], "allow");
    assert!(made.get("requestObject").is_none() && made.get("responseObject").is_none());
    assert_eq!(lines[2]["user"]["username"], "system:anonymous");
}

#[tokio::test]
async fn bodies_are_logged_where_the_policy_says_so_and_never_those_of_secrets_by_the_way() {
    let log = Log::new("bodies");
    let api = log.server(Some("- {level: RequestResponse}")).await;
    api.make(MAPS, map("a")).await;
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}});
    api.make(SECRETS, secret.clone()).await;
    api.call_with(&[], "GET", &format!("{SECRETS}/s"), Value::Null).await;
    let token = "/api/v1/namespaces/default/serviceaccounts/default/token";
    api.call_with(&[], "POST", token, json!({"spec": {"audiences": []}})).await;
    let stages: Vec<Value> =
        log.of("create", "configmaps").iter().map(|l| l["stage"].clone()).collect();
    assert_eq!(stages, ["RequestReceived", "ResponseComplete"]);
    let made = log.of("create", "configmaps").pop().unwrap();
    assert_eq!(made["requestObject"]["data"]["k"], "v");
    assert_eq!(made["responseObject"]["metadata"]["name"], "a");
    assert!(made["responseObject"]["metadata"].get("managedFields").is_none());
    let text = std::fs::read_to_string(&log.0).unwrap();
    assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
    for (verb, resource) in
        [("create", "secrets"), ("get", "secrets"), ("create", "serviceaccounts")]
    {
        let line = log.of(verb, resource).pop().unwrap();
        assert_eq!(line["level"], "Metadata", "{line}");
        assert!(line.get("requestObject").is_none() && line.get("responseObject").is_none());
    }
}

#[tokio::test]
async fn a_policy_that_names_secrets_gets_them_and_a_watch_has_its_own_stages() {
    let log = Log::new("asked");
    let rules = r#"- {level: Request, resources: [{group: "", resources: [secrets]}]}
- {level: None, verbs: [list]}
- {level: Metadata, omitStages: [RequestReceived]}"#;
    let api = log.server(Some(rules)).await;
    api.make(SECRETS, json!({"metadata": {"name": "s"}, "stringData": {"k": "hunter2"}})).await;
    let made = log.of("create", "secrets").pop().unwrap();
    assert_eq!(made["requestObject"]["stringData"]["k"], "hunter2");
    assert!(made.get("responseObject").is_none());
    api.call_with(&[], "GET", MAPS, Value::Null).await;
    assert!(log.of("list", "configmaps").is_empty());
    let watched =
        api.call_with(&[], "GET", &format!("{MAPS}?watch=1&timeoutSeconds=-5"), Value::Null).await;
    assert_eq!(watched.code, 200);
    let stages: Vec<Value> =
        log.of("watch", "configmaps").iter().map(|l| l["stage"].clone()).collect();
    assert_eq!(stages, ["ResponseStarted", "ResponseComplete"]);
}
