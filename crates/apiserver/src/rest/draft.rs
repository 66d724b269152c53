//! Making the object that a write is to commit: every rule between decoding and commit.
//!
//! A draft is a function of the request and of the object as it was read; it may be made
//! again when somebody else wrote in between. Nothing here commits; webhooks are waited for.

use std::sync::Arc;

use bytes::Bytes;
use flagship_base::machinery::status::{ApiError, FieldError};
use flagship_base::names;
use flagship_kinds as kinds;
use flagship_store::{ObjectKey, Stored};
use serde_json::{Value, json};

use super::admission::{Hooks, Options};
use super::cluster::{Caller, Cluster, Ctx, Place};
use super::decode::{self, Decoded};
use super::options::WriteOptions;
use super::patching::Patch;
use super::rules::Twice;
use super::subresource::Sub;
use super::write::{Source, parse};
use super::{certificates, crd, managers, meta, roles, rules};
use crate::registry::{Kind, Origin, Served};

/// An object ready to be committed, in its storage version.
pub(super) struct PreparedObject {
    pub(super) value: Value,
    pub(super) warnings: Vec<String>,
    /// The write removes the object: it was terminating and nothing holds it any more.
    pub(super) removes: bool,
    /// The part of the object that was written.
    pub(super) sub: Sub,
    /// What a definition defines, kept so that serving it does not compile it again.
    pub(super) defines: Option<Arc<Kind>>,
}

impl PreparedObject {
    /// An object to be deleted or marked.
    pub(super) fn of_deletion(value: Value, warnings: Vec<String>, removes: bool) -> Self {
        Self { value, warnings, removes, sub: Sub::Main, defines: None }
    }
}

/// Who owns the fields of a new object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The writer, by what it wrote.
    Record,
    /// The applier, by what it asked for.
    Apply,
    /// The server, which does not ask webhooks and policies: nothing is waited for.
    Server,
}

/// Drafts a new object.
pub(super) async fn draft_create(
    cluster: &Cluster,
    caller: &Caller,
    place: &Place,
    body: Decoded,
    options: &WriteOptions,
    owner: Owner,
) -> Result<PreparedObject, ApiError> {
    let served = &place.served;
    let kind = &*served.kind;
    if crd::is_terminating(cluster, kind) {
        return Err(crd::terminating_error());
    }
    let dry_run = options.dry_run;
    let asked = (owner != Owner::Server).then_some(Options::Write(options));
    let (operation, sub) = ("create", Sub::Main);
    let hooks = Hooks { cluster, caller, place, operation, sub, dry_run, options: asked };
    let mut warnings = Vec::new();
    warnings.extend(served.version().deprecation.as_deref().map(str::to_owned));

    let Decoded { value: mut object, duplicates, text } = body;
    check_type(served, &mut object)?;
    meta::check_shape(&mut object)?;
    // Only where it would be stored a version of what is not there yet is a mistake, and said
    // after everything else that is wrong.
    let versioned = !meta::text(&object, "resourceVersion").is_empty() && !dry_run;
    let manager = options.field_manager.as_deref().unwrap_or(&caller.manager);
    if owner == Owner::Apply {
        object =
            managers::apply(cluster, served, None, &object, manager, options.force, Sub::Main)?;
    }
    check_place(place, &mut object)?;
    let twice = Twice { duplicates: &duplicates, text: &text };
    let decoded = rules::decode(served, &mut object, twice, options.field_validation);
    warnings.extend(decoded.map_err(|says| rules::unreadable(served, &says))?);
    check_namespace(cluster, place, &object)?;

    meta::strip_server_owned(&mut object);
    name_it(cluster, &mut object);
    hooks.mutate(&mut object, None, &mut warnings).await?;
    roles::check(cluster, caller, place, &object, None)?;
    own_new(cluster, &mut object);
    // Before the kind fills in what is nobody's.
    if owner != Owner::Apply {
        managers::record_new(cluster, served, &mut object, manager);
    }
    rules::prepare_create(cluster, served, &mut object)?;
    certificates::identify(caller, kind, &mut object);

    let mut errors = meta::validate(kind, &object);
    errors.extend(rules::validate_create(served, &object));
    refuse_invalid(served, &object, &errors)?;
    let defines = crd::define(cluster, kind, &object)?;
    warnings.extend(crd::warnings(defines.as_deref()));
    certificates::check(cluster, caller, place, sub, &object, None)?;
    hooks.validate(&object, None, &mut warnings).await?;
    if versioned {
        let says = "resourceVersion should not be set on objects to be created";
        return Err(ApiError::new(500, "", says));
    }

    let value = rules::convert(kind, kind.storage, object);
    Ok(PreparedObject { value, warnings, removes: false, sub: Sub::Main, defines })
}

