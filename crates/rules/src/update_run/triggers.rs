//! Which changes of approval requests wake their run.
//!
//! Changes of bindings, placement, policy and cluster labels wake every unfinished run of
//! the placement; that needs no rule.

use flagship_api::condition::{Conditions, Generation, Truth};
use flagship_api::condition_type::approval_request::{APPROVAL_ACCEPTED, APPROVED};

use super::observed::Approval;

/// The run to wake after an update: if somebody approved or took an approval back, whether
/// or not it counts.
pub fn request_changed<'a>(old: &Approval, new: &'a Approval) -> Option<&'a str> {
    let said = |request: &Approval| {
        let approved = request.conditions.of_type(APPROVED)?;
        (Truth::of(approved) == Truth::True).then(|| Generation::seen_by(approved))
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
