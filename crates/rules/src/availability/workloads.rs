//! Whether Deployments, StatefulSets and DaemonSets run what they were last told to.

use serde_json::Value;

use super::{Availability, Reader, Unreadable};

/// Replicas of a workload that does not say how many.
const REPLICAS: i64 = 1;

pub(super) fn deployment(object: &Value) -> Result<Availability, Unreadable> {
    let read = Reader { kind: "a deployment", object };
    let wanted = read.optional_number("/spec/replicas")?.unwrap_or(REPLICAS);
    let available = read.number("/status/availableReplicas")?;
    let updated = read.number("/status/updatedReplicas")?;
    let unavailable = read.number("/status/unavailableReplicas")?;
    let runs = available == wanted && updated == wanted && unavailable == 0;
    Ok(Availability::when(read.is_observed()? && runs))
}

pub(super) fn stateful_set(object: &Value) -> Result<Availability, Unreadable> {
    let read = Reader { kind: "a stateful set", object };
    let wanted = read.optional_number("/spec/replicas")?.unwrap_or(REPLICAS);
    let available = read.number("/status/availableReplicas")?;
    let current = read.number("/status/currentReplicas")?;
    let updated = read.number("/status/updatedReplicas")?;
    let settled = read.word("/status/currentRevision")? == read.word("/status/updateRevision")?;
    let runs = available == wanted && current == updated && settled;
    Ok(Availability::when(read.is_observed()? && runs))
}

pub(super) fn daemon_set(object: &Value) -> Result<Availability, Unreadable> {
    let read = Reader { kind: "a daemon set", object };
    let available = read.number("/status/numberAvailable")?;
    let wanted = read.number("/status/desiredNumberScheduled")?;
    let current = read.number("/status/currentNumberScheduled")?;
    let updated = read.number("/status/updatedNumberScheduled")?;
    let runs = available == wanted && current == updated;
    Ok(Availability::when(read.is_observed()? && runs))
}
