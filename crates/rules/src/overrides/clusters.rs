//! Which clusters an override is for.
//!
//! A rule without a selector is for no cluster, one whose selector has no terms for every
//! cluster. A term without a label selector matches nothing, an empty one everything.

use flagship_api::overrides::{OverridePolicy, OverrideRule};
use flagship_api::printed::PrintedSelector;
use flagship_api::selector;

use crate::model::PackedMap;

/// Whether any rule is for a cluster with these labels. The error names the selector that
/// cannot be read.
pub fn is_for(policy: &OverridePolicy, labels: &PackedMap) -> Result<bool, String> {
    for rule in &policy.override_rules {
        if rule_is_for(rule, labels)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether this rule is for a cluster with these labels.
pub fn rule_is_for(rule: &OverrideRule, labels: &PackedMap) -> Result<bool, String> {
    let Some(selector) = &rule.cluster_selector else { return Ok(false) };
    if selector.cluster_selector_terms.is_empty() {
        return Ok(true);
    }
    for term in &selector.cluster_selector_terms {
        let given = term.label_selector.as_ref();
        let selector = selector::read(given).map_err(|error| {
            format!("invalid cluster label selector {}: {error}", PrintedSelector(given))
        })?;
        if selector.matches_what(|key| labels.get(key)) {
            return Ok(true);
        }
    }
    Ok(false)
}
