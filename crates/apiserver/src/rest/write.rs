//! Creating and changing objects: the pipeline every write goes through.
//!
//! decode -> strict, prune, default -> metadata rules -> mutating hooks -> what the server
//! owns -> managedFields -> validation -> validating hooks -> compare-and-swap. Everything up
//! to the commit is a pure draft over the object as it was read; when somebody else wrote in
//! between, the draft is made again.
//!
//! Deletion is in `delete`; what patches mean is in `patching`.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::admission::Review;
use super::cluster::{Caller, Cluster, Ctx, Place};
use super::decode::Decoded;
use super::failure::{Failure, commit_error};
use super::options::WriteOptions;
use super::patching::Patch;
use super::subresource::Sub;
use super::{crd, managers, meta, rules};
use crate::builtin;
use crate::env::Point;
use crate::machinery::names;
use crate::machinery::status::{ApiError, FieldError};
use crate::registry::{Kind, Served};
use crate::store::{Change, CommitError, Encoded, Expect, Head, ObjectKey, Stored, Write};

/// Objects may have this many bytes, as in etcd.
const MAX_OBJECT: usize = 1_572_864;
/// How often a write is tried again when somebody else wrote in between.
const ATTEMPTS: usize = 5;
/// How often a generated name is drawn again.
const NAME_ATTEMPTS: usize = 8;

/// What came of a write.
#[derive(Debug)]
pub(crate) struct Written {
    /// The object in its storage version, `resourceVersion` included.
    pub(super) value: Value,
    /// The same as bytes.
    pub(super) json: Bytes,
    /// The revision of the object; 0 for a dry-run create.
    pub(super) revision: u64,
    /// Whether the object is new.
    pub(super) created: bool,
    /// What to tell the client in `Warning` headers.
    pub(super) warnings: Vec<String>,
}

/// What a client wants an existing object to become.
pub(crate) enum Source {
    /// This.
    Object(Decoded),
    /// What it is, patched.
    Patch(Patch),
}

/// An object ready to be committed, in its storage version.
pub(super) struct Draft {
    pub(super) value: Value,
    pub(super) warnings: Vec<String>,
    /// The write removes the object: it was terminating and nothing holds it any more.
    pub(super) removes: bool,
}

/// Creates an object.
pub(crate) async fn create(
    ctx: &Ctx<'_>,
    body: Decoded,
    options: &WriteOptions,
) -> Result<Written, Failure> {
    // A name that was drawn and is taken is drawn again; only then is the body needed twice.
    let attempts = if meta::text(&body.value, "name").is_empty() { NAME_ATTEMPTS } else { 1 };
    let mut taken = String::new();
    let mut body = Some(body);
    for attempt in 1..=attempts {
        let sent = if attempt == attempts { body.take() } else { body.clone() };
        let sent = sent.unwrap_or_default();
        let draft = draft_create(ctx.cluster, ctx.caller, ctx.place, sent, options, Owner::Record)?;
        match commit_new(ctx, draft, options).await? {
            Ok(written) => return Ok(written),
            Err(name) => taken = name,
        }
    }
    Err(ApiError::already_exists(&ctx.place.qualified(), &taken).into())
}

/// Commits a new object; the inner error is the name that is taken.
async fn commit_new(
    ctx: &Ctx<'_>,
    draft: Draft,
    options: &WriteOptions,
) -> Result<Result<Written, String>, Failure> {
    let key = key_of(&draft.value);
    if options.dry_run {
        let kind = &ctx.place.served.kind;
        if ctx.cluster.store.get(&kind.resource, &key).is_some() {
            return Ok(Err(key.name.to_string()));
        }
        return Ok(Ok(dry(draft, 0, true)));
    }
    match commit(ctx, draft, key.clone(), Expect::Absent).await? {
        Ok(written) => Ok(Ok(Written { created: true, ..written })),
        Err(CommitError::Exists(_)) => Ok(Err(key.name.to_string())),
        Err(other) => {
            Err(commit_error(&other, &ctx.place.qualified(), &key.name).into())
        }
    }
}

