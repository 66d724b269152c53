//! How fast update runs are when their clusters are: one run of 100 clusters in stages of
//! 20, 30 and 50, half of a stage at once, no gates; then ten and a hundred side by side.
//!
//! Members are played by a task that reports every delivery as available at once, so what
//! is measured is the hub and its API server, in one thread by the machine's clock. A
//! client creates the runs and watches them: the time is from before the first is created
//! until it has seen the last one succeed. Each count begins with a new fleet, and with the
//! memory of this process as its peak.
//! With `works` behind `--` the hub also makes a Work for each cluster, and the members
//! report on these; without, on the bindings.
//! With `policy` each count is measured without and with a RolloutPolicy, in turns on new
//! fleets, and what the policy and the record cost is printed, with the size of a record.
//! With `requests` the hub's writes are told by verb and resource, for each run; writing them down
//! takes time of its own.
//! `cargo run --release -p flagship-sim --example one_run`, with other counts behind `--`;
//! `-- 1000` takes some minutes and 3 GiB, `-- policy 1` about a minute.

#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(clippy::disallowed_methods, reason = "measures the hub, decides nothing")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flagship_api::binding::{BindingState, ClusterResourceBinding};
use flagship_api::condition::{ConditionStatus, Conditions, Generation, draft};
use flagship_api::condition_type::{binding as kind, update_run, work as of_work};
use flagship_api::keys::label;
use flagship_api::staged_update::ClusterStagedUpdateRun;
use flagship_api::work::Work;
use flagship_runtime::client::{Client, Precondition, Selection};
use flagship_runtime::env::Env;
use flagship_runtime::reflector::Reflector;
use flagship_sim::fleet::{Fleet, FleetConfig, HUB};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const RUNS: &str = "clusterstagedupdateruns";
const STAGES: [(&str, usize); 3] = [("a", 20), ("b", 30), ("c", 50)];

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        println!("| runs at once | wall | CPU | writes | binding available to next binding written: p50 | p99 | max | peak memory |");
        println!("|---|---|---|---|---|---|---|---|");
        let asked: Vec<usize> = std::env::args().skip(1).filter_map(|n| n.parse().ok()).collect();
        let counts = if asked.is_empty() { vec![1, 10, 100] } else { asked };
        if asks_for("policy") {
            let counts = if counts.len() == 3 { vec![1] } else { counts };
            for runs in counts {
                with_and_without(runs).await;
            }
            return;
        }
        for runs in counts {
            let fleet = fleet().await;
            let before = fleet.trace.lines().len();
            let measured = many(&fleet, runs).await;
            measured.print(runs);
            print_requests(&fleet.trace.lines()[before..], runs);
        }
    });
}

/// How often each side is measured where two are compared.
const ROUNDS: usize = 5;

/// Measures runs without and with a policy, in turns, so that both meet the same machine.
async fn with_and_without(runs: usize) {
    let (mut plain, mut policed) = (Vec::new(), Vec::new());
    let mut record = 0;
    for _ in 0..ROUNDS {
        let without = fleet().await;
        plain.push(many(&without, runs).await);
        drop(without);
        let with = fleet().await;
        let hub = &with.clusters.hub;
        hub.apply_object(&json!({
            "apiVersion": "flagship.dev/v1alpha1",
            "kind": "RolloutPolicy",
            "metadata": {"name": "production"},
            "spec": {"clusters": {"membership": "Frozen"},
                "failure": {"progressDeadline": "10m", "budget": {"run": "2%"}, "then": "Stop"}},
        }))
        .await;
        policed.push(many(&with, runs).await);
        let kept = hub.get("clusterrolloutrecords", "", "web000").await;
        let entries = kept["spec"]["entries"].as_array().map_or(0, Vec::len);
        assert!(entries >= 200, "a record of 100 clusters has {entries} entries");
        record = kept.to_string().len();
    }
    let median = |of: &[Measured], what: fn(&Measured) -> Duration| {
        let mut all: Vec<Duration> = of.iter().map(what).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    for measured in plain.iter().chain(&policed) {
        measured.print(runs);
    }
    println!(
        "\n{ROUNDS} rounds without a policy, then {ROUNDS} with one, measured in turns; medians:"
    );
    for (name, what) in
        [("wall", (|m| m.wall) as fn(&Measured) -> Duration), ("CPU", |measured| measured.cpu)]
    {
        let (without, with) = (median(&plain, what), median(&policed, what));
        let ratio = with.as_secs_f64() / without.as_secs_f64();
        println!("{name}: {without:.2?} without, {with:.2?} with a policy, ratio {ratio:.3}");
    }
    println!("record of one run over 100 clusters: {record} bytes of JSON");
}

fn makes_works() -> bool {
    asks_for("works")
}

fn asks_for(what: &str) -> bool {
    std::env::args().any(|arg| arg == what)
}

/// Writes by caller, verb and resource, for each run. Nothing where requests are not written down.
fn print_requests(lines: &[String], runs: usize) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, caller, verb, place, ..] = words[..] else { continue };
        let resource = place.split('/').nth(1).unwrap_or_default();
        if !["get", "list", "watch"].contains(&verb) {
            *counts.entry(format!("{caller} {verb} {resource}")).or_default() += 1;
        }
    }
    for (what, count) in counts {
        println!("  {:8.2} {what}", count as f64 / runs as f64);
    }
}

