//! Does a fleet that is used keep its size? 20 members whose application is changed and rolled
//! out by one update run after another, with the state on disk, by the machine's clock.
//!
//! Every five seconds the resident memory of this process and the length of the store's file
//! are written down. At the end there are `soak.csv`, a picture of it, `soak.svg`, the
//! slope of both over the last half, and the kinds there are most of, so that whatever grows
//! has a name. The last 20 runs are kept, older ones are deleted, as somebody who cleans up
//! now and then would do; nothing else is.
//! `cargo run --release -p flagship-sim --example soak -- 3 FOLDER`: for three minutes, files
//! to a folder. `-- 60` for the real thing. `soak.csv` is written as it goes, and `-- draw
//! FOLDER` draws the picture of what is in it.

#![allow(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![allow(clippy::disallowed_methods, reason = "measures a fleet, decides nothing")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up has failed")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flagship_fleet::{ClusterHost, ClusterLimits, Storage};
use flagship_sim::fleet::{Fleet, FleetConfig, HUB};
use flagship_store::durable::Durable;
use flagship_store::env::Env as ServerEnv;
use serde_json::{Value, json};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MEMBERS: usize = 20;
/// Runs that are kept.
const KEPT: usize = 20;
/// Between two looks.
const EVERY: Duration = Duration::from_secs(5);
/// Between two runs.
const PAUSE: Duration = Duration::from_secs(5);
/// As `flagship up` has it.
const BUDGET: usize = 128 << 20;
const RUNS: &str = "clusterstagedupdateruns";

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if_eq("draw").is_some() {
        return draw(Path::new(&arguments.next().unwrap_or_else(|| ".".to_owned())));
    }
    let minutes: u64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(3);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| ".".to_owned()));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(soak(Duration::from_secs(minutes * 60), &folder));
}

/// What one look saw.
struct Look {
    seconds: f64,
    resident: f64,
    store: f64,
    objects: usize,
    /// What they take in memory, computed.
    objects_mib: f64,
    history: f64,
    events: usize,
    runs: usize,
}

/// A part of a look.
type Of = fn(&Look) -> f64;

async fn soak(time: Duration, folder: &Path) {
    let data = std::env::temp_dir().join(format!("flagship-soak-{}", std::process::id()));
    std::fs::create_dir_all(&data).unwrap();
    // Before the hour, not after it.
    std::fs::create_dir_all(folder).unwrap();
    let durable = Durable::open(&data.join("data.redb")).unwrap();
    let mut config = FleetConfig::of(MEMBERS);
    config.host = Some(ClusterHost::new(ServerEnv::system(), Storage::Durable(durable.clone())));
    config.real_time = true;
    config.spec.heartbeat_seconds = 15;
    config.spec.limits = ClusterLimits::within(BUDGET, MEMBERS);
    for number in 1..=MEMBERS {
        let stage = if number <= MEMBERS / 4 { "canary" } else { "prod" };
        config = config.labelled(&format!("member{number}"), "stage", stage);
    }
    let fleet = Arc::new(Fleet::joined(config).await);
    set_up(&fleet).await;
    let done = Arc::new(AtomicUsize::new(0));
    let driver = tokio::spawn(drive(fleet.clone(), done.clone()));
    let begun = Instant::now();
    let mut looks = Vec::new();
    let (at_first, mut at_half) = (census(&fleet), None);
    let mut minute = 0;
    while begun.elapsed() < time {
        tokio::time::sleep(EVERY).await;
        assert!(!driver.is_finished(), "a run did not succeed");
        if begun.elapsed().as_secs() / 60 > minute {
            minute += 1;
            fleet.handles().values().for_each(|handle| handle.expire_events());
        }
        if begun.elapsed() > time / 2 {
            at_half.get_or_insert_with(|| census(&fleet));
        }
        looks.push(look(&fleet, &durable, begun, done.load(Ordering::Relaxed)));
        std::fs::write(folder.join("soak.csv"), csv(&looks)).unwrap();
    }
    driver.abort();
    draw(folder);
    let (first, last) = (&looks[0], &looks[looks.len() - 1]);
    let half = &looks[looks.len() / 2..];
    let row = |what: &str, of: Of| {
        let most = looks.iter().map(of).fold(0.0, f64::max);
        let (slope, from, to) = (slope(half, of), of(first), of(last));
        println!("| {what} | {from:.0} | {to:.0} | {most:.0} | {slope:+.1} |");
    };
    println!("{} minutes, {MEMBERS} members, {} runs\n", time.as_secs() / 60, last.runs);
    println!("| MiB | at first | at last | at most | slope of the last half, an hour |");
    println!("|---|---|---|---|---|");
    row("resident memory", |look| look.resident);
    row("store on disk", |look| look.store);
    row("history in memory", |look| look.history);
    row("objects in memory, computed", |look| look.objects_mib);
    println!("\n{} objects at first, {} at last\n", first.objects, last.objects);
    kinds(&at_first, &at_half.unwrap_or_default(), &census(&fleet));
    std::fs::remove_dir_all(&data).unwrap();
}

