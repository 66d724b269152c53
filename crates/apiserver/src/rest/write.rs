//! Creating and changing objects: the pipeline every write goes through.
//!
//! decode -> strict, prune, default -> metadata rules -> mutating hooks -> what the server
//! owns -> managedFields -> validation -> validating hooks -> compare-and-swap. All but the
//! last is in `draft`; here is the loop around it, which drafts again when somebody else
//! wrote in between.
//!
//! Deletion is in `delete`; what patches mean is in `patching`.

use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use flagship_base::machinery::status::ApiError;
use flagship_kinds as kinds;
use flagship_patch::{MAX_DEPTH, fits};
use flagship_store::env::Point;
use flagship_store::{Change, CommitError, Encoded, Expect, Head, ObjectKey, Stored, Write};
use futures::FutureExt;
use serde_json::{Value, json};

use super::admission::Hooks;
use super::cluster::{Caller, Cluster, Ctx, Place};
use super::decode::Decoded;
use super::draft::{Drafted, Owner, PreparedObject, draft_create, draft_update};
use super::dynamic_admission::checked;
use super::failure::{Failure, commit_error, not_stored};
use super::options::WriteOptions;
use super::patching::Patch;
use super::subresource::Sub;
use super::{certificates, crd, events, managers, meta, roles, rules, tokens};
use crate::registry::Kind;

/// Objects may have this many bytes, as in etcd.
const MAX_OBJECT: usize = 1_572_864;
/// How often a name or an address is drawn.
const DRAWS: usize = 8;

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
    /// An object or patch that named its revision and was drafted already: there is no second
    /// try.
    Consumed,
}

/// Creates an object.
pub(crate) async fn create(
    ctx: &Ctx<'_>,
    body: Decoded,
    options: &WriteOptions,
) -> Result<Written, Failure> {
    // What was drawn and is taken is drawn again; only then is the body needed twice.
    let draws_name = meta::text(&body.value, "name").is_empty();
    let draws = draws_name || ctx.place.served.kind.is(kinds::Kind::Service);
    let attempts = if draws { DRAWS } else { 1 };
    let mut body = Some(body);
    for attempt in 1..=attempts {
        let sent = if attempt == attempts { body.take() } else { body.clone() };
        let sent = sent.unwrap_or_default();
        let draft =
            draft_create(ctx.cluster, ctx.caller, ctx.place, sent, options, Owner::Record).await?;
        let name = meta::text(&draft.value, "name").to_owned();
        match commit_new(ctx, draft, options).await? {
            Ok(written) => return Ok(written),
            Err(CommitFailure::Address) if attempt < attempts => {}
            Err(CommitFailure::Store(CommitError::Exists(_)))
                if draws_name && attempt < attempts => {}
            Err(lost) => return Err(lost.into_error(&ctx.place.qualified(), &name).into()),
        }
    }
    Err(ApiError::internal("every attempt ended above").into())
}

/// Commits a new object.
async fn commit_new(
    ctx: &Ctx<'_>,
    draft: PreparedObject,
    options: &WriteOptions,
) -> Result<Result<Written, CommitFailure>, Failure> {
    let key = key_of(&draft.value);
    if options.dry_run {
        let kind = &ctx.place.served.kind;
        return Ok(match ctx.cluster.store.get(&kind.resource, &key) {
            Some(there) => Err(CommitFailure::Store(CommitError::Exists(there))),
            None => Ok(dry(draft, 0, true)),
        });
    }
    let written = commit(ctx, draft, key, Expect::Absent).await?;
    Ok(written.map(|written| Written { created: true, ..written }))
}

/// Why a draft could not be committed; another draft may be.
pub(super) enum CommitFailure {
    /// The object is not what it was, or is there already.
    Store(CommitError),
    /// Another service took the address or port that was drawn.
    Address,
    /// What was true when it was drafted no longer is.
    Refused(ApiError),
}

impl CommitFailure {
    /// What the client is told when no further attempt is made.
    pub(super) fn into_error(self, resource: &str, name: &str) -> ApiError {
        match self {
            Self::Store(error) => commit_error(&error, resource, name),
            Self::Address => ApiError::conflict(resource, name, "provided IP is already allocated"),
            Self::Refused(error) => error,
        }
    }
}

