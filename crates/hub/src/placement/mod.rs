//! The placement controllers: `flagship_rules::placement`, kept in step with the hub.
//!
//! One queue of placement keys per scope. `triggers` and the change detector in
//! `changes` say which change makes which placement worth a pass, `observe` reads what
//! a pass may look at, `shell` carries the plan out. A pass does not know why it was woken.

mod metrics;
mod observe;
mod selectable;
mod shell;
mod triggers;
mod up_to_date;

use std::sync::Arc;

use flagship_api::names::{ObjectKey, Scope};
use flagship_runtime::controller::{Controller, Controllers};
use flagship_runtime::dynamic;
use flagship_runtime::events::Recorder;
use flagship_runtime::queue::{Queue, QueueConfig};
use flagship_runtime::readiness::Readiness;
use flagship_runtime::reflector::Entry;

use crate::changes::Detector;
use crate::hub::Context;
use crate::malformed_events::MalformedEvents;
use crate::mirrors::{Mirrors, Placement, ScopeMirrors};
use crate::scope::{ClusterWide, InNamespace, Scoped};
use shell::Shell;

pub(crate) use observe::{Preconditions, selected};
pub(crate) use selectable::{Kept, Selectable, gvk, kind_served, no_matches};
pub(crate) use shell::{delete_all, write_snapshot};
pub(crate) use up_to_date::up_to_date;

/// Events are recorded under this name.
const COMPONENT: &str = "placement-controller";

/// The queues of both scopes. Clones share them.
#[derive(Clone)]
pub(crate) struct Queues {
    cluster_wide: Queue<ObjectKey>,
    in_namespaces: Queue<ObjectKey>,
}

/// Controllers that listen only once the selectable objects are there: before that a
/// selection could only fail.
pub(crate) fn controllers(
    cx: &Context,
    mirrors: &Arc<Mirrors>,
    selectable: &Arc<Selectable>,
    malformed: &MalformedEvents,
) -> Vec<Controller> {
    let queues = Queues::new(cx);
    let (registry, hearing) = (selectable.registry(), malformed.clone());
    let complaining =
        registry.subscribe(move |served, change| hearing.hear(&served.resource, change));
    let probed = registry.clone();
    cx.readiness.set(move || match probed.readiness() {
        dynamic::Readiness::Ready => Readiness::Working,
        waiting => Readiness::Selecting(waiting.to_string()),
    });
    let recorder = Recorder::new(&cx.client, &cx.env, &cx.metrics, COMPONENT);
    let shell = Shell::new(cx.clone(), mirrors.clone(), selectable.clone(), recorder.clone());
    let detector = Detector::new(cx, mirrors, selectable.clone(), queues.clone());
    let awaited = selectable.clone();
    let (cx, mirrors, selectable) = (cx.clone(), mirrors.clone(), selectable.clone());
    let controller = Controller::once_ready(async move { awaited.ready().await }, move || {
        listening(&cx, &mirrors, &selectable, &queues, Arc::new(shell), detector)
    });
    vec![controller.listening([complaining]).recording(&recorder)]
}

fn listening(
    cx: &Context,
    mirrors: &Arc<Mirrors>,
    selectable: &Arc<Selectable>,
    queues: &Queues,
    shell: Arc<Shell>,
    detector: Detector,
) -> Controllers {
    // Before the first pass is asked for: what a pass did not see, it must be told of.
    let known = triggers::caught_up(selectable);
    let detector = detector.listen();
    let scopes = mirrors.scopes().zip([&queues.cluster_wide, &queues.in_namespaces]);
    let subscriptions: Vec<_> = scopes
        .flat_map(|(mirrors, queue)| triggers::listen(mirrors, queue, &shell.cost))
        .chain([triggers::copies_go(mirrors, &queues.cluster_wide)])
        .collect();
    let kinds =
        triggers::kinds_come_and_go(selectable.clone(), mirrors.clone(), queues.clone(), known);
    let cluster_wide = of_scope::<ClusterWide>(cx, &queues.cluster_wide, &shell);
    let in_namespaces = of_scope::<InNamespace>(cx, &queues.in_namespaces, &shell);
    let cluster_wide = cluster_wide.listening(subscriptions).with_task(kinds);
    [cluster_wide, in_namespaces, detector].into_iter().collect()
}

fn of_scope<S: Scoped>(cx: &Context, queue: &Queue<ObjectKey>, shell: &Arc<Shell>) -> Controller {
    let workers = cx.options.placement_workers();
    Controller::new(queue, workers, &cx.metrics, shell.clone(), |shell, key| async move {
        shell.pass::<S>(key).await
    })
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

    /// Asks for a pass over a placement.
    pub fn add(&self, key: ObjectKey) {
        match key.scope() {
            Scope::Cluster => self.cluster_wide.add(key),
            Scope::Namespaced => self.in_namespaces.add(key),
        }
    }
}

/// All placements that are served.
pub(crate) fn placements(mirrors: &Mirrors) -> impl Iterator<Item = Entry<Placement>> {
    mirrors.scopes().flat_map(|scope| scope.placements.all())
}
