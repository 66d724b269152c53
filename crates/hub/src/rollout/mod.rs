//! The rollout controllers: `flagship_rules::rollout`, kept in step with the hub.
//!
//! One queue of placements per scope. `triggers` says which change makes which placement
//! worth a pass, `observe` reads what a pass may look at, `shell` carries the plan out. A
//! pass does not know why it was woken, and looks again by itself only where time alone
//! makes the next move possible.

mod observe;
mod shell;
mod triggers;

use std::sync::Arc;

use flagship_api::names::{ObjectKey, Scope};
use flagship_runtime::queue::{Queue, QueueConfig, Workers};
use flagship_runtime::reflector::Subscription;

use crate::hub::Context;
use crate::mirrors::{Mirrors, ScopeMirrors};
use crate::scope::{ClusterWide, InNamespace, Scoped};
use shell::Shell;

/// The running rollout controllers.
pub(crate) struct Rollouts {
    cluster_wide: Controller<ClusterWide>,
    in_namespaces: Option<Controller<InNamespace>>,
}

/// The controller of one scope.
struct Controller<S: Scoped> {
    cx: Context,
    queue: Queue<ObjectKey>,
    shell: Arc<Shell<S>>,
    _subscriptions: Vec<Subscription>,
}

impl Rollouts {
    /// Starts listening to the mirrors, which are filled already.
    pub fn new(cx: &Context, mirrors: &Arc<Mirrors>) -> Self {
        let scope = mirrors.in_namespaces.as_ref();
        Self {
            cluster_wide: Controller::new(cx, mirrors, &mirrors.cluster_wide),
            in_namespaces: scope.map(|scope| Controller::new(cx, mirrors, scope)),
        }
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
    fn new(cx: &Context, mirrors: &Arc<Mirrors>, scope: &ScopeMirrors) -> Self {
        let name = match S::SCOPE {
            Scope::Cluster => "cluster-resource-placement-rollout-controller",
            Scope::Namespaced => "resource-placement-rollout-controller",
        };
        let queue = Queue::new(QueueConfig::named(name), &cx.metrics);
        let subscriptions = triggers::listen::<S>(mirrors, scope, &queue);
        let shell = Arc::new(Shell::new(cx, mirrors, scope, &queue));
        Self { cx: cx.clone(), queue, shell, _subscriptions: subscriptions }
    }

    async fn run(&self) {
        let count = self.cx.options.rollout_workers();
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
