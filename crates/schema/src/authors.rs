//! What the author of a CustomResourceDefinition hears.

use serde_json::{Value, json};

use super::validate_crd;

fn crd(schema: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn with_x(schema: &Value) -> Value {
    crd(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": schema}}}}),
    )
}

fn says(crd: &Value) -> Vec<String> {
    validate_crd(crd).iter().map(ToString::to_string).collect()
}

const X: &str = "spec.validation.openAPIV3Schema.properties[spec].properties[x]";

/// Compared with Kubernetes 1.34's own validation, word for word.
#[test]
fn authors_hear_what_kubernetes_would_say() {
    let rule = |kind: Value, rule: Value| {
        let mut schema = kind;
        schema["x-kubernetes-validations"] = json!([rule]);
        schema
    };
    for (schema, expected) in [
        (json!({}), vec![".type: Required value: must not be empty for specified object fields"]),
        (json!({"type": "array"}), vec![".items: Required value: must be specified"]),
        (
            json!({"type": "strin"}),
            vec![
                r#".type: Unsupported value: "strin": supported values: "array", "boolean", "integer", "number", "object", "string""#,
            ],
        ),
        (
            json!({"type": "string", "pattern": "("}),
            vec![
                r#".pattern: Invalid value: "(": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`"#,
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            vec![
                ".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
            ],
        ),
        (
            json!({"type": "string", "anyOf": [{"type": "string"}]}),
            vec![".anyOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
                "items": {"type": "object", "properties": {"n": {"type": "string"}}}}),
            vec![
                ".items.properties[n].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ],
        ),
        (
            json!({"type": "integer", "default": "x"}),
            vec![
                r#".default: Invalid value: "string":  in body must be of type integer: "string""#,
            ],
        ),
        (
            json!({"type": "object", "default": {"q": 1}}),
            vec![r#".default: Invalid value: {"q":1}: must not have unknown fields"#],
        ),
        (
            json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}}),
            vec![
                ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ],
        ),
        (
            json!({"type": "array", "items": rule(json!({"type": "string"}), json!({"rule": "self == oldSelf"}))}),
            vec![
                r#".items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within spec.validation.openAPIV3Schema.properties[spec].properties[x]"#,
            ],
        ),
        (
            rule(
                json!({"type": "object", "properties": {"a": {"type": "string"}}}),
                json!({"rule": "self.foo == 1", "message": "no"}),
            ),
            vec![
                ".x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"self.foo == 1\",\"Message\":\"no\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}: compilation failed: ERROR: <input>:1:5: undefined field 'foo'\n | self.foo == 1\n | ....^",
            ],
        ),
        (
            rule(json!({"type": "integer"}), json!({"rule": "self > 1", "optionalOldSelf": true})),
            vec![
                ".x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule",
            ],
        ),
        (
            rule(
                json!({"type": "integer", "default": 1}),
                json!({"rule": "self > 1", "message": "small"}),
            ),
            vec![r#".default: Invalid value: "integer": small"#],
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            vec![],
        ),
    ] {
        let expected: Vec<String> = expected.iter().map(|e| format!("{X}{e}")).collect();
        assert_eq!(says(&with_x(&schema)), expected, "{schema}");
    }
}

#[test]
fn names_versions_and_columns_are_checked() {
    let fine = || crd(&json!({"type": "object", "properties": {"spec": {"type": "object"}}}));
    assert_eq!(says(&fine()), [""; 0]);
    let mut two = fine();
    let mut second = two["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({});
    two["spec"]["versions"].as_array_mut().unwrap().push(second);
    let found = says(&two);
    assert_eq!(
        found[0],
        "spec.versions[1].schema.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields"
    );
    assert!(
        found[1].ends_with("must have exactly one version marked as storage version"),
        "{found:?}"
    );
    for (pointer, value, expected) in [
        (
            "/metadata/name",
            json!("x"),
            r#"metadata.name: Invalid value: "x": must be spec.names.plural+"."+spec.group"#,
        ),
        (
            "/spec/scope",
            json!("Foo"),
            r#"spec.scope: Unsupported value: "Foo": supported values: "Cluster", "Namespaced""#,
        ),
        (
            "/spec/names/listKind",
            json!("Thing"),
            r#"spec.names.listKind: Invalid value: "Thing": kind and listKind may not be the same"#,
        ),
        (
            "/spec/versions/0/schema",
            json!(null),
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ),
    ] {
        let mut broken = fine();
        *broken.pointer_mut(pointer).unwrap() = value;
        assert_eq!(says(&broken), [expected]);
    }
    let mut columns = fine();
    columns["spec"]["versions"][0]["additionalPrinterColumns"] =
        json!([{"name": "A", "type": "text", "jsonPath": "spec"}]);
    assert_eq!(
        says(&columns),
        [
            r#"spec.additionalPrinterColumns[0].type: Invalid value: "text": must be one of boolean,date,integer,number,string"#,
            r#"spec.additionalPrinterColumns[0].JSONPath: Invalid value: "spec": must be a simple json path starting with ."#,
        ]
    );
}

#[test]
fn nonsense_is_refused_without_panic() {
    let mut deep = json!({"type": "string"});
    for _ in 0..300 {
        deep = json!({"type": "object", "properties": {"d": deep}});
    }
    assert_eq!(
        says(&with_x(&deep)),
        [
            r#"spec.validation.openAPIV3Schema: Invalid value: "": schema nests deeper than 128 levels"#
        ]
    );
    for nonsense in [
        json!(null),
        json!([]),
        json!({"spec": 1}),
        json!({"spec": {"versions": [1, {}, {"schema": 3}], "names": []}}),
    ] {
        assert!(!validate_crd(&nonsense).is_empty());
    }
}
