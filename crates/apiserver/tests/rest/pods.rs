//! Binding and evicting pods.

use serde_json::{Value, json};

use crate::harness::{PODS, TestServer};

async fn running(api: &TestServer, name: &str) -> Value {
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n1"},
    });
    api.post(PODS, pod).await.ok(201);
    let status = json!({"status": {"phase": "Running"}});
    api.patch("merge", &format!("{PODS}/{name}/status"), status).await.ok(200)
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let api = TestServer::new();
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    api.post(PODS, pod).await.ok(201);
    let binding = json!({"kind": "Binding", "target": {"kind": "Node", "name": "n1"}});
    let done = api.post(&format!("{PODS}/p/binding"), binding.clone()).await.ok(201);
    assert_eq!(done["status"], "Success");
    let pod = api.get(&format!("{PODS}/p")).await.ok(200);
    assert_eq!(pod["spec"]["nodeName"], "n1");
    assert_eq!(pod["status"]["conditions"][0]["type"], "PodScheduled");
    api.post(&format!("{PODS}/p/binding"), binding).await.refused(
        409,
        "Conflict",
        "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n1\"",
    );
}

#[tokio::test]
async fn an_eviction_respects_the_budget() {
    let api = TestServer::new();
    running(&api, "p").await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    });
    api.post(budgets, budget).await.ok(201);
    let eviction =
        json!({"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "p"}});
    let reply = api.post(&format!("{PODS}/p/eviction"), eviction.clone()).await.refused(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
    );
    assert_eq!(reply["details"]["causes"][0]["reason"], "DisruptionBudget");
    let allowed = json!({"status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}});
    api.patch("merge", &format!("{budgets}/b/status"), allowed).await.ok(200);
    api.post(&format!("{PODS}/p/eviction"), eviction).await.ok(201);
    let pod = api.get(&format!("{PODS}/p")).await.ok(200);
    assert!(pod["metadata"]["deletionTimestamp"].is_string());
    let budget = api.get(&format!("{budgets}/b")).await.ok(200);
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
}

#[tokio::test]
async fn logs_are_honestly_absent() {
    let api = TestServer::new();
    running(&api, "p").await;
    let log = api.get(&format!("{PODS}/p/log?container=c")).await;
    let says = "flagship: containers are simulated here, so \"c\" in pod \"p\" writes no log\n";
    assert_eq!((log.code, log.body.as_str()), (200, Some(says)));
    let refused = [
        ("container=a", "container a is not valid for pod p"),
        ("previous=true", "previous terminated container \"c\" in pod \"p\" not found"),
    ];
    for (query, says) in refused {
        let log = api.get(&format!("{PODS}/p/log?{query}")).await;
        log.refused(400, "BadRequest", says);
    }
    assert_eq!(log.headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(api.get(&format!("{PODS}/none/log")).await.code, 404);
    api.get(&format!("{PODS}/p/exec?command=sh")).await.refused(
        501,
        "NotImplemented",
        "containers are simulated here: exec is not possible",
    );
    assert_eq!(api.post(&format!("{PODS}/none/exec"), json!({})).await.code, 404);
}

#[tokio::test]
async fn applying_to_a_part_of_a_pod_owns_that_part() {
    let api = TestServer::new();
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}});
    api.post(PODS, pod).await.ok(201);
    let table = [
        (
            "resize",
            json!({"containers": [{"name": "c", "image": "other", "resources": {"requests": {"cpu": "2"}}}]}),
            json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
                ".": {}, "f:name": {}, "f:resources": {"f:requests": {"f:cpu": {}}},
            }}}}),
        ),
        (
            "ephemeralcontainers",
            json!({"ephemeralContainers": [{"name": "debug", "image": "sh"}]}),
            json!({"f:spec": {"f:ephemeralContainers": {"k:{\"name\":\"debug\"}": {
                ".": {}, "f:image": {}, "f:name": {},
            }}}}),
        ),
    ];
    for (sub, spec, owns) in table {
        let body =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
        let path = format!("{PODS}/p/{sub}?fieldManager=me&force=true");
        let now = api.patch("apply", &path, body).await.ok(200);
        let managers = now["metadata"]["managedFields"].as_array().unwrap();
        let mine = managers.iter().find(|m| m["subresource"] == sub).unwrap();
        assert_eq!(
            (mine["manager"].as_str(), mine["operation"].as_str()),
            (Some("me"), Some("Apply"))
        );
        assert_eq!(mine["fieldsV1"], owns, "{sub}");
        assert_eq!(now["spec"]["containers"][0]["image"], "i");
        assert_eq!(now["spec"]["containers"][0]["resources"]["requests"]["cpu"], "2");
    }
}

// A difference that people must know of. Once the labels are enforced, the page is wrong.
#[tokio::test]
async fn pod_security_labels_do_nothing_and_the_page_of_differences_says_so() {
    let api = TestServer::new();
    let labels = ["enforce", "audit", "warn"]
        .map(|mode| (format!("pod-security.kubernetes.io/{mode}"), json!("restricted")));
    let labels: Value = labels.into_iter().collect();
    let space = json!({"metadata": {"name": "locked", "labels": labels}});
    let space = api.post("/api/v1/namespaces", space).await.ok(201);
    assert_eq!(space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
    let container = json!({"name": "c", "image": "i", "securityContext": {"privileged": true}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}});
    api.post("/api/v1/namespaces/locked/pods", pod).await.ok(201);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/apiserver-differences.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("\nPod Security is not enforced: the labels"));
}
