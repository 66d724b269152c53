//! The membership controller: `flagship_rules::membership`, kept in step with the hub.
//!
//! Every word of a member's agents is a pass that copies it to the MemberCluster; so is
//! every change of what the hub keeps for the member, which is repaired.

mod observe;
mod shell;
mod triggers;

use std::sync::Arc;

use flagship_api::names::ObjectKey;
use flagship_runtime::controller::Controller;
use flagship_runtime::events::Recorder;
use flagship_runtime::queue::{Queue, QueueConfig};

use crate::hub::Context;
use crate::mirrors::Mirrors;
use shell::Shell;

/// Events are recorded under this name.
const COMPONENT: &str = "mcv1beta1";

/// Starts listening to the mirrors, which are filled already.
pub(crate) fn controllers(cx: &Context, mirrors: &Arc<Mirrors>) -> Vec<Controller> {
    let queue: Queue<ObjectKey> =
        Queue::new(QueueConfig::named("membercluster-controller"), &cx.metrics);
    let recorder = Recorder::new(&cx.client, &cx.env, &cx.metrics, COMPONENT);
    let shell = Arc::new(Shell::new(cx, mirrors.clone(), recorder.clone()));
    let workers = cx.options.membership_workers();
    let controller =
        Controller::new(&queue, workers, &cx.metrics, shell, |shell, key| async move {
            shell.pass(&key).await
        });
    vec![controller.listening(triggers::listen(&cx.env, mirrors, &queue)).recording(&recorder)]
}
