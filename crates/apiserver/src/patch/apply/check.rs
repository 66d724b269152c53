//! Whether an applied configuration can be taken apart: every field known, every list
//! element told from the others.

use std::collections::BTreeSet;

use serde_json::Value;

use super::element::Element;
use super::place::{Place, Shape, step};

/// More findings than this help nobody.
const MAX_FINDINGS: usize = 20;

/// Everything wrong with `applied`, as Kubernetes lists it.
pub(super) fn check(applied: &Value, root: Place<'_>) -> Result<(), String> {
    let mut findings = Findings { path: Vec::new(), texts: Vec::new() };
    findings.walk(applied, root);
    match findings.texts.as_slice() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

struct Findings {
    path: Vec<Element>,
    texts: Vec<String>,
}

impl Findings {
    fn add(&mut self, what: &str) {
        if self.texts.len() < MAX_FINDINGS {
            let path: String = self.path.iter().map(ToString::to_string).collect();
            self.texts.push(if path.is_empty() {
                what.to_owned()
            } else {
                format!("{path}: {what}")
            });
        }
    }

    fn inside(&mut self, element: Element, value: &Value, place: Place<'_>) {
        self.path.push(element);
        self.walk(value, place);
        self.path.pop();
    }

    fn walk(&mut self, value: &Value, place: Place<'_>) {
        if let Some(wanted) = place.mismatch(value) {
            let got = flagship_patch::type_name(value);
            self.add(&format!("expected {wanted}, got {got}"));
            return;
        }
        match (place.shape(value, self.path.len()), value) {
            (Shape::Map, Value::Object(map)) => {
                for (name, child) in map {
                    if place.forbids(name) {
                        self.path.push(Element::field(name));
                        self.add("field not declared in schema");
                        self.path.pop();
                    } else {
                        self.inside(Element::field(name), child, place.field(name));
                    }
                }
            }
            (shape @ (Shape::Set | Shape::Keyed(_)), Value::Array(list)) => {
                let items = place.items();
                let mut seen = BTreeSet::new();
                for (at, item) in list.iter().enumerate() {
                    match step(item, shape, items) {
                        Err(key) => self.add(&format!(
                            "element {at}: associative list with keys has an element that omits key field {key:?} (and doesn't have default value)"
                        )),
                        Ok(element) if !seen.insert(element.clone()) => {
                            self.add(&format!("duplicate entries for key {element}"));
                        }
                        Ok(element) => self.inside(element, item, items),
                    }
                }
            }
            _ => {}
        }
    }
}
