//! The three operations: what they do, and every text of a failure.

use flagship_api::overrides::JsonPatchOperator::{self, Add, Remove, Replace};
use serde_json::{Value, json};

use crate::overrides::patch::apply;

fn outcome(operator: JsonPatchOperator, path: &str, value: Value) -> Result<Value, String> {
    let mut document = json!({
        "metadata": {"name": "cm", "labels": {"a/b": "1", "t~": "2"}, "annotations": null},
        "list": [10, 20, 30],
    });
    apply(&mut document, operator, path, value)?;
    Ok(document)
}

#[test]
fn members_are_added_replaced_and_removed() {
    for (operator, path, pointer, result) in [
        (Add, "/metadata/labels/new", "/metadata/labels/new", json!("v")),
        (Add, "/metadata/labels/a~1b", "/metadata/labels/a~1b", json!("v")),
        (Add, "/metadata/labels", "/metadata/labels", json!("v")),
        (Replace, "/metadata/labels/t~0", "/metadata/labels/t~0", json!("v")),
        (Replace, "/metadata/annotations", "/metadata/annotations", json!("v")),
        (Add, "/list/-", "/list", json!([10, 20, 30, "v"])),
        (Add, "/list/0", "/list", json!(["v", 10, 20, 30])),
        (Add, "/list/3", "/list", json!([10, 20, 30, "v"])),
        (Add, "/list/-1", "/list", json!([10, 20, 30, "v"])),
        (Add, "/list/-4", "/list", json!(["v", 10, 20, 30])),
        (Replace, "/list/1", "/list", json!([10, "v", 30])),
        (Replace, "/list/-1", "/list", json!([10, 20, "v"])),
        (Remove, "/list/-3", "/list", json!([20, 30])),
        (Remove, "/list/2", "/list", json!([10, 20])),
        (Add, "", "", json!("v")),
    ] {
        let document = outcome(operator, path, json!("v")).unwrap();
        assert_eq!(document.pointer(pointer), Some(&result), "{operator:?} {path}");
    }
    let document = outcome(Remove, "/metadata/labels/a~1b", Value::Null).unwrap();
    assert_eq!(document.pointer("/metadata/labels"), Some(&json!({"t~": "2"})));
}

#[test]
fn every_failure_has_its_words() {
    for (operator, path, text) in [
        (
            Add,
            "/metadata/annotations/x",
            r#"add operation does not apply: doc is missing path: "/metadata/annotations/x": missing value"#,
        ),
        (
            Add,
            "/spec/a/b",
            r#"add operation does not apply: doc is missing path: "/spec/a/b": missing value"#,
        ),
        (
            Add,
            "/metadata/name/x",
            r#"add operation does not apply: doc is missing path: "/metadata/name/x": missing value"#,
        ),
        (
            Add,
            "spec",
            r#"add operation does not apply: doc is missing path: "spec": missing value"#,
        ),
        (
            Add,
            "/list/4",
            "error in add for path: '/list/4': Unable to access invalid index: 4: invalid index referenced",
        ),
        (
            Add,
            "/list/-5",
            "error in add for path: '/list/-5': Unable to access invalid index: -5: invalid index referenced",
        ),
        (
            Add,
            "/list/x",
            r#"error in add for path: '/list/x': strconv.Atoi: parsing "x": invalid syntax"#,
        ),
        (
            Remove,
            "/spec/a",
            r#"remove operation does not apply: doc is missing path: "/spec/a": missing value"#,
        ),
        (Remove, "", r#"remove operation does not apply: doc is missing path: "": missing value"#),
        (
            Remove,
            "/metadata/labels/x",
            "error in remove for path: '/metadata/labels/x': unable to remove nonexistent key: x: missing value",
        ),
        (
            Remove,
            "/list/3",
            "error in remove for path: '/list/3': Unable to access invalid index: 3: invalid index referenced",
        ),
        (
            Replace,
            "/spec/a",
            "replace operation does not apply: doc is missing path: /spec/a: missing value",
        ),
        (
            Replace,
            "/metadata/labels/x",
            "replace operation does not apply: doc is missing key: /metadata/labels/x: missing value",
        ),
        (
            Replace,
            "/list/-",
            "replace operation does not apply: doc is missing key: /list/-: missing value",
        ),
        (
            Replace,
            "/list/9223372036854775807",
            "replace operation does not apply: doc is missing key: /list/9223372036854775807: missing value",
        ),
    ] {
        assert_eq!(
            outcome(operator, path, json!("v")),
            Err(text.to_owned()),
            "{operator:?} {path}"
        );
    }
}

#[test]
fn patches_cannot_grow_a_document_no_reader_could_follow() {
    let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    assert!(outcome(Add, "/deep", deep(127)).is_ok());
    assert_eq!(
        outcome(Add, "/deep", deep(128)),
        Err("add operation does not apply: path \"/deep\" leads deeper than 128 levels".to_owned())
    );
}
