//! A placement between runs: which versions are where, and did the last run bring its own?

use std::collections::BTreeMap;

use flagship_api::binding::BindingState;
use flagship_api::names::ObjectKey;
use flagship_rules::update_run::lifecycle::{Ending, ending};

use super::facts::{BindingFacts, Facts};
use super::finding::{Evidence, Finding, State};
use super::hints::flagship;
use super::{Cause, refusal};
use crate::order::{natural, some_of};

/// Clusters of one version that are named.
const NAMED: usize = 5;

/// What is to be said of a placement that no open run changes: that its last run failed, or
/// that its clusters do not have the same version. Nothing if all is as it should be.
pub fn after_runs(facts: &Facts, key: &ObjectKey, chosen: usize) -> Option<Finding> {
    let versions = versions(&facts.bindings);
    let reached: usize = versions.values().map(Vec::len).sum();
    let mixed = versions.len() > 1 || (reached > 0 && reached < chosen);
    let spread = spread(key, &versions, reached, chosen);
    let seen = versions.iter().map(|(index, clusters)| {
        Evidence::new("version", format!("snapshot {index}"), some_of(clusters, NAMED))
    });
    let seen: Vec<Evidence> = seen.collect();
    if let Some((name, run)) = &facts.last_run
        && let Some(Ending::Failed(message) | Ending::NotInitialized(message)) = ending(&run.status)
    {
        let last = ObjectKey::new(key.namespace.as_deref(), name);
        let mut found = refusal::explain(facts, &last, run, message);
        found.headline = format!("{spread}; its last run {}", found.headline);
        return Some(found.led_by(seen));
    }
    if !mixed {
        return None;
    }
    let finding = Finding::new(State::Waiting, Cause::MixedVersions, format!("{spread}."))
        .what("no run is under way that would bring them together")
        .led_by(seen)
        .hint("fix", "bring all to what is on the hub now", flagship("run", key))
        .hint("look", "see which runs there were", flagship("history", key));
    Some(finding)
}

/// Clusters by the version they hold or are to hold, in natural order.
fn versions(bindings: &[BindingFacts]) -> BTreeMap<u32, Vec<&str>> {
    let mut versions: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for bound in bindings.iter().filter(|bound| bound.spec.state == BindingState::Bound) {
        if let Some(index) = index_of(bound) {
            versions.entry(index).or_default().push(&bound.spec.target_cluster);
        }
    }
    for clusters in versions.values_mut() {
        clusters.sort_by(|a, b| natural(a, b));
    }
    versions
}

/// The number in the name of the snapshot that a binding holds.
pub fn index_of(bound: &BindingFacts) -> Option<u32> {
    let rest = bound.spec.resource_snapshot_name.strip_prefix(&bound.placement)?;
    rest.strip_prefix('-')?.strip_suffix("-snapshot")?.parse().ok()
}

/// `demo has 2 versions: snapshot 1 on 2 cluster(s), snapshot 0 on 1`.
fn spread(
    key: &ObjectKey,
    versions: &BTreeMap<u32, Vec<&str>>,
    reached: usize,
    chosen: usize,
) -> String {
    let counted: Vec<String> = versions
        .iter()
        .rev()
        .map(|(index, clusters)| format!("snapshot {index} on {} cluster(s)", clusters.len()))
        .collect();
    let nowhere = chosen.saturating_sub(reached);
    match versions.len() {
        0 => format!("{key} is on none of its {chosen} cluster(s)"),
        1 if nowhere == 0 => {
            let index = versions.keys().next().copied().unwrap_or_default();
            format!("{key} is on all {chosen} cluster(s), snapshot {index}")
        }
        _ => {
            let missing = match nowhere {
                0 => String::new(),
                nowhere => format!(", none on {nowhere}"),
            };
            format!("{key} has mixed versions: {}{missing}", counted.join(", "))
        }
    }
}
