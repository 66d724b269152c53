//! The override controllers: `flagship_rules::overrides::snapshots`, kept in step with
//! the hub.
//!
//! One queue of overrides per scope. Freezing is all that happens here: which cluster gets
//! which snapshot is decided by rollouts and update runs.

mod shell;
mod triggers;

use std::sync::Arc;

use flagship_api::names::ObjectKey;
use flagship_runtime::queue::{Queue, QueueConfig, Workers};
use flagship_runtime::reflector::Subscription;

use crate::hub::Context;
use crate::mirrors::Mirrors;
use crate::scope::{ClusterWide, InNamespace, Overriding};
use shell::Shell;

/// The running override controllers.
pub(crate) struct Overrides {
    cluster_wide: Controller<ClusterWide>,
    in_namespaces: Controller<InNamespace>,
}

/// The controller of one scope.
struct Controller<S: Overriding> {
    queue: Queue<ObjectKey>,
    shell: Arc<Shell<S>>,
    _subscriptions: Vec<Subscription>,
}

impl Overrides {
    /// Starts listening to the mirrors, which are filled already.
    pub fn new(cx: &Context, mirrors: &Arc<Mirrors>) -> Self {
        Self {
            cluster_wide: Controller::new(cx, mirrors),
            in_namespaces: Controller::new(cx, mirrors),
        }
    }

    /// Runs passes until the controllers are closed and drained.
    pub async fn run(&self) {
        futures::join!(self.cluster_wide.run(), self.in_namespaces.run());
    }

    /// Takes no more keys.
    pub fn close(&self) {
        self.cluster_wide.queue.close();
        self.in_namespaces.queue.close();
    }
}

impl<S: Overriding> Controller<S> {
    fn new(cx: &Context, mirrors: &Arc<Mirrors>) -> Self {
        let queue = Queue::new(QueueConfig::named(S::CONTROLLER), &cx.metrics);
        let subscriptions = triggers::listen(S::stores(&mirrors.overrides), &queue);
        let shell = Arc::new(Shell::new(cx, mirrors));
        Self { queue, shell, _subscriptions: subscriptions }
    }

    async fn run(&self) {
        let cx = self.shell.context();
        let workers = Workers::new(self.queue.clone(), cx.options.placement_workers(), &cx.metrics);
        let shell = self.shell.clone();
        workers
            .run(move |key| {
                let shell = shell.clone();
                async move { shell.pass(key).await }
            })
            .await;
    }
}
