//! Derives `crates/patch/data/merge-keys.json` from the table of built-in schemas.
//!
//! Only merge keys and patch strategies stay, and of types only those from which one of them
//! is reached. Definitions are left out: Kubernetes' client does not know them as kinds of
//! its own, so nobody sends strategic patches for them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::Context;
use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};

const NOT_IN_THE_CLIENT: &str = "apiextensions.k8s.io/";

type Types = BTreeMap<String, BTreeMap<String, Value>>;

/// Writes the table and says how large it is.
pub fn run(out: &mut dyn Write) -> anyhow::Result<()> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let packed = std::fs::read(crates.join("schema/data/builtin-schemas.json.gz"))?;
    let mut plain = String::new();
    GzDecoder::new(packed.as_slice()).read_to_string(&mut plain)?;
    let schemas: Value = serde_json::from_str(&plain)?;
    let definitions = schemas["definitions"].as_object().context("no definitions in it")?;
    let kinds: BTreeMap<&String, &str> = schemas["kinds"]
        .as_object()
        .context("no kinds in it")?
        .iter()
        .filter(|(kind, _)| !kind.starts_with(NOT_IN_THE_CLIENT))
        .filter_map(|(kind, of)| Some((kind, of.as_str()?)))
        .filter(|(_, of)| is_object(&definitions[*of]))
        .collect();
    let mut types = places(definitions);
    while drop_barren(&mut types) {}
    keep_reached(&mut types, kinds.values().copied());
    let table = json!({"source": schemas["source"], "kinds": kinds, "types": types});
    let mut text = serde_json::to_string_pretty(&table)?;
    text.push('\n');
    let path = crates.join("patch/data/merge-keys.json");
    std::fs::write(&path, &text).with_context(|| format!("writing {}", path.display()))?;
    writeln!(out, "{} kinds, {} types, {} bytes", kinds.len(), types.len(), text.len())?;
    Ok(())
}

/// Lists, options and events are kinds too, but nothing that is patched.
fn is_object(definition: &Value) -> bool {
    let meta = &definition["properties"]["metadata"]["$ref"];
    meta.as_str().is_some_and(|of| of.ends_with(".ObjectMeta"))
}

/// All fields that have a type of their own or a rule.
fn places(definitions: &Map<String, Value>) -> Types {
    let fields = |definition: &Value| {
        let properties = definition["properties"].as_object().into_iter().flatten();
        properties.filter_map(|(name, schema)| Some((name.clone(), place(schema)?))).collect()
    };
    definitions.iter().map(|(name, definition)| (name.clone(), fields(definition))).collect()
}

fn place(schema: &Value) -> Option<Value> {
    let of =
        |schema: &Value| Some(schema["$ref"].as_str()?.strip_prefix("#/definitions/")?.to_owned());
    let mut place = Map::new();
    if let Some(of) = of(schema).or_else(|| of(&schema["items"])) {
        place.insert("of".to_owned(), json!(of));
    }
    if let Some(key) = schema.get("x-kubernetes-patch-merge-key") {
        place.insert("mergeKey".to_owned(), key.clone());
    }
    let strategies = schema["x-kubernetes-patch-strategy"].as_str().unwrap_or_default();
    for (strategy, flag) in [("merge", "merge"), ("retainKeys", "retainKeys")] {
        if strategies.split(',').any(|one| one == strategy) {
            place.insert(flag.to_owned(), json!(true));
        }
    }
    (!place.is_empty()).then_some(Value::Object(place))
}

/// Forgets fields that lead nowhere and types without fields; whether there were any.
fn drop_barren(types: &mut Types) -> bool {
    let before = size(types);
    let fruitful: BTreeSet<String> = fruitful(types);
    for fields in types.values_mut() {
        fields.retain(|_, place| {
            let Some(place) = place.as_object_mut() else { return false };
            if place.get("of").and_then(Value::as_str).is_some_and(|of| !fruitful.contains(of)) {
                place.remove("of");
            }
            !place.is_empty()
        });
    }
    types.retain(|_, fields| !fields.is_empty());
    size(types) < before
}

/// The types from which a rule is reached, grown from those that have one.
fn fruitful(types: &Types) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    loop {
        let before = found.len();
        for (name, fields) in types {
            let leads = |place: &Value| {
                let of = place["of"].as_str();
                place.as_object().is_some_and(|place| place.keys().any(|key| key != "of"))
                    || of.is_some_and(|of| found.contains(of))
            };
            if fields.values().any(leads) {
                found.insert(name.clone());
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn size(types: &Types) -> usize {
    let places = types.values().flat_map(BTreeMap::values);
    types.len() + places.filter_map(Value::as_object).map(Map::len).sum::<usize>()
}

fn keep_reached<'a>(types: &mut Types, roots: impl Iterator<Item = &'a str>) {
    let mut reached = BTreeSet::new();
    let mut next: Vec<String> = roots.map(str::to_owned).collect();
    while let Some(name) = next.pop() {
        let below = types.get(&name).into_iter().flat_map(BTreeMap::values);
        let below: Vec<String> =
            below.filter_map(|place| place["of"].as_str()).map(str::to_owned).collect();
        if reached.insert(name) {
            next.extend(below);
        }
    }
    types.retain(|name, _| reached.contains(name));
}
