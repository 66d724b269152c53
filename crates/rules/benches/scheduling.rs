//! One scheduling pass over growing fleets: affinity, spread and taints together.
//!
//! The claim is about growth as much as about time: from 1,000 to 10,000 clusters a
//! pass may cost at most 14 times as much. Growth is taken between the fastest of many
//! rounds of both sizes in turn, so that what else the machine does counts least.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use flagship_rules::model::{Agent, Cluster, Health, PackedMap, PolicySnapshot, Taint};
use flagship_rules::scheduling::{Observed, Options, plan};
use jiff::Timestamp;
use serde_json::json;

fn packed<const N: usize>(pairs: [(&str, String); N]) -> PackedMap {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn fleet(size: usize) -> Observed {
    let now: Timestamp = "2026-01-01T12:00:00Z".parse().expect("a literal time");
    let clusters = (0..size).map(|i| Cluster {
        name: format!("member-{i:05}"),
        labels: packed([
            ("env", ["prod", "test", "prod", "dev"][i % 4].to_owned()),
            ("region", format!("region-{}", i % 12)),
        ]),
        taints: (i % 10 == 0)
            .then(|| Taint {
                key: "dedicated".into(),
                value: (i % 3).to_string(),
                effect: "NoSchedule".into(),
            })
            .into_iter()
            .collect(),
        agent: Some(Agent {
            heartbeat: now,
            joined: true,
            health: Some(Health { healthy: true, since: now }),
        }),
        properties: packed([("kubernetes-fleet.io/node-count", (i % 50).to_string())]),
        available: packed([("cpu", format!("{}m", 500 + i * 7 % 9000))]),
        ..Cluster::default()
    });
    let policy = json!({
        "placementType": "PickN",
        "affinity": {"clusterAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [{
                "labelSelector": {"matchExpressions": [{"key": "env", "operator": "In", "values": ["prod", "test"]}]},
                "propertySelector": {"matchExpressions": [
                    {"name": "kubernetes-fleet.io/node-count", "operator": "Ge", "values": ["3"]}]},
            }]},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 30, "preference": {"labelSelector": {"matchLabels": {"env": "prod"}}}},
                {"weight": 20, "preference": {"propertySorter": {
                    "name": "resources.kubernetes-fleet.io/available-cpu", "sortOrder": "Descending"}}},
            ],
        }},
        "topologySpreadConstraints": [
            {"topologyKey": "region", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"}],
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "1"}],
    });
    Observed {
        now,
        namespace: None,
        placement: "web".into(),
        snapshot: Arc::new(PolicySnapshot {
            name: "web-0".into(),
            policy: Some(serde_json::from_value(policy).expect("a literal policy")),
            number_of_clusters: Some("100".into()),
            placement_generation: Some("1".into()),
            ..PolicySnapshot::default()
        }),
        clusters: clusters.map(Arc::new).collect(),
        bindings: Vec::new(),
        options: Options::default(),
    }
}

fn one_pass(c: &mut Criterion) {
    let mut group = c.benchmark_group("one scheduling pass");
    for size in [100, 1_000, 10_000] {
        let seen = fleet(size);
        let picked = plan(&seen);
        assert_eq!(picked.actions.len(), 1, "under spread a pass picks one cluster");
        group.bench_with_input(BenchmarkId::from_parameter(size), &seen, |b, seen| {
            b.iter(|| black_box(plan(black_box(seen))));
        });
    }
    group.finish();
}

#[allow(clippy::print_stdout, reason = "a benchmark prints what it found")]
fn growth(_: &mut Criterion) {
    let (small, large) = (fleet(1_000), fleet(10_000));
    let (mut least_small, mut least_large) = (Duration::MAX, Duration::MAX);
    for _ in 0..60 {
        least_small = least_small.min(passes(&small, 10) / 10);
        least_large = least_large.min(passes(&large, 1));
    }
    let times = least_large.as_secs_f64() / least_small.as_secs_f64();
    println!(
        "1,000 clusters {least_small:.1?}, 10,000 clusters {least_large:.1?}: {times:.1} times"
    );
}

#[allow(clippy::disallowed_methods, reason = "measures the rules, decides nothing")]
fn passes(seen: &Observed, count: u32) -> Duration {
    let begun = Instant::now();
    for _ in 0..count {
        black_box(plan(black_box(seen)));
    }
    begun.elapsed()
}

criterion_group!(benches, one_pass, growth);
criterion_main!(benches);
