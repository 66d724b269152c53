//! Which statuses come back from members to the selected objects.

use flagship_api::condition::ConditionStatus::{False, True};
use flagship_api::placement::PlacementSpec;
use flagship_api::placement_status::ResourceIdentifier;
use serde_json::{Value, json};

use super::fixture::{Fixture, map};
use crate::work::back_report::{Gate, copies, gate};

fn spec(policy: Value, strategy: Value) -> PlacementSpec {
    let mut spec = json!({"resourceSelectors": [], "strategy": {"reportBackStrategy": strategy}});
    if !policy.is_null() {
        spec["policy"] = policy;
    }
    serde_json::from_value(spec).unwrap()
}

fn mirror() -> Value {
    json!({"type": "Mirror", "destination": "OriginalResource"})
}

// checklist 12.53
#[test]
fn only_who_asks_for_it_and_has_one_cluster_gets_statuses_back() {
    let fixed = |names: Value| json!({"placementType": "PickFixed", "clusterNames": names});
    let one_of_many = json!({"placementType": "PickN", "numberOfClusters": 1});
    for policy in [fixed(json!(["m1"])), one_of_many.clone()] {
        assert_eq!(gate(&spec(policy, mirror())), Gate::Open);
    }
    for strategy in [
        json!(null),
        json!({"type": "Disabled"}),
        json!({"type": "Disabled", "destination": "OriginalResource"}),
        json!({"type": "Mirror"}),
        json!({"type": "Mirror", "destination": "WorkAPI"}),
    ] {
        assert_eq!(gate(&spec(one_of_many.clone(), strategy.clone())), Gate::Closed);
        // Who never asked is not told what is wrong with the policy.
        assert_eq!(gate(&spec(json!(null), strategy)), Gate::Closed);
    }
    let refusals = [
        (
            json!(null),
            "no scheduling policy specified (the PickAll type is in use); cannot back-report \
             status to original resources",
        ),
        (
            json!({"placementType": "PickAll"}),
            "the scheduling policy in use is of the PickAll type; cannot back-report status to \
             original resources",
        ),
        (
            fixed(json!(["m1", "m2"])),
            "the scheduling policy in use is of the PickFixed type, but it has more than one \
             target cluster (2 clusters); cannot back-report status to original resources",
        ),
        (
            json!({"placementType": "PickN"}),
            "the scheduling policy in use is of the PickN type, but no number of target clusters \
             is specified; cannot back-report status to original resources",
        ),
        (
            json!({"placementType": "PickN", "numberOfClusters": 3}),
            "the scheduling policy in use is of the PickN type, but the number of target clusters \
             is not set to 1; cannot back-report status to original resources",
        ),
    ];
    for (policy, why) in refusals {
        assert_eq!(gate(&spec(policy, mirror())), Gate::Refused(why.to_owned()));
    }
}

fn selected(name: &str) -> ResourceIdentifier {
    let id = json!({"version": "v1", "kind": "ConfigMap", "name": name, "namespace": "app"});
    serde_json::from_value(id).unwrap()
}

fn reporting(name: &str, status: Value) -> Value {
    json!({
        "identifier": {"ordinal": 0, "version": "v1", "kind": "ConfigMap",
            "resource": "configmaps", "name": name, "namespace": "app"},
        "conditions": [],
        "backReportedStatus": {"observationTime": "2026-01-12T22:44:08Z",
            "observedStatus": status},
    })
}

fn wrapper(status: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "status": status})
}

// checklist 12.53
#[test]
fn statuses_of_applied_and_selected_resources_come_back() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    fixture.says("web-work", "Applied", True, "AllManifestsApplied");
    fixture.manifest("web-work", reporting("one", wrapper(json!({"ready": 1}))));
    fixture.manifest("web-work", reporting("left-out", wrapper(json!({"ready": 2}))));
    fixture.manifest("web-work", reporting("silent", wrapper(json!(null))));
    fixture.manifest("web-work", reporting("broken", json!([1])));
    let all = ["one", "silent", "broken"].map(selected);
    let found = copies(&fixture.objects["web-work"], &all);
    let told: Vec<_> = found.iter().map(|copy| (copy.to.name.as_str(), &copy.status)).collect();
    assert_eq!(told[0], ("one", &Ok(json!({"ready": 1}))));
    assert_eq!(told[1].0, "broken");
    let why = told[1].1.as_ref().unwrap_err();
    assert!(why.starts_with("failed to unmarshal back-reported status: "), "{why}");
    assert_eq!(told.len(), 2);

    // A wrapped resource of the same name is another resource.
    let mut wrapped = selected("one");
    wrapped.envelope = Some(Default::default());
    assert!(copies(&fixture.objects["web-work"], &[wrapped]).is_empty());

    // Not applied, or not yet what is wanted now.
    fixture.says("web-work", "Applied", False, "SomeManifestsAreNotApplied");
    assert!(copies(&fixture.objects["web-work"], &all).is_empty());
    fixture.says_of("web-work", "Applied", True, "AllManifestsApplied", 0);
    assert!(copies(&fixture.objects["web-work"], &all).is_empty());
}

// checklist 12.53
#[test]
fn nothing_comes_back_from_an_envelope() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    fixture.says("web-work", "Applied", True, "AllManifestsApplied");
    fixture.manifest("web-work", reporting("one", wrapper(json!({"ready": 1}))));
    fixture.tamper("web-work", |meta| {
        let labels = meta.labels.get_or_insert_default();
        labels.insert("kubernetes-fleet.io/envelope-work".into(), "ResourceEnvelope".into());
    });
    assert!(copies(&fixture.objects["web-work"], &[selected("one")]).is_empty());
}