/// A hub with its members, all joined.
async fn fleet() -> Fleet {
    let mut config = FleetConfig::named(&[]).real_time();
    config.hub.controllers.work = makes_works();
    config.traced = asks_for("requests");
    let mut fleet = Fleet::new(config).await;
    fleet.start(HUB);
    let hub = &fleet.clusters.hub;
    hub.apply("{apiVersion: v1, kind: Namespace, metadata: {name: app}}").await;
    hub.apply(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: app}, data: {v: '1'}}",
    )
    .await;
    let stages = STAGES.map(|(name, _)| {
        json!({"name": name, "labelSelector": {"matchLabels": {"stage": name}}, "maxConcurrency": "50%"})
    });
    hub.apply_object(&json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterStagedUpdateStrategy",
        "metadata": {"name": "plan"},
        "spec": {"stages": stages},
    }))
    .await;
    let names: Vec<(String, &str)> = STAGES
        .iter()
        .flat_map(|(stage, count)| (0..*count).map(move |n| (format!("{stage}{n:02}"), *stage)))
        .collect();
    for (name, stage) in &names {
        hub.apply_object(&json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
            "kind": "MemberCluster",
            "metadata": {"name": name, "labels": {"stage": stage}},
            "spec": {"identity": {"kind": "User", "name": name}},
        }))
        .await;
    }
    for (name, _) in &names {
        let space = format!("fleet-member-{name}");
        hub.eventually("internalmemberclusters", &space, name, |found| found.is_some()).await;
        let now = fleet.env.now().to_string();
        let says = |kind: &str| json!({"type": kind, "status": "True", "reason": "Agent", "message": "", "lastTransitionTime": now});
        let agent = json!({"type": "MemberAgent", "lastReceivedHeartbeat": now,
            "conditions": [says("Joined"), says("Healthy")]});
        let status = json!({"agentStatus": [agent]});
        hub.patch_status("internalmemberclusters", &space, name, status).await;
    }
    fleet.all_joined().await;
    fleet
}

