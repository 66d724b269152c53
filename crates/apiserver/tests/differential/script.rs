//! Request scripts as people write them.
//!
//! `### name` begins a script; a request is `METHOD path`, lines `Header: value`, and a body
//! up to the next empty line. `{ns}` is the script's own namespace, `${2.metadata.uid}` what
//! the second answer says there.

use serde_json::Value;

use crate::play::Answer;

/// Requests that build on each other, in a namespace of their own.
#[derive(Debug, Clone)]
pub struct Script {
    pub topic: String,
    pub name: String,
    pub namespace: String,
    pub requests: Vec<Request>,
}

/// One request as written.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// Every script of the folder, by topic and in the order of the files.
pub fn all() -> Vec<Script> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/scripts");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let mut scripts = Vec::new();
    for file in files {
        let topic = file.file_stem().unwrap().to_string_lossy().into_owned();
        parse(&topic, &std::fs::read_to_string(&file).unwrap(), &mut scripts);
    }
    scripts
}

fn parse(topic: &str, text: &str, scripts: &mut Vec<Script>) {
    for part in text.split("### ").skip(1) {
        let (name, rest) = part.split_once('\n').unwrap();
        let namespace = format!("d-{:03}", scripts.len());
        let requests = rest.split("\n\n").filter(|block| !block.trim().is_empty());
        let requests = requests.map(|block| request(block.trim())).collect();
        scripts.push(Script { topic: topic.into(), name: name.trim().into(), namespace, requests });
    }
}

fn request(block: &str) -> Request {
    let mut lines = block.lines();
    let (method, path) = lines.next().unwrap().split_once(' ').unwrap();
    let mut request = Request { method: method.into(), path: path.into(), ..Request::default() };
    let mut rest = lines.peekable();
    // Header names begin with a capital, bodies with a brace or a small letter.
    while let Some(line) = rest.next_if(|line| line.starts_with(|c: char| c.is_ascii_uppercase())) {
        let (name, value) = line.split_once(": ").unwrap();
        request.headers.push((name.into(), value.into()));
    }
    request.body = rest.collect::<Vec<_>>().join("\n");
    request
}

impl Request {
    /// With the namespace and what earlier answers said in their places.
    pub fn filled(&self, script: &Script, earlier: &[Answer]) -> Self {
        let fill = |text: &str| fill(&text.replace("{ns}", &script.namespace), earlier);
        Self { path: fill(&self.path), body: fill(&self.body), ..self.clone() }
    }
}

fn fill(text: &str, earlier: &[Answer]) -> String {
    let Some((before, rest)) = text.split_once("${") else { return text.to_owned() };
    let (path, after) = rest.split_once('}').unwrap();
    let (step, path) = path.split_once('.').unwrap();
    let answer: Value = earlier[step.parse::<usize>().unwrap() - 1].json();
    let pointer = format!("/{}", path.replace('.', "/"));
    let value = answer.pointer(&pointer).and_then(Value::as_str).unwrap_or_default();
    format!("{before}{value}{}", fill(after, earlier))
}
