//! Schemas of the built-in kinds, from one embedded table.
//!
//! Everything is read once, on first use, into one arena that all clusters share.
//! The table is derived, never edited: `cargo run -p xtask -- builtin-schemas` makes
//! it, `data/README.md` says from what.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::load::load_definitions;
use super::node::{Arena, NodeId, Schema};

static PACKED: &[u8] = include_bytes!("../data/builtin-schemas.json.gz");

static TABLE: LazyLock<Table> = LazyLock::new(Table::read);

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

struct Table {
    arena: Arc<Arena>,
    /// `group/version/Kind` to root.
    roots: BTreeMap<String, NodeId>,
    object_meta: NodeId,
}

/// The schema of a built-in kind; the core group is the empty string.
pub fn builtin(group: &str, version: &str, kind: &str) -> Option<Schema> {
    let root = *TABLE.roots.get(&format!("{group}/{version}/{kind}"))?;
    Some(Schema { arena: TABLE.arena.clone(), root })
}

/// The schema of `metadata` on every object.
pub fn object_meta() -> Schema {
    Schema { arena: TABLE.arena.clone(), root: TABLE.object_meta }
}

/// Every built-in kind in the table, as (group, version, kind).
pub fn builtin_kinds() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    TABLE.roots.keys().filter_map(|key| {
        let mut parts = key.splitn(3, '/');
        Some((parts.next()?, parts.next()?, parts.next()?))
    })
}

/// The table as it was published.
#[derive(Deserialize)]
pub struct Published {
    /// `group/version/Kind` to the name of its definition.
    pub kinds: BTreeMap<String, String>,
    /// Definitions by name; they refer to each other as `#/definitions/<name>`.
    pub definitions: Map<String, Value>,
}

/// Unpacks the whole table, for those who show it. Not kept: it is large.
pub fn published() -> Published {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(PACKED)
        .read_to_end(&mut plain)
        .expect("the table is embedded at build time and a test unpacks it");
    serde_json::from_slice(&plain).expect("xtask wrote the table as JSON")
}

impl Table {
    fn read() -> Self {
        let file = published();
        let names = file.kinds.values().map(String::as_str).chain([OBJECT_META]);
        let (arena, ids) = load_definitions(&file.definitions, names)
            .expect("xtask keeps every definition that a kind reaches");
        let roots =
            file.kinds.iter().map(|(key, name)| (key.clone(), ids[name.as_str()])).collect();
        Self { arena: Arc::new(arena), roots, object_meta: ids[OBJECT_META] }
    }
}

#[cfg(test)]
mod tests {
    use super::super::node::{ListType, NodeRef, PatchStrategy, Type};
    use super::*;

    fn at<'a>(schema: &'a Schema, path: &str) -> NodeRef<'a> {
        path.split('.').fold(schema.root(), |node, step| match step {
            "[]" => node.items().unwrap(),
            name => node.field(name).unwrap_or_else(|| panic!("{path} stops at {name}")),
        })
    }

    #[test]
    fn lists_of_a_deployment_know_their_keys() {
        let deployment = builtin("apps", "v1", "Deployment").unwrap();
        let pod = "spec.template.spec";
        for (path, map_keys, merge_key) in [
            ("containers", &["name"][..], "name"),
            ("containers.[].ports", &["containerPort", "protocol"], "containerPort"),
            ("containers.[].env", &["name"], "name"),
            ("containers.[].volumeMounts", &["mountPath"], "mountPath"),
            ("volumes", &["name"], "name"),
        ] {
            let node = at(&deployment, &format!("{pod}.{path}")).node();
            let keys = map_keys.iter().map(|k| (*k).into()).collect();
            assert_eq!(node.list_type, Some(ListType::Map(keys)), "{path}");
            assert_eq!(node.patch_merge_key.as_deref(), Some(merge_key), "{path}");
            assert!(node.patch_strategy.merge, "{path}");
        }
        let protocol = at(&deployment, &format!("{pod}.containers.[].ports.[].protocol"));
        assert_eq!(protocol.node().default.as_deref(), Some(&Value::from("TCP")));
        let retain = at(&deployment, "spec.strategy").node().patch_strategy;
        assert_eq!(retain, PatchStrategy { merge: false, retain_keys: true });
        let volumes = at(&deployment, &format!("{pod}.volumes")).node().patch_strategy;
        assert_eq!(volumes, PatchStrategy { merge: true, retain_keys: true });
        assert!(at(&deployment, "spec.selector").node().atomic_map);
    }

    #[test]
    fn metadata_merges_finalizers_and_owners() {
        let meta = object_meta();
        let finalizers = at(&meta, "finalizers").node();
        assert_eq!(finalizers.list_type, Some(ListType::Set));
        assert!(finalizers.patch_strategy.merge);
        let owners = at(&meta, "ownerReferences").node();
        assert_eq!(owners.list_type, Some(ListType::Map(vec!["uid".into()])));
        assert_eq!(owners.patch_merge_key.as_deref(), Some("uid"));
    }

    #[test]
    fn every_kind_a_fleet_needs_is_in_the_table() {
        for (group, version, kind) in [
            ("", "v1", "Namespace"),
            ("", "v1", "Pod"),
            ("", "v1", "Secret"),
            ("batch", "v1", "Job"),
            ("autoscaling", "v1", "Scale"),
            ("autoscaling", "v2", "HorizontalPodAutoscaler"),
            ("coordination.k8s.io", "v1", "Lease"),
            ("authorization.k8s.io", "v1", "SelfSubjectAccessReview"),
            ("authentication.k8s.io", "v1", "TokenRequest"),
            ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
            ("policy", "v1", "Eviction"),
        ] {
            let schema = builtin(group, version, kind).unwrap_or_else(|| panic!("{kind}"));
            assert_eq!(schema.root().node().kind, Type::Object);
        }
        assert!(builtin("apps", "v1", "Pod").is_none());
        assert!(builtin_kinds().count() > 150);
    }

    #[test]
    fn special_types_are_marked() {
        let service = builtin("", "v1", "Service").unwrap();
        assert!(at(&service, "spec.ports.[].targetPort").node().int_or_string);
        let crd = builtin("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap();
        let props = at(&crd, "spec.versions.[].schema.openAPIV3Schema");
        assert!(props.field("default").unwrap().node().preserve_unknown);
        assert!(props.field("properties").unwrap().field("any").unwrap().has_property("items"));
        let pod = builtin("", "v1", "Pod").unwrap();
        let limits = at(&pod, "spec.containers.[].resources.limits.cpu").node();
        assert_eq!(&*limits.format, "quantity");
        assert_eq!(limits.go_type.as_deref(), Some("resource.Quantity"));
    }

    #[test]
    fn the_readme_says_how_to_make_the_table_again() {
        let readme = include_str!("../data/README.md");
        assert!(readme.contains("cargo run -p xtask -- builtin-schemas"));
        assert!(readme.contains("k8s.io/kubernetes` v1.34.1") && readme.contains("Apache-2.0"));
    }
}
