//! Whether the policy becomes a new snapshot, and which old ones go.
//!
//! Only what changes the choice of clusters makes a new one. The number of clusters and
//! the placement's generation are annotations, because scaling up must not start the
//! choice over.
//!
//! The status of a policy snapshot is the scheduler's, not ours.

use std::sync::Arc;

use flagship_api::hash::policy_hash;
use flagship_api::names::{SnapshotIndex, policy_snapshot};
use flagship_api::policy::PlacementType;
use flagship_api::snapshot::SchedulingPolicySnapshotStatus;
use serde::{Deserialize, Serialize};

use super::observed::Placement;
use super::pass_error::{Frozen, PassError};
use crate::model::PolicySnapshot;

/// What to do about policy snapshots, and where that leaves the placement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicyPlan {
    /// Writes, in order.
    pub actions: Vec<PolicyAction>,
    /// The snapshot that is the latest once they are done.
    pub latest: LatestPolicy,
}

/// The latest policy snapshot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LatestPolicy {
    /// Its name.
    pub name: String,
    /// Its generation.
    pub generation: i64,
    /// What the scheduler recorded; empty on a new one.
    pub status: SchedulingPolicySnapshotStatus,
}

/// One write about policy snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PolicyAction {
    /// Take the label of the latest off.
    Retire {
        /// The snapshot.
        name: String,
    },
    /// Label it the latest, and say what it answers to.
    Refresh {
        /// The snapshot.
        name: String,
        /// Annotation `CRP-generation`.
        placement_generation: i64,
        /// Annotation `number-of-clusters`; `None` leaves it alone.
        number_of_clusters: Option<i32>,
    },
    /// Create a snapshot of the placement's policy.
    Create(NewPolicySnapshot),
    /// Delete one.
    Delete {
        /// The snapshot.
        name: String,
    },
}

/// A policy snapshot to create; its policy is the placement's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewPolicySnapshot {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: String,
    /// Hash of the policy.
    pub hash: String,
    /// Generation of the placement.
    pub placement_generation: i64,
    /// How many clusters are wanted, for PickN only.
    pub number_of_clusters: Option<i32>,
}

/// Gets or creates the snapshot of the placement's policy, keeping at most `limit`.
pub fn plan(
    placement: &Placement,
    existing: &[Arc<PolicySnapshot>],
    limit: usize,
) -> Result<PolicyPlan, PassError> {
    let policy = placement.spec.policy.as_ref();
    let hash = policy_hash(policy)
        .map_err(|error| PassError::Unexpected(format!("cannot hash the policy: {error}")))?;
    let wanted = match placement.picks() {
        PlacementType::PickN => policy.and_then(|policy| policy.number_of_clusters),
        PlacementType::PickAll | PlacementType::PickFixed => None,
    };
    let mut indexed = existing
        .iter()
        .map(|snapshot| Ok((index_of(snapshot)?, snapshot.as_ref())))
        .collect::<Result<Vec<_>, PassError>>()?;
    indexed.sort_by_key(|(index, _)| *index);
    let mut labelled: Vec<&PolicySnapshot> =
        indexed.iter().map(|(_, snapshot)| *snapshot).filter(|s| s.latest).collect();
    let newest = indexed.last().map(|(_, snapshot)| *snapshot);
    let latest = labelled.pop().or(newest);
    // Two latest ones would stop the scheduler; the highest index is the true one.
    let mut actions: Vec<PolicyAction> = labelled.into_iter().map(retire).collect();

    if let Some(latest) = latest.filter(|latest| latest.hash == hash) {
        let stale = is_stale(latest, placement, wanted)?;
        if stale || !latest.latest {
            actions.push(PolicyAction::Refresh {
                name: latest.name.clone(),
                placement_generation: placement.generation,
                number_of_clusters: wanted,
            });
        }
        // A pass that created one may have ended before it pruned.
        let beyond = indexed.len().saturating_sub(limit.max(1));
        let old = indexed.iter().take(beyond).map(|(_, snapshot)| *snapshot);
        actions.extend(old.filter(|old| old.name != latest.name).map(delete));
        let latest = LatestPolicy {
            name: latest.name.clone(),
            generation: latest.generation,
            status: latest.status.clone(),
        };
        return Ok(PolicyPlan { actions, latest });
    }
    actions.extend(latest.filter(|latest| latest.latest).map(retire));
    let index = indexed.last().map_or(SnapshotIndex::FIRST, |(index, _)| index.next());
    let name = policy_snapshot(&placement.name, index);
    actions.push(PolicyAction::Create(NewPolicySnapshot {
        name: name.clone(),
        index: index.to_string(),
        hash,
        placement_generation: placement.generation,
        number_of_clusters: wanted,
    }));
    let beyond = (indexed.len() + 1).saturating_sub(limit.max(1));
    actions.extend(indexed.iter().take(beyond).map(|(_, snapshot)| delete(snapshot)));
    let latest = LatestPolicy { name, generation: 1, ..LatestPolicy::default() };
    Ok(PolicyPlan { actions, latest })
}

fn retire(snapshot: &PolicySnapshot) -> PolicyAction {
    PolicyAction::Retire { name: snapshot.name.clone() }
}

fn delete(snapshot: &PolicySnapshot) -> PolicyAction {
    PolicyAction::Delete { name: snapshot.name.clone() }
}

/// Whether the annotations no longer say what the placement says.
fn is_stale(
    latest: &PolicySnapshot,
    placement: &Placement,
    wanted: Option<i32>,
) -> Result<bool, PassError> {
    let generation = annotated(latest, "CRP-generation", latest.placement_generation.as_deref())?;
    if wanted.is_none() {
        return Ok(generation != placement.generation);
    }
    let number = annotated(latest, "number-of-clusters", latest.number_of_clusters.as_deref())?;
    if number < 0 {
        return Err(bad(latest, "number-of-clusters", "must not be negative"));
    }
    Ok(generation != placement.generation || Some(number) != wanted.map(i64::from))
}

fn annotated(on: &PolicySnapshot, what: &str, text: Option<&str>) -> Result<i64, PassError> {
    let text = text.ok_or_else(|| bad(on, what, "it is missing"))?;
    flagship_base::go_number::atoi(text).map_err(|error| bad(on, what, &error.to_string()))
}

fn index_of(snapshot: &PolicySnapshot) -> Result<SnapshotIndex, PassError> {
    let text = snapshot.index.as_deref();
    let text = text.ok_or_else(|| bad(snapshot, "policy-index", "it is missing"))?;
    text.parse().map_err(|error: flagship_api::names::IndexError| {
        bad(snapshot, "policy-index", &error.to_string())
    })
}

fn bad(on: &PolicySnapshot, what: &str, why: &str) -> PassError {
    let cause = format!("policy snapshot {} has a bad {what}: {why}", on.name);
    PassError::Snapshot { of: Frozen::Policy, name: on.name.clone(), cause }
}
