//! One pass: do what the hub asks, look at the member, tell the hub.
//!
//! A heartbeat that cannot be delivered is never given up, whatever the hub answers.

use std::time::Duration;

use flagship_api::cluster::{ClusterState, InternalMemberCluster, MemberClusterStatus};
use flagship_api::condition::Generation;
use flagship_api::defaults::HEARTBEAT_PERIOD_SECONDS;
use flagship_api::keys::finalizer;
use flagship_api::names::ObjectKey;
use flagship_api::work::Work;
use flagship_rules::heartbeat::{self, Internal, Report};
use flagship_runtime::client::{ClientError, Precondition, ResourceType, Selection};
use flagship_runtime::effects::{PendingWrites, Retry, Writer, retry};
use flagship_runtime::error_action::{ErrorAction, Failure};
use flagship_runtime::events::{EventType, Recorder};
use flagship_runtime::metrics::Counter;
use flagship_runtime::queue::Outcome;
use flagship_runtime::reflector::Store;
use jiff::Timestamp;
use kube_core::metadata::PartialObjectMeta;
use serde_json::json;

use super::observe::{Health, PROBE_TIMEOUT};
use crate::member::Context;

/// The span shortened so that it ends at a whole multiple of `grid`, if it is longer than that.
fn together(now: Timestamp, span: Duration, grid: Duration) -> Duration {
    let (now, grid) = (now.as_millisecond().unsigned_abs(), grid.as_millis());
    let end = u128::from(now) + span.as_millis();
    let beyond = end.checked_rem(grid).unwrap_or(0);
    let beyond = Duration::from_millis(u64::try_from(beyond).unwrap_or(0));
    span.checked_sub(beyond).filter(|rest| !rest.is_zero()).unwrap_or(span)
}

pub(super) struct Shell {
    cx: Context,
    mirror: Store<InternalMemberCluster>,
    recorder: Recorder,
    health: Health,
    seen: PendingWrites<ObjectKey>,
    joins: Counter,
    leaves: Counter,
}

impl Shell {
    pub fn new(
        cx: &Context,
        mirror: Store<InternalMemberCluster>,
        recorder: Recorder,
        health: Health,
    ) -> Self {
        let seen = PendingWrites::default();
        seen.shown_by(ResourceType::of::<InternalMemberCluster>(), &mirror);
        let success = [("result", "success")];
        let counter = |name, help| cx.metrics.counter(name, help, &success);
        Self {
            cx: cx.clone(),
            mirror,
            recorder,
            health,
            seen,
            joins: counter("join_result_counter", "Members that joined."),
            leaves: counter("leave_result_counter", "Members that left."),
        }
    }

    pub async fn pass(&self, key: &ObjectKey) -> Result<Outcome, Failure> {
        self.seen.caught_up(key).await;
        let Some(internal) = self.mirror.get(key) else { return Ok(Outcome::Done) };
        match &internal.spec.state {
            ClusterState::Join => self.join(key, &internal).await,
            ClusterState::Leave => self.leave(key, &internal).await,
            ClusterState::Other(word) => {
                tracing::warn!(state = word, "the hub asks for a state nobody knows");
                Ok(Outcome::Done)
            }
        }
    }

    async fn join(
        &self,
        key: &ObjectKey,
        internal: &InternalMemberCluster,
    ) -> Result<Outcome, Failure> {
        self.cx.participation.begin();
        let period = internal.spec.heartbeat_period_seconds.unwrap_or(HEARTBEAT_PERIOD_SECONDS);
        let period = Duration::from_secs(period.max(1).unsigned_abs().into());
        let checkup = self.health.observe().await;
        let said = internal.status.clone().unwrap_or_default();
        let report = heartbeat::joined(&self.internal(internal, &said), &checkup);
        self.tell(key, internal, report, &self.joins, period).await?;
        // A twentieth to either side, so that not all members speak at once.
        let span = self.cx.env.entropy.jittered(period.mul_f64(0.95), 0.1 / 0.95);
        Ok(Outcome::After(together(self.cx.env.now(), span, self.cx.options.heartbeats_together)))
    }

