//! Which changes of approval requests wake their run.

use flagship_api::condition::{ConditionStatus, Generation, draft};

use super::fixture::start;
use crate::update_run::Approval;
use crate::update_run::triggers::{request_changed, request_deleted};

fn request(run: &str, said: &[(&'static str, ConditionStatus, i64)]) -> Approval {
    let conditions = said.iter().map(|(kind, truth, at)| {
        draft(*kind).is(*truth, "Said").into_condition(Generation(*at), start())
    });
    Approval {
        name: "r-before-all".into(),
        uid: "a".into(),
        resource_version: "1".into(),
        generation: 1,
        created: start(),
        labelled: Some(run.into()),
        plan: None,
        run_uid: None,
        run: run.into(),
        stage: "all".into(),
        conditions: conditions.collect(),
    }
}

#[test]
fn an_update_wakes_only_when_approved_changes_either_way() {
    let (open, given) =
        (request("r", &[]), request("r", &[("Approved", ConditionStatus::True, 1)]));
    let wrong = request("r", &[("Approved", ConditionStatus::True, 0)]);
    assert_eq!(request_changed(&open, &given), Some("r"));
    assert_eq!(request_changed(&given, &open), Some("r"));
    assert_eq!(request_changed(&open, &open), None);
    // Not counted, but reported: somebody should hear of it.
    assert_eq!(request_changed(&open, &wrong), Some("r"));
    let accepted = request(
        "r",
        &[("Approved", ConditionStatus::True, 1), ("ApprovalAccepted", ConditionStatus::True, 1)],
    );
    assert_eq!(request_changed(&given, &accepted), None);
    assert_eq!(
        request_changed(&request("", &[]), &request("", &[("Approved", ConditionStatus::True, 1)])),
        None
    );
}

#[test]
fn a_deletion_wakes_unless_approved_and_accepted() {
    let (yes, accepted) =
        (("Approved", ConditionStatus::True, 1), ("ApprovalAccepted", ConditionStatus::True, 1));
    assert_eq!(request_deleted(&request("r", &[])), Some("r"));
    assert_eq!(request_deleted(&request("r", &[yes])), Some("r"));
    assert_eq!(request_deleted(&request("r", &[accepted])), Some("r"));
    assert_eq!(request_deleted(&request("r", &[yes, accepted])), None);
    assert_eq!(request_deleted(&request("", &[])), None);
}
