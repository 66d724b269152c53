//! Reads OpenAPI into the arena.
//!
//! Two dialects: the structural schema of a CustomResourceDefinition, a plain
//! tree, and the definitions of built-in kinds, a graph tied together by `$ref`.
//! A `$ref` with keywords beside it (a patch strategy, say) becomes its own node,
//! filled from its target once everything is read, so that cycles cost nothing.
//!
//! Loading is lenient: a malformed keyword is as good as absent. Whether a schema
//! is one that Kubernetes would accept is asked in `structural`.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_base::machinery::bounds::MAX_SCHEMA_DEPTH;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::node::{
    Arena, Bound, Checks, ListType, Node, NodeId, PatchStrategy, Pattern, Range, Schema, Type,
};

/// How many nodes one schema may have.
const MAX_NODES: usize = 200_000;
/// Compiled size of one pattern; a repetition bomb is refused beyond it.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// Why a schema cannot be read at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Nested deeper than `MAX_SCHEMA_DEPTH`.
    #[error("schema nests deeper than {MAX_SCHEMA_DEPTH} levels")]
    TooDeep,
    /// More nodes than fit.
    #[error("schema has more than {MAX_NODES} nodes")]
    TooLarge,
    /// A `$ref` leads nowhere.
    #[error("no definition named {0:?}")]
    Dangling(String),
}

impl Schema {
    /// Reads one OpenAPI v3 schema without references, as a CRD carries it.
    pub fn from_openapi(schema: &Value) -> Result<Schema, LoadError> {
        let mut loader = Loader::new(None);
        let root = loader.node(schema, 0)?;
        Ok(Schema { arena: Arc::new(loader.finish()?), root })
    }

    /// Reads `root` and everything it refers to from a table of definitions.
    pub fn from_definitions(
        definitions: &Map<String, Value>,
        root: &str,
    ) -> Result<Schema, LoadError> {
        let (arena, ids) = load_definitions(definitions, [root])?;
        Ok(Schema { arena: Arc::new(arena), root: ids[root] })
    }
}

/// Reads the named definitions into one arena and says where each stands.
pub(super) fn load_definitions<'a>(
    definitions: &Map<String, Value>,
    roots: impl IntoIterator<Item = &'a str>,
) -> Result<(Arena, BTreeMap<&'a str, NodeId>), LoadError> {
    let mut loader = Loader::new(Some(definitions));
    let mut ids = BTreeMap::new();
    for name in roots {
        ids.insert(name, loader.definition(name, 0)?);
    }
    Ok((loader.finish()?, ids))
}

struct Loader<'d> {
    definitions: Option<&'d Map<String, Value>>,
    known: BTreeMap<String, NodeId>,
    arena: Arena,
    /// Nodes that take over their target's content: (node, target, keywords beside the `$ref`).
    borrowed: Vec<(NodeId, NodeId, Node)>,
}

impl<'d> Loader<'d> {
    fn new(definitions: Option<&'d Map<String, Value>>) -> Self {
        Self { definitions, known: BTreeMap::new(), arena: Arena::default(), borrowed: Vec::new() }
    }

    fn reserve(&mut self) -> Result<NodeId, LoadError> {
        let id = self.arena.nodes.len();
        if id >= MAX_NODES {
            return Err(LoadError::TooLarge);
        }
        self.arena.nodes.push(Node::default());
        NodeId::try_from(id).map_err(|_| LoadError::TooLarge)
    }

    fn definition(&mut self, name: &str, depth: usize) -> Result<NodeId, LoadError> {
        if let Some(id) = self.known.get(name) {
            return Ok(*id);
        }
        let dangling = || LoadError::Dangling(name.to_owned());
        let schema = self.definitions.and_then(|d| d.get(name)).ok_or_else(dangling)?;
        let id = self.reserve()?;
        self.known.insert(name.to_owned(), id);
        self.fill(id, schema, depth)?;
        self.arena.nodes[id as usize].go_type = Some(go_type(name).into());
        Ok(id)
    }

