//! Derives `crates/schema/data/builtin-schemas.json.gz`.
//!
//! The source is the OpenAPI document inside the Go module `k8s.io/kubernetes` at one
//! fixed version, fetched by the `go` tool, which checks it against the checksum
//! database. Descriptions go, and so does every definition that no served kind
//! reaches; what is left carries all merge keys, list types and defaults. The
//! output depends on nothing but the source, so running it twice changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};

const MODULE: &str = "k8s.io/kubernetes";
const VERSION: &str = "v1.34.1";
const DOCUMENT: &str = "api/openapi-spec/swagger.json";
/// The same schemas by group, in OpenAPI v3, which knows the defaults.
const BY_GROUP: &str = "api/openapi-spec/v3";

/// Every group and version whose kinds the server knows.
pub const SERVED: &[(&str, &str)] = &[
    ("", "v1"),
    ("admissionregistration.k8s.io", "v1"),
    ("apiextensions.k8s.io", "v1"),
    ("apps", "v1"),
    ("authentication.k8s.io", "v1"),
    ("authorization.k8s.io", "v1"),
    ("autoscaling", "v1"),
    ("autoscaling", "v2"),
    ("batch", "v1"),
    ("certificates.k8s.io", "v1"),
    ("coordination.k8s.io", "v1"),
    ("discovery.k8s.io", "v1"),
    ("events.k8s.io", "v1"),
    ("flowcontrol.apiserver.k8s.io", "v1"),
    ("networking.k8s.io", "v1"),
    ("node.k8s.io", "v1"),
    ("policy", "v1"),
    ("rbac.authorization.k8s.io", "v1"),
    ("resource.k8s.io", "v1"),
    ("scheduling.k8s.io", "v1"),
    ("storage.k8s.io", "v1"),
];

/// Writes the table and says how large it is.
pub fn run(out: &mut dyn Write) -> anyhow::Result<()> {
    let module = module_dir()?;
    let document = read(&module.join(DOCUMENT))?;
    let definitions = document["definitions"].as_object().context("no definitions in it")?;
    let (kinds, mut kept) = select(definitions)?;
    for entry in std::fs::read_dir(module.join(BY_GROUP))? {
        add_defaults(&read(&entry?.path())?, &mut kept);
    }
    let table = json!({
        "source": format!("{MODULE}@{VERSION}/{DOCUMENT}"),
        "kinds": kinds,
        "definitions": kept,
    });
    let plain = serde_json::to_vec(&table)?;
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&plain)?;
    let packed = packed.finish()?;
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/schema/data/builtin-schemas.json.gz");
    std::fs::write(&path, &packed).with_context(|| format!("writing {}", path.display()))?;
    writeln!(
        out,
        "{} kinds, {} definitions, {} bytes, {} compressed",
        table["kinds"].as_object().map_or(0, Map::len),
        table["definitions"].as_object().map_or(0, Map::len),
        plain.len(),
        packed.len(),
    )?;
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("parsing {}", path.display()))
}

/// Takes over defaults that say something; Go's zero values say nothing.
fn add_defaults(document: &Value, kept: &mut BTreeMap<String, Value>) {
    let zero = [json!({}), json!(""), json!(0), json!(false)];
    let schemas = document["components"]["schemas"].as_object();
    for (name, schema) in schemas.into_iter().flatten() {
        let Some(target) = kept.get_mut(name) else { continue };
        for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
            if let Some(default) = schema.get("default")
                && !zero.contains(default)
            {
                target["properties"][field.as_str()]["default"] = default.clone();
            }
        }
    }
}

/// Where the `go` tool keeps the unpacked module.
fn module_dir() -> anyhow::Result<PathBuf> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", &format!("{MODULE}@{VERSION}")])
        .current_dir(std::env::temp_dir())
        .output()
        .context("running go: is it installed?")?;
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    match answer["Dir"].as_str() {
        Some(dir) => Ok(dir.into()),
        None => bail!(
            "go mod download: {} {}",
            answer["Error"].as_str().unwrap_or_default(),
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

type Kinds = BTreeMap<String, String>;

/// `group/version/Kind` of everything served, and all definitions they reach.
fn select(definitions: &Map<String, Value>) -> anyhow::Result<(Kinds, BTreeMap<String, Value>)> {
    let mut kinds = Kinds::new();
    let mut open: Vec<&str> = Vec::new();
    for (name, schema) in definitions {
        let gvks = schema["x-kubernetes-group-version-kind"].as_array();
        for gvk in gvks.into_iter().flatten() {
            let part = |key: &str| gvk[key].as_str().unwrap_or_default();
            if SERVED.contains(&(part("group"), part("version"))) {
                let key = format!("{}/{}/{}", part("group"), part("version"), part("kind"));
                kinds.insert(key, name.clone());
                open.push(name);
            }
        }
    }
    let mut kept = BTreeMap::new();
    let mut seen: BTreeSet<&str> = open.iter().copied().collect();
    while let Some(name) = open.pop() {
        let schema = definitions.get(name).with_context(|| format!("{name} is missing"))?;
        references(schema, &mut |target| {
            if seen.insert(target) {
                open.push(target);
            }
        });
        let mut schema = strip(schema);
        if name.ends_with(".api.resource.Quantity") {
            // A string in the document, yet numbers are read as well.
            schema["format"] = json!("quantity");
        }
        kept.insert(name.to_owned(), schema);
    }
    Ok((kinds, kept))
}

fn references<'a>(schema: &'a Value, found: &mut dyn FnMut(&'a str)) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(path)) = map.get("$ref") {
                found(path.rsplit('/').next().unwrap_or(path));
            }
            map.values().for_each(|v| references(v, found));
        }
        Value::Array(list) => list.iter().for_each(|v| references(v, found)),
        _ => {}
    }
}

/// Drops prose. A field may be *called* `description`, so only schemas lose theirs.
fn strip(schema: &Value) -> Value {
    const PROSE: [&str; 5] = [
        "description",
        "title",
        "example",
        "x-kubernetes-group-version-kind",
        "x-kubernetes-unions",
    ];
    let Value::Object(keywords) = schema else { return schema.clone() };
    let mut kept = Map::new();
    for (key, value) in keywords {
        let value = match key.as_str() {
            prose if PROSE.contains(&prose) => continue,
            "properties" => match value {
                Value::Object(fields) => {
                    fields.iter().map(|(name, field)| (name.clone(), strip(field))).collect()
                }
                other => other.clone(),
            },
            "items" | "additionalProperties" => strip(value),
            _ => value.clone(),
        };
        kept.insert(key.clone(), value);
    }
    Value::Object(kept)
}
