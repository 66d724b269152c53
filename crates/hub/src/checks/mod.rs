//! Asks the checks of runs: `flagship_rules::policy::checks`, each on its own interval.
//!
//! One key a check of a stage or cluster. Runs say which checks they want asked and never wait
//! for an answer; every round wakes its run. What was measured is kept here and nowhere else
//! until it is decided or written into the run's record, so a new tenure begins anew.

mod shell;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flagship_rules::policy::checks::{Ask, Key, Round, Series, Standing};
use flagship_runtime::controller::Controller;
use flagship_runtime::metrics::Metrics;
use flagship_runtime::queue::{Queue, QueueConfig};
use jiff::Timestamp;

use crate::hub::Context;
use crate::per_placement::{PerPlacement, PlacedKey};
use shell::Shell;

/// Checks that are asked side by side.
const WORKERS: usize = 8;

/// The UID of a run, and what is asked about.
type CheckKey = (String, Key);

/// The checks that runs want asked, and what was answered.
#[derive(Clone)]
pub(crate) struct Checks {
    queue: Queue<CheckKey>,
    asked: Arc<Mutex<BTreeMap<CheckKey, Asked>>>,
}

struct Asked {
    ask: Ask,
    series: Series,
    wakes: (PerPlacement, PlacedKey),
}

impl Checks {
    pub fn new(metrics: &Metrics) -> Self {
        let queue = Queue::new(QueueConfig::named("check-controller"), metrics);
        Self { queue, asked: Arc::default() }
    }

    fn asked(&self) -> MutexGuard<'_, BTreeMap<CheckKey, Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a run wants asked from now on, and nothing else.
    pub fn want(
        &self,
        uid: &str,
        asks: Vec<Ask>,
        now: Timestamp,
        wakes: (&PerPlacement, &PlacedKey),
    ) {
        let mut asked = self.asked();
        if asks.is_empty() && asked.is_empty() {
            return;
        }
        let mut wanted: BTreeMap<Key, Ask> = asks.into_iter().map(|ask| (ask.key(), ask)).collect();
        asked.retain(|(of, key), known| {
            if of != uid {
                return true;
            }
            let Some(ask) = wanted.remove(key) else { return false };
            // Which clusters are not updated yet may have changed.
            known.ask = ask;
            true
        });
        for (key, ask) in wanted {
            let (queue, run) = wakes;
            let wakes = (queue.clone(), run.clone());
            let key = (uid.to_owned(), key);
            asked.insert(key.clone(), Asked { ask, series: Series::new(now), wakes });
            self.queue.add(key);
        }
    }

    /// Where the checks of a run stand.
    pub fn standings(&self, uid: &str) -> Vec<Standing> {
        let asked = self.asked();
        let own = asked.iter().filter(|((of, _), _)| of == uid);
        own.map(|((_, key), known)| known.series.standing(key.clone())).collect()
    }

    /// What is to be asked, if it still is.
    fn open(&self, key: &CheckKey) -> Option<Ask> {
        self.asked().get(key).filter(|known| !known.series.is_over()).map(|known| known.ask.clone())
    }

    /// Takes answers and wakes the run; whether there is more to ask.
    fn take(&self, key: &CheckKey, round: &Round) -> bool {
        let mut asked = self.asked();
        let Some(known) = asked.get_mut(key) else { return false };
        known.series.take(&known.ask.check, round);
        let (queue, run) = &known.wakes;
        queue.add(run.clone());
        !known.series.is_over()
    }
}

/// Starts asking.
pub(crate) fn controllers(cx: &Context) -> Vec<Controller> {
    let queue = cx.checks.queue.clone();
    let shell = Arc::new(Shell::new(cx));
    let controller =
        Controller::new(&queue, WORKERS, &cx.metrics, shell, |shell, key| async move {
            shell.pass(key).await
        });
    vec![controller]
}
