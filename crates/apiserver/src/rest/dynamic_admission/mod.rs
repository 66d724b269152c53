//! What users put in front of writes: webhooks and admission policies.
//!
//! They are compiled when a configuration was written and kept until the next one is.
//! A cluster without any pays one look at a number. `matching` says which writes one is
//! asked about, `webhook` and `call` ask, `policy` decides by expressions.
//!
//! Hooks inside the process are `rest::admission`'s; these come after them.

mod call;
pub(super) mod checked;
mod matching;
mod policy;
mod trust;
mod webhook;

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use flagship_base::machinery::path::ObjectPath;
use flagship_base::machinery::status::{ApiError, FieldError};
use flagship_kinds::Kind as K;
use flagship_schema::{Asker, Program, Sighted};
use flagship_store::{ObjectKey, Scope, Store};
use serde_json::{Value, json};

use super::admission::{Hooks, Options};
use super::options::{FieldValidation, Propagation};
use super::subresource::Sub;
use super::{meta, rules, scale};

use policy::Policies;
use webhook::Webhook;

const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";
const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
const BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";

/// The webhooks and policies of one cluster, kept up to date.
#[derive(Default)]
pub(super) struct Cache {
    now: RwLock<Arc<Configured>>,
}

/// Everything that is asked about writes, compiled, in the order it is asked.
#[derive(Default)]
struct Configured {
    revision: u64,
    mutating: Vec<Arc<Webhook>>,
    validating: Vec<Arc<Webhook>>,
    policies: Policies,
}

impl Cache {
    /// The webhooks and policies as the store has them now; `None` when there are none.
    fn current(&self, store: &Store) -> Option<Arc<Configured>> {
        let revision = store.last_change(&[MUTATING, VALIDATING, POLICIES, BINDINGS]);
        if revision == 0 {
            return None;
        }
        let known = self.now.read().unwrap_or_else(PoisonError::into_inner).clone();
        if known.revision >= revision {
            return Some(known);
        }
        let fresh = Arc::new(Configured::read(store, revision));
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        if now.revision < fresh.revision {
            *now = fresh.clone();
        }
        Some(fresh)
    }
}

impl Configured {
    fn read(store: &Store, revision: u64) -> Self {
        let objects = |resource: &str| -> Vec<Value> {
            let items = store.list(resource, Scope::All).items;
            items.iter().filter_map(|stored| serde_json::from_slice(&stored.json).ok()).collect()
        };
        let hooks = |resource: &str| -> Vec<Arc<Webhook>> {
            let all = objects(resource);
            let each = all.iter().flat_map(|o| o["webhooks"].as_array().into_iter().flatten());
            each.map(|hook| Arc::new(Webhook::read(hook))).collect()
        };
        Self {
            revision,
            mutating: hooks(MUTATING),
            validating: hooks(VALIDATING),
            policies: Policies::read(&objects(POLICIES), &objects(BINDINGS)),
        }
    }
}

/// A write as webhooks and policies see it.
struct AdmissionInputs<'a> {
    hooks: &'a Hooks<'a>,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    operation: &'static str,
    /// Null for a deletion.
    object: &'a Value,
    /// Null for a creation.
    old: &'a Value,
    name: &'a str,
    namespace: &'a str,
}

impl<'a> Hooks<'a> {
    /// Whether anything outside the process is asked about this write at all.
    fn configured(&self) -> Option<Arc<Configured>> {
        // They cannot stand in their own way.
        let kind = &self.place.served.kind;
        let own = [
            K::MutatingWebhookConfiguration,
            K::ValidatingWebhookConfiguration,
            K::ValidatingAdmissionPolicy,
            K::ValidatingAdmissionPolicyBinding,
        ];
        // The binding that this write carries out was asked about.
        let carried_out = self.sub == Sub::Binding && self.operation == "update";
        let unasked = self.options.is_none() || self.caller.unguarded;
        if unasked || carried_out || own.iter().any(|own| kind.is(*own)) {
            return None;
        }
        self.cluster.dynamic_admission.current(&self.cluster.store)
    }

