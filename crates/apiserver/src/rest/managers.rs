//! Who owns which field: `metadata.managedFields` on every write.

use flagship_base::machinery::status::ApiError;
use flagship_kinds::{self as kinds, Kind as K};
use serde_json::{Map, Value, json};

use super::cluster::Cluster;
use super::meta;
use super::subresource::Sub;
use crate::patch::apply::{self, Manager};
use crate::registry::{Origin, Served};

/// Records what a write other than apply has changed.
pub(super) fn record(
    cluster: &Cluster,
    served: &Served,
    old: Option<&Value>,
    new: &mut Value,
    manager: &str,
    sub: Sub,
) {
    // Kubernetes cannot tell who owns what of these, for the published type of their bytes is
    // not the one it finds; nobody owns anything.
    if served.kind.is(K::CertificateSigningRequest) {
        meta::of_mut(new).remove("managedFields");
        return;
    }
    let manager = this(cluster, served, manager, sub);
    apply::record_update(old, new, &manager, served.version().merges_by());
}

/// Records who made a new object. A status that was sent along is nobody's: it is not kept.
pub(super) fn record_new(cluster: &Cluster, served: &Served, new: &mut Value, manager: &str) {
    let sent = new.as_object_mut().filter(|_| served.version().status);
    let status = sent.and_then(|object| object.remove("status"));
    record(cluster, served, None, new, manager, Sub::Main);
    if let (Some(status), Some(object)) = (status, new.as_object_mut()) {
        object.insert("status".to_owned(), status);
    }
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

/// Whether a write comes to nothing but younger times in `managedFields`. Apply cannot know
/// that itself: what it leaves out of a list may come back by defaulting. Managers are
/// compared last, because that is dear and most writes change something else.
pub(super) fn only_times_differ(new: &Value, old: &Value) -> bool {
    let managers = |object: &Value| timeless(&object["metadata"]["managedFields"]);
    let same = alike(new, old, |key, new, old| match key {
        "metadata" => alike(new, old, |key, new, old| key == "managedFields" || new == old),
        _ => new == old,
    });
    same && managers(new) == managers(old)
}

/// Whether two objects have the same keys, and at each what is the same.
fn alike(new: &Value, old: &Value, same: impl Fn(&str, &Value, &Value) -> bool) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return false };
    new.len() == old.len()
        && new.iter().all(|(key, new)| old.get(key).is_some_and(|old| same(key, new, old)))
}

/// Entries without their times, in an order that does not come from them.
fn timeless(entries: &Value) -> Vec<String> {
    let each = entries.as_array().into_iter().flatten().map(|entry| {
        let mut entry = entry.clone();
        if let Some(map) = entry.as_object_mut() {
            map.remove("time");
        }
        entry.to_string()
    });
    let mut all: Vec<String> = each.collect();
    all.sort_unstable();
    all
}

fn this<'a>(cluster: &Cluster, served: &'a Served, name: &'a str, sub: Sub) -> Manager<'a> {
    Manager {
        name,
        api_version: &served.version().api_version,
        subresource: sub.name(),
        time: cluster.env.clock.now(),
    }
}

/// What of a configuration this path may write: all but the status, the status alone, or
/// the few fields of a pod that have a path of their own.
fn own_half(served: &Served, wanted: &Value, sub: Sub) -> Value {
    let Some(map) = wanted.as_object() else { return wanted.clone() };
    let (key, value) = match sub {
        Sub::Status | Sub::Approval => ("status", map.get("status").cloned()),
        Sub::EphemeralContainers => {
            let list = wanted["spec"].get("ephemeralContainers");
            ("spec", list.map(|list| json!({"ephemeralContainers": list})))
        }
        Sub::Resize => ("spec", resources_alone(&wanted["spec"])),
        Sub::Main
        | Sub::Scale
        | Sub::Finalize
        | Sub::Binding
        | Sub::Eviction
        | Sub::Token
        | Sub::Connect(_) => {
            let mut half = map.clone();
            if served.version().status {
                half.remove("status");
            }
            return Value::Object(half);
        }
    };
    let mut half = Map::new();
    for key in ["apiVersion", "kind"] {
        if let Some(value) = map.get(key) {
            half.insert(key.to_owned(), value.clone());
        }
    }
    half.extend(value.map(|value| (key.to_owned(), value)));
    let mut metadata = json!({});
    let passing = match (sub, served.kind.origin) {
        (Sub::Status, Origin::Builtin(kind)) => kinds::metadata_through_status(kind),
        _ => &[],
    };
    let own = ["name", "namespace", "uid", "resourceVersion", "managedFields"];
    for key in own.iter().chain(passing).copied() {
        if let Some(value) = wanted["metadata"].get(key) {
            metadata[key] = value.clone();
        }
    }
    half.insert("metadata".to_owned(), metadata);
    Value::Object(half)
}

/// Containers with nothing but their name and resources.
fn resources_alone(spec: &Value) -> Option<Value> {
    let containers = spec["containers"].as_array()?.iter().map(|container| {
        let kept = ["name", "resources"]
            .into_iter()
            .filter_map(|key| Some((key.to_owned(), container.get(key)?.clone())));
        Value::Object(kept.collect())
    });
    Some(json!({"containers": containers.collect::<Vec<_>>()}))
}
