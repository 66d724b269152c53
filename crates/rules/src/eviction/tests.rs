//! Evictions as tables: a placement, its bindings in a word each, a budget, and the verdict.

use flagship_api::binding::ResourceBindingSpec;
use flagship_api::condition::{Condition, ConditionStatus, Generation, draft};
use flagship_api::eviction::PlacementDisruptionBudgetSpec;
use flagship_api::placement::PlacementSpec;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::placement::Placement;

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// An eviction of `web` from `c1`. Bindings are told as `cluster State flags...`.
fn fixture(policy: Value, bindings: &[&str], budget: Value) -> Observed {
    let mut spec = json!({"resourceSelectors": []});
    if !policy.is_null() {
        spec["policy"] = policy;
    }
    let spec: PlacementSpec = serde_json::from_value(spec).unwrap();
    Observed {
        now: now(),
        eviction: Eviction {
            generation: 1,
            placement: "web".into(),
            cluster: "c1".into(),
            ..Eviction::default()
        },
        placement: Some(Placement::of_spec("web", spec)),
        bindings: bindings.iter().map(|told| bound(told)).collect(),
        budget: serde_json::from_value::<Option<PlacementDisruptionBudgetSpec>>(budget).unwrap(),
    }
}

fn bound(told: &str) -> Binding {
    let mut words = told.split(' ');
    let (cluster, state) = (words.next().unwrap(), words.next().unwrap());
    let spec = json!({
        "state": state, "targetCluster": cluster, "resourceSnapshotName": "web-0-snapshot",
        "schedulingPolicySnapshotName": "web-0",
        "clusterDecision": {"clusterName": cluster, "selected": true, "reason": ""},
    });
    let spec: ResourceBindingSpec = serde_json::from_value(spec).unwrap();
    let mut binding = Binding {
        name: format!("web-{cluster}"),
        uid: format!("uid-web-{cluster}"),
        generation: 3,
        spec,
        ..Binding::default()
    };
    for word in words {
        match word.split_once('=') {
            None if word == "deleting" => binding.deleting = true,
            Some(("was", state)) => binding.previous = Some(state.to_owned()),
            Some((kind, said)) => binding.status.conditions.push(said_of(kind, said)),
            None => panic!("{told}"),
        }
    }
    binding
}

/// `Available=True`, `Applied=False:ApplyPending`; a trailing `@2` is about a generation past.
fn said_of(kind: &str, said: &str) -> Condition {
    let (said, generation) = match said.split_once('@') {
        Some((said, generation)) => (said, generation.parse().unwrap()),
        None => (said, 3),
    };
    let (truth, reason) = said.split_once(':').unwrap_or((said, "Reason"));
    let truth = if truth == "True" { ConditionStatus::True } else { ConditionStatus::False };
    draft(kind.to_owned())
        .is(truth, reason.to_owned())
        .into_condition(Generation(generation), now())
}

/// Whether the binding goes, and everything that is said.
fn verdict(seen: &Observed) -> String {
    let plan = plan(seen);
    let mut told = String::new();
    for action in &plan.actions {
        match action {
            Action::Intend { uid } => told.push_str(&format!("intend {uid}, ")),
            Action::Delete { binding } => told.push_str(&format!("delete {binding}, ")),
            Action::Conclude(conditions) => {
                let line = |c: &Condition| {
                    assert_eq!(c.observed_generation, Some(seen.eviction.generation));
                    format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message)
                };
                let lines: Vec<String> = conditions.iter().map(line).collect();
                told.push_str(&lines.join(" / "));
            }
        }
    }
    told
}

const INVALID: &str = "Valid=False ClusterResourcePlacementEvictionInvalid";
const VALID: &str = "Valid=True ClusterResourcePlacementEvictionValid: Eviction is valid";
const EXECUTED: &str = "Executed=True ClusterResourcePlacementEvictionExecuted";
const NOT_EXECUTED: &str = "Executed=False ClusterResourcePlacementEvictionNotExecuted";

fn goes(why: &str) -> String {
    format!("intend uid-web-c1, delete web-c1, {VALID} / {EXECUTED}: {why}")
}

fn stays(why: &str) -> String {
    format!("{VALID} / {NOT_EXECUTED}: {why}")
}

fn pick_n(number: u32) -> Value {
    json!({"placementType": "PickN", "numberOfClusters": number})
}

const HEALTHY: &str = "c1 Bound Available=True";

