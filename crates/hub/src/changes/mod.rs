//! The change detector: objects that came, changed or went, and the placements that
//! select them or might.
//!
//! A key is looked at as it is now; only what it was before is remembered, because an
//! object that is gone, or has lost a label, concerns whoever selected it. Content
//! decides what is a change: a new status or annotation of a server is none.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use flagship_api::names::{ObjectKey, Scope};
use flagship_rules::placement::selection::Kind;
use flagship_rules::placement::triggers::{Changed, concerns};
use flagship_runtime::controller::Controller;
use flagship_runtime::dynamic::ServedType;
use flagship_runtime::queue::{Outcome, Queue, QueueConfig};
use flagship_runtime::reflector::Change;

use crate::hub::Context;
use crate::mirrors::Mirrors;
use crate::placement::{Kept, Queues, Selectable, gvk, kind_served, placements};

/// Finds out which placements a changed object concerns.
pub(crate) struct Detector(Arc<Shared>);

struct Shared {
    cx: Context,
    mirrors: Arc<Mirrors>,
    selectable: Arc<Selectable>,
    placements: Queues,
    queue: Queue<Object>,
    /// What objects in the queue were before.
    before: Mutex<BTreeMap<Object, Arc<Kept>>>,
}

/// One object of any kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Object {
    kind: Kind,
    key: ObjectKey,
}

impl Detector {
    /// A detector that does not listen yet.
    pub fn new(
        cx: &Context,
        mirrors: &Arc<Mirrors>,
        selectable: Arc<Selectable>,
        placements: Queues,
    ) -> Self {
        let limit = cx.options.placement_limit;
        let config = QueueConfig { limit, ..QueueConfig::named("resource-change-controller") };
        let queue = Queue::new(config, &cx.metrics);
        let (cx, mirrors) = (cx.clone(), mirrors.clone());
        let before = Mutex::default();
        Self(Arc::new(Shared { cx, mirrors, selectable, placements, queue, before }))
    }

    /// Listens from now on. Every placement looks by itself at the start, so what is there
    /// already wakes nothing; hence the first passes must begin after this returns.
    pub fn listen(self) -> Controller {
        let started = Arc::new(AtomicBool::new(false));
        let (shared, has_started) = (self.0.clone(), started.clone());
        let subscription = self.0.selectable.registry().subscribe(move |served, change| {
            if has_started.load(Ordering::Acquire) {
                shared.note(served, change);
            }
        });
        started.store(true, Ordering::Release);
        let Context { options, metrics, .. } = &self.0.cx;
        let (queue, workers) = (&self.0.queue, options.concurrent_resource_changes);
        let controller =
            Controller::new(queue, workers, metrics, self.0.clone(), |shared, object| async move {
                shared.look(&object)
            });
        controller.listening([subscription])
    }
}

impl Shared {
    fn note(&self, served: &ServedType, change: &Change<Kept>) {
        if change.old == change.new {
            return;
        }
        let object = Object { kind: kind_served(served), key: (*change.key).clone() };
        // Endpoints of a Service are made again wherever the Service goes, and stay here.
        if object.kind.is("", "v1", "Endpoints") && self.is_service(&object.key) {
            return;
        }
        // So they begin or cease to count when it goes or comes.
        if object.kind.is("", "v1", "Service") && change.old.is_some() != change.new.is_some() {
            let kind = Kind::new("", "v1", "Endpoints");
            self.queue.add(Object { kind, key: object.key.clone() });
        }
        if let Some(old) = &change.old {
            let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
            // The oldest word that nobody has looked at yet.
            before.entry(object.clone()).or_insert_with(|| old.clone());
        }
        self.queue.add_with(object, change.origin.priority());
    }

    fn is_service(&self, key: &ObjectKey) -> bool {
        let services = self.selectable.registry().store(&gvk(&Kind::new("", "v1", "Service")));
        services.is_some_and(|services| services.get(key).is_some())
    }

    fn look(&self, object: &Object) -> Outcome {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner).remove(object);
        let store = self.selectable.registry().store(&gvk(&object.kind));
        let now = store.and_then(|store| store.get(&object.key));
        let space = object.key.namespace.as_deref();
        let around = space.and_then(|space| self.selectable.namespace_labels(space));
        let kept_back = space
            .is_some_and(|space| self.cx.options.selection.skipped_namespaces.keep_back(space));
        for (key, placement) in placements(&self.mirrors) {
            // Nothing of such a namespace leaves the hub but by a placement inside it.
            if kept_back && key.scope() == Scope::Cluster {
                continue;
            }
            let concerned = [&before, &now].into_iter().any(|version| {
                let changed = Changed {
                    kind: &object.kind,
                    namespace: space,
                    name: &object.key.name,
                    labels: version.as_ref().map(|kept| &kept.labels),
                    namespace_labels: around.as_ref().map(|kept| &kept.labels),
                };
                concerns(&placement.value, &changed)
            });
            if concerned {
                self.placements.add((*key).clone());
            }
        }
        Outcome::Done
    }
}
