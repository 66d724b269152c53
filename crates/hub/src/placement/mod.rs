//! The placement controller: `flagship_rules::placement`, kept in step with the hub.
//!
//! One queue for each scope. `content` mirrors everything that could be selected,
//! `triggers` says which change makes which placement worth a pass, `observe` reads
//! what a pass may look at, `shell` carries the plan out.

mod content;
mod observe;
mod shell;
mod triggers;

use std::sync::Arc;

use flagship_api::names::{ObjectKey, Scope};
use flagship_runtime::events::Recorder;
use flagship_runtime::queue::{Queue, QueueConfig, Workers};
use futures::future::join_all;
use tokio::task::JoinSet;

use crate::hub::Context;
use crate::mirrors::Mirrors;
pub(crate) use content::Content;
use shell::Shell;
use triggers::Listening;

/// Events are recorded under this name.
const COMPONENT: &str = "placement-controller";

/// The running controller.
pub(crate) struct Placements {
    queues: Queues,
    shell: Arc<Shell>,
    _listening: Listening,
}

/// The queues of both scopes.
#[derive(Clone)]
pub(crate) struct Queues {
    cluster_wide: Queue<ObjectKey>,
    in_namespaces: Queue<ObjectKey>,
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

    /// The queue of a placement.
    fn of(&self, key: &ObjectKey) -> &Queue<ObjectKey> {
        match key.scope() {
            Scope::Cluster => &self.cluster_wide,
            Scope::Namespaced => &self.in_namespaces,
        }
    }

    fn add(&self, key: ObjectKey) {
        self.of(&key).add(key.clone());
    }
}

impl Placements {
    /// Starts listening to the mirrors, which are filled already.
    pub fn new(
        cx: &Context,
        mirrors: &Arc<Mirrors>,
        content: Arc<Content>,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let queues = Queues::new(cx);
        let recorder = Recorder::new(&cx.client, &cx.env, &cx.metrics, COMPONENT);
        let listening = triggers::listen(mirrors, &content, &queues);
        tasks.spawn(triggers::watch_kinds(mirrors.clone(), content.clone(), queues.clone()));
        let writing = recorder.clone();
        tasks.spawn(async move { writing.run().await });
        let shell = Arc::new(Shell::new(cx, mirrors.clone(), content, recorder));
        Self { queues, shell, _listening: listening }
    }

    /// Runs passes until the controller is closed and drained.
    pub async fn run(&self) {
        let both = [&self.queues.cluster_wide, &self.queues.in_namespaces].map(|queue| {
            let shell = self.shell.clone();
            let workers = Workers::new(queue.clone(), shell.workers(), shell.metrics());
            workers.run(move |key: ObjectKey| {
                let shell = shell.clone();
                async move { shell.pass(&key).await }
            })
        });
        join_all(both).await;
    }

    /// Takes no more keys.
    pub fn close(&self) {
        self.queues.cluster_wide.close();
        self.queues.in_namespaces.close();
    }
}
