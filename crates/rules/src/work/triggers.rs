//! Which changes make which bindings worth another pass.
//!
//! A pass too many costs a comparison; a pass too few leaves a rollout waiting.

use flagship_api::condition::{Condition, Conditions};
use flagship_api::condition_type::binding::ROLLOUT_STARTED;

use super::observed::{Placement, Work};
use crate::model::Binding;

/// Whether a changed binding is to be looked at. Our own status wakes nothing, but the word
/// that its rollout started is what we wait for.
pub fn binding_changed(old: &Binding, new: &Binding) -> bool {
    let said = |binding: &Binding| {
        binding.status.conditions.is_decided_at(ROLLOUT_STARTED, binding.generation())
    };
    old.generation != new.generation
        || old.deleting != new.deleting
        || (said(new) && !said(old))
        || lost_ours(&old.status.conditions, &new.status.conditions)
}

/// Somebody else wiped what we reported.
fn lost_ours(old: &[Condition], new: &[Condition]) -> bool {
    use flagship_api::condition_type::binding::OVERRIDDEN;
    old.of_type(OVERRIDDEN).is_some() && new.of_type(OVERRIDDEN).is_none()
}

/// Whether the binding of a changed Work is to be looked at: the member said something, or
/// it no longer carries what it did.
pub fn work_changed(old: &Work, new: &Work) -> bool {
    old.conditions != new.conditions
        || old.manifests != new.manifests
        || old.stamp != new.stamp
        || old.deleting != new.deleting
        || old.abandoned != new.abandoned
}

/// Whether the binding of a Work that is seen for the first time is to be looked at: a list
/// may show it after its member has answered. One that nobody has answered is our own doing.
pub fn work_appeared(new: &Work) -> bool {
    !new.conditions.is_empty() || !new.manifests.is_empty() || new.deleting || new.abandoned
}

/// Whether all bindings of a changed placement are to be looked at.
pub fn placement_changed(old: &Placement, new: &Placement) -> bool {
    old.report_back != new.report_back || old.abandons != new.abandons
}
