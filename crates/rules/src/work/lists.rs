//! Which resources of a binding failed, drifted or differ: by name, and not too many.
//!
//! Nothing is listed while the picture is incomplete: half a list would be taken for
//! the whole.

use flagship_api::binding::ResourceBindingStatus;
use flagship_api::condition::{Condition, Conditions, Generation};
use flagship_api::condition_type::work::{APPLIED, AVAILABLE};
use flagship_api::placement_status::{
    DiffedResourcePlacement, DriftedResourcePlacement, EnvelopeType, FailedResourcePlacement,
    ResourceIdentifier,
};

use super::observed::{Manifest, Observed, Work};

/// Most entries of each list; the API refuses more.
pub const MOST_LISTED: usize = 100;

/// Which lists the conditions give reason to show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shown {
    pub failed: bool,
    pub drifted: bool,
    pub diffed: bool,
}

/// The status with these conditions and the lists that go with them.
pub fn show(seen: &Observed, shown: Shown, conditions: Vec<Condition>) -> ResourceBindingStatus {
    let failing = seen.live_works().filter(|work| shown.failed && is_failing(work));
    let failed = failing.flat_map(|work| &work.manifests).filter_map(failed);
    let manifests = || seen.live_works().flat_map(|work| &work.manifests);
    let drifted = manifests().filter(|_| shown.drifted).filter_map(drifted);
    let diffed = manifests().filter(|_| shown.diffed).filter_map(diffed);
    ResourceBindingStatus {
        failed_placements: listed(failed.collect(), |one| &one.resource),
        drifted_placements: listed(drifted.collect(), |one| &one.resource),
        diffed_placements: listed(diffed.collect(), |one| &one.resource),
        conditions,
    }
}

fn is_failing(work: &Work) -> bool {
    let generation = Generation(work.generation);
    [APPLIED, AVAILABLE].iter().any(|kind| work.conditions.is_false_at(kind, generation))
}

fn failed(manifest: &Manifest) -> Option<FailedResourcePlacement> {
    let condition = manifest.failure.clone()?;
    Some(FailedResourcePlacement { resource: manifest.resource.clone(), condition })
}

fn drifted(manifest: &Manifest) -> Option<DriftedResourcePlacement> {
    let drift = manifest.drift.clone()?;
    Some(DriftedResourcePlacement {
        resource: manifest.resource.clone(),
        observation_time: drift.observation_time,
        target_cluster_observed_generation: drift.observed_in_member_cluster_generation,
        first_drifted_observed_time: drift.first_drifted_observed_time,
        observed_drifts: drift.observed_drifts,
    })
}

fn diffed(manifest: &Manifest) -> Option<DiffedResourcePlacement> {
    let diff = manifest.diff.clone()?;
    Some(DiffedResourcePlacement {
        resource: manifest.resource.clone(),
        observation_time: diff.observation_time,
        target_cluster_observed_generation: diff.observed_in_member_cluster_generation,
        first_diffed_observed_time: diff.first_diffed_observed_time,
        observed_diffs: diff.observed_diffs,
    })
}

/// In order, and no more than the API takes.
fn listed<T>(mut list: Vec<T>, resource: fn(&T) -> &ResourceIdentifier) -> Vec<T> {
    list.sort_by_cached_key(|one| sort_key(resource(one)));
    list.truncate(MOST_LISTED);
    list
}

/// `{group}/{version}/{kind}/{namespace}/{name}[/{envelope type}/{namespace}/{name}]`.
fn sort_key(resource: &ResourceIdentifier) -> String {
    let ResourceIdentifier { group, version, kind, namespace, name, envelope } = resource;
    let mut key = format!("{group}/{version}/{kind}/{namespace}/{name}");
    if let Some(envelope) = envelope {
        let kind = match envelope.r#type.unwrap_or_default() {
            EnvelopeType::ConfigMap => "ConfigMap",
            EnvelopeType::ClusterResourceEnvelope => "ClusterResourceEnvelope",
            EnvelopeType::ResourceEnvelope => "ResourceEnvelope",
        };
        key.push_str(&format!("/{kind}/{}/{}", envelope.namespace, envelope.name));
    }
    key
}
