//! ConfigMap and Secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flagship_base::machinery::status::FieldError;
use serde_json::Value;

use super::super::json::{Field, same};
use super::Findings;
use super::rules::{config_key, immutable};

/// All values of one object together.
const DATA_MAX: usize = 1024 * 1024;
const REDACTED: &str = "<secret contents redacted>";
const SEALED: &str = "field is immutable when `immutable` is set";

pub(super) fn config_map(object: &Field<'_>, out: &mut Findings) {
    let mut size = 0;
    let (data, binary) = (object.get("data"), object.get("binaryData"));
    for (key, field) in data.entries() {
        keyed(key, &field, out);
        if binary.value().get(key).is_some() {
            out.push(field.invalid_as(key, "duplicate of key present in binaryData"));
        }
        size += field.text().len();
    }
    for (key, field) in binary.entries() {
        keyed(key, &field, out);
        match STANDARD.decode(field.text()) {
            Ok(bytes) => size += bytes.len(),
            Err(error) => out.push(field.invalid(illegal(&error))),
        }
    }
    if size > DATA_MAX {
        // Kubernetes names no field here, and prints that as brackets.
        out.push(FieldError::too_long("[]", DATA_MAX));
    }
}

fn keyed(key: &str, field: &Field<'_>, out: &mut Findings) {
    out.extend(config_key(key).into_iter().map(|says| field.invalid_as(key, says)));
}

fn illegal(error: &base64::DecodeError) -> String {
    match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => {
            format!("illegal base64 data at input byte {at}")
        }
        base64::DecodeError::InvalidLength(at) => format!("illegal base64 data at input byte {at}"),
        base64::DecodeError::InvalidPadding => "illegal base64 data".to_owned(),
    }
}

pub(super) fn secret(object: &Field<'_>, out: &mut Findings) {
    let data = object.get("data");
    let mut size = 0;
    for (key, field) in data.entries() {
        keyed(key, &field, out);
        match STANDARD.decode(field.text()) {
            Ok(bytes) => size += bytes.len(),
            Err(error) => out.push(field.invalid_as(REDACTED, illegal(&error))),
        }
    }
    if size > DATA_MAX {
        out.push(data.too_long(DATA_MAX));
    }
    let has = |key: &str| data.value().get(key).is_some();
    let needs = |key: &str, out: &mut Findings| {
        if !has(key) {
            out.push(FieldError::required(format!("data[{key}]"), ""));
        }
    };
    match object.get("type").text() {
        "kubernetes.io/service-account-token" => {
            const OWNER: &str = "kubernetes.io/service-account.name";
            let notes = object.get("metadata").get("annotations");
            if notes.value().get(OWNER).is_none_or(|name| name == "") {
                let path = format!("metadata.annotations[{OWNER}]");
                out.push(FieldError::required(path, ""));
            }
        }
        "kubernetes.io/dockercfg" => docker(&data, ".dockercfg", out),
        "kubernetes.io/dockerconfigjson" => docker(&data, ".dockerconfigjson", out),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            needs("username", out);
            needs("password", out);
        }
        "kubernetes.io/ssh-auth" => needs("ssh-privatekey", out),
        "kubernetes.io/tls" => {
            needs("tls.crt", out);
            needs("tls.key", out);
        }
        _ => {}
    }
}

fn docker(data: &Field<'_>, key: &str, out: &mut Findings) {
    let path = format!("data[{key}]");
    let Some(text) = data.value().get(key).and_then(Value::as_str) else {
        out.push(FieldError::required(path, ""));
        return;
    };
    let bytes = STANDARD.decode(text).unwrap_or_default();
    if let Err(error) = serde_json::from_slice::<Value>(&bytes) {
        out.push(FieldError::invalid(path, REDACTED.into(), error.to_string()));
    }
}

pub(super) fn secret_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    immutable(&new.get("type"), &old.get("type"), out);
    sealed(new, old, &["data"], out);
}

pub(super) fn config_map_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    sealed(new, old, &["data", "binaryData"], out);
}

/// Once `immutable`, neither that nor the data changes.
fn sealed(new: &Field<'_>, old: &Field<'_>, fields: &[&'static str], out: &mut Findings) {
    if !old.get("immutable").is_true() {
        return;
    }
    if !new.get("immutable").is_true() {
        out.push(new.get("immutable").forbidden(SEALED));
    }
    for key in fields {
        if !same(new.get(key).value(), old.get(key).value()) {
            out.push(new.get(key).forbidden(SEALED));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::catalog::Kind;
    use super::super::tests::{on_create, on_update};
    use super::*;
    use serde_json::json;

    fn object(fields: &Value) -> Value {
        let mut object = json!({"metadata": {"name": "a", "namespace": "n"}});
        for (key, value) in fields.as_object().unwrap() {
            object[key] = value.clone();
        }
        object
    }

    #[test]
    fn keys_can_be_file_names() {
        let said = on_create(
            Kind::ConfigMap,
            &object(&json!({"data": {"a b": "", "..": "", "ok.txt": ""}})),
        );
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "data[..]: Invalid value: \"..\": must not be '..'");
        assert!(
            lines[1].starts_with(
                "data[a b]: Invalid value: \"a b\": a valid config key must consist of"
            )
        );
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn there_is_room_for_a_mebibyte() {
        let big = "x".repeat(DATA_MAX + 1);
        assert_eq!(
            on_create(Kind::ConfigMap, &object(&json!({"data": {"a": big}}))),
            "[]: Too long: may not be more than 1048576 bytes"
        );
        let encoded = STANDARD.encode(&big);
        assert_eq!(
            on_create(Kind::Secret, &object(&json!({"data": {"a": encoded}}))),
            "data: Too long: may not be more than 1048576 bytes"
        );
    }

    #[test]
    fn types_of_secrets_have_their_keys() {
        assert_eq!(
            on_create(
                Kind::Secret,
                &object(&json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}))
            ),
            "data[tls.key]: Required value"
        );
        assert_eq!(
            on_create(Kind::Secret, &object(&json!({"type": "kubernetes.io/dockerconfigjson"}))),
            "data[.dockerconfigjson]: Required value"
        );
        assert_eq!(
            on_create(Kind::Secret, &object(&json!({"type": "Opaque", "data": {"a": "?"}}))),
            "data[a]: Invalid value: \"<secret contents redacted>\": illegal base64 data at input byte 0"
        );
    }

    #[test]
    fn what_is_immutable_stays() {
        let old = object(&json!({"immutable": true, "data": {"a": "b"}}));
        assert_eq!(
            on_update(Kind::ConfigMap, &object(&json!({"data": {"a": "c"}})), &old),
            "immutable: Forbidden: field is immutable when `immutable` is set\n\
             data: Forbidden: field is immutable when `immutable` is set"
        );
        let secret = |kind: &str| object(&json!({"type": kind}));
        assert_eq!(
            on_update(Kind::Secret, &secret("a/b"), &secret("Opaque")),
            "type: Invalid value: \"a/b\": field is immutable"
        );
    }
}
