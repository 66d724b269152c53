//! Which writes a webhook or policy is asked about: rules, selectors and conditions.

use flagship_base::machinery::gvk::GroupVersion;
use flagship_base::selector::Selector;
use flagship_kinds::Kind as K;
use flagship_schema::{Evaluation, Program};
use flagship_store::ObjectKey;
use serde_json::Value;

use super::AdmissionInputs;

/// Rules and selectors, of a webhook, a policy or a binding.
#[derive(Debug)]
pub(super) struct Matching {
    rules: Vec<Rule>,
    except: Vec<Rule>,
    namespaces: Option<Selector>,
    objects: Option<Selector>,
    /// Whether other versions of the same kind count, too.
    equivalent: bool,
    /// A selector that cannot be read matches nothing.
    broken: bool,
}

#[derive(Debug)]
struct Rule {
    operations: Vec<Box<str>>,
    groups: Vec<Box<str>>,
    versions: Vec<Box<str>>,
    resources: Vec<Box<str>>,
    names: Vec<Box<str>>,
    /// `Cluster`, `Namespaced` or `*`.
    scope: Box<str>,
}

/// A condition in CEL.
#[derive(Debug)]
pub(super) struct Condition {
    program: Result<Program, String>,
    source: String,
}

impl Matching {
    /// Of a webhook, which has its rules under another name.
    pub(super) fn of_webhook(hook: &Value) -> Self {
        Self { rules: Rule::list(&hook["rules"]), ..Self::read(hook) }
    }

    /// Of a policy or its binding.
    pub(super) fn read(value: &Value) -> Self {
        let mut broken = false;
        let mut selector = |key: &str| {
            let given = value.get(key).filter(|given| given.is_object())?;
            match Selector::from_value(given) {
                Ok(selector) => Some(selector).filter(|s| !s.is_everything()),
                Err(_) => {
                    broken = true;
                    None
                }
            }
        };
        let (namespaces, objects) = (selector("namespaceSelector"), selector("objectSelector"));
        Self {
            rules: Rule::list(&value["resourceRules"]),
            except: Rule::list(&value["excludeResourceRules"]),
            namespaces,
            objects,
            equivalent: value["matchPolicy"] != "Exact",
            broken,
        }
    }

    /// Whether the webhook or policy is asked about a write, and in which version of its kind.
    pub(super) fn version_for(&self, seen: &AdmissionInputs<'_>) -> Option<usize> {
        if self.broken || !self.selects(seen) {
            return None;
        }
        if self.except.iter().any(|rule| self.pick(rule, seen).is_some()) {
            return None;
        }
        self.rules.iter().find_map(|rule| self.pick(rule, seen))
    }

    /// The same for a binding, which may leave everything open.
    pub(super) fn is_open_for(&self, seen: &AdmissionInputs<'_>) -> bool {
        let excepted = || self.except.iter().any(|rule| self.pick(rule, seen).is_some());
        match self.rules.is_empty() {
            true => !self.broken && self.selects(seen) && !excepted(),
            false => self.version_for(seen).is_some(),
        }
    }

    fn pick(&self, rule: &Rule, seen: &AdmissionInputs<'_>) -> Option<usize> {
        let served = &seen.hooks.place.served;
        let kind = &served.kind;
        if !rule.covers(seen) {
            return None;
        }
        let own = served.version;
        let fits = |at: &usize| rule.takes(&kind.versions[*at].gv);
        if fits(&own) {
            return Some(own);
        }
        let others = (0..kind.versions.len()).filter(|_| self.equivalent);
        others.filter(|at| kind.versions[*at].served).find(fits)
    }

    fn selects(&self, seen: &AdmissionInputs<'_>) -> bool {
        if let Some(selector) = &self.objects {
            let labelled = |object: &Value| {
                let labels = &object["metadata"]["labels"];
                object["metadata"].is_object()
                    && selector.matches_what(|label| labels[label].as_str())
            };
            if !labelled(seen.object) && !labelled(seen.old) {
                return false;
            }
        }
        let Some(selector) = &self.namespaces else { return true };
        if seen.hooks.place.served.kind.is(K::Namespace) {
            // A namespace lies within itself.
            let own = if seen.object.is_null() { seen.old } else { seen.object };
            return selector.matches_what(|label| own["metadata"]["labels"][label].as_str());
        }
        if seen.namespace.is_empty() {
            return true;
        }
        let store = &seen.hooks.cluster.store;
        let Some(namespace) = store.get("namespaces", &ObjectKey::new("", seen.namespace)) else {
            return selector.matches_what(|_| None);
        };
        let labels: Vec<(&str, &str)> = namespace.head.labels.iter().collect();
        selector.matches_what(|label| labels.iter().find(|(key, _)| *key == label).map(|(_, v)| *v))
    }
}

impl Rule {
    fn list(value: &Value) -> Vec<Self> {
        let texts = |list: &Value| -> Vec<Box<str>> {
            let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
            texts.map(Box::from).collect()
        };
        let each = value.as_array().into_iter().flatten().map(|rule| Self {
            operations: texts(&rule["operations"]),
            groups: texts(&rule["apiGroups"]),
            versions: texts(&rule["apiVersions"]),
            resources: texts(&rule["resources"]),
            names: texts(&rule["resourceNames"]),
            scope: rule["scope"].as_str().unwrap_or("*").into(),
        });
        each.collect()
    }

    fn covers(&self, seen: &AdmissionInputs<'_>) -> bool {
        let kind = &seen.hooks.place.served.kind;
        // A namespace counts as one of the cluster's.
        let scope = match &*self.scope {
            "Namespaced" => !seen.namespace.is_empty(),
            "Cluster" => seen.namespace.is_empty(),
            _ => true,
        };
        let named = self.names.is_empty() || self.names.iter().any(|name| **name == *seen.name);
        let sub = seen.subresource();
        let resource = self.resources.iter().any(|text| {
            let (resource, below) = text.split_once('/').unwrap_or((text, ""));
            (resource == "*" || resource == &*kind.plural)
                && (below == sub || (below == "*" && text.contains('/')))
        });
        scope && named && resource && has(&self.operations, seen.operation)
    }

    fn takes(&self, gv: &GroupVersion) -> bool {
        has(&self.groups, &gv.group) && has(&self.versions, &gv.version)
    }
}

fn has(list: &[Box<str>], text: &str) -> bool {
    list.iter().any(|known| **known == *"*" || **known == *text)
}

impl Condition {
    pub(super) fn list(value: &Value) -> Vec<Self> {
        let each = value.as_array().into_iter().flatten().map(|condition| {
            let source = condition["expression"].as_str().unwrap_or_default();
            Self { program: Program::condition(source), source: source.trim().to_owned() }
        });
        each.collect()
    }

    /// Whether all hold. One that does not outweighs others that cannot be told.
    pub(super) fn all(list: &[Self], evaluation: &mut Evaluation<'_>) -> Result<bool, String> {
        let mut wrong = None;
        for condition in list {
            let held = match &condition.program {
                Ok(program) => evaluation.holds(program),
                Err(why) => Err(why.clone()),
            };
            match held {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(why) => {
                    let source = &condition.source;
                    wrong.get_or_insert(format!("expression '{source}' resulted in error: {why}"));
                }
            }
        }
        wrong.map_or(Ok(true), Err)
    }
}
