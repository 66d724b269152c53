//! The complaint of Go's decoder when JSON does not fit a built-in kind.
//!
//! Built-in kinds are Go structs, so a wrong type is not a field error (422) but a
//! decoding error (400) that names the Go struct. Only the first one is reported,
//! as Go does. Custom resources never come here: `validate` judges them.

use flagship_base::machinery::bounds::MAX_WALK;
use flagship_base::quantity::Quantity;
use serde_json::Value;

use super::node::{NodeRef, Schema, Type};
use super::path::Path;

/// What Go's JSON decoder would say, if anything, such as `json: cannot unmarshal string
/// into Go struct field DeploymentSpec.spec.replicas of type int32`.
pub fn decode_error(schema: &Schema, value: &Value) -> Option<String> {
    let root = schema.root();
    misfit(value, root, struct_name(root), &Path::Root, 0)
}

fn misfit(
    value: &Value,
    node: NodeRef<'_>,
    owner: &str,
    path: &Path<'_>,
    depth: usize,
) -> Option<String> {
    if depth > MAX_WALK {
        return Some("json: exceeded max depth".to_owned());
    }
    if value.is_null() {
        return None;
    }
    let n = node.node();
    if n.int_or_string || &*n.format == "quantity" {
        return special(value, node, owner, path);
    }
    match (n.kind, value) {
        (Type::Any, _) => None,
        (Type::Object, Value::Object(map)) => map.iter().find_map(|(key, value)| {
            let field = node.field(key)?;
            if node.has_property(key) {
                let path = Path::Field(path, key);
                return misfit(value, field, struct_name(node), &path, depth + 1);
            }
            misfit(value, field, owner, path, depth + 1)
        }),
        // Go's decoder keeps neither indices nor map keys.
        (Type::Array, Value::Array(list)) => {
            let items = node.items()?;
            list.iter().find_map(|value| misfit(value, items, owner, path, depth + 1))
        }
        (Type::String, Value::String(text)) => bad_text(text, &n.format),
        (Type::Boolean, Value::Bool(_)) | (Type::Number, Value::Number(_)) => None,
        (Type::Integer, Value::Number(number)) => {
            let fits = match (number.as_i64(), &*n.format) {
                (Some(i), "int32") => i32::try_from(i).is_ok(),
                (Some(_), _) => true,
                (None, _) => false,
            };
            (!fits).then(|| cannot(&format!("number {number}"), node, owner, path))
        }
        // A raw extension takes anything.
        (Type::Object, _) if n.preserve_unknown && n.properties.is_empty() => None,
        (_, other) => Some(cannot(kind_of(other), node, owner, path)),
    }
}

/// Types with a decoder of their own.
fn special(value: &Value, node: NodeRef<'_>, owner: &str, path: &Path<'_>) -> Option<String> {
    let n = node.node();
    match value {
        Value::String(text) if &*n.format == "quantity" => {
            Quantity::bounded(text).err().map(|why| why.to_string())
        }
        Value::String(_) => None,
        Value::Number(number) if n.int_or_string => {
            let fits = number.as_i64().is_some_and(|i| i32::try_from(i).is_ok());
            (!fits).then(|| {
                format!("json: cannot unmarshal number {number} into Go value of type int32")
            })
        }
        Value::Number(_) => None,
        other => Some(cannot(kind_of(other), node, owner, path)),
    }
}

fn bad_text(text: &str, format: &str) -> Option<String> {
    match format {
        "date-time" if !text.is_empty() && text.parse::<jiff::Timestamp>().is_err() => {
            let layout = "2006-01-02T15:04:05Z07:00";
            Some(format!("parsing time {text:?} as {layout:?}: cannot parse {text:?} as \"2006\""))
        }
        "byte" => {
            use base64::Engine;
            let decoded = base64::engine::general_purpose::STANDARD.decode(text);
            decoded.err().map(|error| {
                let at = match error {
                    base64::DecodeError::InvalidByte(at, _)
                    | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                    _ => text.len() / 4 * 4,
                };
                format!("illegal base64 data at input byte {at}")
            })
        }
        _ => None,
    }
}

