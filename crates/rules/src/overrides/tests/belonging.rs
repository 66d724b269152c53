//! Which snapshots concern a placement, and which clusters get them.

use flagship_api::names::ObjectKey;
use flagship_api::overrides::{PlacementRef, PlacementScope};
use flagship_api::placement_status::ResourceIdentifier;
use flagship_api::raw_json::RawJson;
use serde_json::{Value, json};

use super::{delete_rule, narrow, wide};
use crate::model::PackedMap;
use crate::overrides::belonging::concerning;
use crate::overrides::contents::enveloped;
use crate::overrides::{ClusterOverride, NamespacedOverride};
use crate::placement::identifier;

const NAMESPACE: &str = "/v1/Namespace/app";
const CONFIG_MAP: &str = "/v1/ConfigMap/cm";

fn resource(kind: &str, namespace: &str, name: &str) -> ResourceIdentifier {
    ResourceIdentifier {
        version: "v1".into(),
        kind: kind.into(),
        name: name.into(),
        namespace: namespace.into(),
        ..ResourceIdentifier::default()
    }
}

fn chosen(
    placement: &ObjectKey,
    resources: &[ResourceIdentifier],
    wide: &[ClusterOverride],
    narrow: &[NamespacedOverride],
    labels: &[(&str, &str)],
) -> Vec<String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let labels: PackedMap = labels.iter().map(owned).collect();
    let chosen = concerning(placement, resources, wide, narrow).on(&labels).unwrap();
    let narrow = chosen.narrow.iter().map(|key| format!("{}/{}", key.namespace, key.name));
    chosen.wide.into_iter().chain(narrow).collect()
}

fn named(name: &str, scope: Option<PlacementScope>) -> Option<PlacementRef> {
    Some(PlacementRef { name: name.into(), scope })
}

// checklist 12 overrides: placement filter: other placement skipped; RO scope respected; CRO
// for another CRP ignored.
#[test]
fn an_override_may_be_for_one_placement_only() {
    use PlacementScope::{Cluster, Namespaced};
    let crp = ObjectKey::cluster("web");
    let rp = ObjectKey::namespaced("app", "web");
    let elsewhere = ObjectKey::namespaced("other", "web");
    for (placement, in_crp, in_rp) in [
        (None, true, true),
        (named("web", None), true, false),
        (named("web", Some(Cluster)), true, false),
        (named("web", Some(Namespaced)), false, true),
        (named("api", None), false, false),
        (named("api", Some(Namespaced)), false, false),
    ] {
        let mut o = narrow("ro-0", CONFIG_MAP, json!([delete_rule(None)]));
        o.spec.placement.clone_from(&placement);
        let o = [o];
        let inside = [resource("ConfigMap", "app", "cm")];
        let got = |key: &ObjectKey| !chosen(key, &inside, &[], &o, &[]).is_empty();
        assert_eq!((got(&crp), got(&rp)), (in_crp, in_rp), "{placement:?}");
        assert_eq!(got(&elsewhere), placement.is_none(), "{placement:?}");
    }
    let mut o = wide("cro-0", NAMESPACE, json!([delete_rule(None)]));
    let inside = [resource("Namespace", "", "app")];
    for (placement, meant) in
        [(None, true), (named("web", None), true), (named("api", None), false)]
    {
        o.spec.placement.clone_from(&placement);
        let got = chosen(&crp, &inside, std::slice::from_ref(&o), &[], &[]);
        assert_eq!(!got.is_empty(), meant, "{placement:?}");
    }
}

// checklist 12 overrides: namespace-selecting CRO hits all objects in the namespace, also
// inside a ResourceEnvelope; namespace-only CRP overrides the namespace only.
#[test]
fn the_namespace_stands_for_what_is_in_it() {
    let placement = ObjectKey::cluster("web");
    let wides = [wide("cro-0", NAMESPACE, json!([delete_rule(None)]))];
    let narrows = [narrow("ro-0", CONFIG_MAP, json!([delete_rule(None)]))];
    let got =
        |resources: &[ResourceIdentifier]| chosen(&placement, resources, &wides, &narrows, &[]);
    assert_eq!(got(&[resource("Namespace", "", "app")]), ["cro-0"]);
    assert_eq!(got(&[resource("ConfigMap", "app", "cm")]), ["cro-0", "app/ro-0"]);
    assert_eq!(got(&[resource("ConfigMap", "app", "other")]), ["cro-0"]);
    assert_eq!(got(&[resource("ConfigMap", "other", "cm")]), [""; 0]);
    assert_eq!(got(&[resource("Namespace", "", "other")]), [""; 0]);
}

