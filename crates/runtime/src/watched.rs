//! A value whose changes many wait for, as in tokio's watch channel. That one wakes those who
//! wait in an order drawn by chance, which no simulation can replay; here it is the order in
//! which they began to wait.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The value.
#[derive(Debug, Default)]
pub(crate) struct Watched<T>(Arc<Shared<T>>);

#[derive(Debug, Default)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State<T> {
    value: T,
    changes: u64,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Copy> Watched<T> {
    /// What it is now.
    pub fn get(&self) -> T {
        self.0.state().value
    }

    /// Changes it, and wakes those who wait if the change says that it is one.
    pub fn change_if(&self, change: impl FnOnce(&mut T) -> bool) {
        let mut state = self.0.state();
        if change(&mut state.value) {
            state.changes += 1;
            drop(state);
            self.0.changed.notify_waiters();
        }
    }

    /// Sets it, and wakes those who wait.
    pub fn set(&self, value: T) {
        self.change_if(|now| {
            *now = value;
            true
        });
    }

    /// Somebody who is told of every change from now on.
    pub fn watcher(&self) -> Watcher<T> {
        Watcher { seen: self.0.state().changes, of: self.0.clone() }
    }

    /// Waits until it is as asked.
    pub async fn wait_for(&self, is: impl Fn(T) -> bool) {
        let mut watcher = self.watcher();
        while !is(self.get()) {
            watcher.changed().await;
        }
    }
}

/// Waits for changes.
#[derive(Debug)]
pub(crate) struct Watcher<T> {
    of: Arc<Shared<T>>,
    seen: u64,
}

impl<T> Watcher<T> {
    /// Waits for a change since the last one that this watcher was told of.
    pub async fn changed(&mut self) {
        loop {
            // Listening begins before looking, so that no change falls in between.
            let mut notified = pin!(self.of.changed.notified());
            notified.as_mut().enable();
            let changes = self.of.state().changes;
            if changes != self.seen {
                self.seen = changes;
                return;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_is_woken_in_the_order_of_waiting() {
        let (watched, order) = (Watched::<u32>::default(), Arc::new(Mutex::new(Vec::new())));
        let waiters: Vec<_> = (0..20)
            .map(|n| {
                let (mut watcher, order) = (watched.watcher(), order.clone());
                tokio::spawn(async move {
                    watcher.changed().await;
                    order.lock().unwrap().push(n);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        watched.set(1);
        for waiter in waiters {
            waiter.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_change_before_waiting_is_not_missed_and_no_change_wakes_nobody() {
        let watched = Watched::<u32>::default();
        let mut watcher = watched.watcher();
        watched.change_if(|_| false);
        let nothing = tokio::time::timeout(std::time::Duration::ZERO, watcher.changed()).await;
        assert!(nothing.is_err());
        watched.set(2);
        watcher.changed().await;
        watched.wait_for(|value| value == 2).await;
    }
}
