//! Works: brought to the member, watched there, and told of on the hub.
//!
//! A pass reads the Work from a mirror of the hub, so that a hub that is away stops
//! neither drift from being mended nor objects from being restored; it only hears of it
//! later. What a pass decides is in `flagship_rules::apply`.
//!
//! `pass` is one look at a Work, `manifests` the way of one manifest, `withdrawal` what
//! happens when the Work is deleted, `triggers` which change makes a Work worth a look.

mod manifests;
mod metrics;
mod pass;
mod triggers;
mod withdrawal;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flagship_api::keys::field_manager;
use flagship_api::names::ObjectKey;
use flagship_api::work::{AppliedWork, Work};
use flagship_rules::apply::RequeueBackOff;
use flagship_runtime::client::{ResourceType, Selection};
use flagship_runtime::controller::Controller;
use flagship_runtime::effects::{SeenWrites, Writer};
use flagship_runtime::queue::{Queue, QueueConfig, RateLimit};
use flagship_runtime::readiness::missing;
use flagship_runtime::reflector::{Reflector, Store};
use tokio::task::JoinSet;

use crate::kinds::Kinds;
use crate::member::{Context, Unlisted};
use crate::watching::Watches;

/// A hub that comes back must not wait a quarter of an hour for news.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

/// What passes over Works share.
pub(crate) struct Applier {
    cx: Context,
    /// All Works of the member, as the hub has them.
    works: Store<Work>,
    /// All AppliedWorks, as the member has them.
    applied: Store<AppliedWork>,
    kinds: Kinds,
    watches: Watches,
    queue: Queue<ObjectKey>,
    seen: SeenWrites<ObjectKey>,
    back_offs: Mutex<BTreeMap<ObjectKey, RequeueBackOff>>,
}

/// The controller, and what is still to be listed on the hub and on the member.
pub(crate) fn controller(cx: &Context, tasks: &mut JoinSet<()>) -> (Controller, Unlisted) {
    let limit = RateLimit { max: LONGEST_BACKOFF, ..RateLimit::DEFAULT };
    let config = QueueConfig { limit, ..QueueConfig::named("work-applier") };
    let queue = Queue::new(config, &cx.metrics);
    let space = Selection::namespace(&cx.space);
    let works = Reflector::new(&cx.env, cx.hub.of::<Work>(), space, Some);
    let applied = Reflector::new(&cx.env, cx.member.of::<AppliedWork>(), Selection::all(), Some);
    let seen = SeenWrites::default();
    seen.shown_by(ResourceType::of::<Work>(), &works.store());
    seen.shown_by(ResourceType::of::<AppliedWork>(), &applied.store());
    let cx = Context { member: cx.member.named(field_manager::WORK_APPLIER), ..cx.clone() };
    let workers = cx.options.concurrent_works;
    let applier = Arc::new(Applier {
        works: works.store(),
        applied: applied.store(),
        kinds: Kinds::new(&cx.member),
        watches: Watches::new(&cx, &queue),
        queue: queue.clone(),
        seen,
        back_offs: Mutex::default(),
        cx,
    });
    let (on_hub, on_member) = (works.store(), applied.store());
    let unlisted: Unlisted = Box::new(move || {
        let works = missing(&on_hub, "Works on the hub");
        let applied = missing(&on_member, "AppliedWorks on the member");
        works.into_iter().chain(applied).collect()
    });
    let pass = |applier: Arc<Applier>, key| async move { applier.pass(&key).await };
    let controller = Controller::new(&queue, workers, &applier.cx.metrics, applier.clone(), pass)
        .listening(triggers::listen(&applier));
    tasks.spawn(works.run());
    tasks.spawn(applied.run());
    tasks.spawn(triggers::follow_gate(applier));
    (controller, unlisted)
}

impl Applier {
    /// Writes to the hub on behalf of a pass.
    fn hub<'a>(&'a self, key: &'a ObjectKey) -> Writer<'a, ObjectKey> {
        Writer::new(&self.cx.hub, &self.cx.leadership, &self.seen, key)
    }

    /// Writes to the member on behalf of a pass; manifests have a way of their own.
    fn member<'a>(&'a self, key: &'a ObjectKey) -> Writer<'a, ObjectKey> {
        Writer::new(&self.cx.member, &self.cx.leadership, &self.seen, key)
    }
}
