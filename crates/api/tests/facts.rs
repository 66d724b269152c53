//! Our CRDs say exactly what KubeFleet's say.
//!
//! `tests/facts` holds one fact per line for every kind, taken from KubeFleet's
//! definitions: fields, limits, defaults, rules, columns. A line is
//! `<version> <path> | <facts>`. They are the contract, so there is no way to
//! update them from here.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fmt::Write;

use flagship_api::crd;
use serde_json::Value;

#[test]
fn every_fact_of_the_original_definitions_holds_and_no_other() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), crd::all().len());

    let mut differences = String::new();
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let wanted = std::fs::read_to_string(&file).unwrap();
        let Some(definition) = crd::of(name) else {
            writeln!(differences, "{name}: missing").unwrap();
            continue;
        };
        let found = flatten(&definition);
        for line in wanted.lines().filter(|line| !found.iter().any(|f| f == line)) {
            writeln!(differences, "{name}: - {line}").unwrap();
        }
        for line in found.iter().filter(|line| !wanted.lines().any(|w| w == *line)) {
            writeln!(differences, "{name}: + {line}").unwrap();
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

/// One definition as facts.
fn flatten(crd: &Value) -> Vec<String> {
    let (spec, names) = (&crd["spec"], &crd["spec"]["names"]);
    let mut lines = vec![
        format!(
            "kind {} list={} plural={} singular={} scope={}",
            text(&names["kind"]),
            text(&names["listKind"]),
            text(&names["plural"]),
            text(&names["singular"]),
            text(&spec["scope"]),
        ),
        format!("short {}", sorted_words(&names["shortNames"])),
        format!("categories {}", sorted_words(&names["categories"])),
    ];
    for version in list(&spec["versions"]) {
        let name = text(&version["name"]);
        lines.push(format!(
            "version {name} served={} storage={} subresources={}",
            python_bool(&version["served"]),
            python_bool(&version["storage"]),
            keys(&version["subresources"]).join(","),
        ));
        for column in list(&version["additionalPrinterColumns"]) {
            lines.push(format!(
                "column {name} {} | {} priority={} {}",
                text(&column["name"]),
                text(&column["type"]),
                column["priority"].as_i64().unwrap_or(0),
                text(&column["jsonPath"]),
            ));
        }
        let mut facts = Vec::new();
        walk(&version["schema"]["openAPIV3Schema"], "", false, &mut facts);
        lines.extend(facts.iter().map(|(path, facts)| {
            let path = if path.is_empty() { "." } else { path };
            format!("{name} {path} | {facts}").trim_end().to_owned()
        }));
    }
    lines
}

const SCALARS: [&str; 21] = [
    "type",
    "format",
    "default",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "uniqueItems",
    "nullable",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
];

fn walk(schema: &Value, path: &str, required: bool, out: &mut Vec<(String, String)>) {
    let mut facts = Vec::new();
    if required {
        facts.push("required".to_owned());
    }
    for key in SCALARS.into_iter().chain(["anyOf"]) {
        match schema.get(key) {
            None => {}
            Some(Value::String(value)) => facts.push(format!("{key}={value}")),
            Some(value) => facts.push(format!("{key}={}", spaced(value))),
        }
    }
    out.push((path.to_owned(), facts.join(" ")));
    for rule in list(&schema["x-kubernetes-validations"]) {
        let fact = format!("CEL {} => {}", text(&rule["rule"]), text(&rule["message"]));
        out.push((path.to_owned(), fact));
    }
    for name in keys(&schema["properties"]) {
        let required = list(&schema["required"]).iter().any(|required| required == name);
        walk(&schema["properties"][name], &format!("{path}.{name}"), required, out);
    }
    if let Some(items) = schema.get("items") {
        walk(items, &format!("{path}[]"), false, out);
    }
    if let Some(values) = schema.get("additionalProperties") {
        walk(values, &format!("{path}{{}}"), false, out);
    }
}

/// JSON with a space after every comma and colon, as the facts have it.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            format!("[{}]", items.iter().map(spaced).collect::<Vec<_>>().join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(k, v)| format!("{k:?}: {}", spaced(v)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        scalar => scalar.to_string(),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().map_or_else(Vec::new, |map| map.keys().map(String::as_str).collect())
}

fn sorted_words(value: &Value) -> String {
    let mut words: Vec<_> = list(value).iter().map(text).collect();
    words.sort_unstable();
    words.join(" ")
}

fn python_bool(value: &Value) -> &'static str {
    if *value == Value::Bool(true) { "True" } else { "False" }
}