/// Changes an object, or a part of it.
pub(crate) async fn update(
    ctx: &Ctx<'_>,
    mut source: Source,
    sub: Sub,
    options: &WriteOptions,
) -> Result<Written, Failure> {
    let kind = &ctx.place.served.kind;
    let key = ctx.place.key();
    // Whoever loses does so because somebody else was done: there is no end to wait for.
    let mut addresses = 0;
    loop {
        let Some(current) = ctx.cluster.store.get(&kind.resource, &key) else {
            match update_missing(ctx, &source, sub, options).await? {
                Ok(written) => return Ok(written),
                // Somebody else created it meanwhile: then it is an update after all.
                Err(CommitFailure::Store(CommitError::Exists(_))) if !options.dry_run => continue,
                Err(CommitFailure::Address) if addresses < DRAWS => {
                    addresses += 1;
                    continue;
                }
                Err(lost) => return Err(lost.into_error(&ctx.place.qualified(), &key.name).into()),
            }
        };
        let draft = match draft_update(ctx, &current, &mut source, sub, options).await? {
            Drafted::Same(warnings) => {
                // What is shown to anybody must outlive the process.
                ctx.cluster.store.settled(current.revision).await.map_err(not_stored)?;
                return Ok(unchanged(&current, warnings)?);
            }
            Drafted::Changed(draft) => draft,
        };
        if options.dry_run {
            return Ok(dry(draft, current.revision, false));
        }
        match commit(ctx, draft, key.clone(), Expect::At(current.revision)).await? {
            Ok(written) => return Ok(written),
            // Patches and unconditional updates are made again on the new object.
            Err(CommitFailure::Store(CommitError::Moved(_) | CommitError::Gone))
                if !matches!(source, Source::Consumed) => {}
            Err(CommitFailure::Address)
                if addresses < DRAWS && !matches!(source, Source::Consumed) =>
            {
                addresses += 1;
            }
            Err(lost) => return Err(lost.into_error(&ctx.place.qualified(), &key.name).into()),
        }
    }
}

/// Server-side apply creates what is missing, and so does PUT for a few kinds.
async fn update_missing(
    ctx: &Ctx<'_>,
    source: &Source,
    sub: Sub,
    options: &WriteOptions,
) -> Result<Result<Written, CommitFailure>, Failure> {
    let place = ctx.place;
    let (body, owner) = match source {
        Source::Patch(Patch::Apply(body)) if sub == Sub::Main => {
            let uid = meta::text(&body.value, "uid");
            if !uid.is_empty() {
                let why = format!(
                    "Precondition failed: UID in precondition: {uid}, UID in object meta: "
                );
                return Err(ApiError::conflict(&place.qualified(), &place.name, &why).into());
            }
            (body.clone(), Owner::Apply)
        }
        // With a revision the client means an object that it has seen.
        Source::Object(body)
            if sub == Sub::Main
                && meta::text(&body.value, "resourceVersion").is_empty()
                && place.served.kind.row().is_some_and(|row| row.create_on_update) =>
        {
            (body.clone(), Owner::Record)
        }
        _ => return Err(place.not_found().into()),
    };
    roles::check_create(ctx)?;
    let draft = draft_create(ctx.cluster, ctx.caller, place, body, options, owner).await?;
    commit_new(ctx, draft, options).await
}

