//! Where a pod may run: affinity, tolerations and spreading.

use std::collections::BTreeSet;

use flagship_base::names;

use super::super::json::Field;
use super::Findings;
use super::rules::{any_of, named, one_of, operator_values, selector};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Tolerations of a pod's specification.
pub(super) fn tolerations(list: &Field<'_>, out: &mut Findings) {
    for toleration in list.items() {
        let (key, operator) = (toleration.get("key"), toleration.get("operator"));
        let (effect, value) = (toleration.get("effect"), toleration.get("value"));
        if !key.text().is_empty() {
            named(&key, names::qualified_name, out);
        } else if operator.text() != "Exists" {
            let says = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            out.push(operator.invalid_as(operator.text(), says));
        }
        let timed = toleration.get("tolerationSeconds").is_set();
        if timed && effect.text() != "NoExecute" {
            let says = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            out.push(effect.invalid_as(effect.text(), says));
        }
        match operator.text() {
            "" | "Equal" => {
                let complaints = names::label_value(value.text());
                if !complaints.is_empty() {
                    out.push(operator.invalid_as(value.text(), complaints.join(";")));
                }
            }
            "Exists" if !value.text().is_empty() => {
                let says = "value must be empty when `operator` is 'Exists'";
                out.push(operator.invalid_as(toleration.value().clone(), says));
            }
            "Exists" => {}
            _ => out.push(operator.not_supported(&["Equal", "Exists"])),
        }
        if !effect.text().is_empty() {
            any_of(&effect, &EFFECTS, out);
        }
    }
}

/// Taints of a node.
pub(super) fn taints(list: &Field<'_>, out: &mut Findings) {
    let mut seen = BTreeSet::new();
    for taint in list.items() {
        named(&taint.get("key"), names::qualified_name, out);
        named(&taint.get("value"), names::label_value, out);
        one_of(&taint.get("effect"), &EFFECTS, out);
        let identity = (taint.get("key").text(), taint.get("effect").text());
        if !seen.insert(identity) {
            let mut finding = taint.duplicate();
            finding.detail = "taints must be unique by key and effect pair".to_owned();
            out.push(finding);
        }
    }
}

/// Spreading over zones and nodes.
pub(super) fn spreading(list: &Field<'_>, out: &mut Findings) {
    for constraint in list.items() {
        let skew = constraint.get("maxSkew");
        if skew.int().unwrap_or(0) <= 0 {
            out.push(skew.invalid_as(skew.int().unwrap_or(0), "must be greater than zero"));
        }
        topology_key(&constraint.get("topologyKey"), out);
        any_of(&constraint.get("whenUnsatisfiable"), &["DoNotSchedule", "ScheduleAnyway"], out);
        selector(&constraint.get("labelSelector"), out);
    }
}

fn topology_key(key: &Field<'_>, out: &mut Findings) {
    if key.text().is_empty() {
        out.push(key.required("can not be empty"));
    } else {
        named(key, names::qualified_name, out);
    }
}

/// Affinity to nodes and to other pods.
pub(super) fn affinity(affinity: &Field<'_>, out: &mut Findings) {
    let node = affinity.get("nodeAffinity");
    let required = node.get("requiredDuringSchedulingIgnoredDuringExecution");
    if required.is_set() {
        let terms = required.get("nodeSelectorTerms");
        if terms.is_empty() {
            out.push(terms.required("must have at least one node selector term"));
        }
        terms.items().for_each(|term| node_term(&term, out));
    }
    for preferred in node.get("preferredDuringSchedulingIgnoredDuringExecution").items() {
        weight(&preferred.get("weight"), out);
        node_term(&preferred.get("preference"), out);
    }
    for key in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.get(key);
        for term in pods.get("requiredDuringSchedulingIgnoredDuringExecution").items() {
            pod_term(&term, out);
        }
        for preferred in pods.get("preferredDuringSchedulingIgnoredDuringExecution").items() {
            weight(&preferred.get("weight"), out);
            pod_term(&preferred.get("podAffinityTerm"), out);
        }
    }
}

fn weight(weight: &Field<'_>, out: &mut Findings) {
    if !(1..=100).contains(&weight.int().unwrap_or(0)) {
        out.push(weight.invalid_as(weight.int().unwrap_or(0), "must be in the range 1-100"));
    }
}

fn pod_term(term: &Field<'_>, out: &mut Findings) {
    selector(&term.get("labelSelector"), out);
    selector(&term.get("namespaceSelector"), out);
    topology_key(&term.get("topologyKey"), out);
}

fn node_term(term: &Field<'_>, out: &mut Findings) {
    for expression in term.get("matchExpressions").items() {
        let (operator, values) = (expression.get("operator"), expression.get("values"));
        match operator.text() {
            "Gt" | "Lt" if values.len() != 1 => {
                let says = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                out.push(values.required(says));
            }
            "Gt" | "Lt" => {}
            other if operator_values(other, &values, out) => {}
            _ => out.push(operator.invalid("not a valid selector operator")),
        }
        named(&expression.get("key"), names::qualified_name, out);
    }
}
