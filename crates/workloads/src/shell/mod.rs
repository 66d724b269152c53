//! Runs all controllers of one cluster: one task, one queue, no polling.
//!
//! Changes come in through `feed`, `index` says who has to look at what, `observe`
//! reads it, the controller plans, `act` carries the plan out. Everything known is
//! taken in before the next look, so a controller always sees its own writes.
//! While nothing changes and nothing falls due, the task sleeps.

mod act;
mod feed;
mod fresh;
mod index;
mod key;
mod observe;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use flagship_apiserver::rest::ClusterHandle;
use flagship_base::backoff::Backoff;
use flagship_base::machinery::status::ApiError;
use flagship_store::ObjectKey;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::config::WorkloadConfig;
use crate::events::Recorder;
use crate::limits::LimitRangeAdmission;
use crate::node;
use crate::priority::PriorityAdmission;
use crate::queue::Queue;
use crate::quota::QuotaAdmission;
use crate::references::ServiceAccountAdmission;
use crate::work_counters::{Count, WorkCounters};
use act::{ActionError, ClusterWriter};
use feed::{Change, Feed};
use fresh::Fresh;
use index::Index;
use key::Key;
use observe::View;

/// The name controllers write under.
pub const ACTOR: &str = "kube-controller-manager";

/// Gives embedded clusters a life of their own.
#[derive(Debug, Clone)]
pub struct Workloads {
    config: Arc<WorkloadConfig>,
    effort: Arc<WorkCounters>,
}

/// A cluster that is being run. Dropping it does not stop it.
#[derive(Debug)]
pub struct Running {
    task: tokio::task::JoinHandle<()>,
}

impl Workloads {
    /// For clusters of this shape; one value serves many clusters.
    pub fn new(config: WorkloadConfig) -> Self {
        Self { config: Arc::new(config), effort: Arc::default() }
    }

    /// Runs a cluster until it is removed from its server. Dropping the future stops
    /// everything; starting again goes on where it stopped.
    pub fn run(&self, cluster: ClusterHandle) -> impl Future<Output = ()> + Send + use<> {
        // In admission before the first pod comes, and still there when controllers stop.
        if self.config.runs_workloads {
            cluster.install_admission("accounts", Arc::new(ServiceAccountAdmission));
        }
        cluster.install_admission("limits", Arc::new(LimitRangeAdmission));
        cluster.install_admission("priority", Arc::new(PriorityAdmission));
        cluster.install_admission("quota", Arc::new(QuotaAdmission));
        let config = Arc::clone(&self.config);
        let effort = Arc::clone(&self.effort);
        async move { Shell::new(cluster, config, effort).run().await }
    }

    /// What the controllers of all its clusters have done so far.
    pub fn effort(&self) -> Count {
        self.effort.count()
    }

    /// Runs a cluster in a task of its own. Must be called within a runtime.
    pub fn spawn(&self, cluster: ClusterHandle) -> Running {
        Running { task: tokio::spawn(self.run(cluster)) }
    }
}

impl Running {
    /// Stops the cluster's controllers; returns when they have stopped.
    pub async fn stop(self) {
        self.task.abort();
        // The only error possible is the cancellation asked for, or a panic already reported.
        if let Err(error) = self.task.await {
            tracing::debug!(%error, "workloads stopped");
        }
    }

    /// Whether they have ended.
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }
}

/// What the server has refused, and until when not to ask again.
struct Refusal {
    message: String,
    until: Timestamp,
}

struct Shell {
    cluster: ClusterHandle,
    config: Arc<WorkloadConfig>,
    feed: Feed,
    index: Index,
    fresh: Fresh,
    queue: Queue<Key>,
    writer: ClusterWriter,
    effort: Arc<WorkCounters>,
    refusals: BTreeMap<Key, Refusal>,
    /// Failures in a row, by key.
    tries: BTreeMap<Key, u32>,
}

impl Shell {
    fn new(cluster: ClusterHandle, config: Arc<WorkloadConfig>, effort: Arc<WorkCounters>) -> Self {
        let seed = cluster.env().entropy.u64();
        let local = cluster.local(ACTOR);
        Self {
            feed: Feed::new(&cluster),
            index: Index::default(),
            fresh: Fresh::default(),
            queue: Queue::seeded(seed),
            writer: ClusterWriter {
                local,
                recorder: Recorder::default(),
                effort: Arc::clone(&effort),
                lost_events: 0,
            },
            effort,
            refusals: BTreeMap::new(),
            tries: BTreeMap::new(),
            cluster,
            config,
        }
    }

    fn now(&self) -> Timestamp {
        self.cluster.env().clock.now()
    }

    async fn run(mut self) {
        // Boxed: a task is as large as the largest future it awaits, and this one mostly sleeps.
        Box::pin(self.furnish()).await;
        loop {
            let Some(changes) = poll_fn(|cx| Poll::Ready(self.feed.poll(cx))).await else { return };
            self.take_in(changes);
            let now = self.now();
            if let Some(key) = self.queue.pop(now) {
                Box::pin(self.look(key, now)).await;
                continue;
            }
            self.fresh.clear();
            let due = self.queue.next();
            let Some(changes) = self.sleep(due, now).await else { return };
            self.take_in(changes);
        }
    }

