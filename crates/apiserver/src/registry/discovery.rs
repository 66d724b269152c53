//! Discovery documents: which groups, versions and resources a cluster serves.
//!
//! Both forms are built from the same walk: the legacy ones (`APIVersions`,
//! `APIGroupList`, `APIGroup`, `APIResourceList`) and the aggregated
//! `APIGroupDiscoveryList`. Every controller asks for the latter again and again, so its text
//! is kept.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flagship_base::machinery::gvk::version_rank;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Registry;
use super::kind::Kind;
use crate::auth::{REVIEWS, Review};

const CUSTOM_VERBS: &[&str] =
    &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];

/// Group, then versions in order of preference.
type Groups = BTreeMap<String, Vec<String>>;

fn served_groups(registry: &Registry) -> Groups {
    let mut groups = Groups::new();
    for kind in registry.all() {
        for version in kind.versions.iter().filter(|v| v.served) {
            let names = groups.entry(version.gv.group.clone()).or_default();
            if !names.contains(&version.gv.version) {
                names.push(version.gv.version.clone());
            }
        }
    }
    for review in REVIEWS {
        let names = groups.entry(review.group.to_owned()).or_default();
        if !names.iter().any(|name| name == "v1") {
            names.push("v1".to_owned());
        }
    }
    for names in groups.values_mut() {
        names.sort_by_key(|name| version_rank(name));
    }
    groups
}

/// `/apis`: every group but the core one.
pub fn groups(registry: &Registry) -> Value {
    let all = served_groups(registry);
    let list: Vec<Value> = all
        .iter()
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, versions)| group_value(name, versions))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": list})
}

/// `/apis/<group>`.
pub fn group(registry: &Registry, name: &str) -> Option<Value> {
    let all = served_groups(registry);
    let versions = all.get(name).filter(|_| !name.is_empty())?;
    let mut value = group_value(name, versions);
    value["kind"] = json!("APIGroup");
    value["apiVersion"] = json!("v1");
    Some(value)
}

fn group_value(name: &str, versions: &[String]) -> Value {
    let entry =
        |version: &String| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let list: Vec<Value> = versions.iter().map(entry).collect();
    let preferred = list.first().cloned().unwrap_or(Value::Null);
    json!({"name": name, "versions": list, "preferredVersion": preferred})
}

/// `/api/v1` and `/apis/<group>/<version>`.
pub fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut list = Vec::new();
    let mut custom = BTreeSet::new();
    for kind in registry.all() {
        let Some(index) = kind.served(group, version) else { continue };
        let mut entry = json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
            "kind": kind.kind, "verbs": verbs(&kind),
        });
        if !kind.short_names.is_empty() {
            entry["shortNames"] = json!(kind.short_names);
        }
        if !kind.categories.is_empty() {
            entry["categories"] = json!(kind.categories);
        }
        list.push(entry);
        custom.extend(kind.row().is_none().then(|| kind.plural.to_string()));
        for sub in subresources(&kind, index) {
            let mut entry = json!({
                "name": format!("{}/{}", kind.plural, sub.name), "singularName": "",
                "namespaced": kind.namespaced, "kind": sub.kind, "verbs": sub.verbs,
            });
            if let Some((group, version)) = sub.gv {
                entry["group"] = json!(group);
                entry["version"] = json!(version);
            }
            list.push(entry);
        }
    }
    for review in reviews(group, version) {
        list.push(json!({
            "name": review.plural, "singularName": review.kind.to_lowercase(),
            "namespaced": review.namespaced, "kind": review.kind, "verbs": ["create"],
        }));
    }
    if list.is_empty() {
        return None;
    }
    // Of custom kinds the status stands before the scale.
    let place = |entry: &Value| {
        let name = entry["name"].as_str().unwrap_or_default();
        match name.split_once('/') {
            Some((plural, "status")) if custom.contains(plural) => format!("{plural}/"),
            _ => name.to_owned(),
        }
    };
    list.sort_by_cached_key(place);
    let gv = flagship_base::machinery::gvk::GroupVersion::new(group, version).to_string();
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": gv, "resources": list}),
    )
}

/// A document as it is sent.
pub struct Document {
    /// Its bytes.
    pub text: Bytes,
    /// Their hash, in hexadecimal digits.
    pub tag: String,
}

/// How many documents are kept: two for each set of kinds, and most clusters of a process serve
/// the same.
const MOST: usize = 8;

