//! A whole pass: what is written, in which order, and when the next one is due.

use std::sync::Arc;

use flagship_api::keys::annotation;
use flagship_api::placement_status::PlacementStatus;
use flagship_api::printed::Printed;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::fleet::{AVAILABLE, Fixture, namespace_id, selection};
use crate::model::{PolicySnapshot, ResourceSnapshot};
use crate::placement::policy_snapshots::PolicyAction;
use crate::placement::resource_snapshots::ResourceAction;
use crate::placement::selection::{Remark, Selection};
use crate::placement::{Action, FRESH_KIND_RETRY, PassError, Placement, Plan, RESYNC};

fn done() -> Fixture {
    let mut fixture = Fixture::crp(json!({"policy": {"placementType": "PickAll"}}));
    fixture.step();
    fixture.schedule(&["c1"], &[]);
    fixture.deliver("c1", 0, AVAILABLE);
    fixture.step();
    fixture
}

fn words(plan: &Plan) -> Vec<&'static str> {
    let word = |action: &Action| match action {
        Action::AddFinalizer => "add finalizer",
        Action::Policy(PolicyAction::Create(_)) => "new policy",
        Action::Policy(_) => "policy",
        Action::Resources(ResourceAction::Create(_)) => "new resources",
        Action::Resources(ResourceAction::Delete { .. }) => "prune",
        Action::Resources(_) => "resources",
        Action::Mirror(_) => "mirror",
        Action::Status(_) => "status",
        Action::DeletePolicySnapshots => "delete policies",
        Action::DeleteResourceSnapshots => "delete resources",
        Action::RemoveFinalizer => "remove finalizer",
    };
    plan.actions.iter().map(word).collect()
}

#[test]
fn a_new_placement_is_guarded_frozen_and_reported_in_this_order() {
    let mut fixture = Fixture::crp(json!({}));
    fixture.seen.placement.has_finalizer = false;
    let plan = fixture.step();
    assert_eq!(words(&plan), ["add finalizer", "new policy", "new resources", "status"]);
    assert_eq!((plan.wake, plan.trouble), (Some(RESYNC), None));
    assert_eq!(fixture.step().actions, [], "nothing changed, nothing is written");
}

// checklist 20.8
#[test]
fn a_user_mistake_on_a_new_placement_leaves_one_condition_and_no_snapshot() {
    let mut fixture = Fixture::crp(json!({}));
    fixture.seen.placement.has_finalizer = false;
    fixture.seen.selection = Err(PassError::User("found duplicate resource x".into()));
    let plan = fixture.step();
    assert_eq!(words(&plan), ["add finalizer", "status"]);
    assert_eq!(plan.wake, Some(RESYNC));
    let status = PlacementStatus {
        conditions: fixture.status().conditions.clone(),
        ..PlacementStatus::default()
    };
    assert_eq!((fixture.status().conditions.len(), fixture.status()), (1, &status));
    assert_eq!(fixture.step().actions, []);
    fixture.seen.placement.deleting = true;
    fixture.step();
    assert!(!fixture.seen.placement.has_finalizer, "its finalizer can be removed");
}

#[test]
fn a_user_mistake_later_leaves_everything_else_untouched() {
    let mut fixture = done();
    let before = fixture.status().clone();
    fixture.seen.selection = Err(PassError::User("bad".into()));
    fixture.step();
    assert!(
        fixture
            .told()
            .starts_with("ClusterResourcePlacementScheduled@1 False InvalidResourceSelectors")
    );
    assert_eq!(fixture.status().conditions[1..], before.conditions[1..]);
    assert_eq!(fixture.status().placement_statuses, before.placement_statuses);
    assert_eq!(fixture.seen.resource_snapshots.len(), 1);
}

// checklist 20.10
#[test]
fn other_trouble_writes_no_status() {
    for trouble in [
        PassError::Expected("not synced".into()),
        PassError::Server("no answer".into()),
        PassError::Unexpected("odd".into()),
    ] {
        let mut fixture = Fixture::crp(json!({}));
        fixture.seen.selection = Err(trouble.clone());
        let plan = fixture.step();
        assert_eq!((plan.actions.as_slice(), plan.trouble), (&[][..], Some(trouble)));
    }
    let mut fixture = Fixture::crp(json!({}));
    fixture.seen.selection = Err(PassError::Fresh("new kind".into()));
    let plan = fixture.step();
    assert_eq!((plan.actions.as_slice(), plan.trouble), (&[][..], None));
    assert_eq!(plan.wake, Some(FRESH_KIND_RETRY));
}

#[test]
fn what_was_decided_before_trouble_stands() {
    let mut fixture = done();
    Arc::make_mut(&mut fixture.seen.resource_snapshots[0]).count = None;
    fixture.edit(|spec| spec["revisionHistoryLimit"] = json!(2));
    let plan = fixture.plan();
    assert_eq!(words(&plan), ["policy"]);
    assert!(matches!(plan.trouble, Some(PassError::Snapshot { .. })));
}

