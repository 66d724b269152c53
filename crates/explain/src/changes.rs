//! What differs between two versions of the objects of a placement: which objects come, go and
//! change, in which fields, and what that does on a cluster.
//!
//! Data of Secrets is never shown, only that it differs and how long it is now.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value};

/// Longest value that is shown whole, in characters.
const LONGEST: usize = 60;

/// What becomes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// It was not there.
    Added,
    /// It will not be there.
    Removed,
    /// It differs.
    Changed,
}

/// One object that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    /// `Deployment`.
    pub kind: String,
    /// Its namespace; empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What becomes of it.
    pub what: What,
    /// Fields that differ, if it is there before and after.
    pub fields: Vec<FieldChange>,
    /// Pods that are replaced on each cluster; nothing if none are, or if their number is each
    /// cluster's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<i64>,
    /// Whether pods are replaced.
    pub restarts: bool,
    /// Fields that Kubernetes does not let anybody change: applying it will fail.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub immutable: Vec<String>,
}

/// One field that differs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FieldChange {
    /// `spec.template.spec.containers[web].image`.
    pub path: String,
    /// As it was; nothing if it was not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// As it will be; nothing if it will not be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl ObjectChange {
    /// `Deployment web/nginx`.
    pub fn named(&self) -> String {
        match self.namespace.as_str() {
            "" => format!("{} {}", self.kind, self.name),
            namespace => format!("{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// What differs between two versions, by kind, namespace and name.
pub fn between(old: &[Value], new: &[Value]) -> Vec<ObjectChange> {
    let (old, new) = (by_name(old), by_name(new));
    let keys: BTreeSet<&Key> = old.keys().chain(new.keys()).collect();
    let mut changes = Vec::new();
    for key in keys {
        let (was, is) = (old.get(key).copied(), new.get(key).copied());
        let (_, kind, namespace, name) = key;
        let (what, fields) = match (was, is) {
            (None, _) => (What::Added, Vec::new()),
            (_, None) => (What::Removed, Vec::new()),
            (Some(was), Some(is)) if was == is => continue,
            (Some(was), Some(is)) => (What::Changed, changed_fields(was, is)),
        };
        let restarts = what == What::Changed && runs_pods(kind) && has(&fields, "spec.template");
        changes.push(ObjectChange {
            kind: kind.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
            what,
            pods: is.filter(|_| restarts).and_then(|is| replicas(kind, is)),
            restarts,
            immutable: was.map_or_else(Vec::new, |was| immutable(kind, was, &fields)),
            fields,
        });
    }
    changes
}

/// Group, kind, namespace, name: a new version of an API is no other object.
type Key = (String, String, String, String);

fn by_name(objects: &[Value]) -> BTreeMap<Key, &Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let key = |object: &Value| {
        let api_version = text(&object["apiVersion"]);
        let group = api_version.split_once('/').map_or("", |(group, _)| group).to_owned();
        let metadata = &object["metadata"];
        (group, text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
    };
    objects.iter().map(|object| (key(object), object)).collect()
}

/// Fields of one object that differ.
pub fn changed_fields(was: &Value, is: &Value) -> Vec<FieldChange> {
    let secret = was["kind"] == "Secret" && was["apiVersion"] == "v1";
    let mut found = Vec::new();
    compare(String::new(), Some(was), Some(is), secret, &mut found);
    found
}

fn compare(
    path: String,
    was: Option<&Value>,
    is: Option<&Value>,
    secret: bool,
    found: &mut Vec<FieldChange>,
) {
    if was == is {
        return;
    }
    let hidden = secret && (path.starts_with("data") || path.starts_with("stringData"));
    match (was, is) {
        (Some(Value::Object(was)), Some(Value::Object(is))) => {
            for key in keys(was, is) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(path, was.get(key), is.get(key), secret, found);
            }
        }
        (Some(Value::Array(was)), Some(Value::Array(is))) if !hidden => {
            match (named(was), named(is)) {
                (Some(was), Some(is)) => {
                    let names: BTreeSet<&&str> = was.keys().chain(is.keys()).collect();
                    for name in names {
                        let path = format!("{path}[{name}]");
                        compare(
                            path,
                            was.get(*name).copied(),
                            is.get(*name).copied(),
                            secret,
                            found,
                        );
                    }
                }
                _ => found.push(FieldChange {
                    path,
                    from: Some(short(&Value::Array(was.clone()))),
                    to: Some(short(&Value::Array(is.clone()))),
                }),
            }
        }
        _ => {
            let shown = |value: &Value| if hidden { length(value) } else { short(value) };
            found.push(FieldChange { path, from: was.map(shown), to: is.map(shown) });
        }
    }
}

fn keys<'a>(was: &'a Map<String, Value>, is: &'a Map<String, Value>) -> BTreeSet<&'a String> {
    was.keys().chain(is.keys()).collect()
}

/// The entries of a list by their names, if each has one of its own.
fn named(list: &[Value]) -> Option<BTreeMap<&str, &Value>> {
    let entries: Option<BTreeMap<&str, &Value>> =
        list.iter().map(|entry| Some((entry.get("name")?.as_str()?, entry))).collect();
    entries.filter(|entries| entries.len() == list.len())
}

fn short(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.chars().count() {
        0 => "\"\"".to_owned(),
        count if count <= LONGEST => text,
        _ => format!("{}…", text.chars().take(LONGEST - 1).collect::<String>()),
    }
}

fn length(value: &Value) -> String {
    let bytes = value.as_str().map_or_else(|| value.to_string().len(), str::len);
    format!("({bytes} bytes)")
}

fn runs_pods(kind: &str) -> bool {
    matches!(kind, "Deployment" | "StatefulSet" | "DaemonSet")
}

fn has(fields: &[FieldChange], path: &str) -> bool {
    fields.iter().any(|field| is_within(&field.path, path))
}

fn is_within(path: &str, of: &str) -> bool {
    path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// A DaemonSet has as many pods as a cluster has nodes for it.
pub fn replicas(kind: &str, object: &Value) -> Option<i64> {
    match kind {
        "DaemonSet" => None,
        _ => Some(object["spec"]["replicas"].as_i64().unwrap_or(1)),
    }
}

/// Fields of built-in kinds that an API server refuses to change.
fn immutable(kind: &str, was: &Value, fields: &[FieldChange]) -> Vec<String> {
    let fixed: &[&str] = match kind {
        "Deployment" | "DaemonSet" | "ReplicaSet" => &["spec.selector"],
        "StatefulSet" => &[
            "spec.selector",
            "spec.serviceName",
            "spec.podManagementPolicy",
            "spec.volumeClaimTemplates",
        ],
        "Job" => &["spec.selector", "spec.template", "spec.completionMode"],
        "Service" => &["spec.clusterIP", "spec.clusterIPs"],
        "PersistentVolumeClaim" => &["spec.storageClassName", "spec.volumeName", "spec.selector"],
        "RoleBinding" | "ClusterRoleBinding" => &["roleRef"],
        "StorageClass" => &["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"],
        "ConfigMap" | "Secret" if was["immutable"] == true => &["data", "binaryData", "immutable"],
        _ => &[],
    };
    let fixed = fixed.iter().filter(|path| has(fields, path));
    fixed.map(|path| (*path).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment(image: &str, replicas: i64) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "nginx", "namespace": "web"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "nginx"}},
                "template": {"spec": {"containers": [
                    {"name": "web", "image": image}, {"name": "log", "image": "fluentd:1"}]}}}})
    }

    #[test]
    fn fields_are_named_and_pods_that_restart_are_counted() {
        let changes = between(&[deployment("nginx:1", 3)], &[deployment("nginx:2", 4)]);
        let [change] = &changes[..] else { panic!("{changes:#?}") };
        assert_eq!(change.named(), "Deployment web/nginx");
        let field = |path: &str, from: &str, to: &str| FieldChange {
            path: path.to_owned(),
            from: Some(from.to_owned()),
            to: Some(to.to_owned()),
        };
        let image = "spec.template.spec.containers[web].image";
        let expected = [field("spec.replicas", "3", "4"), field(image, "nginx:1", "nginx:2")];
        assert_eq!(change.fields, expected);
        assert_eq!((change.restarts, change.pods), (true, Some(4)));
        let scaled = between(&[deployment("nginx:1", 3)], &[deployment("nginx:1", 4)]);
        assert!(!scaled[0].restarts, "a scaled Deployment keeps its pods");
        assert_eq!(between(&[deployment("nginx:1", 3)], &[deployment("nginx:1", 3)]), []);
    }

    #[test]
    fn objects_come_and_go() {
        let map = |name: &str| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": "web"}})
        };
        let changes = between(&[map("old"), map("same")], &[map("same"), map("new")]);
        let told: Vec<(&str, What)> =
            changes.iter().map(|change| (change.name.as_str(), change.what)).collect();
        assert_eq!(told, [("new", What::Added), ("old", What::Removed)]);
    }

    #[test]
    fn data_of_a_secret_is_never_shown() {
        let secret = |data: Value| {
            json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "key"}, "data": data})
        };
        let old = secret(json!({"password": "aHVudGVyMg==", "list": "x"}));
        let new = secret(json!({"password": "Y29ycmVjdA==", "more": "aG9yc2U="}));
        let text = serde_json::to_string(&between(&[old], &[new])).unwrap();
        for canary in ["aHVudGVyMg", "Y29ycmVjdA", "aG9yc2U"] {
            assert!(!text.contains(canary), "{text}");
        }
        assert!(text.contains("(12 bytes)") && text.contains("data.more"), "{text}");
    }

    #[test]
    fn what_kubernetes_refuses_to_change_is_said_before() {
        let mut other = deployment("nginx:1", 3);
        other["spec"]["selector"]["matchLabels"]["app"] = json!("other");
        let changes = between(&[deployment("nginx:1", 3)], &[other]);
        assert_eq!(changes[0].immutable, ["spec.selector"]);
        let map = |text: &str, fixed: bool| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a"}, "immutable": fixed, "data": {"a": text}})
        };
        assert_eq!(between(&[map("1", true)], &[map("2", true)])[0].immutable, ["data"]);
        assert!(between(&[map("1", false)], &[map("2", false)])[0].immutable.is_empty());
    }
}
