//! Keeps what a Secret holds out of every text about it.
//!
//! Differences below `data` and `stringData` are not shown at all. Elsewhere, in the words of
//! a server or in a copy somebody keeps in an annotation, the values themselves are looked for.

use std::collections::BTreeSet;

use flagship_api::placement_status::PatchDetail;
use serde_json::Value;

use super::manifest::Manifest;
use super::outcome::Findings;

/// What stands in place of a value.
pub(crate) const REDACTED: &str = "(redacted for security reasons)";

/// Values shorter than this are only found between quotes: they may be part of any word.
const SHORT: usize = 4;

/// The values that a Secret was ever seen to hold; none for anything but a Secret.
pub(super) struct Redactor {
    secret: bool,
    values: BTreeSet<String>,
}

/// A text about objects, such as what a server said of them, without what the Secrets among
/// them hold.
pub fn redacted<'a>(text: String, about: impl IntoIterator<Item = &'a Value>) -> String {
    let mut redactor = Redactor { secret: true, values: BTreeSet::new() };
    about.into_iter().filter(|object| is_secret(object)).for_each(|object| redactor.learn(object));
    redactor.text(text)
}

/// Whether an object holds what nobody may print.
pub(crate) fn is_secret(object: &Value) -> bool {
    object["apiVersion"] == "v1" && object["kind"] == "Secret"
}

impl Redactor {
    pub(super) fn of(manifest: &Manifest) -> Self {
        let mut redactor = Self { secret: manifest.is_secret(), values: BTreeSet::new() };
        redactor.learn(&manifest.object);
        redactor
    }

    /// Learns what the object holds, on the hub or on the member, now or before a write.
    pub(super) fn learn(&mut self, object: &Value) {
        if self.secret {
            collect(object, &mut self.values);
        }
    }

    /// A text without the values.
    pub(super) fn text(&self, mut text: String) -> String {
        let mut values: Vec<&String> = self.values.iter().collect();
        // Longest first, so that a part never spoils the whole.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        for value in values {
            if value.len() >= SHORT {
                if text.contains(value.as_str()) {
                    text = text.replace(value.as_str(), REDACTED);
                }
            } else {
                text = text.replace(&format!("{value:?}"), &format!("{REDACTED:?}"));
            }
        }
        text
    }

    /// Findings without the values.
    pub(super) fn findings(&self, findings: Findings) -> Findings {
        if !self.secret {
            return findings;
        }
        let all = |details: Vec<PatchDetail>| details.into_iter().map(|d| self.detail(d)).collect();
        match findings {
            Findings::Nothing => Findings::Nothing,
            Findings::Drifts(details) => Findings::Drifts(all(details)),
            Findings::Diffs(details) => Findings::Diffs(all(details)),
        }
    }

    fn detail(&self, detail: PatchDetail) -> PatchDetail {
        let PatchDetail { path, value_in_member, value_in_hub } = detail;
        let hidden = path.starts_with("/data") || path.starts_with("/stringData");
        let value = |text: String| match text.as_str() {
            "" => text,
            _ if hidden => REDACTED.to_owned(),
            _ => self.text(text),
        };
        let (value_in_member, value_in_hub) = (value(value_in_member), value(value_in_hub));
        PatchDetail { path, value_in_member, value_in_hub }
    }
}

fn collect(secret: &Value, values: &mut BTreeSet<String>) {
    for field in ["data", "stringData"] {
        let held = secret.get(field).and_then(Value::as_object);
        for value in held.into_iter().flat_map(|entries| entries.values()) {
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            if field == "data" {
                values.extend(plain(&text));
            }
            values.insert(text);
        }
    }
    values.remove("");
}

/// What base64 text stands for, if that is text.
fn plain(base64: &str) -> Option<String> {
    let bytes: k8s_openapi::ByteString = serde_json::from_value(Value::from(base64)).ok()?;
    String::from_utf8(bytes.0).ok()
}
