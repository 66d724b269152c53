//! Has the object on the member drifted from its manifest, and in which fields?
//!
//! A full comparison looks at every field. A partial one looks at what the manifest sets: the
//! API server is asked what the object would be after a forced apply, and only what that would
//! change counts. Where the server finds the manifest invalid, all fields are compared in
//! place of some, and the result says so.

use flagship_api::apply_strategy::ComparisonOption;
use flagship_api::hash::cleaned;
use flagship_api::placement_status::PatchDetail;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::Value;

use super::diff;
use super::prepare::sanitised;
use super::step::{ManifestContext, Refusal, RefusalKind, Step};

/// What a comparison is for.
pub(super) enum Purpose {
    /// To become an owner besides these, if nothing differs.
    TakeOver { owners: Vec<OwnerReference> },
    /// To tell what differs.
    Report,
    /// To leave the object alone if somebody edited it.
    Drift,
}

/// What a comparison found.
pub(super) struct Compared {
    /// The fields that differ.
    pub(super) details: Vec<PatchDetail>,
    /// All fields were compared although some were asked for.
    pub(super) degraded: bool,
}

/// A request to apply without effect.
pub struct DryRun<'a> {
    /// What to apply.
    pub body: Value,
    case: ManifestContext<'a>,
    purpose: Purpose,
}

/// Compares as the terms want it. Without an object there is nothing to compare with.
pub(super) fn start(case: ManifestContext<'_>, purpose: Purpose) -> Step<'_> {
    match case.terms.comparison {
        ComparisonOption::FullComparison => {
            let compared = with(&case, &case.manifest.object, false);
            case.compared(purpose, compared)
        }
        ComparisonOption::PartialComparison => {
            // What a server keeps for itself would make the dry run fail or conflict.
            let body = sanitised(&case.manifest.object);
            Step::DryRun(DryRun { body, case, purpose })
        }
    }
}

impl<'a> DryRun<'a> {
    /// The object as it would be.
    pub fn answer(self, result: Result<Value, Refusal>) -> Step<'a> {
        let Self { case, purpose, .. } = self;
        let compared = match result {
            Ok(wished) => with(&case, &wished, false),
            Err(refusal) if refusal.kind == RefusalKind::Invalid => {
                with(&case, &case.manifest.object, true)
            }
            Err(refusal) => Err(format!(
                "failed to apply the manifest in dry-run mode: failed to apply the manifest \
                 object: an error is returned by the API server: {}",
                refusal.message
            )),
        };
        case.compared(purpose, compared)
    }
}

fn with(case: &ManifestContext<'_>, wished: &Value, degraded: bool) -> Result<Compared, String> {
    let live = case.live.as_ref().unwrap_or(&Value::Null);
    Ok(Compared { details: full(wished, live)?, degraded })
}

/// The fields in which two objects differ, as far as they say anything about the wanted state.
pub(super) fn full(wished: &Value, live: &Value) -> Result<Vec<PatchDetail>, String> {
    diff::details(&cleaned(wished), &cleaned(live))
}
