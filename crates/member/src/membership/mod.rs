//! Joining, leaving and the heartbeat, through the InternalMemberCluster on the hub.
//!
//! `triggers` says which change is worth a pass, `observe` looks at the member, `shell`
//! carries out what the hub asks for and reports. What is reported is decided in
//! `flagship_rules::heartbeat`.

mod observe;
mod shell;
mod triggers;

use std::sync::Arc;
use std::time::Duration;

use flagship_api::cluster::InternalMemberCluster;
use flagship_api::names::ObjectKey;
use flagship_runtime::client::Selection;
use flagship_runtime::controller::Controller;
use flagship_runtime::events::Recorder;
use flagship_runtime::queue::{Queue, QueueConfig, RateLimit};
use flagship_runtime::readiness::missing;
use flagship_runtime::reflector::{Reflector, ReflectorConfig};
use tokio::task::JoinSet;

use crate::member::{Context, Unlisted};
use crate::properties::Collector;
use observe::Health;
use shell::Shell;

/// Events are recorded under this name.
const COMPONENT: &str = "v1beta1InternalMemberClusterController";

/// Silence of minutes would have the hub take us for gone: a failed heartbeat is tried
/// again at least this often.
const LONGEST_BACKOFF: Duration = Duration::from_secs(15);

/// How long changes of namespaces are gathered before they are reported.
const NAMESPACES_GATHERED: Duration = Duration::from_secs(1);

/// An agent may be there before the hub has made a place for it, and then joins at once: so
/// often it asks whether it may look by now.
pub(crate) const LONGEST_BEFORE_PLACE: Duration = Duration::from_secs(1);

/// The controller, and what is still to be listed on the hub.
pub(crate) fn controller(cx: &Context, tasks: &mut JoinSet<()>) -> (Controller, Unlisted) {
    let name = "internalmembercluster-controller";
    let limit = RateLimit { max: LONGEST_BACKOFF, ..RateLimit::DEFAULT };
    let queue: Queue<ObjectKey> =
        Queue::new(QueueConfig { limit, ..QueueConfig::named(name) }, &cx.metrics);
    let recorder = Recorder::new(&cx.hub, &cx.env, &cx.metrics, COMPONENT);
    let own = cx.name.clone();
    let internals = Reflector::new(
        &cx.env,
        cx.hub.of::<InternalMemberCluster>(),
        Selection::namespace(&cx.space),
        move |mut internal: InternalMemberCluster| {
            // Trees that nothing here reads, larger than all the rest.
            internal.metadata.managed_fields = None;
            (internal.metadata.name.as_ref() == Some(&own)).then_some(internal)
        },
    )
    .with_config(ReflectorConfig {
        longest_when_forbidden: LONGEST_BEFORE_PLACE,
        ..ReflectorConfig::default()
    });
    let mirror = internals.store();
    let subscription = triggers::listen(&mirror, &queue);
    tasks.spawn(internals.run());
    let collector = Collector::new(cx, tasks);
    let own = ObjectKey::namespaced(&cx.space, &cx.name);
    let waker = queue.clone();
    let namespaces =
        collector.on_namespaces(move || waker.add_after(own.clone(), NAMESPACES_GATHERED));
    let health = Health::new(cx, collector);
    let shell = Arc::new(Shell::new(cx, mirror.clone(), recorder.clone(), health));
    let pass = |shell: Arc<Shell>, key: ObjectKey| async move { shell.pass(&key).await };
    let controller = Controller::new(&queue, 1, &cx.metrics, shell, pass)
        .listening([subscription].into_iter().chain(namespaces))
        .recording(&recorder);
    let what = "InternalMemberClusters on the hub";
    let unlisted: Unlisted = Box::new(move || missing(&mirror, what).into_iter().collect());
    (controller, unlisted)
}
