//! The scheduler: `flagship_rules::scheduling`, kept in step with the hub.
//!
//! One queue of placement keys for both scopes. `triggers` says which change makes
//! which placement worth a pass, `observe` reads what a pass may look at, `shell`
//! carries the plan out. A pass does not know why it was woken.

mod observe;
mod shell;
mod triggers;

use std::sync::Arc;

use flagship_runtime::controller::Controller;
use flagship_runtime::events::Recorder;
use flagship_runtime::queue::{Queue, QueueConfig};

use crate::hub::Context;
use crate::mirrors::Mirrors;
use shell::Shell;
use triggers::ClusterTriggers;

/// Events are recorded under this name.
const COMPONENT: &str = "scheduler-framework-DefaultProfile";

/// Starts listening to the mirrors, which are filled already.
pub(crate) fn controllers(cx: &Context, mirrors: &Arc<Mirrors>) -> Vec<Controller> {
    let queue = Queue::new(QueueConfig::named("scheduler-queue"), &cx.metrics);
    let recorder = Recorder::new(&cx.client, &cx.env, &cx.metrics, COMPONENT);
    let cluster_triggers = Arc::new(ClusterTriggers::default());
    let subscriptions = triggers::listen(cx, mirrors, &queue, &cluster_triggers);
    let shell = Arc::new(Shell::new(cx.clone(), mirrors.clone(), queue.clone(), recorder.clone()));
    let workers = cx.options.scheduler_workers();
    let controller =
        Controller::new(&queue, workers, &cx.metrics, shell, |shell, key| async move {
            shell.pass(key).await
        });
    let controller = controller
        .listening(subscriptions)
        .with_task(triggers::wake_for_clusters(
            cx.clone(),
            mirrors.clone(),
            queue.clone(),
            cluster_triggers,
        ))
        .with_task(triggers::sweep(cx.clone(), mirrors.clone(), queue))
        .recording(&recorder);
    vec![controller]
}
