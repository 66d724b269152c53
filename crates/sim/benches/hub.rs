//! A hub of a thousand clusters on the embedded server: how soon a placement has its
//! bindings, and what starting again costs with a hundred thousand of them.
//!
//! The hub runs without the controllers that make Works: nobody is here to take them, and
//! what is measured is placing. With `-- whole` all controllers run on a tenth of the
//! placements, every binding is rolled out at once and has its Work, on which its member
//! reports. A number behind it is another count of placements. Time is paused, so
//! waiting costs nothing and is counted apart: what a person would see is at most the sum of
//! both.
//! `cargo bench -p flagship-sim --bench hub`

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use flagship_hub::Options;
use flagship_sim::testing::{CRB, CRP, TestHub, WORK, text};
use flagship_store::Scope;
use serde_json::{Value, json};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CLUSTERS: usize = 1_000;
const PICKED: usize = 100;

#[allow(clippy::print_stdout, reason = "a benchmark prints its table")]
fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut world = fleet().await;
        let (work, waits) = one_placement(&world).await;
        println!("a placement of {PICKED} of {CLUSTERS} clusters, from create to bindings:");
        println!("  {work:.0?} of work, {waits:.0?} of waiting");
        let filled = many_placements(&world).await;
        println!("{} placements of {PICKED} clusters each: filled in {filled:.1?}", placements());
        let (again, written, before, after) = start_again(&mut world).await;
        println!("starting again with all of them: {again:.1?} of work, written: {written:?}");
        println!(
            "  {before:.0} MiB before (the server), {after:.0} MiB after, {:.0} MiB at most ever",
            memory("VmHWM:")
        );
        // Under these nobody should have to start a hub.
        assert!(work + waits < Duration::from_secs(1), "a placement took {:?}", work + waits);
        assert!(written.is_empty(), "a restart writes nothing: {written:?}");
        assert!(again < Duration::from_secs(20), "starting again took {again:?}");
        assert!(after - before < 1024.0, "{after} MiB of which {before} are the server's");
    });
}

/// A hub with its members, all joined, and a namespace to place.
async fn fleet() -> TestHub {
    let mut world = TestHub::new(1).await;
    for number in 0..CLUSTERS {
        let labels = json!({"group": group(number), "region": format!("r{}", number % 12)});
        world.cluster(&format!("member-{number:04}"), labels).await;
    }
    world.start("hub", options());
    world.pass(60).await;
    world.heartbeats(1).await;
    world
}

fn options() -> Options {
    let mut options = Options::default();
    // Its members are silent while it starts again, and a lost heartbeat is rightly written.
    options.controllers.inventory = false;
    options.controllers.work = is_whole();
    options
}

fn placements() -> usize {
    let asked = std::env::args().find_map(|arg| arg.parse().ok());
    asked.unwrap_or(if is_whole() { 100 } else { 1_000 })
}

/// Whether Works are made, too.
fn is_whole() -> bool {
    std::env::args().any(|arg| arg == "whole")
}

fn group(number: usize) -> String {
    format!("g{}", number % 10)
}