/// What a change amounts to.
pub(super) enum Drafted {
    /// Nothing would change.
    Same(Vec<String>),
    Changed(PreparedObject),
}

/// Drafts the change of an object.
pub(super) async fn draft_update(
    ctx: &Ctx<'_>,
    current: &Stored,
    source: &mut Source,
    sub: Sub,
    options: &WriteOptions,
) -> Result<Drafted, ApiError> {
    let Ctx { cluster, caller, place, .. } = ctx;
    let served = &place.served;
    let kind = &*served.kind;
    let dry_run = options.dry_run;
    let (operation, asked) = ("update", Some(Options::Write(options)));
    let hooks = Hooks { cluster, caller, place, operation, sub, dry_run, options: asked };
    let mut warnings: Vec<String> = Vec::new();
    warnings.extend(served.version().deprecation.as_deref().map(str::to_owned));

    let stored = parse(current)?;
    let moved = stored["apiVersion"] != *served.version().api_version;
    let converted = (moved || current.revision < served.since)
        .then(|| rules::current(served, served.version, current))
        .transpose()?;
    let old = converted.as_ref().unwrap_or(&stored);
    let manager = options.field_manager.as_deref().unwrap_or(&caller.manager);
    let text = match source {
        Source::Object(body) => body.text.clone(),
        Source::Patch(_) | Source::Consumed => Bytes::new(),
    };
    let (mut sent, duplicates) = sub.evaluate(ctx, old, source, manager, options)?;
    check_type(served, &mut sent)?;
    meta::check_shape(&mut sent)?;
    check_place(place, &mut sent)?;
    let twice = Twice { duplicates: &duplicates, text: &text };
    let decoded = rules::decode(served, &mut sent, twice, options.field_validation);
    warnings.extend(decoded.map_err(|says| refuse_unread(served, source, &sent, &says))?);
    check_preconditions(place, source, &sent, old)?;

    // These paths put the metadata back as it was; what was sent is not judged.
    let mut errors = match (sub, kind.origin) {
        (Sub::Status, Origin::Builtin(id)) if !kinds::metadata_through_status(id).is_empty() => {
            meta::validate_update(kind, &sent, old)
        }
        (Sub::Status | Sub::Finalize, _) => Vec::new(),
        _ => meta::validate_update(kind, &sent, old),
    };
    let mut new = sent;
    meta::carry_over(&mut new, old);
    hooks.mutate(&mut new, Some(old), &mut warnings).await?;
    roles::check(cluster, caller, place, &new, Some(old))?;
    meta::carry_over(&mut new, old);
    rules::prepare_update(cluster, served, sub, &mut new, old)?;
    certificates::stamp(cluster, kind, sub, &mut new, old);
    count_generation(served, sub, &mut new, old);
    if sub == Sub::Scale || !matches!(source, Source::Patch(Patch::Apply(_))) {
        managers::record(cluster, served, Some(old), &mut new, manager, sub);
    }

    errors.extend(meta::validate(kind, &new));
    errors.extend(rules::validate_update(served, sub, &new, old));
    refuse_invalid(served, &new, &errors)?;
    let defines = match sub {
        Sub::Main => crd::define(cluster, kind, &new)?,
        _ => None,
    };
    warnings.extend(crd::warnings(defines.as_deref()));
    certificates::check(cluster, caller, place, sub, &new, Some(old))?;
    hooks.validate(&new, Some(old), &mut warnings).await?;

    let mut value = rules::convert(kind, kind.storage, new);
    let revision = meta::of(&stored)["resourceVersion"].clone();
    meta::of_mut(&mut value).insert("resourceVersion".to_owned(), revision);
    if value == stored || managers::only_times_differ(&value, &stored) {
        return Ok(Drafted::Same(warnings));
    }
    let removes = is_released(kind, &value);
    Ok(Drafted::Changed(PreparedObject { value, warnings, removes, sub, defines }))
}

