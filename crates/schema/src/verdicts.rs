//! What structural validation says, keyword by keyword.

use serde_json::{Value, json};

use super::Schema;
use super::path::Path;
use super::validate::{go_float, structure};

fn findings(schema: &Value, value: &Value) -> Vec<String> {
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "object", "properties": {"x": schema}}}});
    let schema = Schema::from_openapi(&schema).unwrap();
    let object = json!({"spec": {"x": value}});
    structure(&object, None, schema.root(), &Path::Root).iter().map(ToString::to_string).collect()
}

#[test]
fn every_keyword_complains_in_kubernetes_words() {
    let cases = [
        (
            json!({"type": "integer"}),
            json!("a"),
            r#"spec.x: Invalid value: "string": spec.x in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "integer"}),
            json!(1.5),
            r#"spec.x: Invalid value: "number": spec.x in body must be of type integer: "number""#,
        ),
        (
            json!({"type": "string"}),
            json!(null),
            r#"spec.x: Invalid value: "null": spec.x in body must be of type string: "null""#,
        ),
        (
            json!({"type": "string"}),
            json!({}),
            r#"spec.x: Invalid value: "object": spec.x in body must be of type string: "object""#,
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            json!([1]),
            r#"spec.x[0]: Invalid value: "integer": spec.x[0] in body must be of type string: "integer""#,
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"k": 1}),
            r#"spec.x.k: Invalid value: "integer": spec.x.k in body must be of type string: "integer""#,
        ),
        (
            json!({"type": "string", "pattern": "^[a-z0-9]+$"}),
            json!("A"),
            r#"spec.x: Invalid value: "A": spec.x in body should match '^[a-z0-9]+$'"#,
        ),
        (
            json!({"type": "string", "maxLength": 3}),
            json!("abcd"),
            "spec.x: Too long: may not be more than 3 bytes",
        ),
        (
            json!({"type": "string", "maxLength": 1}),
            json!("ab"),
            "spec.x: Too long: may not be more than 1 byte",
        ),
        (
            json!({"type": "string", "minLength": 1}),
            json!(""),
            r#"spec.x: Invalid value: "": spec.x in body should be at least 1 chars long"#,
        ),
        (
            json!({"type": "string", "enum": ["A", "B"]}),
            json!("X"),
            r#"spec.x: Unsupported value: "X": supported values: "A", "B""#,
        ),
        (
            json!({"type": "integer", "enum": [1, 2]}),
            json!(3),
            r#"spec.x: Unsupported value: 3: supported values: "1", "2""#,
        ),
        (
            json!({"type": "integer", "minimum": 1}),
            json!(0),
            "spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1",
        ),
        (
            json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true}),
            json!(1),
            "spec.x: Invalid value: 1: spec.x in body should be greater than 1",
        ),
        (
            json!({"type": "integer", "maximum": 100}),
            json!(101),
            "spec.x: Invalid value: 101: spec.x in body should be less than or equal to 100",
        ),
        (
            json!({"type": "number", "maximum": 1.5, "exclusiveMaximum": true}),
            json!(1.5),
            "spec.x: Invalid value: 1.5: spec.x in body should be less than 1.5",
        ),
        (
            json!({"type": "integer", "multipleOf": 5}),
            json!(7),
            "spec.x: Invalid value: 7: spec.x in body should be a multiple of 5",
        ),
        (
            json!({"type": "array", "maxItems": 1, "items": {"type": "integer"}}),
            json!([1, 2]),
            "spec.x: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "array", "maxItems": 2, "items": {"type": "integer"}}),
            json!([1, 2, 3]),
            "spec.x: Too many: 3: must have at most 2 items",
        ),
        (
            json!({"type": "array", "minItems": 1, "items": {"type": "integer"}}),
            json!([]),
            "spec.x: Invalid value: 0: spec.x in body should have at least 1 items",
        ),
        (
            json!({"type": "object", "minProperties": 1}),
            json!({}),
            "spec.x: Invalid value: 0: spec.x in body should have at least 1 properties",
        ),
        (
            json!({"type": "object", "maxProperties": 0}),
            json!({"a": 1}),
            "spec.x: Too many: 1: must have at most 0 items",
        ),
        (json!({"type": "object", "required": ["a"]}), json!({}), "spec.x.a: Required value"),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("x"),
            r#"spec.x: Invalid value: "x": spec.x in body must be of type date-time: "x""#,
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!(5),
            r#"spec.x: Invalid value: "int64": spec.x in body must be of type date-time: "int64""#,
        ),
        (
            json!({"type": "object", "additionalProperties": false}),
            json!({"k": 1}),
            r#"spec.x: Invalid value: "k": spec.x.k in body is a forbidden property"#,
        ),
        (
            json!({"type": "string", "not": {"enum": ["a"]}}),
            json!("a"),
            r#"<nil>: Invalid value: "": "spec.x" must not validate the schema (not)"#,
        ),
    ];
    for (schema, value, expected) in cases {
        assert_eq!(findings(&schema, &value), [expected], "{schema} {value}");
    }
}

