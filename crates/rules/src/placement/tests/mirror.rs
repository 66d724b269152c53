//! The copy of the status in the placed namespace.

use serde_json::{Value, json};

use super::fleet::{AVAILABLE, Fixture, selection};
use crate::placement::{Action, PassError, Plan};

fn namespace(name: &str) -> Value {
    json!([{"group": "", "version": "v1", "kind": "Namespace", "name": name}])
}

fn mirrored() -> Fixture {
    Fixture::crp(json!({
        "policy": {"placementType": "PickAll"},
        "statusReportingScope": "NamespaceAccessible",
        "resourceSelectors": namespace("app"),
    }))
}

fn has_mirror(plan: &Plan) -> bool {
    plan.actions.iter().any(|a| matches!(a, Action::Mirror(_)))
}

const SYNCED: &str = "ClusterResourcePlacementStatusSynced@1 True StatusSyncSucceeded: Successfully created or updated ClusterResourcePlacementStatus in namespace 'app'";

// checklist 20.41
#[test]
fn the_mirror_is_created_updated_and_made_again() {
    let mut fixture = mirrored();
    let plan = fixture.step();
    let Some(Action::Mirror(mirror)) = plan.actions.iter().find(|a| matches!(a, Action::Mirror(_)))
    else {
        panic!("{plan:?}")
    };
    assert_eq!((mirror.namespace.as_str(), mirror.name.as_str()), ("app", "web"));
    assert_eq!(mirror.status.conditions.len(), 1, "without word of itself");
    let object = mirror.object(&fixture.seen.placement);
    assert_eq!(object.metadata.owner_references.unwrap()[0].kind, "ClusterResourcePlacement");
    assert!(fixture.told().ends_with(&format!("{SYNCED}\n")), "{}", fixture.told());
    assert_eq!(fixture.step().actions, [], "nothing changed, nothing is copied");

    fixture.schedule(&["c1"], &[]);
    fixture.deliver("c1", 0, AVAILABLE);
    assert!(has_mirror(&fixture.step()));
    let copy = fixture.seen.mirror.clone().unwrap();
    let without_sync: Vec<_> =
        fixture.status().conditions.iter().filter(|c| !c.type_.ends_with("StatusSynced")).collect();
    assert_eq!(copy.conditions.iter().collect::<Vec<_>>(), without_sync);

    fixture.seen.mirror = None;
    let plan = fixture.step();
    assert_eq!(plan.actions.len(), 1, "only the mirror is written again");
    assert!(has_mirror(&plan));
}

// checklist 20.41
#[test]
fn without_the_scope_nothing_is_mirrored() {
    let mut fixture = Fixture::crp(json!({"resourceSelectors": namespace("app")}));
    assert!(!has_mirror(&fixture.step()));
    assert!(!fixture.told().contains("StatusSynced"));
}

// checklist 20.42
#[test]
fn a_missing_namespace_turns_the_sync_false_until_it_is_back() {
    let mut fixture = mirrored();
    fixture.step();
    fixture.schedule(&["c1"], &[]);
    fixture.deliver("c1", 0, AVAILABLE);
    fixture.step();
    fixture.mirror_error = Some("namespaces \"app\" not found".into());
    fixture.seen.selection = Ok(selection(&[]));
    fixture.step();
    fixture.deliver("c1", 1, AVAILABLE);
    fixture.step();
    let told = fixture.told();
    assert!(
        told.contains(
            "ClusterResourcePlacementStatusSynced@1 False StatusSyncFailed: Failed to create or \
             update ClusterResourcePlacementStatus: error returned by the API server: failed to \
             create or update ClusterResourcePlacementStatus: namespaces \"app\" not found\n"
        ),
        "{told}"
    );
    assert!(told.contains("Available@1 True"), "{told}");
    assert_eq!(fixture.status().observed_resource_index, "1");
    assert!(fixture.status().selected_resources.is_empty());
    // Trying again says the same thing and writes no status.
    let before = fixture.status().clone();
    fixture.later(5);
    let plan = fixture.step();
    assert!(has_mirror(&plan));
    assert_eq!(*fixture.status(), before);
    fixture.mirror_error = None;
    fixture.seen.selection = Ok(selection(&["app"]));
    fixture.step();
    assert_eq!(fixture.status().observed_resource_index, "2");
    assert!(fixture.told().contains(SYNCED));
}

