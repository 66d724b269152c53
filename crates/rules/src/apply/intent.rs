//! What is recorded before anything is applied, and what has to go.
//!
//! The record of a Work names every object that may be on the member because of it. A manifest
//! enters the record before it is applied and leaves it only after its object is removed: after
//! a crash anywhere, nothing is on the member that nobody remembers.

use std::collections::{BTreeMap, BTreeSet};

use flagship_api::condition::{Conditions, Generation, draft};
use flagship_api::condition_type::work::APPLIED;
use flagship_api::printed;
use flagship_api::reason::work::manifest as reason;
use flagship_api::work::{AppliedWorkStatus, ManifestCondition, Work, WorkResourceIdentifier};
use jiff::Timestamp;

use super::apply_options::ApplyOptions;
use super::manifest::{Key, Manifest, key};

/// What to do before applying.
#[derive(Debug, Clone, PartialEq)]
pub struct Intent {
    /// Objects that no manifest asks for any more. All of them must be dealt with, by
    /// [`super::removal`], before the record is written.
    pub left_overs: Vec<WorkResourceIdentifier>,
    /// The new `status.manifestConditions`; the conditions of the Work stay.
    pub manifest_conditions: Vec<ManifestCondition>,
}

/// The intent of a pass over manifests that are [mapped](super::map). None if it is on record
/// already, or if nothing will be applied.
pub fn intent(
    work: &Work,
    applied: &AppliedWorkStatus,
    terms: &ApplyOptions,
    manifests: &[Manifest],
    now: Timestamp,
) -> Option<Intent> {
    let generation = Generation::of(&work.metadata);
    let status = work.status.as_ref();
    let recorded = status.and_then(|status| status.conditions.current(APPLIED, generation));
    let known = status.map(|status| status.manifest_conditions.as_slice()).unwrap_or_default();
    if recorded.is_some() && !learned_a_kind(known, manifests) || terms.only_compares() {
        return None;
    }
    Some(Intent {
        left_overs: left_overs(known, applied, manifests),
        manifest_conditions: record(known, manifests, generation, now),
    })
}

/// Whether the member has come to know the kind of a manifest that is on record without its
/// plural name. Its object would be applied now and, after a crash, not be found again.
fn learned_a_kind(known: &[ManifestCondition], manifests: &[Manifest]) -> bool {
    let nameless = known.iter().filter(|entry| entry.identifier.resource.is_empty());
    let nameless: BTreeSet<Key> = nameless.filter_map(|entry| key(&entry.identifier)).collect();
    let mut mapped = manifests.iter().filter(|manifest| !manifest.identifier.resource.is_empty());
    mapped.any(|manifest| key(&manifest.identifier).is_some_and(|key| nameless.contains(&key)))
}

/// The error that ends a pass whose left-overs could not all be removed, given what went wrong.
pub fn removal_failed(errors: &[String]) -> String {
    let each = errors
        .iter()
        .map(|error| format!("failed to remove the left-over manifest (regular object): {error}"));
    format!("failed to remove left-over manifests: {}", printed::errors(each))
}

fn left_overs(
    known: &[ManifestCondition],
    applied: &AppliedWorkStatus,
    manifests: &[Manifest],
) -> Vec<WorkResourceIdentifier> {
    // Whatever is wrong with a manifest, an object that it names is still asked for. Nor does
    // another version of the API make it another object.
    let object = |of: &WorkResourceIdentifier| {
        key(of).map(|(group, _, kind, namespace, name)| (group, kind, namespace, name))
    };
    let mut asked: BTreeSet<_> = manifests.iter().filter_map(|m| object(&m.identifier)).collect();
    let on_record = known.iter().map(|entry| &entry.identifier);
    let remembered = applied.applied_resources.iter().map(|resource| &resource.identifier);
    // Whatever was said of it last, an object that is ours goes, and one that is not stays:
    // its owners decide. Without a plural name it was never looked for, let alone applied.
    let removable = |of: &&WorkResourceIdentifier| !of.resource.is_empty();
    let all = on_record.chain(remembered).filter(removable);
    all.filter(|of| object(of).is_some_and(|object| asked.insert(object))).cloned().collect()
}

fn record(
    known: &[ManifestCondition],
    manifests: &[Manifest],
    generation: Generation,
    now: Timestamp,
) -> Vec<ManifestCondition> {
    let mut by_key: BTreeMap<Key, &ManifestCondition> = BTreeMap::new();
    for entry in known {
        if let Some(key) = key(&entry.identifier) {
            by_key.entry(key).or_insert(entry);
        }
    }
    let mut recorded = Vec::new();
    let mut seen = BTreeSet::new();
    for manifest in manifests {
        let Some(key) = key(&manifest.identifier).filter(|key| seen.insert(key.clone())) else {
            continue;
        };
        match by_key.get(&key) {
            Some(entry) => {
                let mut entry = (*entry).clone();
                // The kind may have been unknown when it was recorded, and an object without a
                // plural name is never removed.
                if entry.identifier.resource.is_empty() {
                    entry.identifier.resource.clone_from(&manifest.identifier.resource);
                }
                recorded.push(entry);
            }
            None if manifest.untried.is_some() => {}
            None => recorded.push(preparing(manifest, generation, now)),
        }
    }
    recorded
}

fn preparing(manifest: &Manifest, generation: Generation, now: Timestamp) -> ManifestCondition {
    let condition = draft(APPLIED)
        .is_false(reason::PREPARING_TO_PROCESS)
        .because("The manifest is being prepared for processing.")
        .into_condition(generation, now);
    ManifestCondition {
        identifier: manifest.identifier.clone(),
        conditions: vec![condition],
        ..ManifestCondition::default()
    }
}