/// Changes an object, or a part of it.
pub(crate) async fn update(
    ctx: &Ctx<'_>,
    source: &Source,
    sub: Sub,
    options: &WriteOptions,
) -> Result<Written, Failure> {
    let kind = &ctx.place.served.kind;
    let key = ctx.place.key();
    for _ in 0..ATTEMPTS {
        let Some(current) = ctx.cluster.store.get(&kind.resource, &key) else {
            return update_missing(ctx, source, sub, options).await;
        };
        let draft = match draft_update(ctx, &current, source, sub, options)? {
            Drafted::Same(warnings) => return Ok(unchanged(&current, warnings)?),
            Drafted::Changed(draft) => draft,
        };
        if options.dry_run {
            return Ok(dry(draft, current.revision, false));
        }
        match commit(ctx, draft, key.clone(), Expect::At(current.revision)).await? {
            Ok(written) => return Ok(written),
            // Patches and unconditional updates are made again on the new object; a
            // conditional one finds by itself that its resourceVersion is stale.
            Err(CommitError::Moved(_) | CommitError::Gone) => {}
            Err(other) => return Err(commit_error(&other, &ctx.place.qualified(), &key.name).into()),
        }
    }
    Err(ApiError::stale(&ctx.place.qualified(), &ctx.place.name).into())
}

/// Server-side apply creates what is missing, and so does PUT for a few kinds.
async fn update_missing(
    ctx: &Ctx<'_>,
    source: &Source,
    sub: Sub,
    options: &WriteOptions,
) -> Result<Written, Failure> {
    let place = ctx.place;
    let (body, owner) = match source {
        Source::Patch(Patch::Apply(body)) if sub == Sub::Main => {
            let uid = meta::text(&body.value, "uid");
            if !uid.is_empty() {
                let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: ");
                return Err(ApiError::conflict(&place.qualified(), &place.name, &why).into());
            }
            (body.clone(), Owner::Apply)
        }
        Source::Object(body)
            if sub == Sub::Main && place.served.kind.row().is_some_and(|row| row.create_on_update) =>
        {
            (body.clone(), Owner::Record)
        }
        _ => return Err(place.not_found().into()),
    };
    let draft = draft_create(ctx.cluster, ctx.caller, place, body, options, owner)?;
    match commit_new(ctx, draft, options).await? {
        Ok(written) => Ok(written),
        Err(name) => Err(ApiError::already_exists(&place.qualified(), &name).into()),
    }
}

/// Creates an object of the server's own, past faults and hooks. An object that is there
/// already stays.
pub(super) fn seed(cluster: &Cluster, caller: &Caller, resource: &str, object: Value) {
    let Some(kind) = cluster.registry.by_resource(resource) else { return };
    let served = Served { version: kind.storage, kind };
    let place = Place { served, namespace: "".into(), name: "".into() };
    let options = WriteOptions::default();
    let draft = draft_create(cluster, caller, &place, object.into(), &options, Owner::Record);
    if let Ok(draft) = draft
        && let Ok((head, json)) = encode(&place.served.kind, &draft.value)
    {
        let key = key_of(&draft.value);
        let write = Write {
            resource: &place.served.kind.resource,
            key,
            expect: Expect::Absent,
            change: Change::Put { head, json },
        };
        if let Err(why) = cluster.store.commit(write) {
            tracing::debug!(%why, resource, "the object is there already");
        }
    }
}

/// Who owns the fields of a new object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The writer, by what it wrote.
    Record,
    /// The applier, by what it asked for.
    Apply,
}

fn draft_create(
    cluster: &Cluster,
    caller: &Caller,
    place: &Place,
    body: Decoded,
    options: &WriteOptions,
    owner: Owner,
) -> Result<Draft, ApiError> {
    let served = &place.served;
    let kind = &*served.kind;
    let mut warnings = Vec::new();
    warnings.extend(served.version().deprecation.as_deref().map(str::to_owned));

    let Decoded { value: mut object, duplicates } = body;
    check_type(served, &mut object)?;
    meta::check_shape(&mut object)?;
    check_place(place, &mut object)?;
    if !meta::text(&object, "resourceVersion").is_empty() {
        let says = "resourceVersion should not be set on objects to be created";
        return Err(ApiError::bad_request(says));
    }
    let manager = options.field_manager.as_deref().unwrap_or(&caller.manager);
    if owner == Owner::Apply {
        object = managers::apply(cluster, served, None, &object, manager, options.force, Sub::Main)?;
    }
    warnings.extend(rules::decode(served, &mut object, &duplicates, options.field_validation)?);
    check_namespace(cluster, place, &object)?;

    meta::strip_server_owned(&mut object);
    name_it(cluster, &mut object);
    admit(cluster, caller, place, "create", Sub::Main, options, &mut object, None, &mut warnings, true)?;
    own_new(cluster, &mut object);
    rules::prepare_create(cluster, served, &mut object)?;
    if owner == Owner::Record {
        managers::record(cluster, served, None, &mut object, manager, Sub::Main);
    }

    let mut errors = meta::validate(kind, &object);
    errors.extend(rules::validate_create(cluster, served, &object));
    refuse_invalid(served, &object, &errors)?;
    admit(cluster, caller, place, "create", Sub::Main, options, &mut object, None, &mut warnings, false)?;

    let value = rules::convert(kind, served.version, kind.storage, object);
    Ok(Draft { value, warnings, removes: false })
}

