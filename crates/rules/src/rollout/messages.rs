//! What a rollout says on bindings.

use flagship_api::condition::{ConditionDraft, draft};
use flagship_api::condition_type::binding::ROLLOUT_STARTED;
use flagship_api::reason::binding as reason;

/// The binding names the latest resources.
pub const STARTED: &str =
    "Detected the new changes on the resources and started the rollout process";

/// The binding must wait for others.
pub const HELD_BACK: &str =
    "The resources cannot be updated to the latest because of the rollout strategy";

/// `RolloutStarted` True.
pub fn started() -> ConditionDraft {
    draft(ROLLOUT_STARTED).is_true(reason::ROLLOUT_STARTED).because(STARTED)
}

/// `RolloutStarted` False.
pub fn held_back() -> ConditionDraft {
    draft(ROLLOUT_STARTED).is_false(reason::ROLLOUT_NOT_STARTED_YET).because(HELD_BACK)
}
