//! What statuses that tell of many clusters cost the API server, as their last writes show.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flagship_rules::model::status_window::{LastWrite, status_window};
use tokio::time::Instant;

/// Measures writes of one sort of status. Clones share the measurement.
#[derive(Clone, Debug)]
pub(crate) struct StatusCost {
    /// For each cluster in the status, whatever the server takes.
    least: Duration,
    last: Arc<Mutex<Option<LastWrite>>>,
}

impl StatusCost {
    /// Nothing is measured yet.
    pub fn new(least: Duration) -> Self {
        Self { least, last: Arc::default() }
    }

    /// Writes a status with so many clusters, and notes how long that took.
    pub async fn of<T>(&self, rows: usize, write: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let written = write.await;
        let rows = u32::try_from(rows).unwrap_or(u32::MAX);
        let last = LastWrite { rows, took: begun.elapsed() };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
        written
    }

    /// What a pass over so many clusters costs us, whatever the server takes.
    pub fn pass(&self, rows: u32) -> Duration {
        self.least.saturating_mul(rows)
    }

    /// How long to wait between two writes of a status with so many clusters.
    pub fn window(&self, rows: u32) -> Duration {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        status_window(self.least, rows, last)
    }
}
