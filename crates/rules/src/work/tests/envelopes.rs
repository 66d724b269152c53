//! Envelopes become Works of their own.

use flagship_api::keys::label;
use serde_json::{Value, json};

use super::fixture::{Fixture, map, raw};
use crate::work::Retry;

const ROLES: &str = "web-work-envelope-7846b7c3bf17ded3";
const MAPS: &str = "web-work-envelope-b28676e85f7998c5";

fn role(name: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name}})
}

/// ClusterResourceEnvelope `web`.
fn cluster_envelope(data: Value) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourceEnvelope", "metadata": {"name": "web"}, "data": data})
}

/// ResourceEnvelope `default/web`.
fn envelope(data: Value) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope",
        "metadata": {"name": "web", "namespace": "default"}, "data": data})
}

fn in_default(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}})
}

fn told(cause: &str) -> String {
    format!(
        "WorkSynchronized False SyncWorkFailed: Failed to synchronize the work to the latest: \
         {cause}"
    )
}

// checklist 12.40
// checklist 12.45
#[test]
fn every_envelope_is_a_work_under_a_name_that_stays() {
    let wrapped = cluster_envelope(json!({"r.yaml": role("reader")}));
    let maps = envelope(json!({"m.yaml": in_default("one")}));
    let mut fixture =
        Fixture::cluster_wide().delivered(&[&[wrapped, maps.clone(), map("plain", "1")]]);
    assert_eq!(
        fixture.works(),
        [
            "web-work (0, 1): plain",
            &format!("{ROLES} (0, 1): reader"),
            &format!("{MAPS} (0, 1): one"),
        ]
    );
    let labels = |name: &str| {
        let labels = fixture.objects[name].metadata.labels.clone().unwrap();
        [label::ENVELOPE_TYPE, label::ENVELOPE_NAME, label::ENVELOPE_NAMESPACE]
            .map(|key| labels.get(key).cloned().unwrap_or_default())
    };
    assert_eq!(labels(ROLES), ["ClusterResourceEnvelope", "web", ""]);
    assert_eq!(labels(MAPS), ["ResourceEnvelope", "web", "default"]);
    assert_eq!(labels("web-work"), ["", "", ""]);

    // New content, and the other envelope is gone.
    fixture.snapshot(1, &[&[envelope(json!({"m.yaml": in_default("two")})), map("plain", "1")]]);
    fixture.bind(1);
    fixture.pass();
    assert_eq!(fixture.works(), ["web-work (1, 1): plain", &format!("{MAPS} (1, 2): two")]);

    // It moves to another snapshot of the group and keeps its Work, old name and all.
    fixture.snapshot(2, &[&[map("plain", "1")], &[maps]]);
    fixture.bind(2);
    fixture.pass();
    assert_eq!(
        fixture.works(),
        ["web-0 (2, 1): ", "web-work (2, 1): plain", &format!("{MAPS} (2, 3): one")]
    );
}

// checklist 12.45
#[test]
fn a_work_of_an_older_hub_keeps_its_random_name() {
    let mut fixture = Fixture::cluster_wide();
    let group = [envelope(json!({"m.yaml": in_default("one")}))];
    fixture = fixture.delivered(&[&group]);
    let mut old = fixture.objects.remove(MAPS).unwrap();
    old.metadata.name = Some("web-work-4f2".into());
    fixture.objects.insert("web-work-4f2".into(), old);
    fixture.snapshot(1, &[&[envelope(json!({"m.yaml": in_default("two")}))]]);
    fixture.bind(1);
    fixture.pass();
    assert_eq!(fixture.works(), ["web-work (1, 1): ", "web-work-4f2 (1, 2): two"]);
}

