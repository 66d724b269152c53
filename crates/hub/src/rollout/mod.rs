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

use flagship_api::names::Scope;
use flagship_runtime::controller::Controller;
use flagship_runtime::queue::{Queue, QueueConfig};

use crate::hub::Context;
use crate::mirrors::{Mirrors, ScopeMirrors};
use crate::scope::{ClusterWide, InNamespace, Scoped};
use shell::Shell;

/// Starts listening to the mirrors, which are filled already.
pub(crate) fn controllers(cx: &Context, mirrors: &Arc<Mirrors>) -> Vec<Controller> {
    let cluster_wide = of_scope::<ClusterWide>(cx, mirrors, &mirrors.cluster_wide);
    let in_namespaces = mirrors.in_namespaces.as_ref();
    let in_namespaces = in_namespaces.map(|scope| of_scope::<InNamespace>(cx, mirrors, scope));
    [cluster_wide].into_iter().chain(in_namespaces).collect()
}

fn of_scope<S: Scoped>(cx: &Context, mirrors: &Arc<Mirrors>, scope: &ScopeMirrors) -> Controller {
    let name = match S::SCOPE {
        Scope::Cluster => "cluster-resource-placement-rollout-controller",
        Scope::Namespaced => "resource-placement-rollout-controller",
    };
    let queue = Queue::new(QueueConfig::named(name), &cx.metrics);
    let shell = Arc::new(Shell::<S>::new(cx, mirrors, scope, &queue));
    let workers = cx.options.rollout_workers();
    let controller =
        Controller::new(&queue, workers, &cx.metrics, shell, |shell, key| async move {
            shell.pass(key).await
        });
    controller.listening(triggers::listen::<S>(mirrors, scope, &queue))
}
