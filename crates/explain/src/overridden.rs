//! What overrides make of the objects of a run: which fields, on which clusters.
//!
//! The rules that apply overrides on the way to a member are asked, one override after the
//! other, so that each change is told of the override that makes it.

use std::collections::{BTreeMap, BTreeSet};

use flagship_api::names::ObjectKey;
use flagship_api::placement_status::{NamespacedName, ResourceIdentifier};
use flagship_api::raw_json::RawJson;
use flagship_rules::model::Cluster;
use flagship_rules::overrides::belonging::concerning;
use flagship_rules::overrides::manifest::{Overridden, apply};
use flagship_rules::overrides::{ClusterOverride, NamespacedOverride, Target};
use flagship_rules::placement::identifier;
use flagship_rules::update_run::plan_hash;
use serde::Serialize;
use serde_json::Value;

use crate::changes::{FieldChange, changed_fields, replicas};
use crate::order::natural;

/// What an override does to one object on some clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OverrideEffect {
    /// `ResourceOverride shop/small`.
    pub by: String,
    /// `Deployment shop/web`.
    pub object: String,
    /// Fields it changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
    /// Whether these clusters do not get the object.
    pub dropped: bool,
    /// Why it cannot be applied; nothing would reach these clusters.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fails: String,
    /// The clusters, in natural order.
    pub clusters: Vec<String>,
}

/// What all overrides do.
#[derive(Clone, Debug, Default)]
pub struct Overriding {
    /// By override, object and what becomes of it.
    pub effects: Vec<OverrideEffect>,
    /// By how much overrides change the number of pods that restart.
    pub pods: i64,
}

/// Values of an override that are told apart; beyond that only the fields are named.
const APART: usize = 8;
const OWN: &str = "each cluster's own value";

/// Overrides as the rules read them. Snapshots have a number behind the name.
struct Read {
    wide: Vec<ClusterOverride>,
    narrow: Vec<NamespacedOverride>,
}

const INDEX: &str = "-0";

fn without_index(snapshot: &str) -> &str {
    snapshot.strip_suffix(INDEX).unwrap_or(snapshot)
}

/// The same overrides as the hash of a plan names them; those that cannot be read are none.
pub fn hashed(
    overrides: &BTreeMap<String, Value>,
    namespace: Option<&str>,
) -> BTreeMap<String, String> {
    let Read { wide, narrow } = Read::of(overrides, &mut Vec::new());
    plan_hash::overrides(&wide, &narrow, namespace)
}

/// What these overrides, by kind and name, make of the objects on the clusters of a run.
pub fn overriding(
    placement: &ObjectKey,
    overrides: &BTreeMap<String, Value>,
    objects: &[Value],
    restarting: &BTreeSet<String>,
    clusters: &[&Cluster],
) -> Overriding {
    let mut found = Overriding::default();
    let Read { wide, narrow } = Read::of(overrides, &mut found.effects);
    let resources: Vec<ResourceIdentifier> = objects.iter().filter_map(named).collect();
    let concerned = concerning(placement, &resources, &wide, &narrow);
    if concerned.is_empty() {
        return found;
    }
    let mut groups: BTreeMap<Outcome, Vec<String>> = BTreeMap::new();
    for cluster in clusters {
        let chosen = match concerned.on(&cluster.labels) {
            Ok(chosen) => chosen,
            Err(bad) => {
                let by = without_index(&bad.snapshot).to_owned();
                let fails = Outcome { by, fails: bad.cause, ..Outcome::default() };
                groups.entry(fails).or_default().push(cluster.name.clone());
                continue;
            }
        };
        let wide = wide.iter().filter(|one| chosen.wide.contains(&one.name)).map(One::Wide);
        let narrow = narrow.iter().filter(|one| chosen.narrow.contains(&one.key)).map(One::Narrow);
        let mut order: Vec<One<'_>> = wide.chain(narrow).collect();
        order.sort_by_key(One::rank);
        for object in objects {
            let (outcomes, delivered) = obeyed(object, &order, cluster);
            for outcome in outcomes {
                groups.entry(outcome).or_default().push(cluster.name.clone());
            }
            let kind = object["kind"].as_str().unwrap_or_default();
            if restarting.contains(&spoken(object)) {
                let (before, after) =
                    (replicas(kind, object), delivered.map(|it| replicas(kind, &it)));
                found.pods +=
                    after.map_or(0, Option::unwrap_or_default) - before.unwrap_or_default();
            }
        }
    }
    found.effects.extend(told(groups));
    found
}

