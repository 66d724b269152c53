//! One leader at a time, by a Lease object.
//!
//! No two clocks are ever compared: a candidate waits until the lease has not
//! changed for its whole duration *by its own monotonic clock*, and a leader
//! counts its tenure from the moment *before* it sent its last renewal. The
//! leader's tenure (10 s) ends before any candidate's wait (15 s) can, so skewed
//! wall clocks and slow answers cannot make two leaders. Times in the Lease are
//! for people to read.
//!
//! A leader that was paused past its tenure knows it at once, without asking:
//! [`Leadership::is_held`] looks at the clock. Writes of a deposed leader that are
//! already under way are stopped by the fences of `rules`, not here.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flagship_api::names::{ObjectKey, SYSTEM_NAMESPACE};
use futures::FutureExt;
use futures::future::{Either, Shared, select};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use tokio::time::Instant;

use crate::client::{Client, ClientError, Objects};
use crate::env::Env;
use crate::readiness::{Readiness, ReadinessState};
use crate::watched::Watched;

#[cfg(test)]
mod tests;

/// Which lease, and how long its spans are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    /// Where the Lease stands.
    pub key: ObjectKey,
    /// Who we are; no other process may have the same.
    pub identity: String,
    /// How long the others wait for us.
    pub duration: Duration,
    /// How long we lead without a renewal; shorter than the duration.
    pub renew_deadline: Duration,
    /// Pause between attempts.
    pub retry: Duration,
}

