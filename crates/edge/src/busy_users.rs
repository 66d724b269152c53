//! Users who keep the server busy, whose connections are worked on by threads of lower priority.
//!
//! The fair queue ([`super::fair_queue`]) bounds what one user has under way, but encrypting a long list, or
//! answering hundreds of connections, fills the threads all the same, and whatever else is
//! ready on them waits. So the time that the connections and requests of a user take is
//! counted. Who took much of a processor lately moves, with all connections, to threads that
//! the operating system runs only when nobody else wants to, and moves back when calm.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use hyper::rt::Executor;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::Instant;

use super::connection_limit::ConnectionSlot;

/// How far back the time of a user counts.
const WINDOW: Duration = Duration::from_millis(500);
/// With more than this in a window a user is busy: a fifth of a processor.
const BUSY: Duration = Duration::from_millis(100);
/// With less than this a user is calm again: a twentieth.
const CALM: Duration = Duration::from_millis(25);

/// Boxed, since it moves between threads.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The users of a server, and the threads for those who keep it busy.
pub(super) struct BusyUsers {
    users: Mutex<BTreeMap<Arc<str>, Weak<Time>>>,
    usual: Handle,
    /// Started when the first user is busy; `None` where threads cannot be started.
    lower: OnceLock<Option<Runtime>>,
}

/// The time that a user's connections and requests took lately.
#[derive(Debug, Default)]
struct Time(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    lately: Duration,
    until: Option<Instant>,
    is_busy: bool,
}

/// Whose time a connection takes: nobody's until somebody is authenticated on it.
#[derive(Default)]
pub(super) struct Meter(Mutex<Option<(Arc<str>, Arc<Time>)>>);

impl BusyUsers {
    /// Connections of users who are not busy belong to the runtime of the caller.
    pub(super) fn new() -> Arc<Self> {
        let (users, usual, lower) = (Mutex::default(), Handle::current(), OnceLock::new());
        Arc::new(Self { users, usual, lower })
    }

    /// From now on a connection takes this user's time.
    pub(super) fn belongs_to(&self, slot: &ConnectionSlot, user: &Arc<str>) {
        let mut owner = slot.meter.0.lock().unwrap_or_else(PoisonError::into_inner);
        if owner.as_ref().is_some_and(|(name, _)| name == user) {
            return;
        }
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let known = users.get(user).and_then(Weak::upgrade);
        let time = known.unwrap_or_else(|| {
            users.retain(|_, time| time.strong_count() > 0);
            let time = Arc::new(Time::default());
            users.insert(user.clone(), Arc::downgrade(&time));
            time
        });
        *owner = Some((user.clone(), time));
    }

    /// Works on a connection, or on a request of it, where its user belongs.
    pub(super) fn spawn(
        self: &Arc<Self>,
        slot: &Arc<ConnectionSlot>,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let is_busy = slot.meter.is_busy();
        self.clone().spawn_on(is_busy, slot.clone(), Box::pin(work));
    }

    fn spawn_on(self: Arc<Self>, is_busy: bool, slot: Arc<ConnectionSlot>, work: Work) {
        let threads = if is_busy { self.lower() } else { &self.usual };
        threads.clone().spawn(async move {
            let metered = Metered { meter: &slot.meter, work: Some(work), is_busy };
            if let Some(work) = metered.await {
                self.spawn_on(!is_busy, slot, work);
            }
        });
    }

    /// Threads of lower priority, for whatever takes long.
    pub(super) fn lower(&self) -> &Handle {
        let started = self.lower.get_or_init(|| {
            let mut builder = Builder::new_multi_thread();
            builder.thread_name("busy-users").on_thread_start(lower_priority).enable_all();
            builder.build().inspect_err(|why| tracing::warn!(%why, "cannot start threads")).ok()
        });
        started.as_ref().map_or(&self.usual, Runtime::handle)
    }
}

impl Drop for BusyUsers {
    fn drop(&mut self) {
        // Where it is dropped nobody may wait, as a runtime would for its threads.
        if let Some(Some(lower)) = self.lower.take() {
            lower.shutdown_background();
        }
    }
}

/// Elsewhere the threads share the processors as equals, which helps as well.
fn lower_priority() {
    #[cfg(target_os = "linux")]
    {
        if let Err(why) = rustix::process::setpriority_process(None, 10) {
            tracing::debug!(%why, "cannot lower the priority of a thread");
        }
        if let Err(why) = leave_a_processor_free() {
            tracing::debug!(%why, "cannot keep a thread off a processor");
        }
    }
}

/// Keeps this thread off the first processor, unless there is only one: Linux lets a thread finish
/// its slice, of a millisecond or more, before one of higher priority that has woken takes its place.
#[cfg(target_os = "linux")]
fn leave_a_processor_free() -> rustix::io::Result<()> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let mut processors = sched_getaffinity(None)?;
    if processors.count() < 2 {
        return Ok(());
    }
    let first = (0..CpuSet::MAX_CPU).find(|&processor| processors.is_set(processor));
    first.into_iter().for_each(|first| processors.unset(first));
    sched_setaffinity(None, &processors)
}