    fn node(&mut self, schema: &Value, depth: usize) -> Result<NodeId, LoadError> {
        if let Some(target) = reference(schema)
            && self.definitions.is_some()
            && !speaks_beside_reference(schema)
        {
            return self.definition(target, depth + 1);
        }
        let id = self.reserve()?;
        self.fill(id, schema, depth)?;
        Ok(id)
    }

    fn fill(&mut self, id: NodeId, schema: &Value, depth: usize) -> Result<(), LoadError> {
        if depth > MAX_SCHEMA_DEPTH {
            return Err(LoadError::TooDeep);
        }
        let Value::Object(keywords) = schema else { return Ok(()) };
        let mut node = shape(keywords);
        if self.definitions.is_some() {
            if let Some(target) = reference(schema) {
                let target = self.definition(target, depth + 1)?;
                self.borrowed.push((id, target, node));
                return Ok(());
            }
            // Raw extensions and other free-form objects carry no properties at all.
            let closed = ["properties", "additionalProperties"];
            node.preserve_unknown |= matches!(node.kind, Type::Object | Type::Any)
                && !closed.iter().any(|k| keywords.contains_key(*k));
            node.int_or_string |= &*node.format == "int-or-string";
        }
        for (name, child) in object(keywords, "properties") {
            node.properties.insert(name.as_str().into(), self.node(child, depth + 1)?);
        }
        match keywords.get("items") {
            Some(Value::Array(list)) => {
                // A tuple is not structural; its first element stands for all.
                node.items = list.first().map(|i| self.node(i, depth + 1)).transpose()?;
            }
            Some(items) => node.items = Some(self.node(items, depth + 1)?),
            None => {}
        }
        match keywords.get("additionalProperties") {
            Some(Value::Bool(false)) | None => {}
            Some(values) => node.values = Some(self.node(values, depth + 1)?),
        }
        node.checks = self.checks(keywords, depth)?.map(Arc::new);
        self.arena.nodes[id as usize] = node;
        Ok(())
    }

    fn checks(
        &mut self,
        keywords: &Map<String, Value>,
        depth: usize,
    ) -> Result<Option<Checks>, LoadError> {
        const KEYWORDS: [&str; 21] = [
            "required",
            "enum",
            "pattern",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "minItems",
            "maxItems",
            "minProperties",
            "maxProperties",
            "uniqueItems",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "additionalProperties",
            "x-kubernetes-validations",
        ];
        if !KEYWORDS.iter().any(|k| keywords.contains_key(*k)) {
            return Ok(None);
        }
        let mut branch = |name: &str| -> Result<Vec<NodeId>, LoadError> {
            let list = keywords.get(name).and_then(Value::as_array);
            list.into_iter().flatten().map(|s| self.node(s, depth + 1)).collect()
        };
        let (all_of, any_of, one_of) = (branch("allOf")?, branch("anyOf")?, branch("oneOf")?);
        let not = keywords.get("not").map(|s| self.node(s, depth + 1)).transpose()?;
        let required = keywords.get("required").and_then(Value::as_array).into_iter().flatten();
        Ok(Some(Checks {
            required: required.filter_map(Value::as_str).map(Into::into).collect(),
            one_of_values: keywords.get("enum").and_then(Value::as_array).cloned(),
            pattern: text(keywords, "pattern").filter(|p| !p.is_empty()).map(compile),
            minimum: bound(keywords, "minimum", "exclusiveMinimum"),
            maximum: bound(keywords, "maximum", "exclusiveMaximum"),
            multiple_of: keywords.get("multipleOf").and_then(Value::as_f64).filter(|m| *m > 0.0),
            length: range(keywords, "minLength", "maxLength"),
            items: range(keywords, "minItems", "maxItems"),
            properties: range(keywords, "minProperties", "maxProperties"),
            unique_items: flag(keywords, "uniqueItems"),
            closed: keywords.get("additionalProperties") == Some(&Value::Bool(false)),
            all_of,
            any_of,
            one_of,
            not,
            rules: keywords
                .get("x-kubernetes-validations")
                .and_then(|rules| Vec::deserialize(rules).ok())
                .unwrap_or_default(),
        }))
    }