fn placement(name: &str, group: Option<String>) -> Value {
    let mut policy = json!({"placementType": "PickN", "numberOfClusters": PICKED});
    if let Some(group) = group {
        let terms = json!([{"labelSelector": {"matchLabels": {"group": group}}}]);
        policy["affinity"] = json!({"clusterAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms},
        }});
    }
    let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}});
    let mut spec = json!({"resourceSelectors": selector, "policy": policy});
    if is_whole() {
        spec["strategy"] = strategy;
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

/// Work and waiting until the placement has all its bindings.
#[allow(clippy::disallowed_methods, reason = "measures the hub, decides nothing")]
async fn one_placement(world: &TestHub) -> (Duration, Duration) {
    let (begun, waited) = (Instant::now(), tokio::time::Instant::now());
    world.create(CRP, placement("first", None)).await;
    while bindings(world) < PICKED {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    (begun.elapsed(), waited.elapsed())
}

fn bindings(world: &TestHub) -> usize {
    count(world, CRB)
}

fn count(world: &TestHub, resource: &str) -> usize {
    world.hub.store().list(resource, Scope::All).items.len()
}

#[allow(clippy::disallowed_methods, reason = "measures the hub, decides nothing")]
async fn many_placements(world: &TestHub) -> Duration {
    let begun = Instant::now();
    for number in 1..placements() {
        world.create(CRP, placement(&format!("place-{number:04}"), Some(group(number)))).await;
    }
    while bindings(world) < placements() * PICKED
        || (is_whole() && count(world, WORK) < placements() * PICKED)
    {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    quiet(world).await;
    if is_whole() {
        report(world).await;
        quiet(world).await;
    }
    begun.elapsed()
}

/// Until nothing is written any more: a hub that is stopped in the middle of something has
/// something to write afterwards.
async fn quiet(world: &TestHub) {
    let mut revision = 0;
    while revision < world.hub.store().revision() {
        revision = world.hub.store().revision();
        world.pass(30).await;
    }
}

/// What members say of Works: all is well.
async fn report(world: &TestHub) {
    for work in world.list(WORK, "") {
        let meta = &work["metadata"];
        let says = |kind: &str, reason: &str| {
            json!({"type": kind, "status": "True", "reason": reason, "message": "",
                "observedGeneration": meta["generation"], "lastTransitionTime": world.now()})
        };
        let conditions =
            [says("Applied", "AllManifestsApplied"), says("Available", "AllManifestsAvailable")];
        let status = json!({"status": {"conditions": conditions}});
        let (space, name) = (text(&meta["namespace"]), text(&meta["name"]));
        world.user_patches(WORK, &space, &name, "status", status).await;
    }
}

/// Work until every placement, and every binding where Works are made, was looked at by its
/// controllers, what was written (how often in which resource), and memory.
#[allow(clippy::disallowed_methods, reason = "measures the hub, decides nothing")]
async fn start_again(world: &mut TestHub) -> (Duration, BTreeMap<String, usize>, f64, f64) {
    world.heartbeats(1).await;
    world.stop("hub").await;
    let (before, revision) = (memory("VmRSS:"), world.hub.store().revision());
    let passes_before = passes(world);
    let begun = Instant::now();
    world.start("again", options());
    let due = |now: &[u64]| {
        let expected =
            [placements(), placements(), if is_whole() { placements() * PICKED } else { 0 }];
        let each = now.iter().zip(&passes_before).zip(expected);
        each.map(|((now, before), due)| (now - before, due as u64)).any(|(made, due)| made < due)
    };
    while due(&passes(world)) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let took = begun.elapsed();
    let after = memory("VmRSS:");
    world.pass(30).await;
    let mut written = BTreeMap::new();
    for resource in world.hub.store().resources() {
        let items = world.hub.store().list(&resource, Scope::All).items;
        let changed = items.iter().filter(|item| item.revision > revision).count();
        if changed > 0 {
            written.insert(resource.to_string(), changed);
        }
    }
    (took, written, before, after)
}

/// Passes of the scheduler, the placement controller and the work generator so far.
fn passes(world: &TestHub) -> [u64; 3] {
    let printed = world.metrics.render();
    let count = |controller: &str| {
        let of = |line: &&str| {
            line.starts_with("fleet_workload_reconcile_total{")
                && line.contains(&format!("\"{controller}\""))
        };
        let counts = printed.lines().filter(of).filter_map(|line| line.rsplit(' ').next());
        counts.filter_map(|count| count.parse::<u64>().ok()).sum()
    };
    [
        "scheduler-queue",
        "cluster-resource-placement-controller-v1beta1",
        "cluster-resource-binding-work-generator",
    ]
    .map(count)
}

/// Mebibytes of this process.
fn memory(field: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    let kilobytes: Option<f64> = line.split_whitespace().nth(1).and_then(|n| n.parse().ok());
    kilobytes.unwrap_or(0.0) / 1024.0
}
