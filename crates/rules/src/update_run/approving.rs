//! Approving a request: which requests wait for somebody, and what an approval writes.
//!
//! The run decides what an approval is worth; see `gates`.

use flagship_api::approval::{ApprovalRequestSpec, ApprovalRequestStatus};
use flagship_api::condition::{Condition, Conditions, Generation, draft};
use flagship_api::condition_type::approval_request::APPROVED;
use flagship_api::names::{StageSide, approval_request};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::lifecycle::{Approval, approval};

/// Whether a request is one that the run itself makes, and nobody has validly approved it.
pub fn is_open(
    run: &str,
    metadata: &ObjectMeta,
    spec: &ApprovalRequestSpec,
    status: &ApprovalRequestStatus,
) -> bool {
    let name = metadata.name.as_deref().unwrap_or_default();
    let of_run = [StageSide::Before, StageSide::After]
        .iter()
        .any(|side| approval_request(run, *side, spec.target_stage.as_str()) == name);
    of_run && approval(&status.conditions, Generation::of(metadata)) != Approval::Given
}

/// The conditions of a request that somebody approves, with a comment for those who read
/// the request later.
pub fn approved(
    metadata: &ObjectMeta,
    status: &ApprovalRequestStatus,
    comment: &str,
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = status.conditions.clone();
    let said = draft(APPROVED).is_true("approved").because(comment);
    said.set_afresh(&mut conditions, Generation::of(metadata), now);
    conditions
}

/// What was said when the request was validly approved, and when.
pub fn said<'a>(
    metadata: &ObjectMeta,
    status: &'a ApprovalRequestStatus,
) -> Option<(&'a str, Timestamp)> {
    let given = approval(&status.conditions, Generation::of(metadata)) == Approval::Given;
    let found = status.conditions.of_type(APPROVED).filter(|_| given)?;
    Some((&found.message, found.last_transition_time.0))
}

/// The same in the words of KubeFleet's plugin, which name the kind of the request.
pub fn approved_as_kubefleet(
    kind: &str,
    metadata: &ObjectMeta,
    status: &ApprovalRequestStatus,
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = status.conditions.clone();
    draft(APPROVED)
        .is_true(format!("{kind}Approved"))
        .because(format!("{kind} has been approved"))
        .set(&mut conditions, Generation::of(metadata), now);
    conditions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(name: &str, generation: i64) -> ObjectMeta {
        ObjectMeta {
            name: Some(name.to_owned()),
            generation: Some(generation),
            ..ObjectMeta::default()
        }
    }

    fn spec(stage: &str) -> ApprovalRequestSpec {
        ApprovalRequestSpec {
            parent_stage_rollout: "run".to_owned(),
            target_stage: stage.to_owned(),
        }
    }

    #[test]
    fn a_request_is_open_until_somebody_approves_this_very_generation() {
        let name = approval_request("run", StageSide::After, "canary");
        let (meta, spec) = (request(&name, 2), spec("canary"));
        let nothing = ApprovalRequestStatus::default();
        assert!(is_open("run", &meta, &spec, &nothing));
        let at = Timestamp::from_second(100).unwrap();
        let says = |conditions| ApprovalRequestStatus { conditions };
        let stale = says(approved(&request(&name, 1), &nothing, "fine", at));
        assert!(is_open("run", &meta, &spec, &stale), "approved before it was changed");
        let given = says(approved(&meta, &stale, "fine", at));
        assert!(!is_open("run", &meta, &spec, &given));
        let condition = given.conditions.of_type(APPROVED).unwrap();
        assert_eq!((condition.reason.as_str(), condition.message.as_str()), ("approved", "fine"));
        assert_eq!(said(&meta, &given), Some(("fine", at)));
        assert_eq!(said(&meta, &stale), None);
        let given = says(approved_as_kubefleet("ApprovalRequest", &meta, &nothing, at));
        assert!(!is_open("run", &meta, &spec, &given));
    }

    #[test]
    fn a_request_of_another_name_is_not_the_runs() {
        let status = ApprovalRequestStatus::default();
        let foreign = request("somebody-elses", 1);
        assert!(!is_open("run", &foreign, &spec("canary"), &status));
        let other = request(&approval_request("other", StageSide::Before, "canary"), 1);
        assert!(!is_open("run", &other, &spec("canary"), &status));
    }
}