/// Objects of all clusters by resource.
fn census(fleet: &Fleet) -> BTreeMap<String, usize> {
    let mut sum = BTreeMap::new();
    for count in fleet.handles().values().flat_map(|handle| handle.store().census()) {
        *sum.entry(count.resource.to_string()).or_default() += count.objects;
    }
    sum
}

/// Prints the ten kinds that there are most of at last.
fn kinds(
    first: &BTreeMap<String, usize>,
    half: &BTreeMap<String, usize>,
    last: &BTreeMap<String, usize>,
) {
    println!("| objects, all clusters | at first | at half time | at last |\n|---|---|---|---|");
    let mut most: Vec<_> = last.iter().collect();
    most.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (resource, count) in most.into_iter().take(10) {
        let of = |counts: &BTreeMap<String, usize>| counts.get(resource).copied().unwrap_or(0);
        println!("| {resource} | {} | {} | {count} |", of(first), of(half));
    }
}

async fn set_up(fleet: &Fleet) {
    let hub = &fleet.clusters.hub;
    hub.apply("{apiVersion: v1, kind: Namespace, metadata: {name: app}}").await;
    hub.apply_object(&deployment()).await;
    hub.apply_object(&settings(0)).await;
    let stage = |name: &str| json!({"name": name, "labelSelector": {"matchLabels": {"stage": name}}, "maxConcurrency": "50%"});
    hub.apply_object(&json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterStagedUpdateStrategy",
        "metadata": {"name": "plan"},
        "spec": {"stages": [stage("canary"), stage("prod")]},
    }))
    .await;
    let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
    hub.apply_object(&json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "web"},
        "spec": {"resourceSelectors": selector, "policy": {"placementType": "PickAll"},
            "strategy": {"type": "External"}},
    }))
    .await;
    hub.becomes(
        "clusterresourceplacements",
        "",
        "web",
        "ClusterResourcePlacementScheduled",
        "True",
    )
    .await;
}

fn deployment() -> Value {
    let pod = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "registry.example/web:1"}]},
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "app"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": pod},
    })
}

fn settings(version: usize) -> Value {
    let text = format!("{version:04} ").repeat(400);
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "app"},
        "data": {"version": version.to_string(), "text": text},
    })
}

/// Changes the application and rolls it out, again and again.
async fn drive(fleet: Arc<Fleet>, done: Arc<AtomicUsize>) {
    let hub = &fleet.clusters.hub;
    for number in 1.. {
        hub.apply_object(&settings(number)).await;
        let image = json!({"spec": {"template": {"spec": {"containers": [
            {"name": "web", "image": format!("registry.example/web:{number}")}]}}}});
        hub.patch("deployments", "app", "web", image).await;
        let name = format!("soak-{number:05}");
        hub.apply_object(&json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ClusterStagedUpdateRun",
            "metadata": {"name": name},
            "spec": {"placementName": "web", "stagedRolloutStrategyName": "plan", "state": "Run"},
        }))
        .await;
        // On a machine that others use, too, a run may take minutes.
        hub.eventually_within(1800, RUNS, "", &name, has_succeeded).await;
        done.store(number, Ordering::Relaxed);
        if number > KEPT {
            drop(hub.delete(RUNS, "", &format!("soak-{:05}", number - KEPT)).await);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn has_succeeded(found: Option<&Value>) -> bool {
    let conditions = found.and_then(|run| run["status"]["conditions"].as_array());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Succeeded" && condition["status"] == "True")
}

fn look(fleet: &Fleet, durable: &Durable, begun: Instant, runs: usize) -> Look {
    const MIB: f64 = 1_048_576.0;
    let sizes = fleet.handles().values().map(|handle| handle.store().footprint());
    let (objects, bytes, history) = sizes.fold((0, 0, 0), |sum, size| {
        (sum.0 + size.objects, sum.1 + size.json + size.overhead, sum.2 + size.event_json)
    });
    let census = fleet.handle(HUB).store().census();
    let events = census.iter().find(|count| &*count.resource == "events");
    Look {
        seconds: begun.elapsed().as_secs_f64(),
        resident: resident() as f64 / 1024.0,
        store: durable.size() as f64 / MIB,
        objects,
        objects_mib: bytes as f64 / MIB,
        history: history as f64 / MIB,
        events: events.map_or(0, |count| count.objects),
        runs,
    }
}

/// Kibibytes of this process in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
}

