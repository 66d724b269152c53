//! ValidatingAdmissionPolicies and their bindings: rules in CEL that a cluster holds.
//!
//! A policy does nothing until it is bound; a binding says for which part of the policy's
//! resources, with which parameters, and whether a broken rule refuses or warns. What a
//! policy notes for an audit goes to the log of this process, for there is no other.

use std::collections::BTreeMap;

use flagship_base::machinery::gvk::GroupVersion;
use flagship_base::machinery::status::ApiError;
use flagship_base::selector::Selector;
use flagship_schema::{Evaluation, Noted, Program, Sight};
use flagship_store::{ObjectKey, Scope};
use serde_json::Value;

use super::AdmissionInputs;
use super::matching::{Condition, Matching};
use crate::registry::Served;
use crate::rest::rules;

/// Code and reason of a refusal that names none.
const INVALID: (u16, &str) = (422, "Invalid");

/// All policies of a cluster with their bindings.
#[derive(Default)]
pub(super) struct Policies {
    all: Vec<Policy>,
}

struct Policy {
    name: String,
    ignores_failure: bool,
    matching: Matching,
    conditions: Vec<Condition>,
    /// What does not compile, of variables that a rule may use.
    variables: Result<Vec<(String, Program)>, String>,
    rules: Vec<Rule>,
    notes: Vec<Note>,
    /// `apiVersion` and kind of its parameters.
    params: Option<(String, String)>,
    bindings: Vec<Binding>,
}

struct Rule {
    source: String,
    program: Result<Program, String>,
    message: String,
    worded: Option<Program>,
    /// Code and reason of a refusal.
    refusal: (u16, &'static str),
}

/// Something that is noted for an audit.
struct Note {
    key: String,
    source: String,
    program: Result<Program, String>,
}

struct Binding {
    name: String,
    matching: Option<Matching>,
    denies: bool,
    warns: bool,
    params: Option<ParamRef>,
}

struct ParamRef {
    name: String,
    namespace: String,
    selector: Option<Selector>,
    /// Nothing found refuses the write.
    required: bool,
}

impl Policies {
    pub(super) fn read(policies: &[Value], bindings: &[Value]) -> Self {
        let mut bound: BTreeMap<&str, Vec<Binding>> = BTreeMap::new();
        for binding in bindings {
            let policy = binding["spec"]["policyName"].as_str().unwrap_or_default();
            bound.entry(policy).or_default().push(Binding::read(binding));
        }
        let each = policies.iter().filter_map(|policy| {
            let name = policy["metadata"]["name"].as_str().unwrap_or_default();
            // Unbound it says nothing, so it need not be compiled.
            bound.remove(name).map(|bindings| Policy::read(name, &policy["spec"], bindings))
        });
        Self { all: each.collect() }
    }

    /// Refuses what a bound policy refuses, and collects warnings.
    pub(super) fn check(
        &self,
        seen: &AdmissionInputs<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        for policy in &self.all {
            let Some(version) = policy.matching.version_for(seen) else { continue };
            if let Some(why) = policy.misconfigured(seen) {
                if policy.ignores_failure {
                    continue;
                }
                return Err(denial(
                    seen,
                    &format!("{} denied request: {why}", policy.shown()),
                    INVALID,
                ));
            }
            for binding in &policy.bindings {
                if binding.matching.as_ref().is_none_or(|matching| matching.is_open_for(seen)) {
                    policy.judge(binding, seen, version, warnings)?;
                }
            }
        }
        Ok(())
    }
}

impl Policy {
    fn read(name: &str, spec: &Value, bindings: Vec<Binding>) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let items = |key: &str| spec[key].as_array().into_iter().flatten();
        let variables = items("variables").map(|one| {
            let program = Program::compile(one["expression"].as_str().unwrap_or_default())?;
            Ok((text(&one["name"]), program))
        });
        let params = &spec["paramKind"];
        Self {
            name: name.to_owned(),
            ignores_failure: spec["failurePolicy"] == "Ignore",
            matching: Matching::read(&spec["matchConstraints"]),
            conditions: Condition::list(&spec["matchConditions"]),
            variables: variables.collect(),
            rules: items("validations").map(Rule::read).collect(),
            notes: items("auditAnnotations").map(Note::read).collect(),
            params: params
                .is_object()
                .then(|| (text(&params["apiVersion"]), text(&params["kind"]))),
            bindings,
        }
    }

