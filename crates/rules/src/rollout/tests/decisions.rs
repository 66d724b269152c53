//! Who moves, who waits, and what is said meanwhile.

use std::sync::Arc;

use flagship_api::defaults::effective_apply_strategy;
use flagship_api::int_or_string::AmountError;
use serde_json::{Value, json};

use super::fixture::{binding, decided, fixture, pick_n, snapshot, snapshot_at, writes};
use crate::rollout::{Action, plan};

fn rolling(unavailable: Value, surge: Value) -> Value {
    json!({"strategy": {"type": "RollingUpdate", "rollingUpdate":
        {"maxUnavailable": unavailable, "maxSurge": surge}}})
}

// checklist 12 rollout decisions: new snapshot with U=1 updates exactly one ready binding.
#[test]
fn one_ready_binding_at_a_time_and_the_rest_is_told_to_wait() {
    let seen = fixture(
        rolling(json!(1), json!(0)),
        &["c3 Bound 0 ready", "c1 Bound 0 ready", "c2 Bound 0 ready"],
    );
    assert_eq!(writes(&seen), ["hold c2", "hold c3", "deliver web-1-snapshot to c1"]);
}

#[test]
fn what_was_told_already_is_not_told_again() {
    let seen = fixture(
        rolling(json!(1), json!(0)),
        &["c1 Bound 1", "c2 Bound 0 ready held", "c3 Bound 0 ready"],
    );
    assert_eq!(writes(&seen), ["hold c3"]);
}

