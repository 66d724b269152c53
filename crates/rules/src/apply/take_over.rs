//! Makes an object ours that was on the member before.
//!
//! One object has one placement: what another Work applied is never taken, whoever else may
//! own it. References to AppliedWorks whose Work is gone are left behind from a member that
//! left and came back; they count for nothing.

use std::collections::BTreeSet;

use flagship_api::apply_strategy::WhenToTakeOver;
use flagship_api::error_class::ErrorClass;
use flagship_api::printed::Printed;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::Value;

use super::drift::{self, Compared, Purpose};
use super::outcome::{Findings, Verdict};
use super::owners::{is_applied_work, owners, with_owners};
use super::protected;
use super::step::{DIFF_CALCULATION_FAILED, IN_DEGRADED_MODE, ManifestContext, Refusal, Step};

/// What every failure but a difference starts with.
const FAILED: &str = "failed to take over a pre-existing object: ";

/// A question about Works on the hub.
pub struct FindWorks<'a> {
    /// Names of Works in the member's namespace.
    pub names: BTreeSet<String>,
    case: ManifestContext<'a>,
    owners: Vec<OwnerReference>,
}

/// A request to write the object back with one more owner.
pub struct TakeOver<'a> {
    /// The object as it is to be.
    pub object: Value,
    case: ManifestContext<'a>,
}

/// Begins to take over the object of this case.
pub(super) fn start(case: ManifestContext<'_>) -> Step<'_> {
    if case.live.as_ref().is_some_and(|live| protected::is_agents(live, &case.terms.home)) {
        return failed(case, "the object belongs to the member agent");
    }
    let owners = case.live.as_ref().map(owners).unwrap_or_default();
    let names: BTreeSet<String> = owners
        .iter()
        .filter(|owner| is_applied_work(owner))
        .map(|owner| owner.name.clone())
        .collect();
    if names.is_empty() {
        return decide(case, owners);
    }
    Step::FindWorks(FindWorks { names, case, owners })
}

impl<'a> FindWorks<'a> {
    /// Those of the Works that exist.
    pub fn answer(self, existing: Result<BTreeSet<String>, Refusal>) -> Step<'a> {
        let Self { case, mut owners, .. } = self;
        match existing {
            Ok(existing) => {
                owners.retain(|owner| !is_applied_work(owner) || existing.contains(&owner.name));
                decide(case, owners)
            }
            Err(refusal) => failed(
                case,
                &format!(
                    "failed to remove left-behind AppliedWork owner references: failed to get the \
                     Work object: {}",
                    ErrorClass::ApiServer.message(refusal.message)
                ),
            ),
        }
    }
}

fn decide(case: ManifestContext<'_>, owners: Vec<OwnerReference>) -> Step<'_> {
    if !owners.is_empty() && !case.terms.allow_co_ownership {
        let why = format!(
            "the object is already owned by some other sources(s) and co-ownership is disallowed \
             (existingOwnerRefs: {})",
            Printed(&owners)
        );
        return failed(case, &why);
    }
    if owners.iter().any(|owner| is_applied_work(owner) && owner.uid != case.terms.owner.uid) {
        return failed(case, "the object is already owned by another Fleet AppliedWork object");
    }
    match case.terms.when_to_take_over {
        WhenToTakeOver::IfNoDiff => drift::start(case, Purpose::TakeOver { owners }),
        WhenToTakeOver::Always | WhenToTakeOver::Never => own(case, owners),
    }
}

/// Goes on once the object was compared.
pub(super) fn compared<'a>(
    case: ManifestContext<'a>,
    owners: Vec<OwnerReference>,
    result: Result<Compared, String>,
) -> Step<'a> {
    let Compared { details, degraded } = match result {
        Ok(compared) => compared,
        Err(why) => return failed(case, &format!("{DIFF_CALCULATION_FAILED}{why}")),
    };
    if details.is_empty() {
        return own(case, owners);
    }
    let mode = if degraded { IN_DEGRADED_MODE } else { "" };
    let error = format!(
        "cannot take over object: configuration differences are found between the manifest \
         object and the corresponding object in the member cluster{mode}"
    );
    case.done(Verdict::FailedToTakeOver, Some(error), Findings::Diffs(details))
}

fn own(case: ManifestContext<'_>, mut owners: Vec<OwnerReference>) -> Step<'_> {
    owners.push(case.terms.owner.clone());
    let object = with_owners(case.live.as_ref().unwrap_or(&Value::Null), &owners);
    Step::TakeOver(TakeOver { object, case })
}

impl<'a> TakeOver<'a> {
    /// The object as it was stored.
    pub fn answer(self, result: Result<Value, Refusal>) -> Step<'a> {
        let Self { mut case, .. } = self;
        match result {
            Ok(object) => {
                case.see(object);
                case.settle()
            }
            Err(refusal) => {
                let why = ErrorClass::ApiServer.message(refusal.message);
                failed(case, &format!("failed to take over the object: {why}"))
            }
        }
    }
}

fn failed<'a>(case: ManifestContext<'a>, why: &str) -> Step<'a> {
    case.failed(Verdict::FailedToTakeOver, format!("{FAILED}{why}"))
}
