//! The notification controller: `flagship_rules::notification`, around the records of runs.
//!
//! One key a channel, so that a receiver which is slow or away keeps only its own channel
//! waiting. Update runs say which of their records have grown, and never wait for anybody
//! here; a new tenure looks for what the last one may have left. `shell` reads, sends and notes.

mod shell;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flagship_api::names::ObjectKey;
use flagship_runtime::controller::Controller;
use flagship_runtime::metrics::Metrics;
use flagship_runtime::queue::{Queue, QueueConfig};

use crate::hub::Context;
use crate::mirrors::Mirrors;
use shell::Shell;

/// Channels that are served side by side.
const WORKERS: usize = 4;

/// A run whose record has something new: its namespace and UID.
pub(crate) type RunId = (Option<String>, String);

/// Which records have grown, by the channels that have not looked yet.
#[derive(Clone)]
pub(crate) struct Notices {
    queue: Queue<ObjectKey>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    pending: BTreeMap<ObjectKey, BTreeSet<RunId>>,
    /// UIDs of channels that have looked at all records in this tenure.
    caught_up: BTreeSet<String>,
    /// Tries in a row that failed.
    failures: BTreeMap<ObjectKey, u32>,
}

impl Notices {
    pub fn new(metrics: &Metrics) -> Self {
        let queue = Queue::new(QueueConfig::named("notificationchannel-controller"), metrics);
        Self { queue, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record of a run has grown. Costs nothing where there is no channel.
    pub fn grown(&self, mirrors: &Mirrors, run: &RunId) {
        for (channel, _) in mirrors.channels.all() {
            let channel = (*channel).clone();
            self.state().pending.entry(channel.clone()).or_default().insert(run.clone());
            self.queue.add(channel);
        }
    }
}

/// Starts listening to the mirror, which is filled already.
pub(crate) fn controllers(cx: &Context, mirrors: &Arc<Mirrors>) -> Vec<Controller> {
    let (queue, notices) = (cx.notices.queue.clone(), cx.notices.clone());
    let waker = queue.clone();
    let subscription = mirrors.channels.subscribe(move |change| {
        let Some(new) = &change.new else {
            let mut state = notices.state();
            state.pending.remove(&change.key);
            state.failures.remove(&change.key);
            return;
        };
        let same = change.old.as_ref().is_some_and(|old| old.asks() == new.asks());
        if !same {
            notices.state().failures.remove(&change.key);
            waker.add((*change.key).clone());
        }
    });
    let shell = Arc::new(Shell::new(cx, mirrors));
    let controller =
        Controller::new(&queue, WORKERS, &cx.metrics, shell, |shell, key| async move {
            shell.pass(key).await
        });
    vec![controller.listening([subscription])]
}
