//! Who owns which field: `metadata.managedFields` on every write.

use serde_json::{Map, Value, json};

use super::cluster::Cluster;
use super::subresource::Sub;
use crate::machinery::status::ApiError;
use crate::patch::apply::{self, Manager};
use crate::registry::Served;

/// Records what a write other than apply has changed.
pub(super) fn record(
    cluster: &Cluster,
    served: &Served,
    old: Option<&Value>,
    new: &mut Value,
    manager: &str,
    sub: Sub,
) {
    let manager = this(cluster, served, manager, sub);
    apply::record_update(old, new, &manager, served.version().merges_by());
}

/// Server-side apply: the object after it, with ownership recorded.
pub(super) fn apply(
    cluster: &Cluster,
    served: &Served,
    old: Option<&Value>,
    wanted: &Value,
    manager: &str,
    force: bool,
    sub: Sub,
) -> Result<Value, ApiError> {
    let manager = this(cluster, served, manager, sub);
    let wanted = own_half(served, wanted, sub);
    Ok(apply::apply(old, &wanted, &manager, force, served.version().merges_by())?.object)
}

fn this<'a>(cluster: &Cluster, served: &'a Served, name: &'a str, sub: Sub) -> Manager<'a> {
    Manager {
        name,
        api_version: &served.version().api_version,
        subresource: sub.name(),
        time: cluster.env.clock.now(),
    }
}

/// What of a configuration this path may write: all but the status, or the status alone.
fn own_half(served: &Served, wanted: &Value, sub: Sub) -> Value {
    let Some(map) = wanted.as_object() else { return wanted.clone() };
    if sub == Sub::Status {
        let mut half = Map::new();
        for key in ["apiVersion", "kind", "status"] {
            if let Some(value) = map.get(key) {
                half.insert(key.to_owned(), value.clone());
            }
        }
        let mut metadata = json!({});
        for key in ["name", "namespace", "uid", "resourceVersion", "managedFields"] {
            if let Some(value) = wanted["metadata"].get(key) {
                metadata[key] = value.clone();
            }
        }
        half.insert("metadata".to_owned(), metadata);
        return Value::Object(half);
    }
    let mut half = map.clone();
    if served.version().status {
        half.remove("status");
    }
    Value::Object(half)
}