/// What a client is told whose change leads to something that cannot be read: a patch is
/// blamed, not the object.
fn refuse_unread(served: &Served, source: &Source, sent: &Value, says: &str) -> ApiError {
    const MAX_SHOWN: usize = 64 * 1024;
    let shown = match source {
        Source::Patch(Patch::Strategic(body)) => flagship_patch::printed(&body.value, MAX_SHOWN),
        Source::Patch(Patch::Json(_) | Patch::Merge(_)) => sent.to_string(),
        _ => return rules::unreadable(served, says),
    };
    let error = FieldError::invalid("patch", json!(shown), says);
    ApiError::invalid("", "", "", &[error])
}

/// A body of so many bytes is repeated to whoever sent it.
const MAX_REPEATED: usize = 4096;

/// Holds `apiVersion` and `kind` against the path. Built-in kinds may leave them out.
fn check_type(served: &Served, object: &mut Value) -> Result<(), ApiError> {
    let Some(map) = object.as_object_mut() else {
        let kind = &served.kind.kind;
        let says = format!("the object provided is unrecognized (must be of type {kind})");
        return Err(ApiError::bad_request(says));
    };
    let wanted = [("apiVersion", &served.version().api_version), ("kind", &served.kind.kind)];
    let absent = |key: &str| match map.get(key) {
        None | Some(Value::Null) => true,
        Some(value) => value == "",
    };
    let missing = [("kind", "Kind"), ("apiVersion", "apiVersion")];
    let missing = missing.into_iter().find(|(key, _)| absent(key));
    if let Some((_, name)) = missing.filter(|_| served.kind.row().is_none()) {
        let sent = Value::Object(map.clone()).to_string();
        let why = match sent.len() {
            ..=MAX_REPEATED => format!("Object '{name}' is missing in '{sent}'"),
            _ => format!("Object '{name}' is missing"),
        };
        return Err(decode::unrecognized(&served.kind.kind, &why, sent.as_bytes()));
    }
    for (key, want) in wanted {
        match map.get(key) {
            Some(Value::String(got)) if **got == **want => {}
            None | Some(Value::Null) if served.kind.row().is_some() => {
                map.insert(key.to_owned(), json!(want));
            }
            Some(Value::String(got)) if got.is_empty() && served.kind.row().is_some() => {
                map.insert(key.to_owned(), json!(want));
            }
            Some(Value::String(got)) if key == "apiVersion" && !got.is_empty() => {
                return Err(ApiError::bad_request(format!(
                    "the API version in the data ({got}) does not match the expected API version ({want})"
                )));
            }
            Some(Value::String(got)) if !got.is_empty() && served.kind.row().is_none() => {
                let group = &served.version().gv.group;
                let error = FieldError::invalid("kind", json!(got), format!("must be {want}"));
                let metadata = map.get("metadata").unwrap_or(&Value::Null);
                let name = metadata["name"].as_str().unwrap_or_default();
                return Err(ApiError::invalid(group, got, name, &[error]));
            }
            Some(Value::String(got)) if !got.is_empty() => {
                let gv = &served.version().gv;
                // What Go calls the packages of the two types.
                let own = gv.group.split('.').next().filter(|own| !own.is_empty());
                let (version, own) = (&gv.version, own.unwrap_or("core"));
                return Err(ApiError::bad_request(format!(
                    "{got} in version {version:?} cannot be handled as a {want}: converting ({version}.{got}) to ({own}.{want}): unknown conversion"
                )));
            }
            _ => {
                let name = if key == "kind" { "Kind" } else { key };
                let says = format!("Object '{name}' is missing or not a string");
                return Err(ApiError::bad_request(says));
            }
        }
    }
    Ok(())
}

/// Holds name and namespace against the path, and fills in what the object leaves out.
fn check_place(place: &Place, object: &mut Value) -> Result<(), ApiError> {
    let namespace = meta::text(object, "namespace");
    if !place.served.kind.namespaced {
        // Clients that fill in a namespace everywhere are not refused for it.
        meta::of_mut(object).remove("namespace");
    } else if namespace.is_empty() {
        meta::of_mut(object).insert("namespace".to_owned(), json!(place.namespace));
    } else if namespace != &*place.namespace {
        let says =
            "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(says));
    }
    let name = meta::text(object, "name");
    if place.name.is_empty() {
        return Ok(());
    }
    if name.is_empty() {
        meta::of_mut(object).insert("name".to_owned(), json!(place.name));
    } else if name != &*place.name {
        let says = format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            place.name
        );
        return Err(ApiError::bad_request(says));
    }
    Ok(())
}

