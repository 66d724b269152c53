//! The update run controllers: `flagship_rules::update_run`, kept in step with the hub.
//!
//! One queue of runs per scope, fair between placements; passes of one run never overlap.
//! `triggers` says which change makes which run worth a pass, `observe` and `fresh_reads` read
//! what a pass may look at, `policies` what freezes say of it, `records`
//! keeps what happened, `shell` carries the plan out, `metrics` shows where each run
//! stands. A pass does not know why it was woken.

mod fresh_reads;
mod measure;
mod metrics;
mod observe;
mod policies;
mod records;
mod shell;
mod triggers;

use std::sync::Arc;

use flagship_api::names::Scope;
use flagship_runtime::controller::Controller;
use flagship_runtime::events::Recorder;
use flagship_runtime::queue::QueueConfig;

use crate::hub::Context;
use crate::mirrors::{Mirrors, ScopeMirrors};
use crate::per_placement;
use crate::placement::Selectable;
use crate::scope::{ClusterWide, InNamespace, Scoped};
pub use measure::FilledMirrors;
pub(crate) use policies::labels_by_name;
pub(crate) use records::Recorded;
use shell::Shell;

/// Starts listening to the mirrors, which are filled already.
pub(crate) fn controllers(
    cx: &Context,
    mirrors: &Arc<Mirrors>,
    selectable: &Arc<Selectable>,
) -> Vec<Controller> {
    let wide = &mirrors.cluster_wide;
    let cluster_wide = of_scope::<ClusterWide>(cx, mirrors, wide, selectable);
    let in_namespaces = mirrors.in_namespaces.as_ref();
    let in_namespaces =
        in_namespaces.map(|scope| of_scope::<InNamespace>(cx, mirrors, scope, selectable));
    [cluster_wide].into_iter().chain(in_namespaces).collect()
}

fn of_scope<S: Scoped>(
    cx: &Context,
    mirrors: &Arc<Mirrors>,
    scope: &ScopeMirrors,
    selectable: &Arc<Selectable>,
) -> Controller {
    let name = match S::SCOPE {
        Scope::Cluster => "clusterstagedupdaterun-controller",
        Scope::Namespaced => "stagedupdaterun-controller",
    };
    let config = QueueConfig { limit: cx.options.update_run_limit, ..QueueConfig::named(name) };
    let queue = per_placement::queue(config, &cx.metrics);
    let recorder = Recorder::new(&cx.client, &cx.env, &cx.metrics, name);
    let shell = Arc::new(Shell::<S>::new(cx, mirrors, scope, selectable, &queue, recorder.clone()));
    let cost = shell.cost.clone();
    let workers = cx.options.concurrent_update_runs;
    let controller =
        Controller::new(&queue, workers, &cx.metrics, shell, |shell, key| async move {
            shell.pass(key).await
        });
    let subscriptions = triggers::listen(mirrors, scope, &queue, &cost);
    controller.listening(subscriptions).recording(&recorder)
}