// checklist 20.42
#[test]
fn a_mistake_in_the_selectors_is_mirrored_too() {
    let mut fixture = mirrored();
    fixture.step();
    fixture.seen.selection = Err(PassError::User("bad".into()));
    assert!(has_mirror(&fixture.step()));
    assert_eq!(fixture.in_short(), "Scheduled=False StatusSynced=True");
    let copy = fixture.seen.mirror.clone().unwrap();
    assert_eq!(copy.conditions[0].reason, "InvalidResourceSelectors");
}

// checklist 20.43
#[test]
fn another_namespace_stops_everything_until_it_is_reverted() {
    for target in ["other", "nowhere"] {
        let mut fixture = mirrored();
        fixture.step();
        fixture.schedule(&["c1"], &[]);
        fixture.deliver("c1", 0, AVAILABLE);
        fixture.step();
        let before = fixture.status().clone();
        fixture.edit(|spec| spec["resourceSelectors"] = namespace(target));
        fixture.select(&[target]);
        let plan = fixture.step();
        assert_eq!(plan.wake, None, "only an edit helps");
        assert_eq!(plan.actions.len(), 1, "{plan:?}");
        assert_eq!(
            fixture.told().lines().next().unwrap(),
            format!(
                "ClusterResourcePlacementScheduled@2 False InvalidResourceSelectors: namespace \
                 resource selector is choosing a different namespace '{target}' from what was \
                 originally picked 'app'. This is not allowed for NamespaceAccessible \
                 ClusterResourcePlacement"
            )
        );
        assert_eq!(fixture.status().conditions[1..], before.conditions[1..]);
        assert_eq!(fixture.status().placement_statuses, before.placement_statuses);
        assert_eq!(fixture.step().actions, []);
        fixture.edit(|spec| spec["resourceSelectors"] = namespace("app"));
        fixture.select(&["app"]);
        fixture.step();
        fixture.schedule(&["c1"], &[]);
        fixture.step();
        assert!(fixture.told().contains("Scheduled@3 True"), "{}", fixture.told());
    }
}

#[test]
fn a_namespace_selector_must_have_a_name() {
    const MESSAGE: &str = "NamespaceAccessible ClusterResourcePlacement doesn't specify a resource selector which selects a namespace";
    let unnamed = json!([{"group": "", "version": "v1", "kind": "Namespace", "labelSelector": {}}]);
    // After it had one: stop at once.
    let mut fixture = mirrored();
    fixture.step();
    fixture.edit(|spec| spec["resourceSelectors"] = unnamed.clone());
    fixture.step();
    assert!(
        fixture.told().contains(&format!("Scheduled@2 False InvalidResourceSelectors: {MESSAGE}"))
    );
    // From the start: nothing to copy to, and it says so once and for all.
    let mut fixture = Fixture::crp(json!({
        "statusReportingScope": "NamespaceAccessible", "resourceSelectors": unnamed,
    }));
    fixture.select(&[]);
    assert!(!has_mirror(&fixture.step()));
    assert_eq!(
        fixture.told(),
        format!("ClusterResourcePlacementScheduled@1 False InvalidResourceSelectors: {MESSAGE}\n")
    );
    fixture.later(60);
    assert_eq!(fixture.step().actions, []);
}

#[test]
fn an_empty_selection_disables_the_check() {
    let mut fixture = mirrored();
    fixture.select(&[]);
    fixture.step();
    fixture.edit(|spec| spec["resourceSelectors"] = namespace("other"));
    fixture.select(&["other"]);
    fixture.seen.mirror = None;
    assert!(has_mirror(&fixture.step()));
}
