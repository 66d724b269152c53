//! The work generators: `flagship_rules::work`, kept in step with the hub.
//!
//! One queue of binding keys per scope. `triggers` says which change makes which binding
//! worth a pass, `observe` reads what a pass may look at, `contents` the manifests for
//! passes that have to write, and `shell` carries the plan out. Every word of a member
//! about a Work is a pass, which writes only if the binding's status changes by it.

mod contents;
mod observe;
mod shell;
mod triggers;

use std::sync::Arc;

use flagship_api::names::ObjectKey;
use flagship_runtime::events::Recorder;
use flagship_runtime::queue::{Queue, QueueConfig, Workers};
use flagship_runtime::reflector::Subscription;
use tokio::task::JoinSet;

use crate::hub::Context;
use crate::mirrors::Mirrors;
use crate::scope::{ClusterWide, InNamespace, Scoped};
use shell::Shell;

/// Events are recorded under this name.
const COMPONENT: &str = "work-generator";

/// The running work generators.
pub(crate) struct Works {
    cluster_wide: Queue<ObjectKey>,
    in_namespaces: Queue<ObjectKey>,
    shell: Arc<Shell>,
    workers: usize,
    _subscriptions: Vec<Subscription>,
}

impl Works {
    /// Starts listening to the mirrors, which are filled already.
    pub fn new(cx: &Context, mirrors: &Arc<Mirrors>, tasks: &mut JoinSet<()>) -> Self {
        let queue = |name| Queue::new(QueueConfig::named(name), &cx.metrics);
        let cluster_wide = queue("cluster-resource-binding-work-generator");
        let in_namespaces = queue("resource-binding-work-generator");
        let recorder = Recorder::new(&cx.client, &cx.env, &cx.metrics, COMPONENT);
        let writing = recorder.clone();
        tasks.spawn(async move { writing.run().await });
        let mut subscriptions =
            triggers::listen::<ClusterWide>(mirrors, Some(&mirrors.cluster_wide), &cluster_wide);
        subscriptions.extend(triggers::listen::<InNamespace>(
            mirrors,
            mirrors.in_namespaces.as_ref(),
            &in_namespaces,
        ));
        Self {
            cluster_wide,
            in_namespaces,
            shell: Arc::new(Shell::new(cx.clone(), mirrors.clone(), recorder)),
            workers: cx.options.work_workers(),
            _subscriptions: subscriptions,
        }
    }

    /// Runs passes until the controllers are closed and drained.
    pub async fn run(&self) {
        futures::join!(
            self.passes::<ClusterWide>(&self.cluster_wide),
            self.passes::<InNamespace>(&self.in_namespaces),
        );
    }

    async fn passes<S: Scoped>(&self, queue: &Queue<ObjectKey>) {
        let workers = Workers::new(queue.clone(), self.workers, self.shell.metrics());
        let shell = self.shell.clone();
        workers
            .run(move |key| {
                let shell = shell.clone();
                async move { shell.pass::<S>(key).await }
            })
            .await;
    }

    /// Takes no more keys.
    pub fn close(&self) {
        self.cluster_wide.close();
        self.in_namespaces.close();
    }
}
