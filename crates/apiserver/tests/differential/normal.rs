//! What two servers may say differently without being different: times, uids, revisions,
//! tokens and generated names, each replaced by a word that keeps their order or identity.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::play::Answer;

/// The answers of one script in words that two servers share.
pub fn normal(answers: &[Answer]) -> Vec<Value> {
    let bodies: Vec<Vec<Value>> = answers.iter().map(documents).collect();
    let mut words = Words::default();
    bodies.iter().flatten().for_each(|body| words.revisions(body));
    let revisions = std::mem::take(&mut words.revision);
    let ranks = revisions.into_keys().enumerate().map(|(rank, revision)| (revision, rank + 1));
    words.revision = ranks.collect();
    answers
        .iter()
        .zip(bodies)
        .map(|(answer, body)| {
            let body: Vec<Value> = body.into_iter().map(|body| words.value("", body)).collect();
            json!({"status": answer.status, "headers": headers(answer), "body": body})
        })
        .collect()
}

/// One document, or one for each line of a watch.
fn documents(answer: &Answer) -> Vec<Value> {
    let whole = answer.json();
    if !whole.is_string() {
        return vec![whole];
    }
    let lines: Result<Vec<Value>, _> =
        answer.body.lines().map(serde_json::from_str::<Value>).collect();
    match lines {
        Ok(events) if answer.body.starts_with('{') => events,
        // Bookmarks come when a server likes.
        _ => vec![whole],
    }
}

fn headers(answer: &Answer) -> BTreeMap<String, String> {
    let mut headers = answer.headers.clone();
    // Errors of the router are plain text in either server's own spelling of it.
    if let Some(kind) = headers.get_mut("content-type") {
        *kind = kind.replace("; charset=utf-8", "").replace(";charset=utf-8", "");
    }
    headers
}

#[derive(Default)]
struct Words {
    /// Revisions by number, and which of those seen it is.
    revision: BTreeMap<u64, usize>,
    uid: Vec<String>,
}

impl Words {
    /// Collects every revision of a document.
    fn revisions(&mut self, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let number = value.as_str().and_then(|text| text.parse().ok());
                    if let ("resourceVersion", Some(number)) = (key.as_str(), number) {
                        self.revision.insert(number, 0);
                    }
                    self.revisions(value);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.revisions(item)),
            _ => {}
        }
    }

    fn value(&mut self, key: &str, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(key, text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(key, item)).collect(),
            Value::Object(fields) => self.object(fields),
            other => other,
        }
    }

    fn object(&mut self, mut fields: Map<String, Value>) -> Value {
        everywhere(&mut fields);
        // A generated name ends in five letters of chance.
        if let (Some(prefix), Some(name)) = (
            fields.get("generateName").and_then(Value::as_str).map(str::to_owned),
            fields.get("name").and_then(Value::as_str).map(str::to_owned),
        ) && name.len() == prefix.len() + 5
        {
            fields.insert("name".into(), json!(format!("{prefix}*****")));
        }
        fields.into_iter().map(|(key, value)| (key.clone(), self.value(&key, value))).collect()
    }

    fn text(&mut self, key: &str, text: String) -> String {
        if key == "resourceVersion" {
            let rank = text.parse().ok().and_then(|number: u64| self.revision.get(&number));
            return rank.map_or(text, |rank| format!("revision {rank}"));
        }
        if key == "continue" && !text.is_empty() {
            return "token".into();
        }
        let text = UID.replace_all(&text, |found: &regex::Captures<'_>| {
            let known = self.uid.iter().position(|known| *known == found[0]);
            let at = known.unwrap_or_else(|| {
                self.uid.push(found[0].to_owned());
                self.uid.len() - 1
            });
            format!("uid {}", at + 1)
        });
        CHANGING.iter().fold(text.into_owned(), |text, (pattern, word)| {
            pattern.replace_all(&text, *word).into_owned()
        })
    }
}

static UID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap()
});

/// What is another each time, and the word for it.
static CHANGING: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let all = [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "time"),
        (r"\b10\.\d+\.\d+\.\d+\b", "address"),
        (r"current: \d+", "current: revision"),
        (r"ResourceVersion in record \(\d+\)", "ResourceVersion in record (revision)"),
        (r#"resourceVersion\\":\\"\d+"#, "resourceVersion: revision"),
        // Kinds as a policy's expressions are told of them, which have a number by chance.
        (r"\b([A-Z][A-Za-z]+?)\d{3,}\b", "$1"),
        // Ages of a table.
        (r"^\d+s$", "age"),
    ];
    all.map(|(pattern, word)| (Regex::new(pattern).unwrap(), word)).into()
});

/// The differences that every answer would show; the page has a section for them.
fn everywhere(fields: &mut Map<String, Value>) {
    if fields.get("continue").and_then(Value::as_str) == Some("") {
        fields.remove("continue");
    }
    // Prose about columns, and a hash of how things are stored.
    if fields.contains_key("priority") && fields.contains_key("format") {
        fields.remove("description");
    }
    fields.remove("storageVersionHash");
    // The recorded server ran without the plugin that gives pods an account.
    if fields.contains_key("containers") {
        fields.remove("serviceAccount");
        fields.remove("serviceAccountName");
    }
    // What a server fills in by itself belongs to nobody there and to the writer here.
    if fields.get("subresource").is_none()
        && let Some(owned) = fields.get_mut("fieldsV1").and_then(Value::as_object_mut)
    {
        owned.remove("f:status");
        if let Some(spec) = owned.get_mut("f:spec").and_then(Value::as_object_mut) {
            FILLED_IN.iter().for_each(|field| drop(spec.remove(*field)));
        }
        owned.retain(|_, fields| fields.as_object().is_none_or(|fields| !fields.is_empty()));
    }
}

/// Fields of a spec that admission or the kind's own preparation sets.
const FILLED_IN: [&str; 10] = [
    "f:clusterIP",
    "f:clusterIPs",
    "f:finalizers",
    "f:ipFamilies",
    "f:ipFamilyPolicy",
    "f:preemptionPolicy",
    "f:priority",
    "f:serviceAccount",
    "f:serviceAccountName",
    "f:tolerations",
];
