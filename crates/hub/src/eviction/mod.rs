//! The eviction controller: `flagship_rules::eviction`, kept in step with the hub.
//!
//! One worker: two evictions of a placement must not be counted against the same room.
//! New evictions are looked at at once, for those who drain a cluster wait for the answer;
//! `shell` reads everything else from the server itself.

mod metrics;
mod shell;

use std::sync::Arc;

use flagship_rules::eviction::is_settled;
use flagship_runtime::controller::Controller;
use flagship_runtime::queue::{Queue, QueueConfig};
use flagship_runtime::reflector::Change;

use crate::hub::Context;
use crate::mirrors::{Eviction, Mirrors};
use metrics::Outcomes;
use shell::Shell;

/// Starts listening to the mirror, which is filled already.
pub(crate) fn controllers(cx: &Context, mirrors: &Arc<Mirrors>) -> Vec<Controller> {
    let name = "clusterresourceplacementeviction-controller";
    let queue = Queue::new(QueueConfig::named(name), &cx.metrics);
    let outcomes = Arc::new(Outcomes::new(&cx.metrics));
    let (waker, counted) = (queue.clone(), outcomes.clone());
    let subscription = mirrors.evictions.subscribe(move |change| {
        if change.new.is_none() {
            counted.forget(&change.key.name);
        }
        if is_worth_a_look(change) {
            waker.add_with((*change.key).clone(), change.origin.priority());
        }
    });
    let shell = Arc::new(Shell::new(cx, mirrors, outcomes));
    let controller = Controller::new(&queue, 1, &cx.metrics, shell, |shell, key| async move {
        shell.pass(key).await
    });
    vec![controller.listening([subscription])]
}

/// New, or asked differently, and without an answer.
fn is_worth_a_look(change: &Change<Eviction>) -> bool {
    let Some(new) = &change.new else { return false };
    let asked =
        |eviction: &Eviction| (eviction.precondition.uid.clone(), eviction.value.generation);
    let same = change.old.as_ref().is_some_and(|old| asked(old) == asked(new));
    !same && !is_settled(&new.value)
}
