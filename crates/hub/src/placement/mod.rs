//! The placement controllers: `flagship_rules::placement`, kept in step with the hub.
//!
//! One queue of placement keys per scope. `triggers` and the change detector in
//! `changes` say which change makes which placement worth a pass, `observe` reads what
//! a pass may look at, `shell` carries the plan out. A pass does not know why it was woken.

mod observe;
mod selectable;
mod series;
mod shell;
mod triggers;
mod unreadable;
mod up_to_date;

use std::pin::pin;
use std::sync::Arc;

use flagship_api::names::{ObjectKey, Scope};
use flagship_runtime::dynamic::{self, DynamicSubscription};
use flagship_runtime::events::Recorder;
use flagship_runtime::queue::{Queue, QueueConfig, Workers};
use flagship_runtime::reflector::{Entry, Subscription};
use futures::future::{Either, select};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::changes::Detector;
use crate::complaints::Complaints;
use crate::hub::Context;
use crate::mirrors::{Mirrors, Placement, ScopeMirrors};
use crate::readiness::Readiness;
use crate::scope::{ClusterWide, InNamespace, Scoped};
use shell::Shell;

pub(crate) use observe::{Fences, selected};
pub(crate) use selectable::{Kept, Selectable, gvk, kind_served, no_matches};
pub(crate) use shell::{delete_all, write_snapshot};
pub(crate) use up_to_date::up_to_date;

/// Events are recorded under this name.
const COMPONENT: &str = "placement-controller";

/// The queues of both scopes. Clones share them.
#[derive(Clone)]
pub(crate) struct Queues {
    cluster_wide: Queue<ObjectKey>,
    in_namespaces: Queue<ObjectKey>,
}

/// The running placement controllers.
pub(crate) struct Placements {
    cx: Context,
    mirrors: Arc<Mirrors>,
    selectable: Arc<Selectable>,
    queues: Queues,
    shell: Arc<Shell>,
    detector: Detector,
    closing: watch::Sender<bool>,
    _complaining: DynamicSubscription,
}

impl Placements {
    /// Controllers that listen once they run.
    pub fn new(
        cx: &Context,
        mirrors: &Arc<Mirrors>,
        selectable: &Arc<Selectable>,
        complaints: &Complaints,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let queues = Queues::new(cx);
        let selectable = selectable.clone();
        let (registry, hearing) = (selectable.registry(), complaints.clone());
        let complaining =
            registry.subscribe(move |served, change| hearing.hear(&served.resource, change));
        let probed = registry.clone();
        cx.stage.enter(move || match probed.readiness() {
            dynamic::Readiness::Ready => Readiness::Working,
            waiting => Readiness::Selecting(waiting.to_string()),
        });
        let recorder = Recorder::new(&cx.client, &cx.env, &cx.metrics, COMPONENT);
        let writing = recorder.clone();
        tasks.spawn(async move { writing.run().await });
        let shell = Shell::new(cx.clone(), mirrors.clone(), selectable.clone(), recorder);
        Self {
            cx: cx.clone(),
            mirrors: mirrors.clone(),
            selectable: selectable.clone(),
            queues: queues.clone(),
            shell: Arc::new(shell),
            detector: Detector::new(cx, mirrors, selectable, queues),
            closing: watch::Sender::new(false),
            _complaining: complaining,
        }
    }

    /// Runs passes until the controllers are closed and drained. Listens only once the
    /// selectable objects are there: before that a selection could only fail.
    pub async fn run(&self) {
        let (ready, closed) = (pin!(self.selectable.ready()), pin!(self.closed()));
        if let Either::Right(_) = select(ready, closed).await {
            return;
        }
        // Before the first pass is asked for: what a pass did not see, it must be told of.
        let known = triggers::caught_up(&self.selectable);
        let _changes = self.detector.listen();
        let _subscriptions: Vec<Subscription> = self
            .mirrors
            .scopes()
            .zip([&self.queues.cluster_wide, &self.queues.in_namespaces])
            .flat_map(|(mirrors, queue)| triggers::listen(mirrors, queue))
            .chain([triggers::copies_go(&self.mirrors, &self.queues.cluster_wide)])
            .collect();
        let kinds = triggers::kinds_come_and_go(
            self.selectable.clone(),
            self.mirrors.clone(),
            self.queues.clone(),
            known,
        );
        // Ends with the passes, by being dropped.
        let mut listening = JoinSet::new();
        listening.spawn(kinds);
        futures::join!(
            self.passes::<ClusterWide>(&self.queues.cluster_wide),
            self.passes::<InNamespace>(&self.queues.in_namespaces),
            self.detector.run(),
        );
    }

    async fn passes<S: Scoped>(&self, queue: &Queue<ObjectKey>) {
        let count = self.cx.options.placement_workers();
        let workers = Workers::new(queue.clone(), count, &self.cx.metrics);
        let shell = self.shell.clone();
        workers
            .run(move |key| {
                let shell = shell.clone();
                async move { shell.pass::<S>(key).await }
            })
            .await;
    }

    async fn closed(&self) {
        // The sender lives in `self`, so the channel cannot be closed.
        self.closing.subscribe().wait_for(|closing| *closing).await.ok();
    }

    /// Takes no more keys.
    pub fn close(&self) {
        self.closing.send_replace(true);
        self.queues.cluster_wide.close();
        self.queues.in_namespaces.close();
        self.detector.close();
    }
}

impl Queues {
    fn new(cx: &Context) -> Self {
        let queue = |name: &str| {
            let limit = cx.options.placement_limit;
            Queue::new(QueueConfig { limit, ..QueueConfig::named(name) }, &cx.metrics)
        };
        Self {
            cluster_wide: queue("cluster-resource-placement-controller-v1beta1"),
            in_namespaces: queue("resource-placement-controller"),
        }
    }

    /// Asks for a pass over a placement.
    pub fn add(&self, key: ObjectKey) {
        match key.scope() {
            Scope::Cluster => self.cluster_wide.add(key),
            Scope::Namespaced => self.in_namespaces.add(key),
        }
    }
}

/// All placements that are served.
pub(crate) fn placements(mirrors: &Mirrors) -> impl Iterator<Item = Entry<Placement>> {
    mirrors.scopes().flat_map(|scope| scope.placements.all())
}
