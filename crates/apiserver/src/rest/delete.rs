//! Deleting: at once, after a grace period, or when the last finalizer goes.

use std::sync::Arc;

use flagship_base::machinery::status::ApiError;
use flagship_base::machinery::time;
use flagship_kinds as kinds;
use flagship_store::{CommitError, Expect, Stored};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::admission::{Hooks, Options};
use super::cluster::Ctx;
use super::cluster::Place;
use super::draft::{self, PreparedObject};
use super::failure::{Failure, not_stored};
use super::meta::{self, FOREGROUND, ORPHAN};
use super::options::{DeleteOptions, ListOptions, Propagation};
use super::subresource::Sub;
use super::write::{self, CommitFailure, Written};
use super::{read, rules};
use crate::registry::Kind;

/// The grace period of a pod that does not name one.
const DEFAULT_GRACE: i64 = 30;
/// Namespaces that must stay.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

/// What came of a deletion.
#[derive(Debug)]
pub(crate) struct Deleted {
    /// The object, gone or marked.
    pub(super) object: Written,
    /// Whether it is gone.
    pub(super) gone: bool,
}

/// Deletes one object, or marks it for deletion.
pub(crate) async fn delete(ctx: &Ctx<'_>, options: &DeleteOptions) -> Result<Deleted, Failure> {
    let place = ctx.place;
    let kind = &place.served.kind;
    // With a revision the second look refuses; without one, whoever loses tries again.
    loop {
        let Some(current) = ctx.cluster.store.get(&kind.resource, &place.key()) else {
            return Err(place.not_found().into());
        };
        check_preconditions(place, &current, options)?;
        if kind.is(kinds::Kind::Namespace) && IMMORTAL.contains(&&*place.name) {
            let why = "this namespace may not be deleted";
            return Err(ApiError::forbidden("namespaces", &place.name, why).into());
        }
        let old = rules::current(&place.served, kind.storage, &current)?;
        let mut warnings = Vec::new();
        review(ctx, &old, options, &mut warnings).await?;
        let AfterDeletion { value, removes } =
            after_deletion(kind, &old, options, ctx.cluster.env.clock.now());
        let revision = current.revision;
        if !removes && value == old {
            ctx.cluster.store.settled(revision).await.map_err(not_stored)?;
            let object =
                Written { value, json: current.body(), revision, created: false, warnings };
            return Ok(Deleted { object, gone: false });
        }
        if options.dry_run {
            let json = value.to_string().into();
            let object = Written { value, json, revision, created: false, warnings };
            return Ok(Deleted { object, gone: removes });
        }
        let draft = PreparedObject::of_deletion(value, warnings, removes);
        match write::commit(ctx, draft, place.key(), Expect::At(revision)).await? {
            Ok(mut object) => {
                if removes && kind.row().is_some_and(|row| row.graceful_deletion) {
                    shown_as_ended(&mut object, ctx.cluster.env.clock.now());
                }
                return Ok(Deleted { object, gone: removes });
            }
            Err(
                CommitFailure::Address
                | CommitFailure::Store(CommitError::Moved(_) | CommitError::Gone),
            ) => {}
            Err(lost) => return Err(lost.into_error(&place.qualified(), &place.name).into()),
        }
    }
}

/// Deletes everything the selectors match, one by one.
pub(crate) async fn delete_collection(
    ctx: &Ctx<'_>,
    list: &ListOptions,
    options: &DeleteOptions,
) -> Result<(u64, Vec<Written>), Failure> {
    let page = read::list(ctx, list)?;
    let mut deleted = Vec::new();
    for object in page.items {
        let place = Place {
            served: ctx.place.served.clone(),
            namespace: object.key.namespace.clone(),
            name: object.key.name.clone(),
        };
        let one = Ctx { place: &place, ..*ctx };
        match delete(&one, options).await {
            Ok(mut done) => {
                if done.gone {
                    // The last revision that anybody can read of it.
                    let last = json!(object.revision.to_string());
                    meta::of_mut(&mut done.object.value).insert("resourceVersion".to_owned(), last);
                    done.object.json = done.object.value.to_string().into();
                }
                deleted.push(done.object);
            }
            // Somebody else was faster.
            Err(Failure::Refused(error)) if error.code == 404 => {}
            Err(other) => return Err(other),
        }
    }
    Ok((page.revision, deleted))
}

async fn review(
    ctx: &Ctx<'_>,
    old: &Value,
    options: &DeleteOptions,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    let hooks = Hooks {
        cluster: ctx.cluster,
        caller: ctx.caller,
        place: ctx.place,
        operation: "delete",
        sub: Sub::Main,
        dry_run: options.dry_run,
        // An eviction is a creation, and was asked about as such.
        options: (ctx.verb != "create").then_some(Options::Delete(options)),
    };
    hooks.mutate(&mut old.clone(), Some(old), warnings).await?;
    hooks.validate(old, Some(old), warnings).await
}

