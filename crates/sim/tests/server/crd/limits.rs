//! Every limit of every field, from both sides.
//!
//! The storage version of each kind is walked. For each limit of each place a smallest
//! object that reaches there is sent twice: once with a value just inside the limit, once
//! just outside. Status goes through its own path.

use std::collections::{BTreeMap, BTreeSet};

use expect_test::expect;
use serde_json::{Map, Value, json};

use crate::crd::fleet::{Fleet, Version};
use crate::crd::samples;
use crate::crd::spots::{self, Spot};
use crate::crd::wordings::{self, Field, RULES_UNCHECKED};

/// One object to send, and what should be wrong with it; nothing when it is accepted.
struct Case {
    limit: String,
    change: Change,
    wrong: Vec<String>,
}

/// What is done to the smallest object at the place.
enum Change {
    Set(Value),
    Remove(String),
}

// checklist 20.44
#[tokio::test]
async fn every_limit_of_every_field_holds() {
    let fleet = Fleet::new().await;
    let mut counted: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut surprises = Vec::new();
    for kind in fleet.kinds.iter() {
        let version = kind.storage();
        let bare = fleet.create(version, samples::along(version.schema(), &[])).await.ok(201);
        let has_rules = has_rules(version.schema());
        let mut sent = BTreeSet::new();
        for spot in spots::all(version.schema()) {
            let never = never_valid(&spot);
            for case in cases(version, &spot) {
                let counts = counted.entry(case.limit.clone()).or_default();
                let accepted = case.wrong.is_empty();
                *(if accepted { &mut counts.0 } else { &mut counts.1 }) += 1;
                let mut expected = case.wrong;
                if !expected.iter().any(|line| wordings::hides_rules(line)) {
                    expected.extend(never.clone());
                } else if has_rules {
                    expected.push(RULES_UNCHECKED.to_owned());
                }
                let object = changed(version, &spot, case.change, accepted);
                if accepted && !sent.insert(object.to_string()) {
                    continue; // one object may be just inside several limits
                }
                let reply = if spot.is_status() && version.has_status() && !accepted {
                    fleet.put(version, bare.clone(), object.clone()).await
                } else {
                    fleet.create(version, object.clone()).await
                };
                let found = if reply.code < 300 || reply.code == 422 {
                    reply.causes(version)
                } else {
                    vec![reply.body.to_string()]
                };
                if found != expected {
                    surprises.push(format!(
                        "{} {} {}: {object}\n  expected {expected:#?}\n  found {found:#?}",
                        version.label(),
                        spot.fact(),
                        case.limit,
                    ));
                }
            }
        }
    }
    assert!(surprises.is_empty(), "{} surprises\n{}", surprises.len(), surprises.join("\n"));
    let table: String = counted
        .iter()
        .map(|(limit, (accepted, rejected))| {
            format!("{limit}: {accepted} accepted, {rejected} rejected\n")
        })
        .collect();
    expect![[r#"
        enum: 419 accepted, 167 rejected
        format: 167 accepted, 92 rejected
        maxItems: 80 accepted, 80 rejected
        maxLength: 145 accepted, 145 rejected
        maxProperties: 2 accepted, 2 rejected
        maximum: 8 accepted, 8 rejected
        minItems: 14 accepted, 14 rejected
        minLength: 47 accepted, 47 rejected
        minProperties: 2 accepted, 2 rejected
        minimum: 63 accepted, 63 rejected
        pattern: 116 accepted, 116 rejected
        required: 3 accepted, 678 rejected
        type: 1641 accepted, 1641 rejected
        x-kubernetes-int-or-string: 32 accepted, 16 rejected
        x-kubernetes-list-type: 32 accepted, 32 rejected
    "#]]
    .assert_eq(&table);
}

fn has_rules(schema: &Value) -> bool {
    spots::all(schema).iter().any(|spot| !spot.schema["x-kubernetes-validations"].is_null())
}

/// A task before a stage cannot wait, so its `waitTime` breaks a rule whatever it says.
fn never_valid(spot: &Spot<'_>) -> Vec<String> {
    let (field, fact) = (spot.field(), spot.fact());
    if !fact.ends_with("beforeStageTasks[].waitTime") {
        return Vec::new();
    }
    let list = field.strip_suffix("[0].waitTime").unwrap();
    let says = "AfterStageTaskType is Approval, waitTime is not allowed";
    vec![wordings::broken_rule(list, &json!("array"), says)]
}

fn changed(version: Version<'_>, spot: &Spot<'_>, change: Change, accepted: bool) -> Value {
    let mut object = samples::along(version.schema(), &spot.steps);
    let place = object.pointer_mut(&spot.pointer()).unwrap();
    match change {
        Change::Set(value) => *place = value,
        Change::Remove(name) => {
            place.as_object_mut().unwrap().remove(&name);
        }
    }
    if accepted {
        samples::repair(&mut object);
    }
    object
}

/// What to try at one place. A keyword without a case is an error.
fn cases(version: Version<'_>, spot: &Spot<'_>) -> Vec<Case> {
    let schema = spot.schema;
    let field = Field::of(spot.field());
    let mut cases = Vec::new();
    for (keyword, limit) in schema.as_object().unwrap() {
        let mut try_both = |inside: Value, outside: Value, wrong: String| {
            let change = Change::Set(inside);
            cases.push(Case { limit: keyword.clone(), change, wrong: Vec::new() });
            let change = Change::Set(outside);
            cases.push(Case { limit: keyword.clone(), change, wrong: vec![wrong] });
        };
        let (number, count) = (limit.as_i64().unwrap_or(0), limit.as_u64().unwrap_or(0));
        match keyword.as_str() {
            "type" if spot.steps.is_empty() => {}
            "type" => {
                let change = Change::Set(samples::value(schema, &[]));
                cases.push(Case { limit: keyword.clone(), change, wrong: Vec::new() });
                let (other, wrong) = of_another_type(&field, spot, limit.as_str().unwrap());
                cases.push(Case { limit: keyword.clone(), change: Change::Set(other), wrong });
            }
            "minimum" => {
                try_both(json!(number), json!(number - 1), field.too_small(number - 1, number));
            }
            "maximum" => {
                try_both(json!(number), json!(number + 1), field.too_large(number + 1, number));
            }
            "minLength" => {
                let text = |length| json!("a".repeat(length));
                try_both(text(1), text(0), field.too_short("", count));
                assert_eq!(count, 1, "write more cases");
            }
            "maxLength" => {
                let text = |length: u64| json!("a".repeat(length as usize));
                try_both(text(count), text(count + 1), field.too_long(count));
            }
            "minItems" => {
                let wrong = field.too_few_items(count - 1, count);
                try_both(items(schema, count), items(schema, count - 1), wrong);
            }
            "maxItems" => {
                let wrong = field.too_many(count + 1, count);
                try_both(items(schema, count), items(schema, count + 1), wrong);
            }
            "minProperties" => {
                let wrong = field.too_few_properties(count - 1, count);
                try_both(entries(schema, count), entries(schema, count - 1), wrong);
            }
            "maxProperties" => {
                let wrong = field.too_many(count + 1, count);
                try_both(entries(schema, count), entries(schema, count + 1), wrong);
            }
            "pattern" => {
                let wrong = field.no_match("!", limit.as_str().unwrap());
                try_both(samples::text(schema).into(), json!("!"), wrong);
            }
            "format" => match limit.as_str().unwrap() {
                // Kubernetes does not hold numbers to their formats.
                "int32" | "int64" if schema["maximum"].is_null() => {
                    let change = Change::Set(json!(1_i64 << 40));
                    cases.push(Case { limit: keyword.clone(), change, wrong: Vec::new() });
                }
                "int32" | "int64" => {}
                format => {
                    let wrong = format!(
                        "FieldValueTypeInvalid | {}: Invalid value: \"~\": {} in body must be of type {format}: \"~\"",
                        field.path, field.text,
                    );
                    try_both(samples::text(schema).into(), json!("~"), wrong);
                }
            },
            "enum" => {
                let wrong = field.unsupported("\"Nothing\"", limit);
                try_both(limit[0].clone(), json!("Nothing"), wrong);
                for value in &limit.as_array().unwrap()[1..] {
                    if !is_excluded(version, spot, value) {
                        let (limit, change) = (keyword.clone(), Change::Set(value.clone()));
                        cases.push(Case { limit, change, wrong: Vec::new() });
                    }
                }
            }
            "required" => {
                for name in limit.as_array().unwrap().iter().filter_map(Value::as_str) {
                    let is_filled_in = !schema["properties"][name]["default"].is_null();
                    let wrong =
                        if is_filled_in { vec![] } else { vec![field.child(name).required()] };
                    let change = Change::Remove(name.to_owned());
                    cases.push(Case { limit: keyword.clone(), change, wrong });
                }
            }
            "x-kubernetes-int-or-string" => {
                let mut wrong = vec![
                    field.wrong_type("boolean", "integer,string"),
                    field.none_of_several(),
                    field.wrong_type("boolean", "integer"),
                ];
                let change = Change::Set(json!(true));
                wrong.dedup();
                cases.push(Case { limit: keyword.clone(), change, wrong });
                let change = Change::Set(json!(7));
                cases.push(Case { limit: keyword.clone(), change, wrong: vec![] });
                let change = Change::Set(samples::value(schema, &[]));
                cases.push(Case { limit: keyword.clone(), change, wrong: vec![] });
            }
            "x-kubernetes-list-type" if limit != "atomic" => {
                let item = samples::value(&schema["items"], &[]);
                let identity = match schema["x-kubernetes-list-map-keys"].as_array() {
                    Some(keys) => {
                        let pair = |key: &Value| {
                            let key = key.as_str().unwrap();
                            (key.to_owned(), item[key].clone())
                        };
                        Value::Object(keys.iter().map(pair).collect())
                    }
                    None => item.clone(),
                };
                let second = Field::of(format!("{}[1]", field.path));
                try_both(json!([item]), json!([item, item]), second.duplicate(&identity));
            }
            "properties"
            | "items"
            | "additionalProperties"
            | "description"
            | "default"
            | "anyOf"
            | "x-kubernetes-list-type"
            | "x-kubernetes-list-map-keys"
            | "x-kubernetes-map-type"
            | "x-kubernetes-preserve-unknown-fields"
            | "x-kubernetes-embedded-resource"
            | "x-kubernetes-validations" => {}
            other => panic!("{} {}: no case for {other}", version.label(), spot.fact()),
        }
    }
    cases
}

/// A value of another type than wanted, and all that is wrong with it.
fn of_another_type(field: &Field, spot: &Spot<'_>, wanted: &str) -> (Value, Vec<String>) {
    if wanted == "boolean" {
        return (json!("text"), vec![field.wrong_type("string", wanted)]);
    }
    let mut wrong = vec![match spot.schema["format"].as_str() {
        // A format is told by its name, and what was found by its own, which it has not.
        Some(format @ ("date-time" | "byte")) => field.wrong_type("", format),
        _ => field.wrong_type("boolean", wanted),
    }];
    if !spot.schema["enum"].is_null() {
        wrong.push(field.unsupported("true", &spot.schema["enum"]));
    }
    if spot.is_keyed {
        wrong.push(field.unkeyed("true"));
    }
    (json!(true), wrong)
}

/// Values that the enum allows and a rule of the same place never does.
fn is_excluded(version: Version<'_>, spot: &Spot<'_>, value: &Value) -> bool {
    let fact = spot.fact();
    fact.ends_with("beforeStageTasks[].type") && value == "TimedWait"
        || version.kind.name() == "ClusterResourceOverride"
            && fact == ".spec.placement.scope"
            && value == "Namespaced"
}

fn items(schema: &Value, count: u64) -> Value {
    (0..count).map(|_| samples::value(&schema["items"], &[])).collect()
}

fn entries(schema: &Value, count: u64) -> Value {
    let entry = |n| (format!("k{n}"), samples::value(&schema["additionalProperties"], &[]));
    Value::Object((0..count).map(entry).collect::<Map<_, _>>())
}
