//! Which resources are listed as failed, drifted and different.

use flagship_api::condition::ConditionStatus::{self, False, True};
use serde_json::{Value, json};

use super::fixture::{Fixture, map};
use crate::work::MOST_LISTED;

const TIME: &str = "2026-01-12T22:44:08Z";

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": "m",
        "observedGeneration": 2, "lastTransitionTime": TIME})
}

fn identifier(name: &str) -> Value {
    json!({"ordinal": 0, "group": "apps", "version": "v1", "kind": "Deployment",
        "resource": "deployments", "name": name, "namespace": "app"})
}

/// A manifest with everything that can be told of it.
fn trouble(name: &str) -> Value {
    json!({
        "identifier": identifier(name),
        "conditions": [condition("Applied", "False", "ManifestApplyFailed"),
            condition("Available", "False", "ManifestNotAvailableYet")],
        "driftDetails": {"observationTime": TIME, "firstDriftedObservedTime": TIME,
            "observedInMemberClusterGeneration": 2,
            "observedDrifts": [{"path": "/spec", "valueInMember": "1", "valueInHub": "2"}]},
        "diffDetails": {"observationTime": TIME, "firstDiffedObservedTime": TIME,
            "observedDiffs": [{"path": "/spec", "valueInHub": "2"}]},
    })
}

/// Lengths of the three lists: failed, diffed, drifted.
fn lengths(fixture: &Fixture) -> [usize; 3] {
    let status = &fixture.seen.binding.status;
    [
        status.failed_placements.len(),
        status.diffed_placements.len(),
        status.drifted_placements.len(),
    ]
}

/// What a Work says of itself, and the lengths of the lists that follow from it.
type Case = (&'static [(&'static str, ConditionStatus, &'static str)], [usize; 3]);

// checklist 12.50
#[test]
fn the_lists_follow_the_conditions() {
    let says: [Case; 7] = [
        // Nothing is complete yet.
        (&[], [0, 0, 0]),
        (&[("Applied", False, "SomeManifestsAreNotApplied")], [1, 1, 1]),
        (&[("Applied", True, "AllManifestsApplied")], [0, 0, 1]),
        (&[("Applied", True, ""), ("Available", False, "")], [1, 0, 1]),
        (&[("Applied", True, ""), ("Available", True, "")], [0, 0, 1]),
        // A word about Available does not count while Applied is missing.
        (&[("Available", False, "")], [0, 0, 0]),
        (&[("DiffReported", True, "")], [0, 0, 0]),
    ];
    for (said, expected) in says {
        let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
        for (kind, truth, reason) in said {
            fixture.says("web-work", kind, *truth, reason);
        }
        fixture.manifest("web-work", trouble("one"));
        fixture.pass();
        assert_eq!(lengths(&fixture), expected, "{said:?}");
    }
    for (truth, expected) in [(True, [0, 1, 0]), (False, [0, 0, 0])] {
        let mut fixture = Fixture::cluster_wide();
        let strategy = serde_json::from_value(json!({"type": "ReportDiff"})).unwrap();
        fixture.binding().spec.apply_strategy = Some(strategy);
        let mut fixture = fixture.delivered(&[&[map("one", "1")]]);
        fixture.says("web-work", "DiffReported", truth, "");
        fixture.manifest("web-work", trouble("one"));
        fixture.pass();
        assert_eq!(lengths(&fixture), expected);
    }
}

// checklist 12.50
#[test]
fn a_failure_is_the_condition_that_failed_first() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    fixture.says("web-work", "Applied", False, "");
    fixture.manifest("web-work", trouble("both"));
    let late = json!([
        condition("Applied", "True", "Applied"),
        condition("Available", "False", "ManifestNotAvailableYet")
    ]);
    fixture.manifest("web-work", json!({"identifier": identifier("late"), "conditions": late}));
    let fine = json!([condition("Applied", "True", "Applied")]);
    fixture.manifest("web-work", json!({"identifier": identifier("fine"), "conditions": fine}));
    fixture.pass();
    let told = serde_json::to_value(&fixture.seen.binding.status.failed_placements).unwrap();
    assert_eq!(
        told,
        json!([
            {"group": "apps", "version": "v1", "kind": "Deployment", "name": "both",
             "namespace": "app",
             "condition": condition("Applied", "False", "ManifestApplyFailed")},
            {"group": "apps", "version": "v1", "kind": "Deployment", "name": "late",
             "namespace": "app",
             "condition": condition("Available", "False", "ManifestNotAvailableYet")},
        ])
    );
}

