//! Freezes: which of them holds a run, and in which words that is said.
//!
//! A freeze acts at once on every run it selects, whatever the run has recorded. It holds what
//! has not begun; clusters under way finish.

use flagship_api::freeze as api;
use flagship_api::freeze::FreezeSpec;
use flagship_api::keys::own;
use flagship_api::names::ObjectKey;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Seen;
use super::selects::{self, names_stage};

/// A freeze.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Freeze {
    /// `metadata.name`.
    pub name: String,
    /// Who made it, if that is known.
    pub by: Option<String>,
    /// What it says.
    pub spec: FreezeSpec,
}

impl Freeze {
    /// What the rules read of a freeze.
    pub fn read(object: &api::Freeze) -> Self {
        let annotations = object.metadata.annotations.as_ref();
        Self {
            name: object.metadata.name.clone().unwrap_or_default(),
            by: annotations.and_then(|all| all.get(own::CREATED_BY)).cloned(),
            spec: object.spec.clone(),
        }
    }

    /// When it ends by itself.
    pub fn until(&self) -> Option<Timestamp> {
        self.spec.until.as_ref().map(|until| until.0)
    }

    /// Whether it is in force.
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.until().is_none_or(|until| now < until)
    }

    /// Whether a run is meant, in whatever stage. A selector that cannot be read means every
    /// run: what somebody wanted to stop is not let go for a slip.
    pub fn selects(&self, run: &ObjectKey, labels: &selects::Labels) -> bool {
        let name = run.to_string();
        !self.spec.except.runs.contains(&name)
            && selects::selects(&self.spec.selects, labels).unwrap_or(true)
    }

    /// `Frozen by alice until it is lifted, freeze incident: incident 4711`.
    pub fn told(&self) -> String {
        let by = self.by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
        let until = match self.until() {
            Some(until) => format!("until {until:.0}"),
            None => "until it is lifted".to_owned(),
        };
        format!("Frozen{by} {until}, freeze {}: {}", self.name, self.spec.reason)
    }
}

/// Notes who made a freeze, whatever its sender says of that: known where a server tells who
/// sends. Nobody changes it later.
pub fn stamp(object: &mut Value, old: Option<&Value>, sender: &str) {
    let by = match old {
        None => Some(sender.to_owned()),
        Some(old) => old["metadata"]["annotations"][own::CREATED_BY].as_str().map(str::to_owned),
    };
    let Some(metadata) = object["metadata"].as_object_mut() else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
    let Some(annotations) = annotations.as_object_mut() else { return };
    match by {
        Some(by) => annotations.insert(own::CREATED_BY.to_owned(), Value::String(by)),
        None => annotations.remove(own::CREATED_BY),
    };
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// The freeze that holds a stage of a run: of several, the one that lasts longest.
pub fn holding<'a>(
    seen: &'a Seen,
    run: &ObjectKey,
    stage: &str,
    now: Timestamp,
) -> Option<&'a Freeze> {
    let meant = seen.freezes.iter().map(AsRef::as_ref).filter(|freeze| {
        freeze.is_in_force(now)
            && names_stage(&freeze.spec.selects, stage)
            && freeze.selects(run, &seen.labels)
    });
    meant.max_by(|a, b| {
        let lasts = |freeze: &Freeze| freeze.until().unwrap_or(Timestamp::MAX);
        lasts(a).cmp(&lasts(b)).then_with(|| b.name.cmp(&a.name))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn freeze(name: &str, spec: Value) -> Arc<Freeze> {
        let mut object = json!({"metadata": {"name": name}, "spec": {"reason": "because"}});
        for (key, value) in spec.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        Arc::new(Freeze::read(&serde_json::from_value(object).unwrap()))
    }

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn held(freezes: Vec<Arc<Freeze>>, run: &ObjectKey, stage: &str) -> String {
        let seen = Seen { freezes, ..Seen::default() };
        holding(&seen, run, stage, now()).map_or_else(String::new, Freeze::told)
    }

    #[test]
    fn a_freeze_holds_what_it_selects_until_it_ends() {
        let (wide, narrow) = (ObjectKey::cluster("r"), ObjectKey::namespaced("app", "r"));
        let table = [
            (json!({}), &wide, "Frozen until it is lifted, freeze f: because"),
            (json!({}), &narrow, "Frozen until it is lifted, freeze f: because"),
            (json!({"except": {"runs": ["r"]}}), &wide, ""),
            (
                json!({"except": {"runs": ["r"]}}),
                &narrow,
                "Frozen until it is lifted, freeze f: because",
            ),
            (json!({"except": {"runs": ["app/r"]}}), &narrow, ""),
            (json!({"until": "2026-01-01T12:00:00Z"}), &wide, ""),
            (
                json!({"until": "2026-01-01T12:00:01Z"}),
                &wide,
                "Frozen until 2026-01-01T12:00:01Z, freeze f: because",
            ),
            (json!({"selects": {"stages": ["canary"]}}), &wide, ""),
            (json!({"selects": {"strategies": {"matchLabels": {"tier": "prod"}}}}), &wide, ""),
            (
                json!({"selects": {"strategies": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}}),
                &wide,
                "Frozen until it is lifted, freeze f: because",
            ),
        ];
        for (spec, run, told) in table {
            assert_eq!(held(vec![freeze("f", spec.clone())], run, "prod"), told, "{spec} {run}");
        }
    }

    #[test]
    fn who_made_a_freeze_is_what_the_server_knows() {
        let by = |object: &Value| object["metadata"]["annotations"][own::CREATED_BY].clone();
        let forged = json!({"metadata": {"annotations": {own::CREATED_BY: "somebody"}}});
        let mut made = forged.clone();
        stamp(&mut made, None, "alice");
        assert_eq!(by(&made), "alice");
        let mut changed = forged.clone();
        stamp(&mut changed, Some(&made), "bob");
        assert_eq!(by(&changed), "alice");
        let mut unknown = forged;
        stamp(&mut unknown, Some(&json!({"metadata": {}})), "bob");
        assert_eq!(unknown, json!({"metadata": {}}));
    }

    #[test]
    fn of_several_freezes_the_one_that_lasts_longest_is_named() {
        let until = |name: &str, second: u8| {
            freeze(name, json!({"until": format!("2026-01-01T13:00:{second:02}Z")}))
        };
        let run = ObjectKey::cluster("r");
        let named = |freezes| {
            let told = held(freezes, &run, "prod");
            told.split("freeze ").nth(1).unwrap_or_default().to_owned()
        };
        assert_eq!(named(vec![until("a", 1), until("b", 2)]), "b: because");
        assert_eq!(named(vec![until("b", 1), until("a", 1)]), "a: because");
        assert_eq!(named(vec![until("b", 1), freeze("z", json!({}))]), "z: because");
    }
}
