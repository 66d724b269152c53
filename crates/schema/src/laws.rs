//! What holds for every schema and every object.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Compiled, builtin, decode_error, read_json, validate_crd};

fn value(depth: u32) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-3_i64..9).prop_map(Value::from),
        "[a-cA-Z0-9%äö._/-]{0,6}".prop_map(Value::from),
        prop_oneof![Just("2024-01-01T00:00:00Z"), Just("1h"), Just("aGk="), Just("v1")]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(depth, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

/// Few names, so that objects and schemas meet.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("a"),
        Just("b"),
        Just("c"),
        Just("spec"),
        Just("metadata"),
        Just("name"),
        Just("kind"),
        Just("apiVersion"),
        Just("namespace"),
        Just("x-y"),
        Just("__")
    ]
    .prop_map(str::to_owned)
}

fn scalar_schema() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "string", "nullable": true, "default": "d"})),
        Just(json!({"type": "string", "maxLength": 2, "pattern": "^[a-z]*$"})),
        Just(json!({"type": "string", "format": "date-time"})),
        Just(json!({"type": "string", "enum": ["a", "b"], "default": "a"})),
        Just(json!({"type": "integer", "minimum": 0, "maximum": 5, "default": 3})),
        Just(json!({"type": "number", "multipleOf": 0.5})),
        Just(json!({"type": "boolean"})),
        Just(
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]})
        ),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        Just(
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true})
        ),
        Just(json!({"type": "object", "additionalProperties": false})),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    scalar_schema().prop_recursive(4, 24, 4, |inner| {
        let rule = prop_oneof![
            Just(json!([])),
            Just(json!([{"rule": "self == self"}])),
            Just(json!([{"rule": "self == oldSelf", "message": "fixed"}])),
        ];
        let object = (prop::collection::btree_map(name(), inner.clone(), 0..5), any::<bool>(), rule.clone())
            .prop_map(|(fields, required, rules)| {
                let names: Vec<String> =
                    fields.keys().filter(|_| required).take(1).cloned().collect();
                let fields: Map<String, Value> = fields.into_iter().collect();
                json!({"type": "object", "properties": fields, "required": names, "x-kubernetes-validations": rules})
            });
        let list_type = prop_oneof![Just("atomic"), Just("set"), Just("map")];
        let list = (inner.clone(), list_type, rule).prop_map(|(items, kind, rules)| {
            json!({"type": "array", "items": items, "maxItems": 3, "x-kubernetes-list-type": kind,
                "x-kubernetes-list-map-keys": ["a"], "x-kubernetes-validations": rules})
        });
        let map = inner.clone().prop_map(|values| json!({"type": "object", "additionalProperties": values}));
        let branches = (inner.clone(), inner).prop_map(|(a, b)| json!({"type": "object", "oneOf": [a, b], "not": {"required": ["a"]}}));
        prop_oneof![4 => object, 2 => list, 2 => map, 1 => branches]
    })
}

/// A compiled schema whose root is an object.
fn compiled() -> impl Strategy<Value = Compiled> {
    prop::collection::btree_map(name(), schema(), 0..4).prop_map(|fields| {
        let fields: Map<String, Value> = fields.into_iter().collect();
        let schema = json!({"type": "object", "properties": fields});
        Compiled::from_crd_version(&schema).unwrap_or_else(|e| panic!("{e:?} in {schema}"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn pruning_and_defaulting_settle_at_once(compiled in compiled(), object in value(5)) {
        let mut pruned = object;
        compiled.prune(&mut pruned);
        prop_assert_eq!(compiled.unknown_fields(&pruned), Vec::<String>::new());
        let mut again = pruned.clone();
        compiled.prune(&mut again);
        prop_assert_eq!(&again, &pruned);

        let mut defaulted = pruned;
        compiled.apply_defaults(&mut defaulted);
        let mut again = defaulted.clone();
        compiled.apply_defaults(&mut again);
        prop_assert_eq!(&again, &defaulted);
    }

    #[test]
    fn nothing_makes_validation_panic(compiled in compiled(), new in value(5), old in value(5)) {
        let prepare = |mut object: Value| {
            compiled.prune(&mut object);
            compiled.apply_defaults(&mut object);
            object
        };
        compiled.validate(&new, None);
        compiled.validate(&new, Some(&old));
        compiled.validate_status(&new, &old);
        let (new, old) = (prepare(new), prepare(old));
        compiled.validate(&new, Some(&old));
        for error in compiled.validate(&old, Some(&old)) {
            prop_assert!(error.detail != "fixed", "{} although nothing changed", error);
        }
    }

    #[test]
    fn any_json_is_a_schema_that_can_be_judged(schema in value(6), object in value(3)) {
        if let Ok(compiled) = Compiled::from_crd_version(&schema) {
            compiled.validate(&object, Some(&object));
        }
        validate_crd(&schema);
        validate_crd(&json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}));
    }

    #[test]
    fn built_in_kinds_take_anything_without_panic(object in value(6)) {
        for (group, kind) in [("", "Pod"), ("apps", "Deployment"), ("apiextensions.k8s.io", "CustomResourceDefinition")] {
            let schema = builtin(group, "v1", kind).expect("in the table");
            let mut object = json!({"metadata": object, "spec": object});
            decode_error(&schema, &object);
            schema.prune(&mut object);
            prop_assert!(schema.unknown_fields(&object).is_empty());
        }
    }

    #[test]
    fn reading_json_loses_nothing(object in value(6)) {
        let text = object.to_string();
        let read = read_json(text.as_bytes()).expect("just printed");
        prop_assert_eq!(read.value, serde_json::from_str::<Value>(&text).expect("just printed"));
        prop_assert!(read.duplicates.is_empty());
    }
}

#[test]
fn a_hundred_thousand_keys_and_elements_are_judged_in_one_pass() {
    let compiled = Compiled::from_crd_version(&json!({"type": "object", "properties": {
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
    }}))
    .unwrap();
    let map: Map<String, Value> = (0..100_000).map(|i| (format!("k{i}"), json!(i))).collect();
    let mut object =
        json!({"map": map, "list": (0..100_000).collect::<Vec<_>>(), "junk": [[[[[]]]]]});
    compiled.prune(&mut object);
    let found = compiled.validate(&object, None);
    // Nobody reads past a few hundred findings.
    assert!((200..250).contains(&found.len()), "{}", found.len());
}

#[test]
fn patterns_cannot_explode() {
    let schema = json!({"type": "object", "properties": {
        "bomb": {"type": "string", "pattern": "((a{100}){100}){100}"},
        "slow": {"type": "string", "pattern": "^(a+)+$"},
    }});
    let compiled = Compiled::from_crd_version(&schema).unwrap();
    let object = json!({"bomb": "a", "slow": format!("{}b", "a".repeat(50_000))});
    let found: Vec<String> =
        compiled.validate(&object, None).iter().map(|e| e.path.clone()).collect();
    assert_eq!(found, ["bomb", "slow"]);
}
