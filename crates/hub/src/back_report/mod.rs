//! Statuses on their way back: what a member reports of an applied resource becomes the
//! status of the original on the hub, for placements that ask for it.
//!
//! One queue of Works. Who may have statuses back and which is decided in
//! `flagship_rules::work::back_report`; the member's side is the member's business.

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

/// Events are recorded under this name.
const COMPONENT: &str = "status-back-reporter";

/// Reason of the event on a placement that cannot have what it asks for.
const REFUSED: &str = "StatusBackReportingRefused";

/// The running controller.
pub(crate) struct BackReports {
    queue: Queue<ObjectKey>,
    shell: Arc<Shell>,
    workers: usize,
    _subscriptions: Vec<Subscription>,
}

impl BackReports {
    /// Starts listening to the mirrors, which are filled already.
    pub fn new(cx: &Context, mirrors: &Arc<Mirrors>, tasks: &mut JoinSet<()>) -> Self {
        let queue = Queue::new(QueueConfig::named(COMPONENT), &cx.metrics);
        let recorder = Recorder::new(&cx.client, &cx.env, &cx.metrics, COMPONENT);
        let writing = recorder.clone();
        tasks.spawn(async move { writing.run().await });
        Self {
            _subscriptions: triggers::listen(mirrors, &queue),
            shell: Arc::new(Shell::new(cx.clone(), mirrors.clone(), recorder)),
            workers: cx.options.back_report_workers(),
            queue,
        }
    }

    /// Runs passes until the controller is closed and drained.
    pub async fn run(&self) {
        let workers = Workers::new(self.queue.clone(), self.workers, self.shell.metrics());
        let shell = self.shell.clone();
        let pass = move |key: ObjectKey| {
            let shell = shell.clone();
            async move { shell.pass(key).await }
        };
        workers.run(pass).await;
    }

    /// Takes no more keys.
    pub fn close(&self) {
        self.queue.close();
    }
}