pub(super) enum Drafted {
    /// Nothing would change.
    Same(Vec<String>),
    Changed(Draft),
}

fn draft_update(
    ctx: &Ctx<'_>,
    current: &Stored,
    source: &Source,
    sub: Sub,
    options: &WriteOptions,
) -> Result<Drafted, ApiError> {
    let Ctx { cluster, caller, place, .. } = ctx;
    let served = &place.served;
    let kind = &*served.kind;
    let mut warnings: Vec<String> = Vec::new();
    warnings.extend(served.version().deprecation.as_deref().map(str::to_owned));

    let stored: Value = parse(current)?;
    let old = rules::convert(kind, kind.storage, served.version, stored.clone());
    let manager = options.field_manager.as_deref().unwrap_or(&caller.manager);
    let (mut sent, duplicates) = sub.evaluate(ctx, &old, source, manager, options)?;
    check_type(served, &mut sent)?;
    meta::check_shape(&mut sent)?;
    check_place(place, &mut sent)?;
    warnings.extend(rules::decode(served, &mut sent, &duplicates, options.field_validation)?);
    check_preconditions(place, source, &sent, &old)?;

    let mut errors = meta::validate_update(kind, &sent, &old);
    let mut new = sent;
    meta::carry_over(&mut new, &old);
    rules::prepare_update(cluster, served, sub, &mut new, &old)?;
    admit(cluster, caller, place, "update", sub, options, &mut new, Some(&old), &mut warnings, true)?;
    count_generation(served, sub, &mut new, &old);
    if sub == Sub::Scale || !matches!(source, Source::Patch(Patch::Apply(_))) {
        managers::record(cluster, served, Some(&old), &mut new, manager, sub);
    }

    errors.extend(meta::validate(kind, &new));
    errors.extend(rules::validate_update(cluster, served, sub, &new, &old));
    refuse_invalid(served, &new, &errors)?;
    admit(cluster, caller, place, "update", sub, options, &mut new, Some(&old), &mut warnings, false)?;

    let mut value = rules::convert(kind, served.version, kind.storage, new);
    let revision = meta::of(&stored)["resourceVersion"].clone();
    meta::of_mut(&mut value).insert("resourceVersion".to_owned(), revision);
    if value == stored {
        return Ok(Drafted::Same(warnings));
    }
    let removes = is_released(kind, &value);
    Ok(Drafted::Changed(Draft { value, warnings, removes }))
}

/// Commits a draft past both fault points. The inner error is for the caller to judge.
pub(super) async fn commit(
    ctx: &Ctx<'_>,
    draft: Draft,
    key: ObjectKey,
    expect: Expect,
) -> Result<Result<Written, CommitError>, Failure> {
    let kind = &ctx.place.served.kind;
    let (head, json) = encode(kind, &draft.value)?;
    ctx.pass(Point::PreCommit).await?;
    let change = match draft.removes {
        true => Change::Delete { head, json },
        false => Change::Put { head, json },
    };
    let write = Write { resource: &kind.resource, key, expect, change };
    let stored = match ctx.cluster.store.commit(write) {
        Ok(stored) => stored,
        Err(error) => return Ok(Err(error)),
    };
    let mut value = draft.value;
    let settled = crd::after_commit(ctx.cluster, kind, &stored, draft.removes);
    let stored = match settled {
        Some(settled) => {
            value = parse(&settled)?;
            settled
        }
        None => stored,
    };
    ctx.cluster.store.settled(stored.revision).await.map_err(ApiError::internal)?;
    ctx.pass(Point::PostCommit).await?;
    let revision = stored.revision;
    meta::of_mut(&mut value).insert("resourceVersion".to_owned(), json!(revision.to_string()));
    let warnings = draft.warnings;
    Ok(Ok(Written { value, json: stored.json.clone(), revision, created: false, warnings }))
}