#[test]
fn the_policy_snapshot_always_comes_before_the_resource_snapshot() {
    let mut fixture = done();
    fixture.edit(|spec| spec["policy"]["tolerations"] = json!([{"operator": "Exists"}]));
    fixture.select(&["app", "more"]);
    assert_eq!(
        words(&fixture.step()),
        ["policy", "new policy", "resources", "new resources", "status"]
    );
}

#[test]
fn with_a_limit_of_one_the_old_snapshot_goes_before_the_status_is_complete() {
    let mut fixture =
        Fixture::crp(json!({"policy": {"placementType": "PickAll"}, "revisionHistoryLimit": 1}));
    fixture.step();
    fixture.schedule(&["c1", "c2"], &[]);
    fixture.deliver("c1", 0, AVAILABLE);
    fixture.deliver("c2", 0, AVAILABLE);
    fixture.step();
    fixture.select(&["app", "more"]);
    fixture.step();
    assert_eq!(fixture.seen.resource_snapshots.len(), 2, "clusters still need the old one");
    fixture.deliver("c1", 1, AVAILABLE);
    fixture.step();
    assert_eq!(fixture.seen.resource_snapshots.len(), 2);
    fixture.deliver("c2", 1, AVAILABLE);
    let plan = fixture.step();
    assert_eq!(words(&plan), ["prune", "status"]);
    assert_eq!(fixture.seen.resource_snapshots.len(), 1);
    assert_eq!(fixture.in_short(), format!("Scheduled=True {AVAILABLE}"));
}

#[test]
fn waking_again_depends_on_what_is_open() {
    let mut fixture = done();
    assert_eq!(fixture.plan().wake, None, "complete");
    fixture.seen.batching = crate::placement::Batching::default();
    fixture.select(&["app", "more"]);
    assert_eq!(fixture.plan().wake, Some(SignedDuration::from_secs(30)), "complete, but batching");
    fixture.deliver("c1", 0, "");
    assert_eq!(fixture.plan().wake, Some(SignedDuration::from_secs(30)), "open and batching");
    fixture.select(&["app"]);
    assert_eq!(fixture.plan().wake, Some(RESYNC), "open");
}

// checklist 20.38
#[test]
fn deletion_removes_snapshots_then_our_finalizer_and_says_so() {
    let mut fixture = done();
    fixture.seen.placement.deleting = true;
    let plan = fixture.step();
    assert_eq!(words(&plan), ["delete policies", "delete resources", "remove finalizer"]);
    assert_eq!(plan.events.len(), 1);
    assert_eq!(plan.events[0].reason, "PlacementCleanupFinalizerRemoved");
    assert_eq!(
        plan.events[0].message,
        "Deleted the snapshots and removed the placement cleanup finalizer"
    );
    // Somebody else's finalizer may keep the object; ours is not put back.
    assert_eq!(fixture.step(), Plan::default());
}

// checklist 20.39
#[test]
fn a_deleted_namespace_empties_the_placement_and_a_new_one_resumes_it() {
    let mut fixture = done();
    fixture.select(&[]);
    fixture.step();
    fixture.deliver("c1", 1, AVAILABLE);
    fixture.step();
    assert_eq!(fixture.status().observed_resource_index, "1");
    assert!(fixture.status().selected_resources.is_empty());
    assert_eq!(fixture.in_short(), format!("Scheduled=True {AVAILABLE}"));
    fixture.select(&["app"]);
    fixture.step();
    assert_eq!(fixture.status().observed_resource_index, "2");
    assert_eq!(fixture.status().selected_resources, [namespace_id("app")]);
}

#[test]
fn selectors_that_find_nothing_are_told_once_per_generation() {
    let mut fixture = Fixture::crp(json!({}));
    let mut found = selection(&["app"]);
    found.remarks = vec![
        Remark::Disabled { selector: "{pods}".into() },
        Remark::Missing { selector: "{x}".into() },
    ];
    fixture.seen.selection = Ok(found);
    let told: Vec<_> =
        fixture.step().events.into_iter().map(|e| (e.warning, e.reason, e.message)).collect();
    assert_eq!(
        told,
        [
            (
                true,
                "SelectedTypeNotPropagated".to_owned(),
                "Resources of this type are not propagated, so nothing is selected by {pods}"
                    .to_owned()
            ),
            (
                false,
                "SelectedResourceNotFound".to_owned(),
                "There is no such resource, so nothing is selected by {x}".to_owned()
            ),
        ]
    );
    assert_eq!(fixture.step().events, []);
}