fn cannot(what: &str, node: NodeRef<'_>, owner: &str, path: &Path<'_>) -> String {
    let wanted = go_type(node, 0);
    if path.is_root() {
        return format!("json: cannot unmarshal {what} into Go value of type {wanted}");
    }
    format!("json: cannot unmarshal {what} into Go struct field {owner}.{path} of type {wanted}")
}

fn struct_name(node: NodeRef<'_>) -> &str {
    let name = node.node().go_type.as_deref().unwrap_or("");
    name.rsplit('.').next().unwrap_or(name)
}

fn go_type(node: NodeRef<'_>, depth: usize) -> String {
    let n = node.node();
    if let Some(name) = &n.go_type {
        return name.to_string();
    }
    let inner = |node: Option<NodeRef<'_>>| match node {
        Some(node) if depth < 8 => go_type(node, depth + 1),
        _ => "interface {}".to_owned(),
    };
    match n.kind {
        Type::Any => "interface {}".to_owned(),
        Type::Object => format!("map[string]{}", inner(node.values())),
        Type::Array => format!("[]{}", inner(node.items())),
        Type::String if &*n.format == "byte" => "[]uint8".to_owned(),
        Type::String => "string".to_owned(),
        Type::Integer if &*n.format == "int32" => "int32".to_owned(),
        Type::Integer => "int64".to_owned(),
        Type::Number => "float64".to_owned(),
        Type::Boolean => "bool".to_owned(),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;
    use serde_json::json;

    #[test]
    fn a_wrong_type_is_told_in_gos_words() {
        let deployment = builtin("apps", "v1", "Deployment").unwrap();
        let container = |c: Value| json!({"spec": {"template": {"spec": {"containers": [c]}}}});
        for (object, expected) in [
            (
                json!({"spec": {"replicas": "3"}}),
                "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                json!({"spec": {"replicas": 1.5}}),
                "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                json!({"metadata": {"labels": {"a": 1}}}),
                "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
            ),
            (
                json!({"spec": {"template": []}}),
                "json: cannot unmarshal array into Go struct field DeploymentSpec.spec.template of type v1.PodTemplateSpec",
            ),
            (
                json!({"spec": {"template": {"spec": {"containers": {}}}}}),
                "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
            ),
            (
                container(json!({"name": true})),
                "json: cannot unmarshal bool into Go struct field Container.spec.template.spec.containers.name of type string",
            ),
            (
                container(json!({"resources": {"limits": {"cpu": "much"}}})),
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
            (json!(7), "json: cannot unmarshal number into Go value of type v1.Deployment"),
        ] {
            assert_eq!(decode_error(&deployment, &object).as_deref(), Some(expected), "{object}");
        }
        let fine =
            container(json!({"name": "c", "resources": {"limits": {"cpu": 2, "memory": "1Gi"}}}));
        assert_eq!(decode_error(&deployment, &fine), None);
        assert_eq!(decode_error(&deployment, &json!({"metadata": null, "spec": null})), None);
    }

    #[test]
    fn secrets_hold_base64() {
        let secret = builtin("", "v1", "Secret").unwrap();
        let object = json!({"data": {"k": "not base64"}});
        let says = decode_error(&secret, &object);
        assert_eq!(says.as_deref(), Some("illegal base64 data at input byte 3"));
        assert_eq!(decode_error(&secret, &json!({"data": {"k": "aGk="}})), None);
    }

    #[test]
    fn quantities_are_recognised() {
        let quota = builtin("", "v1", "ResourceQuota").unwrap();
        let says = |text: &str| decode_error(&quota, &json!({"spec": {"hard": {"cpu": text}}}));
        for good in ["1", "0.5", "100m", "1Gi", "-5", "1e3", "2E-3", ".5", "1.", "1e4000"] {
            assert_eq!(says(good), None, "{good}");
        }
        for bad in ["", "m", "1x", "1.2.3", "1ee3", "Gi", "1e", "+"] {
            let why = Quantity::bounded(bad).unwrap_err().to_string();
            assert_eq!(says(bad), Some(why), "{bad}");
        }
    }
}
