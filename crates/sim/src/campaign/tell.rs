//! Tells a story: builds its fleet, lets everything happen, ends the faults, waits until the
//! fleet rests, and asks the laws about the end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flagship_fleet::{Callers, ClusterHost, EmbeddedFleet, FleetSpec, HUB};
use flagship_hub::{Hub, Options};
use flagship_rules::placement::Batching;
use flagship_rules::placement::selection::TypeRules;
use flagship_rules::update_run::lifecycle::has_ended;
use flagship_runtime::env::{Env, SkewedClock};
use flagship_runtime::metrics::Metrics;
use flagship_store::env::{Env as ServerEnv, FaultPlan, Trace};
use futures::future::select;
use jiff::SignedDuration;
use tokio::sync::Notify;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{Instant, sleep, sleep_until};

use super::coverage::Coverage;
use super::end;
use super::judge::{Judge, Violation};
use super::members::Members;
use super::people::People;
use super::planted;
use super::story::{Story, What};
use crate::testing::{CLUSTER, NAMESPACED, without_profiles};

/// Seconds in which members join before anything goes wrong.
const JOINING: u64 = 20;

/// Seconds from the last step until the faults end.
const AFTER_THE_LAST: u64 = 60;

/// A hub that has not written for so long rests. Longer than the longest delay of an event.
const REST: SignedDuration = SignedDuration::from_secs(660);

/// Seconds after which a fleet that does not rest never will.
const TIMEOUT_SECS: u64 = 3 * 3600;

/// How a story went.
#[derive(Clone, Debug)]
pub struct Told {
    /// Over every call of everybody: time, caller, verb, object, revision and outcome.
    pub hash: u64,
    /// How many calls that were.
    pub calls: u64,
    /// Writes that the hub's API server accepted.
    pub writes: u64,
    /// How often laws were asked.
    pub asked: u64,
    /// Virtual seconds.
    pub seconds: u64,
    /// The first law that was broken.
    pub violation: Option<Violation>,
    /// What was met.
    pub coverage: Coverage,
    /// What happened, if it was asked for.
    pub words: Vec<String>,
    /// Every call, if words were asked for.
    pub trace: Vec<String>,
}

/// The processes of a story's hubs.
struct Processes(BTreeMap<String, Process>);

struct Process {
    died: Arc<Notify>,
    is_up: Arc<AtomicBool>,
    down: Arc<AtomicU64>,
    clock: Arc<SkewedClock>,
}

/// Tells a story on a server that no other fleet stands on now. Needs paused time.
pub async fn tell(story: &Story, host: &ClusterHost, in_words: bool) -> Told {
    let began = Instant::now();
    let scope = if story.namespaced { NAMESPACED } else { CLUSTER };
    let (env, plain) = (Env::simulated(story.seed), ServerEnv::simulated(story.seed));
    let plan = Arc::new(FaultPlan::new(story.seed, plain.clock.clone(), Vec::new()));
    let (works, delivered) = unbounded_channel();
    let judge = Judge::new(plan.clone(), plain.clock.clone(), scope, works, in_words);
    let judge = Arc::new(judge);
    let trace = if in_words { Trace::recording() } else { Trace::hashing() };
    let trace = Arc::new(trace);
    let server_env = plain.with_trace(trace.clone()).with_faults(judge.clone());
    let spec = FleetSpec { callers: Callers::CLUSTERS, ..FleetSpec::named(Vec::new()) };
    let building = EmbeddedFleet::builder(spec).clock(env.clone(), server_env);
    let built = building.host(host.clone(), String::new()).build().await;
    let fleet = built.unwrap_or_else(|error| panic!("{error}"));
    let _judging = judge.judge(fleet.handle(HUB).clone());
    let (hub, beat) = (fleet.handle(HUB).clone(), story.heartbeat);
    let people = People::new(hub.clone(), env.clone(), scope, beat);
    let members = Members::new(hub, env.clone(), judge.clone(), delivered, beat);
    judge.inner().members = story.members.len() as u64;
    people.prepare(&story.stages, story.rolling).await;
    let metrics = Metrics::default();
    let processes = Processes::start(story, &fleet, &env, &metrics, &judge);
    for member in &story.members {
        people.register(member).await.expect("an empty hub takes it");
        members.start(member.clone());
    }
    let telling = async {
        sleep(Duration::from_secs(JOINING)).await;
        plan.replace(story.faults.iter().map(|fault| fault.rule.clone()).collect());
        happen(story, &judge, &people, &members, &processes).await;
        let rests = heal(&judge, &people, &members).await;
        if judge.inner().violation.is_none() {
            match rests {
                Ok(()) => end::at_rest(story, &judge, &fleet, &metrics),
                Err(what) => judge.broken("S16", what),
            }
        }
        // Whether a member is heard of, a hub decides by its own clock when it starts.
        let in_time = story.hubs.iter().all(|offset| *offset == 0) && judge.inner().skew.is_zero();
        if in_time && judge.inner().violation.is_none() {
            processes.restarted(&judge).await;
        }
    };
    // A story in which controllers answer each other without end has broken S16 by then.
    select(std::pin::pin!(telling), std::pin::pin!(judge.endless.notified())).await;
    let mut inner = judge.inner();
    Told {
        hash: trace.hash(),
        calls: trace.entries(),
        writes: inner.writes,
        asked: inner.asked,
        seconds: began.elapsed().as_secs(),
        violation: inner.violation.take(),
        coverage: std::mem::take(&mut inner.coverage),
        words: inner.words.take().unwrap_or_default(),
        trace: trace.lines(),
    }
}