    /// Fills the borrowing nodes, following chains of bare references.
    fn finish(mut self) -> Result<Arena, LoadError> {
        let targets: BTreeMap<NodeId, NodeId> =
            self.borrowed.iter().map(|(id, target, _)| (*id, *target)).collect();
        for (id, target, beside) in self.borrowed {
            let mut end = target;
            for _ in 0..MAX_SCHEMA_DEPTH {
                match targets.get(&end) {
                    Some(next) => end = *next,
                    None => break,
                }
            }
            let mut node = self.arena.nodes[end as usize].clone();
            node.list_type = beside.list_type.or(node.list_type);
            node.atomic_map |= beside.atomic_map;
            node.patch_merge_key = beside.patch_merge_key.or(node.patch_merge_key);
            if beside.patch_strategy != PatchStrategy::default() {
                node.patch_strategy = beside.patch_strategy;
            }
            node.nullable |= beside.nullable;
            node.default = beside.default.or(node.default);
            self.arena.nodes[id as usize] = node;
        }
        Ok(self.arena)
    }
}

/// The keywords that need no other node.
fn shape(keywords: &Map<String, Value>) -> Node {
    let kind = match text(keywords, "type") {
        Some("object") => Type::Object,
        Some("array") => Type::Array,
        Some("string") => Type::String,
        Some("integer") => Type::Integer,
        Some("number") => Type::Number,
        Some("boolean") => Type::Boolean,
        _ => Type::Any,
    };
    let list_type = match text(keywords, "x-kubernetes-list-type") {
        Some("atomic") => Some(ListType::Atomic),
        Some("set") => Some(ListType::Set),
        Some("map") => Some(ListType::Map(
            keywords
                .get("x-kubernetes-list-map-keys")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(Into::into)
                .collect(),
        )),
        _ => None,
    };
    // Such as `merge,retainKeys`.
    let strategies =
        || text(keywords, "x-kubernetes-patch-strategy").into_iter().flat_map(|s| s.split(','));
    Node {
        kind,
        list_type,
        atomic_map: text(keywords, "x-kubernetes-map-type") == Some("atomic"),
        patch_merge_key: text(keywords, "x-kubernetes-patch-merge-key").map(Into::into),
        patch_strategy: PatchStrategy {
            merge: strategies().any(|s| s == "merge"),
            retain_keys: strategies().any(|s| s == "retainKeys"),
        },
        preserve_unknown: flag(keywords, "x-kubernetes-preserve-unknown-fields"),
        embedded_resource: flag(keywords, "x-kubernetes-embedded-resource"),
        int_or_string: flag(keywords, "x-kubernetes-int-or-string"),
        nullable: flag(keywords, "nullable"),
        format: text(keywords, "format").unwrap_or_default().into(),
        default: keywords.get("default").cloned().map(Arc::new),
        ..Node::default()
    }
}

/// The name behind `$ref`, also where OpenAPI v3 wraps it in a lone `allOf`.
fn reference(schema: &Value) -> Option<&str> {
    let path = match (schema.get("$ref"), schema.get("allOf").and_then(Value::as_array)) {
        (Some(path), _) => path.as_str()?,
        (None, Some(only)) if only.len() == 1 => only[0].get("$ref")?.as_str()?,
        _ => return None,
    };
    path.rsplit('/').next()
}

/// `io.k8s.api.core.v1.PodSpec` is `v1.PodSpec` in Go.
fn go_type(definition: &str) -> &str {
    let package = definition.rmatch_indices('.').nth(1).map_or(0, |(at, _)| at + 1);
    &definition[package..]
}

fn speaks_beside_reference(schema: &Value) -> bool {
    let Value::Object(keywords) = schema else { return false };
    keywords.keys().any(|k| k.starts_with("x-kubernetes-") || k == "default" || k == "nullable")
}

/// Compiles a pattern with bounded size; Go's syntax is RE2, which `regex` follows.
pub(super) fn try_compile(pattern: &str) -> Result<regex::Regex, regex::Error> {
    regex::RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).nest_limit(100).build()
}

