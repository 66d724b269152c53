//! Applies the overrides a binding names to one manifest.
//!
//! Cluster-wide overrides come first and those of the namespace last, so the latter win.
//! A resource that was taken out stays out, whatever follows. Which overrides a binding
//! names is decided long before; here a name that selects something else is simply passed
//! over.
//!
//! What admission refuses is refused here again, and so is a result that is another object:
//! a hub may run without webhooks, and snapshots can be written by hand.
//!
//! What has a namespace counts as namespaced; nobody's API discovery is asked, so custom
//! resources in envelopes are treated like all others.

use std::borrow::Cow;
use std::fmt;

use flagship_api::overrides::{JsonPatchOverride, OverridePolicy, OverrideRule, OverrideType};
use flagship_api::placement_status::{NamespacedName, ResourceIdentifier};
use flagship_api::printed::{Printed, errors};
use flagship_api::raw_json::RawJson;
use flagship_base::go_number::quoted;
use serde_json::Value;

use super::clusters::rule_is_for;
use super::selection::{selects_namespaced, selects_wide};
use super::variables::fill_in;
use super::{ClusterOverride, NamespacedOverride, Target, identity, mistakes, patch};
use crate::apply::redact::{REDACTED, is_secret};

/// What became of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub enum Overridden {
    /// No rule was for it: its text may be passed on byte for byte.
    Untouched,
    /// It goes to the cluster like this.
    Changed(Value),
    /// This cluster does not get it.
    Dropped,
}

/// Why a manifest could not be overridden: a mistake in an override, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverrideFailure {
    /// Kind of the snapshot the rule is in.
    kind: &'static str,
    /// Its name.
    snapshot: String,
    /// What was to be changed.
    pub target: String,
    /// What is wrong.
    cause: String,
    /// Whether another object would have come of it.
    pub makes_another: bool,
}

/// Why the rules of one snapshot were not obeyed.
struct Disobeyed {
    cause: String,
    makes_another: bool,
}

impl From<String> for Disobeyed {
    fn from(cause: String) -> Self {
        Self { cause, makes_another: false }
    }
}

impl OverrideFailure {
    /// What is wrong, without the names of snapshot and target.
    pub fn cause(&self) -> &str {
        &self.cause
    }
}

impl fmt::Display for OverrideFailure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, snapshot, target, cause, .. } = self;
        write!(out, "{kind} {} failed to apply on {target}: {cause}", quoted(snapshot))
    }
}

impl std::error::Error for OverrideFailure {}

/// The manifest as this cluster gets it. Overrides are applied in the order given, which
/// is that of the binding.
pub fn apply(
    manifest: &Value,
    wide: &[ClusterOverride],
    narrow: &[NamespacedOverride],
    cluster: Target<'_>,
) -> Result<Overridden, OverrideFailure> {
    let resource = named_by(manifest);
    let mut state = Overridden::Untouched;
    for o in wide.iter().filter(|o| selects_wide(o, &resource)) {
        let selection = mistakes::of_cluster_selectors(&o.spec.cluster_resource_selectors);
        obey(manifest, &mut state, selection, &o.spec.policy, cluster).map_err(|failed| {
            failure("ClusterResourceOverrideSnapshot", &o.name, &resource, failed)
        })?;
    }
    for o in narrow.iter().filter(|o| selects_namespaced(o, &resource)) {
        let selection = mistakes::of_selectors(&o.spec.resource_selectors);
        obey(manifest, &mut state, selection, &o.spec.policy, cluster).map_err(|failed| {
            failure("ResourceOverrideSnapshot", &o.key.name, &resource, failed)
        })?;
    }
    Ok(state)
}

fn failure(
    kind: &'static str,
    snapshot: &str,
    target: &ResourceIdentifier,
    failed: Disobeyed,
) -> OverrideFailure {
    let Disobeyed { cause, makes_another } = failed;
    let (snapshot, target) = (snapshot.to_owned(), named(target));
    OverrideFailure { kind, snapshot, target, cause, makes_another }
}