#[test]
fn a_named_resource_that_goes_is_told_when_it_goes() {
    let told = |plan: &Plan| -> Vec<String> {
        let missing = plan.events.iter().filter(|e| e.reason == "SelectedResourceNotFound");
        missing.map(|event| event.message.clone()).collect()
    };
    let mut fixture = Fixture::crp(json!({}));
    fixture.select(&["app"]);
    assert_eq!(told(&fixture.step()), [""; 0]);
    let printed = Printed(&fixture.seen.placement.spec.resource_selectors[0]).to_string();
    let gone = || Selection {
        remarks: vec![Remark::Missing { selector: printed.clone() }],
        ..Selection::default()
    };
    fixture.seen.selection = Ok(gone());
    let said = format!("There is no such resource, so nothing is selected by {printed}");
    assert_eq!(told(&fixture.step()), [said.as_str()]);
    assert_eq!(told(&fixture.step()), [""; 0]);
    // It comes back and goes again.
    fixture.select(&["app"]);
    assert_eq!(told(&fixture.step()), [""; 0]);
    fixture.seen.selection = Ok(gone());
    assert_eq!(told(&fixture.step()), [said.as_str()]);
    // A selector that could not be followed has missed nothing: when its kind appears, what
    // it names is looked for the first time.
    let mut fixture = Fixture::crp(json!({}));
    fixture.seen.selection = Err(PassError::User("no such kind".into()));
    fixture.step();
    fixture.seen.selection = Ok(gone());
    assert_eq!(told(&fixture.step()), [said.as_str()]);
    assert_eq!(told(&fixture.step()), [""; 0]);
}

// checklist 20.24
#[test]
fn the_two_scopes_make_objects_of_their_own() {
    for (mut fixture, kind, namespace) in [
        (Fixture::crp(json!({})), "ClusterResourcePlacement", None),
        (Fixture::rp(json!({})), "ResourcePlacement", Some("app")),
    ] {
        let plan = fixture.step();
        let placement = &fixture.seen.placement;
        let chosen = fixture.seen.selection.clone().unwrap();
        let metadata: Vec<ObjectMeta> = plan
            .actions
            .iter()
            .filter_map(|action| match action {
                Action::Policy(PolicyAction::Create(new)) => {
                    let read =
                        PolicySnapshot::read(&new.metadata(placement), &new.spec(placement), None);
                    assert_eq!((read.hash.as_str(), read.latest), (new.hash.as_str(), true));
                    Some(new.metadata(placement))
                }
                Action::Resources(ResourceAction::Create(new)) => {
                    let spec = new.spec(&chosen);
                    assert_eq!(spec.selected_resources.len(), 1);
                    let read = ResourceSnapshot::read(&new.metadata(placement), &spec);
                    assert_eq!((read.index.as_deref(), read.latest), (Some("0"), true));
                    assert_eq!(read.count.as_deref(), Some("1"));
                    Some(new.metadata(placement))
                }
                _ => None,
            })
            .collect();
        assert_eq!(metadata.len(), 2);
        for made in metadata {
            assert_eq!(made.namespace.as_deref(), namespace);
            assert_eq!(made.labels.unwrap()["kubernetes-fleet.io/parent-CRP"], "web");
            let owner = &made.owner_references.unwrap()[0];
            assert_eq!((owner.kind.as_str(), owner.name.as_str()), (kind, "web"));
            assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
            assert!(
                made.annotations.unwrap().keys().all(|k| k.starts_with("kubernetes-fleet.io/"))
            );
        }
    }
    assert!(annotation::RESOURCE_HASH.ends_with("resource-hash"));
}

#[test]
fn a_placement_is_read_with_its_finalizer() {
    let mut metadata = ObjectMeta {
        name: Some("web".into()),
        generation: Some(3),
        finalizers: Some(vec!["other".into()]),
        ..ObjectMeta::default()
    };
    let spec = Fixture::crp(json!({})).seen.placement.spec;
    let read =
        |metadata: &ObjectMeta| Placement::read(metadata, &spec, &PlacementStatus::default());
    assert!(!read(&metadata).has_finalizer);
    metadata.finalizers = Some(vec!["kubernetes-fleet.io/crp-cleanup".into()]);
    assert!(read(&metadata).has_finalizer);
    assert_eq!(read(&metadata).key().to_string(), "web");
}

#[test]
fn what_was_observed_can_be_kept_in_a_file_and_read_again() {
    let mut fixture = done();
    let text = serde_json::to_string(&fixture.seen).unwrap();
    assert_eq!(serde_json::from_str::<crate::placement::Observed>(&text).unwrap(), fixture.seen);
    let plan = serde_json::to_string(&fixture.plan()).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&plan).unwrap(), fixture.plan());
    fixture.seen.selection = Err(PassError::User("bad".into()));
    let text = serde_json::to_string(&fixture.seen).unwrap();
    assert_eq!(serde_json::from_str::<crate::placement::Observed>(&text).unwrap(), fixture.seen);
}
