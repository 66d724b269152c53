mod belonging;
mod identity;
mod manifest;
mod patch;
mod snapshots;

use flagship_api::placement_status::NamespacedName;
use serde_json::{Value, json};

use super::{ClusterOverride, NamespacedOverride};

/// A rule for clusters with `env: {env}`, or for all.
pub fn rule(env: Option<&str>, patches: Value) -> Value {
    let terms =
        env.map_or(json!([]), |env| json!([{"labelSelector": {"matchLabels": {"env": env}}}]));
    json!({
        "clusterSelector": {"clusterSelectorTerms": terms},
        "overrideType": "JSONPatch",
        "jsonPatchOverrides": patches,
    })
}

/// A rule that takes the resource out on clusters with `env: {env}`, or on all.
pub fn delete_rule(env: Option<&str>) -> Value {
    let mut rule = rule(env, json!([]));
    rule["overrideType"] = "Delete".into();
    rule
}

/// A cluster-wide override about one cluster-scoped resource, `group/version/kind/name`.
pub fn wide(name: &str, selector: &str, rules: Value) -> ClusterOverride {
    let spec = json!({
        "clusterResourceSelectors": [selected(selector)],
        "policy": {"overrideRules": rules},
    });
    ClusterOverride { name: name.to_owned(), spec: serde_json::from_value(spec).unwrap() }
}

/// An override in namespace `app` about one resource there.
pub fn narrow(name: &str, selector: &str, rules: Value) -> NamespacedOverride {
    let spec = json!({
        "resourceSelectors": [selected(selector)],
        "policy": {"overrideRules": rules},
    });
    NamespacedOverride {
        key: NamespacedName { namespace: "app".to_owned(), name: name.to_owned() },
        spec: serde_json::from_value(spec).unwrap(),
    }
}

fn selected(selector: &str) -> Value {
    let parts: Vec<&str> = selector.split('/').collect();
    let [group, version, kind, name] = parts[..] else { panic!("group/version/kind/name") };
    json!({"group": group, "version": version, "kind": kind, "name": name})
}
