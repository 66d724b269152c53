//! Places in a schema, and how objects and messages name them.

use serde_json::Value;

/// One step down from an object into what it holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A field of its own.
    Field(String),
    /// An element of a list; samples have one.
    Item,
    /// A value of a map; samples keep one under `key`.
    Value,
}

/// A place in a schema.
#[derive(Clone, Debug)]
pub struct Spot<'a> {
    pub steps: Vec<Step>,
    pub schema: &'a Value,
    /// Whether it is an element of a list that is merged by keys.
    pub is_keyed: bool,
}

/// The key under which samples keep the one value of a map.
pub const KEY: &str = "key";

/// Every place of a schema, the root first. What all objects have is left out.
pub fn all(schema: &Value) -> Vec<Spot<'_>> {
    let mut found = Vec::new();
    walk(schema, &mut Vec::new(), false, &mut found);
    found
}

// As deep as the Rust types that the schema was made of.
fn walk<'a>(schema: &'a Value, steps: &mut Vec<Step>, is_keyed: bool, found: &mut Vec<Spot<'a>>) {
    found.push(Spot { steps: steps.clone(), schema, is_keyed });
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        if steps.is_empty() && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            continue;
        }
        steps.push(Step::Field(name.clone()));
        walk(child, steps, false, found);
        steps.pop();
    }
    for (key, step) in [("items", Step::Item), ("additionalProperties", Step::Value)] {
        if schema[key].is_object() {
            steps.push(step);
            let is_keyed = schema["x-kubernetes-list-type"] == "map";
            walk(&schema[key], steps, is_keyed, found);
            steps.pop();
        }
    }
}

impl Spot<'_> {
    /// As `.spec.stages[].name`, the way facts are written.
    pub fn fact(&self) -> String {
        let text: String = self.steps.iter().map(|step| step.written("[]", "{}")).collect();
        if text.is_empty() { ".".to_owned() } else { text }
    }

    /// As `spec.stages[0].name`, the way errors of the schema name it.
    pub fn field(&self) -> String {
        let text: String = self.steps.iter().map(|step| step.written("[0]", ".key")).collect();
        text.trim_start_matches('.').to_owned()
    }

    /// The same for errors of rules, which bracket keys and call the root nothing.
    pub fn rule_field(&self) -> String {
        let text: String = self.steps.iter().map(|step| step.written("[0]", "[key]")).collect();
        if text.is_empty() { "<nil>".to_owned() } else { text.trim_start_matches('.').to_owned() }
    }

    /// As `/spec/stages/0/name`, the way JSON pointers are written.
    pub fn pointer(&self) -> String {
        let parts = self.steps.iter().map(|step| match step {
            Step::Field(name) => format!("/{name}"),
            Step::Item => "/0".to_owned(),
            Step::Value => format!("/{KEY}"),
        });
        parts.collect()
    }

    /// Whether it is part of the status.
    pub fn is_status(&self) -> bool {
        self.steps.first() == Some(&Step::Field("status".to_owned()))
    }
}

impl Step {
    fn written(&self, item: &str, value: &str) -> String {
        match self {
            Self::Field(name) => format!(".{name}"),
            Self::Item => item.to_owned(),
            Self::Value => value.to_owned(),
        }
    }
}
