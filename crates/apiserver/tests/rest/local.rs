//! The in-process API, with and without faults.

use std::sync::Arc;

use flagship_apiserver::rest::{DeleteOptions, PatchKind, WriteOptions};
use flagship_store::WatchEvent;
use flagship_store::env::plan::{Effect, Rule, Verbs, When};
use flagship_store::env::{Env, FaultOutcome, FaultPlan, Point};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::harness::{MAPS, TestServer};
use crate::updating::deployment;

#[tokio::test(start_paused = true)]
async fn a_controller_reads_writes_and_watches() {
    let api = TestServer::new();
    let local = api.cluster.local("deployment-controller");
    let (revision, none) = local.list("deployments.apps", None, None).await.unwrap();
    assert!(none.is_empty());
    let mut watch = local.watch("deployments.apps", Some("default"), revision).await.unwrap();
    let made = local.create("deployments.apps", "default", deployment("web", 2)).await.unwrap();
    assert_eq!(made["metadata"]["managedFields"][0]["manager"], "deployment-controller");
    let Some(WatchEvent::Added(seen)) = watch.next().await else { panic!("no event") };
    assert_eq!(&*seen.key.name, "web");

    let mut next = local.get("deployments.apps", "default", "web").await.unwrap();
    assert_eq!(next, made);
    next["spec"]["replicas"] = json!(3);
    let next = local.update("deployments.apps", next).await.unwrap();
    assert_eq!(next["metadata"]["generation"], 2);
    assert_eq!(local.update("deployments.apps", made).await.unwrap_err().code, 409);

    let mut status = next.clone();
    status["status"] = json!({"replicas": 3});
    let status = local.update_status("deployments.apps", status).await.unwrap();
    assert_eq!(status["status"]["replicas"], 3);

    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    let options = WriteOptions::default();
    local
        .patch("deployments.apps", "default", "web", "", PatchKind::Merge, patch, &options)
        .await
        .unwrap();
    let (_, labelled) = local.list("deployments.apps", Some("default"), Some("a=b")).await.unwrap();
    assert_eq!(labelled.len(), 1);

    local.delete("deployments.apps", "default", "web", DeleteOptions::default()).await.unwrap();
    let gone = local.get("deployments.apps", "default", "web").await.unwrap_err();
    assert_eq!(gone.message, "deployments.apps \"web\" not found");
    assert_eq!(local.get("nothings", "", "x").await.unwrap_err().code, 404);
}

fn rule(point: Point, effect: FaultOutcome) -> Rule {
    Rule {
        point,
        who: "agent".to_owned(),
        cluster: String::new(),
        resource: "configmaps".to_owned(),
        verbs: Verbs::Writes,
        when: When::Nth(1),
        window: None,
        effect: Effect::Do(effect),
    }
}

async fn one_create(point: Point, verdict: FaultOutcome) -> (Result<Value, (u16, String)>, bool) {
    let env = Env::simulated(3);
    let plan = FaultPlan::new(1, env.clock.clone(), vec![rule(point, verdict)]);
    let api = TestServer::in_env(env.with_faults(Arc::new(plan)));
    let local = api.cluster.local("agent");
    let body = json!({"metadata": {"name": "a"}});
    let result = local.create("configmaps", "default", body).await;
    let there = api.get(&format!("{MAPS}/a")).await.code == 200;
    (result.map_err(|e| (e.code, e.reason.to_owned())), there)
}

#[tokio::test(start_paused = true)]
async fn faults_strike_before_and_after_the_commit() {
    let busy = FaultOutcome::Answer { code: 503, retry_after: Some(2) };
    let unavailable = Err((503, "ServiceUnavailable".to_owned()));
    assert_eq!(one_create(Point::Request, busy).await, (unavailable.clone(), false));
    assert_eq!(one_create(Point::PreCommit, busy).await, (unavailable.clone(), false));
    assert_eq!(one_create(Point::PostCommit, busy).await, (unavailable, true));
    let cut = Err((0, "ConnectionReset".to_owned()));
    assert_eq!(one_create(Point::PostCommit, FaultOutcome::Sever).await, (cut, true));
}

#[tokio::test(start_paused = true)]
async fn a_fault_reaches_http_clients_as_an_answer_or_a_cut_connection() {
    let env = Env::simulated(3);
    let busy = FaultOutcome::Answer { code: 429, retry_after: Some(2) };
    let rules = vec![
        rule(Point::Request, busy),
        Rule { when: When::Nth(2), ..rule(Point::Request, FaultOutcome::Sever) },
    ];
    let plan = FaultPlan::new(1, env.clock.clone(), rules);
    let mut api = TestServer::in_env(env.with_faults(Arc::new(plan)));
    api.cluster = api.cluster.called_by("agent");
    let reply = api.post(MAPS, json!({"metadata": {"name": "a"}})).await;
    assert_eq!(reply.code, 429);
    assert_eq!(reply.headers["retry-after"], "2");
    let mut service = api.cluster.clone();
    let request = http::Request::post(MAPS)
        .body(http_body_util::Full::<bytes::Bytes>::from(r#"{"metadata":{"name":"a"}}"#))
        .unwrap();
    assert!(tower::Service::call(&mut service, request).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn reads_can_be_stale() {
    let env = Env::simulated(3);
    let stale = Rule {
        verbs: Verbs::Reads,
        when: When::Always,
        ..rule(Point::Read, FaultOutcome::Stale(1))
    };
    let plan = FaultPlan::new(1, env.clock.clone(), vec![stale]);
    let api = TestServer::in_env(env.with_faults(Arc::new(plan)));
    api.config("a", json!({})).await;
    let local = api.cluster.local("agent");
    assert_eq!(local.get("configmaps", "default", "a").await.unwrap_err().code, 404);
    let (_, items) = local.list("configmaps", None, None).await.unwrap();
    assert!(items.is_empty());
    let fresh = api.cluster.local("other");
    fresh.get("configmaps", "default", "a").await.unwrap();
}

#[tokio::test]
async fn a_handle_to_a_replaced_cluster_fails() {
    let api = TestServer::new();
    let local = api.cluster.local("x");
    api.server.add_cluster("hub");
    let map = json!({"metadata": {"name": "lost"}});
    let says = "the cluster \"hub\" behind this handle was removed";
    let error = local.create("configmaps", "default", map.clone()).await.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (503, says));
    api.post(MAPS, map).await.refused(503, "ServiceUnavailable", says);
    api.get(MAPS).await.refused(503, "ServiceUnavailable", says);
}