/// Everything that the story says, at its time.
async fn happen(
    story: &Story,
    judge: &Arc<Judge>,
    people: &People,
    members: &Members,
    processes: &Processes,
) {
    let start = Instant::now();
    for step in &story.steps {
        sleep_until(start + Duration::from_secs(step.at)).await;
        if judge.inner().violation.is_some() {
            return;
        }
        *judge.inner().coverage.steps.entry(step.what.kind().to_owned()).or_default() += 1;
        judge.say("*", &format!("{}: {:?}", step.what.kind(), step.what));
        match &step.what {
            What::Regress { member, seconds } => members.regress(member, *seconds),
            What::Crash { hub, seconds } => {
                judge.happened("crash", &format!("hub{hub} dies for {seconds} s"));
                processes.kill(*hub, *seconds);
            }
            What::SetClock { hub, offset } => {
                judge.happened("clock jump", &format!("hub{hub} is {offset} s ahead"));
                processes.set_clock(*hub, *offset, judge);
            }
            what => {
                if let Err(refused) = people.act(what).await {
                    judge.say("*", &format!("  refused: {} {}", refused.code, refused.message));
                }
            }
        }
        match &step.what {
            What::Join(member) => {
                members.start(member.clone());
                members.wake(&member.name);
            }
            What::Leave(member) => {
                judge.happened("leave", &format!("{member} is told to leave"));
                members.wake(member);
            }
            What::Malformed(name) => {
                judge.happened("malformed object", &format!("{name} is stored"));
            }
            _ => {}
        }
        if story.hubs.len() > 1 {
            judge.inner().injected("two hubs", people.now());
        }
        if story.hubs.iter().any(|offset| *offset != 0) {
            judge.inner().injected("skewed clock", people.now());
        }
    }
    sleep(Duration::from_secs(AFTER_THE_LAST)).await;
}

/// Ends all faults and waits until the hubs rest. People approve what is asked.
async fn heal(judge: &Arc<Judge>, people: &People, members: &Members) -> Result<(), String> {
    judge.plan.heal();
    judge.say("*", "faults end");
    members.heal().await;
    let start = Instant::now();
    loop {
        if judge.inner().violation.is_some() {
            return Ok(());
        }
        people.approve_all().await;
        sleep(Duration::from_secs(30)).await;
        let last = judge.inner().last_hub_write.clone();
        let (at, what) = last.unwrap_or_default();
        // A hub that is still down has not written either.
        let rests = people.now().duration_since(at) > REST;
        if rests && start.elapsed() > REST.unsigned_abs() {
            return Ok(());
        }
        if start.elapsed() > Duration::from_secs(TIMEOUT_SECS) {
            return Err(format!("hubs still write, last: {what}"));
        }
    }
}