impl LeaseConfig {
    /// The usual spans for a lease in the system namespace. `process` is made unique.
    pub fn new(env: &Env, lease: &str, process: &str) -> Self {
        Self {
            key: ObjectKey::namespaced(SYSTEM_NAMESPACE, lease),
            identity: format!("{process}_{}", env.entropy.uuid()),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// How often a standby looks, at least. It counts the lease's duration from the look that saw
/// the last renewal and takes it at the look after that, so a lost leader is followed two
/// looks after its lease; one that gives it back, one look after.
const STANDBY_LOOKS: Duration = Duration::from_millis(500);

/// One process that wants to lead.
pub struct Candidate {
    leases: Objects<Lease>,
    env: Env,
    config: LeaseConfig,
    /// The lease as we last saw it change, and when that was.
    observed: Option<(Lease, Instant)>,
}

/// Runs `tenure` whenever this process leads: again after each lease that was lost, until
/// one ends by itself. Without a lease there is one tenure, which nobody contests. `stop`
/// is handed to each tenure, and is what ends it.
pub async fn run_while_leading<S, T, W>(
    client: &Client,
    env: &Env,
    lease: Option<LeaseConfig>,
    readiness: &ReadinessState,
    stop: S,
    tenure: T,
) where
    S: Future<Output = ()>,
    T: Fn(Leadership, Shared<S>) -> W,
    W: Future<Output = ()>,
{
    let stop = stop.shared();
    let _running = readiness.until_dropped();
    let Some(lease) = lease else {
        return tenure(Leadership::uncontested(), stop).await;
    };
    let mut candidate = Candidate::new(client, env, lease);
    loop {
        readiness.set(|| Readiness::Standby);
        let work = |leadership| tenure(leadership, stop.clone());
        match candidate.lead(stop.clone(), work).await {
            Ended::Finished(()) | Ended::Stopped => return,
            Ended::Lost => tracing::warn!("contending for the lease again"),
        }
    }
}

/// How a tenure ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended<T> {
    /// The work came to its end and the lease was given back.
    Finished(T),
    /// The lease was lost; the work was dropped where it stood.
    Lost,
    /// It was told to stop before it led.
    Stopped,
}

/// Proof of being the leader, as long as it lasts. Clones share the tenure.
#[derive(Clone)]
pub struct Leadership(Arc<Tenure>);

struct Tenure {
    until: Mutex<Instant>,
    ended: Watched<bool>,
    epoch: i32,
}

impl Leadership {
    fn new(until: Instant, epoch: i32) -> Self {
        Self(Arc::new(Tenure { until: Mutex::new(until), ended: Watched::default(), epoch }))
    }

    /// Leadership that nobody contests: for tests and for a hub that is alone.
    pub fn uncontested() -> Self {
        let far = Duration::from_secs(60 * 60 * 24 * 365 * 30);
        Self::new(Instant::now() + far, 0)
    }

    /// Leadership that ran out, for tests.
    #[cfg(test)]
    pub(crate) fn expired() -> Self {
        Self::new(Instant::now(), 0)
    }

    /// Whether we lead at this moment. Never true after the tenure ran out.
    pub fn is_held(&self) -> bool {
        !self.0.ended.get() && Instant::now() < self.until()
    }

    /// Waits until we no longer lead.
    pub async fn lost(&self) {
        let mut ended = self.0.ended.watcher();
        while self.is_held() {
            let until = self.until();
            // Either way the loop looks again: a renewal may have moved the end.
            tokio::time::timeout_at(until, ended.changed()).await.ok();
        }
    }

    /// How often the lease had changed hands when we took it.
    pub fn epoch(&self) -> i32 {
        self.0.epoch
    }

    fn until(&self) -> Instant {
        *self.0.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn extend(&self, until: Instant) {
        *self.0.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    fn end(&self) {
        self.0.ended.set(true);
    }
}

/// What a look at the lease said.
enum Answer {
    /// It is ours, until then.
    Ours(Instant),
    /// Somebody else has it.
    Theirs,
    /// Nobody knows; look again.
    Unknown,
}

impl Candidate {
    /// A candidate for the lease.
    pub fn new(client: &Client, env: &Env, mut config: LeaseConfig) -> Self {
        // The tenure must end before the others stop waiting, whatever was configured.
        config.renew_deadline = config.renew_deadline.min(config.duration * 2 / 3);
        // A leader must not lose its lease because its own requests stand in line.
        let leases = client.without_rate_limit().of::<Lease>();
        Self { leases, env: env.clone(), config, observed: None }
    }

    /// Waits for the lease, then does the work under it. If the lease is lost, the
    /// work is dropped at once; if the work ends, the lease is given back. `stop` ends the
    /// waiting; the work has to look at it itself.
    pub async fn lead<T, W>(
        &mut self,
        stop: impl Future<Output = ()>,
        work: impl FnOnce(Leadership) -> W,
    ) -> Ended<T>
    where
        W: Future<Output = T>,
    {
        let Some(leadership) = self.acquire(stop).await else { return Ended::Stopped };
        tracing::info!(lease = %self.config.key, epoch = leadership.epoch(), "leading");
        let finished = {
            let renewing = pin!(self.renew(&leadership));
            let working = pin!(work(leadership.clone()));
            match select(renewing, working).await {
                Either::Left(((), _)) => None,
                Either::Right((output, _)) => Some(output),
            }
        };
        let held = leadership.is_held();
        leadership.end();
        match finished {
            Some(output) => {
                if held {
                    self.release().await;
                }
                Ended::Finished(output)
            }
            None => {
                tracing::warn!(lease = %self.config.key, "no longer leading");
                Ended::Lost
            }
        }
    }

    /// Waits until the lease is ours, or nobody wants it any more. An attempt is never broken
    /// off: it may have taken the lease.
    async fn acquire(&mut self, stop: impl Future<Output = ()>) -> Option<Leadership> {
        let mut stop = pin!(stop);
        loop {
            if let Answer::Ours(until) = self.try_acquire().await {
                let spec = self.observed.as_ref().and_then(|(lease, _)| lease.spec.as_ref());
                let epoch = spec.and_then(|spec| spec.lease_transitions).unwrap_or_default();
                return Some(Leadership::new(until, epoch));
            }
            let pause = self.config.retry.min(STANDBY_LOOKS);
            let sleeping = pin!(tokio::time::sleep(self.env.entropy.jittered(pause, 0.2)));
            if let Either::Right(_) = select(sleeping, stop.as_mut()).await {
                return None;
            }
        }
    }

    /// Renews until the lease is lost.
    async fn renew(&mut self, leadership: &Leadership) {
        loop {
            let until = leadership.until();
            let next = Instant::now() + self.config.retry;
            tokio::time::sleep_until(next.min(until)).await;
            // One lost answer must leave time for another attempt.
            let patience = until.min(Instant::now() + self.config.retry * 2);
            match tokio::time::timeout_at(patience, self.try_renew()).await {
                Ok(Answer::Ours(until)) => leadership.extend(until),
                Ok(Answer::Theirs) => return,
                Ok(Answer::Unknown) | Err(_) => {}
            }
            if Instant::now() >= leadership.until() {
                return;
            }
        }
    }

    async fn try_acquire(&mut self) -> Answer {
        match self.leases.find(&self.config.key).await {
            Ok(None) => {
                let fresh = self.fresh();
                self.write(fresh, true).await
            }
            Ok(Some(lease)) => {
                self.observe(lease);
                self.take_if_free().await
            }
            Err(error) => self.unknown(&error),
        }
    }

    /// Notes when a lease was first seen as it is.
    fn observe(&mut self, lease: Lease) {
        let same = |seen: &Lease| seen.metadata.resource_version == lease.metadata.resource_version;
        if !self.observed.as_ref().is_some_and(|(seen, _)| same(seen)) {
            self.observed = Some((lease, Instant::now()));
        }
    }

    async fn take_if_free(&mut self) -> Answer {
        let Some((lease, since)) = &self.observed else { return Answer::Unknown };
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let (vacant, ours) = (holder.is_empty(), holder == self.config.identity);
        let promised = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok());
        let wait = promised.map_or(self.config.duration, Duration::from_secs);
        if !vacant && !ours && Instant::now() < *since + wait {
            return Answer::Theirs;
        }
        let mut taken = lease.clone();
        let handovers = spec.lease_transitions.unwrap_or_default();
        let handovers = if ours { handovers } else { handovers.saturating_add(1) };
        let acquired = if ours { spec.acquire_time } else { None };
        taken.spec = Some(self.spec(handovers, acquired));
        self.write(taken, false).await
    }

    /// Renews on top of what we wrote last; only a surprise costs a read.
    async fn try_renew(&mut self) -> Answer {
        if let Some((lease, _)) = &self.observed {
            let mut renewed = lease.clone();
            let spec = renewed.spec.take().unwrap_or_default();
            let handovers = spec.lease_transitions.unwrap_or_default();
            renewed.spec = Some(self.spec(handovers, spec.acquire_time));
            if let Answer::Ours(until) = self.write(renewed, false).await {
                return Answer::Ours(until);
            }
        }
        match self.leases.find(&self.config.key).await {
            Ok(None) => {
                let fresh = self.fresh();
                self.write(fresh, true).await
            }
            Ok(Some(lease)) => {
                let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
                if holder == Some(self.config.identity.as_str()) {
                    self.observe(lease);
                    self.take_if_free().await
                } else {
                    self.observe(lease);
                    Answer::Theirs
                }
            }
            Err(error) => self.unknown(&error),
        }
    }

    /// Gives the lease back, so that the next leader need not wait.
    async fn release(&mut self) {
        let Some((lease, _)) = &self.observed else { return };
        let mut given_back = lease.clone();
        if let Some(spec) = &mut given_back.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(MicroTime(self.env.now()));
        }
        // Without it the others wait the lease out: slower, but right.
        if let Err(error) = self.leases.update(&given_back).await {
            tracing::warn!(%error, "could not give the lease back");
        }
        self.observed = None;
    }

    async fn write(&mut self, lease: Lease, fresh: bool) -> Answer {
        let until = Instant::now() + self.config.renew_deadline;
        let written =
            if fresh { self.leases.create(&lease).await } else { self.leases.update(&lease).await };
        match written {
            Ok(lease) => {
                self.observe(lease);
                Answer::Ours(until)
            }
            Err(error) => self.unknown(&error),
        }
    }

    fn unknown(&self, error: &ClientError) -> Answer {
        tracing::debug!(lease = %self.config.key, %error, "could not look after the lease");
        Answer::Unknown
    }

    fn fresh(&self) -> Lease {
        let mut lease = Lease { spec: Some(self.spec(0, None)), ..Lease::default() };
        lease.metadata.namespace = self.config.key.namespace.clone();
        lease.metadata.name = Some(self.config.key.name.clone());
        lease
    }

    fn spec(&self, handovers: i32, acquired: Option<MicroTime>) -> LeaseSpec {
        let now = MicroTime(self.env.now());
        let seconds = self.config.duration.as_secs().try_into().unwrap_or(i32::MAX);
        LeaseSpec {
            holder_identity: Some(self.config.identity.clone()),
            lease_duration_seconds: Some(seconds),
            acquire_time: Some(acquired.unwrap_or_else(|| now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(handovers),
            ..LeaseSpec::default()
        }
    }
}