/// Creates an object of the server's own, past faults and hooks. An object that is there
/// already stays.
pub(super) fn seed(cluster: &Cluster, caller: &Caller, resource: &str, object: Value) {
    let Some(served) = cluster.registry.stored(resource) else { return };
    let namespace = meta::text(&object, "namespace").into();
    let place = Place { served, namespace, name: "".into() };
    let options = WriteOptions::default();
    let draft = draft_create(cluster, caller, &place, object.into(), &options, Owner::Server);
    if let Some(Ok(draft)) = draft.now_or_never()
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

/// Changes an object of the server's own, past faults and hooks. Whether it changed.
pub(super) fn amend(
    cluster: &Cluster,
    caller: &Caller,
    resource: &str,
    key: &ObjectKey,
    change: impl Fn(&mut Value),
) -> bool {
    let Some(served) = cluster.registry.stored(resource) else { return false };
    loop {
        let Some(there) = cluster.store.get(resource, key) else { return false };
        let Ok(old) = parse(&there) else { return false };
        let mut new = old.clone();
        change(&mut new);
        if new == old {
            return false;
        }
        managers::record(cluster, &served, Some(&old), &mut new, &caller.manager, Sub::Main);
        let Ok((head, json)) = encode(&served.kind, &new) else { return false };
        let change = Change::Put { head, json };
        let expect = Expect::At(there.revision);
        let resource = &served.kind.resource;
        match cluster.store.commit(Write { resource, key: key.clone(), expect, change }) {
            Ok(_) => return true,
            Err(CommitError::Moved(_)) => {}
            Err(why) => {
                tracing::warn!(%why, %resource, name = &*key.name, "cannot be kept up to date");
                return false;
            }
        }
    }
}

/// Removes an object for the server's own reasons, past faults and hooks, unless somebody
/// wrote it meanwhile or holds it.
pub(super) fn expel(cluster: &Cluster, resource: &str, there: &Stored) {
    let Some(served) = cluster.registry.stored(resource) else { return };
    let Ok(value) = parse(there) else { return };
    if meta::finalizers(&value).next().is_some() {
        return;
    }
    let Ok((head, json)) = encode(&served.kind, &value) else { return };
    let write = Write {
        resource: &served.kind.resource,
        key: there.key.clone(),
        expect: Expect::At(there.revision),
        change: Change::Delete { head, json },
    };
    if let Err(why) = cluster.store.commit(write) {
        tracing::debug!(%why, resource, name = &*there.key.name, "stays for now");
    }
}

/// Commits a draft past both fault points. The inner error is for the caller to judge.
pub(super) async fn commit(
    ctx: &Ctx<'_>,
    draft: PreparedObject,
    key: ObjectKey,
    expect: Expect,
) -> Result<Result<Written, CommitFailure>, Failure> {
    let kind = &ctx.place.served.kind;
    let (head, json) = encode(kind, &draft.value)?;
    ctx.pass(Point::PreCommit).await?;
    let change = match draft.removes {
        true => Change::Delete { head, json },
        false => Change::Put { head, json },
    };
    let write = Write { resource: &kind.resource, key, expect, change };
    let (stored, value) = match commit_now(ctx, write, &draft) {
        Ok(done) => done,
        Err(lost) => return Ok(Err(lost)),
    };
    let mut value = value.unwrap_or(draft.value);
    let settled = crd::after_commit(ctx.cluster, kind, &stored, draft.removes);
    roles::after_commit(ctx.cluster, kind);
    tokens::after_commit(ctx.cluster, kind, &stored, draft.removes);
    certificates::after_commit(ctx.cluster, kind, &stored, draft.removes);
    checked::after_commit(ctx.cluster, kind, &stored, draft.removes);
    events::after_commit(ctx.cluster, kind, &stored, draft.removes);
    drop(draft.defines); // served by now
    let stored = match settled {
        Some(settled) => {
            value = parse(&settled)?;
            settled
        }
        None => stored,
    };
    ctx.cluster.store.settled(stored.revision).await.map_err(not_stored)?;
    ctx.pass(Point::PostCommit).await?;
    let revision = stored.revision;
    meta::of_mut(&mut value).insert("resourceVersion".to_owned(), json!(revision.to_string()));
    let warnings = draft.warnings;
    Ok(Ok(Written { value, json: stored.body(), revision, created: false, warnings }))
}

/// Commits without waiting for anything. What other writes may have changed since the
/// draft is checked once more under locks. Also returns the object where it is not the one
/// that was drafted: a definition may have changed meanwhile.
fn commit_now(
    ctx: &Ctx<'_>,
    mut write: Write<'_>,
    draft: &PreparedObject,
) -> Result<(Arc<Stored>, Option<Value>), CommitFailure> {
    let (cluster, kind) = (ctx.cluster, &*ctx.place.served.kind);
    cluster.check_open().map_err(CommitFailure::Refused)?;
    let serving = cluster.serving.read().unwrap_or_else(PoisonError::into_inner);
    if write.expect == Expect::Absent
        && let Some(refusal) = crd::refuses_new(cluster, kind)
    {
        return Err(CommitFailure::Refused(refusal));
    }
    let moved = cluster.registry.custom().get(&*kind.resource).cloned();
    let moved = moved.filter(|now| kind.row().is_none() && !std::ptr::eq(&**now, kind));
    let value = moved.as_ref().map(|now| rules::refresh(now, now.storage, draft.value.clone()));
    if let (Some(now), Some(value)) = (&moved, &value) {
        let (head, json) = encode(now, value).map_err(CommitFailure::Refused)?;
        write.change = match draft.removes {
            true => Change::Delete { head, json },
            false => Change::Put { head, json },
        };
    }
    let hooks = Hooks::at_commit(ctx, write.expect, draft);
    let service = kind.is(kinds::Kind::Service);
    let mut held = None;
    if !draft.removes && (service || hooks.have_a_last_word(&draft.value)) {
        let taken = held.insert(cluster.allocating.lock().unwrap_or_else(PoisonError::into_inner));
        if service && taken.is_allocated(&cluster.store, &write.key, &draft.value) {
            return Err(CommitFailure::Address);
        }
        let there = cluster.store.get(&kind.resource, &write.key);
        hooks.last_word(&draft.value, there.as_deref()).map_err(CommitFailure::Refused)?;
    }
    let stored = cluster.store.commit(write).map_err(CommitFailure::Store);
    drop((held, serving));
    Ok((stored?, value))
}

/// The facts and bytes of an object; 413 when it is too large, or nests so deep that it
/// could not be read again.
pub(super) fn encode(kind: &Kind, value: &Value) -> Result<(Head, Encoded), ApiError> {
    if !fits(value, MAX_DEPTH) {
        let says = format!("Request entity too large: nesting is limited to {MAX_DEPTH} levels");
        return Err(ApiError::new(413, "RequestEntityTooLarge", says));
    }
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
        json: current.body(),
        revision: current.revision,
        created: false,
        warnings,
    })
}

fn dry(draft: PreparedObject, revision: u64, created: bool) -> Written {
    let PreparedObject { mut value, warnings, .. } = draft;
    if created {
        meta::of_mut(&mut value).remove("resourceVersion");
    }
    Written { json: value.to_string().into(), value, revision, created, warnings }
}

pub(super) fn key_of(object: &Value) -> ObjectKey {
    ObjectKey::new(meta::text(object, "namespace"), meta::text(object, "name"))
}
