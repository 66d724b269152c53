//! What is created and waited for in each scenario.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use flagship_api::binding::ClusterResourceBinding;
use flagship_api::condition::{Condition, ConditionStatus, Conditions, Generation};
use flagship_api::condition_type::update_run::SUCCEEDED;
use flagship_api::names::ObjectKey;
use flagship_api::placement::ClusterResourcePlacement;
use flagship_api::staged_update::{ClusterStagedUpdateRun, ClusterStagedUpdateStrategy};
use flagship_api::work::Work;
use flagship_runtime::client::{Client, ClientError, Listed, ResourceType, Selection};
use flagship_runtime::effects::Kind;
use flagship_runtime::env::Env;
use flagship_runtime::reflector::Reflector;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::binding_delays::BindingDelays;
use super::fake_members::{self, FakeMembers, STAGE};
use super::requests::{Counters, Requests};
use super::{Measured, Scenario, Size};

/// What everything that is placed lives in, and what the strategy of runs is called.
const NAME: &str = "flagship-bench";
/// The label of everything a bench makes, so that it removes nothing else.
const MADE: &str = "bench.flagship.dev/made";
const AVAILABLE: &str = "ClusterResourcePlacementAvailable";
const SCHEDULED: &str = "ClusterResourcePlacementScheduled";
/// How often progress is told.
const TICK: Duration = Duration::from_secs(1);
/// How long nothing is written after a restart that is over.
const REST: Duration = Duration::from_secs(10);

/// A hub that is measured.
pub struct Scenarios<'a> {
    client: Client,
    env: Env,
    size: Size,
    told: &'a dyn Fn(&str),
    members: Option<FakeMembers>,
    /// Changes seen so far.
    changes: Arc<AtomicU64>,
    /// How long bindings take to follow their Works.
    delays: Arc<BindingDelays>,
    /// What comes to pass, as it is seen.
    ends: mpsc::UnboundedReceiver<End>,
    /// What was said last of each object and condition, and when it was seen. Names are not
    /// used twice.
    ended: BTreeMap<(String, &'static str), (bool, Instant)>,
    _watching: JoinSet<()>,
    /// What the API server had counted when what is measured began.
    before: Option<Counters>,
    /// What it was asked until what is measured had ended.
    requests: Option<Requests>,
    /// Placements and runs made so far.
    made: usize,
    /// Placements of S2, which later scenarios stand beside.
    standing: Vec<String>,
}

/// Something that was waited for.
struct End {
    name: String,
    /// The condition that is decided.
    what: &'static str,
    is_true: bool,
}

impl<'a> Scenarios<'a> {
    /// Begins to watch.
    pub fn new(client: Client, env: Env, size: Size, told: &'a dyn Fn(&str)) -> Self {
        let (sender, ends) = mpsc::unbounded_channel();
        let changes = Arc::new(AtomicU64::new(0));
        let delays = Arc::new(BindingDelays::default());
        let mut watching = JoinSet::new();
        let end = |sender: &mpsc::UnboundedSender<End>,
                   name: &str,
                   conditions: &[Condition],
                   what: &'static str,
                   at: Generation| {
            let Some(said) = conditions.current(what, at) else { return };
            let is_true = ConditionStatus::of(said) == ConditionStatus::True;
            // Nobody waits any more once the program ends.
            sender.send(End { name: name.to_owned(), what, is_true }).ok();
        };
        let to = sender.clone();
        watching.spawn(watch(&client, &env, &changes, move |one: &ClusterResourcePlacement| {
            let (name, at) = (one.metadata.name.as_deref(), Generation::of(&one.metadata));
            let conditions = one.status.as_ref().map(|status| &*status.conditions);
            for what in [AVAILABLE, SCHEDULED] {
                end(&to, name.unwrap_or_default(), conditions.unwrap_or_default(), what, at);
            }
        }));
        watching.spawn(watch(&client, &env, &changes, move |one: &ClusterStagedUpdateRun| {
            let (name, at) = (one.metadata.name.as_deref(), Generation::of(&one.metadata));
            let conditions = one.status.as_ref().map(|status| &*status.conditions);
            end(&sender, name.unwrap_or_default(), conditions.unwrap_or_default(), SUCCEEDED, at);
        }));
        let (of_bindings, of_works) = (delays.clone(), delays.clone());
        watching.spawn(watch(&client, &env, &changes, move |one: &ClusterResourceBinding| {
            of_bindings.binding(one);
        }));
        watching.spawn(watch(&client, &env, &changes, move |one: &Work| of_works.work(one)));
        Self {
            client,
            env,
            size,
            told,
            members: None,
            changes,
            delays,
            ends,
            ended: BTreeMap::new(),
            _watching: watching,
            before: None,
            requests: None,
            made: 0,
            standing: Vec::new(),
        }
    }

