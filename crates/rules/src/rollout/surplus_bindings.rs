//! Clusters that two bindings stand for.
//!
//! A new binding may not do anything before the old one has cleaned up behind itself. Only
//! its own cluster waits; the others go on.

use std::collections::{BTreeMap, BTreeSet};

use flagship_api::binding::BindingState;
use flagship_api::names::ObjectKey;

use crate::model::Binding;
use crate::placement::PassError;

/// The clusters on which a new binding waits for an old one to be gone.
pub fn waiting<'a>(
    placement: &ObjectKey,
    bindings: &[&'a Binding],
) -> Result<BTreeSet<&'a str>, PassError> {
    let key =
        |binding: &Binding| ObjectKey::new(placement.namespace.as_deref(), &binding.name).slashed();
    let mut live: BTreeMap<&str, &Binding> = BTreeMap::new();
    for binding in bindings.iter().filter(|binding| !binding.deleting) {
        if let Some(other) = live.insert(binding.cluster(), binding) {
            return Err(PassError::Unexpected(format!(
                "the same cluster `{}` has bindings `{}` and `{}` pointing to it",
                binding.cluster(),
                key(other),
                key(binding)
            )));
        }
    }
    let mut waiting = BTreeSet::new();
    for old in bindings.iter().filter(|binding| binding.deleting) {
        let Some((cluster, new)) = live.get_key_value(old.cluster()) else { continue };
        let was_bound = new.previous.as_deref() == Some("Bound");
        let problem = match new.spec.state {
            BindingState::Bound => {
                format!("a bound binding `{}` and a deleting binding point to it", key(new))
            }
            BindingState::Unscheduled if was_bound => format!(
                "a unscheduled binding `{}` with previous state is `bound` and a deleting binding \
                 point to it",
                key(new)
            ),
            _ => {
                waiting.insert(*cluster);
                continue;
            }
        };
        return Err(PassError::Unexpected(format!(
            "find a cluster `{cluster}` that has {problem}"
        )));
    }
    Ok(waiting)
}
