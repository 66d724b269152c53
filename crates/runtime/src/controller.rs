//! One controller: the queue of keys to look at, what fills it, and the passes over its keys.
//!
//! A [`Controller`] owns its subscriptions, the tasks beside its passes (such as writing
//! events out), its workers and its shutdown. A process puts its controllers together as
//! [`Controllers`], which run until they are told to stop. What one pass reads, plans and
//! writes is the business of the `shell` it is handed to.

use std::any::Any;
use std::fmt::Debug;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Either, join_all, select};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::events::Recorder;
use crate::metrics::Metrics;
use crate::queue::{Outcome, Queue, Workers};

/// A controller that has been set up and not run yet.
#[must_use]
pub struct Controller {
    passes: BoxFuture<'static, ()>,
    close: Box<dyn Fn() + Send>,
    /// Only kept: dropping one ends it.
    subscriptions: Vec<Box<dyn Any + Send>>,
    tasks: JoinSet<()>,
}

impl Controller {
    /// Hands the keys of a queue to `pass`, at most `workers` at a time.
    pub fn new<K, G, T, F, Fut>(
        queue: &Queue<K, G>,
        workers: usize,
        metrics: &Metrics,
        shell: Arc<T>,
        pass: F,
    ) -> Self
    where
        K: Ord + Clone + Debug + Send + 'static,
        G: Ord + Clone + Send + 'static,
        T: Send + Sync + 'static,
        F: Fn(Arc<T>, K) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Into<Outcome>,
    {
        let (closing, queue) = (queue.clone(), queue.clone());
        let metrics = metrics.clone();
        let passes = async move {
            let workers = Workers::new(queue, workers, &metrics);
            workers.run(|key| pass(shell.clone(), key)).await;
        };
        Self {
            passes: Box::pin(passes),
            close: Box::new(move || closing.close()),
            subscriptions: Vec::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Controllers that are made and run once `ready` is, unless they are closed before.
    pub fn once_ready(
        ready: impl Future<Output = ()> + Send + 'static,
        make: impl FnOnce() -> Controllers + Send + 'static,
    ) -> Self {
        let closing = watch::Sender::new(false);
        let mut closed = closing.subscribe();
        let passes = async move {
            // A sender that is gone has closed us, too.
            let mut closed = pin!(async move { drop(closed.wait_for(|closed| *closed).await) });
            if let Either::Right(_) = select(pin!(ready), closed.as_mut()).await {
                return;
            }
            // Whoever closes us decides how long the last passes may take.
            make().run(closed, Duration::MAX).await;
        };
        Self {
            passes: Box::pin(passes),
            close: Box::new(move || {
                closing.send_replace(true);
            }),
            subscriptions: Vec::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Keeps subscriptions, which fill the queue, for as long as the controller lives.
    pub fn listening<S: Send + 'static>(mut self, to: impl IntoIterator<Item = S>) -> Self {
        let to = to.into_iter().map(|one| Box::new(one) as Box<dyn Any + Send>);
        self.subscriptions.extend(to);
        self
    }

    /// Starts a task that ends with the controller.
    pub fn with_task(mut self, task: impl Future<Output = ()> + Send + 'static) -> Self {
        self.tasks.spawn(task);
        self
    }

    /// Writes a recorder's events out for as long as the controller lives.
    pub fn recording(self, recorder: &Recorder) -> Self {
        let recorder = recorder.clone();
        self.with_task(async move { recorder.run().await })
    }
}

/// The controllers of one process.
#[must_use]
#[derive(Default)]
pub struct Controllers(Vec<Controller>);

impl Controllers {
    /// Runs them until all queues are closed and drained. When `stop` is ready no more keys
    /// are taken, and passes under way have `grace` to end. Dropping the future stops
    /// everything as a crash would.
    pub async fn run(self, stop: impl Future<Output = ()>, grace: Duration) {
        let mut all_passes = Vec::new();
        let mut kept = Vec::new();
        for Controller { passes, close, subscriptions, tasks } in self.0 {
            all_passes.push(passes);
            kept.push((close, subscriptions, tasks));
        }
        let working = pin!(join_all(all_passes));
        if let Either::Right(((), working)) = select(working, pin!(stop)).await {
            kept.iter().for_each(|(close, ..)| close());
            if tokio::time::timeout(grace, working).await.is_err() {
                tracing::warn!("passes under way did not end in time");
            }
        }
    }
}

impl FromIterator<Controller> for Controllers {
    fn from_iter<I: IntoIterator<Item = Controller>>(all: I) -> Self {
        Self(all.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::sync::oneshot;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::queue::QueueConfig;

    const GRACE: Duration = Duration::from_secs(30);

    /// A controller whose passes take a second each and write their keys down.
    fn slow(queue: &Queue<u8>, seen: &Arc<Mutex<Vec<u8>>>) -> Controller {
        let seen = seen.clone();
        Controller::new(queue, 1, &Metrics::default(), seen, |seen, key| async move {
            sleep(Duration::from_secs(1)).await;
            seen.lock().unwrap().push(key);
            Outcome::Done
        })
    }

    fn queue() -> Queue<u8> {
        Queue::new(QueueConfig::named("test"), &Metrics::default())
    }

    #[tokio::test(start_paused = true)]
    async fn passes_that_were_asked_for_end_before_a_stop_does() {
        let (queue, seen) = (queue(), Arc::default());
        let controllers = Controllers::from_iter([slow(&queue, &seen)]);
        queue.add(1);
        queue.add(2);
        let begun = Instant::now();
        controllers.run(sleep(Duration::from_millis(500)), GRACE).await;
        assert_eq!(*seen.lock().unwrap(), [1, 2]);
        assert_eq!(begun.elapsed(), Duration::from_secs(2));
        queue.add(3);
        assert_eq!(queue.depth().ready, 0, "a closed queue takes no keys");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pass_that_outlasts_the_grace_is_dropped() {
        let (queue, seen) = (queue(), Arc::default());
        let controllers = Controllers::from_iter([slow(&queue, &seen)]);
        queue.add(1);
        let begun = Instant::now();
        controllers.run(sleep(Duration::from_millis(100)), Duration::from_millis(200)).await;
        assert_eq!(*seen.lock().unwrap(), [] as [u8; 0]);
        assert_eq!(begun.elapsed(), Duration::from_millis(300));
    }

    #[tokio::test(start_paused = true)]
    async fn controllers_that_wait_start_when_ready_and_stop_either_way() {
        for ready_after in [1, 60] {
            let (queue, seen) = (queue(), Arc::default());
            queue.add(1);
            let (of, to) = (queue.clone(), Arc::clone(&seen));
            let ready = sleep(Duration::from_secs(ready_after));
            let waiting =
                Controller::once_ready(ready, move || Controllers::from_iter([slow(&of, &to)]));
            let begun = Instant::now();
            Controllers::from_iter([waiting]).run(sleep(Duration::from_secs(10)), GRACE).await;
            let expected: &[u8] = if ready_after == 1 { &[1] } else { &[] };
            assert_eq!(*seen.lock().unwrap(), expected, "ready after {ready_after} s");
            assert_eq!(begun.elapsed(), Duration::from_secs(10));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_stands_beside_the_passes_ends_with_them() {
        let (queue, seen) = (queue(), Arc::default());
        let (alive, dropped) = oneshot::channel::<()>();
        let beside = async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        };
        let controller = slow(&queue, &seen).with_task(beside);
        Controllers::from_iter([controller]).run(async {}, GRACE).await;
        assert!(dropped.await.is_err());
    }
}
