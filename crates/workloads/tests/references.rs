//! What pods refer to: they wait for it, in Kubernetes' words, and go on when it comes.

#[allow(dead_code, reason = "not every file of tests needs all of it")]
mod cluster;

use cluster::{TestCluster, deployment};
use flagship_apiserver::rest::Propagation;
use flagship_workloads::WorkloadConfig;
use serde_json::{Value, json};

fn pod(name: &str, spec: Value) -> Value {
    let mut object = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
    object["spec"]["containers"][0]["name"] = json!("c");
    object["spec"]["containers"][0]["image"] = json!("nginx:1");
    object
}

fn test() -> TestCluster {
    TestCluster::new(1, WorkloadConfig::default())
}

/// Phase of a pod and why its container waits.
fn state(test: &TestCluster, name: &str) -> (String, String) {
    let pod = test.get("pods", "default", name);
    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&pod["status"]["phase"]), text(waiting))
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_restart_policy_never_ends() {
    let test = test();
    let spec = json!({"containers": [{}], "restartPolicy": "Never"});
    test.create("pods", pod("test", spec)).await;
    test.pass(10).await;
    assert_eq!(state(&test, "test").0, "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn a_missing_config_map_holds_a_container_until_it_comes() {
    let test = test();
    let from = json!([{"configMapRef": {"name": "settings"}}]);
    test.create("pods", pod("env", json!({"containers": [{"envFrom": from}]}))).await;
    let volume = json!([{"name": "v", "secret": {"secretName": "key"}}]);
    test.create("pods", pod("mount", json!({"containers": [{}], "volumes": volume}))).await;
    test.pass(60).await;
    assert_eq!(state(&test, "env"), ("Pending".into(), "CreateContainerConfigError".into()));
    assert_eq!(state(&test, "mount"), ("Pending".into(), "ContainerCreating".into()));
    let meta = |name: &str| json!({"metadata": {"name": name, "namespace": "default"}});
    test.create("configmaps", meta("settings")).await;
    test.create("secrets", meta("key")).await;
    test.pass(10).await;
    assert_eq!(state(&test, "env").0, "Running");
    assert_eq!(state(&test, "mount").0, "Running");
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_an_unknown_account_is_refused() {
    let test = test();
    let mut web = deployment("web", 1, "nginx:1");
    web["spec"]["template"]["spec"]["serviceAccountName"] = json!("robot");
    test.create("deployments.apps", web).await;
    test.pass(30).await;
    assert!(test.list("pods", "default").is_empty());
    let conditions = test.conditions("deployments.apps", "web");
    let told = conditions.iter().find(|one| one.starts_with("ReplicaFailure=True"));
    let told = told.expect("it says why");
    assert!(
        told.contains(
            "error looking up service account default/robot: serviceaccount \"robot\" not found"
        ),
        "{told}"
    );
    let account = json!({"metadata": {"name": "robot", "namespace": "default"}});
    test.create("serviceaccounts", account).await;
    test.pass(600).await;
    assert_eq!(test.list("pods", "default").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_class_that_does_not_exist_holds_its_pod() {
    let test = test();
    let claim = json!({"metadata": {"name": "data", "namespace": "default"}, "spec": {
        "storageClassName": "fast", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    test.create("persistentvolumeclaims", claim).await;
    let volume = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    test.create("pods", pod("db", json!({"containers": [{}], "volumes": volume}))).await;
    test.pass(60).await;
    let claim = test.get("persistentvolumeclaims", "default", "data");
    assert_eq!(claim["status"]["phase"], "Pending");
    let scheduled = test.get("pods", "default", "db")["status"]["conditions"][0].clone();
    assert_eq!(
        (&scheduled["type"], &scheduled["status"]),
        (&json!("PodScheduled"), &json!("False"))
    );
    let says = scheduled["message"].as_str().unwrap_or_default();
    assert!(says.contains("pod has unbound immediate PersistentVolumeClaims"), "{says}");
    let class = json!({"metadata": {"name": "fast"}, "provisioner": "example.com/p"});
    test.create("storageclasses.storage.k8s.io", class).await;
    test.pass(30).await;
    assert_eq!(test.get("persistentvolumeclaims", "default", "data")["status"]["phase"], "Bound");
    assert_eq!(state(&test, "db").0, "Running");
}

#[tokio::test(start_paused = true)]
async fn a_quota_that_counts_deployments_is_kept_up_to_date() {
    let test = test();
    let quota = json!({"metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"count/deployments.apps": "5"}}});
    test.create("resourcequotas", quota).await;
    test.pass(2).await;
    let used = || test.get("resourcequotas", "default", "q")["status"]["used"].clone();
    // Without a pod, whose changes every quota follows.
    test.create("deployments.apps", deployment("web", 0, "nginx:1")).await;
    test.pass(5).await;
    assert_eq!(used(), json!({"count/deployments.apps": "1"}));
    test.delete("deployments.apps", "default", "web", Propagation::Background).await;
    test.pass(5).await;
    assert_eq!(used(), json!({"count/deployments.apps": "0"}));
}
