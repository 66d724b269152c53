//! Works: brought to the member, watched there, and told of on the hub.
//!
//! A pass reads the Work from a mirror of the hub, so that a hub that is away stops
//! neither drift from being mended nor objects from being restored; it only hears of it
//! later. What a pass decides is in `flagship_rules::apply`.
//!
//! `triggers` says which change makes a Work worth a pass, `observe` reads what the pass
//! starts from, `shell` carries out what the rules say.

mod metrics;
mod observe;
mod shell;
mod triggers;

use std::sync::Arc;
use std::time::Duration;

use flagship_api::work::{AppliedWork, Work};
use flagship_runtime::client::Selection;
use flagship_runtime::controller::Controller;
use flagship_runtime::queue::{Queue, QueueConfig, RateLimit};
use flagship_runtime::readiness::missing;
use flagship_runtime::reflector::{Reflector, ReflectorConfig};
use tokio::task::JoinSet;

use crate::member::{Context, Unlisted};
use crate::membership::LONGEST_BEFORE_PLACE;
use observe::Mirrors;
use shell::Shell;

/// A hub that comes back must not wait a quarter of an hour for reports.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

/// The controller, and what is still to be listed on the hub and on the member.
pub(crate) fn controller(cx: &Context, tasks: &mut JoinSet<()>) -> (Controller, Unlisted) {
    let limit = RateLimit { max: LONGEST_BACKOFF, ..RateLimit::DEFAULT };
    let config = QueueConfig { limit, ..QueueConfig::named("work-applier") };
    let queue = Queue::new(config, &cx.metrics);
    let space = Selection::namespace(&cx.space);
    let works = Reflector::new(&cx.env, cx.hub.of::<Work>(), space, |mut work: Work| {
        work.metadata.managed_fields = None;
        Some(work)
    })
    .with_config(ReflectorConfig {
        longest_when_forbidden: LONGEST_BEFORE_PLACE,
        ..ReflectorConfig::default()
    });
    let applied = cx.member.of::<AppliedWork>();
    let applied = Reflector::new(&cx.env, applied, Selection::all(), |mut one: AppliedWork| {
        one.metadata.managed_fields = None;
        Some(one)
    });
    let workers = cx.options.concurrent_works;
    let mirrors = Mirrors { works: works.store(), applied: applied.store() };
    let shell = Arc::new(Shell::new(cx, mirrors, &queue));
    let (on_hub, on_member) = (works.store(), applied.store());
    let unlisted: Unlisted = Box::new(move || {
        let works = missing(&on_hub, "Works on the hub");
        let applied = missing(&on_member, "AppliedWorks on the member");
        works.into_iter().chain(applied).collect()
    });
    let pass = |shell: Arc<Shell>, key| async move { shell.pass(&key).await };
    let controller = Controller::new(&queue, workers, &cx.metrics, shell.clone(), pass)
        .listening(triggers::listen(&shell));
    tasks.spawn(works.run());
    tasks.spawn(applied.run());
    tasks.spawn(triggers::follow_gate(shell));
    (controller, unlisted)
}