/// Creates so many placements and a run for each, and waits until all have succeeded.
async fn many(fleet: &Fleet, runs: usize) -> Measured {
    let hub = &fleet.clusters.hub;
    for n in 0..runs {
        let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
        hub.apply_object(&json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ClusterResourcePlacement",
            "metadata": {"name": format!("web{n:03}")},
            "spec": {"resourceSelectors": selector, "policy": {"placementType": "PickAll"},
                "strategy": {"type": "External"}},
        }))
        .await;
    }
    for n in 0..runs {
        let name = format!("web{n:03}");
        let kind = "ClusterResourcePlacementScheduled";
        hub.becomes("clusterresourceplacements", "", &name, kind, "True").await;
    }
    let clock = Arc::new(Mutex::new(Clock::default()));
    let members = tokio::spawn(play_members(fleet, clock.clone()));
    let (watching, mut ends) = watch_runs(fleet);
    fleet.pass(1).await;
    forget_peak_memory();
    let store = fleet.handle(HUB).store();
    let (writes, cpu, begun) = (store.revision(), cpu(), Instant::now());
    for n in 0..runs {
        let name = format!("web{n:03}");
        hub.apply_object(&run(&name)).await;
    }
    let mut open: BTreeSet<String> = (0..runs).map(|n| format!("web{n:03}")).collect();
    while !open.is_empty() {
        let (name, well) = ends.recv().await.unwrap();
        assert!(
            well,
            "{name} failed: {:#}",
            hub.get(RUNS, "", &name).await["status"]["conditions"]
        );
        open.remove(&name);
    }
    let wall = begun.elapsed();
    let cpu = self::cpu() - cpu;
    let writes = store.revision() - writes;
    members.abort();
    watching.abort();
    let mut reactions = std::mem::take(&mut clock.lock().unwrap().reactions);
    reactions.sort_unstable();
    Measured { wall, cpu, writes, reactions }
}

fn run(name: &str) -> Value {
    json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterStagedUpdateRun",
        "metadata": {"name": name},
        "spec": {"placementName": name, "stagedRolloutStrategyName": "plan", "state": "Run"},
    })
}

/// Watches runs as a client of their API does, and hears of each that has ended, and whether
/// it ended well.
fn watch_runs(fleet: &Fleet) -> (JoinHandle<()>, mpsc::UnboundedReceiver<(String, bool)>) {
    let client = Client::in_process(fleet.handle(HUB).called_by("user")).named("watcher");
    let (sender, ends) = mpsc::unbounded_channel();
    let runs = client.of::<ClusterStagedUpdateRun>();
    let mirror =
        Reflector::new(&fleet.env, runs, Selection::all(), move |run: ClusterStagedUpdateRun| {
            let conditions = run.status.map(|status| status.conditions).unwrap_or_default();
            let ended = conditions.of_type(update_run::SUCCEEDED).map(ConditionStatus::of)?;
            sender.send((run.metadata.name?, ended == ConditionStatus::True)).ok()
        });
    (tokio::spawn(mirror.run()), ends)
}

/// When bindings became available, by placement and stage, and how soon the next was written.
#[derive(Default)]
struct Clock {
    free: BTreeMap<(String, String), Vec<Instant>>,
    last: BTreeMap<String, Instant>,
    reactions: Vec<Duration>,
    /// Bindings that were seen available.
    done: BTreeSet<String>,
}

impl Clock {
    fn available(&mut self, placement: &str, stage: &str) {
        let now = Instant::now();
        self.free.entry((placement.to_owned(), stage.to_owned())).or_default().push(now);
        self.last.insert(placement.to_owned(), now);
    }

    /// A binding whose delivery began was seen; once it says so, its cluster has finished.
    fn rolled_up(&mut self, binding: String, available: bool, placement: &str, stage: &str) {
        if available && self.done.insert(binding) {
            self.available(placement, stage);
        }
    }

    /// A binding was written: for the longest free slot of its stage, or because the stage
    /// before it has just ended.
    fn written(&mut self, placement: &str, stage: &str) {
        let now = Instant::now();
        let free = self.free.entry((placement.to_owned(), stage.to_owned())).or_default();
        let since =
            if free.is_empty() { self.last.get(placement).copied() } else { Some(free.remove(0)) };
        self.reactions.extend(since.map(|since| now.duration_since(since)));
    }
}

