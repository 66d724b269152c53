//! The scheduler: `flagship_rules::scheduling`, kept in step with the hub.
//!
//! One queue of placement keys for both scopes. `triggers` says which change makes
//! which placement worth a pass, `observe` reads what a pass may look at, `shell`
//! carries the plan out. A pass does not know why it was woken.

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
use shell::Shell;
use triggers::Ripples;

/// Events are recorded under this name.
const COMPONENT: &str = "scheduler-framework-DefaultProfile";

/// The running scheduler.
pub(crate) struct Scheduler {
    queue: Queue<ObjectKey>,
    shell: Arc<Shell>,
    _subscriptions: Vec<Subscription>,
}

impl Scheduler {
    /// Starts listening to the mirrors, which are filled already.
    pub fn new(cx: &Context, mirrors: &Arc<Mirrors>, tasks: &mut JoinSet<()>) -> Self {
        let queue = Queue::new(QueueConfig::named("scheduler-queue"), &cx.metrics);
        let recorder = Recorder::new(&cx.client, &cx.env, &cx.metrics, COMPONENT);
        let ripples = Arc::new(Ripples::default());
        let subscriptions = triggers::listen(cx, mirrors, &queue, &ripples);
        tasks.spawn(triggers::spread(cx.clone(), mirrors.clone(), queue.clone(), ripples));
        tasks.spawn(triggers::sweep(cx.clone(), mirrors.clone(), queue.clone()));
        let writing = recorder.clone();
        tasks.spawn(async move { writing.run().await });
        let shell = Arc::new(Shell::new(cx.clone(), mirrors.clone(), queue.clone(), recorder));
        Self { queue, shell, _subscriptions: subscriptions }
    }

    /// Runs passes until the scheduler is closed and drained.
    pub async fn run(&self) {
        let workers = self.shell.workers();
        let workers = Workers::new(self.queue.clone(), workers, self.shell.metrics());
        let shell = self.shell.clone();
        workers
            .run(move |key| {
                let shell = shell.clone();
                async move { shell.pass(key).await }
            })
            .await;
    }

    /// Takes no more keys.
    pub fn close(&self) {
        self.queue.close();
    }
}