/// One override that a cluster gets.
enum One<'a> {
    Wide(&'a ClusterOverride),
    Narrow(&'a NamespacedOverride),
}

impl One<'_> {
    /// Cluster-wide ones come first, each sort in the order of names.
    fn rank(&self) -> (bool, String, String) {
        match self {
            Self::Wide(one) => (false, String::new(), one.name.clone()),
            Self::Narrow(one) => (true, one.key.namespace.clone(), one.key.name.clone()),
        }
    }

    fn told(&self) -> String {
        match self {
            Self::Wide(one) => {
                format!("ClusterResourceOverride {}", without_index(&one.name))
            }
            Self::Narrow(one) => {
                let (namespace, name) = (&one.key.namespace, without_index(&one.key.name));
                format!("ResourceOverride {namespace}/{name}")
            }
        }
    }

    fn on(&self, object: &Value, cluster: &Cluster) -> Result<Overridden, String> {
        let target = Target { name: &cluster.name, labels: &cluster.labels };
        let (wide, narrow) = match self {
            Self::Wide(one) => (std::slice::from_ref(*one), &[][..]),
            Self::Narrow(one) => (&[][..], std::slice::from_ref(*one)),
        };
        apply(object, wide, narrow, target).map_err(|failed| failed.cause().to_owned())
    }
}

/// What becomes of one object on one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Outcome {
    by: String,
    object: String,
    fields: Vec<FieldChange>,
    dropped: bool,
    fails: String,
}