/// By how much it grows in an hour, by least squares.
fn slope(looks: &[Look], of: Of) -> f64 {
    let count = looks.len() as f64;
    let hours = |look: &Look| look.seconds / 3600.0;
    let mean = |part: &dyn Fn(&Look) -> f64| looks.iter().map(part).sum::<f64>() / count;
    let (x, y) = (mean(&hours), mean(&of));
    let both: f64 = looks.iter().map(|look| (hours(look) - x) * (of(look) - y)).sum();
    let wide: f64 = looks.iter().map(|look| (hours(look) - x).powi(2)).sum();
    if wide > 0.0 { both / wide } else { 0.0 }
}

fn csv(looks: &[Look]) -> String {
    let mut text =
        "seconds,resident_mib,store_mib,objects,objects_mib,history_mib,hub_events,runs\n"
            .to_owned();
    for look in looks {
        let Look { seconds, resident, store, objects, objects_mib, history, events, runs } = look;
        writeln!(text, "{seconds:.0},{resident:.1},{store:.2},{objects},{objects_mib:.2},{history:.2},{events},{runs}").unwrap();
    }
    text
}

/// Draws what is written down in a folder.
fn draw(folder: &Path) {
    let text = std::fs::read_to_string(folder.join("soak.csv")).unwrap();
    let numbers = |line: &str| -> Vec<f64> {
        line.split(',').map(|number| number.parse().unwrap_or_default()).collect()
    };
    let points: Vec<Point> = text
        .lines()
        .skip(1)
        .map(numbers)
        .filter_map(|line| {
            Some(Point { seconds: *line.first()?, resident: *line.get(1)?, store: *line.get(2)? })
        })
        .collect();
    std::fs::write(folder.join("soak.svg"), svg(&points)).unwrap();
}

/// What the picture shows of a look.
struct Point {
    seconds: f64,
    resident: f64,
    store: f64,
}

/// A curve of the picture.
type Shown = fn(&Point) -> f64;

/// Both curves over time, from zero.
fn svg(looks: &[Point]) -> String {
    const WIDTH: f64 = 720.0;
    const HEIGHT: f64 = 320.0;
    const EDGE: f64 = 48.0;
    let end = looks.last().map_or(1.0, |look| look.seconds);
    let highest = looks.iter().map(|look| look.resident.max(look.store)).fold(1.0, f64::max);
    let step = [5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0]
        .into_iter()
        .find(|step| highest / step <= 6.0)
        .unwrap_or(1000.0);
    let top = (highest / step).ceil() * step;
    let x = |seconds: f64| EDGE + seconds / end * (WIDTH - 2.0 * EDGE);
    let y = |mib: f64| HEIGHT - EDGE - mib / top * (HEIGHT - 2.0 * EDGE);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    let mut mib = 0.0;
    while mib <= top {
        let (left, right, at) = (EDGE, WIDTH - EDGE, y(mib));
        writeln!(text, "<path d=\"M{left} {at:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{mib:.0}</text>", left - 6.0, at + 4.0).unwrap();
        mib += step;
    }
    for part in 0..=6 {
        let seconds = end * f64::from(part) / 6.0;
        let (at, below) = (x(seconds), HEIGHT - EDGE + 18.0);
        writeln!(
            text,
            "<text x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{:.1} min</text>",
            seconds / 60.0
        )
        .unwrap();
    }
    let curves: [(&str, &str, Shown); 2] = [
        ("resident memory", "#1f77b4", |look| look.resident),
        ("store on disk", "#d62728", |look| look.store),
    ];
    for (at, (name, colour, of)) in curves.into_iter().enumerate() {
        let points: Vec<String> =
            looks.iter().map(|look| format!("{:.1},{:.1}", x(look.seconds), y(of(look)))).collect();
        writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
            points.join(" ")
        )
        .unwrap();
        writeln!(
            text,
            "<text x=\"{}\" y=\"20\" fill=\"{colour}\">{name}, MiB</text>",
            EDGE + 160.0 * at as f64
        )
        .unwrap();
    }
    text.push_str("</svg>\n");
    text
}