// checklist 12.50
#[test]
fn only_works_that_fail_themselves_list_failures() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")], &[map("two", "2")]]);
    for work in ["web-work", "web-0"] {
        fixture.says(work, "Applied", True, "");
        fixture.manifest(work, trouble(work));
    }
    fixture.says("web-work", "Available", True, "");
    fixture.says("web-0", "Available", False, "");
    fixture.pass();
    let failed = &fixture.seen.binding.status.failed_placements;
    assert_eq!(failed.iter().map(|one| &one.resource.name).collect::<Vec<_>>(), ["web-0"]);
    assert_eq!(lengths(&fixture), [1, 0, 2]);
}

// checklist 12.50
#[test]
fn what_came_in_an_envelope_says_so() {
    let envelope = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ResourceEnvelope", "metadata": {"name": "env", "namespace": "app"},
        "data": {"a": map("one", "1")}});
    let mut fixture = Fixture::cluster_wide().delivered(&[&[envelope]]);
    let name = fixture.objects.keys().find(|name| name.contains("envelope")).unwrap().clone();
    fixture.says("web-work", "Applied", True, "");
    fixture.says(&name, "Applied", False, "");
    fixture.manifest(&name, trouble("one"));
    fixture.pass();
    let expected = json!({"name": "env", "namespace": "app", "type": "ResourceEnvelope"});
    let status = serde_json::to_value(&fixture.seen.binding.status).unwrap();
    for list in ["failedPlacements", "driftedPlacements", "diffedPlacements"] {
        assert_eq!(status[list][0]["envelope"], expected, "{list}");
    }
    // A Work of an older hub tells what it always told.
    fixture.tamper(&name, |meta| {
        let labels = meta.labels.get_or_insert_default();
        labels.insert("kubernetes-fleet.io/envelope-work".into(), "ConfigMap".into());
    });
    fixture.seen.snapshots.clear();
    fixture.pass();
    let status = serde_json::to_value(&fixture.seen.binding.status).unwrap();
    assert_eq!(status["failedPlacements"][0]["envelope"]["type"], "ConfigMap");
}

// checklist 12.50
#[test]
fn each_list_is_sorted_and_ends_at_a_hundred() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    fixture.says("web-work", "Applied", False, "");
    for number in (0..120).rev() {
        fixture.manifest("web-work", trouble(&format!("d-{number:03}")));
    }
    fixture.pass();
    assert_eq!(lengths(&fixture), [MOST_LISTED; 3]);
    let status = &fixture.seen.binding.status;
    let first_and_last = |names: Vec<&String>| {
        assert!(names.is_sorted());
        (names[0].clone(), names[MOST_LISTED - 1].clone())
    };
    let expected = ("d-000".to_owned(), "d-099".to_owned());
    let failed = status.failed_placements.iter().map(|one| &one.resource.name).collect();
    let drifted = status.drifted_placements.iter().map(|one| &one.resource.name).collect();
    let diffed = status.diffed_placements.iter().map(|one| &one.resource.name).collect();
    for names in [failed, drifted, diffed] {
        assert_eq!(first_and_last(names), expected);
    }
}

// checklist 12.50
#[test]
fn another_time_in_a_list_is_written_although_no_condition_changed() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    fixture.all_fine();
    fixture.manifest("web-work", trouble("one"));
    fixture.pass();
    let told = fixture.told;
    fixture.pass();
    assert_eq!(fixture.told, told);
    let status = fixture.objects.get_mut("web-work").unwrap().status.as_mut().unwrap();
    let details = status.manifest_conditions[0].drift_details.as_mut().unwrap();
    details.observation_time = serde_json::from_value(json!("2026-01-12T22:45:08Z")).unwrap();
    fixture.pass();
    assert_eq!(fixture.told, told + 1);
    let drifted = &fixture.seen.binding.status.drifted_placements[0];
    let drifted = serde_json::to_value(drifted).unwrap();
    assert_eq!(
        drifted,
        json!({"group": "apps", "version": "v1", "kind": "Deployment", "name": "one",
            "namespace": "app", "observationTime": "2026-01-12T22:45:08Z",
            "targetClusterObservedGeneration": 2, "firstDriftedObservedTime": TIME,
            "observedDrifts": [{"path": "/spec", "valueInMember": "1", "valueInHub": "2"}]})
    );
}
