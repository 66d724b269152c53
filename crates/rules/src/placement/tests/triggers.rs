//! Which changes wake which placements.

use std::collections::BTreeMap;

use flagship_api::placement_status::{
    DriftedResourcePlacement, FailedResourcePlacement, ResourceIdentifier,
};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::fleet::{AVAILABLE, Fixture, namespace_id, said};
use super::hub::now;
use crate::model::Binding;
use crate::placement::Placement;
use crate::placement::selection::Kind;
use crate::placement::triggers::{
    BindingChange, Changed, binding_appeared, binding_change, binding_gone, concerns,
    misses_mirror, placement_changed, waits_for_kind,
};

fn binding() -> Binding {
    let mut fixture = Fixture::crp(json!({}));
    fixture.step();
    fixture.deliver("c1", 0, AVAILABLE);
    let failed = |name: &str| FailedResourcePlacement {
        resource: namespace_id(name),
        condition: said("Applied", "False", 1, now()),
    };
    let drifted = |name: &str| DriftedResourcePlacement {
        resource: namespace_id(name),
        observation_time: Time(now()),
        target_cluster_observed_generation: 1,
        first_drifted_observed_time: Time(now()),
        observed_drifts: vec![],
    };
    let binding = fixture.bind("c1");
    binding.status.failed_placements = vec![failed("a"), failed("b")];
    binding.status.drifted_placements = vec![drifted("a"), drifted("b")];
    binding.clone()
}

#[test]
fn binding_changes_that_matter() {
    use BindingChange::{Nothing, Status, Wording};
    type Edit = fn(&mut Binding);
    let rows: [(&str, Edit, BindingChange); 16] = [
        ("nothing", |_| {}, Nothing),
        ("spec only", |b| b.spec.resource_snapshot_name = "other".into(), Nothing),
        ("status", |b| b.status.conditions[4].status = "False".into(), Status),
        ("reason", |b| b.status.conditions[4].reason = "Other".into(), Status),
        ("later generation", |b| b.status.conditions[4].observed_generation = Some(2), Status),
        ("earlier generation", |b| b.status.conditions[4].observed_generation = Some(0), Nothing),
        ("message", |b| b.status.conditions[4].message = "other".into(), Wording),
        (
            "time",
            |b| b.status.conditions[4].last_transition_time.0 += SignedDuration::from_secs(9),
            Nothing,
        ),
        ("condition gone", |b| drop(b.status.conditions.pop()), Status),
        ("foreign condition", |b| b.status.conditions.push(said("Odd", "True", 1, now())), Nothing),
        ("failures in another order", |b| b.status.failed_placements.reverse(), Nothing),
        ("failure gone", |b| drop(b.status.failed_placements.pop()), Status),
        (
            "failure of another reason",
            |b| {
                b.status.failed_placements[0].condition.reason = "Other".into();
            },
            Status,
        ),
        ("drifts in another order", |b| b.status.drifted_placements.reverse(), Nothing),
        (
            "drift seen again",
            |b| {
                b.status.drifted_placements[0].observation_time.0 += SignedDuration::from_secs(9);
            },
            Status,
        ),
        (
            "deleting",
            |b| {
                b.deleting = true;
                b.status.conditions.clear();
            },
            Status,
        ),
    ];
    let old = binding();
    for (what, edit, want) in rows {
        let mut new = old.clone();
        edit(&mut new);
        assert_eq!(binding_change(&old, &new), want, "{what}");
    }
}

#[test]
fn bindings_that_come_and_go_are_told_once() {
    use BindingChange::{Nothing, Status, Wording};
    let told = binding();
    let mut silent = told.clone();
    silent.status.conditions.clear();
    let going = Binding { deleting: true, ..told.clone() };
    assert_eq!(binding_appeared(&told), Status);
    assert_eq!(binding_appeared(&silent), Wording);
    assert_eq!(binding_appeared(&going), Nothing);
    assert_eq!(binding_gone(&told), Status, "nobody saw that it was being deleted");
    assert_eq!(binding_gone(&going), Nothing);
    assert_eq!(binding_change(&going, &going), Nothing);
}

fn placement(
    namespace: Option<&str>,
    selectors: Value,
    listed: &[ResourceIdentifier],
) -> Placement {
    let spec = json!({"resourceSelectors": selectors});
    let mut placement = match namespace {
        None => Fixture::crp(spec).seen.placement,
        Some(_) => Fixture::rp(spec).seen.placement,
    };
    placement.status.selected_resources = listed.to_vec();
    placement
}

fn config_map(name: &str) -> ResourceIdentifier {
    ResourceIdentifier {
        version: "v1".into(),
        kind: "ConfigMap".into(),
        name: name.into(),
        namespace: "app".into(),
        ..ResourceIdentifier::default()
    }
}