    /// Members, something to place, and a strategy.
    pub async fn set_up(&mut self) -> anyhow::Result<()> {
        self.clean_up().await?;
        let key = ObjectKey::cluster(NAME);
        if self.client.of::<Namespace>().find(&key).await?.is_some() {
            bail!("namespace {NAME} is there, and no bench has made it: remove it first");
        }
        (self.told)(&format!("{} members join", self.size.members));
        self.make::<Namespace>(json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": NAME, "labels": {MADE: ""}}}))
            .await?;
        self.make::<ConfigMap>(json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": NAME},
            "data": {"key": "x".repeat(1024)}}))
            .await?;
        let labels = json!({"app": NAME});
        let pod = json!({"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
        self.make::<Deployment>(json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": NAME},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": pod}}))
            .await?;
        let stages = ["a", "b", "c"].map(|stage| {
            json!({"name": stage, "labelSelector": {"matchLabels": {STAGE: stage}},
                "maxConcurrency": "50%"})
        });
        self.make::<ClusterStagedUpdateStrategy>(ours(
            "ClusterStagedUpdateStrategy",
            NAME,
            json!({"stages": stages}),
        ))
        .await?;
        let answer_after = Duration::from_millis(self.size.answer_after.into());
        let members = FakeMembers::join(&self.client, &self.env, self.size.members, answer_after);
        self.members = Some(self.in_time("the members join", members).await??);
        Ok(())
    }

    /// Measures one scenario.
    pub async fn run(
        &mut self,
        scenario: Scenario,
        restart: Option<&str>,
    ) -> anyhow::Result<Measured> {
        let before = self.changes.load(Ordering::Relaxed);
        self.delays.take_longest();
        let (placements, runs) = (self.size.placements.into(), self.size.runs.into());
        let took = match scenario {
            Scenario::S1 => self.placements(scenario, 1, false).await?,
            Scenario::S2 => self.placements(scenario, placements, true).await?,
            Scenario::S3 => {
                self.stand(placements).await?;
                self.placements(scenario, 1, false).await?
            }
            Scenario::S4 => {
                self.stand(placements).await?;
                return self.restarted(restart).await;
            }
            Scenario::S5 => self.runs(scenario, 1, false).await?,
            Scenario::S6 => self.runs(scenario, runs, false).await?,
            Scenario::S7 => self.runs(scenario, runs, true).await?,
        };
        let changes = self.changes.load(Ordering::Relaxed) - before;
        let behind = self.delays.take_longest();
        Ok(Measured::of(scenario, took, behind, changes, self.requests.take()))
    }

    /// What is measured begins here.
    async fn begin(&mut self) {
        self.before = Counters::read(&self.client).await;
    }

    /// What is measured has ended; removing it again does not count.
    async fn end(&mut self) {
        let now = Counters::read(&self.client).await;
        let counted = now.as_ref().zip(self.before.as_ref());
        self.requests = counted.map(|(now, before)| now.since(before));
    }

    /// Removes what this bench made, and what an earlier one left, and waits until it is gone:
    /// members that are still there would be measured, too.
    pub async fn clean_up(&mut self) -> anyhow::Result<()> {
        // From here on nobody says that members are alive.
        self.members = None;
        let placements = self.made_of::<ClusterResourcePlacement>().await?;
        let runs = self.made_of::<ClusterStagedUpdateRun>().await?;
        let members = fake_members::known(&self.client).await?;
        let spaces = self.made_of::<Namespace>().await?;
        if [&placements, &runs, &members, &spaces].iter().all(|made| made.is_empty()) {
            return Ok(());
        }
        (self.told)(&format!("removing {} members and what was placed", members.len()));
        for name in &runs {
            self.delete::<ClusterStagedUpdateRun>(name).await?;
        }
        self.remove(&placements).await?;
        self.delete::<ClusterStagedUpdateStrategy>(NAME).await?;
        for name in &spaces {
            self.delete::<Namespace>(name).await?;
        }
        let gone = async {
            fake_members::leave(&self.client, &self.env, &members).await?;
            while !self.made_of::<Namespace>().await?.is_empty() {
                tokio::time::sleep(TICK / 10).await;
            }
            anyhow::Ok(())
        };
        let what = format!("{} members and namespace {NAME} are gone", members.len());
        self.in_time(&what, gone).await?
    }

    /// Objects of a kind that a bench has made.
    async fn made_of<K: Kind>(&self) -> anyhow::Result<Vec<String>> {
        let objects = self.client.of_type(ResourceType::of::<K>()).metadata_only();
        let made = Selection::all().with_labels(MADE);
        let listed: Listed<PartialObjectMeta<K>> = objects.list(&made).await?;
        Ok(listed.items.into_iter().filter_map(|object| object.metadata.name).collect())
    }

    /// The placements that S3 and S4 stand beside, unless S2 has made them.
    async fn stand(&mut self, count: usize) -> anyhow::Result<()> {
        if self.standing.is_empty() {
            self.placements(Scenario::S2, count, true).await?;
        }
        Ok(())
    }

    /// Creates placements at once and waits until all are available.
    async fn placements(
        &mut self,
        scenario: Scenario,
        count: usize,
        keeps: bool,
    ) -> anyhow::Result<Vec<Duration>> {
        let names = self.names(count);
        self.begin().await;
        let begun = self.place(&names, rolling()).await?;
        let took = self.wait(scenario, begun, AVAILABLE).await?;
        self.end().await;
        if keeps {
            self.standing.extend(names);
        } else {
            self.remove(&names).await?;
        }
        Ok(took)
    }

    /// Creates runs at once and waits until all have succeeded; with a placement beside them it
    /// is the placement that is measured.
    async fn runs(
        &mut self,
        scenario: Scenario,
        count: usize,
        beside: bool,
    ) -> anyhow::Result<Vec<Duration>> {
        let names = self.names(count);
        let chosen = self.place(&names, json!({"type": "External"})).await?;
        self.wait(scenario, chosen, SCHEDULED).await?;
        self.begin().await;
        let mut begun = BTreeMap::new();
        for name in &names {
            let spec = json!({"placementName": name, "stagedRolloutStrategyName": NAME,
                "state": "Run"});
            begun.insert(name.clone(), Instant::now());
            self.make::<ClusterStagedUpdateRun>(ours("ClusterStagedUpdateRun", name, spec)).await?;
        }
        let mut took = Vec::new();
        if beside {
            took = self.placements(Scenario::S7, 1, false).await?;
        }
        let runs = self.wait(scenario, begun, SUCCEEDED).await?;
        if !beside {
            self.end().await;
        }
        for name in &names {
            self.delete::<ClusterStagedUpdateRun>(name).await?;
        }
        self.remove(&names).await?;
        Ok(if beside { took } else { runs })
    }

    /// Restarts the hub and waits until nothing is written any more.
    async fn restarted(&mut self, command: Option<&str>) -> anyhow::Result<Measured> {
        let Some(command) = command else {
            bail!("S4 restarts the hub: say how with --restart 'COMMAND'");
        };
        let before = self.changes.load(Ordering::Relaxed);
        self.begin().await;
        let shell = command.to_owned();
        let restarting = tokio::task::spawn_blocking(move || {
            std::process::Command::new("sh").arg("-c").arg(shell).status()
        });
        let ended = restarting.await?.with_context(|| format!("cannot run {command:?}"))?;
        if !ended.success() {
            bail!("{command:?} failed: {ended}");
        }
        let begun = Instant::now();
        let (mut last, mut seen) = (begun, before);
        while last.elapsed() < REST {
            tokio::time::sleep(TICK / 10).await;
            let now = self.changes.load(Ordering::Relaxed);
            if now != seen {
                (last, seen) = (Instant::now(), now);
            }
            (self.told)(&format!("S4: {} changes", seen - before));
        }
        self.end().await;
        let (took, requests) = (vec![last - begun], self.requests.take());
        Ok(Measured::of(Scenario::S4, took, None, seen - before, requests))
    }

    fn names(&mut self, count: usize) -> Vec<String> {
        let first = self.made;
        self.made += count;
        (first..self.made).map(|number| format!("bench-{number:04}")).collect()
    }

    /// Creates placements of everything on all members, and says when each was.
    async fn place(
        &self,
        names: &[String],
        strategy: Value,
    ) -> anyhow::Result<BTreeMap<String, Instant>> {
        let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": NAME}]);
        let member = json!({"labelSelector": {"matchExpressions": [
            {"key": STAGE, "operator": "Exists"}]}});
        let affinity = json!({"clusterAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [member]}}});
        let policy = json!({"placementType": "PickAll", "affinity": affinity});
        let mut begun = BTreeMap::new();
        for name in names {
            let spec = json!({"resourceSelectors": selector, "policy": policy,
                "strategy": strategy});
            begun.insert(name.clone(), Instant::now());
            self.make::<ClusterResourcePlacement>(ours("ClusterResourcePlacement", name, spec))
                .await?;
        }
        Ok(begun)
    }

    /// Waits until the condition is True of all, and says how long each took.
    async fn wait(
        &mut self,
        scenario: Scenario,
        mut begun: BTreeMap<String, Instant>,
        what: &'static str,
    ) -> anyhow::Result<Vec<Duration>> {
        let (all, start) = (begun.len(), Instant::now());
        let patience = Duration::from_secs(self.size.patience.into());
        let mut took = Vec::new();
        loop {
            for (name, since) in std::mem::take(&mut begun) {
                match self.ended.get(&(name.clone(), what)) {
                    Some((true, at)) => took.push(at.saturating_duration_since(since)),
                    // A placement may say no for as long as it is under way; a run says it once.
                    Some((false, _)) if what == SUCCEEDED => {
                        bail!("{scenario:?}: run {name} failed; flagship why csur/{name} tells why")
                    }
                    _ => drop(begun.insert(name, since)),
                }
            }
            let (left, changes) = (begun.len(), self.changes.load(Ordering::Relaxed));
            (self.told)(&format!("{scenario:?}: {} of {all}, {changes} changes", all - left));
            let Some(first) = begun.keys().next() else { return Ok(took) };
            if start.elapsed() > patience {
                bail!(
                    "{scenario:?}: {left} of {all} are not {what} after {patience:?}; {first} is one"
                );
            }
            self.look_on().await;
        }
    }

    /// Takes in what has come to pass, for a moment.
    async fn look_on(&mut self) {
        let mut next = tokio::time::timeout(TICK, self.ends.recv()).await.ok().flatten();
        while let Some(End { name, what, is_true }) = next {
            self.ended.insert((name, what), (is_true, Instant::now()));
            next = self.ends.try_recv().ok();
        }
    }

    async fn in_time<T>(&self, what: &str, work: impl Future<Output = T>) -> anyhow::Result<T> {
        let patience = Duration::from_secs(self.size.patience.into());
        let done = tokio::time::timeout(patience, work).await;
        done.with_context(|| format!("after {patience:?} it is not so that {what}"))
    }

    async fn make<K: Kind>(&self, object: Value) -> anyhow::Result<()> {
        let meta = &object["metadata"];
        let name = meta["name"].as_str().unwrap_or_default();
        let key = ObjectKey::new(meta["namespace"].as_str(), name);
        let made = self.client.of::<K>().apply(&key, &object, true).await;
        made.with_context(|| format!("cannot create {} {key}", object["kind"]))?;
        Ok(())
    }

    async fn delete<K: Kind>(&self, name: &str) -> anyhow::Result<()> {
        let key = ObjectKey::cluster(name);
        match self.client.of::<K>().delete_anyway(&key, Default::default()).await {
            Ok(_) | Err(ClientError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot delete {name}")),
        }
    }

    /// Deletes placements and waits until they are gone, with all that belongs to them.
    async fn remove(&self, names: &[String]) -> anyhow::Result<()> {
        for name in names {
            self.delete::<ClusterResourcePlacement>(name).await?;
        }
        let gone = async {
            for name in names {
                let key = ObjectKey::cluster(name);
                while self.client.of::<ClusterResourcePlacement>().find(&key).await?.is_some() {
                    tokio::time::sleep(TICK / 10).await;
                }
            }
            anyhow::Ok(())
        };
        self.in_time("the placements are gone", gone).await?
    }
}

/// An object of KubeFleet's API.
fn ours(kind: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind,
        "metadata": {"name": name, "labels": {MADE: ""}}, "spec": spec})
}

fn rolling() -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "100%"}})
}

/// Watches a kind, counts its changes, and tells of each.
fn watch<K, F>(
    client: &Client,
    env: &Env,
    changes: &Arc<AtomicU64>,
    tell: F,
) -> impl Future<Output = ()> + Send + 'static + use<K, F>
where
    K: Kind + Send + 'static,
    F: Fn(&K) + Send + Sync + 'static,
{
    let changes = changes.clone();
    let mirror = Reflector::new(env, client.of::<K>(), Selection::all(), move |object: K| {
        changes.fetch_add(1, Ordering::Relaxed);
        tell(&object);
        None::<()>
    });
    mirror.run()
}
