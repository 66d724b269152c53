//! Asks the checks of runs: `flagship_rules::policy::checks`, each on its own interval.
//!
//! One key a check of a stage or cluster. Runs say which checks they want asked and never wait
//! for an answer; every round wakes its run. What was measured is kept here and nowhere else
//! until it is decided or written into the run's record, so a new tenure begins anew. What Jobs
//! have come to is stored with their Works; a second queue has those Works deleted that are of
//! no use any more.

mod shell;
mod triggers;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flagship_rules::policy::checks::jobs::{JobSeries, Seen};
use flagship_rules::policy::checks::{Ask, Key, Round, Series, Standing};
use flagship_runtime::controller::Controller;
use flagship_runtime::metrics::Metrics;
use flagship_runtime::queue::{Queue, QueueConfig};
use jiff::{SignedDuration, Timestamp};

use crate::hub::Context;
use crate::mirrors::Mirrors;
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
    answers: Answers,
    wakes: (PerPlacement, PlacedKey),
}

/// What was answered so far.
enum Answers {
    /// By a Prometheus.
    Rounds(Series),
    /// By Jobs on the updated clusters.
    Jobs(JobSeries),
}

impl Answers {
    fn new(ask: &Ask, now: Timestamp) -> Self {
        match ask.check.job {
            Some(_) => Self::Jobs(JobSeries::new(now)),
            None => Self::Rounds(Series::new(now)),
        }
    }

    fn standing(&self, key: Key) -> Standing {
        match self {
            Self::Rounds(series) => series.standing(key),
            Self::Jobs(series) => series.standing(key),
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Self::Rounds(series) => series.is_over(),
            Self::Jobs(series) => series.is_over(),
        }
    }
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
            let answers = Answers::new(&ask, now);
            asked.insert(key.clone(), Asked { ask, answers, wakes });
            self.queue.add(key);
        }
    }

    /// Where the checks of a run stand.
    pub fn standings(&self, uid: &str) -> Vec<Standing> {
        let asked = self.asked();
        let own = asked.iter().filter(|((of, _), _)| of == uid);
        own.map(|((_, key), known)| known.answers.standing(key.clone())).collect()
    }

    /// What is to be asked, if it still is.
    fn open(&self, key: &CheckKey) -> Option<Ask> {
        let asked = self.asked();
        asked.get(key).filter(|known| !known.answers.is_over()).map(|known| known.ask.clone())
    }

    /// Takes answers and wakes the run; whether there is more to ask.
    fn take(&self, key: &CheckKey, round: &Round) -> bool {
        let mut asked = self.asked();
        let Some(known) = asked.get_mut(key) else { return false };
        if let Answers::Rounds(series) = &mut known.answers {
            series.take(&known.ask.check, round);
        }
        let (queue, run) = &known.wakes;
        queue.add(run.clone());
        !known.answers.is_over()
    }

    /// Takes what is known of Jobs and wakes the run if something turned; when to look again,
    /// if ever.
    fn take_jobs(&self, key: &CheckKey, now: Timestamp, seen: &[Seen]) -> Option<SignedDuration> {
        let mut asked = self.asked();
        let known = asked.get_mut(key)?;
        let Answers::Jobs(series) = &mut known.answers else { return None };
        let before = series.clone();
        let again = series.take(&known.ask.check, now, seen);
        if *series != before {
            let (queue, run) = &known.wakes;
            queue.add(run.clone());
        }
        (!series.is_over()).then_some(again)
    }
}

/// Starts asking.
pub(crate) fn controllers(cx: &Context, mirrors: &Arc<Mirrors>) -> Vec<Controller> {
    let queue = cx.checks.queue.clone();
    let shell = Arc::new(Shell::new(cx, mirrors));
    let asking =
        Controller::new(&queue, WORKERS, &cx.metrics, shell.clone(), |shell, key| async move {
            shell.pass(key).await
        });
    let works = Queue::new(QueueConfig::named("check-work-controller"), &cx.metrics);
    let subscriptions = triggers::listen(mirrors, &queue, &works);
    let sweeping = Controller::new(&works, 1, &cx.metrics, shell, |shell, key| async move {
        shell.sweep(key).await
    });
    vec![asking, sweeping.listening(subscriptions)]
}