/// A namespaced object needs a namespace that is there to stay.
fn check_namespace(cluster: &Cluster, place: &Place, object: &Value) -> Result<(), ApiError> {
    if !place.served.kind.namespaced {
        return Ok(());
    }
    let namespace = &*place.namespace;
    let key = ObjectKey::new("", namespace);
    let Some(stored) = cluster.store.get("namespaces", &key) else {
        return Err(ApiError::not_found("namespaces", namespace));
    };
    if !stored.head.terminating {
        return Ok(());
    }
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let error = ApiError::forbidden(&place.qualified(), meta::text(object, "name"), &why);
    let says = format!("namespace {namespace} is being terminated");
    Err(error.with_cause("NamespaceTerminating", &says, "metadata.namespace"))
}

/// uid and resourceVersion that the client expects.
fn check_preconditions(
    place: &Place,
    source: &Source,
    sent: &Value,
    old: &Value,
) -> Result<(), ApiError> {
    let (uid, had) = (meta::text(sent, "uid"), meta::text(old, "uid"));
    if !uid.is_empty() && uid != had {
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {had}");
        return Err(ApiError::conflict(&place.qualified(), &place.name, &why));
    }
    let (revision, had) = (meta::text(sent, "resourceVersion"), meta::text(old, "resourceVersion"));
    if revision.is_empty() {
        let kind = &place.served.kind;
        let unconditional = kind.row().is_some_and(|row| row.unconditional_update);
        if matches!(source, Source::Object(_)) && !unconditional {
            let detail = "must be specified for an update";
            let error = FieldError::invalid("metadata.resourceVersion", json!(0), detail);
            let group = &place.served.version().gv.group;
            // Kubernetes names what is custom by its resource here.
            let named = if kind.row().is_some() { &kind.kind } else { &kind.plural };
            return Err(ApiError::invalid(group, named, &place.name, &[error]));
        }
        return Ok(());
    }
    if revision != had {
        return Err(ApiError::stale(&place.qualified(), &place.name));
    }
    Ok(())
}

fn name_it(cluster: &Cluster, object: &mut Value) {
    let base = meta::text(object, "generateName");
    if meta::text(object, "name").is_empty() && !base.is_empty() {
        let name = names::generate(base, &cluster.env.entropy);
        meta::of_mut(object).insert("name".to_owned(), json!(name));
    }
}

/// What the server decides about a new object.
fn own_new(cluster: &Cluster, object: &mut Value) {
    let (uid, now) = (cluster.env.entropy.uuid(), cluster.now());
    let metadata = meta::of_mut(object);
    metadata.insert("uid".to_owned(), json!(uid));
    metadata.insert("creationTimestamp".to_owned(), json!(now));
}

/// Custom resources count every change of what a user writes. Built-in kinds do this
/// in their own preparation.
fn count_generation(served: &Served, sub: Sub, new: &mut Value, old: &Value) {
    if served.kind.row().is_some() || sub == Sub::Status {
        return;
    }
    let has_status = served.version().status;
    let counts = |key: &str| key != "metadata" && !(has_status && key == "status");
    let same = match (new.as_object(), old.as_object()) {
        (Some(new), Some(old)) => {
            let pick = |map: &serde_json::Map<String, Value>| {
                map.iter().filter(|(k, _)| counts(k)).count()
            };
            pick(new) == pick(old)
                && new.iter().filter(|(k, _)| counts(k)).all(|(k, v)| old.get(k) == Some(v))
        }
        _ => false,
    };
    if !same {
        let generation = meta::of(old)["generation"].as_i64().unwrap_or_default() + 1;
        meta::of_mut(new).insert("generation".to_owned(), json!(generation));
    }
}

/// Whether a terminating object has nothing left that holds it.
pub(super) fn is_released(kind: &Kind, object: &Value) -> bool {
    let released = meta::terminating(object)
        && meta::finalizers(object).next().is_none()
        && meta::of(object)["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() == 0;
    let held = kind.is(kinds::Kind::Namespace)
        && object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    released && !held
}

fn refuse_invalid(served: &Served, object: &Value, errors: &[FieldError]) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    // Events are refused in the name of the core group, whichever way they came.
    let group = &served.kind.group;
    let name = match meta::text(object, "name") {
        "" => meta::text(object, "generateName"),
        name => name,
    };
    Err(ApiError::invalid(group, &served.kind.kind, name, errors))
}
