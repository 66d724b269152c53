//! The work generators: `flagship_rules::work`, kept in step with the hub.
//!
//! One queue of bindings per scope, fair between placements. `triggers` says which change
//! makes which binding worth a pass, `observe` reads what a pass may look at, `contents` the
//! manifests for passes that have to write, and `shell` carries the plan out. Every report of
//! a member about a Work is a pass, which writes only if the binding's status changes by it.

mod contents;
mod contested;
mod observe;
mod shell;
mod triggers;

use std::sync::Arc;

use flagship_runtime::controller::Controller;
use flagship_runtime::events::Recorder;
use flagship_runtime::queue::QueueConfig;

use crate::hub::Context;
use crate::mirrors::{Mirrors, ScopeMirrors};
use crate::per_placement;
use crate::scope::{ClusterWide, InNamespace, Scoped};
use shell::Shell;

/// Events are recorded under this name.
const COMPONENT: &str = "work-generator";

/// Starts listening to the mirrors, which are filled already.
pub(crate) fn controllers(cx: &Context, mirrors: &Arc<Mirrors>) -> Vec<Controller> {
    let recorder = Recorder::new(&cx.client, &cx.env, &cx.metrics, COMPONENT);
    let shell = Arc::new(Shell::new(cx.clone(), mirrors.clone(), recorder.clone()));
    let name = "cluster-resource-binding-work-generator";
    let wide = Some(&mirrors.cluster_wide);
    let cluster_wide = of_scope::<ClusterWide>(cx, name, mirrors, wide, &shell);
    let name = "resource-binding-work-generator";
    let narrow = mirrors.in_namespaces.as_ref();
    let in_namespaces = of_scope::<InNamespace>(cx, name, mirrors, narrow, &shell);
    vec![cluster_wide.recording(&recorder), in_namespaces]
}

fn of_scope<S: Scoped>(
    cx: &Context,
    name: &str,
    mirrors: &Arc<Mirrors>,
    scope: Option<&ScopeMirrors>,
    shell: &Arc<Shell>,
) -> Controller {
    let queue = per_placement::queue(QueueConfig::named(name), &cx.metrics);
    let workers = cx.options.work_workers();
    let shell = shell.clone();
    let controller =
        Controller::new(&queue, workers, &cx.metrics, shell, |shell, key| async move {
            shell.pass::<S>(key.object).await
        });
    controller.listening(triggers::listen::<S>(mirrors, scope, &queue))
}
