//! Statuses on their way back: what a member reports of an applied resource becomes the
//! status of the selected object on the hub, for placements that ask for it.
//!
//! One queue of Works. Who may have statuses back and which is decided in
//! `flagship_rules::work::back_report`; the member's side is the member's business.

mod shell;
mod triggers;

use std::sync::Arc;

use flagship_runtime::controller::Controller;
use flagship_runtime::events::Recorder;
use flagship_runtime::queue::{Queue, QueueConfig};

use crate::hub::Context;
use crate::mirrors::Mirrors;
use shell::Shell;

/// Events are recorded under this name.
const COMPONENT: &str = "status-back-reporter";

/// Reason of the event on a placement that cannot have what it asks for.
const REFUSED: &str = "StatusBackReportingRefused";

/// Starts listening to the mirrors, which are filled already.
pub(crate) fn controllers(cx: &Context, mirrors: &Arc<Mirrors>) -> Vec<Controller> {
    let queue = Queue::new(QueueConfig::named(COMPONENT), &cx.metrics);
    let recorder = Recorder::new(&cx.client, &cx.env, &cx.metrics, COMPONENT);
    let shell = Arc::new(Shell::new(cx.clone(), mirrors.clone(), recorder.clone()));
    let workers = cx.options.back_report_workers();
    let controller =
        Controller::new(&queue, workers, &cx.metrics, shell, |shell, key| async move {
            shell.pass(key).await
        });
    vec![controller.listening(triggers::listen(mirrors, &queue)).recording(&recorder)]
}