/// Said of a binding that names a ClusterResourceOverrideSnapshot nobody has.
pub fn cluster_override_missing(name: &str) -> String {
    format!("clusterResourceOverrideSnapshot {name} is not found")
}

/// Said of a binding that names a ResourceOverrideSnapshot nobody has.
pub fn override_missing(key: &NamespacedName) -> String {
    format!("resourceOverrideSnapshot {} is not found", Printed(key))
}

/// Applies the rules of one snapshot that are for the cluster. A resource that is out
/// already is left alone, mistakes in later patches included.
fn obey(
    manifest: &Value,
    state: &mut Overridden,
    selection: Vec<String>,
    policy: &OverridePolicy,
    cluster: Target<'_>,
) -> Result<(), Disobeyed> {
    let secret = is_secret(manifest);
    for rule in &policy.override_rules {
        if *state == Overridden::Dropped {
            return Ok(());
        }
        if !rule_is_for(rule, cluster.labels)? {
            continue;
        }
        let mut refused = selection.clone();
        refused.extend(mistakes::of_rule(&shown(rule, secret)));
        let next = match rule.override_type.unwrap_or_default() {
            OverrideType::Delete => Ok(Overridden::Dropped),
            OverrideType::JsonPatch => {
                let document = match std::mem::replace(state, Overridden::Untouched) {
                    Overridden::Changed(document) => document,
                    _ => manifest.clone(),
                };
                patched(document, rule, cluster, secret).map(Overridden::Changed)
            }
        };
        let mut makes_another = false;
        if let Ok(Overridden::Changed(document)) = &next {
            let changes = identity::changes(manifest, document);
            makes_another = !changes.is_empty();
            refused.extend(changes);
        }
        if !refused.is_empty() {
            return Err(Disobeyed { cause: errors(refused), makes_another });
        }
        *state = next?;
    }
    Ok(())
}

/// The document after all patches of a rule.
fn patched(
    mut document: Value,
    rule: &OverrideRule,
    cluster: Target<'_>,
    secret: bool,
) -> Result<Value, String> {
    // All of a rule's values first: what cannot be filled in is told before what it would
    // have been put into.
    let steps = &rule.json_patch_overrides;
    let values = steps.iter().map(|step| value_of(step, cluster, secret));
    let values = values.collect::<Result<Vec<Value>, String>>()?;
    for (step, value) in steps.iter().zip(values) {
        patch::apply(&mut document, step.op, &step.path, value)?;
    }
    Ok(document)
}

/// A rule as it may be printed: what goes into a Secret is not repeated.
fn shown(rule: &OverrideRule, secret: bool) -> Cow<'_, OverrideRule> {
    if !secret {
        return Cow::Borrowed(rule);
    }
    let mut rule = rule.clone();
    for step in &mut rule.json_patch_overrides {
        step.value = step.value.as_ref().and_then(|_| RawJson::of(REDACTED).ok());
    }
    Cow::Owned(rule)
}

/// The value of a patch as this cluster gets it.
fn value_of(step: &JsonPatchOverride, cluster: Target<'_>, secret: bool) -> Result<Value, String> {
    let text = step.value.as_ref().map_or("null", |value| value.text());
    let text = fill_in(text, cluster, secret)?;
    serde_json::from_str(&text).map_err(|error| {
        let shown = if secret { REDACTED } else { text.as_str() };
        format!("the value {shown} is not valid JSON: {error}")
    })
}

/// What a manifest says it is.
pub(super) fn named_by(manifest: &Value) -> ResourceIdentifier {
    let text = |pointer: &str| {
        manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let api_version = text("/apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    ResourceIdentifier {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: text("/kind"),
        name: text("/metadata/name"),
        namespace: text("/metadata/namespace"),
        envelope: None,
    }
}

/// A resource in words: `Deployment "web" in namespace "app"`.
pub fn named(resource: &ResourceIdentifier) -> String {
    let kind = if resource.kind.is_empty() { "Unknown" } else { &resource.kind };
    let name = quoted(&resource.name);
    match resource.namespace.as_str() {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {name} in namespace {}", quoted(namespace)),
    }
}
