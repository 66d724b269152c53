//! Overrides that select or patch what they may not, and too many of them.
//!
//! A resource may be selected by one override of each scope, so that nobody has to ask
//! which of two comes first. What an override does to a manifest is `crate::overrides`'
//! business.

use std::collections::BTreeMap;

use flagship_api::overrides::{
    ClusterResourceOverride, JsonPatchOperator, JsonPatchOverride, OverridePolicy, OverrideRule,
    OverrideType, ResourceOverride, ResourceSelector,
};
use flagship_api::placement::ResourceSelectorTerm;
use flagship_api::policy::ClusterSelectorTerm;
use flagship_api::printed::{self, Printed, PrintedSelector};
use flagship_api::selector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Answer, Operation, Request, Surroundings, read};

/// How many overrides there may be: in all of those that are cluster-scoped, and in each
/// namespace of the others.
const MOST: usize = 100;

/// An override beside the one that is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Neighbour {
    /// `metadata.name`.
    pub name: String,
    /// What it selects.
    pub selects: Vec<ResourceSelector>,
}

impl Neighbour {
    /// What another ClusterResourceOverride selects.
    pub fn of_cluster_override(object: &ClusterResourceOverride) -> Self {
        let terms = object.spec.cluster_resource_selectors.iter();
        Self { name: named(&object.metadata), selects: terms.map(meant).collect() }
    }

    /// What another ResourceOverride of the namespace selects.
    pub fn of_override(object: &ResourceOverride) -> Self {
        let selects = object.spec.resource_selectors.clone();
        Self { name: named(&object.metadata), selects }
    }
}

/// Judges a cluster-scoped override.
pub fn cluster_override(
    request: &Request<'_>,
    around: &dyn Surroundings,
) -> Result<Answer, Answer> {
    let object: ClusterResourceOverride = read(request.object)?;
    let terms = &object.spec.cluster_resource_selectors;
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
    let own = Own {
        metadata: &object.metadata,
        selects: terms.iter().map(|term| (meant(term), Printed(term).to_string())).collect(),
        policy: &object.spec.policy,
    };
    let kind = "clusterResourceOverride";
    let full =
        format!("{kind} limit has been reached: at most {MOST} cluster resources can be created.");
    Ok(own.judged(request, around, mistakes, kind, full))
}

/// Judges an override in a namespace.
pub fn namespaced_override(
    request: &Request<'_>,
    around: &dyn Surroundings,
) -> Result<Answer, Answer> {
    let object: ResourceOverride = read(request.object)?;
    let terms = &object.spec.resource_selectors;
    let repeated = terms.iter().enumerate().filter(|(at, term)| terms[..*at].contains(term));
    let mistakes = repeated.map(|(_, term)| unique(&Printed(term))).collect();
    let own = Own {
        metadata: &object.metadata,
        selects: terms.iter().map(|term| (term.clone(), Printed(term).to_string())).collect(),
        policy: &object.spec.policy,
    };
    let kind = "resourceOverride";
    let full = format!("{kind} limit has been reached: at most {MOST} resources can be created.");
    Ok(own.judged(request, around, mistakes, kind, full))
}

/// What both scopes have in common.
struct Own<'a> {
    metadata: &'a ObjectMeta,
    /// What it selects, and how that is printed.
    selects: Vec<(ResourceSelector, String)>,
    policy: &'a OverridePolicy,
}

impl Own<'_> {
    fn judged(
        &self,
        request: &Request<'_>,
        around: &dyn Surroundings,
        selection: Vec<String>,
        kind: &str,
        full: String,
    ) -> Answer {
        // One that goes may lose its finalizers, whatever else is wrong with it.
        if self.metadata.deletion_timestamp.is_some() {
            return Answer::Allowed(format!("{kind} is being deleted"));
        }
        let others = around.overrides();
        if request.operation == Operation::Create && others.len() >= MOST {
            return Answer::Denied(full);
        }
        if !selection.is_empty() {
            return Answer::Denied(printed::errors(selection));
        }
        let mut mistakes = self.conflicts(&others);
        mistakes.extend(self.policy.override_rules.iter().flat_map(rule));
        if mistakes.is_empty() {
            Answer::Allowed(format!("{kind} has valid fields"))
        } else {
            Answer::Denied(printed::errors(mistakes))
        }
    }

    fn conflicts(&self, others: &[Neighbour]) -> Vec<String> {
        let own = named(self.metadata);
        let mut taken: BTreeMap<[&str; 4], &str> = BTreeMap::new();
        for other in others.iter().filter(|other| other.name != own) {
            for term in &other.selects {
                taken.entry(key(term)).or_insert(&other.name);
            }
        }
        let conflicts = self.selects.iter().filter_map(|(term, printed)| {
            let other = taken.get(&key(term))?;
            Some(format!(
                "invalid resource selector {printed}: the resource has been selected by both {own} \
                 and {other}, which is not supported"
            ))
        });
        conflicts.collect()
    }
}

fn rule(rule: &OverrideRule) -> Vec<String> {
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

fn meant(term: &ResourceSelectorTerm) -> ResourceSelector {
    ResourceSelector {
        group: term.group.clone(),
        version: term.version.clone(),
        kind: term.kind.clone(),
        name: term.name.clone(),
    }
}

fn key(term: &ResourceSelector) -> [&str; 4] {
    [&term.group, &term.version, &term.kind, &term.name]
}

fn named(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}
