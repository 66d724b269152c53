//! Namespace, Node and Event.

use super::super::json::{Field, same};
use super::rules::{amount, named, required};
use super::{Findings, scheduling};
use crate::machinery::names;

pub(super) fn namespace(object: &Field<'_>, out: &mut Findings) {
    let list = object.get("spec").get("finalizers");
    for finalizer in list.items() {
        if !finalizer.text().contains('/') && finalizer.text() != "kubernetes" {
            let says = "name is neither a standard finalizer name nor is it fully qualified";
            out.push(finalizer.reported_at(&list).invalid(says));
        }
    }
}

pub(super) fn node(object: &Field<'_>, out: &mut Findings) {
    // Kubernetes reports taints below `metadata`, and amounts as if they were fields.
    let taints = object.get("spec").get("taints");
    scheduling::taints(&taints.reported_at(&object.get("metadata").get("taints")), out);
    let status = object.get("status");
    for list in ["capacity", "allocatable"] {
        for (name, field) in status.get(list).entries() {
            amount(&field.reported_at(&status.get(list).get(name)), out);
        }
    }
}

pub(super) fn node_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    let (new, old) = (new.get("spec"), old.get("spec"));
    for (key, says) in [
        ("podCIDRs", "node updates may not change podCIDR except from \"\" to valid"),
        ("providerID", "node updates may not change providerID except from \"\" to valid"),
    ] {
        let (now, before) = (new.get(key), old.get(key));
        if !before.is_empty() && !same(now.value(), before.value()) {
            out.push(now.forbidden(says));
        }
    }
}

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
    named(&reporter, names::qualified_name, out);
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

#[cfg(test)]
mod tests {
    use super::super::super::catalog::Kind;
    use super::super::tests::{on_create, on_update};
    use serde_json::json;

    #[test]
    fn a_node_has_each_taint_once() {
        let taint = json!({"key": "a", "effect": "NoSchedule"});
        let node = json!({"metadata": {"name": "n"}, "spec": {"taints": [taint, taint]}});
        assert_eq!(
            on_create(Kind::Node, &node),
            "metadata.taints[1]: Duplicate value: {\"effect\":\"NoSchedule\",\"key\":\"a\"}: taints must be unique by key and effect pair"
        );
        let known = |id: &str| json!({"metadata": {"name": "n"}, "spec": {"providerID": id}});
        assert_eq!(on_update(Kind::Node, &known("a"), &known("")), "");
        assert_eq!(
            on_update(Kind::Node, &known("b"), &known("a")),
            "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid"
        );
    }

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
}