// checklist 20.40
#[test]
fn placements_a_changed_object_concerns() {
    let (cm, role) = (
        Kind::new("", "v1", "ConfigMap"),
        Kind::new("rbac.authorization.k8s.io", "v1", "ClusterRole"),
    );
    let namespace_kind = Kind::new("", "v1", "Namespace");
    let labels = BTreeMap::from([("env".to_owned(), "x".to_owned())]);
    let none = BTreeMap::new();
    let ns = |more: Value| {
        let mut term = json!({"group": "", "version": "v1", "kind": "Namespace"});
        term.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        placement(None, json!([term]), &[])
    };
    let inside = |labels, namespace_labels| Changed {
        kind: &cm,
        namespace: Some("app"),
        name: "settings",
        labels,
        namespace_labels,
    };
    let at_large = |labels| Changed {
        kind: &role,
        namespace: None,
        name: "viewer",
        labels,
        namespace_labels: None,
    };
    let roles = |more: Value| {
        let mut term =
            json!({"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole"});
        term.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([term])
    };
    let cms = |more: Value| {
        let mut term = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
        term.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([term])
    };
    let viewer = ResourceIdentifier {
        group: "rbac.authorization.k8s.io".into(),
        version: "v1".into(),
        kind: "ClusterRole".into(),
        name: "viewer".into(),
        ..ResourceIdentifier::default()
    };
    let by_env = json!({"labelSelector": {"matchLabels": {"env": "x"}}});
    let rows = [
        // Children of a selected namespace, created, changed or deleted.
        ("child", ns(json!({"name": "app"})), inside(Some(&none), Some(&none)), true),
        ("child gone", ns(json!({"name": "app"})), inside(None, Some(&none)), true),
        ("child elsewhere", ns(json!({"name": "other"})), inside(Some(&none), Some(&none)), false),
        ("by label of the namespace", ns(by_env.clone()), inside(Some(&none), Some(&labels)), true),
        ("not its own label", ns(by_env.clone()), inside(Some(&labels), Some(&none)), false),
        ("every namespace", ns(json!({})), inside(Some(&none), Some(&none)), true),
        ("namespace gone too", ns(json!({"name": "app"})), inside(None, None), false),
        (
            "namespace only",
            ns(json!({"name": "app", "selectionScope": "NamespaceOnly"})),
            inside(Some(&none), Some(&none)),
            false,
        ),
        (
            "selecting namespace",
            ns(json!({"name": "app", "selectionScope": "NamespaceWithResourceSelectors"})),
            inside(Some(&none), Some(&none)),
            true,
        ),
        (
            "listed already",
            placement(None, json!([]), &[config_map("settings")]),
            inside(Some(&none), Some(&none)),
            true,
        ),
        // Cluster-scoped objects.
        (
            "by name",
            placement(None, roles(json!({"name": "viewer"})), &[]),
            at_large(Some(&none)),
            true,
        ),
        (
            "another name",
            placement(None, roles(json!({"name": "x"})), &[]),
            at_large(Some(&none)),
            false,
        ),
        ("by label", placement(None, roles(by_env.clone()), &[]), at_large(Some(&labels)), true),
        ("label lost", placement(None, roles(by_env.clone()), &[]), at_large(Some(&none)), false),
        (
            "label lost but listed",
            placement(None, roles(by_env.clone()), std::slice::from_ref(&viewer)),
            at_large(Some(&none)),
            true,
        ),
        (
            "gone and listed",
            placement(None, roles(json!({})), std::slice::from_ref(&viewer)),
            at_large(None),
            true,
        ),
        ("gone and not listed", placement(None, roles(json!({})), &[]), at_large(None), false),
        // Resource placements.
        (
            "own namespace",
            placement(Some("app"), cms(json!({})), &[]),
            inside(Some(&none), None),
            true,
        ),
        (
            "by own label",
            placement(Some("app"), cms(by_env), &[]),
            inside(Some(&labels), None),
            true,
        ),
        (
            "gone and listed here",
            placement(Some("app"), cms(json!({})), &[config_map("settings")]),
            inside(None, None),
            true,
        ),
        (
            "gone and not listed here",
            placement(Some("app"), cms(json!({})), &[]),
            inside(None, None),
            false,
        ),
        (
            "cluster-scoped",
            placement(Some("app"), roles(json!({})), &[viewer]),
            at_large(Some(&none)),
            false,
        ),
        (
            "foreign namespace",
            placement(Some("app"), cms(json!({})), &[]),
            Changed { namespace: Some("other"), ..inside(Some(&none), Some(&none)) },
            false,
        ),
        (
            "the namespace itself, even if only it is selected",
            ns(json!({"name": "app", "selectionScope": "NamespaceOnly"})),
            Changed { kind: &namespace_kind, name: "app", ..at_large(Some(&none)) },
            true,
        ),
    ];
    for (what, placement, changed, want) in rows {
        assert_eq!(concerns(&placement, &changed), want, "{what}");
    }
}

#[test]
fn small_predicates() {
    assert!(placement_changed(1, 2) && !placement_changed(2, 2));
    let mut fixture = Fixture::crp(json!({"statusReportingScope": "NamespaceAccessible"}));
    assert!(misses_mirror(&fixture.seen.placement));
    fixture.seen.placement.deleting = true;
    assert!(!misses_mirror(&fixture.seen.placement));
    assert!(!misses_mirror(&Fixture::crp(json!({})).seen.placement));
    assert!(waits_for_kind(&fixture.seen.placement, &Kind::new("", "v1", "Namespace")));
    assert!(!waits_for_kind(&fixture.seen.placement, &Kind::new("", "v2", "Namespace")));
}
