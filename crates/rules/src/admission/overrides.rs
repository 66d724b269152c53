//! Overrides that select or patch what they may not, and too many of them.
//!
//! A resource may be selected by one override of each scope, so that nobody has to ask
//! which of two comes first. What an override may not say whoever its neighbours are is in
//! `crate::overrides::mistakes`, which is asked again before an override is applied.

use std::collections::BTreeMap;

use flagship_api::overrides::{
    ClusterResourceOverride, OverridePolicy, ResourceOverride, ResourceSelector,
};
use flagship_api::placement::ResourceSelectorTerm;
use flagship_api::printed::{self, Printed};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Answer, Context, Operation, Request, read};
use crate::overrides::mistakes;

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
pub fn cluster_override(request: &Request<'_>, context: &dyn Context) -> Result<Answer, Answer> {
    let object: ClusterResourceOverride = read(request.object)?;
    let terms = &object.spec.cluster_resource_selectors;
    let own = Own {
        metadata: &object.metadata,
        selects: terms.iter().map(|term| (meant(term), Printed(term).to_string())).collect(),
        policy: &object.spec.policy,
    };
    let kind = "clusterResourceOverride";
    let full =
        format!("{kind} limit has been reached: at most {MOST} cluster resources can be created.");
    Ok(own.judged(request, context, mistakes::of_cluster_selectors(terms), kind, full))
}

/// Judges an override in a namespace.
pub fn namespaced_override(request: &Request<'_>, context: &dyn Context) -> Result<Answer, Answer> {
    let object: ResourceOverride = read(request.object)?;
    let terms = &object.spec.resource_selectors;
    let own = Own {
        metadata: &object.metadata,
        selects: terms.iter().map(|term| (term.clone(), Printed(term).to_string())).collect(),
        policy: &object.spec.policy,
    };
    let kind = "resourceOverride";
    let full = format!("{kind} limit has been reached: at most {MOST} resources can be created.");
    Ok(own.judged(request, context, mistakes::of_selectors(terms), kind, full))
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
        context: &dyn Context,
        selection: Vec<String>,
        kind: &str,
        full: String,
    ) -> Answer {
        // One that goes may lose its finalizers, whatever else is wrong with it.
        if self.metadata.deletion_timestamp.is_some() {
            return Answer::Allowed(format!("{kind} is being deleted"));
        }
        let others = context.overrides();
        if request.operation == Operation::Create && others.len() >= MOST {
            return Answer::Denied(full);
        }
        if !selection.is_empty() {
            return Answer::Denied(printed::errors(selection));
        }
        let mut found = self.conflicts(&others);
        found.extend(self.policy.override_rules.iter().flat_map(mistakes::of_rule));
        if found.is_empty() {
            Answer::Allowed(format!("{kind} has valid fields"))
        } else {
            Answer::Denied(printed::errors(found))
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
