//! Two thousand objects and definitions, judged by Kubernetes' own validation code.
//!
//! The verdicts were recorded (`golden/README.md` says how); here they are compared word for
//! word: errors with their paths, unknown fields, and the object after pruning and defaulting.

use std::io::Read;

use flagship_schema::{Compiled, validate_crd};
use serde_json::{Value, json};

fn sorted(mut texts: Vec<String>) -> Value {
    texts.sort();
    json!(texts)
}

/// What we say about a case, in the shape of the recording.
fn ours(case: &Value) -> Value {
    if let Some(crd) = case.get("crd") {
        let errors = validate_crd(crd).iter().map(ToString::to_string).collect();
        return json!({"errors": sorted(errors)});
    }
    let compiled = match Compiled::from_crd_version(&case["schema"]) {
        Ok(compiled) => compiled,
        Err(errors) => {
            return json!({"broken": errors.iter().map(ToString::to_string).collect::<Vec<_>>()});
        }
    };
    let mut new = case["new"].clone();
    // The recording looks at the schema alone, not at metadata.
    let unknown: Vec<String> = compiled
        .unknown_fields(&new)
        .iter()
        .map(|u| u.trim_start_matches("unknown field \"").trim_end_matches('"').to_owned())
        .filter(|path| !path.contains("metadata."))
        .collect();
    compiled.prune(&mut new);
    compiled.apply_defaults(&mut new);
    let errors = compiled.validate(&new, case.get("old").filter(|old| !old.is_null()));
    let errors = errors.iter().map(ToString::to_string).collect();
    json!({"unknown": unknown, "errors": sorted(errors), "object": new})
}

#[test]
fn our_verdicts_are_those_of_kubernetes() {
    let packed = include_bytes!("golden/kubernetes-verdicts.jsonl.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).expect("unpacks");
    let mut differ = Vec::new();
    let mut count = 0;
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).expect("one JSON object a line");
        let found = ours(&case);
        count += 1;
        if found != case["says"] {
            differ.push(format!("{line}\n  ours: {found}\n"));
        }
    }
    if let Ok(path) = std::env::var("VERDICTS_DIFFER") {
        std::fs::write(path, differ.concat()).expect("writes");
    }
    assert!(count > 2000, "{count}");
    let first: Vec<&String> = differ.iter().take(3).collect();
    assert!(differ.is_empty(), "{} of {count} differ:\n{first:#?}", differ.len());
}
