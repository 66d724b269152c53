//! The same seed gives the same run.

use std::sync::Arc;
use std::time::Duration;

use flagship_apiserver::env::plan::{Effect, Rule, Verbs, When};
use flagship_apiserver::env::{Env, Plan, Point};
use serde_json::json;

use crate::harness::World;

/// Three controllers that race, with delays drawn from the seed. Returns the trace's hash.
async fn run(seed: u64) -> u64 {
    let env = Env::simulated(seed);
    let rule = Rule {
        point: Point::PreCommit,
        who: String::new(),
        cluster: String::new(),
        resource: String::new(),
        verbs: Verbs::Writes,
        when: When::Chance(0.5),
        window: None,
        effect: Effect::DelayUpTo(Duration::from_millis(50)),
    };
    let plan = Plan::new(seed, env.clock.clone(), vec![rule]);
    let trace = env.trace.clone();
    let world = World::in_env(env.with_faults(Arc::new(plan)));
    let mut tasks = Vec::new();
    for actor in ["one", "two", "three"] {
        let local = world.cluster.local(actor);
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
    trace.hash()
}

#[tokio::test(start_paused = true)]
async fn one_seed_one_trace() {
    let first = run(11).await;
    assert_eq!(run(11).await, first);
    assert_ne!(run(12).await, first);
}