    async fn leave(
        &self,
        key: &ObjectKey,
        internal: &InternalMemberCluster,
    ) -> Result<Outcome, Failure> {
        self.cx.participation.end().await;
        let released = self.release_works().await.map_err(Failure::from);
        let failure = released.as_ref().err().map(|failure| failure.why.as_str());
        let said = internal.status.clone().unwrap_or_default();
        let report = heartbeat::left(&self.internal(internal, &said), failure);
        self.tell(key, internal, report, &self.leaves, PROBE_TIMEOUT).await?;
        match released {
            Ok(()) => Ok(Outcome::Done),
            Err(failure) => Err(Failure::back_off(failure.why)),
        }
    }

    fn internal<'a>(
        &self,
        internal: &InternalMemberCluster,
        status: &'a MemberClusterStatus,
    ) -> Internal<'a> {
        let generation = Generation::of(&internal.metadata);
        Internal { now: self.cx.env.now(), generation, status }
    }

    /// Takes our finalizer off every Work, so that the hub can delete them without us.
    async fn release_works(&self) -> Result<(), ClientError> {
        let works = self.cx.hub.of_type(ResourceType::of::<Work>()).metadata_only();
        let listed = works.list(&Selection::namespace(&self.cx.space)).await?;
        for work in listed.items {
            let work: PartialObjectMeta<Work> = work;
            let all = work.metadata.finalizers.as_deref().unwrap_or_default();
            let rest: Vec<&String> = all.iter().filter(|f| *f != finalizer::WORK).collect();
            if rest.len() == all.len() {
                continue;
            }
            let Some(precondition) = Precondition::of(&work) else { continue };
            match works.patch(&precondition, json!({"metadata": {"finalizers": rest}})).await {
                Ok(_) | Err(ClientError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn tell(
        &self,
        key: &ObjectKey,
        internal: &InternalMemberCluster,
        report: Report,
        turned: &Counter,
        deadline: Duration,
    ) -> Result<(), Failure> {
        let object = InternalMemberCluster { status: Some(report.status), ..internal.clone() };
        let busy = |error: &ClientError| {
            let throttled = matches!(error, ClientError::Throttled { .. });
            throttled || error.outcome_unknown()
        };
        let writer = Writer::new(&self.cx.hub, &self.cx.leadership, &self.seen, key);
        let telling = retry(&self.cx.env, Retry::CONFLICT, busy, || writer.update_status(&object));
        let told = tokio::time::timeout(deadline, telling).await;
        match told.map_err(|_| Failure::back_off("the hub did not take our status in time"))? {
            Ok(_) => {}
            // A conflict is a stale read, anything else a hub that fails; the heartbeat goes on after both.
            Err(error) => {
                let failure = Failure::from(error);
                return Err(match failure.action {
                    ErrorAction::GiveUp => Failure::back_off(failure.why),
                    _ => failure,
                });
            }
        }
        for event in &report.events {
            let sort = if event.warning { EventType::Warning } else { EventType::Normal };
            self.recorder.note(internal, sort, &event.reason, &event.message);
        }
        if report.turned {
            turned.inc();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_of_a_process_come_together_and_none_comes_later() {
        let table = [
            // now, span, grid, what is left of the span: all in milliseconds
            (500, 57_300, 2_000, 55_500),
            (999, 54_001, 2_000, 53_001),
            (0, 54_000, 2_000, 54_000),
            (999, 54_001, 0, 54_001),
            (1_000, 900, 2_000, 900),
        ];
        for (now, span, grid, left) in table {
            let at = Timestamp::from_millisecond(now).unwrap();
            let [span, grid] = [span, grid].map(Duration::from_millis);
            assert_eq!(together(at, span, grid), Duration::from_millis(left), "{now} {span:?}");
        }
    }
}
