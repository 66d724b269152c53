//! Runs passes: so many keys at a time, each on its own task.
//!
//! A pass that panics harms nobody else: its key is put into quarantine, the
//! panic is counted and logged, and the other keys go on. Dropping the future of
//! [`Workers::run`] ends all passes where they stand, as a crash would.

use std::fmt::Debug;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::{Claim, Next, Queue};
use crate::error_action::{ErrorAction, Failure};
use crate::metrics::{Counter, Gauge, Histogram, Metrics, SECONDS};

/// How a pass over a key ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more to do until something changes.
    Done,
    /// Look again after this span; zero means [`Outcome::Again`].
    After(Duration),
    /// Look again soon; soon gets later if it happens in a row.
    Again,
    /// It failed; its action says what comes next.
    Error(Failure),
}

impl<E: Into<Failure>> From<Result<Outcome, E>> for Outcome {
    fn from(result: Result<Outcome, E>) -> Self {
        result.unwrap_or_else(|error| Self::Error(error.into()))
    }
}

/// A pass that went on without seeing its own last writes looks again after this.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

impl Outcome {
    /// The same for a pass whose caches showed its own last writes, or did not
    /// ([`PendingWrites`]): one that did not see them may have found nothing to do because of
    /// that, so it looks again.
    ///
    /// [`PendingWrites`]: crate::effects::PendingWrites
    pub fn having_caught_up(self, caught_up: bool) -> Self {
        match self {
            Self::Done if !caught_up => Self::After(LOOK_AGAIN),
            Self::After(span) if !caught_up => Self::After(span.min(LOOK_AGAIN)),
            outcome => outcome,
        }
    }

    /// What the queue does with the key.
    fn next(&self) -> Next {
        const SOON: Next = Next::BackOff { at_least: Duration::ZERO };
        match self {
            Self::Done => Next::Forget,
            Self::After(Duration::ZERO) | Self::Again => SOON,
            Self::After(span) => Next::After(*span),
            Self::Error(failure) => match failure.action {
                // An object that is there or not against expectation: the pass had
                // stale reads, and the next pass will know better.
                ErrorAction::Reread | ErrorAction::AlreadyExists | ErrorAction::NotFound => {
                    Next::StartOver
                }
                ErrorAction::BackOff { after } => {
                    Next::BackOff { at_least: after.unwrap_or_default() }
                }
                ErrorAction::Refused => Next::Refused,
                ErrorAction::GiveUp => Next::Forget,
            },
        }
    }

    fn result(&self) -> &'static str {
        match self {
            Self::Done => "success",
            Self::After(Duration::ZERO) | Self::Again => "requeue",
            Self::After(_) => "requeue_after",
            Self::Error(_) => "error",
        }
    }
}

/// The workers of one queue.
pub struct Workers<K, G = ()> {
    queue: Queue<K, G>,
    count: usize,
    gauges: Arc<Instruments>,
}

struct Instruments {
    controller: String,
    metrics: Metrics,
    errors: Counter,
    refusals: Counter,
    panics: Counter,
    active: Gauge,
    time: Histogram,
}

impl<K, G> Workers<K, G>
where
    K: Ord + Clone + Debug + Send + 'static,
    G: Ord + Clone + Send + 'static,
{
    /// At most `count` keys at a time, at least one.
    pub fn new(queue: Queue<K, G>, count: usize, metrics: &Metrics) -> Self {
        let gauges = Arc::new(Instruments::new(queue.name(), count.max(1), metrics));
        Self { queue, count: count.max(1), gauges }
    }

    /// Runs passes until the queue is closed and drained.
    pub async fn run<F, Fut>(self, reconcile: F)
    where
        F: Fn(K) -> Fut,
        Fut: Future + Send + 'static,
        Fut::Output: Into<Outcome>,
    {
        let mut passes = JoinSet::new();
        loop {
            while passes.len() >= self.count {
                passes.join_next().await;
            }
            while passes.try_join_next().is_some() {}
            let Some(claim) = self.queue.next().await else { break };
            let span = tracing::info_span!(
                "pass",
                controller = self.queue.name(),
                key = ?claim.key(),
                run = Empty,
                cluster = Empty,
                trace = Empty,
            );
            // The call itself may panic before there is a future; so it is made inside.
            let started =
                std::panic::catch_unwind(AssertUnwindSafe(|| reconcile(claim.key().clone())));
            let pass = one_pass(claim, started.ok(), self.gauges.clone());
            passes.spawn(pass.instrument(span));
        }
        while passes.join_next().await.is_some() {}
    }
}