// checklist fleet 12.32
#[test]
fn five_things_make_an_eviction_invalid_for_good() {
    let mut missing = fixture(Value::Null, &[HEALTHY], Value::Null);
    missing.placement = None;
    let mut deleting = fixture(Value::Null, &[HEALTHY], Value::Null);
    deleting.placement.as_mut().unwrap().deleting = true;
    let fixed = json!({"placementType": "PickFixed", "clusterNames": ["c1"]});
    let cases = [
        (missing, "Failed to find ClusterResourcePlacement targeted by eviction"),
        (deleting, "Found deleting ClusterResourcePlacement targeted by eviction"),
        (
            fixture(fixed, &[HEALTHY], Value::Null),
            "Found ClusterResourcePlacement with PickFixed placement type targeted by eviction",
        ),
        (
            fixture(Value::Null, &[HEALTHY, "c1 Bound deleting"], Value::Null),
            "Found more than one scheduler decision for placement in cluster targeted by eviction",
        ),
        (
            fixture(Value::Null, &["c2 Bound Available=True"], Value::Null),
            "Failed to find scheduler decision for placement in cluster targeted by eviction",
        ),
    ];
    for (mut seen, why) in cases {
        assert_eq!(verdict(&seen), format!("{INVALID}: {why}"));
        let decided = plan(&seen);
        assert_eq!(decided.valid, Some(false));
        let Some(Action::Conclude(conditions)) = decided.actions.last() else { panic!() };
        seen.eviction.conditions = conditions.clone();
        // What was wrong may be right by now: the word stands.
        seen.placement = fixture(Value::Null, &[], Value::Null).placement;
        seen.bindings = vec![bound(HEALTHY)];
        assert_eq!(plan(&seen), Plan::default());
    }
}

// checklist fleet 12.33
#[test]
fn what_the_binding_stands_for_comes_before_any_budget() {
    let blocked =
        stays("Eviction is blocked, placement has not propagated resources to target cluster yet");
    let failed = goes("Eviction is allowed, placement has failed");
    let going = format!(
        "{VALID} / {EXECUTED}: Eviction is allowed, resources propagated by placement is \
         currently being removed from cluster targeted by eviction"
    );
    let none = json!({"minAvailable": 9});
    let full = stays(
        "Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, \
         availablePlacements: 1, totalPlacements: 1",
    );
    let empty = full.replace("availablePlacements: 1", "availablePlacements: 0");
    for (binding, expected) in [
        ("c1 Scheduled", &blocked),
        ("c1 Unscheduled", &blocked),
        ("c1 Unscheduled was=Scheduled", &blocked),
        ("c1 Unscheduled was=Bound Available=True", &full),
        ("c1 Scheduled deleting", &going),
        ("c1 Bound Available=True deleting", &going),
        ("c1 Bound Applied=False:NotAllWorkHaveBeenApplied", &failed),
        ("c1 Bound Applied=False:ApplyInProgress", &failed),
        ("c1 Bound Overridden=False:OverriddenFailed", &failed),
        ("c1 Bound WorkSynchronized=False:SyncWorkFailed", &failed),
        ("c1 Bound Available=False:NotAllWorkAreAvailable", &failed),
        ("c1 Bound DiffReported=True", &failed),
        ("c1 Bound DiffReported=False", &failed),
        // Waiting is not failing, and old words do not count.
        ("c1 Bound Overridden=False:OverriddenPending", &empty),
        ("c1 Bound WorkSynchronized=False:WorkNotSynchronizedYet", &empty),
        ("c1 Bound Applied=False:ApplyPending", &empty),
        ("c1 Bound Available=False:ResourceNotAvailableYet", &empty),
        ("c1 Bound Applied=False:NotAllWorkHaveBeenApplied@2", &empty),
        ("c1 Bound DiffReported=True@2", &empty),
        ("c1 Bound Available=True@2", &empty),
        (HEALTHY, &full),
    ] {
        let seen = fixture(pick_n(1), &[binding], none.clone());
        assert_eq!(verdict(&seen), *expected, "{binding}");
        assert_eq!(plan(&seen).valid, Some(true), "{binding}");
    }
}

// checklist fleet 12.34
#[test]
fn without_a_budget_everything_may_go() {
    let expected =
        goes("Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified");
    for policy in [Value::Null, json!({"placementType": "PickAll"}), pick_n(1)] {
        assert_eq!(verdict(&fixture(policy, &[HEALTHY], Value::Null)), expected);
    }
}

// checklist fleet 12.35
#[test]
fn on_all_clusters_only_a_plain_number_that_stays_can_be_kept_to() {
    let misconfigured = stays(
        "Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget, either \
         MaxUnavailable is specified or MinAvailable is specified as a percentage for PickAll \
         ClusterResourcePlacement",
    );
    let two = [HEALTHY, "c2 Bound Available=True"];
    for policy in [Value::Null, json!({"placementType": "PickAll"})] {
        for budget in [
            json!({"maxUnavailable": 1}),
            json!({"maxUnavailable": "50%"}),
            json!({"minAvailable": "50%"}),
        ] {
            assert_eq!(verdict(&fixture(policy.clone(), &two, budget)), misconfigured);
        }
        for (least, may) in [(0, true), (1, true), (2, false), (3, false)] {
            let seen = fixture(policy.clone(), &two, json!({"minAvailable": least}));
            assert_eq!(verdict(&seen), counted(may, 2, 2), "minAvailable {least}");
        }
    }
}

