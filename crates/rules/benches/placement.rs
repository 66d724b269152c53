//! One pass over a placement with growing fleets, and selecting growing namespaces.
//!
//! The claim is about growth as much as about time: ten times the clusters or objects may
//! cost at most 14 times as much.

use std::borrow::Cow;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use flagship_api::binding::{BindingState, ResourceBindingSpec, ResourceBindingStatus};
use flagship_api::condition::{Generation, draft};
use flagship_api::kinds::Scope;
use flagship_api::placement_status::PlacementStatus;
use flagship_api::selector::Selector;
use flagship_api::snapshot::{ClusterDecision, SchedulingPolicySnapshotStatus};
use flagship_rules::model::{Binding, PolicySnapshot};
use flagship_rules::placement::selection::{
    Hub, Kind, ResourceType, Selecting, SelectionOptions, Watch, select,
};
use flagship_rules::placement::{Batching, Observed, Placement, plan, policy_snapshots};
use jiff::Timestamp;
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().expect("a literal time")
}

/// A namespace full of config maps.
struct Store {
    types: Vec<ResourceType>,
    namespace: Value,
    objects: Vec<Value>,
}

impl Store {
    fn new(size: usize) -> Self {
        let of = |kind: &str, plural: &str, scope| ResourceType {
            kind: Kind::new("", "v1", kind),
            plural: plural.to_owned(),
            scope,
            preferred: true,
            watch: Watch::Synced,
        };
        let object = |i: usize| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("settings-{i:05}"), "namespace": "app", "uid": "u",
                    "resourceVersion": "7", "labels": {"tier": "web"}},
                "data": {"key": "x".repeat(200), "expr": "a < b"}})
        };
        Self {
            types: vec![
                of("Namespace", "namespaces", Scope::Cluster),
                of("ConfigMap", "configmaps", Scope::Namespaced),
            ],
            namespace: json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "app"}}),
            objects: (0..size).rev().map(object).collect(),
        }
    }
}

impl Hub for Store {
    fn look_up(&self, kind: &Kind) -> Result<&ResourceType, String> {
        self.types.iter().find(|of| of.kind == *kind).ok_or_else(|| "unknown".to_owned())
    }

    fn watched(&self) -> Vec<&ResourceType> {
        self.types.iter().collect()
    }

    fn get(
        &self,
        _: &ResourceType,
        _: Option<&str>,
        _: &str,
    ) -> Result<Option<Cow<'_, Value>>, String> {
        Ok(Some(Cow::Borrowed(&self.namespace)))
    }

    fn list<'a>(
        &'a self,
        _: &ResourceType,
        _: Option<&str>,
        _: Option<&Selector>,
    ) -> Box<dyn Iterator<Item = Result<Cow<'a, Value>, String>> + 'a> {
        Box::new(self.objects.iter().map(|object| Ok(Cow::Borrowed(object))))
    }
}

/// A placement on so many clusters, all of them delivered.
fn fleet(size: usize) -> Observed {
    let spec = json!({
        "policy": {"placementType": "PickAll"}, "strategy": {"type": "External"},
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}],
    });
    let placement = Placement {
        namespace: None,
        name: "web".to_owned(),
        uid: "u".to_owned(),
        generation: 1,
        deleting: false,
        has_finalizer: true,
        spec: serde_json::from_value(spec).expect("a literal spec"),
        status: PlacementStatus::default(),
    };
    let new = policy_snapshots::plan(&placement, &[], 10).expect("nothing is in the way").latest;
    let steps = ["RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available"];
    let condition =
        |kind: &'static str| draft(kind).is_true("Done").into_condition(Generation(1), now());
    let name = |i: usize| format!("member-{i:05}");
    let decision = |i| ClusterDecision {
        cluster_name: name(i),
        selected: true,
        cluster_score: None,
        reason: "picked by scheduling policy".to_owned(),
    };
    let binding = |i| Binding {
        name: format!("web-{}", name(i)),
        generation: 1,
        spec: ResourceBindingSpec {
            state: BindingState::Bound,
            target_cluster: name(i),
            scheduling_policy_snapshot_name: new.name.clone(),
            resource_snapshot_name: "web-0-snapshot".to_owned(),
            ..ResourceBindingSpec::default()
        },
        status: ResourceBindingStatus {
            conditions: steps.map(condition).to_vec(),
            ..ResourceBindingStatus::default()
        },
        ..Binding::default()
    };
    let snapshot = PolicySnapshot {
        name: new.name.clone(),
        generation: 1,
        index: Some("0".to_owned()),
        latest: true,
        hash: flagship_api::hash::policy_hash(placement.spec.policy.as_ref()).expect("it hashes"),
        placement_generation: Some("1".to_owned()),
        number_of_clusters: None,
        policy: placement.spec.policy.clone(),
        status: SchedulingPolicySnapshotStatus {
            observed_crp_generation: 1,
            conditions: vec![condition("Scheduled")],
            target_clusters: (0..size).map(|i| Arc::new(decision(i))).collect(),
        },
    };
    Observed {
        now: now(),
        selection: Ok(Default::default()),
        policy_snapshots: vec![Arc::new(snapshot)],
        resource_snapshots: vec![],
        bindings: (0..size).map(|i| Arc::new(binding(i))).collect(),
        indexes_in_runs: vec![],
        mirror: None,
        batching: Batching::NONE,
        placement,
    }
}

fn passes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("placement pass");
    // A thousand is the most a policy snapshot can hold.
    for size in [10, 100, 1_000] {
        let seen = fleet(size);
        group.bench_with_input(BenchmarkId::from_parameter(size), &seen, |bencher, seen| {
            bencher.iter(|| black_box(plan(black_box(seen))));
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("selection");
    for size in [100, 1_000, 10_000] {
        let store = Store::new(size);
        let selectors = fleet(0).placement.spec.resource_selectors;
        let options = SelectionOptions::default();
        group.bench_with_input(BenchmarkId::from_parameter(size), &store, |bencher, store| {
            bencher.iter(|| {
                let who = Selecting {
                    namespace: None,
                    name: "web",
                    selectors: &selectors,
                    options: &options,
                    now: now(),
                };
                black_box(select(store, who))
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = passes
}
criterion_main!(benches);
