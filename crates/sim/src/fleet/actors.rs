//! The controllers of a fleet as tasks that can be stopped, killed and started again.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// What tells an actor to stop.
pub(super) type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Default)]
pub(super) struct Actors(BTreeMap<String, Running>);

struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Actors {
    /// Runs an actor in a task of its own. One of the same name must not be running.
    pub fn start<F>(&mut self, name: &str, run: impl FnOnce(Stop) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(run(Box::pin(async { drop(stopped.await) })));
        let before = self.0.insert(name.to_owned(), Running { stop, task });
        assert!(before.is_none(), "{name} runs already");
    }

    pub async fn stop(&mut self, name: &str) {
        let Running { stop, task } = self.take(name);
        // An actor that has ended by itself does not listen.
        stop.send(()).ok();
        task.await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    pub async fn kill(&mut self, name: &str) {
        let Running { task, .. } = self.take(name);
        task.abort();
        let ended = task.await;
        assert!(ended.is_err_and(|error| error.is_cancelled()), "{name} was not running");
    }

    fn take(&mut self, name: &str) -> Running {
        self.0.remove(name).unwrap_or_else(|| panic!("{name} does not run"))
    }
}

impl Drop for Actors {
    fn drop(&mut self) {
        for running in self.0.values() {
            running.task.abort();
        }
    }
}