/// What the pass under way works on, beside its key. Whatever it logs from here on bears it.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// The id that all passes over one rollout have, on every cluster.
    pub trace: Option<&'a str>,
    /// The update run.
    pub run: Option<&'a str>,
    /// The member.
    pub cluster: Option<&'a str>,
}

impl About<'_> {
    /// Notes it on the pass.
    pub fn note(self) {
        let span = Span::current();
        for (field, value) in [("run", self.run), ("cluster", self.cluster), ("trace", self.trace)]
        {
            if let Some(value) = value {
                span.record(field, value);
            }
        }
    }
}

async fn one_pass<K, G, Fut>(claim: Claim<K, G>, started: Option<Fut>, gauges: Arc<Instruments>)
where
    K: Ord + Clone + Debug,
    G: Ord + Clone,
    Fut: Future,
    Fut::Output: Into<Outcome>,
{
    gauges.active.add(1.0);
    let begun = Instant::now();
    let ended = match started {
        Some(pass) => AssertUnwindSafe(pass.map(Into::into)).catch_unwind().await.ok(),
        None => None,
    };
    gauges.active.add(-1.0);
    gauges.time.observe(begun.elapsed().as_secs_f64());
    gauges.count(ended.as_ref());
    let next = match &ended {
        None => {
            tracing::error!("the pass panicked; its key is kept away for a while");
            Next::Quarantine
        }
        Some(Outcome::Error(failure)) => {
            report(failure);
            ended.as_ref().map_or(Next::Forget, Outcome::next)
        }
        Some(outcome) => outcome.next(),
    };
    claim.finish(next);
}

fn report(failure: &Failure) {
    match failure.action {
        ErrorAction::Reread | ErrorAction::AlreadyExists | ErrorAction::NotFound => {
            tracing::debug!(%failure, "starting over");
        }
        ErrorAction::BackOff { .. } => tracing::warn!(%failure, "trying again later"),
        ErrorAction::Refused => tracing::warn!(%failure, "refused: trying again, ever more seldom"),
        ErrorAction::GiveUp => tracing::warn!(%failure, "waiting for a change"),
    }
}

impl Instruments {
    fn new(controller: &str, count: usize, metrics: &Metrics) -> Self {
        let labels: &[(&str, &str)] = &[("controller", controller)];
        let most = metrics.gauge(
            "fleet_workload_max_concurrent_reconciles",
            "Most passes at a time.",
            labels,
        );
        most.set(count as f64);
        Self {
            controller: controller.to_owned(),
            metrics: metrics.clone(),
            errors: metrics.counter(
                "fleet_workload_reconcile_errors_total",
                "Passes that failed.",
                labels,
            ),
            refusals: metrics.counter(
                "flagship_refused_writes_total",
                "Passes that ended at a write which the API server refused.",
                labels,
            ),
            panics: metrics.counter(
                "flagship_reconcile_panics_total",
                "Passes that panicked.",
                labels,
            ),
            active: metrics.gauge("fleet_workload_active_workers", "Passes under way.", labels),
            time: metrics.histogram(
                "fleet_workload_reconcile_time_seconds",
                "How long passes took.",
                SECONDS,
                labels,
            ),
        }
    }

    /// `None` is a panic, which counts as an error too.
    fn count(&self, ended: Option<&Outcome>) {
        let result = ended.map_or("error", Outcome::result);
        if result == "error" {
            self.errors.inc();
        }
        if let Some(Outcome::Error(Failure { action: ErrorAction::Refused, .. })) = ended {
            self.refusals.inc();
        }
        if ended.is_none() {
            self.panics.inc();
        }
        let labels = [("controller", self.controller.as_str()), ("result", result)];
        self.metrics
            .counter("fleet_workload_reconcile_total", "Passes by their result.", &labels)
            .inc();
    }
}
