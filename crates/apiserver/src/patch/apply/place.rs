//! What the schema says of one place in an object, as far as merging and ownership care.
//!
//! Where it says nothing, maps are taken apart and lists are not. Fields that the
//! server owns (name, uid, resourceVersion and their like) belong to no manager and
//! are skipped by every walk, which is why they never show up in a field set.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use flagship_schema::{self as schema, ListType, NodeRef, Schema, Type};
use serde_json::Value;

use super::element::Element;

/// Below this depth values are taken as a whole: a field set nests as deep as its
/// object, and both must stay readable inside one document.
pub(super) const MAX_TRACKED: usize = 64;

/// Metadata of every object, for schemas that leave it open as CRDs do.
static OBJECT_META: LazyLock<Schema> = LazyLock::new(schema::object_meta);

/// One place in an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// The object itself.
    Root(Option<NodeRef<'a>>),
    /// Its `metadata`.
    Meta(NodeRef<'a>),
    /// Any place that the schema describes.
    Node(NodeRef<'a>),
    /// A place that the schema leaves open.
    Open,
}

/// How a value at some place is taken apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Shape<'a> {
    /// Not at all.
    Leaf,
    /// By field.
    Map,
    /// By element, each its own key.
    Set,
    /// By element, told apart by these fields.
    Keyed(&'a [Box<str>]),
}

impl<'a> Place<'a> {
    /// The place of a field.
    pub(super) fn field(self, name: &str) -> Place<'a> {
        match self {
            Self::Root(node) => match (node.and_then(|n| n.field(name)), name) {
                (Some(meta), "metadata") if !meta.node().properties.is_empty() => Self::Meta(meta),
                (_, "metadata") => Self::Meta(OBJECT_META.root()),
                (Some(node), _) => Self::Node(node),
                (None, _) => Self::Open,
            },
            Self::Meta(node) | Self::Node(node) => node.field(name).map_or(Self::Open, Self::Node),
            Self::Open => Self::Open,
        }
    }

    /// The place of each list element.
    pub(super) fn items(self) -> Place<'a> {
        match self {
            Self::Node(node) => node.items().map_or(Self::Open, Self::Node),
            _ => Self::Open,
        }
    }

    /// Whether `name` is a field of a struct here, as opposed to a key of a map.
    pub(super) fn declares(self, name: &str) -> bool {
        match self {
            Self::Root(node) => {
                matches!(name, "metadata" | "apiVersion" | "kind")
                    || node.is_some_and(|n| n.has_property(name))
            }
            Self::Meta(node) | Self::Node(node) => node.has_property(name),
            Self::Open => false,
        }
    }

    /// Whether the schema rules this field out.
    pub(super) fn forbids(self, name: &str) -> bool {
        let node = match self {
            Self::Root(Some(node)) | Self::Meta(node) | Self::Node(node) => node,
            Self::Root(None) | Self::Open => return false,
        };
        let about = node.node();
        let closed = !about.properties.is_empty() && about.values.is_none();
        let implied = about.embedded_resource && matches!(name, "metadata" | "apiVersion" | "kind");
        closed && !about.preserve_unknown && !implied && !self.declares(name)
    }

    /// Whether the server owns this field, so that no manager does.
    pub(super) fn ignores(self, name: &str) -> bool {
        match self {
            Self::Root(_) => matches!(name, "apiVersion" | "kind"),
            Self::Meta(_) => matches!(
                name,
                "name"
                    | "namespace"
                    | "creationTimestamp"
                    | "selfLink"
                    | "uid"
                    | "clusterName"
                    | "generation"
                    | "managedFields"
                    | "resourceVersion"
            ),
            Self::Node(_) | Self::Open => false,
        }
    }

    /// Whether `null` is a value here rather than the absence of one.
    pub(super) fn keeps_null(self) -> bool {
        match self {
            Self::Node(node) => node.node().nullable,
            Self::Open => true,
            Self::Root(_) | Self::Meta(_) => false,
        }
    }

    /// How a value is taken apart here, `depth` levels into the object.
    pub(super) fn shape(self, value: &Value, depth: usize) -> Shape<'a> {
        if depth >= MAX_TRACKED {
            return Shape::Leaf;
        }
        match (value, self) {
            (Value::Object(_), Self::Root(_) | Self::Meta(_) | Self::Open) => Shape::Map,
            (Value::Object(_), Self::Node(node)) => {
                let about = node.node();
                let open = about.preserve_unknown
                    || about.embedded_resource
                    || about.values.is_some()
                    || !about.properties.is_empty();
                let fits = matches!(about.kind, Type::Object | Type::Any);
                if open && fits && !about.atomic_map { Shape::Map } else { Shape::Leaf }
            }
            (Value::Array(_), Self::Node(node)) => list_shape(node),
            _ => Shape::Leaf,
        }
    }

    /// Whether a value of the wrong kind stands where the schema wants a container.
    pub(super) fn mismatch(self, value: &Value) -> Option<&'static str> {
        let (Self::Node(node) | Self::Meta(node)) = self else { return None };
        match (node.node().kind, value) {
            (_, Value::Null) => None,
            (Type::Object, v) if !v.is_object() && !node.node().int_or_string => Some("map"),
            (Type::Array, v) if !v.is_array() => Some("list"),
            _ => None,
        }
    }
}

fn list_shape(node: NodeRef<'_>) -> Shape<'_> {
    let about = node.node();
    match &about.list_type {
        Some(ListType::Atomic) => Shape::Leaf,
        Some(ListType::Set) => Shape::Set,
        Some(ListType::Map(keys)) => Shape::Keyed(keys),
        // Older built-in kinds only say how they are patched.
        None if about.patch_strategy.merge => match &about.patch_merge_key {
            Some(key) => Shape::Keyed(std::slice::from_ref(key)),
            None => Shape::Set,
        },
        None => Shape::Leaf,
    }
}

/// The step that leads to a list element. Fails on the first key that the element
/// lacks and that has no default.
pub(super) fn step<'k>(
    item: &Value,
    shape: Shape<'k>,
    items: Place<'_>,
) -> Result<Element, &'k str> {
    let Shape::Keyed(keys) = shape else { return Ok(Element::Value(Box::new(item.clone()))) };
    let mut fields = Vec::with_capacity(keys.len());
    for key in keys {
        let value = item.get(&**key).cloned().or_else(|| default_key(items, key)).ok_or(&**key)?;
        fields.push((key.clone(), value));
    }
    fields.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(Element::Key(fields.into()))
}

fn default_key(items: Place<'_>, key: &str) -> Option<Value> {
    let Place::Node(node) = items.field(key) else { return None };
    node.node().default.as_deref().cloned()
}

/// The elements of a list with their steps; those without a usable key go by position.
pub(super) fn steps<'v>(
    list: &'v [Value],
    shape: Shape<'_>,
    items: Place<'_>,
) -> Vec<(Element, &'v Value)> {
    let by_position = |at: usize| Element::Index(i64::try_from(at).unwrap_or(i64::MAX));
    let each = list.iter().enumerate();
    each.map(|(at, item)| (step(item, shape, items).unwrap_or_else(|_| by_position(at)), item))
        .collect()
}

/// The elements of a list by step. More than one value means that a key stands there
/// more than once, which is then treated as a whole.
pub(super) fn grouped<'v>(
    list: &'v [Value],
    shape: Shape<'_>,
    items: Place<'_>,
) -> BTreeMap<Element, Vec<&'v Value>> {
    let mut groups: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
    for (element, item) in steps(list, shape, items) {
        groups.entry(element).or_default().push(item);
    }
    groups
}
