//! The work generators: `flagship_rules::work`, kept in step with the hub.
//!
//! One queue of bindings per scope, in which placements take turns: one with a thousand
//! clusters does not keep a small one waiting. `triggers` says which change makes which binding
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
use flagship_runtime::metrics::Metrics;
use flagship_runtime::queue::{Queue, QueueConfig, Workers};
use flagship_runtime::reflector::Subscription;
use tokio::task::JoinSet;

use crate::hub::Context;
use crate::mirrors::{Binding, Mirrors};
use crate::scope::{ClusterWide, InNamespace, Scoped};
use shell::Shell;

/// Events are recorded under this name.
const COMPONENT: &str = "work-generator";

/// A binding and the placement it belongs to, which never changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BindingKey {
    placement: ObjectKey,
    binding: ObjectKey,
}

impl BindingKey {
    fn of(binding: &Binding) -> Self {
        Self { placement: binding.placement.clone(), binding: binding.fence.key.clone() }
    }
}

/// Bindings, their placements taking turns.
type Bindings = Queue<BindingKey, ObjectKey>;

fn bindings(name: &str, metrics: &Metrics) -> Bindings {
    Queue::grouped(QueueConfig::named(name), metrics, |key: &BindingKey| key.placement.clone())
}

/// The running work generators.
pub(crate) struct Works {
    cluster_wide: Bindings,
    in_namespaces: Bindings,
    shell: Arc<Shell>,
    workers: usize,
    _subscriptions: Vec<Subscription>,
}

impl Works {
    /// Starts listening to the mirrors, which are filled already.
    pub fn new(cx: &Context, mirrors: &Arc<Mirrors>, tasks: &mut JoinSet<()>) -> Self {
        let cluster_wide = bindings("cluster-resource-binding-work-generator", &cx.metrics);
        let in_namespaces = bindings("resource-binding-work-generator", &cx.metrics);
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

    async fn passes<S: Scoped>(&self, queue: &Bindings) {
        let workers = Workers::new(queue.clone(), self.workers, self.shell.metrics());
        let shell = self.shell.clone();
        workers
            .run(move |key| {
                let shell = shell.clone();
                async move { shell.pass::<S>(key.binding).await }
            })
            .await;
    }

    /// Takes no more keys.
    pub fn close(&self) {
        self.cluster_wide.close();
        self.in_namespaces.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_large_placement_does_not_keep_a_small_one_waiting() {
        let queue = bindings("test", &Metrics::default());
        let key = |placement: &str, binding: &str| BindingKey {
            placement: ObjectKey::cluster(placement),
            binding: ObjectKey::cluster(binding),
        };
        for cluster in ["a", "b", "c", "d"] {
            queue.add(key("large", &format!("large-{cluster}")));
        }
        queue.add(key("small", "small-a"));
        let mut claims = Vec::new();
        for _ in 0..3 {
            claims.extend(queue.next().await);
        }
        let order: Vec<_> = claims.iter().map(|claim| claim.key().binding.name.as_str()).collect();
        assert_eq!(order, ["large-a", "small-a", "large-b"]);
    }
}
