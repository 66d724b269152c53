//! A schema as a tree in an arena, shared between clusters.
//!
//! Built-in kinds refer to each other, and some to themselves, so nodes are
//! numbered and live in one [`Arena`]; a [`Schema`] is an arena and a root.
//! [`NodeRef`] is what everyone walks: it is `Copy` and borrows the arena.
//!
//! Loading from OpenAPI lives beside this in the loaders, checking in `validate`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

/// Position of a node in its arena.
pub type NodeId = u32;

/// All nodes of one or many schemas.
#[derive(Debug, Default)]
pub struct Arena {
    /// The nodes; a [`NodeId`] is an index into this list.
    pub nodes: Vec<Node>,
}

/// The JSON type a node asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Type {
    /// No type stated: anything goes.
    #[default]
    Any,
    /// A JSON object, with known fields or as a map.
    Object,
    /// A JSON array.
    Array,
    /// A string.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
}

/// How a list is merged and compared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListType {
    /// Replaced as a whole.
    #[default]
    Atomic,
    /// Scalars, each at most once.
    Set,
    /// Objects, identified by these keys.
    Map(Vec<Box<str>>),
}

/// `x-kubernetes-patch-strategy`, for strategic merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PatchStrategy {
    /// `merge`: join with what is there instead of replacing it.
    pub merge: bool,
    /// `retainKeys`: drop what `$retainKeys` does not name.
    pub retain_keys: bool,
}

/// One place in a schema.
#[derive(Debug, Default, Clone)]
pub struct Node {
    /// Expected JSON type.
    pub kind: Type,
    /// Known fields of an object.
    pub properties: BTreeMap<Box<str>, NodeId>,
    /// Schema of each list element.
    pub items: Option<NodeId>,
    /// Schema of each map value (`additionalProperties`).
    pub values: Option<NodeId>,
    /// How a list is merged; `None` where the schema does not say.
    pub list_type: Option<ListType>,
    /// `x-kubernetes-map-type: atomic`, on maps and structs.
    pub atomic_map: bool,
    /// Merge key of strategic merge.
    pub patch_merge_key: Option<Box<str>>,
    /// Strategy of strategic merge.
    pub patch_strategy: PatchStrategy,
    /// Unknown fields below here are kept.
    pub preserve_unknown: bool,
    /// A whole Kubernetes object stands here.
    pub embedded_resource: bool,
    /// A number or a string.
    pub int_or_string: bool,
    /// `null` is a value here.
    pub nullable: bool,
    /// The `format` keyword, such as `date-time`; empty when absent.
    pub format: Box<str>,
    /// Filled in where the field is missing.
    pub default: Option<Arc<Value>>,
    /// The Go type behind a definition, such as `v1.PodSpec`; decoding errors name it.
    pub go_type: Option<Arc<str>>,
    /// What a value must satisfy beyond its type; absent for most nodes.
    pub checks: Option<Arc<Checks>>,
}

/// The value checks of a node: everything that does not shape the tree.
#[derive(Debug, Default, Clone)]
pub struct Checks {
    /// Fields that must be present.
    pub required: Vec<Box<str>>,
    /// The only allowed values.
    pub one_of_values: Option<Vec<Value>>,
    /// A regular expression that must match somewhere in the string.
    pub pattern: Option<Pattern>,
    /// Smallest allowed number.
    pub minimum: Option<Bound>,
    /// Largest allowed number.
    pub maximum: Option<Bound>,
    /// The number divides by this without rest.
    pub multiple_of: Option<f64>,
    /// Length of a string in characters.
    pub length: Range,
    /// Number of list elements.
    pub items: Range,
    /// Number of fields.
    pub properties: Range,
    /// No element stands in the list twice.
    pub unique_items: bool,
    /// `additionalProperties: false`: unknown fields are refused, not dropped.
    pub closed: bool,
    /// Every one of these holds.
    pub all_of: Vec<NodeId>,
    /// At least one of these holds.
    pub any_of: Vec<NodeId>,
    /// Exactly one of these holds.
    pub one_of: Vec<NodeId>,
    /// This does not hold.
    pub not: Option<NodeId>,
    /// `x-kubernetes-validations`, as written.
    pub rules: Vec<RuleText>,
}

/// One entry of `x-kubernetes-validations`.
#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuleText {
    /// The CEL expression that must hold.
    pub rule: String,
    /// Said when it does not.
    pub message: String,
    /// A CEL expression that makes the message.
    pub message_expression: String,
    /// Which kind of finding it is, such as `FieldValueForbidden`.
    pub reason: Option<String>,
    /// The field to blame, relative to where the rule stands.
    pub field_path: String,
    /// Whether the rule also runs when there is no old value.
    pub optional_old_self: Option<bool>,
}

/// An optional lower and upper bound on a count.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// At least this many.
    pub min: Option<u64>,
    /// At most this many.
    pub max: Option<u64>,
}

/// A bound on a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// The limit.
    pub value: f64,
    /// Whether the limit itself is outside.
    pub exclusive: bool,
}

/// A pattern and its compiled form, which is missing when it does not compile.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// As written in the schema.
    pub text: Box<str>,
    /// Ready to match.
    pub regex: Option<regex::Regex>,
}

/// A root in an arena.
#[derive(Debug, Clone)]
pub struct Schema {
    /// Where the nodes live.
    pub arena: Arc<Arena>,
    /// The object itself.
    pub root: NodeId,
}

/// A node together with the arena that its children live in.
#[derive(Debug, Clone, Copy)]
pub struct NodeRef<'a> {
    arena: &'a Arena,
    node: &'a Node,
}

impl Schema {
    /// The schema of a field below this one, by name.
    pub fn field(&self, name: &str) -> Option<Schema> {
        let node = self.root().node();
        let root = node.properties.get(name).copied().or(node.values)?;
        Some(Schema { arena: self.arena.clone(), root })
    }

    /// The root node.
    pub fn root(&self) -> NodeRef<'_> {
        self.arena.at(self.root)
    }
}

impl Arena {
    /// The node with this number.
    ///
    /// # Panics
    /// If the number is of another arena: loaders only hand out their own.
    pub fn at(&self, id: NodeId) -> NodeRef<'_> {
        NodeRef { arena: self, node: &self.nodes[id as usize] }
    }
}

impl<'a> NodeRef<'a> {
    /// The node itself.
    pub fn node(self) -> &'a Node {
        self.node
    }

    /// The schema of a field: a known property, else the map's value schema.
    pub fn field(self, name: &str) -> Option<NodeRef<'a>> {
        let id = self.node.properties.get(name).copied().or(self.node.values)?;
        Some(self.arena.at(id))
    }

    /// All known properties in order.
    pub fn fields(self) -> impl Iterator<Item = (&'a str, NodeRef<'a>)> {
        self.node.properties.iter().map(move |(name, id)| (&**name, self.arena.at(*id)))
    }

    /// Another node of the same arena, such as a branch of `anyOf`.
    pub fn sibling(self, id: NodeId) -> NodeRef<'a> {
        self.arena.at(id)
    }

    /// The schema of each list element.
    pub fn items(self) -> Option<NodeRef<'a>> {
        self.node.items.map(|id| self.arena.at(id))
    }

    /// The schema of each map value.
    pub fn values(self) -> Option<NodeRef<'a>> {
        self.node.values.map(|id| self.arena.at(id))
    }

    /// Whether `name` is a known property, as opposed to a map key.
    pub fn has_property(self, name: &str) -> bool {
        self.node.properties.contains_key(name)
    }
}
