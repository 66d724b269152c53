//! Visits every part of an object together with its schema.

use flagship_base::machinery::bounds::MAX_WALK;
use serde_json::Value;

use super::node::NodeRef;
use super::path::Path;

/// Calls with each value that the schema knows, its schema and its path, parents first.
/// Keys of maps are printed in brackets.
pub(super) fn visit(
    value: &Value,
    node: NodeRef<'_>,
    call: &mut dyn FnMut(&Value, NodeRef<'_>, &Path<'_>),
) {
    step(value, node, &Path::Root, 0, call);
}

fn step(
    value: &Value,
    node: NodeRef<'_>,
    path: &Path<'_>,
    depth: usize,
    call: &mut dyn FnMut(&Value, NodeRef<'_>, &Path<'_>),
) {
    if depth > MAX_WALK {
        return;
    }
    call(value, node, path);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if let Some(field) = node.field(key) {
                    let path = match node.has_property(key) {
                        true => Path::Field(path, key),
                        false => Path::Key(path, key),
                    };
                    step(value, field, &path, depth + 1, call);
                }
            }
        }
        Value::Array(list) => {
            let Some(items) = node.items() else { return };
            for (at, value) in list.iter().enumerate() {
                step(value, items, &Path::Index(path, at), depth + 1, call);
            }
        }
        _ => {}
    }
}
