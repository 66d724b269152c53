//! What the Works say together.

use flagship_api::condition::ConditionStatus::{self, False, True, Unknown};
use serde_json::json;

use super::fixture::{Fixture, map};

const APPLIED: &str =
    "Applied True AllWorkHaveBeenApplied: All corresponding work objects are applied";

fn two_works() -> Fixture {
    Fixture::cluster_wide().delivered(&[&[map("one", "1")], &[map("two", "2")]])
}

/// What the first and the second Work say: truth, reason, and about which generation.
type Says = (ConditionStatus, &'static str, i64);

// checklist 12.49
#[test]
fn applied_is_the_word_of_all_works() {
    let yes = (True, "AllManifestsApplied", 1);
    let no = (False, "SomeManifestsAreNotApplied", 1);
    let incomplete = |work: &str| {
        format!(
            "Applied False NotAllWorkHaveBeenApplied: Work object {work} has not yet completed \
             the apply op"
        )
    };
    let failed = |work: &str| {
        format!("Applied False NotAllWorkHaveBeenApplied: Work object {work} has failed to apply")
    };
    let table: [(Option<Says>, Option<Says>, String); 8] = [
        // Nobody has answered: what was said when the Works were written stays said.
        (None, None, "Applied False ApplyInProgress: Resources are being applied".to_owned()),
        (Some(yes), None, incomplete("web-0")),
        (None, Some(yes), incomplete("web-work")),
        (Some((True, "", 0)), Some(yes), incomplete("web-work")),
        (Some((Unknown, "", 1)), Some(no), incomplete("web-work")),
        (Some(no), Some(yes), failed("web-work")),
        (Some(no), Some(no), failed("web-0")),
        (Some(yes), Some(yes), APPLIED.to_owned()),
    ];
    for (master, sub, expected) in table {
        let mut fixture = two_works();
        for (work, says) in [("web-work", master), ("web-0", sub)] {
            if let Some((truth, reason, generation)) = says {
                fixture.says_of(work, "Applied", truth, reason, generation);
            }
        }
        fixture.pass();
        assert_eq!(fixture.conditions()[2], expected);
    }
}

// checklist 12.49
#[test]
fn available_is_told_once_all_is_applied() {
    let yes = (True, "AllManifestsAvailable", 1);
    let no = (False, "SomeManifestsAreNotAvailable", 1);
    let told = |status: &str, reason: &str, message: &str| {
        format!("Available {status} {reason}: {message}")
    };
    let not = |message: &str| told("False", "NotAllWorkAreAvailable", message);
    let untrackable = |work: &str| {
        let message = format!("The availability of work object {work} is not trackable");
        told("True", "NotAllWorkAreAvailabilityTrackable", &message)
    };
    let table: [(Option<Says>, Option<Says>, String); 8] = [
        (None, None, not("Work object web-0 has not yet completed availability check")),
        (Some(no), None, not("Work object web-0 has not yet completed availability check")),
        (
            Some((True, "", 0)),
            Some(yes),
            not("Work object web-work has not yet completed availability check"),
        ),
        (Some(no), Some(yes), not("Work object web-work is not yet available")),
        (
            Some(no),
            Some((True, "WorkNotTrackable", 1)),
            not("Work object web-work is not yet available"),
        ),
        (Some(yes), Some((True, "WorkNotTrackable", 1)), untrackable("web-0")),
        (
            Some((True, "SomeManifestsAreNotAvailabilityTrackable", 1)),
            Some(yes),
            untrackable("web-work"),
        ),
        (
            Some(yes),
            Some(yes),
            told("True", "AllWorkAreAvailable", "All corresponding work objects are available"),
        ),
    ];
    for (master, sub, expected) in table {
        let mut fixture = two_works();
        for (work, says) in [("web-work", master), ("web-0", sub)] {
            fixture.says(work, "Applied", True, "AllManifestsApplied");
            if let Some((truth, reason, generation)) = says {
                fixture.says_of(work, "Available", truth, reason, generation);
            }
        }
        fixture.pass();
        assert_eq!(fixture.conditions()[2..], [APPLIED.to_owned(), expected]);
    }
}

// checklist 12.49
#[test]
fn diff_reported_takes_the_place_of_both() {
    let yes = (True, "AllManifestsDiffReported", 1);
    let no = (False, "SomeManifestsHaveNotReportedDiff", 1);
    let told = |status: &str, reason: &str, message: &str| {
        format!("DiffReported {status} {reason}: {message}")
    };
    let not = |message: &str| told("False", "NotAllWorkHaveDiffReported", message);
    let table: [(Option<Says>, Option<Says>, String); 4] = [
        (Some(yes), None, not("Work object web-0 has not yet completed diff reporting")),
        (
            Some((Unknown, "", 1)),
            Some(yes),
            not("Work object web-work has not yet completed diff reporting"),
        ),
        (Some(yes), Some(no), not("Work object web-0 has failed to report diff")),
        (
            Some(yes),
            Some(yes),
            told(
                "True",
                "AllWorkHaveDiffReported",
                "All corresponding work objects have reported diff",
            ),
        ),
    ];
    for (master, sub, expected) in table {
        let mut fixture = Fixture::cluster_wide();
        let strategy = serde_json::from_value(json!({"type": "ReportDiff"})).unwrap();
        fixture.binding().spec.apply_strategy = Some(strategy);
        let mut fixture = fixture.delivered(&[&[map("one", "1")], &[map("two", "2")]]);
        for (work, says) in [("web-work", master), ("web-0", sub)] {
            // What it said before it only compared.
            fixture.says(work, "Applied", True, "AllManifestsApplied");
            if let Some((truth, reason, generation)) = says {
                fixture.says_of(work, "DiffReported", truth, reason, generation);
            }
        }
        fixture.pass();
        assert_eq!(fixture.conditions()[2..], [expected]);
    }
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    let mut fixture = two_works();
    fixture.all_fine();
    fixture.pass();
    let (told, writes) = (fixture.told, fixture.writes.len());
    for _ in 0..3 {
        fixture.wait(3600);
        let plan = fixture.pass();
        assert!(plan.actions.is_empty() && plan.wake.is_none());
    }
    assert_eq!((fixture.told, fixture.writes.len()), (told, writes));
}

#[test]
fn a_condition_keeps_its_time_while_it_says_the_same_about_the_same_generation() {
    let mut fixture = two_works();
    fixture.all_fine();
    fixture.pass();
    let since = |fixture: &Fixture, kind: &str| {
        let conditions = &fixture.seen.binding.status.conditions;
        let found = conditions.iter().find(|condition| condition.type_ == kind);
        found.map(|condition| condition.last_transition_time.clone())
    };
    let first = since(&fixture, "Available");
    fixture.wait(60);
    // Something else is found out, and Available stays as it was.
    fixture.says("web-work", "Available", True, "WorkNotTrackable");
    fixture.pass();
    assert!(fixture.last().starts_with("Available True NotAllWorkAreAvailabilityTrackable"));
    assert_eq!(since(&fixture, "Available"), first);
    // A new generation is a new fact, even if all Works carry what it names.
    fixture.wait(60);
    fixture.changed();
    fixture.pass();
    assert!(since(&fixture, "Available") > first);
    assert!(since(&fixture, "Overridden") > first);
}

#[test]
fn conditions_of_others_stand_first_and_stay_as_they_are() {
    let mut fixture = two_works();
    // An update run takes its word back and says it anew, at the end.
    let started = fixture.binding().status.conditions.remove(0);
    fixture.binding().status.conditions.push(started.clone());
    fixture.all_fine();
    fixture.pass();
    let kinds: Vec<&str> =
        fixture.seen.binding.status.conditions.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(kinds, ["RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available"]);
    assert_eq!(fixture.seen.binding.status.conditions[0], started);
}