    fn seen(
        &'a self,
        object: &'a Value,
        old: Option<&'a Value>,
        (name, namespace): (&'a str, &'a str),
    ) -> AdmissionInputs<'a> {
        let (operation, object) = match self.operation {
            "create" => ("CREATE", object),
            "delete" => ("DELETE", &Value::Null),
            "connect" => ("CONNECT", object),
            _ => ("UPDATE", object),
        };
        AdmissionInputs {
            hooks: self,
            operation,
            object,
            old: old.unwrap_or(&Value::Null),
            name,
            namespace,
        }
    }

    /// Lets webhooks change the object.
    pub(super) async fn ask_to_mutate(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        let Some(configured) =
            self.configured().filter(|configured| !configured.mutating.is_empty())
        else {
            return Ok(());
        };
        let Some((mut shown, old_shown)) = self.scales(object, old) else {
            // Boxed: requests without webhooks should not carry room for one.
            return Box::pin(self.mutate_by(&configured.mutating, object, old, warnings)).await;
        };
        let before = shown.clone();
        Box::pin(self.mutate_by(&configured.mutating, &mut shown, old_shown.as_ref(), warnings))
            .await?;
        if shown != before {
            scale::apply(&self.place.served, &self.place.name, &shown, object)?;
        }
        Ok(())
    }

    /// The Scales of an object before and after, where that is what is written.
    fn scales(&self, object: &Value, old: Option<&Value>) -> Option<(Value, Option<Value>)> {
        let of = |object: &Value| scale::of(&self.place.served, object);
        if self.sub == Sub::Scale { Some((of(object)?, old.and_then(of))) } else { None }
    }

    async fn mutate_by(
        &self,
        webhooks: &[Arc<Webhook>],
        object: &mut Value,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        let (name, namespace) = self.place_of(object);
        // Those that want to be asked again when others changed the object after them.
        let mut again = Vec::new();
        let mut last_change = 0;
        for (at, webhook) in webhooks.iter().enumerate() {
            let seen = self.seen(object, old, (&name, &namespace));
            let Some(changed) = webhook.mutate(&seen, warnings).await? else { continue };
            if webhook.reinvoked {
                again.push(at);
            }
            if let Some(changed) = changed.filter(|changed| changed != object) {
                *object = self.settled(changed)?;
                last_change = at;
            }
        }
        for at in again.into_iter().filter(|at| *at < last_change) {
            let seen = self.seen(object, old, (&name, &namespace));
            if let Some(Some(changed)) = webhooks[at].mutate(&seen, warnings).await? {
                *object = self.settled(changed)?;
            }
        }
        Ok(())
    }

    /// Lets webhooks change, and policies and webhooks refuse, what is never stored: options
    /// of a connection, or a small object that is posted below another.
    pub(super) async fn ask(
        &self,
        object: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        self.ask_to_mutate(object, None, warnings).await?;
        // Who may have a token is as much a matter of the process' own hooks.
        if self.sub == Sub::Token {
            self.hooks_validate(object, None, warnings)?;
        }
        self.ask_to_validate(object, None, warnings).await
    }

    /// Whether what is asked about is not the object of the path itself.
    fn is_small(&self) -> bool {
        use Sub::{Binding, Connect, Eviction, Scale, Token};
        matches!(self.sub, Binding | Connect(_) | Eviction | Scale | Token)
    }

    fn place_of(&self, object: &Value) -> (String, String) {
        if self.is_small() {
            return (self.place.name.to_string(), self.place.namespace.to_string());
        }
        let text = |key: &str| meta::text(object, key).to_owned();
        (text("name"), text("namespace"))
    }

    /// An object as a webhook left it, with defaults and without what its kind does not know.
    fn settled(&self, mut object: Value) -> Result<Value, ApiError> {
        if self.is_small() {
            return Ok(object);
        }
        meta::check_shape(&mut object)?;
        rules::decode(
            &self.place.served,
            &mut object,
            rules::Twice::default(),
            FieldValidation::Ignore,
        )
        .map_err(ApiError::internal)?;
        Ok(object)
    }

    /// Lets policies and webhooks refuse the object.
    pub(super) async fn ask_to_validate(
        &self,
        object: &Value,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        let Some(configured) = self.configured() else { return Ok(()) };
        let scales = self.scales(object, old);
        let (object, old) = match &scales {
            Some((object, old)) => (object, old.as_ref()),
            None => (object, old),
        };
        let (name, namespace) = self.place_of(object);
        let seen = self.seen(object, old, (&name, &namespace));
        configured.policies.check(&seen, warnings)?;
        if configured.validating.is_empty() {
            return Ok(());
        }
        // All at once, as each may take its time; the first to refuse is told.
        let asked = configured.validating.iter().map(|webhook| webhook.validate(&seen));
        for answer in Box::pin(futures::future::join_all(asked)).await {
            warnings.extend(answer?);
        }
        Ok(())
    }
}

