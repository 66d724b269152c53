//! The membership controller: `flagship_rules::membership`, kept in step with the hub.
//!
//! Every word of a member's agents is a pass that copies it to the MemberCluster; so is
//! every change of what the hub keeps for the member, which is repaired.

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

/// Events are recorded under this name.
const COMPONENT: &str = "mcv1beta1";

/// The running controller.
pub(crate) struct Membership {
    queue: Queue<ObjectKey>,
    shell: Arc<Shell>,
    workers: usize,
    _subscriptions: Vec<Subscription>,
}

impl Membership {
    /// Starts listening to the mirrors, which are filled already.
    pub fn new(cx: &Context, mirrors: &Arc<Mirrors>, tasks: &mut JoinSet<()>) -> Self {
        let queue = Queue::new(QueueConfig::named("membercluster-controller"), &cx.metrics);
        let recorder = Recorder::new(&cx.client, &cx.env, &cx.metrics, COMPONENT);
        let subscriptions = triggers::listen(mirrors, &queue);
        let writing = recorder.clone();
        tasks.spawn(async move { writing.run().await });
        let shell = Arc::new(Shell::new(cx, mirrors.clone(), recorder));
        let workers = cx.options.membership_workers();
        Self { queue, shell, workers, _subscriptions: subscriptions }
    }

    /// Runs passes until the controller is closed and drained.
    pub async fn run(&self) {
        let workers = Workers::new(self.queue.clone(), self.workers, self.shell.metrics());
        let shell = self.shell.clone();
        let pass = move |key: ObjectKey| {
            let shell = shell.clone();
            async move { shell.pass(&key).await }
        };
        workers.run(pass).await;
    }

    /// Takes no more keys.
    pub fn close(&self) {
        self.queue.close();
    }
}