// checklist 12 rollout decisions: missing strategy in the spec behaves as the defaults.
#[test]
fn a_missing_strategy_is_a_quarter_at_a_time() {
    let all: Vec<String> = (1..=8).map(|n| format!("c{n} Bound 0 ready")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let said = |spec: Value| writes(&fixture(spec, &all));
    let delivered = ["deliver web-1-snapshot to c1", "deliver web-1-snapshot to c2"];
    assert_eq!(said(json!({}))[6..], delivered);
    assert_eq!(said(json!({})), said(rolling(json!("25%"), json!("25%"))));
    assert_eq!(said(json!({"strategy": {}})), said(json!({})));
}

// checklist 12 rollout decisions: downscale removes Unscheduled before updating Bound;
// budget shared; excess ready bindings allow extra removals.
#[test]
fn what_is_no_longer_wanted_goes_first_and_both_share_the_budget() {
    let seen = fixture(
        pick_n(2, json!(1), json!(0)),
        &[
            "c1 Bound 0 ready",
            "c2 Bound 0 ready",
            "c3 Unscheduled 0 ready",
            "c4 Unscheduled 0 ready",
        ],
    );
    // Four ready where one must stay.
    assert_eq!(
        decided(&seen),
        [
            "hold c2",
            "remove c3",
            "remove c4",
            "deliver web-1-snapshot to c1",
            "1 held back, 0 kept: removable 3, addable -2",
            "pause 0s"
        ]
    );
    let seen = fixture(
        pick_n(2, json!(1), json!(0)),
        &["c1 Bound 0 ready", "c2 Bound 0", "c3 Unscheduled 0 ready", "c4 Unscheduled 0"],
    );
    assert_eq!(writes(&seen), ["hold c1", "hold c2", "remove c3"]);
}

// checklist 12 rollout decisions: deleting ready bindings reduce the removable budget.
#[test]
fn what_is_being_deleted_is_no_longer_in_service() {
    let three = |last: &str| {
        writes(&fixture(
            rolling(json!(1), json!(0)),
            &["c1 Bound 0 ready", "c2 Bound 0 ready", last],
        ))
    };
    assert_eq!(three("c3 Bound 1 ready"), ["hold c2", "deliver web-1-snapshot to c1"]);
    assert_eq!(three("c3 Bound 1 ready deleting"), ["hold c1", "hold c2"]);
}

// checklist 12 rollout decisions: Available of an older generation is not ready;
// DiffReported True is ready; DiffReported False is not.
#[test]
fn only_what_is_said_about_the_present_generation_counts() {
    let two =
        |first: &str| writes(&fixture(rolling(json!(1), json!(0)), &[first, "c2 Bound 0 ready"]));
    let goes_on = ["deliver web-1-snapshot to c2"];
    assert_eq!(two("c1 Bound 1 ready"), goes_on);
    assert_eq!(two("c1 Bound 1 diff"), goes_on);
    for not_ready in ["c1 Bound 1 ready-before", "c1 Bound 1 no-diff", "c1 Bound 1"] {
        assert_eq!(two(not_ready), ["hold c2"], "{not_ready}");
    }
}

#[test]
fn reporting_differences_never_uses_the_surge() {
    // Two Unscheduled ones would fill a surge of one; that they only report leaves it free.
    let begins = |flag: &str| {
        let old = [format!("c1 Unscheduled 0 {flag}"), format!("c2 Unscheduled 0 {flag}")];
        let seen = fixture(pick_n(1, json!(0), json!(1)), &[&old[0], &old[1], "c3 Scheduled -"]);
        writes(&seen).contains(&"deliver web-1-snapshot to c3".to_owned())
    };
    assert!(begins("diff"));
    assert!(begins("no-diff"));
    assert!(!begins("ready"));
}

// ours (11.2 #1): what is under way holds its surge slot, and is still updated freely.
#[test]
fn what_is_under_way_holds_its_place_but_may_be_updated() {
    for (flag, surges, free) in [
        ("applying", true, true),
        ("checking", true, true),
        ("unavailable", false, true),
        ("broken", false, true),
        ("not-synced", false, true),
        ("pending", true, false),
        ("ready", true, false),
    ] {
        let told = format!("c1 Bound 0 {flag}");
        let in_place = fixture(rolling(json!(0), json!(0)), &[&told]);
        assert_eq!(writes(&in_place) == ["deliver web-1-snapshot to c1"], free, "{flag}");

        let told = format!("c1 Unscheduled 0 {flag}");
        let beside = fixture(pick_n(1, json!(0), json!(0)), &[&told, "c2 Scheduled -"]);
        let begun = writes(&beside).contains(&"deliver web-1-snapshot to c2".to_owned());
        assert_eq!(begun, !surges, "{flag}");
    }
}

// ours (11.2 #18): ignore deleting Scheduled bindings.
#[test]
fn a_scheduled_binding_that_is_being_deleted_is_left_alone() {
    let seen = fixture(json!({}), &["c1 Scheduled - deleting", "c2 Scheduled -"]);
    assert_eq!(writes(&seen), ["deliver web-1-snapshot to c2"]);
    assert_eq!(decided(&fixture(json!({}), &["c1 Scheduled - deleting"])), [""; 0]);
}

#[test]
fn a_state_nobody_knows_is_left_alone() {
    assert_eq!(decided(&fixture(json!({}), &["c1 Elsewhere 0 ready"])), [""; 0]);
}

// checklist 12 rollout decisions: nothing to roll repairs missing RolloutStarted only.
#[test]
fn when_all_is_rolled_out_only_missing_words_are_added() {
    let seen = fixture(
        json!({}),
        &[
            "c1 Bound 1 ready",
            "c2 Bound 1 ready unsaid",
            "c3 Bound 1 ready said-before",
            "c4 Bound 1 held",
            "c5 Bound 1 unsaid deleting",
        ],
    );
    assert_eq!(decided(&seen), ["confirm c2", "confirm c3", "confirm c4"]);
}

#[test]
fn holding_back_comes_before_confirming_and_that_before_moving() {
    let seen = fixture(
        rolling(json!(1), json!(0)),
        &["c1 Bound 0 ready", "c2 Bound 0 ready", "c3 Bound 1 ready unsaid"],
    );
    let steps: Vec<usize> = plan(&seen).steps.iter().map(Vec::len).collect();
    assert_eq!(steps, [1, 1, 1]);
    assert_eq!(writes(&seen), ["hold c2", "confirm c3", "deliver web-1-snapshot to c1"]);
}

// checklist 12 rollout decisions: apply-strategy change is patched to Scheduled, Bound and
// Unscheduled but not deleting bindings, then requeues.
#[test]
fn a_new_apply_strategy_reaches_every_binding_that_stays_before_anything_else() {
    let mut seen = fixture(
        json!({"strategy": {"applyStrategy": {"type": "ServerSideApply"}}}),
        &["c1 Scheduled -", "c2 Bound 0 ready", "c3 Unscheduled 0", "c4 Bound 0 deleting"],
    );
    assert_eq!(decided(&seen), ["strategy c1", "strategy c2", "strategy c3", "again"]);
    let Action::PushStrategy { strategy, .. } = &plan(&seen).steps[0][0] else { panic!() };
    assert_eq!(
        serde_json::to_value(strategy).unwrap(),
        json!({
            "comparisonOption": "PartialComparison",
            "whenToApply": "Always",
            "type": "ServerSideApply",
            "serverSideApplyConfig": {"force": false},
            "whenToTakeOver": "Always",
        })
    );
    seen.placement.spec.strategy = None;
    assert_ne!(decided(&seen).last().unwrap(), "again");
    // One that has none yet gets one by the write that delivers, or first if it has to wait;
    // the same one without its defaults is the same.
    seen.bindings = vec![binding("c1 Scheduled - no-strategy")];
    assert_eq!(writes(&seen), ["deliver web-1-snapshot to c1 and the strategy"]);
    seen.placement.spec.strategy = Some(
        serde_json::from_value(json!({
        "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}))
        .unwrap(),
    );
    let all = ["c1 Scheduled - no-strategy", "c2 Bound 0 applying", "c3 Scheduled - no-strategy"];
    seen.bindings = all.map(binding).into();
    let told = decided(&seen);
    let waits = all
        .iter()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| told.contains(&format!("strategy {name}")));
    for name in waits {
        let delivered = |line: &String| line.starts_with("deliver") && line.contains(name);
        assert!(!told.iter().any(delivered), "one write or the other: {told:?}");
        assert!(!told.contains(&format!("hold {name}")), "said after the next look: {told:?}");
        assert!(told.contains(&"again".to_owned()), "{told:?}");
    }
    seen.placement.spec.strategy = None;
    seen.bindings = vec![binding("c1 Scheduled - no-strategy")];
    seen.bindings[0].spec.apply_strategy = Some(Default::default());
    assert_eq!(writes(&seen), ["deliver web-1-snapshot to c1"]);
    seen.bindings[0].spec.apply_strategy = Some(effective_apply_strategy(None));
    assert_eq!(writes(&seen), ["deliver web-1-snapshot to c1"]);
}

// checklist 12 rollout decisions: RollingUpdate → External stops all writes; back again resumes.
#[test]
fn external_placements_and_those_being_deleted_are_left_alone() {
    let mut seen = fixture(
        json!({"strategy": {"type": "External"}}),
        &["c1 Scheduled - no-strategy", "c2 Unscheduled 0 ready"],
    );
    assert_eq!(decided(&seen), [""; 0]);
    seen.placement.spec.strategy = None;
    assert_eq!(writes(&seen), ["remove c2", "deliver web-1-snapshot to c1 and the strategy"]);
    seen.placement.deleting = true;
    assert_eq!(decided(&seen), [""; 0]);
}

#[test]
fn nothing_is_bound_before_something_is_selected() {
    let mut seen = fixture(json!({}), &["c1 Scheduled -"]);
    seen.resource_snapshots = vec![Arc::new(snapshot(0, false))];
    assert_eq!(decided(&seen), ["nothing selected yet"]);
    snapshot_at(&mut seen, 0).latest = true;
    snapshot_at(&mut seen, 0).hash = None;
    assert_eq!(
        decided(&seen),
        [
            "unexpected behavior which cannot be handled by the controller: no master resourceSnapshot \
          found for placement web"
        ]
    );
    // While one takes over from the other, the newer one counts.
    seen.resource_snapshots = vec![Arc::new(snapshot(10, true)), Arc::new(snapshot(9, true))];
    assert_eq!(writes(&seen), ["deliver web-10-snapshot to c1"]);
}

#[test]
fn the_target_is_what_the_policy_asks_for() {
    let fixed = json!({
        "policy": {"placementType": "PickFixed", "clusterNames": ["c1", "c2", "c3", "c4"]},
        "strategy": {"rollingUpdate": {"maxUnavailable": 3, "maxSurge": 0}},
    });
    // Two of four may go on where three may be missing: 2 - (4 - 3) = 1.
    let seen = fixture(fixed, &["c1 Bound 0 ready", "c2 Bound 0 ready"]);
    assert_eq!(writes(&seen), ["hold c2", "deliver web-1-snapshot to c1"]);
    let seen = fixture(json!({"policy": {"placementType": "PickN"}}), &["c1 Scheduled -"]);
    assert_eq!(writes(&seen), ["hold c1"]);
}

#[test]
fn a_limit_that_makes_no_sense_stops_the_pass() {
    let seen = fixture(rolling(json!("half"), json!(1)), &["c1 Scheduled -"]);
    assert_eq!(
        decided(&seen),
        [format!(
            "failed to process the request due to a client error: bad maxUnavailable: {}",
            AmountError::NotAPercentage
        )]
    );
}

#[test]
fn in_both_scopes_the_same_is_decided() {
    let mut seen = fixture(json!({}), &["c1 Scheduled -", "c2 Bound 0 ready", "c3 Unscheduled 0"]);
    let wide = decided(&seen);
    seen.placement.namespace = Some("app".into());
    assert_eq!(decided(&seen), wide);
}

#[test]
fn what_was_seen_can_be_written_down_and_read_again() {
    let seen = fixture(json!({}), &["c1 Scheduled -", "c2 Bound 0 since=3"]);
    let text = serde_json::to_string(&seen).unwrap();
    assert_eq!(serde_json::from_str::<crate::rollout::Observed>(&text).unwrap(), seen);
}