fn counted(may: bool, available: usize, total: usize) -> String {
    let counts = format!("availablePlacements: {available}, totalPlacements: {total}");
    let budget = "by specified ClusterResourcePlacementDisruptionBudget";
    match may {
        true => goes(&format!("Eviction is allowed {budget}, {counts}")),
        false => stays(&format!("Eviction is blocked {budget}, {counts}")),
    }
}

// checklist fleet 12.36
#[test]
fn shares_of_the_wanted_clusters_are_rounded_up() {
    // Wanted, available and other clusters besides c1, the budget, and whether c1 may go.
    let cases: &[(u32, usize, usize, Value, bool)] = &[
        (3, 2, 0, json!({"maxUnavailable": 0}), false),
        (3, 2, 0, json!({"maxUnavailable": 1}), true),
        (3, 1, 1, json!({"maxUnavailable": 1}), false),
        (3, 1, 1, json!({"maxUnavailable": 2}), true),
        (3, 2, 0, json!({"maxUnavailable": 5}), true),
        (3, 2, 0, json!({"maxUnavailable": "0%"}), false),
        (3, 2, 0, json!({"maxUnavailable": "1%"}), true),
        (3, 1, 1, json!({"maxUnavailable": "33%"}), false),
        (3, 1, 1, json!({"maxUnavailable": "34%"}), true),
        (3, 0, 2, json!({"maxUnavailable": "100%"}), true),
        (3, 2, 0, json!({"minAvailable": 0}), true),
        (3, 2, 0, json!({"minAvailable": 2}), true),
        (3, 2, 0, json!({"minAvailable": 3}), false),
        (3, 2, 0, json!({"minAvailable": 4}), false),
        (3, 1, 1, json!({"minAvailable": 2}), false),
        (3, 2, 0, json!({"minAvailable": "0%"}), true),
        (3, 2, 0, json!({"minAvailable": "66%"}), true),
        (3, 2, 0, json!({"minAvailable": "67%"}), false),
        (3, 2, 0, json!({"minAvailable": "100%"}), false),
        // More are wanted than there are, and more are there than wanted.
        (5, 2, 0, json!({"maxUnavailable": 1}), true),
        (5, 2, 0, json!({"minAvailable": "50%"}), false),
        (2, 3, 0, json!({"minAvailable": "100%"}), true),
        (2, 1, 2, json!({"maxUnavailable": "100%"}), false),
        // Said nothing, or nothing that can be read: nothing may go.
        (3, 2, 0, json!({}), false),
        (3, 2, 0, json!({"maxUnavailable": "many"}), false),
        (3, 2, 0, json!({"minAvailable": -1}), false),
    ];
    for (wanted, fine, others, budget, may) in cases {
        let mut bindings = vec![HEALTHY.to_owned()];
        bindings.extend((0..*fine).map(|n| format!("f{n} Bound Available=True")));
        bindings.extend((0..*others).map(|n| format!("o{n} Bound")));
        let told: Vec<&str> = bindings.iter().map(String::as_str).collect();
        let seen = fixture(pick_n(*wanted), &told, budget.clone());
        let expected = counted(*may, fine + 1, fine + others + 1);
        assert_eq!(
            verdict(&seen),
            expected,
            "{wanted} wanted, {fine} fine, {others} not: {budget}"
        );
    }
}

#[test]
fn a_binding_that_goes_counts_and_does_not_work() {
    let two = [HEALTHY, "c2 Bound Available=True@2 deleting"];
    let seen = fixture(pick_n(2), &two, json!({"maxUnavailable": 1}));
    assert_eq!(verdict(&seen), counted(false, 1, 2));
}

// checklist fleet 12.37
#[test]
fn an_eviction_is_never_carried_out_twice() {
    let mut seen = fixture(Value::Null, &[HEALTHY], Value::Null);
    let decided = plan(&seen);
    // The hub dies after the intent: the deletion is made good, and not announced again.
    seen.eviction.intended = Some("uid-web-c1".into());
    assert_eq!(plan(&seen).actions, decided.actions[1..]);
    // The hub dies after the deletion: whatever is there now is somebody else's.
    let gone = words::GOING;
    seen.bindings = vec![bound("c1 Bound Available=True deleting")];
    assert_eq!(verdict(&seen), format!("{VALID} / {EXECUTED}: {gone}"));
    seen.bindings = vec![Binding { uid: "another".into(), ..bound(HEALTHY) }];
    assert_eq!(verdict(&seen), format!("{VALID} / {EXECUTED}: {gone}"));
    seen.bindings.clear();
    seen.placement = None;
    assert_eq!(verdict(&seen), format!("{VALID} / {EXECUTED}: {gone}"));
    // It was said, whatever was said.
    for truth in [ConditionStatus::True, ConditionStatus::False] {
        let said = draft(kind::EXECUTED).is(truth, "Any").into_condition(Generation(0), now());
        seen.eviction.conditions = vec![said];
        assert_eq!(plan(&seen), Plan::default());
    }
}
