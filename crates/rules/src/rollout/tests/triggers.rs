//! Which changes wake a rollout.

use flagship_api::overrides::{PlacementRef, PlacementScope};
use serde_json::{Value, json};

use super::fixture;
use crate::model::ResourceSnapshot;
use crate::rollout::triggers::{
    binding_changed, is_latest_master, placement_changed, placement_of,
};

// checklist 12 rollout triggers: binding update enqueues on generation, DiffReported or
// Available change; ignores Applied-only changes (ours: unless they change what the binding
// counts as, since nothing polls).
#[test]
fn a_binding_wakes_its_placement_when_it_may_let_others_move() {
    let changed =
        |old: &str, new: &str| binding_changed(&fixture::binding(old), &fixture::binding(new));
    for (old, new, wakes) in [
        ("c1 Bound 1", "c1 Bound 1", false),
        ("c1 Bound 1", "c1 Bound 1 ready", true),
        ("c1 Bound 1 ready", "c1 Bound 1 unavailable", true),
        ("c1 Bound 1 unavailable", "c1 Bound 1 ready", true),
        ("c1 Bound 1 ready-before", "c1 Bound 1 ready", true),
        ("c1 Bound 1 ready", "c1 Bound 1", true),
        ("c1 Bound 1", "c1 Bound 1 diff", true),
        ("c1 Bound 1 no-diff", "c1 Bound 1 diff", true),
        ("c1 Bound 1", "c1 Bound 1 deleting", true),
        ("c1 Bound 1 held", "c1 Bound 1", false),
        ("c1 Bound 1", "c1 Bound 1 pending", false),
        ("c1 Bound 1", "c1 Bound 1 applying", true),
        ("c1 Bound 1 applying", "c1 Bound 1 broken", true),
        ("c1 Bound 1 broken", "c1 Bound 1 broken not-synced", false),
    ] {
        assert_eq!(changed(old, new), wakes, "{old} -> {new}");
    }
    let mut newer = fixture::binding("c1 Bound 1 ready");
    newer.generation += 1;
    assert!(binding_changed(&fixture::binding("c1 Bound 1 ready"), &newer));
}

// checklist 12 rollout triggers: placement update enqueues on strategy type and apply
// strategy change only (plus our additions, 11.2 #3), not when deleting.
#[test]
fn a_placement_wakes_its_rollout_when_it_is_to_go_differently() {
    let placement = |spec: Value| fixture::fixture(spec, &[]).placement;
    let plain = || placement(json!({}));
    for (new, wakes) in [
        (json!({}), false),
        (json!({"revisionHistoryLimit": 3}), false),
        (json!({"strategy": {"type": "External"}}), true),
        (json!({"strategy": {"applyStrategy": {"type": "ReportDiff"}}}), true),
        (json!({"strategy": {"rollingUpdate": {"maxUnavailable": 2}}}), true),
        (json!({"policy": {"placementType": "PickN", "numberOfClusters": 2}}), true),
        (json!({"policy": {"placementType": "PickAll"}}), false),
        (json!({"policy": {"tolerations": [{"key": "k", "operator": "Exists"}]}}), false),
    ] {
        assert_eq!(placement_changed(&plain(), &placement(new.clone())), wakes, "{new}");
        let mut going = placement(new);
        going.deleting = true;
        assert!(!placement_changed(&plain(), &going));
    }
}

// checklist 12 rollout triggers: latest master snapshot creation enqueues; sub-snapshot,
// non-latest ones do not.
#[test]
fn only_the_first_object_of_the_latest_resources_wakes() {
    assert!(is_latest_master(&fixture::snapshot(1, true)));
    assert!(!is_latest_master(&fixture::snapshot(0, false)));
    let sub = ResourceSnapshot { hash: None, ..fixture::snapshot(1, true) };
    assert!(!is_latest_master(&sub));
}

// checklist 12 rollout triggers: CRO snapshot with placement enqueues the CRP, without one
// does not; RO goes to the CRP or RP controller according to scope, never both.
#[test]
fn an_override_wakes_the_one_placement_it_names() {
    let named = |scope| PlacementRef { name: "web".into(), scope };
    let key = |named: &PlacementRef, namespace| {
        placement_of(Some(named), namespace).map(|k| k.to_string())
    };
    let (plain, wide) = (named(None), named(Some(PlacementScope::Cluster)));
    let narrow = named(Some(PlacementScope::Namespaced));
    for cluster_wide in [&plain, &wide] {
        assert_eq!(key(cluster_wide, None).as_deref(), Some("web"));
        assert_eq!(key(cluster_wide, Some("app")).as_deref(), Some("web"));
    }
    assert_eq!(key(&narrow, Some("app")).as_deref(), Some("app/web"));
    assert_eq!(key(&narrow, None), None);
    assert_eq!(placement_of(None, Some("app")), None);
}