/// Reports every delivery as available.
fn play_members(
    fleet: &Fleet,
    clock: Arc<Mutex<Clock>>,
) -> impl Future<Output = ()> + Send + 'static + use<> {
    let client = Client::in_process(fleet.handle(HUB).called_by("members")).named("members");
    let env = fleet.env.clone();
    async move {
        let (sender, mut started) = mpsc::unbounded_channel();
        let bindings = client.of::<ClusterResourceBinding>();
        let told = clock.clone();
        let mirror = Reflector::new(
            &env,
            bindings.clone(),
            Selection::all(),
            move |binding: ClusterResourceBinding| {
                let at = Generation::of(&binding.metadata);
                let stage = binding.spec.target_cluster.chars().take(1).collect::<String>();
                let placement =
                    binding.metadata.labels.as_ref()?.get(label::PARENT_PLACEMENT)?.clone();
                let conditions =
                    binding.status.as_ref().map(|s| s.conditions.clone()).unwrap_or_default();
                let is = |kind: &str| conditions.is_true_at(kind, at);
                let bound = binding.spec.state == BindingState::Bound;
                if bound && !is(kind::ROLLOUT_STARTED) {
                    told.lock().unwrap().written(&placement, &stage);
                }
                if !bound || !is(kind::ROLLOUT_STARTED) {
                } else if makes_works() {
                    let name = binding.metadata.name?;
                    told.lock().unwrap().rolled_up(name, is(kind::AVAILABLE), &placement, &stage);
                } else if !is(kind::AVAILABLE) {
                    sender
                        .send((Precondition::of(&binding)?, at, conditions, placement, stage))
                        .ok()?;
                }
                Some(())
            },
        );
        let mirroring = tokio::spawn(mirror.run());
        if makes_works() {
            return report_on_works(&client, &env).await;
        }
        while let Some((precondition, at, mut conditions, placement, stage)) = started.recv().await
        {
            let (bindings, clock, env) = (bindings.clone(), clock.clone(), env.clone());
            tokio::spawn(async move {
                let done = draft(kind::AVAILABLE).is_true("AllWorkAreAvailable");
                done.because("All corresponding work objects are available").set(
                    &mut conditions,
                    at,
                    env.now(),
                );
                let patch = json!({"status": {"conditions": conditions}});
                if bindings.patch_status(&precondition, patch).await.is_ok() {
                    clock.lock().unwrap().available(&placement, &stage);
                }
            });
        }
        mirroring.abort();
    }
}

/// Reports every Work as applied and available.
async fn report_on_works(client: &Client, env: &Env) {
    let (sender, mut delivered) = mpsc::unbounded_channel();
    let works = client.of::<Work>();
    let mirror = Reflector::new(env, works.clone(), Selection::all(), move |work: Work| {
        let at = Generation::of(&work.metadata);
        let conditions = work.status.as_ref().map(|s| s.conditions.clone()).unwrap_or_default();
        if !conditions.is_true_at(of_work::AVAILABLE, at) {
            sender.send((Precondition::of(&work)?, at)).ok()?;
        }
        Some(())
    });
    let _mirroring = JoinSet::from_iter([mirror.run()]);
    while let Some((precondition, at)) = delivered.recv().await {
        let (works, env) = (works.clone(), env.clone());
        tokio::spawn(async move {
            let mut conditions = Vec::new();
            let says = [
                draft(of_work::APPLIED).is_true("AllManifestsApplied"),
                draft(of_work::AVAILABLE).is_true("AllManifestsAvailable"),
            ];
            for done in says {
                done.because("").set(&mut conditions, at, env.now());
            }
            let patch = json!({"status": {"conditions": conditions}});
            works.patch_status(&precondition, patch).await.ok();
        });
    }
}

struct Measured {
    wall: Duration,
    cpu: Duration,
    writes: u64,
    reactions: Vec<Duration>,
}

impl Measured {
    fn print(&self, runs: usize) {
        let at = |part: f64| {
            let index = (self.reactions.len() as f64 * part) as usize;
            self.reactions
                .get(index.min(self.reactions.len().saturating_sub(1)))
                .copied()
                .unwrap_or_default()
        };
        println!(
            "| {runs} | {:.2?} | {:.2?} | {} | {:.1?} | {:.1?} | {:.1?} | {} MiB |",
            self.wall,
            self.cpu,
            self.writes,
            at(0.5),
            at(0.99),
            at(1.0),
            peak_memory()
        );
    }
}

/// What this process has computed so far.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = after.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok());
    // A tick is a hundredth of a second on every Linux of this century.
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// The peak begins again with what is in use now. Where that cannot be done, it is the peak
/// of all counts so far.
fn forget_peak_memory() {
    drop(std::fs::write("/proc/self/clear_refs", "5"));
}

fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() / 1024
}
