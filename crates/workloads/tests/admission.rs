//! What the hooks that come with the controllers let in.

#![allow(clippy::unwrap_used)] // a story that cannot be told has failed

mod cluster;

use std::sync::Arc;
use std::time::Duration;

use cluster::TestCluster;
use flagship_store::env::plan::{Effect, Rule, Verbs, When};
use flagship_store::env::{Env, FaultOutcome, FaultPlan, Point};
use flagship_workloads::WorkloadConfig;
use serde_json::{Value, json};

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    pod
}

fn quiet() -> WorkloadConfig {
    WorkloadConfig { nodes: 0, ..WorkloadConfig::default() }
}

async fn refusal(test: &TestCluster, resource: &str, object: Value) -> String {
    let error = test.user.create(resource, "default", object).await.unwrap_err();
    format!("{} {}", error.code, error.message)
}

#[tokio::test(start_paused = true)]
async fn racing_writes_do_not_overrun_a_quota() {
    let env = Env::simulated(3);
    let slow = Rule {
        point: Point::PreCommit,
        who: "user".to_owned(),
        cluster: String::new(),
        resource: "pods".to_owned(),
        verbs: Verbs::Writes,
        when: When::Always,
        window: None,
        effect: Effect::Do(FaultOutcome::Delay(Duration::from_millis(5))),
    };
    let plan = FaultPlan::new(1, env.clock.clone(), vec![slow]);
    let test = TestCluster::in_env(env.with_faults(Arc::new(plan)), quiet());
    let quota =
        json!({"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "2"}}});
    test.create("resourcequotas", quota).await;
    let writes =
        (0..5).map(|n| test.user.create("pods", "default", pod(&format!("p{n}"), json!({}))));
    let made = futures::future::join_all(writes).await;
    assert_eq!(made.iter().filter(|one| one.is_ok()).count(), 2);
    assert_eq!(test.list("pods", "default").len(), 2);
    let refused = made.into_iter().find_map(Result::err).unwrap();
    assert_eq!(
        refused.message.split_once(" is forbidden: ").unwrap().1,
        "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    );
}

#[tokio::test(start_paused = true)]
async fn a_quota_counts_what_an_update_adds() {
    let test = TestCluster::new(1, quiet());
    let hard = json!({"services.nodeports": "0", "services": "5"});
    let quota = json!({"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": hard}});
    test.create("resourcequotas", quota).await;
    let spec = json!({"ports": [{"port": 80}], "selector": {"a": "b"}});
    let service = json!({"metadata": {"name": "s", "namespace": "default"}, "spec": spec});
    let mut service = test.create("services", service).await;
    service["spec"]["type"] = json!("NodePort");
    let error = test.user.update("services", service.clone()).await.unwrap_err();
    assert_eq!(
        error.message,
        "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=0, limited: services.nodeports=0"
    );
    service["spec"]["type"] = json!("ClusterIP");
    service["metadata"]["labels"] = json!({"a": "b"});
    test.user.update("services", service).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_limit_range_fills_in_and_refuses() {
    let test = TestCluster::new(1, quiet());
    let limits = json!([
        {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}, "max": {"cpu": "2"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
    ]);
    let range =
        json!({"metadata": {"name": "r", "namespace": "default"}, "spec": {"limits": limits}});
    test.create("limitranges", range).await;
    let made = test.create("pods", pod("p", json!({}))).await;
    assert_eq!(
        made["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}})
    );
    assert_eq!(made["status"]["qosClass"], "Burstable");
    let large =
        json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "3"}}}]});
    assert_eq!(
        refusal(&test, "pods", pod("large", large)).await,
        "403 pods \"large\" is forbidden: maximum cpu usage per Container is 2, but limit is 3"
    );
    let claim = json!({"metadata": {"name": "c", "namespace": "default"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}},
    }});
    assert_eq!(
        refusal(&test, "persistentvolumeclaims", claim).await,
        "403 persistentvolumeclaims \"c\" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_has_the_priority_of_its_class() {
    let test = TestCluster::new(1, quiet());
    let class = |name: &str, value: i64, default: bool| json!({"metadata": {"name": name}, "value": value, "globalDefault": default});
    let plain = test.create("pods", pod("plain", json!({}))).await;
    assert_eq!(plain["spec"]["priority"], 0);
    test.create("priorityclasses.scheduling.k8s.io", class("high", 1000, false)).await;
    test.create("priorityclasses.scheduling.k8s.io", class("usual", 10, true)).await;
    let high = test.create("pods", pod("high", json!({"priorityClassName": "high"}))).await;
    assert_eq!(high["spec"]["priority"], 1000);
    assert_eq!(high["spec"]["preemptionPolicy"], "PreemptLowerPriority");
    let usual = test.create("pods", pod("usual", json!({}))).await;
    assert_eq!(
        (&usual["spec"]["priority"], &usual["spec"]["priorityClassName"]),
        (&json!(10), &json!("usual"))
    );
    assert_eq!(
        refusal(&test, "pods", pod("none", json!({"priorityClassName": "none"}))).await,
        "403 pods \"none\" is forbidden: no PriorityClass with name none was found"
    );
    assert_eq!(
        refusal(&test, "pods", pod("own", json!({"priorityClassName": "high", "priority": 7})))
            .await,
        "403 pods \"own\" is forbidden: the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 1000 from the given PriorityClass name"
    );
}
