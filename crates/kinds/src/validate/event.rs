//! Events: those of the core group say little, those of events.k8s.io must say more.
//!
//! Both are stored in the shape of the core group, and reported by its names; Kubernetes, too,
//! speaks of `involvedObject` where the newer group says `regarding`.

use flagship_base::machinery::status::{FieldError, FieldProblem};
use flagship_base::names;
use serde_json::Value;

use super::super::json::Field;
use super::Findings;
use super::rules::{IMMUTABLE, required};

/// What the newer group calls the one who reports, and the only name of it that is reported.
const REPORTER: (&str, &str) = ("reportingComponent", "reportingController");

pub(super) fn event(object: &Field<'_>, out: &mut Findings) {
    let (namespace, about) =
        (object.get("metadata").get("namespace"), object.get("involvedObject").get("namespace"));
    // Events about things outside namespaces stand in `default`. Those of the newer kind,
    // known by their time, may be about anything and must say more.
    let newer = object.get("eventTime").is_set();
    let fits = match (about.text(), newer) {
        ("", false) => namespace.text() == "default",
        ("", true) => matches!(namespace.text(), "default" | "kube-system"),
        (_, true) => true,
        (text, false) => text == namespace.text(),
    };
    if !fits {
        out.push(about.invalid_as(about.text(), "does not match event.namespace"));
    }
    if newer {
        newer_event(object, out);
    }
}

/// What events of the newer kind must say, and how long they may go on about it.
fn newer_event(object: &Field<'_>, out: &mut Findings) {
    let reporter = object.get("reportingComponent");
    required(&reporter, out);
    let wrong = names::qualified_name(reporter.text()).into_iter();
    out.extend(wrong.map(|says| reporter.invalid_as(reporter.text(), says)));
    for (key, most, needed) in [
        ("reportingInstance", 128, true),
        ("action", 128, true),
        ("reason", 128, true),
        ("message", 1024, false),
    ] {
        let field = object.get(key);
        if needed {
            required(&field, out);
        }
        if field.text().len() > most {
            out.push(field.invalid_as("", format!("can have at most {most} characters")));
        }
    }
}

/// Findings about an event that came through events.k8s.io: those that were found already, and
/// those that this group alone has. Without an old one it is new.
pub fn strict_event(
    mut found: Vec<FieldError>,
    new: &Value,
    old: Option<&Value>,
) -> Vec<FieldError> {
    for error in &mut found {
        if error.path == REPORTER.0 {
            REPORTER.1.clone_into(&mut error.path);
        }
    }
    let (mut out, new) = (Findings::default(), Field::root(new));
    match old {
        None => strict_create(&new, &mut out),
        Some(old) => strict_update(&new, &Field::root(old), &mut out),
    }
    found.extend(out.kept);
    found
}

fn strict_create(event: &Field<'_>, out: &mut Findings) {
    series(event, out);
    if event.get("eventTime").is_empty() {
        out.push(event.get("eventTime").required(""));
    }
    let kind = event.get("type");
    if !matches!(kind.text(), "Normal" | "Warning") {
        out.push(kind.invalid_as("", format!("has invalid value: {}", kind.text())));
    }
    for key in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        let field = event.get(key);
        let unset = match field.value() {
            Value::Object(source) => source.values().all(|value| value == "" || value.is_null()),
            Value::Number(count) => count.as_i64() == Some(0),
            value => value.is_null(),
        };
        if !unset {
            out.push(field.invalid_as("", "needs to be unset"));
        }
    }
}

/// Only the series goes on; what happened has happened.
fn strict_update(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    if new.get("series").value() != old.get("series").value() {
        series(new, out);
    }
    for (key, shown) in [
        ("involvedObject", reference as fn(&Value) -> Value),
        ("reason", text),
        ("message", text),
        ("source", source),
        ("firstTimestamp", time),
        ("lastTimestamp", time),
        ("count", count),
        ("type", text),
        ("eventTime", time),
        ("action", text),
        ("related", |related| if related.is_null() { Value::Null } else { reference(related) }),
        ("reportingComponent", text),
        ("reportingInstance", text),
    ] {
        let (now, before) = (shown(new.get(key).value()), shown(old.get(key).value()));
        let same = match (instant(&now), instant(&before)) {
            (Some(now), Some(before)) => now == before,
            _ => now == before,
        };
        if !same {
            let key = if key == REPORTER.0 { REPORTER.1 } else { key };
            let field = new.get(key);
            out.push(match now.is_object() {
                true if key != "source" => in_go_order(&field, &now),
                _ => field.invalid_as(now, IMMUTABLE),
            });
        }
    }
}

fn series(event: &Field<'_>, out: &mut Findings) {
    let series = event.get("series");
    if !series.is_set() {
        return;
    }
    if series.get("count").int().unwrap_or_default() < 2 {
        out.push(series.get("count").invalid_as("", "should be at least 2"));
    }
    if series.get("lastObservedTime").is_empty() {
        out.push(series.get("lastObservedTime").required(""));
    }
}

/// The same moment may be written in more than one way.
fn instant(value: &Value) -> Option<jiff::Timestamp> {
    value.as_str()?.parse().ok()
}

fn text(value: &Value) -> Value {
    value.as_str().unwrap_or_default().into()
}

fn time(value: &Value) -> Value {
    value.clone()
}

