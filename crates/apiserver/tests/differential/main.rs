//! The same requests to our server and to Kubernetes' own, answer by answer.
//!
//! `scripts/` holds the requests, `recorded/` what kube-apiserver 1.34 said to them. Where
//! we differ on purpose, `docs/apiserver-differences.md` says so and why; a difference that
//! is not listed there fails, and so does a listed one that is none any more.
//!
//! `scripts/record-apiserver` asks a real server again.

#![allow(clippy::unwrap_used, reason = "tests")]

mod normal;
mod play;
mod script;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use play::{Answer, Target};
use script::Script;
use serde_json::Value;

/// Answers by script.
type Recorded = BTreeMap<String, Vec<Answer>>;

fn file(topic: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/recorded");
    PathBuf::from(folder).join(format!("{topic}.json"))
}

fn recorded(topic: &str) -> Recorded {
    let text = std::fs::read_to_string(file(topic)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Names of scripts in the first column of the page's tables.
fn listed() -> BTreeSet<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/apiserver-differences.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split('`').next().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn our_server_answers_as_kubernetes_does() {
    let scripts = script::all();
    assert!(scripts.len() >= 150, "{} scripts", scripts.len());
    let (target, listed) = (Target::ours(), listed());
    // To see what the listed ones are: FLAGSHIP_DIFFERENCES=1.
    let shows_all = std::env::var_os("FLAGSHIP_DIFFERENCES").is_some();
    let (mut told, mut differ) = (String::new(), BTreeSet::new());
    let mut topics: BTreeMap<String, Recorded> = BTreeMap::new();
    for script in &scripts {
        let topic = topics.entry(script.topic.clone()).or_insert_with(|| recorded(&script.topic));
        let theirs = normal::normal(&topic[&script.name]);
        let ours = normal::normal(&target.play(script).await);
        for (step, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            let mut found = Vec::new();
            differences("", ours, theirs, &mut found);
            if found.is_empty() {
                continue;
            }
            differ.insert(script.name.clone());
            if !listed.contains(&script.name) || shows_all {
                told += &format!("\n{}: {} (request {})\n", script.topic, script.name, step + 1);
                told += &found.join("\n");
            }
        }
        assert_eq!(ours.len(), theirs.len(), "{}: record it again", script.name);
    }
    assert!(told.is_empty(), "{told}\n");
    let alike = scripts.iter().filter(|script| !differ.contains(&script.name)).count();
    let same = format!("{alike} of {} request scripts", scripts.len());
    let names: BTreeSet<String> = scripts.into_iter().map(|script| script.name).collect();
    let stale: Vec<_> = listed.iter().filter(|name| !differ.contains(*name)).collect();
    assert!(stale.is_empty(), "listed and no difference: {stale:?}");
    assert!(listed.is_subset(&names));
    // The README says the same number to who reads nothing else.
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    assert!(std::fs::read_to_string(readme).unwrap().contains(&same), "README.md: {same}");
}

/// Where two answers differ, as `path: ours | theirs`.
fn differences(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let (a, b) = (a.get(key), b.get(key));
                let path = format!("{path}/{key}");
                differences(&path, a.unwrap_or(&Value::Null), b.unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}/{at}"), a, b, found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(format!("  {path}:\n    ours   {a}\n    theirs {b}")),
    }
}

/// Asks a real server, whose address `FLAGSHIP_RECORD_FROM` says, and keeps its answers.
#[tokio::test]
#[ignore = "wants a real kube-apiserver: scripts/record-apiserver"]
async fn record() {
    let target = Target::Real(std::env::var("FLAGSHIP_RECORD_FROM").unwrap());
    let mut topics: BTreeMap<String, Recorded> = BTreeMap::new();
    // One topic alone when one is named; namespaces are numbered over all.
    let wanted = std::env::var("FLAGSHIP_RECORD_TOPIC").unwrap_or_default();
    for script in script::all().into_iter().filter(|s| s.topic.starts_with(&wanted)) {
        let answers = target.play(&script).await;
        let Script { topic, name, .. } = script;
        assert!(topics.entry(topic).or_default().insert(name, answers).is_none(), "a name twice");
    }
    for (topic, answers) in topics {
        std::fs::write(file(&topic), serde_json::to_string_pretty(&answers).unwrap() + "\n")
            .unwrap();
    }
}
