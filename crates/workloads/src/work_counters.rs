//! How much the controllers of embedded clusters have done, counted for benchmarks.
//!
//! Counts tell what a change of the code saves on any machine; times only on a quiet one.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts over all clusters of one [`Workloads`](crate::Workloads).
#[derive(Debug, Default)]
pub struct WorkCounters {
    passes: AtomicU64,
    parses: AtomicU64,
    writes: AtomicU64,
    events: AtomicU64,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// Looks of a controller at an object.
    pub passes: u64,
    /// Objects read from JSON.
    pub parses: u64,
    /// Writes asked for, events aside.
    pub writes: u64,
    /// Events asked for.
    pub events: u64,
}

impl WorkCounters {
    /// What has been counted so far.
    pub fn count(&self) -> Count {
        Count {
            passes: self.passes.load(Ordering::Relaxed),
            parses: self.parses.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            events: self.events.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn pass(&self) {
        self.passes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn parse(&self) {
        self.parses.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn write(&self) {
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }
}
