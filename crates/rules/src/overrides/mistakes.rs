//! What an override may not say, whatever else there is on the hub.
//!
//! Admission asks before an override is stored, and the work generator asks again before a
//! snapshot of it is applied: a hub may run without webhooks, and a snapshot may have been
//! written by hand. The messages are API.

use flagship_api::overrides::{
    JsonPatchOperator, JsonPatchOverride, OverrideRule, OverrideType, ResourceSelector,
};
use flagship_api::placement::ResourceSelectorTerm;
use flagship_api::policy::ClusterSelectorTerm;
use flagship_api::printed::{Printed, PrintedSelector};
use flagship_api::selector;

/// What is wrong with the selection of a cluster-scoped override.
pub fn of_cluster_selectors(terms: &[ResourceSelectorTerm]) -> Vec<String> {
    let mut mistakes = Vec::new();
    let mut selected: Vec<&ResourceSelectorTerm> = Vec::new();
    for term in terms {
        let printed = Printed(term);
        if term.label_selector.is_some() {
            mistakes
                .push(format!("label selector is not supported for resource selection {printed}"));
        } else if term.name.is_empty() {
            mistakes.push(format!("resource name is required for resource selection {printed}"));
        } else if selected.contains(&term) {
            mistakes.push(unique(&printed));
        } else {
            selected.push(term);
        }
    }
    mistakes
}

/// What is wrong with the selection of an override in a namespace.
pub fn of_selectors(terms: &[ResourceSelector]) -> Vec<String> {
    let repeated = terms.iter().enumerate().filter(|(at, term)| terms[..*at].contains(term));
    repeated.map(|(_, term)| unique(&Printed(term))).collect()
}

/// What is wrong with one rule.
pub fn of_rule(rule: &OverrideRule) -> Vec<String> {
    let mut mistakes = Vec::new();
    let terms = rule.cluster_selector.iter().flat_map(|s| &s.cluster_selector_terms);
    mistakes.extend(terms.filter_map(cluster_term));
    let patches = &rule.json_patch_overrides;
    let said = |problem: &str| format!("invalid JSONPatchOverrides: JSONPatchOverrides {problem}");
    match (rule.override_type.unwrap_or_default(), patches.is_empty()) {
        (OverrideType::Delete, false) => {
            mistakes.push(said("cannot be set when the override type is Delete"));
        }
        (OverrideType::JsonPatch, true) => mistakes.push(said("cannot be empty")),
        (OverrideType::Delete, true) => {}
        (OverrideType::JsonPatch, false) => mistakes.extend(patches.iter().flat_map(patch)),
    }
    mistakes
}

fn cluster_term(term: &ClusterSelectorTerm) -> Option<String> {
    let printed = Printed(term);
    if term.property_selector.is_some() || term.property_sorter.is_some() {
        return Some(format!("invalid clusterSelector {printed}: only labelSelector is supported"));
    }
    let Some(labels) = &term.label_selector else {
        return Some(format!("invalid clusterSelector {printed}: labelSelector is required"));
    };
    let error = selector::read(Some(labels)).err()?;
    let printed = PrintedSelector(Some(labels));
    Some(format!("the labelSelector in cluster selector {printed} is invalid: {error}"))
}

fn patch(patch: &JsonPatchOverride) -> Vec<String> {
    let needless = patch.op == JsonPatchOperator::Remove && patch.value.is_some();
    let problems = [path(&patch.path), needless.then_some("remove operation cannot have value")];
    let said = |problem| format!("invalid JSONPatchOverride {}: {problem}", Printed(patch));
    problems.into_iter().flatten().map(said).collect()
}

fn path(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        return Some("path cannot be empty");
    }
    let Some(rest) = path.strip_prefix('/') else { return Some("path must start with /") };
    let keys: Vec<&str> = rest.split('/').collect();
    match keys.as_slice() {
        ["kind" | "apiVersion", ..] => Some("cannot override typeMeta fields"),
        ["metadata"] => Some("cannot override field metadata"),
        ["metadata", field, ..] if !matches!(*field, "annotations" | "labels") => {
            Some("cannot override metadata fields except annotations and labels")
        }
        ["status", ..] => Some("cannot override status fields"),
        keys if keys.iter().any(|key| key.trim().is_empty()) => {
            Some("path cannot contain empty string")
        }
        _ => None,
    }
}

fn unique(printed: &dyn std::fmt::Display) -> String {
    format!("resource selector {printed} already exists, and must be unique")
}
