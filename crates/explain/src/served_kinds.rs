//! Kinds that a run would bring to clusters which do not serve them.
//!
//! The hub does not ask members what they serve. It knows what they refused, and what they
//! applied; of the rest it is said that nobody knows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flagship_api::condition::{Conditions, Generation};
use flagship_api::condition_type::binding::APPLIED;
use flagship_api::keys::group;
use flagship_api::names::EnvelopeKind;
use flagship_rules::model::Binding;
use serde::Serialize;
use serde_json::Value;

use crate::effect::version_of;
use crate::order::natural;
use crate::why::{Cause, apply_cause};

/// A kind that some clusters do not serve, or may not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KindMissing {
    /// Its API group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// Clusters that refused an object of it, in natural order: there it will fail.
    pub lacking: Vec<String>,
    /// How many clusters have neither refused nor applied one.
    pub unknown: usize,
}

/// Groups that every API server serves.
const BUILT_IN: [&str; 23] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

type Kind = (String, String);

/// Kinds of these objects that need a definition which does not come with them.
pub fn custom_kinds(objects: &[Value]) -> BTreeSet<Kind> {
    let mut kinds = BTreeSet::new();
    let mut defined = BTreeSet::new();
    for object in objects.iter().flat_map(opened) {
        let (group, kind) = kind_of(object);
        if group == "apiextensions.k8s.io" && kind == "CustomResourceDefinition" {
            let spec = &object["spec"];
            defined.insert((text(&spec["group"]), text(&spec["names"]["kind"])));
        } else if !BUILT_IN.contains(&group.as_str()) {
            kinds.insert((group, kind));
        }
    }
    &kinds - &defined
}

/// Where kinds are missing or may be. `old` are the objects of version `from`; `bindings` those
/// of the placement, and `others` those of all other placements.
pub fn missing_kinds(
    objects: &[Value],
    from: Option<&str>,
    old: Option<&[Value]>,
    bindings: &[Arc<Binding>],
    others: &[Arc<Binding>],
    clusters: &BTreeSet<&str>,
) -> Vec<KindMissing> {
    let wanted = custom_kinds(objects);
    if wanted.is_empty() {
        return Vec::new();
    }
    let carried = old.map(custom_kinds).unwrap_or_default();
    let mut refused: BTreeMap<Kind, BTreeSet<&str>> = BTreeMap::new();
    let mut applied: BTreeSet<&str> = BTreeSet::new();
    for binding in bindings.iter().chain(others) {
        for failed in &binding.status.failed_placements {
            let cause = apply_cause(&failed.condition.reason, &failed.condition.message);
            if cause == Cause::KindMissing {
                let kind = (failed.resource.group.clone(), failed.resource.kind.clone());
                refused.entry(kind).or_default().insert(binding.cluster());
            }
        }
    }
    for binding in bindings {
        let current = Generation(binding.generation);
        let is_applied = binding.status.conditions.is_true_at(APPLIED, current);
        if is_applied && version_of(&binding.spec.resource_snapshot_name) == from {
            applied.insert(binding.cluster());
        }
    }
    let found = wanted.into_iter().map(|(group, kind)| {
        let key = (group, kind);
        let lacking = refused.get(&key).map(|found| found & clusters).unwrap_or_default();
        let known = |cluster: &&&str| carried.contains(&key) && applied.contains(**cluster);
        let known = clusters.iter().filter(|cluster| !lacking.contains(**cluster)).filter(known);
        let unknown = clusters.len() - lacking.len() - known.count();
        let mut lacking: Vec<String> = lacking.into_iter().map(str::to_owned).collect();
        lacking.sort_by(|a, b| natural(a, b));
        let (group, kind) = key;
        KindMissing { group, kind, lacking, unknown }
    });
    found.filter(|kind| kind.unknown > 0 || !kind.lacking.is_empty()).collect()
}

/// An object, or what an envelope carries.
fn opened(object: &Value) -> Vec<&Value> {
    let (group, kind) = kind_of(object);
    if group != group::PLACEMENT || EnvelopeKind::read(&kind).is_none() {
        return vec![object];
    }
    object["data"].as_object().into_iter().flat_map(|data| data.values()).collect()
}

fn kind_of(object: &Value) -> Kind {
    let version = text(&object["apiVersion"]);
    let group = version.split_once('/').map_or("", |(group, _)| group);
    (group.to_owned(), text(&object["kind"]))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use flagship_api::binding::{ResourceBindingSpec, ResourceBindingStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::json;

    use super::*;

    fn widget() -> Value {
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}})
    }

    fn definition() -> Value {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {"group": "example.com", "names": {"kind": "Widget"}}})
    }

    fn binding(cluster: &str, status: Value) -> Arc<Binding> {
        let spec: ResourceBindingSpec = serde_json::from_value(json!({"state": "Bound",
            "targetCluster": cluster, "resourceSnapshotName": "demo-3-snapshot",
            "schedulingPolicySnapshotName": "demo-0",
            "clusterDecision": {"clusterName": cluster, "selected": true, "reason": ""}}))
        .unwrap();
        let status: ResourceBindingStatus = serde_json::from_value(status).unwrap();
        let metadata = ObjectMeta { generation: Some(1), ..ObjectMeta::default() };
        Arc::new(Binding::read(metadata, spec, Some(status)))
    }

    fn condition(kind: &str, status: &str, message: &str) -> Value {
        json!({"type": kind, "status": status, "reason": "x", "message": message,
            "observedGeneration": 1, "lastTransitionTime": "2026-11-16T10:00:00Z"})
    }

    fn refusing(cluster: &str) -> Arc<Binding> {
        let says = "no matches for kind \"Widget\" in version \"example.com/v1\"";
        binding(
            cluster,
            json!({"failedPlacements": [{"group": "example.com", "version": "v1",
                "kind": "Widget", "name": "a", "condition": condition("Applied", "False", says)}]}),
        )
    }

    fn fine(cluster: &str) -> Arc<Binding> {
        binding(cluster, json!({"conditions": [condition("Applied", "True", "")]}))
    }

    #[test]
    fn a_kind_that_was_refused_will_fail_and_one_nobody_saw_is_unknown() {
        let clusters = BTreeSet::from(["c1", "c2", "c3", "c10"]);
        let found = missing_kinds(
            &[widget()],
            Some("3"),
            Some(&[widget()]),
            &[fine("c1"), refusing("c10")],
            &[refusing("c2"), refusing("elsewhere")],
            &clusters,
        );
        let expected = KindMissing {
            group: "example.com".to_owned(),
            kind: "Widget".to_owned(),
            lacking: vec!["c2".to_owned(), "c10".to_owned()],
            unknown: 1,
        };
        assert_eq!(found, [expected], "c1 applied one, of c3 nothing is known");
    }

    #[test]
    fn what_comes_with_its_definition_and_what_is_built_in_is_missing_nowhere() {
        let clusters = BTreeSet::from(["c1"]);
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        for objects in [vec![config], vec![widget(), definition()], Vec::new()] {
            assert_eq!(missing_kinds(&objects, None, None, &[], &[], &clusters), []);
        }
        let envelope = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ResourceEnvelope", "metadata": {"name": "e", "namespace": "n"},
            "data": {"a": widget()}});
        let found = missing_kinds(&[envelope], None, None, &[], &[], &clusters);
        assert_eq!((found.len(), found[0].unknown), (1, 1), "envelopes are opened");
    }
}
