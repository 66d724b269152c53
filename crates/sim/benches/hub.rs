//! A hub of a thousand clusters on the embedded server: how soon a placement has its
//! bindings, and what starting again costs with a hundred thousand of them, in time and in
//! memory.
//!
//! The hub runs without the controllers that make Works: nobody is here to take them, and
//! what is measured is placing. With `-- whole` all controllers run on a tenth of the
//! placements, every binding is rolled out at once and has its Work, on which its member
//! reports. A number behind it is another count of placements. Time is paused, so
//! waiting costs nothing and is counted apart: what a person would see is at most the sum of
//! both.
//!
//! Memory is that of a process in which nothing but a hub runs, as `flagship hub` would: this
//! program starts itself once more, and that hub comes to the server through TLS.
//! `cargo bench -p flagship-sim --bench hub`

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use flagship_edge::{Authority, Config, Edge};
use flagship_fleet::ClusterHost;
use flagship_hub::{Hub, Options};
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use flagship_runtime::metrics::Metrics;
use flagship_sim::testing::{CRB, CRP, TestHub, WORK, text};
use flagship_store::Scope;
use serde_json::{Value, json};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CLUSTERS: usize = 1_000;
const PICKED: usize = 100;

/// Most mebibytes that a hub may keep while it has nothing to do: with a hundred thousand
/// bindings, and with as many Works besides.
const MOST_KEPT: [f64; 2] = [300.0, 500.0];

/// The argument before the kubeconfig, for the process that is nothing but a hub.
const ALONE: &str = "--alone";

#[allow(clippy::print_stdout, reason = "a benchmark prints its table")]
fn main() {
    let mut args = std::env::args().skip_while(|arg| arg != ALONE).skip(1);
    if let Some(kubeconfig) = args.next() {
        return be_a_hub(Path::new(&kubeconfig));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
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
        let (again, written) = start_again(&mut world).await;
        println!("starting again with all of them: {again:.1?} of work, written: {written:?}");
        let (kept, at_most) = alone(&mut world).await;
        let (bindings, works) = (bindings(&world), count(&world, WORK));
        println!("a process with such a hub, {bindings} bindings and {works} Works:");
        println!("  {kept:.0} MiB once it has nothing to do, {at_most:.0} MiB at most before");
        let each = kept * f64::from(1 << 20) / bindings as f64;
        println!("  {each:.0} bytes a binding, everything included");
        // Under these nobody should have to start a hub.
        assert!(work + waits < Duration::from_secs(1), "a placement took {:?}", work + waits);
        assert!(written.is_empty(), "a restart writes nothing: {written:?}");
        assert!(again < Duration::from_secs(20), "starting again took {again:?}");
        assert!(kept <= MOST_KEPT[usize::from(is_whole())], "a hub keeps {kept:.0} MiB");
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
/// controllers, and what was written (how often in which resource).
#[allow(clippy::disallowed_methods, reason = "measures the hub, decides nothing")]
async fn start_again(world: &mut TestHub) -> (Duration, BTreeMap<String, usize>) {
    world.heartbeats(1).await;
    world.stop("hub").await;
    let revision = world.hub.store().revision();
    let passes_before = passes(&world.metrics);
    let begun = Instant::now();
    world.start("again", options());
    while !has_looked(&world.metrics, passes_before) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let took = begun.elapsed();
    world.pass(30).await;
    let mut written = BTreeMap::new();
    for resource in world.hub.store().resources() {
        let items = world.hub.store().list(&resource, Scope::All).items;
        let changed = items.iter().filter(|item| item.revision > revision).count();
        if changed > 0 {
            written.insert(resource.to_string(), changed);
        }
    }
    (took, written)
}

/// Mebibytes of a process that is nothing but a hub of all that, started anew: when it has
/// nothing left to do, and at most until then.
async fn alone(world: &mut TestHub) -> (f64, f64) {
    world.stop("again").await;
    // The hub lives by the machine's time, and so has the server it talks to.
    tokio::time::resume();
    let env = flagship_store::env::Env::system();
    let authority = Authority::create(env.clock.now()).expect("an authority");
    let host = ClusterHost::shared().0;
    let edge = Edge::start(host.server(), &env, Config::local(0, authority)).await;
    let edge = edge.expect("a port of this machine");
    let folder = std::env::temp_dir().join(format!("flagship-hub-alone-{}", std::process::id()));
    let kubeconfig = folder.join("kubeconfig");
    edge.kubeconfig().expect("credentials").write(&kubeconfig).expect("a folder to write to");
    let mut hub = Command::new(std::env::current_exe().expect("this program"));
    hub.arg(placements().to_string()).args(is_whole().then_some("whole"));
    hub.arg(ALONE).arg(&kubeconfig);
    let said = tokio::task::spawn_blocking(move || hub.output()).await.expect("a thread");
    edge.shutdown().await;
    std::fs::remove_dir_all(&folder).expect("the folder was written above");
    let said = said.expect("this program runs");
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let mut told = text.split_whitespace().map(|number| number.parse::<f64>());
    match (told.next(), told.next()) {
        (Some(Ok(kept)), Some(Ok(at_most))) => (kept, at_most),
        _ => panic!("the hub says {text:?}: {}", String::from_utf8_lossy(&said.stderr)),
    }
}

/// A hub on the cluster of a kubeconfig, on a runtime as `flagship hub` has it. Prints its
/// memory and ends when it has looked at everything.
#[allow(clippy::print_stdout, reason = "a benchmark prints what it measures")]
fn be_a_hub(kubeconfig: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let client = Client::from_kubeconfig(Some(kubeconfig), None).await;
        let client = client.expect("a kubeconfig").named("alone");
        let metrics = Metrics::default();
        let hub = Hub::new(client, Env::system(), metrics.clone(), options());
        let running = tokio::spawn(async move { hub.run(std::future::pending()).await });
        let mut last = [0; 3];
        while !has_looked(&metrics, [0; 3]) || passes(&metrics) != last {
            assert!(!running.is_finished(), "the hub has ended");
            last = passes(&metrics);
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        println!("{} {}", memory("VmRSS:"), memory("VmHWM:"));
    });
}

/// Whether every placement, and every binding where Works are made, was looked at since.
fn has_looked(metrics: &Metrics, since: [u64; 3]) -> bool {
    let bindings = if is_whole() { placements() * PICKED } else { 0 };
    let due = [placements(), placements(), bindings];
    let each = passes(metrics).into_iter().zip(since).zip(due);
    each.map(|((now, then), due)| (now - then, due as u64)).all(|(made, due)| made >= due)
}

/// Passes of the scheduler, the placement controller and the work generator so far.
fn passes(metrics: &Metrics) -> [u64; 3] {
    let printed = metrics.render();
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
