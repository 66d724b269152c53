//! `/openapi/v3`: what the kinds of a cluster look like, for `kubectl explain` and for
//! clients that ask the server whether it validates fields. `swagger` is the older form.
//!
//! One document for each group and version, built when it is asked for and kept in
//! [`Cache`] under a tag that changes when a definition does. Built-in kinds come from
//! the embedded table with a few words of our own (`prose`); custom kinds come from their definition with
//! everything its author wrote.

mod components;
mod paths;
mod prose;
mod swagger;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use flagship_base::machinery::gvk::GroupVersion;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::auth::{REVIEWS, Review};
use crate::registry::{Kind, Registry};
use components::Components;
pub use swagger::MEDIA as SWAGGER_MEDIA;

/// Documents kept by a server; beyond that the oldest is built anew.
const MAX_KEPT: usize = 64;

/// Documents that were asked for lately, by their tag.
#[derive(Debug, Default)]
pub struct Cache(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    next: u64,
    documents: BTreeMap<String, (u64, Bytes)>,
}

/// The kinds of a cluster, and the definitions of custom ones.
pub struct Source<'a> {
    /// The kinds.
    pub registry: &'a Registry,
    /// The definition of a custom kind, by its table's name.
    pub definition: &'a dyn Fn(&str) -> Option<Value>,
}

/// `/openapi/v3`: where the documents are.
pub fn index(source: &Source<'_>) -> Value {
    let mut paths = serde_json::Map::new();
    for (gv, kinds) in served(source.registry) {
        let path = path_of(&gv);
        let url = format!("/openapi/v3/{path}?hash={}", tag(source, &gv, &kinds));
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

/// The document at `/openapi/v3/<path>` and its tag; `None` when nothing is there.
pub fn document(source: &Source<'_>, cache: &Cache, path: &str) -> Option<(String, Bytes)> {
    let (gv, kinds) = served(source.registry).into_iter().find(|(gv, _)| path_of(gv) == path)?;
    let tag = tag(source, &gv, &kinds);
    if let Some(known) = cache.get(&tag) {
        return Some((tag, known));
    }
    let mut components = Components::default();
    let mut all = serde_json::Map::new();
    for (kind, version) in &kinds {
        let definition = || (source.definition)(&kind.resource);
        let schema = components.add(kind, *version, definition);
        paths::add(&mut all, kind, *version, &schema);
    }
    for review in reviews(&gv) {
        if let Some(schema) = components.add_published(&gv, review.kind) {
            paths::add_review(&mut all, review, &schema);
        }
    }
    let document = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.34.0"},
        "paths": all,
        "components": {"schemas": components.finish()},
    });
    let bytes = Bytes::from(document.to_string());
    cache.put(&tag, &bytes);
    Some((tag, bytes))
}

/// `/openapi/v2`, as JSON or packed, and its tag.
pub fn swagger(source: &Source<'_>, cache: &Cache, packed: bool) -> (String, Bytes) {
    let all = served(source.registry);
    let mut hash = Sha256::new();
    hash.update(if packed { "packed" } else { "plain" });
    all.iter().for_each(|(gv, kinds)| hash.update(tag(source, gv, kinds)));
    let tag = hex(hash);
    if let Some(known) = cache.get(&tag) {
        return (tag, known);
    }
    let mut components = Components::default();
    let mut paths = serde_json::Map::new();
    for (gv, kinds) in &all {
        for (kind, version) in kinds {
            let definition = || (source.definition)(&kind.resource);
            let schema = components.add(kind, *version, definition);
            components.add_list(kind, *version, &schema);
            paths::add(&mut paths, kind, *version, &schema);
        }
        for review in reviews(gv) {
            if let Some(schema) = components.add_published(gv, review.kind) {
                paths::add_review(&mut paths, review, &schema);
            }
        }
    }
    let document = swagger::document(components.finish(), &paths);
    let bytes = match packed {
        true => swagger::packed(&document).into(),
        false => document.to_string().into(),
    };
    cache.put(&tag, &bytes);
    (tag, bytes)
}

/// The kinds of a group that are answered and never stored.
fn reviews(gv: &GroupVersion) -> impl Iterator<Item = &'static Review> {
    REVIEWS.iter().filter(|review| review.group == gv.group && gv.version == "v1")
}

/// Groups and versions that are served, with their kinds.
fn served(registry: &Registry) -> BTreeMap<GroupVersion, Vec<(Arc<Kind>, usize)>> {
    let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for kind in registry.all() {
        for (index, version) in kind.versions.iter().enumerate().filter(|(_, v)| v.served) {
            found.entry(version.gv.clone()).or_default().push((kind.clone(), index));
        }
    }
    for review in &REVIEWS {
        found.entry(GroupVersion::new(review.group, "v1")).or_default();
    }
    found
}

fn path_of(gv: &GroupVersion) -> String {
    if gv.group.is_empty() { format!("api/{}", gv.version) } else { format!("apis/{gv}") }
}

/// Changes when the document does: with the server's version, and with every definition.
fn tag(source: &Source<'_>, gv: &GroupVersion, kinds: &[(Arc<Kind>, usize)]) -> String {
    let mut hash = Sha256::new();
    hash.update(env!("CARGO_PKG_VERSION"));
    hash.update(*prose::EDITION);
    hash.update(gv.to_string());
    for (kind, _) in kinds.iter().filter(|(kind, _)| kind.row().is_none()) {
        let definition = (source.definition)(&kind.resource).unwrap_or_default();
        let metadata = &definition["metadata"];
        for part in [&metadata["uid"], &metadata["generation"]] {
            hash.update(part.to_string());
            hash.update([0]);
        }
    }
    hex(hash)
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02X}")).collect()
}

impl Cache {
    fn get(&self, tag: &str) -> Option<Bytes> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.documents.get(tag).map(|(_, bytes)| bytes.clone())
    }

    fn put(&self, tag: &str, bytes: &Bytes) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.next;
        kept.next += 1;
        kept.documents.insert(tag.to_owned(), (at, bytes.clone()));
        while kept.documents.len() > MAX_KEPT {
            let oldest = kept.documents.iter().min_by_key(|(_, (at, _))| *at);
            let Some(oldest) = oldest.map(|(tag, _)| tag.clone()) else { break };
            kept.documents.remove(&oldest);
        }
    }
}