/// Each override's doing, and the object as it arrives; nothing if it does not.
fn obeyed(object: &Value, order: &[One<'_>], cluster: &Cluster) -> (Vec<Outcome>, Option<Value>) {
    let mut outcomes = Vec::new();
    let mut now = object.clone();
    for one in order {
        let outcome = || Outcome { by: one.told(), object: spoken(object), ..Outcome::default() };
        match one.on(&now, cluster) {
            Ok(Overridden::Untouched) => {}
            Ok(Overridden::Changed(next)) => {
                let fields = changed_fields(&now, &next);
                if !fields.is_empty() {
                    outcomes.push(Outcome { fields, ..outcome() });
                }
                now = next;
            }
            Ok(Overridden::Dropped) => {
                outcomes.push(Outcome { dropped: true, ..outcome() });
                return (outcomes, None);
            }
            Err(fails) => {
                outcomes.push(Outcome { fails, ..outcome() });
                return (outcomes, None);
            }
        }
    }
    (outcomes, Some(now))
}

/// The groups as they are told. An override that gives thousands of clusters a value each
/// is told once.
fn told(groups: BTreeMap<Outcome, Vec<String>>) -> Vec<OverrideEffect> {
    let mut kinds: BTreeMap<(String, String), usize> = BTreeMap::new();
    for outcome in groups.keys() {
        *kinds.entry((outcome.by.clone(), outcome.object.clone())).or_default() += 1;
    }
    let mut merged: BTreeMap<Outcome, Vec<String>> = BTreeMap::new();
    for (mut outcome, clusters) in groups {
        if kinds[&(outcome.by.clone(), outcome.object.clone())] > APART {
            for field in &mut outcome.fields {
                field.to = field.to.take().map(|_| OWN.to_owned());
            }
        }
        merged.entry(outcome).or_default().extend(clusters);
    }
    let effects = merged.into_iter().map(|(outcome, mut clusters)| {
        clusters.sort_by(|a, b| natural(a, b));
        let Outcome { by, object, fields, dropped, fails } = outcome;
        OverrideEffect { by, object, fields, dropped, fails, clusters }
    });
    effects.collect()
}

impl Read {
    /// One that cannot be read concerns nobody, and is told.
    fn of(overrides: &BTreeMap<String, Value>, effects: &mut Vec<OverrideEffect>) -> Self {
        let mut read = Self { wide: Vec::new(), narrow: Vec::new() };
        for (name, spec) in overrides {
            let key = name.split_once(' ').map_or("", |(_, key)| key);
            let failed = match key.split_once('/') {
                None => serde_json::from_value(spec.clone()).map(|spec| {
                    read.wide.push(ClusterOverride { name: format!("{key}{INDEX}"), spec });
                }),
                Some((namespace, key)) => serde_json::from_value(spec.clone()).map(|spec| {
                    let (namespace, name) = (namespace.to_owned(), format!("{key}{INDEX}"));
                    let key = NamespacedName { namespace, name };
                    read.narrow.push(NamespacedOverride { key, spec });
                }),
            };
            if let Err(error) = failed {
                effects.push(OverrideEffect {
                    by: name.clone(),
                    object: String::new(),
                    fields: Vec::new(),
                    dropped: false,
                    fails: format!("it cannot be read: {error}"),
                    clusters: Vec::new(),
                });
            }
        }
        read
    }
}

fn named(object: &Value) -> Option<ResourceIdentifier> {
    RawJson::of(object).ok().map(|manifest| identifier(&manifest))
}

/// `Deployment shop/web`.
pub fn spoken(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, metadata) = (text(&object["kind"]), &object["metadata"]);
    match text(&metadata["namespace"]).as_str() {
        "" => format!("{kind} {}", text(&metadata["name"])),
        namespace => format!("{kind} {namespace}/{}", text(&metadata["name"])),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(name: &str, environment: &str) -> Cluster {
        let labels = BTreeMap::from([("environment".to_owned(), environment.to_owned())]);
        Cluster { name: name.to_owned(), labels: labels.into(), ..Cluster::default() }
    }

    fn deployment() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": 3, "template": {"spec": {"containers": []}}}})
    }

    fn selecting(rules: Value) -> Value {
        json!({"resourceSelectors": [{"group": "apps", "version": "v1", "kind": "Deployment",
            "name": "web"}], "policy": {"overrideRules": rules}})
    }

    fn rule(environment: &str, more: Value) -> Value {
        let mut rule = json!({"clusterSelector": {"clusterSelectorTerms": [
            {"labelSelector": {"matchLabels": {"environment": environment}}}]}});
        for (field, value) in more.as_object().into_iter().flatten() {
            rule[field] = value.clone();
        }
        rule
    }

    fn told_of(overrides: &[(&str, Value)], clusters: &[Cluster]) -> (Vec<String>, i64) {
        let overrides = overrides.iter().map(|(name, spec)| ((*name).to_owned(), spec.clone()));
        let clusters: Vec<&Cluster> = clusters.iter().collect();
        let found = overriding(
            &ObjectKey::cluster("demo"),
            &overrides.collect(),
            &[deployment()],
            &BTreeSet::from(["Deployment shop/web".to_owned()]),
            &clusters,
        );
        let lines = found.effects.iter().map(|effect| {
            let fields = effect.fields.iter().map(|field| {
                let value = |side: &Option<String>| side.clone().unwrap_or_default();
                format!("{}: {} → {}", field.path, value(&field.from), value(&field.to))
            });
            let does = match (effect.dropped, effect.fails.as_str()) {
                (true, _) => "dropped".to_owned(),
                (false, "") => fields.collect::<Vec<_>>().join(", "),
                (false, fails) => format!("fails: {fails}"),
            };
            format!("{} | {} | {does} | {}", effect.by, effect.object, effect.clusters.join(" "))
        });
        (lines.collect(), found.pods)
    }

    fn replicas_of(count: Value) -> Value {
        json!({"jsonPatchOverrides": [{"op": "replace", "path": "/spec/replicas", "value": count}]})
    }

    #[test]
    fn clusters_with_the_same_effect_stand_together() {
        let rules = json!([
            rule("canary", replicas_of(json!(5))),
            rule("dev", json!({"overrideType": "Delete"})),
        ]);
        let fleet = [
            cluster("c10", "canary"),
            cluster("c2", "canary"),
            cluster("d1", "dev"),
            cluster("p1", "prod"),
        ];
        let (told, pods) = told_of(&[("ResourceOverride shop/small", selecting(rules))], &fleet);
        assert_eq!(
            told,
            [
                "ResourceOverride shop/small | Deployment shop/web | dropped | d1",
                "ResourceOverride shop/small | Deployment shop/web | spec.replicas: 3 → 5 | c2 c10",
            ]
        );
        assert_eq!(pods, 2 + 2 - 3, "five instead of three on two clusters, none on the third");
    }

    #[test]
    fn two_overrides_of_names_that_differ_in_a_number_both_count() {
        let one = selecting(json!([rule("canary", replicas_of(json!(4)))]));
        let other = selecting(json!([rule("canary", replicas_of(json!(6)))]));
        let (told, pods) = told_of(
            &[("ResourceOverride shop/small-1", one), ("ResourceOverride shop/small-2", other)],
            &[cluster("c1", "canary")],
        );
        assert_eq!(
            told,
            [
                "ResourceOverride shop/small-1 | Deployment shop/web | spec.replicas: 3 → 4 | c1",
                "ResourceOverride shop/small-2 | Deployment shop/web | spec.replicas: 4 → 6 | c1",
            ]
        );
        assert_eq!(pods, 3);
    }

    #[test]
    fn values_of_each_cluster_are_told_once() {
        let own = json!({"jsonPatchOverrides": [{"op": "add", "path": "/metadata/labels",
            "value": {"at": "${MEMBER-CLUSTER-NAME}"}}]});
        let fleet: Vec<Cluster> =
            (1..=20).map(|number| cluster(&format!("c{number}"), "canary")).collect();
        let spec = selecting(json!([rule("canary", own)]));
        let (told, _) = told_of(&[("ResourceOverride shop/names", spec)], &fleet);
        let [line] = &told[..] else { panic!("{told:#?}") };
        assert!(line.contains(OWN) && line.ends_with("c19 c20"), "{line}");
    }

    #[test]
    fn what_cannot_be_read_or_applied_is_said_and_stops_nothing() {
        let missing = json!({"jsonPatchOverrides": [{"op": "replace", "path": "/spec/none/at",
            "value": 1}]});
        let (told, _) = told_of(
            &[
                ("ResourceOverride shop/bad", json!({"policy": 7})),
                ("ResourceOverride shop/fails", selecting(json!([rule("canary", missing)]))),
            ],
            &[cluster("c1", "canary")],
        );
        let [bad, fails] = &told[..] else { panic!("{told:#?}") };
        assert!(
            bad.starts_with("ResourceOverride shop/bad |  | fails: it cannot be read"),
            "{bad}"
        );
        assert!(fails.contains("| fails: ") && fails.ends_with("| c1"), "{fails}");
    }
}