fn envelope(kind: &str, namespace: &str, data: Value) -> RawJson {
    let mut object = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": kind,
        "metadata": {"name": "e"},
        "data": data,
    });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    RawJson::from_text(object.to_string()).unwrap()
}

#[test]
fn envelopes_are_opened_and_what_does_not_belong_inside_is_passed_over() {
    let object = |kind: &str, namespace: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": namespace, "name": name}});
    let data = json!({
        "a": object("ConfigMap", "app", "cm"),
        "b": object("PersistentVolume", "", "pv"),
        "c": object("ConfigMap", "other", "cm"),
        "d": {"kind": 3},
    });
    let names = |manifest: &RawJson| -> Vec<String> {
        enveloped(manifest).iter().map(|id| format!("{} {}", id.kind, id.name)).collect()
    };
    assert_eq!(names(&envelope("ResourceEnvelope", "app", data.clone())), ["ConfigMap cm"]);
    assert_eq!(
        names(&envelope("ClusterResourceEnvelope", "", data.clone())),
        ["PersistentVolume pv", " "]
    );
    assert_eq!(names(&envelope("ConfigMap", "app", data.clone())), [""; 0]);

    // The envelope is in a namespace, but is no resource one could name.
    let held = envelope("ResourceEnvelope", "app", data);
    let placement = ObjectKey::cluster("web");
    let wides = [wide("cro-0", NAMESPACE, json!([delete_rule(None)]))];
    let selector = "placement.kubernetes-fleet.io/v1beta1/ResourceEnvelope/e";
    let narrows = [narrow("ro-0", selector, json!([delete_rule(None)]))];
    assert_eq!(chosen(&placement, &[identifier(&held)], &wides, &narrows, &[]), ["cro-0"]);
    // Nor is one that is in none.
    let held = envelope("ClusterResourceEnvelope", "", json!({}));
    let selector = "placement.kubernetes-fleet.io/v1beta1/ClusterResourceEnvelope/e";
    let wides = [wide("cro-0", selector, json!([delete_rule(None)]))];
    assert_eq!(chosen(&placement, &[identifier(&held)], &wides, &[], &[]), [""; 0]);
}

// checklist 12 overrides: later selector of several still selects; no duplicate snapshot
// when several match.
#[test]
fn any_of_several_selectors_selects_and_none_twice() {
    let mut o = wide("cro-0", "/v1/Namespace/other", json!([delete_rule(None), delete_rule(None)]));
    o.spec
        .cluster_resource_selectors
        .extend(wide("x", NAMESPACE, json!([])).spec.cluster_resource_selectors);
    let both = [resource("Namespace", "", "other"), resource("ConfigMap", "app", "cm")];
    let placement = ObjectKey::cluster("web");
    assert_eq!(chosen(&placement, &both, std::slice::from_ref(&o), &[], &[]), ["cro-0"]);
    assert_eq!(chosen(&placement, &both[1..], &[o], &[], &[]), ["cro-0"]);
}

// checklist 12 overrides: nil selector = no cluster; empty selector / empty terms = all;
// several terms OR; nil label selector none; member-name label selects one cluster.
#[test]
fn clusters_are_chosen_by_label() {
    let terms = |terms: Value| json!({"clusterSelectorTerms": terms});
    let by = |key: &str, value: &str| json!({"labelSelector": {"matchLabels": {key: value}}});
    for (selector, matches) in [
        (Value::Null, [false, false]),
        (terms(json!([])), [true, true]),
        (terms(json!([{"labelSelector": {}}])), [true, true]),
        (terms(json!([{}])), [false, false]),
        (terms(json!([by("env", "prod")])), [true, false]),
        (terms(json!([by("env", "none"), by("env", "canary")])), [false, true]),
        (terms(json!([by("kubernetes-fleet.io/member-name", "c1")])), [true, false]),
        (
            terms(json!([{}, {"labelSelector": {"matchExpressions":
            [{"key": "env", "operator": "NotIn", "values": ["prod"]}]}}])),
            [false, true],
        ),
    ] {
        let mut rule = json!({"overrideType": "Delete"});
        if !selector.is_null() {
            rule["clusterSelector"] = selector.clone();
        }
        let wides = [wide("cro-0", NAMESPACE, json!([rule]))];
        let got = [("prod", "c1"), ("canary", "c2")].map(|(env, name)| {
            let labels = [("env", env), ("kubernetes-fleet.io/member-name", name)];
            let inside = [resource("Namespace", "", "app")];
            !chosen(&ObjectKey::cluster("web"), &inside, &wides, &[], &labels).is_empty()
        });
        assert_eq!(got, matches, "{selector}");
    }
}
