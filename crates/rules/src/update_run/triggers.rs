//! Which changes of bindings and approval requests wake a run.
//!
//! Changes of placement, policy and cluster labels wake every unfinished run of the
//! placement; that needs no rule.

use flagship_api::condition::{Condition, ConditionStatus, Conditions, Generation};
use flagship_api::condition_type::approval_request::{APPROVAL_ACCEPTED, APPROVED};
use flagship_api::condition_type::binding as kind;

use super::observed::Approval;
use crate::model::Fence;

/// What a run looks at in a binding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BindingView<'a> {
    /// `metadata.uid`.
    pub uid: &'a str,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The last run that wrote it.
    pub written_by: Option<&'a Fence>,
    /// How the delivery is doing.
    pub conditions: &'a [Condition],
}

impl BindingView<'_> {
    fn says(&self, kind: &str) -> Option<(ConditionStatus, Generation)> {
        self.conditions.of_type(kind).map(|c| (ConditionStatus::of(c), Generation::seen_by(c)))
    }

    fn is_true(&self, kind: &str) -> bool {
        self.conditions.is_true_at(kind, Generation(self.generation))
    }
}

/// Whether a changed binding wakes a run of its placement. How far the delivery has
/// come is not, as long as it neither works nor has to be begun again.
pub fn binding_changed(run: &str, old: &BindingView<'_>, new: &BindingView<'_>) -> bool {
    let parts = |of: &BindingView<'_>| (of.uid.to_owned(), of.deleting);
    let told = [kind::ROLLOUT_STARTED, kind::AVAILABLE, kind::DIFF_REPORTED];
    let same = parts(old) == parts(new)
        && old.generation == new.generation
        && old.written_by == new.written_by
        && told.iter().all(|kind| old.says(kind) == new.says(kind));
    if same {
        return false;
    }
    // Our own start signal, or something that has not come to an end.
    let is_ours = new.written_by.is_some_and(|writer| writer.run == run);
    let moving = new.is_true(kind::ROLLOUT_STARTED)
        && !new.is_true(kind::AVAILABLE)
        && !new.is_true(kind::DIFF_REPORTED);
    !(is_ours && moving && parts(old) == parts(new))
}

/// The run to wake when a request is first seen: if it is approved already.
pub fn request_appeared(request: &Approval) -> Option<&str> {
    let approved = request.conditions.of_type(APPROVED);
    approved
        .filter(|c| ConditionStatus::of(c) == ConditionStatus::True)
        .and_then(|_| named(request))
}

/// The run to wake after an update: if somebody approved or took an approval back, whether
/// or not it counts.
pub fn request_changed<'a>(old: &Approval, new: &'a Approval) -> Option<&'a str> {
    let said = |request: &Approval| {
        let approved = request.conditions.of_type(APPROVED)?;
        (ConditionStatus::of(approved) == ConditionStatus::True)
            .then(|| Generation::seen_by(approved))
    };
    (said(old) != said(new)).then(|| named(new)).flatten()
}

/// The run to wake after a deletion: a request that is still needed is made again.
pub fn request_deleted(request: &Approval) -> Option<&str> {
    let at = Generation(request.generation);
    let done = request.conditions.of_type(APPROVED).is_some()
        && request.conditions.is_true_at(APPROVAL_ACCEPTED, at);
    if done { None } else { named(request) }
}

fn named(request: &Approval) -> Option<&str> {
    Some(request.run.as_str()).filter(|run| !run.is_empty())
}
