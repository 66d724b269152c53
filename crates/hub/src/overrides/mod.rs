//! The override controllers: `flagship_rules::overrides::snapshots`, kept in step with
//! the hub.
//!
//! One queue of overrides per scope. Freezing is all that happens here: which cluster gets
//! which snapshot is decided by rollouts and update runs.

mod shell;
mod triggers;

use std::sync::Arc;

use flagship_runtime::controller::Controller;
use flagship_runtime::queue::{Queue, QueueConfig};

use crate::hub::Context;
use crate::mirrors::Mirrors;
use crate::scope::{ClusterWide, InNamespace, Overriding};
use shell::Shell;

/// Starts listening to the mirrors, which are filled already.
pub(crate) fn controllers(cx: &Context, mirrors: &Arc<Mirrors>) -> Vec<Controller> {
    vec![of_scope::<ClusterWide>(cx, mirrors), of_scope::<InNamespace>(cx, mirrors)]
}

fn of_scope<S: Overriding>(cx: &Context, mirrors: &Arc<Mirrors>) -> Controller {
    let queue = Queue::new(QueueConfig::named(S::CONTROLLER), &cx.metrics);
    let shell = Arc::new(Shell::<S>::new(cx, mirrors));
    let workers = cx.options.placement_workers();
    let controller =
        Controller::new(&queue, workers, &cx.metrics, shell, |shell, key| async move {
            shell.pass(key).await
        });
    controller.listening(triggers::listen(S::stores(&mirrors.overrides), &queue))
}
