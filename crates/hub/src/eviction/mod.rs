//! The eviction controller: `flagship_rules::eviction`, kept in step with the hub.
//!
//! One worker: two evictions of a placement must not be counted against the same room.
//! New evictions are looked at at once, for those who drain a cluster wait for the answer;
//! `shell` reads everything else from the server itself.

mod series;
mod shell;

use std::sync::Arc;

use flagship_api::names::ObjectKey;
use flagship_rules::eviction::is_settled;
use flagship_runtime::queue::{Queue, QueueConfig, Workers};
use flagship_runtime::reflector::{Change, Subscription};

use crate::hub::Context;
use crate::mirrors::{Eviction, Mirrors};
use series::Outcomes;
use shell::Shell;

/// The running controller.
pub(crate) struct Evictions {
    queue: Queue<ObjectKey>,
    shell: Arc<Shell>,
    _subscription: Subscription,
}

impl Evictions {
    /// Starts listening to the mirror, which is filled already.
    pub fn new(cx: &Context, mirrors: &Arc<Mirrors>) -> Self {
        let name = "clusterresourceplacementeviction-controller";
        let queue = Queue::new(QueueConfig::named(name), &cx.metrics);
        let outcomes = Arc::new(Outcomes::new(&cx.metrics));
        let (waker, series) = (queue.clone(), outcomes.clone());
        let subscription = mirrors.evictions.subscribe(move |change| {
            if change.new.is_none() {
                series.forget(&change.key.name);
            }
            if is_worth_a_look(change) {
                waker.add_with((*change.key).clone(), change.origin.priority());
            }
        });
        let shell = Arc::new(Shell::new(cx, mirrors, outcomes));
        Self { queue, shell, _subscription: subscription }
    }

    /// Runs passes until the controller is closed and drained.
    pub async fn run(&self) {
        let workers = Workers::new(self.queue.clone(), 1, self.shell.metrics());
        let shell = self.shell.clone();
        workers
            .run(move |key| {
                let shell = shell.clone();
                async move { shell.pass(key).await }
            })
            .await;
    }

    /// Takes no more keys.
    pub fn close(&self) {
        self.queue.close();
    }
}

/// New, or asked differently, and without an answer.
fn is_worth_a_look(change: &Change<Eviction>) -> bool {
    let Some(new) = &change.new else { return false };
    let asked = |eviction: &Eviction| (eviction.fence.uid.clone(), eviction.value.generation);
    let same = change.old.as_ref().is_some_and(|old| asked(old) == asked(new));
    !same && !is_settled(&new.value)
}