    fn judge(
        &self,
        binding: &Binding,
        seen: &AdmissionInputs<'_>,
        version: usize,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        let params = match self.params(binding, seen) {
            Ok(params) => params,
            Err(_) if self.ignores_failure => return Ok(()),
            Err(why) => return self.refuse(binding, seen, &why, INVALID, warnings),
        };
        let (object, old) = (seen.shown(seen.object, version), seen.shown(seen.old, version));
        let (request, namespace) = (seen.request("", version), seen.namespace_object());
        let variables = match &self.variables {
            Ok(variables) => variables.as_slice(),
            Err(_) if self.ignores_failure => return Ok(()),
            Err(why) => return self.refuse(binding, seen, why, INVALID, warnings),
        };
        for params in &params {
            let sight = Sight {
                object: &object,
                old: &old,
                request: &request,
                params,
                namespace: &namespace,
                asker: seen.asker(),
                at: seen.at(),
                variables,
            };
            let mut evaluation = Evaluation::new(&sight);
            match Condition::all(&self.conditions, &mut evaluation) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(_) if self.ignores_failure => continue,
                Err(why) => {
                    self.refuse(binding, seen, &why, INVALID, warnings)?;
                    continue;
                }
            }
            for rule in &self.rules {
                let held = match &rule.program {
                    Ok(program) => evaluation.holds(program),
                    Err(why) => Err(why.clone()),
                };
                let says = match held {
                    Ok(true) => continue,
                    Ok(false) => rule.says(&mut evaluation),
                    Err(_) if self.ignores_failure => continue,
                    Err(why) => {
                        format!("expression '{}' resulted in error: {why}", rule.source)
                    }
                };
                self.refuse(binding, seen, &says, rule.refusal, warnings)?;
            }
            for note in &self.notes {
                self.note(note, binding, seen, &mut evaluation)?;
            }
        }
        Ok(())
    }

    /// Writes a note down. One that cannot be made refuses, whatever the binding wants.
    fn note(
        &self,
        note: &Note,
        binding: &Binding,
        seen: &AdmissionInputs<'_>,
        evaluation: &mut Evaluation<'_>,
    ) -> Result<(), ApiError> {
        let noted = match &note.program {
            Ok(program) => evaluation.note(program),
            Err(why) => Err(why.clone()),
        };
        let says = match noted {
            Ok(Noted::Nothing) => return Ok(()),
            Ok(Noted::Text(text)) => {
                tracing::info!(policy = self.name, key = note.key, text, "noted for an audit");
                return Ok(());
            }
            Ok(Noted::Odd(kind)) => format!(
                "valueExpression '{}' resulted in unsupported return type: {kind}. Return type must be either string or null.",
                note.source
            ),
            Err(_) if self.ignores_failure => return Ok(()),
            Err(why) => format!("expression '{}' resulted in error: {why}", note.source),
        };
        let who = format!("{} with binding '{}'", self.shown(), binding.name);
        Err(denial(seen, &format!("{who} denied request: {says}"), INVALID))
    }

    /// Refuses or warns, as the binding wants.
    fn refuse(
        &self,
        binding: &Binding,
        seen: &AdmissionInputs<'_>,
        says: &str,
        refusal: (u16, &'static str),
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        let who = format!("{} with binding '{}'", self.shown(), binding.name);
        if binding.warns {
            warnings.push(format!("Validation failed for {who}: {says}"));
        }
        if !binding.denies {
            tracing::debug!(policy = self.name, says, "noted");
            return Ok(());
        }
        Err(denial(seen, &format!("{who} denied request: {says}"), refusal))
    }

    fn shown(&self) -> String {
        format!("ValidatingAdmissionPolicy '{}'", self.name)
    }

    /// What is wrong with the policy itself, whoever binds it.
    fn misconfigured(&self, seen: &AdmissionInputs<'_>) -> Option<String> {
        let (api_version, kind) = self.params.as_ref()?;
        if find(seen, api_version, kind).is_some() {
            return None;
        }
        let gv = match api_version.contains('/') {
            true => api_version.clone(),
            false => format!("/{api_version}"),
        };
        Some(format!(
            "failed to configure policy: failed to find resource referenced by paramKind: '{gv}, Kind={kind}'"
        ))
    }

    /// The parameters that a binding names: one run of the rules each.
    fn params(&self, binding: &Binding, seen: &AdmissionInputs<'_>) -> Result<Vec<Value>, String> {
        let (Some((api_version, kind)), Some(wanted)) = (&self.params, &binding.params) else {
            return Ok(vec![Value::Null]);
        };
        let served =
            find(seen, api_version, kind).ok_or_else(|| "the kind of params is gone".to_owned())?;
        let namespace = match (served.kind.namespaced, wanted.namespace.as_str()) {
            (false, _) => "",
            (true, "") if seen.namespace.is_empty() => {
                return Err("failed to configure binding: cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".to_owned());
            }
            (true, "") => seen.namespace,
            (true, named) => named,
        };
        let store = &seen.hooks.cluster.store;
        let resource = &served.kind.resource;
        let found = match &wanted.selector {
            None => {
                store.get(resource, &ObjectKey::new(namespace, &*wanted.name)).into_iter().collect()
            }
            Some(selector) => {
                let scope =
                    if namespace.is_empty() { Scope::All } else { Scope::Namespace(namespace) };
                let mut items = store.list(resource, scope).items;
                items.retain(|stored| {
                    let labels: Vec<(&str, &str)> = stored.head.labels.iter().collect();
                    selector
                        .matches_what(|l| labels.iter().find(|(key, _)| *key == l).map(|(_, v)| *v))
                });
                items
            }
        };
        if found.is_empty() && wanted.required {
            return Err("failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        let read = found.iter().map(|stored| rules::current(&served, served.version, stored));
        read.collect::<Result<_, _>>().map_err(|error| error.message)
    }
}

/// A refusal in the words of Kubernetes, which call it forbidden whatever its reason.
fn denial(seen: &AdmissionInputs<'_>, says: &str, (code, reason): (u16, &'static str)) -> ApiError {
    let error = seen.forbidden(says);
    ApiError { code, reason, ..error }.with_cause("", says, "")
}

/// The kind of parameters, in the version that the policy names.
fn find(seen: &AdmissionInputs<'_>, api_version: &str, kind: &str) -> Option<Served> {
    let gv = GroupVersion::parse(api_version)?;
    seen.hooks.cluster.registry.named(&gv, kind)
}

impl Rule {
    fn read(value: &Value) -> Self {
        let text = |key: &str| value[key].as_str().unwrap_or_default().trim().to_owned();
        let source = text("expression");
        let worded = Some(text("messageExpression")).filter(|text| !text.is_empty());
        Self {
            program: Program::condition(&source),
            message: text("message"),
            worded: worded.and_then(|text| Program::wording(&text).ok()),
            refusal: match text("reason").as_str() {
                "Forbidden" => (403, "Forbidden"),
                "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
                _ => INVALID,
            },
            source,
        }
    }

    fn says(&self, evaluation: &mut Evaluation<'_>) -> String {
        let worded = self.worded.as_ref().and_then(|program| evaluation.text(program));
        worded.unwrap_or_else(|| match self.message.as_str() {
            "" => format!("failed expression: {}", self.source),
            message => message.to_owned(),
        })
    }
}

impl Note {
    fn read(value: &Value) -> Self {
        let text = |key: &str| value[key].as_str().unwrap_or_default().trim().to_owned();
        let source = text("valueExpression");
        Self { key: text("key"), program: Program::note(&source), source }
    }
}

impl Binding {
    fn read(binding: &Value) -> Self {
        let spec = &binding["spec"];
        let actions = spec["validationActions"].as_array();
        let does = |action: &str| actions.is_some_and(|list| list.iter().any(|one| one == action));
        let (params, resources) = (&spec["paramRef"], &spec["matchResources"]);
        let text = |key: &str| params[key].as_str().unwrap_or_default().to_owned();
        Self {
            name: binding["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            matching: resources.is_object().then(|| Matching::read(resources)),
            denies: does("Deny"),
            warns: does("Warn"),
            params: params.is_object().then(|| ParamRef {
                name: text("name"),
                namespace: text("namespace"),
                selector: params["selector"]
                    .is_object()
                    .then(|| Selector::from_value(&params["selector"]).ok())
                    .flatten(),
                required: text("parameterNotFoundAction") != "Allow",
            }),
        }
    }
}
