//! The copy of the status in the placed namespace.

use serde_json::{Value, json};

use super::fleet::{AVAILABLE, World, selection};
use crate::placement::{Action, PassError, Plan};

fn namespace(name: &str) -> Value {
    json!([{"group": "", "version": "v1", "kind": "Namespace", "name": name}])
}

fn mirrored() -> World {
    World::crp(json!({
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
    let mut world = mirrored();
    let plan = world.step();
    let Some(Action::Mirror(mirror)) = plan.actions.iter().find(|a| matches!(a, Action::Mirror(_)))
    else {
        panic!("{plan:?}")
    };
    assert_eq!((mirror.namespace.as_str(), mirror.name.as_str()), ("app", "web"));
    assert_eq!(mirror.status.conditions.len(), 1, "without word of itself");
    let object = mirror.object(&world.seen.placement);
    assert_eq!(object.metadata.owner_references.unwrap()[0].kind, "ClusterResourcePlacement");
    assert!(world.told().ends_with(&format!("{SYNCED}\n")), "{}", world.told());
    assert_eq!(world.step().actions, [], "nothing changed, nothing is copied");

    world.schedule(&["c1"], &[]);
    world.deliver("c1", 0, AVAILABLE);
    assert!(has_mirror(&world.step()));
    let copy = world.seen.mirror.clone().unwrap();
    let without_sync: Vec<_> =
        world.status().conditions.iter().filter(|c| !c.type_.ends_with("StatusSynced")).collect();
    assert_eq!(copy.conditions.iter().collect::<Vec<_>>(), without_sync);

    world.seen.mirror = None;
    let plan = world.step();
    assert_eq!(plan.actions.len(), 1, "only the mirror is written again");
    assert!(has_mirror(&plan));
}

// checklist 20.41
#[test]
fn without_the_scope_nothing_is_mirrored() {
    let mut world = World::crp(json!({"resourceSelectors": namespace("app")}));
    assert!(!has_mirror(&world.step()));
    assert!(!world.told().contains("StatusSynced"));
}

// checklist 20.42
#[test]
fn a_missing_namespace_turns_the_sync_false_until_it_is_back() {
    let mut world = mirrored();
    world.step();
    world.schedule(&["c1"], &[]);
    world.deliver("c1", 0, AVAILABLE);
    world.step();
    world.mirror_error = Some("namespaces \"app\" not found".into());
    world.seen.selection = Ok(selection(&[]));
    world.step();
    world.deliver("c1", 1, AVAILABLE);
    world.step();
    let told = world.told();
    assert!(
        told.contains(
            "ClusterResourcePlacementStatusSynced@1 False StatusSyncFailed: Failed to create or \
             update ClusterResourcePlacementStatus: error returned by the API server: failed to \
             create or update ClusterResourcePlacementStatus: namespaces \"app\" not found\n"
        ),
        "{told}"
    );
    assert!(told.contains("Available@1 True"), "{told}");
    assert_eq!(world.status().observed_resource_index, "1");
    assert!(world.status().selected_resources.is_empty());
    // Trying again says the same thing and writes no status.
    let before = world.status().clone();
    world.later(5);
    let plan = world.step();
    assert!(has_mirror(&plan));
    assert_eq!(*world.status(), before);
    world.mirror_error = None;
    world.seen.selection = Ok(selection(&["app"]));
    world.step();
    assert_eq!(world.status().observed_resource_index, "2");
    assert!(world.told().contains(SYNCED));
}

// checklist 20.42
#[test]
fn a_mistake_in_the_selectors_is_mirrored_too() {
    let mut world = mirrored();
    world.step();
    world.seen.selection = Err(PassError::User("bad".into()));
    assert!(has_mirror(&world.step()));
    assert_eq!(world.in_short(), "Scheduled=False StatusSynced=True");
    let copy = world.seen.mirror.clone().unwrap();
    assert_eq!(copy.conditions[0].reason, "InvalidResourceSelectors");
}

// checklist 20.43
#[test]
fn another_namespace_stops_everything_until_it_is_reverted() {
    for target in ["other", "nowhere"] {
        let mut world = mirrored();
        world.step();
        world.schedule(&["c1"], &[]);
        world.deliver("c1", 0, AVAILABLE);
        world.step();
        let before = world.status().clone();
        world.edit(|spec| spec["resourceSelectors"] = namespace(target));
        world.select(&[target]);
        let plan = world.step();
        assert_eq!(plan.wake, None, "only an edit helps");
        assert_eq!(plan.actions.len(), 1, "{plan:?}");
        assert_eq!(
            world.told().lines().next().unwrap(),
            format!(
                "ClusterResourcePlacementScheduled@2 False InvalidResourceSelectors: namespace \
                 resource selector is choosing a different namespace '{target}' from what was \
                 originally picked 'app'. This is not allowed for NamespaceAccessible \
                 ClusterResourcePlacement"
            )
        );
        assert_eq!(world.status().conditions[1..], before.conditions[1..]);
        assert_eq!(world.status().placement_statuses, before.placement_statuses);
        assert_eq!(world.step().actions, []);
        world.edit(|spec| spec["resourceSelectors"] = namespace("app"));
        world.select(&["app"]);
        world.step();
        world.schedule(&["c1"], &[]);
        world.step();
        assert!(world.told().contains("Scheduled@3 True"), "{}", world.told());
    }
}

#[test]
fn a_namespace_selector_must_have_a_name() {
    const MESSAGE: &str = "NamespaceAccessible ClusterResourcePlacement doesn't specify a resource selector which selects a namespace";
    let unnamed = json!([{"group": "", "version": "v1", "kind": "Namespace", "labelSelector": {}}]);
    // After it had one: stop at once.
    let mut world = mirrored();
    world.step();
    world.edit(|spec| spec["resourceSelectors"] = unnamed.clone());
    world.step();
    assert!(
        world.told().contains(&format!("Scheduled@2 False InvalidResourceSelectors: {MESSAGE}"))
    );
    // From the start: nothing to copy to, and it says so once and for all.
    let mut world = World::crp(json!({
        "statusReportingScope": "NamespaceAccessible", "resourceSelectors": unnamed,
    }));
    world.select(&[]);
    assert!(!has_mirror(&world.step()));
    assert_eq!(
        world.told(),
        format!("ClusterResourcePlacementScheduled@1 False InvalidResourceSelectors: {MESSAGE}\n")
    );
    world.later(60);
    assert_eq!(world.step().actions, []);
}

#[test]
fn an_empty_selection_disables_the_check() {
    let mut world = mirrored();
    world.select(&[]);
    world.step();
    world.edit(|spec| spec["resourceSelectors"] = namespace("other"));
    world.select(&["other"]);
    world.seen.mirror = None;
    assert!(has_mirror(&world.step()));
}
