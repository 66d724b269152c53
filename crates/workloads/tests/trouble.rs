//! Clusters whose server fails, lies about outcomes or is too fast: they heal.

mod cluster;

use std::sync::Arc;
use std::time::Duration;

use cluster::{Town, deployment};
use flagship_apiserver::env::plan::{Effect, Rule, Verbs, When, Window};
use flagship_apiserver::env::{Env, Plan, Point, Verdict};
use flagship_workloads::{ACTOR, WorkloadConfig};
use serde_json::json;

fn rule(point: Point, chance: f64, verdict: Verdict) -> Rule {
    Rule {
        who: ACTOR.into(),
        verbs: Verbs::Writes,
        when: When::Chance(chance),
        window: Some(Window { from: Duration::ZERO, until: Duration::from_secs(120) }),
        ..Rule::at(point, Effect::Do(verdict))
    }
}

#[tokio::test(start_paused = true)]
async fn lost_answers_and_refusals_heal_without_a_pod_too_many() {
    for seed in 0..4 {
        let env = Env::simulated(seed);
        let answer = |code| Verdict::Answer { code, retry_after: None };
        let rules = vec![
            rule(Point::Request, 0.1, answer(503)),
            rule(Point::PreCommit, 0.1, answer(409)),
            rule(Point::PreCommit, 0.05, answer(403)),
            rule(Point::PostCommit, 0.1, answer(500)),
            rule(Point::PostCommit, 0.1, Verdict::Sever),
        ];
        let faults = Arc::new(Plan::new(seed, env.clock.clone(), rules));
        let town = Town::in_env(env.with_faults(faults.clone()), WorkloadConfig::default());
        town.create("deployments.apps", deployment("web", 3, "nginx:1")).await;
        town.create(
            "jobs.batch",
            json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "sum", "namespace": "default"},
            "spec": {"completions": 3, "parallelism": 3, "backoffLimit": 20, "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "b"}]}}}}),
        )
        .await;
        town.pass(60).await;
        town.edit("deployments.apps", "web", |d| {
            d["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:2");
        })
        .await;
        town.pass(3_600).await;
        assert!(faults.fired().iter().sum::<u64>() > 10, "{:?}", faults.fired());
        let web = town.get("deployments.apps", "default", "web");
        let status = &web["status"];
        assert_eq!(
            (&status["replicas"], &status["updatedReplicas"], &status["availableReplicas"]),
            (&json!(3), &json!(3), &json!(3)),
            "seed {seed}: {status:#}"
        );
        assert_eq!(
            town.get("jobs.batch", "default", "sum")["status"]["succeeded"],
            3,
            "seed {seed}"
        );
        assert_eq!(town.names("nodes", ""), ["node-1", "node-2"]);
        assert!(town.list("nodes", "").iter().all(|n| n["status"]["capacity"]["cpu"] == "8"));
        let before = town.revision();
        town.pass(3_600).await;
        assert_eq!(town.revision(), before, "quiet again");
    }
}

#[tokio::test(start_paused = true)]
async fn more_changes_than_a_watch_can_hold_are_not_lost() {
    let limits = flagship_apiserver::store::Limits {
        queue: 16,
        ..flagship_apiserver::store::Limits::member()
    };
    let town =
        Town::with_limits(3, limits, WorkloadConfig { nodes: 1, ..WorkloadConfig::default() });
    town.create("deployments.apps", deployment("web", 60, "nginx:1")).await;
    town.pass(120).await;
    let status = &town.get("deployments.apps", "default", "web")["status"];
    assert_eq!(status["availableReplicas"], 60, "{status:#}");
    town.edit("deployments.apps", "web", |d| d["spec"]["replicas"] = json!(1)).await;
    town.pass(120).await;
    assert_eq!(town.names("pods", "default").len(), 1);
}
