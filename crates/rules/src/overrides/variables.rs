//! What `${MEMBER-CLUSTER-NAME}` and `${MEMBER-CLUSTER-LABEL-KEY-...}` stand for.
//!
//! Replacement is textual, inside the raw JSON of a patch's value and nowhere else.
//! Anything else that looks like a variable stays as it is: a typo is not an error.

use super::Target;
use crate::apply::redact::REDACTED;

const CLUSTER_NAME: &str = "${MEMBER-CLUSTER-NAME}";
const LABEL_PREFIX: &str = "${MEMBER-CLUSTER-LABEL-KEY-";

/// The value as this cluster gets it. What goes into a Secret is not repeated in errors.
pub fn fill_in(value: &str, cluster: Target<'_>, secret: bool) -> Result<String, String> {
    let named = value.replace(CLUSTER_NAME, cluster.name);
    let shown = if secret { REDACTED } else { named.as_str() };
    let mut filled = String::with_capacity(named.len());
    let mut rest = named.as_str();
    // What was put in is not looked at again, so this ends whatever labels hold.
    while let Some((before, from_key)) = rest.split_once(LABEL_PREFIX) {
        let Some((key, after)) = from_key.split_once('}') else {
            return Err(format!("input {shown} is missing the closing bracket `}}`"));
        };
        let Some(label) = cluster.labels.get(key) else {
            return Err(format!("label key {key} not found on cluster {}", cluster.name));
        };
        filled.push_str(before);
        filled.push_str(label);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}