impl AdmissionInputs<'_> {
    fn subresource(&self) -> &'static str {
        self.hooks.sub.name()
    }

    /// 403 about the object of the request.
    fn forbidden(&self, why: &str) -> ApiError {
        ApiError::forbidden(&self.hooks.place.qualified(), self.name, why)
    }

    /// The namespace of the object; null where it has none.
    fn namespace_object(&self) -> Value {
        if self.namespace.is_empty() {
            return Value::Null;
        }
        let key = ObjectKey::new("", self.namespace);
        self.hooks.cluster.read("namespaces", &key).unwrap_or_default()
    }

    fn asker(&self) -> Asker {
        let cluster = self.hooks.cluster;
        let policy = cluster.policy.current(&cluster.store);
        Asker { policy, user: Arc::new(self.hooks.caller.user()) }
    }

    fn at(&self) -> ObjectPath {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let served = &self.hooks.place.served;
        let gv = &served.version().gv;
        ObjectPath {
            group: gv.group.clone(),
            version: gv.version.clone(),
            namespace: some(self.namespace),
            resource: served.kind.plural.to_string(),
            name: some(self.name),
            subresource: some(self.subresource()),
        }
    }

    /// The `request` of an AdmissionReview, without the objects. `version` is the one that
    /// whoever is asked understands.
    fn request(&self, uid: &str, version: usize) -> Value {
        let Hooks { place, caller, dry_run, .. } = self.hooks;
        let kind = &place.served.kind;
        let gv = |at: usize| (&kind.versions[at].gv.group, &kind.versions[at].gv.version);
        let below = kind.row().and_then(|row| row.subresource(self.subresource()));
        let (other, named) = match (self.hooks.sub, below) {
            (Sub::Scale, _) => (Some(("autoscaling", "v1")), "Scale"),
            (_, Some(below)) => (below.group_version, below.kind.unwrap_or(&kind.kind)),
            (_, None) => (None, &*kind.kind),
        };
        let kind_of = |at| {
            let (group, version) = other.unwrap_or((gv(at).0, gv(at).1));
            json!({"group": group, "version": version, "kind": named})
        };
        let resource_of =
            |at| json!({"group": gv(at).0, "version": gv(at).1, "resource": kind.plural});
        let mut user = json!({"username": caller.name, "groups": caller.groups});
        if !caller.uid.is_empty() {
            user["uid"] = json!(caller.uid);
        }
        if !caller.extra.is_empty() {
            user["extra"] = json!(caller.extra);
        }
        let mut request = json!({
            "uid": uid,
            "kind": kind_of(version), "resource": resource_of(version),
            "requestKind": kind_of(place.served.version),
            "requestResource": resource_of(place.served.version),
            "name": self.name, "operation": self.operation, "userInfo": user,
            "dryRun": dry_run, "options": self.options(),
        });
        // A namespace lies within itself.
        let within = if kind.is(K::Namespace) { self.name } else { self.namespace };
        if !within.is_empty() {
            request["namespace"] = json!(within);
        }
        if !self.subresource().is_empty() {
            request["subResource"] = json!(self.subresource());
            request["requestSubResource"] = json!(self.subresource());
        }
        request
    }

    /// What the client asked for besides, as an AdmissionReview tells it.
    fn options(&self) -> Value {
        let kind = match self.operation {
            "CONNECT" => return Value::Null,
            "CREATE" => "CreateOptions",
            "DELETE" => "DeleteOptions",
            _ => "UpdateOptions",
        };
        let mut told = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if self.hooks.dry_run {
            told["dryRun"] = json!(["All"]);
        }
        match self.hooks.options {
            Some(Options::Write(options)) => {
                if let Some(manager) = &options.field_manager {
                    told["fieldManager"] = json!(manager);
                }
                match options.field_validation {
                    FieldValidation::Strict => told["fieldValidation"] = json!("Strict"),
                    FieldValidation::Ignore => told["fieldValidation"] = json!("Ignore"),
                    FieldValidation::Warn => {}
                }
            }
            Some(Options::Delete(options)) => {
                if let Some(seconds) = options.grace_period_seconds {
                    told["gracePeriodSeconds"] = json!(seconds);
                }
                if let Some(uid) = &options.uid {
                    told["preconditions"]["uid"] = json!(uid);
                }
                if let Some(revision) = &options.resource_version {
                    told["preconditions"]["resourceVersion"] = json!(revision);
                }
                if let Some(policy) = options.propagation {
                    told["propagationPolicy"] = json!(match policy {
                        Propagation::Orphan => "Orphan",
                        Propagation::Background => "Background",
                        Propagation::Foreground => "Foreground",
                    });
                }
            }
            Some(Options::Connect) | None => {}
        }
        told
    }

    /// An object of the request in a version that whoever is asked understands.
    fn shown(&self, object: &Value, version: usize) -> Value {
        let served = &self.hooks.place.served;
        if object.is_null() || version == served.version || self.hooks.is_small() {
            return object.clone();
        }
        let stored = rules::convert(&served.kind, served.kind.storage, object.clone());
        rules::convert(&served.kind, version, stored)
    }
}

