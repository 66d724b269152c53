//! The same seed gives the same run.

use std::sync::Arc;
use std::time::Duration;

use flagship_store::env::plan::{Effect, Rule, Verbs, When};
use flagship_store::env::{Env, FaultOutcome, FaultPlan, Point};
use serde_json::json;
use tokio::time::Instant;

use crate::harness::{MAPS, TestServer, revision};

/// Three controllers that race and two watchers, with delays of commits and events and
/// cut watches drawn from the seed. Returns the trace's hash and what the watchers saw, when.
async fn run(seed: u64) -> (u64, Vec<String>) {
    let env = Env::simulated(seed);
    let rule = |point, chance, effect| Rule {
        point,
        who: String::new(),
        cluster: String::new(),
        resource: String::new(),
        verbs: Verbs::Any,
        when: When::Chance(chance),
        window: None,
        effect,
    };
    let rules = vec![
        rule(Point::PreCommit, 0.5, Effect::DelayUpTo(Duration::from_millis(50))),
        rule(Point::WatchEvent, 0.2, Effect::Do(FaultOutcome::Drop)),
        rule(Point::WatchEvent, 0.3, Effect::DelayUpTo(Duration::from_millis(20))),
    ];
    let plan = FaultPlan::new(seed, env.clock.clone(), rules);
    let trace = env.trace.clone();
    let api = TestServer::in_env(env.with_faults(Arc::new(plan)));
    let mut watchers = Vec::new();
    for (watcher, query) in [("all", ""), ("shared", "&fieldSelector=metadata.name%3Dshared")] {
        let api = TestServer { server: api.server.clone(), cluster: api.cluster.clone() };
        let start = api.cluster.store().revision();
        watchers.push(tokio::spawn(async move {
            let (begun, mut seen, mut after) = (Instant::now(), Vec::new(), start);
            // A watch that is cut begins again after what it saw last.
            while begun.elapsed() < Duration::from_secs(20) {
                let path = format!("{MAPS}?watch=true&timeoutSeconds=10&resourceVersion={after}");
                let mut watch = api.watch(&format!("{path}{query}")).await;
                while let Some(event) = watch.next().await {
                    after = revision(&event["object"]);
                    let (kind, name) = (&event["type"], &event["object"]["metadata"]["name"]);
                    seen.push(format!("{watcher} {:?} {kind} {name} @{after}", begun.elapsed()));
                }
                seen.push(format!("{watcher} {:?} end", begun.elapsed()));
            }
            seen
        }));
    }
    let mut tasks = Vec::new();
    for actor in ["one", "two", "three"] {
        let local = api.cluster.local(actor);
        tasks.push(tokio::spawn(async move {
            let make = |n: usize| json!({"metadata": {"generateName": format!("c{n}-")}});
            for n in 0..10 {
                let made = local.create("configmaps", "default", make(n)).await.unwrap();
                let mut shared = match local.get("configmaps", "default", "shared").await {
                    Ok(shared) => shared,
                    Err(_) => json!({"metadata": {"name": "shared", "namespace": "default"}}),
                };
                shared["data"] = json!({"last": made["metadata"]["name"]});
                let outcome = match shared["metadata"]["uid"].is_null() {
                    true => local.create("configmaps", "default", shared).await,
                    false => local.update("configmaps", shared).await,
                };
                if let Err(error) = outcome {
                    assert_eq!(error.code, 409);
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let mut seen = Vec::new();
    for watcher in watchers {
        seen.extend(watcher.await.unwrap());
    }
    (trace.hash(), seen)
}

#[tokio::test(start_paused = true)]
async fn one_seed_one_trace() {
    let first = run(11).await;
    assert!(first.1.iter().filter(|line| line.ends_with(" end")).count() > 4, "watches were cut");
    assert!(first.1.len() > 60, "and saw something");
    assert_eq!(run(11).await, first);
    let other = run(12).await;
    assert_ne!(other.0, first.0);
    assert_ne!(other.1, first.1);
}