struct Kept {
    core: bool,
    kinds: Vec<Arc<Kind>>,
    document: Arc<Document>,
}

/// The documents asked for last.
static KEPT: Mutex<VecDeque<Kept>> = Mutex::new(VecDeque::new());

/// `/api` (`core`) or `/apis` in the aggregated form, `apidiscovery.k8s.io/v2`.
pub fn aggregated(registry: &Registry, core: bool) -> Arc<Document> {
    let kinds = registry.all();
    let same = |kept: &Kept| {
        let mut pairs = kept.kinds.iter().zip(&kinds);
        kept.core == core
            && kept.kinds.len() == kinds.len()
            && pairs.all(|(kept, kind)| Arc::ptr_eq(kept, kind))
    };
    let lock = || KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = lock().iter().find(|kept| same(kept)) {
        return found.document.clone();
    }
    let text = Bytes::from(written(registry, &kinds, core).to_string());
    let tag = Sha256::digest(&text).iter().map(|byte| format!("{byte:02X}")).collect();
    let document = Arc::new(Document { text, tag });
    let mut all = lock();
    all.truncate(MOST - 1);
    all.push_front(Kept { core, kinds, document: document.clone() });
    document
}

fn written(registry: &Registry, kinds: &[Arc<Kind>], core: bool) -> Value {
    let items: Vec<Value> = served_groups(registry)
        .iter()
        .filter(|(name, _)| name.is_empty() == core)
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let resources = aggregated_resources(kinds, group, version);
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if core { json!({}) } else { json!({"name": group}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": items,
    })
}

fn aggregated_resources(kinds: &[Arc<Kind>], group: &str, version: &str) -> Vec<Value> {
    let mut list = Vec::new();
    for kind in kinds {
        let Some(index) = kind.served(group, version) else { continue };
        let gvk = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
        let mut entry = json!({
            "resource": kind.plural, "responseKind": gvk(group, version, &kind.kind),
            "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": kind.singular, "verbs": verbs(kind),
        });
        if !kind.short_names.is_empty() {
            entry["shortNames"] = json!(kind.short_names);
        }
        if !kind.categories.is_empty() {
            entry["categories"] = json!(kind.categories);
        }
        let subs: Vec<Value> = subresources(kind, index)
            .into_iter()
            .map(|sub| {
                let (g, v) = sub.gv.unwrap_or((group, version));
                json!({
                    "subresource": sub.name, "responseKind": gvk(g, v, sub.kind), "verbs": sub.verbs,
                })
            })
            .collect();
        if !subs.is_empty() {
            entry["subresources"] = json!(subs);
        }
        list.push(entry);
    }
    for review in reviews(group, version) {
        list.push(json!({
            "resource": review.plural, "singularResource": review.kind.to_lowercase(),
            "responseKind": {"group": group, "version": version, "kind": review.kind},
            "scope": if review.namespaced { "Namespaced" } else { "Cluster" }, "verbs": ["create"],
        }));
    }
    list.sort_by(|a, b| a["resource"].as_str().cmp(&b["resource"].as_str()));
    list
}

/// Kinds that are answered and never stored.
fn reviews<'a>(group: &'a str, version: &str) -> impl Iterator<Item = &'static Review> + use<'a> {
    let here = version == "v1";
    REVIEWS.iter().filter(move |review| here && review.group == group)
}

fn verbs(kind: &Kind) -> &'static [&'static str] {
    kind.row().map_or(CUSTOM_VERBS, |row| row.verbs)
}

struct Sub<'a> {
    name: &'static str,
    kind: &'a str,
    gv: Option<(&'static str, &'static str)>,
    verbs: &'static [&'static str],
}

fn subresources(kind: &Kind, version: usize) -> Vec<Sub<'_>> {
    if let Some(row) = kind.row() {
        let each = row.subresources.iter().map(|sub| Sub {
            name: sub.name,
            kind: sub.kind.unwrap_or(&kind.kind),
            gv: sub.group_version,
            verbs: sub.verbs,
        });
        return each.collect();
    }
    let mut subs = Vec::new();
    let version = &kind.versions[version];
    if version.status {
        subs.push(Sub { name: "status", kind: &kind.kind, gv: None, verbs: SUBRESOURCE_VERBS });
    }
    if version.scale.is_some() {
        let gv = Some(("autoscaling", "v1"));
        subs.push(Sub { name: "scale", kind: "Scale", gv, verbs: SUBRESOURCE_VERBS });
    }
    subs
}