/// What is wrong with the expressions of a webhook or policy that is written.
pub(super) fn validate(kind: K, object: &Value) -> Vec<FieldError> {
    let mut all = Vec::new();
    let mut variables = Vec::new();
    match kind {
        K::MutatingWebhookConfiguration | K::ValidatingWebhookConfiguration => {
            let hooks = object["webhooks"].as_array().into_iter().flatten();
            for (at, hook) in hooks.enumerate() {
                let path = format!("webhooks[{at}].matchConditions");
                all.extend(written(
                    &hook["matchConditions"],
                    &path,
                    "expression",
                    Program::condition,
                ));
            }
        }
        K::ValidatingAdmissionPolicy => {
            let parts: [(&str, &str, Reader); 5] = [
                ("matchConditions", "expression", Program::condition),
                ("validations", "expression", Program::condition),
                ("validations", "messageExpression", Program::wording),
                ("variables", "expression", Program::compile),
                ("auditAnnotations", "valueExpression", Program::note),
            ];
            let spec = &object["spec"];
            for (list, key, read) in parts {
                all.extend(written(&spec[list], &format!("spec.{list}"), key, read));
            }
            variables.extend(spec["variables"].as_array().into_iter().flatten());
        }
        _ => {}
    }
    let mut errors = Vec::new();
    let mut sound = Vec::new();
    for Written { path, text, read } in all {
        match read(text) {
            Ok(_) => sound.push((path, text)),
            Err(why) => errors.push(FieldError::invalid(path, json!(text), why)),
        }
    }
    // Of a variable that was refused only the name is known.
    let read: BTreeSet<&str> = sound.iter().map(|(_, text)| *text).collect();
    let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
    let named = |one: &&Value| {
        let source = Some(text(&one["expression"])).filter(|source| read.contains(&**source));
        (text(&one["name"]), source.unwrap_or_default())
    };
    let variables: Vec<(String, String)> = variables.iter().map(named).collect();
    let sighted = Sighted { object: None, params: None, variables: &variables };
    let texts: Vec<&str> = sound.iter().map(|(_, text)| *text).collect();
    for ((path, text), told) in sound.into_iter().zip(sighted.complaints(&texts)) {
        errors.extend(told.map(|why| {
            FieldError::invalid(path, json!(text), format!("compilation failed: {why}"))
        }));
    }
    errors
}

type Reader = fn(&str) -> Result<Program, String>;

/// An expression, where it stands, and how it is read.
struct Written<'a> {
    path: String,
    text: &'a str,
    read: Reader,
}

fn written<'a>(list: &'a Value, path: &str, key: &str, read: Reader) -> Vec<Written<'a>> {
    let each = list.as_array().into_iter().flatten().enumerate().map(|(at, item)| Written {
        path: format!("{path}[{at}].{key}"),
        text: item[key].as_str().unwrap_or_default().trim(),
        read,
    });
    // What is missing is told elsewhere.
    each.filter(|written| !written.text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_was_refused_is_known_by_name_and_not_looked_into() {
        let long = format!("object{}", ".a".repeat(1 << 20));
        let policy = json!({"spec": {
            "variables": [
                {"name": "long", "expression": long},
                {"name": "deep", "expression": format!("object{}", ".a".repeat(8000))},
                {"name": "text", "expression": "'a'"},
            ],
            "validations": [
                {"expression": "variables.long && variables.deep"},
                {"expression": "variables.text < 1"},
            ],
        }});
        let told = validate(K::ValidatingAdmissionPolicy, &policy);
        let told: Vec<(&str, &str)> = told
            .iter()
            .map(|error| (&*error.path, error.detail.lines().next().unwrap_or_default()))
            .collect();
        let expected = [
            (
                "spec.variables[0].expression",
                "compilation failed: expression is longer than 16384 bytes",
            ),
            (
                "spec.variables[1].expression",
                "compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 250",
            ),
            (
                "spec.validations[1].expression",
                "compilation failed: ERROR: <input>:1:16: found no matching overload for '_<_' applied to '(string, int)'",
            ),
        ];
        assert_eq!(told, expected);
    }
}
