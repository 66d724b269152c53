//! The benchmark on a small embedded fleet under paused time: every scenario comes to its end,
//! and nothing is left behind.

use std::future::pending;
use std::time::Duration;

use clap::Parser;
use flagship_sim::fleet::{Fleet, FleetConfig, HUB};

use super::{Bench, Scenario};

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    bench: Bench,
}

fn bench(arguments: &[&str]) -> Bench {
    CommandLine::try_parse_from([&["bench"][..], arguments].concat()).unwrap().bench
}

#[tokio::test(start_paused = true)]
async fn every_scenario_comes_to_its_end_and_leaves_nothing_behind() {
    let mut fleet = Fleet::new(FleetConfig::named(&[])).await;
    fleet.start(HUB);
    fleet.pass(5).await;
    let size = ["--members", "5", "--placements", "2", "--runs", "2"];
    let all = ["s1", "s2", "s3", "s5", "s6", "s7"];
    let bench = bench(&[&all[..], &size[..]].concat());
    let client = fleet.client(HUB, "bench");
    let measured = bench.measure(client, fleet.env.clone(), &|_: &str| {}, pending).await.unwrap();
    let told: Vec<(Scenario, usize)> =
        measured.iter().map(|one| (one.scenario, one.objects)).collect();
    use Scenario::{S1, S2, S3, S5, S6, S7};
    assert_eq!(told, [(S1, 1), (S2, 2), (S3, 1), (S5, 1), (S6, 2), (S7, 1)]);
    assert!(measured.iter().all(|one| one.seconds > 0.0 && one.changes > 0), "{measured:?}");
    // Members answer after 20 ms, and the hub has seen that in the same second.
    let behind: Vec<f64> = measured.iter().filter_map(|o| o.binding_after_work_seconds).collect();
    assert!(!behind.is_empty() && behind.iter().all(|&seconds| seconds < 1.0), "{measured:?}");
    assert_clean(&fleet).await;
}

async fn assert_clean(fleet: &Fleet) {
    for resource in [
        "clusterresourceplacements",
        "clusterresourcebindings",
        "clusterstagedupdateruns",
        "memberclusters",
    ] {
        assert!(fleet.clusters.hub.list(resource, "").await.is_empty(), "{resource}");
    }
    assert!(fleet.clusters.hub.find("namespaces", "", "flagship-bench").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_bench_left_is_removed_first() {
    let mut fleet = Fleet::new(FleetConfig::named(&[])).await;
    fleet.start(HUB);
    let measure = async |arguments: &[&str], stop: u64| {
        let client = fleet.client(HUB, "bench");
        let stop = async || tokio::time::sleep(Duration::from_secs(stop)).await;
        bench(arguments).measure(client, fleet.env.clone(), &|_: &str| {}, stop).await
    };
    let kept = measure(&["s1", "--members", "6", "--keep"], 600).await.unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!(fleet.clusters.hub.list("memberclusters", "").await.len(), 6);
    let kept = measure(&["s1", "--members", "2", "--keep"], 600).await.unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!(fleet.clusters.hub.list("memberclusters", "").await.len(), 2);
    assert_eq!(fleet.clusters.hub.list("clusterresourcebindings", "").await.len(), 0);
    // Told to stop in the middle, with members that answer too late for it.
    let stopped = measure(&["s1", "--members", "2", "--answer-after", "900000"], 60).await;
    assert_eq!(stopped.unwrap_err().to_string(), "stopped before the end");
    assert_clean(&fleet).await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_of_somebody_else_is_left_alone() {
    let mut fleet = Fleet::new(FleetConfig::named(&[])).await;
    fleet.start(HUB);
    let theirs = "apiVersion: v1\nkind: Namespace\nmetadata: {name: flagship-bench}\n";
    fleet.clusters.hub.apply(theirs).await;
    let client = fleet.client(HUB, "bench");
    let bench = bench(&["s1"]);
    let measured = bench.measure(client, fleet.env.clone(), &|_: &str| {}, pending).await;
    assert_eq!(
        measured.unwrap_err().to_string(),
        "namespace flagship-bench is there, and no bench has made it: remove it first"
    );
    assert!(fleet.clusters.hub.find("namespaces", "", "flagship-bench").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_restart_needs_somebody_who_does_it() {
    let mut fleet = Fleet::new(FleetConfig::named(&[])).await;
    fleet.start(HUB);
    let bench = bench(&["s4", "--members", "2", "--placements", "1"]);
    let client = fleet.client(HUB, "bench");
    let measured = bench.measure(client, fleet.env.clone(), &|_: &str| {}, pending).await;
    let error = measured.unwrap_err();
    assert_eq!(error.to_string(), "S4 restarts the hub: say how with --restart 'COMMAND'");
}
