//! Paths of a document: enough to find a kind by its resource, and to see that the server
//! validates fields and knows dry runs.

use serde_json::{Map, Value, json};

use crate::auth::Review;
use crate::registry::Kind;

/// What every write may be told.
const WRITE: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];

/// Adds the paths of one version of a kind.
pub(super) fn add(paths: &mut Map<String, Value>, kind: &Kind, version: usize, schema: &str) {
    let gv = &kind.versions[version].gv;
    let root = match gv.group.as_str() {
        "" => format!("/api/{}", gv.version),
        _ => format!("/apis/{gv}"),
    };
    let gvk = json!({"group": gv.group, "version": gv.version, "kind": kind.kind});
    let operation = |action: &str, verb: &str, names: &[&str]| {
        let id = format!("{verb}{}{}", capital(&gv.version), kind.kind);
        operation(&id, action, &gvk, schema, names)
    };
    const LIST: [&str; 6] =
        ["continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "watch"];
    let collection = json!({
        "get": operation("list", "list", &LIST),
        "post": operation("post", "create", &WRITE),
        "delete": operation("deletecollection", "deleteCollection", &LIST),
    });
    let one = json!({
        "get": operation("get", "read", &[]),
        "put": operation("put", "replace", &WRITE),
        "patch": operation("patch", "patch", &["dryRun", "fieldManager", "fieldValidation", "force"]),
        "delete": operation("delete", "delete", &["dryRun", "gracePeriodSeconds", "propagationPolicy"]),
    });
    let within = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    let place = format!("{root}{within}/{}", kind.plural);
    paths.insert(format!("{place}/{{name}}"), one);
    paths.insert(place, collection);
    if kind.namespaced {
        let all = json!({"get": operation("list", "listForAllNamespaces", &LIST)});
        paths.insert(format!("{root}/{}", kind.plural), all);
    }
}

/// Adds the one path of a kind that is answered and never stored.
pub(super) fn add_review(paths: &mut Map<String, Value>, review: &Review, schema: &str) {
    let gvk = json!({"group": review.group, "version": "v1", "kind": review.kind});
    let within = if review.namespaced { "/namespaces/{namespace}" } else { "" };
    let post = operation(&format!("createV1{}", review.kind), "post", &gvk, schema, &WRITE);
    let path = format!("/apis/{}/v1{within}/{}", review.group, review.plural);
    paths.insert(path, json!({"post": post}));
}

fn operation(id: &str, action: &str, gvk: &Value, schema: &str, names: &[&str]) -> Value {
    let parameters: Vec<Value> = names.iter().map(|name| query(name)).collect();
    json!({
        "operationId": id,
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "content": {"application/json": {
            "schema": {"$ref": format!("#/components/schemas/{schema}")},
        }}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk,
    })
}

fn query(name: &str) -> Value {
    let kind = match name {
        "force" | "watch" => "boolean",
        "limit" | "gracePeriodSeconds" => "integer",
        _ => "string",
    };
    json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}