    /// Waits for a change or for the next key to fall due. `None` when the cluster is gone.
    async fn sleep(&mut self, due: Option<Timestamp>, now: Timestamp) -> Option<Vec<Change>> {
        let mut timer = due.map(|due| {
            let span = Duration::try_from(due.duration_since(now)).unwrap_or_default();
            // At least a millisecond, the grain of tokio's clock.
            Box::pin(tokio::time::sleep(span.max(Duration::from_millis(1))))
        });
        poll_fn(|cx| {
            let changes = match self.feed.poll(cx) {
                Some(changes) => changes,
                None => return Poll::Ready(None),
            };
            let rings = timer.as_mut().is_some_and(|t| Pin::new(t).poll(cx).is_ready());
            if rings || !changes.is_empty() { Poll::Ready(Some(changes)) } else { Poll::Pending }
        })
        .await
    }

    /// Nodes, once. The first is made last, so that it tells whether all were made: one
    /// that somebody removed later stays away, unless it is the first.
    async fn furnish(&mut self) {
        for number in (1..=self.config.nodes).rev() {
            let object = node::make(number, &self.config, self.now());
            let first = node::name(1, &self.config);
            if self.cluster.store().get("nodes", &ObjectKey::new("", first)).is_some() {
                return;
            }
            for attempt in 0..20 {
                match self.make_node(&object).await {
                    Ok(()) => break,
                    Err(error) => tracing::debug!(%error, number, "a node could not be made"),
                }
                tokio::time::sleep(pause(attempt)).await;
            }
        }
    }

    /// Creation takes the status of a node as well.
    async fn make_node(&self, object: &Value) -> Result<(), ApiError> {
        match self.writer.local.create("nodes", "", object.clone()).await {
            // An answer that was lost the last time.
            Err(error) if error.reason == "AlreadyExists" => Ok(()),
            other => other.map(drop),
        }
    }

    fn take_in(&mut self, changes: Vec<Change>) {
        let mut work = BTreeSet::new();
        let mut kinds_changed = false;
        for Change { resource, object: stored, gone } in changes {
            kinds_changed |= &*resource == "customresourcedefinitions.apiextensions.k8s.io";
            self.effort.parse();
            let Some(object) = observe::parse_as(&resource, &stored) else { continue };
            if gone {
                self.index.remove(&resource, &object, &mut work);
            } else {
                self.index.put(&resource, &object, &mut work);
                if observe::is_read_whole(&resource) {
                    self.fresh.keep(stored.revision, object);
                }
            }
        }
        if kinds_changed {
            self.feed.refresh();
            // Owners of a kind that nobody knew may be known now.
            let uids: Vec<Key> = self
                .index
                .graph
                .uids()
                .filter(|uid| self.index.graph.get(uid).is_some_and(|n| !n.owners.is_empty()))
                .map(|uid| Key::new(key::Controller::Garbage, "", uid))
                .collect();
            work.extend(uids);
        }
        let now = self.now();
        let wanted = |key: &Key| self.config.runs_workloads || key.controller.is_housekeeping();
        for key in work.into_iter().filter(wanted) {
            self.queue.push(key, now);
        }
    }

    /// One controller looks at one object and does what it decides.
    async fn look(&mut self, key: Key, now: Timestamp) {
        let refusal = self.refusals.get(&key);
        if refusal.is_some_and(|r| r.until <= now) {
            self.refusals.remove(&key);
        }
        let refusal = self.refusals.get(&key).map(|r| (r.message.clone(), r.until));
        let view = View {
            cluster: &self.cluster,
            index: &self.index,
            fresh: RefCell::new(&mut self.fresh),
            config: &self.config,
            effort: &self.effort,
            refusal: refusal.as_ref().map(|(message, _)| message.clone()),
            now,
        };
        self.effort.pass();
        let plan = view.plan(&key);
        let outcome = self.writer.carry_out(plan.actions, now).await;
        match outcome {
            Ok(()) => {
                if refusal.is_none() {
                    self.tries.remove(&key);
                }
                for moment in plan.wake.into_iter().chain(refusal.map(|(_, until)| until)) {
                    self.queue.push(key.clone(), moment);
                }
            }
            Err(failed) => self.postpone(key, failed, now),
        }
    }

    fn postpone(&mut self, key: Key, failed: ActionError, now: Timestamp) {
        let tries = self.tries.entry(key.clone()).or_default();
        let wait = pause(*tries);
        *tries = tries.saturating_add(1);
        let later = SignedDuration::try_from(wait).ok().and_then(|w| now.checked_add(w).ok());
        let later = later.unwrap_or(now);
        match failed {
            ActionError::LookAgain | ActionError::TryLater => {
                tracing::debug!(?key, ?failed, tries = *tries, "a plan was not carried out");
                self.queue.push(key, later);
            }
            ActionError::Refused(message) => {
                tracing::warn!(?key, message, tries = *tries, "the server refused");
                // Looks at once, to report; asks again later. Who was told already and asked
                // all the same has nothing to report, and would ask for ever.
                let refusal = Refusal { message, until: later };
                let told = self.refusals.insert(key.clone(), refusal).is_some();
                self.queue.push(key, if told { later } else { now });
            }
        }
    }
}

/// Five milliseconds, doubled with every try, up to about a quarter of an hour.
fn pause(tries: u32) -> Duration {
    // Seventeen doublings, as in controller-runtime, whose thousand seconds they stay below.
    Backoff { first: Duration::from_millis(5), longest: Duration::from_millis(5 << 17) }
        .after(tries)
}