/// The facts and bytes of an object; 413 when it is too large.
pub(super) fn encode(kind: &Kind, value: &Value) -> Result<(Head, Encoded), ApiError> {
    let json = Encoded::new(value);
    if json.len() > MAX_OBJECT {
        let says = format!("Request entity too large: limit is {MAX_OBJECT}");
        return Err(ApiError::new(413, "RequestEntityTooLarge", says));
    }
    Ok((Head::of(value, rules::selectable(kind, value)), json))
}

pub(super) fn parse(stored: &Stored) -> Result<Value, ApiError> {
    serde_json::from_slice(&stored.json).map_err(ApiError::internal)
}

fn unchanged(current: &Arc<Stored>, warnings: Vec<String>) -> Result<Written, ApiError> {
    Ok(Written {
        value: parse(current)?,
        json: current.json.clone(),
        revision: current.revision,
        created: false,
        warnings,
    })
}

fn dry(draft: Draft, revision: u64, created: bool) -> Written {
    let Draft { mut value, warnings, .. } = draft;
    if created {
        meta::of_mut(&mut value).remove("resourceVersion");
    }
    Written { json: value.to_string().into(), value, revision, created, warnings }
}

pub(super) fn key_of(object: &Value) -> ObjectKey {
    ObjectKey::new(meta::text(object, "namespace"), meta::text(object, "name"))
}

/// Holds `apiVersion` and `kind` against the path. Built-in kinds may leave them out.
fn check_type(served: &Served, object: &mut Value) -> Result<(), ApiError> {
    let Some(map) = object.as_object_mut() else {
        let kind = &served.kind.kind;
        let says = format!("the object provided is unrecognized (must be of type {kind})");
        return Err(ApiError::bad_request(says));
    };
    let wanted = [("apiVersion", &served.version().api_version), ("kind", &served.kind.kind)];
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
            Some(Value::String(got)) if !got.is_empty() => {
                return Err(ApiError::bad_request(format!(
                    "the kind in the data ({got}) does not match the expected kind ({want})"
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
        if !namespace.is_empty() {
            let says = "namespace must not be set on cluster-scoped resources";
            return Err(ApiError::bad_request(format!("metadata.namespace: {says}")));
        }
    } else if namespace.is_empty() {
        meta::of_mut(object).insert("namespace".to_owned(), json!(place.namespace));
    } else if namespace != &*place.namespace {
        let says = format!(
            "the namespace of the provided object does not match the namespace sent on the request (expected {}, got {namespace})",
            place.namespace
        );
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
    let why =
        format!("unable to create new content in namespace {namespace} because it is being terminated");
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
            return Err(ApiError::invalid(group, &kind.kind, &place.name, &[error]));
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
    let held = kind.is(builtin::Kind::Namespace)
        && object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    released && !held
}

fn refuse_invalid(served: &Served, object: &Value, errors: &[FieldError]) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    let group = &served.version().gv.group;
    let name = match meta::text(object, "name") {
        "" => meta::text(object, "generateName"),
        name => name,
    };
    Err(ApiError::invalid(group, &served.kind.kind, name, errors))
}

/// Runs the hooks of one stage.
#[allow(clippy::too_many_arguments)] // one call site shape, five times; a struct would only rename it
pub(super) fn admit(
    cluster: &Cluster,
    caller: &Caller,
    place: &Place,
    operation: &'static str,
    sub: Sub,
    options: &WriteOptions,
    object: &mut Value,
    old: Option<&Value>,
    warnings: &mut Vec<String>,
    mutating: bool,
) -> Result<(), ApiError> {
    let hooks = cluster.admission();
    if hooks.is_empty() {
        return Ok(());
    }
    let name = meta::text(object, "name").to_owned();
    let namespace = meta::text(object, "namespace").to_owned();
    for hook in hooks.iter() {
        let mut review = Review {
            cluster: &cluster.name,
            store: &cluster.store,
            operation,
            resource: &place.served.kind.resource,
            kind: &place.served.kind.kind,
            api_version: &place.served.version().api_version,
            subresource: sub.name(),
            namespace: &namespace,
            name: &name,
            caller,
            dry_run: options.dry_run,
            object,
            old,
            warnings,
        };
        if mutating {
            hook.mutate(&mut review)?;
        } else {
            hook.validate(&mut review)?;
        }
    }
    Ok(())
}