// checklist 12.45
#[test]
fn what_does_not_belong_into_an_envelope_is_refused_by_name() {
    let user = Retry::Never;
    let table = [
        (
            cluster_envelope(json!({"a": role("r"), "m": in_default("one")})),
            user,
            "a namespaced object m (default/one) has been wrapped in a cluster resource envelope \
             web",
        ),
        (
            envelope(json!({"r": role("reader")})),
            user,
            "a cluster scope object r (reader) has been wrapped in a resource envelope default/web",
        ),
        (
            envelope(json!({"m": map("one", "1")})),
            user,
            "a namespaced object m (app/one) in has been wrapped in a resource envelope from \
             another namespace (default/web)",
        ),
        (
            envelope(json!({"m": "text"})),
            Retry::BackOff,
            "failed to parse the wrapped manifest data to a Kubernetes runtime object \
             (manifestKey=m,envelopeObjRef=default/web): Object 'Kind' is missing in '\"text\"'",
        ),
        (
            envelope(json!({"m": {"metadata": {"name": "x"}}})),
            Retry::BackOff,
            "failed to parse the wrapped manifest data to a Kubernetes runtime object \
             (manifestKey=m,envelopeObjRef=default/web): Object 'Kind' is missing in \
             '{\"metadata\":{\"name\":\"x\"}}'",
        ),
    ];
    for (bad, retry, cause) in table {
        let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
        fixture.snapshot(1, &[&[map("one", "2")], &[bad]]);
        fixture.bind(1);
        assert_eq!(fixture.pass().trouble.unwrap().retry, retry);
        // Nothing is half done: the first snapshot was fine and is not written either.
        assert_eq!(fixture.works(), ["web-work (0, 1): one"]);
        let no_overrides = "Overridden True NoOverrideSpecified: No override rules are configured \
                            for the selected resources";
        assert_eq!(fixture.conditions(), [no_overrides.to_owned(), told(cause)]);
    }
}

// checklist 12.45
#[test]
fn two_works_for_one_envelope_are_for_a_person_to_sort_out() {
    let mut fixture = Fixture::cluster_wide();
    fixture = fixture.delivered(&[&[envelope(json!({"m.yaml": in_default("one")}))]]);
    let mut twin = fixture.objects[MAPS].clone();
    twin.metadata.name = Some("web-work-twin".into());
    fixture.objects.insert("web-work-twin".into(), twin);
    fixture.writes.clear();
    assert_eq!(fixture.pass().trouble.unwrap().retry, Retry::BackOff);
    assert_eq!(
        fixture.last(),
        told("2 work objects found for the same envelope default/web, only one expected")
    );
    assert_eq!(fixture.writes, Vec::<String>::new());
    let event = &fixture.events[0];
    assert!(event.warning);
    assert_eq!(event.reason, "DuplicateEnvelopeWorks");
    assert_eq!(
        event.message,
        format!(
            "Multiple Work objects ([{MAPS} web-work-twin]) found for envelope default/web in \
             namespace fleet-member-m1; delete all but the oldest to recover"
        )
    );
    // One of them is on its way out: that is enough.
    fixture.objects.get_mut("web-work-twin").unwrap().metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-12T22:44:08Z")).unwrap();
    assert!(fixture.pass().trouble.is_none());
}

// checklist 12.46
#[test]
fn the_content_of_an_envelope_has_one_order() {
    let data = json!({"a": in_default("one"), "b": in_default("two"), "c": in_default("three")});
    let fixture = Fixture::cluster_wide().delivered(&[&[envelope(data)]]);
    let listed = &fixture.objects[MAPS].spec.workload.manifests;
    assert!(listed.is_sorted_by(|a, b| a.text() >= b.text()));
    let data = json!({"x": in_default("three"), "y": in_default("one"), "z": in_default("two")});
    let other = Fixture::cluster_wide().delivered(&[&[envelope(data)]]);
    assert_eq!(&other.objects[MAPS].spec.workload.manifests, listed);
    assert_eq!(listed[0], raw(&in_default("two")));
}

// checklist 12.46
#[test]
fn a_config_map_that_was_an_envelope_once_is_a_config_map() {
    let mut old = map("web", "1");
    old["metadata"]["annotations"] = json!({"kubernetes-fleet.io/envelope-configmap": "true"});
    let fixture = Fixture::cluster_wide().delivered(&[&[old]]);
    assert_eq!(fixture.works(), ["web-work (0, 1): web"]);
}

#[test]
fn a_kind_of_the_same_name_in_another_group_is_no_envelope() {
    let mut other = envelope(json!({}));
    other["apiVersion"] = json!("example.com/v1");
    let fixture = Fixture::cluster_wide().delivered(&[&[other]]);
    assert_eq!(fixture.works(), ["web-work (0, 1): web"]);
}