fn check_preconditions(
    place: &Place,
    current: &Arc<Stored>,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let kind = &place.served.kind.kind;
    let refuse = |why: String| Err(ApiError::conflict(kind, &place.name, &why));
    if let Some(uid) = &options.uid
        && **uid != *current.head.uid
    {
        return refuse(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            current.head.uid
        ));
    }
    if let Some(revision) = &options.resource_version
        && *revision != current.revision.to_string()
    {
        return refuse(format!(
            "the ResourceVersion in the precondition ({revision}) does not match the ResourceVersion in record ({}). The object might have been modified",
            current.revision
        ));
    }
    Ok(())
}

/// An object as deletion leaves it.
pub(super) struct AfterDeletion {
    pub(super) value: Value,
    /// Nothing holds it: it can go at once.
    pub(super) removes: bool,
}

/// Decides what deletion makes of an object. No clock but `now`, no store.
pub(super) fn after_deletion(
    kind: &Kind,
    old: &Value,
    options: &DeleteOptions,
    now: Timestamp,
) -> AfterDeletion {
    let mut new = old.clone();
    let orphans = kind.row().is_some_and(|row| row.orphans_by_default);
    propagate(&mut new, options.propagation, orphans);
    let grace = grace_period(kind, old, options);
    if meta::terminating(old) {
        shorten(&mut new, grace);
    } else {
        let at = now.checked_add(jiff::SignedDuration::from_secs(grace)).unwrap_or(now);
        let metadata = meta::of_mut(&mut new);
        metadata.insert("deletionTimestamp".to_owned(), json!(time::seconds(at)));
        metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
        if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
            metadata.insert("generation".to_owned(), json!(generation + 1));
        }
        if kind.is(kinds::Kind::Namespace) {
            new["status"]["phase"] = json!("Terminating");
        }
    }
    if !draft::is_released(kind, &new) {
        return AfterDeletion { value: new, removes: false };
    }
    // Whoever watches sees the object as it was, unless it had been terminating.
    let value = if meta::terminating(old) { new } else { old.clone() };
    AfterDeletion { value, removes: true }
}

/// What whoever deletes a pod that goes at once is told: when, and without a wait.
fn shown_as_ended(object: &mut Written, now: Timestamp) {
    if meta::terminating(&object.value) {
        return;
    }
    let metadata = meta::of_mut(&mut object.value);
    metadata.insert("deletionTimestamp".to_owned(), json!(time::seconds(now)));
    metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(0));
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
        metadata.insert("generation".to_owned(), json!(generation + 1));
    }
    object.json = object.value.to_string().into();
}

/// Notes what is to become of dependents. Without a word, what the object's finalizers
/// say already holds, and then the habit of its kind.
fn propagate(object: &mut Value, policy: Option<Propagation>, orphans_by_default: bool) {
    let decided = meta::finalizers(object).any(|f| f == ORPHAN || f == FOREGROUND);
    let habit = (orphans_by_default && !decided).then_some(Propagation::Orphan);
    let Some(policy) = policy.or(habit) else { return };
    let wanted = match policy {
        Propagation::Orphan => Some(ORPHAN),
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Background => None,
    };
    let mut list: Vec<String> = meta::finalizers(object)
        .filter(|f| Some(*f) == wanted || (*f != ORPHAN && *f != FOREGROUND))
        .map(str::to_owned)
        .collect();
    if let Some(wanted) = wanted
        && !list.iter().any(|f| f == wanted)
    {
        list.push(wanted.to_owned());
    }
    let metadata = meta::of_mut(object);
    if list.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), json!(list));
    }
}

/// Pods stop gracefully once they run on a node; everything else goes at once.
fn grace_period(kind: &Kind, object: &Value, options: &DeleteOptions) -> i64 {
    if !kind.row().is_some_and(|row| row.graceful_deletion) {
        return 0;
    }
    let placed = object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let finished = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !placed || finished {
        return 0;
    }
    let own = object["spec"]["terminationGracePeriodSeconds"].as_i64();
    options.grace_period_seconds.or(own).unwrap_or(DEFAULT_GRACE).clamp(0, i64::from(u32::MAX))
}

/// A second deletion may only shorten the wait.
fn shorten(object: &mut Value, grace: i64) {
    let metadata = meta::of(object);
    let had = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
    if grace >= had {
        return;
    }
    let at = metadata["deletionTimestamp"].as_str().and_then(time::parse);
    let sooner =
        at.and_then(|at| at.checked_sub(jiff::SignedDuration::from_secs(had - grace)).ok());
    let metadata = meta::of_mut(object);
    if let Some(sooner) = sooner {
        metadata.insert("deletionTimestamp".to_owned(), json!(time::seconds(sooner)));
    }
    metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(grace));
}

/// Whether the answer to a deletion is the object rather than a `Status`.
pub(super) fn returns_object(kind: &Kind) -> bool {
    use kinds::Kind as K;
    [K::Pod, K::PodTemplate, K::PersistentVolume, K::PersistentVolumeClaim, K::ResourceQuota]
        .into_iter()
        .chain([K::Service, K::ServiceAccount])
        .any(|one| kind.is(one))
}
