//! What is said of a property provider, a source of properties besides the built-in one.

use flagship_api::condition::{ConditionDraft, draft};
use flagship_api::condition_type::member_cluster as kind;
use flagship_api::reason::properties as reason;

/// It runs.
pub fn started() -> ConditionDraft {
    draft(kind::PROPERTY_PROVIDER_STARTED)
        .is_true(reason::STARTED)
        .because("The property provider has started successfully")
}

/// It did not say in time whether it runs.
pub fn start_timed_out() -> ConditionDraft {
    draft(kind::PROPERTY_PROVIDER_STARTED)
        .is_false(reason::TIMED_OUT)
        .because("The property provider does not start up in time")
}

/// It does not run, and why.
pub fn failed_to_start(why: &str) -> ConditionDraft {
    draft(kind::PROPERTY_PROVIDER_STARTED)
        .is_false(reason::FAILED_TO_START)
        .because(format!("Failed to start the property provider: {why}"))
}

/// It has answered.
pub fn collected() -> ConditionDraft {
    draft(kind::PROPERTY_COLLECTION_SUCCEEDED)
        .is_true(reason::COLLECTED)
        .because("The property provider has returned the latest cluster properties")
}

/// It has not answered in time.
pub fn collection_timed_out() -> ConditionDraft {
    draft(kind::PROPERTY_COLLECTION_SUCCEEDED)
        .is_false(reason::TIMED_OUT)
        .because("The property provider does not respond in time")
}