impl Processes {
    fn start(
        story: &Story,
        fleet: &EmbeddedFleet,
        env: &Env,
        metrics: &Metrics,
        judge: &Arc<Judge>,
    ) -> Self {
        let mut all = BTreeMap::new();
        for (number, offset) in story.hubs.iter().enumerate() {
            let name = format!("hub{number}");
            let (env, clock) = env.skewed(SignedDuration::from_secs(*offset));
            let process = Process {
                died: Arc::default(),
                is_up: Arc::default(),
                down: Arc::default(),
                clock,
            };
            let (died, down) = (process.died.clone(), process.down.clone());
            let is_up = process.is_up.clone();
            let client = planted::client(fleet.handle(HUB).called_by(&name), story.bug);
            let (client, metrics) = (client.named(&name), metrics.clone());
            tokio::spawn(async move {
                loop {
                    is_up.store(true, Ordering::Relaxed);
                    let hub = Hub::new(client.clone(), env.clone(), metrics.clone(), options());
                    let life = hub.run(std::future::pending());
                    let death = died.notified();
                    select(std::pin::pin!(life), std::pin::pin!(death)).await;
                    is_up.store(false, Ordering::Relaxed);
                    // Dropping the future is dying: nothing of the hub is left.
                    sleep(Duration::from_secs(1 + down.swap(0, Ordering::Relaxed))).await;
                }
            });
            all.insert(name, process);
        }
        let processes = Self(all);
        processes.note_clocks(story, judge);
        let died: BTreeMap<String, Arc<Notify>> = processes
            .0
            .iter()
            .map(|(name, process)| (name.clone(), process.died.clone()))
            .collect();
        let died = Mutex::new(died);
        judge.plan.on_crash(move |crash| {
            let died = died.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(died) = died.get(&crash.who) {
                died.notify_one();
            }
        });
        processes
    }

    /// Tells the judge by whose clock a hub writes, and what clocks may differ by in all.
    fn note_clocks(&self, story: &Story, judge: &Arc<Judge>) {
        let jumps = story.steps.iter().filter_map(|step| match step.what {
            What::SetClock { offset, .. } => Some(offset),
            _ => None,
        });
        let all: Vec<i64> = story.hubs.iter().copied().chain(jumps).collect();
        let skew = all.iter().max().unwrap_or(&0) - all.iter().min().unwrap_or(&0);
        let mut inner = judge.inner();
        inner.skew = SignedDuration::from_secs(skew);
        let ahead = all.iter().copied().max().unwrap_or(0).max(0);
        inner.ahead = SignedDuration::from_secs(ahead);
        for (number, offset) in story.hubs.iter().enumerate() {
            let offset = SignedDuration::from_secs(*offset);
            inner.offsets.insert(format!("hub{number}"), offset);
        }
    }

    fn kill(&self, hub: usize, seconds: u64) {
        // One that is down cannot die.
        let process = self.0.get(&format!("hub{hub}"));
        if let Some(process) = process.filter(|process| process.is_up.load(Ordering::Relaxed)) {
            process.down.store(seconds, Ordering::Relaxed);
            process.died.notify_one();
        }
    }

    fn set_clock(&self, hub: usize, offset: i64, judge: &Arc<Judge>) {
        let name = format!("hub{hub}");
        if let Some(process) = self.0.get(&name) {
            let offset = SignedDuration::from_secs(offset);
            process.clock.jump(offset);
            judge.inner().offsets.insert(name, offset);
        }
    }

    /// L7: hubs that start again find nothing to do.
    async fn restarted(&self, judge: &Arc<Judge>) {
        let before = judge.inner().last_hub_write.clone();
        for process in self.0.values() {
            process.died.notify_one();
        }
        sleep(Duration::from_secs(120)).await;
        let after = judge.inner().last_hub_write.clone();
        if after != before {
            let what = after.map(|(_, what)| what).unwrap_or_default();
            judge.broken("L7", format!("a hub that starts again at rest writes: {what}"));
        }
    }
}

fn options() -> Options {
    let mut options = without_profiles();
    // A person's edits become a version at once, as in an embedded fleet.
    options.batching = Batching::NONE;
    // Few kinds to watch: stories are many.
    options.selection.types =
        TypeRules::read("", "v1/Namespace,ConfigMap,Secret").expect("three kinds");
    options
}

/// Whether a run with this record may be left as it is when everything was approved and all
/// members work.
pub(super) fn may_stay(run: &flagship_rules::update_run::Run) -> bool {
    use flagship_api::staged_update::UpdateRunState;
    has_ended(&run.status) || run.state() != UpdateRunState::Run
}