impl Time {
    /// Whether the user is busy now that this much more was taken.
    fn take(&self, took: Duration, now: Instant) -> bool {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = taken.until.map_or(WINDOW, |until| now.saturating_duration_since(until));
        let counts = WINDOW.saturating_sub(passed).div_duration_f64(WINDOW);
        taken.lately = taken.lately.mul_f64(counts) + took;
        taken.until = Some(now);
        taken.is_busy = taken.lately > if taken.is_busy { CALM } else { BUSY };
        taken.is_busy
    }
}

impl Meter {
    fn take(&self, took: Duration, now: Instant) -> bool {
        let owner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        owner.as_ref().is_some_and(|(_, time)| time.take(took, now))
    }

    fn is_busy(&self) -> bool {
        self.take(Duration::ZERO, Instant::now())
    }
}

/// Work whose time is counted; hands it back when it belongs to the other threads.
struct Metered<'a> {
    meter: &'a Meter,
    work: Option<Work>,
    is_busy: bool,
}

impl Future for Metered<'_> {
    type Output = Option<Work>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        let begun = Instant::now();
        let polled = work.as_mut().poll(context);
        let now = Instant::now();
        let is_busy = self.meter.take(now - begun, now);
        if self.is_busy {
            // A thread of higher priority that has woken meanwhile would otherwise wait until the
            // operating system looks around again, which it may do every four milliseconds.
            thread::yield_now();
        }
        match polled {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending if is_busy != self.is_busy => Poll::Ready(self.work.take()),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Works on the requests of an HTTP/2 connection.
#[derive(Clone)]
pub(super) struct RequestExecutor {
    pub(super) users: Arc<BusyUsers>,
    pub(super) slot: Arc<ConnectionSlot>,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for RequestExecutor {
    fn execute(&self, request: F) {
        self.users.spawn(&self.slot, request);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::task::yield_now;

    use super::*;
    use crate::Limits;
    use crate::connection_limit::ConnectionLimit;

    #[test]
    fn a_user_is_busy_above_a_fifth_of_a_processor_and_calm_below_a_twentieth() {
        let (time, begun) = (Time::default(), Instant::now());
        let mut now = begun;
        // Of each ten milliseconds so many are taken, for two seconds.
        let mut work = |tenths: u32| {
            let mut is_busy = false;
            for _ in 0..200 {
                now += Duration::from_millis(10);
                is_busy = time.take(Duration::from_millis(1) * tenths, now);
            }
            is_busy
        };
        assert_eq!([1, 3, 1, 0].map(&mut work), [false, true, true, false]);
    }

    #[test]
    fn after_a_pause_a_user_is_calm() {
        let (time, begun) = (Time::default(), Instant::now());
        assert!(time.take(WINDOW, begun));
        assert!(!time.take(Duration::ZERO, begun + WINDOW));
    }

    /// Work that says on which threads it is, and takes the time it is told to.
    async fn work(told: Arc<Mutex<Vec<bool>>>, rounds: Vec<Duration>) {
        for takes in rounds {
            let lower = thread::current().name().is_some_and(|name| name == "busy-users");
            told.lock().unwrap().push(lower);
            let begun = Instant::now();
            while begun.elapsed() < takes {}
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn work_of_a_busy_user_moves_and_that_of_others_stays() {
        let users = BusyUsers::new();
        let limit = ConnectionLimit::new(&Limits::default());
        let slot = |user: &str| {
            let slot = Arc::new(limit.slot(Ipv4Addr::LOCALHOST.into()));
            users.belongs_to(&slot, &user.into());
            slot
        };
        let (first, second, other) = (slot("eve"), slot("eve"), slot("ann"));
        let long = vec![BUSY * 2, Duration::ZERO];
        for (slot, rounds, expected) in [
            (&first, long, vec![false, true]),
            // Another connection of the same user begins there at once.
            (&second, vec![Duration::ZERO; 2], vec![true, true]),
            (&other, vec![Duration::ZERO; 2], vec![false, false]),
        ] {
            let told = Arc::<Mutex<Vec<bool>>>::default();
            let (done, end) = tokio::sync::oneshot::channel();
            let working = work(told.clone(), rounds);
            users.spawn(slot, async move {
                working.await;
                done.send(()).ok();
            });
            end.await.unwrap();
            assert_eq!(*told.lock().unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn users_without_connections_are_forgotten() {
        let users = BusyUsers::new();
        let limit = ConnectionLimit::new(&Limits::default());
        for user in ["ann", "bob", "eve"] {
            let slot = limit.slot(Ipv4Addr::LOCALHOST.into());
            users.belongs_to(&slot, &user.into());
        }
        assert_eq!(users.users.lock().unwrap().len(), 1);
    }
}