fn count(value: &Value) -> Value {
    value.as_i64().unwrap_or_default().into()
}

/// Values as Kubernetes shows them: by the names of their fields in Go.
fn named_in_go(value: &Value, names: &[(&str, &str)]) -> Value {
    let shown = names.iter().map(|(go, key)| ((*go).to_owned(), text(&value[*key])));
    Value::Object(shown.collect())
}

fn source(value: &Value) -> Value {
    named_in_go(value, &[("Component", "component"), ("Host", "host")])
}

/// The fields of a reference in the order in which Go has them.
const REFERENCE: [(&str, &str); 7] = [
    ("Kind", "kind"),
    ("Namespace", "namespace"),
    ("Name", "name"),
    ("UID", "uid"),
    ("APIVersion", "apiVersion"),
    ("ResourceVersion", "resourceVersion"),
    ("FieldPath", "fieldPath"),
];

fn reference(value: &Value) -> Value {
    named_in_go(value, &REFERENCE)
}

/// The finding about a reference. JSON values have their keys sorted here, so it is text.
fn in_go_order(field: &Field<'_>, reference: &Value) -> FieldError {
    let entries = REFERENCE.map(|(go, _)| format!("\"{go}\":{}", reference[go]));
    let detail = format!("{{{}}}: {IMMUTABLE}", entries.join(","));
    let problem = FieldProblem::Invalid;
    FieldError { problem, path: field.path(), value: None, detail }
}

#[cfg(test)]
mod tests {
    use super::super::super::catalog::Kind;
    use super::super::tests::on_create;
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_stands_beside_what_it_is_about() {
        let event = json!({"metadata": {"name": "e", "namespace": "a"}, "involvedObject": {"namespace": "b"}});
        assert_eq!(
            on_create(Kind::Event, &event),
            "involvedObject.namespace: Invalid value: \"b\": does not match event.namespace"
        );
        // Known by its time, it may be about anything, and says who reports what.
        let mut newer = event;
        newer["eventTime"] = json!("2026-01-01T00:00:00.000000Z");
        newer["reportingComponent"] = json!("a b");
        newer["action"] = json!("x".repeat(129));
        let said = on_create(Kind::Event, &newer);
        let starts: Vec<&str> = said.lines().map(|line| &line[..line.len().min(60)]).collect();
        assert_eq!(
            starts,
            [
                "reportingComponent: Invalid value: \"a b\": name part must con",
                "reportingInstance: Required value",
                "action: Invalid value: \"\": can have at most 128 characters",
                "reason: Required value",
            ]
        );
    }

    fn said(new: &Value, old: Option<&Value>) -> Vec<String> {
        strict_event(Vec::new(), new, old).iter().map(ToString::to_string).collect()
    }

    fn whole() -> Value {
        json!({
            "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": "r",
            "action": "a", "reportingComponent": "k8s.io/c", "reportingInstance": "i",
            "involvedObject": {"namespace": "n"}, "source": {"component": ""}, "count": 0,
        })
    }

    #[test]
    fn an_event_of_the_newer_group_says_when_and_leaves_out_what_is_old() {
        assert_eq!(said(&whole(), None), Vec::<String>::new());
        let event = json!({
            "series": {"count": 1}, "type": "Odd", "count": 1, "source": {"host": "h"},
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
        });
        assert_eq!(
            said(&event, None),
            [
                "series.count: Invalid value: \"\": should be at least 2",
                "series.lastObservedTime: Required value",
                "eventTime: Required value",
                "type: Invalid value: \"\": has invalid value: Odd",
                "firstTimestamp: Invalid value: \"\": needs to be unset",
                "lastTimestamp: Invalid value: \"\": needs to be unset",
                "count: Invalid value: \"\": needs to be unset",
                "source: Invalid value: \"\": needs to be unset",
            ]
        );
        let found = vec![FieldError::required("reportingComponent".to_owned(), "")];
        let found = strict_event(found, &whole(), None);
        assert_eq!(found[0].to_string(), "reportingController: Required value");
    }

    #[test]
    fn of_an_event_of_the_newer_group_only_the_series_goes_on() {
        let mut new = whole();
        new["eventTime"] = json!("2026-01-01T00:00:00Z");
        new["series"] = json!({"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"});
        assert_eq!(said(&new, Some(&whole())), Vec::<String>::new());
        // An old series is not looked at again.
        let mut odd = whole();
        odd["series"] = json!({"count": 1});
        assert_eq!(said(&odd, Some(&odd)), Vec::<String>::new());
        odd["involvedObject"]["name"] = json!("q");
        odd["message"] = json!("m");
        odd["count"] = json!(1);
        odd["reportingComponent"] = json!("k8s.io/d");
        assert_eq!(
            said(&odd, Some(&whole())),
            [
                "series.count: Invalid value: \"\": should be at least 2",
                "series.lastObservedTime: Required value",
                "involvedObject: Invalid value: {\"Kind\":\"\",\"Namespace\":\"n\",\"Name\":\"q\",\"UID\":\"\",\"APIVersion\":\"\",\"ResourceVersion\":\"\",\"FieldPath\":\"\"}: field is immutable",
                "message: Invalid value: \"m\": field is immutable",
                "count: Invalid value: 1: field is immutable",
                "reportingController: Invalid value: \"k8s.io/d\": field is immutable",
            ]
        );
    }
}