/// As [`try_compile`], for patterns that were accepted once.
pub(super) fn compile(pattern: &str) -> Pattern {
    Pattern { text: pattern.into(), regex: try_compile(pattern).ok() }
}

fn object<'a>(
    keywords: &'a Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    keywords.get(name).and_then(Value::as_object).into_iter().flatten()
}

fn text<'a>(keywords: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    keywords.get(name).and_then(Value::as_str)
}

fn flag(keywords: &Map<String, Value>, name: &str) -> bool {
    keywords.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn range(keywords: &Map<String, Value>, min: &str, max: &str) -> Range {
    let count = |name| keywords.get(name).and_then(Value::as_u64);
    Range { min: count(min), max: count(max) }
}

fn bound(keywords: &Map<String, Value>, name: &str, exclusive: &str) -> Option<Bound> {
    let value = keywords.get(name).and_then(Value::as_f64)?;
    Some(Bound { value, exclusive: flag(keywords, exclusive) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_tree_keeps_its_merge_information() {
        let schema = Schema::from_openapi(&json!({
            "type": "object",
            "properties": {
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "x-kubernetes-patch-merge-key": "port",
                    "x-kubernetes-patch-strategy": "merge,retainKeys",
                    "items": {"type": "object", "properties": {"port": {"type": "integer"}}},
                },
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "raw": {"type": "object", "x-kubernetes-embedded-resource": true,
                        "x-kubernetes-preserve-unknown-fields": true},
                "max": {"x-kubernetes-int-or-string": true},
                "selector": {"type": "object", "x-kubernetes-map-type": "atomic"},
            },
        }))
        .unwrap();
        let root = schema.root();
        let ports = root.field("ports").unwrap();
        let keys = ListType::Map(vec!["port".into(), "protocol".into()]);
        assert_eq!(ports.node().list_type, Some(keys));
        assert_eq!(ports.node().patch_merge_key.as_deref(), Some("port"));
        assert_eq!(ports.node().patch_strategy, PatchStrategy { merge: true, retain_keys: true });
        assert_eq!(ports.items().unwrap().field("port").unwrap().node().kind, Type::Integer);
        assert_eq!(root.field("labels").unwrap().field("any").unwrap().node().kind, Type::String);
        let raw = root.field("raw").unwrap().node();
        assert!(raw.embedded_resource && raw.preserve_unknown);
        assert!(root.field("max").unwrap().node().int_or_string);
        assert!(root.field("selector").unwrap().node().atomic_map);
    }

    #[test]
    fn definitions_may_refer_to_themselves_and_speak_beside_a_reference() {
        let definitions = json!({
            "Tree": {"type": "object", "properties": {
                "child": {"$ref": "#/definitions/Tree"},
                "odd": {"$ref": "#/definitions/Tree", "x-kubernetes-patch-strategy": "retainKeys"},
                "raw": {"$ref": "#/definitions/Raw"},
            }},
            "Raw": {"type": "object"},
        });
        let schema = Schema::from_definitions(definitions.as_object().unwrap(), "Tree").unwrap();
        let odd = schema.root().field("child").unwrap().field("odd").unwrap();
        assert!(odd.node().patch_strategy.retain_keys);
        assert!(odd.field("child").unwrap().field("odd").is_some());
        assert!(odd.field("raw").unwrap().node().preserve_unknown);
        assert!(!odd.node().preserve_unknown);
    }

    #[test]
    fn bottomless_and_dangling_schemas_are_refused() {
        let mut deep = json!({});
        for _ in 0..200 {
            deep = json!({"type": "array", "items": deep});
        }
        assert_eq!(Schema::from_openapi(&deep).unwrap_err(), LoadError::TooDeep);
        let definitions = json!({"A": {"properties": {"b": {"$ref": "#/definitions/B"}}}});
        let dangling = Schema::from_definitions(definitions.as_object().unwrap(), "A");
        assert_eq!(dangling.unwrap_err(), LoadError::Dangling("B".into()));
        let circle = json!({"A": {"$ref": "#/definitions/A"}});
        assert!(Schema::from_definitions(circle.as_object().unwrap(), "A").is_ok());
    }
}