#[test]
fn values_within_the_rules_pass() {
    for (schema, value) in [
        (json!({"type": "integer"}), json!(1.0)),
        (json!({"type": "integer", "format": "int32"}), json!(5_000_000_000_i64)),
        (json!({"type": "number"}), json!(1)),
        (json!({"type": "string", "nullable": true}), json!(null)),
        (json!({"type": "string", "maxLength": 2}), json!("äö")),
        (json!({"x-kubernetes-int-or-string": true}), json!("50%")),
        (json!({"x-kubernetes-int-or-string": true}), json!(5)),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), json!([{"a": 1}])),
        (json!({"type": "string", "format": "no-such-format"}), json!("x")),
    ] {
        assert_eq!(findings(&schema, &value), [""; 0], "{schema} {value}");
    }
}

#[test]
fn an_int_or_string_is_neither_bool_nor_fraction() {
    let schema = json!({
        "x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": "^(100|[1-9][0-9]?)%$",
    });
    assert_eq!(
        findings(&schema, &json!(true)),
        [
            r#"spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean""#,
            r#"<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)"#,
            r#"spec.x: Invalid value: "boolean": spec.x in body must be of type integer: "boolean""#,
        ]
    );
    assert_eq!(
        findings(&schema, &json!("101%")),
        [r#"spec.x: Invalid value: "101%": spec.x in body should match '^(100|[1-9][0-9]?)%$'"#]
    );
}

#[test]
fn one_of_reports_the_closest_branch() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    assert_eq!(
        findings(&schema, &json!({})),
        [
            r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid"#,
            "spec.x.a: Required value",
        ]
    );
    assert_eq!(
        findings(&schema, &json!({"a": "", "b": ""})),
        [
            r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives"#
        ]
    );
    assert_eq!(findings(&schema, &json!({"a": ""})), [""; 0]);
    let all = json!({"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 3}]});
    assert_eq!(
        findings(&all, &json!(4)),
        [
            "spec.x: Invalid value: 4: spec.x in body should be less than or equal to 3",
            r#"<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf)"#,
        ]
    );
}

#[test]
fn what_did_not_change_is_forgiven() {
    let schema = Schema::from_openapi(&json!({"type": "object", "properties": {
        "a": {"type": "integer", "minimum": 5},
        "list": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["n"], "items": {"type": "object", "properties": {
                "n": {"type": "string"}, "v": {"type": "integer", "minimum": 5}}}},
    }}))
    .unwrap();
    let old = json!({"a": 1, "list": [{"n": "x", "v": 1}]});
    let new = json!({"a": 1, "list": [{"n": "y", "v": 2}, {"n": "x", "v": 1}]});
    let found: Vec<String> = structure(&new, Some(&old), schema.root(), &Path::Root)
        .iter()
        .map(|e| e.path.clone())
        .collect();
    assert_eq!(found, ["list[0].v"]);
}

#[test]
fn floats_look_as_in_go() {
    for (number, text) in [
        (1e6, "1e+06"),
        (123456789.0, "1.23456789e+08"),
        (1.5, "1.5"),
        (1e-5, "1e-05"),
        (100000.0, "100000"),
    ] {
        assert_eq!(go_float(number), text);
    }
}
