//! Clusters whose server fails, lies about outcomes or is too fast: they heal.

mod cluster;

use std::sync::Arc;
use std::time::Duration;

use cluster::{TestCluster, deployment};
use flagship_store::env::plan::{Effect, Rule, Verbs, When, Window};
use flagship_store::env::{Env, FaultOutcome, FaultPlan, Point};
use flagship_workloads::{ACTOR, WorkloadConfig};
use serde_json::json;

fn rule(point: Point, chance: f64, verdict: FaultOutcome) -> Rule {
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
        let answer = |code| FaultOutcome::Answer { code, retry_after: None };
        let rules = vec![
            rule(Point::Request, 0.1, answer(503)),
            rule(Point::PreCommit, 0.1, answer(409)),
            rule(Point::PreCommit, 0.05, answer(403)),
            rule(Point::PostCommit, 0.1, answer(500)),
            rule(Point::PostCommit, 0.1, FaultOutcome::Sever),
        ];
        let faults = Arc::new(FaultPlan::new(seed, env.clock.clone(), rules));
        let test = TestCluster::in_env(env.with_faults(faults.clone()), WorkloadConfig::default());
        test.create("deployments.apps", deployment("web", 3, "nginx:1")).await;
        test.create(
            "jobs.batch",
            json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "sum", "namespace": "default"},
            "spec": {"completions": 3, "parallelism": 3, "backoffLimit": 20, "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "b"}]}}}}),
        )
        .await;
        test.pass(60).await;
        test.edit("deployments.apps", "web", |d| {
            d["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:2");
        })
        .await;
        test.pass(3_600).await;
        assert!(faults.fired().iter().sum::<u64>() > 10, "{:?}", faults.fired());
        let web = test.get("deployments.apps", "default", "web");
        let status = &web["status"];
        assert_eq!(
            (&status["replicas"], &status["updatedReplicas"], &status["availableReplicas"]),
            (&json!(3), &json!(3), &json!(3)),
            "seed {seed}: {status:#}"
        );
        assert_eq!(
            test.get("jobs.batch", "default", "sum")["status"]["succeeded"],
            3,
            "seed {seed}"
        );
        assert_eq!(test.names("nodes", ""), ["node-1", "node-2"]);
        assert!(test.list("nodes", "").iter().all(|n| n["status"]["capacity"]["cpu"] == "8"));
        let before = test.revision();
        test.pass(3_600).await;
        assert_eq!(test.revision(), before, "quiet again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_denies_everything_is_asked_less_and_less_often() {
    let hour = Duration::from_secs(3_600);
    for resource in ["configmaps", "serviceaccounts", "pods"] {
        let env = Env::simulated(1);
        let denied = FaultOutcome::Answer { code: 403, retry_after: None };
        let rule = Rule {
            resource: resource.into(),
            when: When::Always,
            window: Some(Window { from: Duration::ZERO, until: hour }),
            ..rule(Point::PreCommit, 1.0, denied)
        };
        let faults = Arc::new(FaultPlan::new(1, env.clock.clone(), vec![rule]));
        let test = TestCluster::in_env(env.with_faults(faults.clone()), WorkloadConfig::default());
        test.create("deployments.apps", deployment("web", 1, "nginx:1")).await;
        test.pass(hour.as_secs()).await;
        // A wait that doubles up to eleven minutes: two dozen times in an hour, for each of
        // four namespaces.
        let asked = faults.fired()[0];
        assert!((10..120).contains(&asked), "{resource}: asked {asked} times");
        // Once it is allowed it is done, within one more wait.
        test.pass(1_000).await;
        assert!(test.names("configmaps", "default").contains(&"kube-root-ca.crt".to_owned()));
        assert_eq!(test.names("serviceaccounts", "kube-system"), ["default"]);
        let status = &test.get("deployments.apps", "default", "web")["status"];
        assert_eq!(status["availableReplicas"], 1, "{resource}: {status:#}");
    }
}

#[tokio::test(start_paused = true)]
async fn more_changes_than_a_follower_can_hold_are_not_lost() {
    let limits = flagship_store::Limits { queue: 2, ..flagship_store::Limits::member() };
    let test = TestCluster::with_limits(
        3,
        limits,
        WorkloadConfig { nodes: 1, ..WorkloadConfig::default() },
    );
    test.create("deployments.apps", deployment("web", 60, "nginx:1")).await;
    test.pass(120).await;
    let status = &test.get("deployments.apps", "default", "web")["status"];
    assert_eq!(status["availableReplicas"], 60, "{status:#}");
    test.edit("deployments.apps", "web", |d| d["spec"]["replicas"] = json!(1)).await;
    test.pass(120).await;
    assert_eq!(test.names("pods", "default").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn controllers_that_die_all_the_time_still_get_there() {
    for seed in 0..3 {
        let mut test = TestCluster::new(seed, WorkloadConfig::default());
        test.create("deployments.apps", deployment("web", 4, "nginx:1")).await;
        test.create(
            "jobs.batch",
            json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "sum", "namespace": "default"},
            "spec": {"completions": 4, "parallelism": 2, "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "b"}]}}}}),
        )
        .await;
        for round in 0..60_u64 {
            // Also after no time at all: dead before the first look.
            tokio::time::sleep(Duration::from_millis(round * 37 % 400)).await;
            test.running.take().expect("running").stop().await;
            if round == 20 {
                test.edit("deployments.apps", "web", |d| {
                    d["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:2");
                })
                .await;
            }
            test.running = Some(test.workloads.spawn(test.cluster.clone()));
        }
        test.pass(60).await;
        let status = &test.get("deployments.apps", "default", "web")["status"];
        assert_eq!(
            (&status["replicas"], &status["updatedReplicas"], &status["availableReplicas"]),
            (&json!(4), &json!(4), &json!(4)),
            "seed {seed}: {status:#}"
        );
        assert_eq!(test.get("jobs.batch", "default", "sum")["status"]["succeeded"], 4);
        assert_eq!(test.list("jobs.batch", "default")[0]["status"]["failed"], json!(null));
        let before = test.revision();
        test.pass(3_600).await;
        assert_eq!(test.revision(), before, "quiet again");
    }
}

#[tokio::test(start_paused = true)]
async fn dying_at_any_single_write_changes_nothing_in_the_end() {
    for point in [Point::PreCommit, Point::PostCommit] {
        for nth in 1.. {
            let env = Env::simulated(1);
            let rule =
                Rule { who: ACTOR.into(), when: When::Nth(nth), ..Rule::at(point, Effect::Crash) };
            let faults = Arc::new(FaultPlan::new(1, env.clock.clone(), vec![rule]));
            let config = WorkloadConfig { nodes: 2, ..WorkloadConfig::default() };
            let mut test = TestCluster::in_env(env.with_faults(faults.clone()), config);
            test.create("deployments.apps", deployment("web", 1, "nginx:1")).await;
            test.pass(10).await;
            let died = faults.fired()[0] > 0;
            if died {
                test.running.take().expect("running").stop().await;
                test.running = Some(test.workloads.spawn(test.cluster.clone()));
                test.pass(10).await;
            }
            let what = format!("{point:?} of write {nth}");
            let status = &test.get("deployments.apps", "default", "web")["status"];
            assert_eq!(status["availableReplicas"], 1, "{what}: {status:#}");
            assert_eq!(status["replicas"], 1, "{what}");
            assert_eq!(test.names("pods", "default").len(), 1, "{what}");
            assert_eq!(test.names("replicasets.apps", "default").len(), 1, "{what}");
            assert_eq!(test.names("nodes", ""), ["node-1", "node-2"], "{what}");
            assert_eq!(test.list("nodes", "")[0]["status"]["capacity"]["cpu"], "8", "{what}");
            assert_eq!(test.names("serviceaccounts", "kube-system"), ["default"], "{what}");
            if !died {
                assert!(nth > 15, "only {nth} writes");
                break;
            }
        }
    }
}
