//! The update run controllers: `flagship_rules::update_run`, kept in step with the hub.
//!
//! One queue of runs per scope; placements take turns in it, and passes of one run never
//! overlap. `triggers` says which change makes which run worth a pass, `observe` and
//! `afresh` read what a pass may look at, `shell` carries the plan out, `series` tells the
//! metrics. A pass does not know why it was woken.

mod afresh;
mod observe;
mod series;
mod shell;
mod triggers;

use std::sync::Arc;

use flagship_api::names::{ObjectKey, Scope};
use flagship_runtime::queue::{Queue, QueueConfig, Workers};
use flagship_runtime::reflector::Subscription;
use tokio::task::JoinSet;

use crate::hub::Context;
use crate::mirrors::{Mirrors, Run, ScopeMirrors};
use crate::placement::Selectable;
use crate::scope::{ClusterWide, InNamespace, Scoped};
use shell::Shell;

/// The running update run controllers.
pub(crate) struct UpdateRuns {
    cluster_wide: Controller<ClusterWide>,
    in_namespaces: Option<Controller<InNamespace>>,
}

/// The controller of one scope.
struct Controller<S: Scoped> {
    cx: Context,
    queue: RunQueue,
    shell: Arc<Shell<S>>,
    _subscriptions: Vec<Subscription>,
}

/// Runs, in turns by their placements.
type RunQueue = Queue<RunKey, ObjectKey>;

/// A run and the placement it rolls out, which never changes. A namesake for another
/// placement has another key, and passes over the old key find nothing to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RunKey {
    placement: ObjectKey,
    run: ObjectKey,
}

impl RunKey {
    fn of(run: &Run) -> Self {
        Self { placement: run.placement.clone(), run: run.fence.key.clone() }
    }
}

impl UpdateRuns {
    /// Starts listening to the mirrors, which are filled already.
    pub fn new(
        cx: &Context,
        mirrors: &Arc<Mirrors>,
        selectable: &Arc<Selectable>,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let cluster_wide = Controller::new(cx, mirrors, &mirrors.cluster_wide, selectable, tasks);
        let in_namespaces = mirrors.in_namespaces.as_ref();
        let in_namespaces =
            in_namespaces.map(|scope| Controller::new(cx, mirrors, scope, selectable, tasks));
        Self { cluster_wide, in_namespaces }
    }

    /// Runs passes until the controllers are closed and drained.
    pub async fn run(&self) {
        futures::join!(self.cluster_wide.run(), async {
            if let Some(in_namespaces) = &self.in_namespaces {
                in_namespaces.run().await;
            }
        });
    }

    /// Takes no more keys.
    pub fn close(&self) {
        self.cluster_wide.queue.close();
        self.in_namespaces.iter().for_each(|controller| controller.queue.close());
    }
}

impl<S: Scoped> Controller<S> {
    fn new(
        cx: &Context,
        mirrors: &Arc<Mirrors>,
        scope: &ScopeMirrors,
        selectable: &Arc<Selectable>,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let name = match S::SCOPE {
            Scope::Cluster => "clusterstagedupdaterun-controller",
            Scope::Namespaced => "stagedupdaterun-controller",
        };
        let config = QueueConfig { limit: cx.options.update_run_limit, ..QueueConfig::named(name) };
        let queue = Queue::grouped(config, &cx.metrics, |key: &RunKey| key.placement.clone());
        let shell = Shell::new(cx, mirrors, scope, selectable, &queue, tasks);
        let subscriptions = triggers::listen(&mirrors.members, scope, &queue);
        Self { cx: cx.clone(), queue, shell: Arc::new(shell), _subscriptions: subscriptions }
    }

    async fn run(&self) {
        let count = self.cx.options.concurrent_update_runs;
        let workers = Workers::new(self.queue.clone(), count, &self.cx.metrics);
        let shell = self.shell.clone();
        workers
            .run(move |key| {
                let shell = shell.clone();
                async move { shell.pass(key).await }
            })
            .await;
    }
}
