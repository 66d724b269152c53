//! Joining, leaving and the heartbeat, through the InternalMemberCluster on the hub.
//!
//! What is said is decided in `flagship_rules::agent`.

mod shell;

use std::sync::Arc;
use std::time::Duration;

use flagship_api::cluster::InternalMemberCluster;
use flagship_api::names::ObjectKey;
use flagship_runtime::client::Selection;
use flagship_runtime::events::Recorder;
use flagship_runtime::queue::{Queue, QueueConfig, RateLimit, Workers};
use flagship_runtime::reflector::{Change, Reflector, Store, Subscription};
use tokio::task::JoinSet;

use crate::member::{Context, Probe};
use crate::properties::Collector;
use crate::readiness::missing;
use shell::Shell;

/// Events are recorded under this name.
const COMPONENT: &str = "v1beta1InternalMemberClusterController";

/// Silence of minutes would have the hub take us for gone: a failed heartbeat is tried
/// again at least this often.
const LONGEST_BACKOFF: Duration = Duration::from_secs(15);

/// The running controller.
pub(crate) struct Membership {
    queue: Queue<ObjectKey>,
    shell: Arc<Shell>,
    internals: Store<InternalMemberCluster>,
    cx: Context,
    _subscription: Subscription,
}

impl Membership {
    pub fn new(cx: &Context, tasks: &mut JoinSet<()>) -> Self {
        let name = "internalmembercluster-controller";
        let limit = RateLimit { max: LONGEST_BACKOFF, ..RateLimit::DEFAULT };
        let queue = Queue::new(QueueConfig { limit, ..QueueConfig::named(name) }, &cx.metrics);
        let recorder = Recorder::new(&cx.hub, &cx.env, &cx.metrics, COMPONENT);
        let writing = recorder.clone();
        tasks.spawn(async move { writing.run().await });
        let own = cx.name.clone();
        let internals = Reflector::new(
            &cx.env,
            cx.hub.of::<InternalMemberCluster>(),
            Selection::namespace(&cx.space),
            move |internal: InternalMemberCluster| {
                (internal.metadata.name.as_ref() == Some(&own)).then_some(internal)
            },
        );
        let mirror = internals.store();
        tasks.spawn(internals.run());
        let waker = queue.clone();
        let subscription = mirror.subscribe(move |change| {
            if is_asked_anew(change) {
                waker.add((*change.key).clone());
            }
        });
        let collector = Collector::new(cx, tasks);
        let shell = Arc::new(Shell::new(cx, mirror.clone(), recorder, collector));
        Self { queue, shell, internals: mirror, cx: cx.clone(), _subscription: subscription }
    }

    /// Runs passes until the controller is closed and drained.
    pub async fn run(&self) {
        let workers = Workers::new(self.queue.clone(), 1, &self.cx.metrics);
        let shell = self.shell.clone();
        let pass = move |key: ObjectKey| {
            let shell = shell.clone();
            async move { shell.pass(&key).await }
        };
        workers.run(pass).await;
    }

    /// Says what is still to be listed on the hub.
    pub fn probe(&self) -> Probe {
        let internals = self.internals.clone();
        let what = "InternalMemberClusters on the hub";
        Box::new(move || missing(&internals, what).into_iter().collect())
    }

    /// Takes no more keys.
    pub fn close(&self) {
        self.queue.close();
    }
}

/// What agents say is no news; what the hub asks is.
fn is_asked_anew(change: &Change<InternalMemberCluster>) -> bool {
    let asked = |internal: &Arc<InternalMemberCluster>| {
        (internal.metadata.uid.clone(), internal.metadata.generation)
    };
    change.old.as_ref().map(asked) != change.new.as_ref().map(asked)
}
