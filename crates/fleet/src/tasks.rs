//! The controllers of a fleet as tasks that can be stopped, killed and started again.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// What tells a controller task to stop.
type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The tasks by name.
#[derive(Default)]
pub(crate) struct ControllerTasks(BTreeMap<String, ControllerTask>);

struct ControllerTask {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl ControllerTasks {
    /// Runs controllers in a task of their own. One of the same name must not be running.
    pub fn start<F>(&mut self, name: &str, run: impl FnOnce(Stop) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(run(Box::pin(async { drop(stopped.await) })));
        let before = self.0.insert(name.to_owned(), ControllerTask { stop, task });
        assert!(before.is_none(), "{name} runs already");
    }

    pub async fn stop(&mut self, name: &str) {
        let ControllerTask { stop, task } = self.take(name);
        // A task that has ended by itself does not listen.
        stop.send(()).ok();
        task.await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    /// Tells all tasks to stop at once, and waits until the last one has.
    pub async fn stop_all(&mut self) {
        let mut ending = Vec::new();
        for (name, ControllerTask { stop, task }) in std::mem::take(&mut self.0) {
            stop.send(()).ok();
            ending.push((name, task));
        }
        for (name, task) in ending {
            if let Err(error) = task.await {
                tracing::error!(%name, %error, "controllers did not end in good order");
            }
        }
    }

    pub async fn kill(&mut self, name: &str) {
        let ControllerTask { task, .. } = self.take(name);
        task.abort();
        let ended = task.await;
        assert!(ended.is_err_and(|error| error.is_cancelled()), "{name} was not running");
    }

    fn take(&mut self, name: &str) -> ControllerTask {
        self.0.remove(name).unwrap_or_else(|| panic!("{name} does not run"))
    }
}

impl Drop for ControllerTasks {
    fn drop(&mut self) {
        for running in self.0.values() {
            running.task.abort();
        }
    }
}
