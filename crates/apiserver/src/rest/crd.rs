//! The life of a CustomResourceDefinition, done in step with its writes.
//!
//! A real API server leaves this to controllers that follow a moment later; here the
//! names are accepted, the kind is served and instances are cleaned up before the write
//! is answered. Watchers see the same sequence of objects.

use std::sync::{Arc, PoisonError};

use flagship_base::machinery::status::{ApiError, FieldError};
use flagship_kinds as kinds;
use flagship_kinds::CLEANUP_FINALIZER;
use flagship_store::{Change, CommitError, Expect, ObjectKey, Scope, Stored, Write};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::options::DeleteOptions;
use super::subresource::Sub;
use super::{delete, draft, managers, meta, route, rules, write};
use crate::registry::{Condition, Kind, Library, Registry, Rules, Served, conditions, names_of};

/// Where definitions are stored.
pub(super) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// A new definition is held until its objects are gone.
pub(super) fn prepare(crd: &mut Value) {
    let mut list: Vec<&str> = meta::finalizers(crd).collect();
    if !list.contains(&CLEANUP_FINALIZER) {
        list.push(CLEANUP_FINALIZER);
    }
    let list = json!(list);
    meta::of_mut(crd).insert("finalizers".to_owned(), list);
}

/// Adds what is wrong with a definition's schemas to what is known of it already. What only
/// compiling them shows comes from [`define`].
pub(super) fn validate(crd: &Value, errors: &mut Vec<FieldError>) {
    for error in flagship_schema::validate_crd(crd) {
        // Names and versions were looked at before; one finding a field is enough.
        if errors.iter().all(|known| known.path != error.path) {
            errors.push(error);
        }
    }
    // Nobody is called to convert, and objects that are only relabelled lose what the versions
    // do not share: better no definition than damaged data. One version needs no conversion.
    let versions = crd["spec"]["versions"].as_array().map_or(0, Vec::len);
    if crd["spec"]["conversion"]["strategy"] == "Webhook" && versions > 1 {
        errors.push(FieldError::forbidden(
            "spec.conversion.strategy".to_owned(),
            "conversion webhooks are not called by this server: serve one version, or use strategy None where versions differ in nothing",
        ));
    }
}

/// The kind that a valid definition defines; `None` for other objects. Compiled once: it is
/// shared with whoever asks for the same definition while it is held.
pub(super) fn define(
    cluster: &Cluster,
    kind: &Kind,
    crd: &Value,
) -> Result<Option<Arc<Kind>>, ApiError> {
    if !kind.is(kinds::Kind::CustomResourceDefinition) {
        return Ok(None);
    }
    let defined = cluster.shared.library.kind(crd);
    let refuse = |errors: Vec<FieldError>| {
        ApiError::invalid(&kind.group, &kind.kind, meta::text(crd, "name"), &errors)
    };
    defined.map(Some).map_err(refuse)
}

/// What the author of a definition should know, such as rules that are not checked here.
pub(super) fn warnings(defined: Option<&Kind>) -> Vec<String> {
    let mut warnings: Vec<String> = Vec::new();
    for version in defined.into_iter().flat_map(|kind| &kind.versions) {
        if let Rules::Custom(compiled) = &version.rules {
            warnings.extend(compiled.warnings().iter().cloned());
        }
    }
    warnings.dedup();
    warnings
}

/// Serves the kinds of definitions that are in the store already, and goes on with what
/// was under way when it was written. A store with the same definitions as one that was
/// loaded before, where nothing was under way, needs no reading.
pub(super) fn load(cluster: &Cluster) {
    let (store, library) = (&cluster.store, &cluster.shared.library);
    let definitions = store.list(DEFINITIONS, Scope::All).items;
    let hash = Library::hash_of(&definitions);
    if let Some(kinds) = library.set(&hash) {
        kinds.into_iter().for_each(|kind| serve(cluster, kind));
        return;
    }
    let mut served = Vec::new();
    for stored in &definitions {
        if let Ok(crd) = write::parse(stored)
            && is_established(&crd)
            && !Registry::is_builtin(&stored.key.name)
            && let Ok(kind) = library.kind(&crd)
        {
            served.push(kind.clone());
            serve(cluster, kind);
        }
    }
    let before = store.revision();
    for stored in &definitions {
        settle(cluster, &stored.key);
    }
    let none_terminates = definitions.iter().all(|stored| !stored.head.terminating);
    if store.revision() == before && none_terminates && served.len() == definitions.len() {
        library.keep_set(hash, &served);
    }
}

fn is_established(crd: &Value) -> bool {
    let list = crd["status"]["conditions"].as_array().into_iter().flatten();
    list.into_iter().any(|c| c["type"] == "Established" && c["status"] == "True")
}

/// Whether the definition of a custom kind is on its way out, so that nothing new may come.
pub(super) fn is_terminating(cluster: &Cluster, kind: &Kind) -> bool {
    kind.row().is_none()
        && cluster
            .store
            .get(DEFINITIONS, &ObjectKey::new("", &*kind.resource))
            .is_some_and(|stored| stored.head.terminating)
}

/// Why nothing new of a custom kind may be committed now, whatever it was when the object
/// was drafted. Asked while `Cluster::serving` is held, so that a kind is not swept and
/// withdrawn between the answer and the commit.
pub(super) fn refuses_new(cluster: &Cluster, kind: &Kind) -> Option<ApiError> {
    if kind.row().is_some() {
        return None;
    }
    if is_terminating(cluster, kind) {
        return Some(terminating_error());
    }
    let current = cluster.registry.custom().get(&*kind.resource).cloned();
    let serves = current.is_some_and(|current| current.namespaced == kind.namespaced);
    (!serves).then(route::nowhere)
}

/// What a create is told while the definition is on its way out.
pub(super) fn terminating_error() -> ApiError {
    let mut error = ApiError::method_not_allowed();
    error.message = "create not allowed while custom resource definition is terminating".to_owned();
    error
}

/// Acts on a write that was just committed. Returns the definition as it then stands,
/// when it was one and changed again.
pub(super) fn after_commit(
    cluster: &Cluster,
    kind: &Kind,
    stored: &Arc<Stored>,
    removed: bool,
) -> Option<Arc<Stored>> {
    if kind.is(kinds::Kind::CustomResourceDefinition) {
        if removed {
            withdraw(cluster, &stored.key.name);
            return None;
        }
        return settle(cluster, &stored.key);
    }
    if removed && is_terminating(cluster, kind) {
        settle(cluster, &ObjectKey::new("", &*kind.resource));
    }
    None
}

/// Stops serving a kind whose definition is gone, and lets others have its names.
fn withdraw(cluster: &Cluster, resource: &str) {
    if !Registry::is_builtin(resource) {
        let serving = cluster.serving.write().unwrap_or_else(PoisonError::into_inner);
        cluster.registry.remove(resource);
        cluster.store.forget(resource);
        cluster.counts.forget(resource);
        drop(serving);
    }
    let group = resource.split_once('.').map_or("", |(_, group)| group);
    for other in cluster.store.list(DEFINITIONS, Scope::All).items {
        if other.key.name.split_once('.').is_some_and(|(_, g)| g == group) {
            settle(cluster, &other.key);
        }
    }
}

/// Brings a definition's conditions, and what the cluster serves, up to date.
fn settle(cluster: &Cluster, key: &ObjectKey) -> Option<Arc<Stored>> {
    loop {
        match settle_once(cluster, key)? {
            Ok(stored) => return Some(stored),
            Err(CommitError::Moved(_)) => {}
            Err(why) => {
                tracing::debug!(%why, key = %key.name, "a definition was not brought up to date");
                return None;
            }
        }
    }
}

fn settle_once(cluster: &Cluster, key: &ObjectKey) -> Option<Result<Arc<Stored>, CommitError>> {
    let current = cluster.store.get(DEFINITIONS, key)?;
    let old = write::parse(&current).ok()?;
    let mut crd = old.clone();
    let now = cluster.now();
    if meta::terminating(&crd) {
        terminate(cluster, &mut crd, &now);
    } else {
        accept(cluster, &mut crd, &now);
    }
    if crd == old {
        return None;
    }
    let served = cluster.registry.stored(DEFINITIONS)?;
    let kind = served.kind.clone();
    managers::record(cluster, &served, Some(&old), &mut crd, "kube-apiserver", Sub::Status);
    let removes = draft::is_released(&kind, &crd);
    let (head, json) = write::encode(&kind, &crd).ok()?;
    let change = match removes {
        true => Change::Delete { head, json },
        false => Change::Put { head, json },
    };
    let expect = Expect::At(current.revision);
    let write = Write { resource: &kind.resource, key: key.clone(), expect, change };
    let stored = match cluster.store.commit(write) {
        Ok(stored) => stored,
        Err(lost) => return Some(Err(lost)),
    };
    if removes {
        withdraw(cluster, &key.name);
    }
    Some(Ok(stored))
}

/// Accepts the names unless another kind of the group has them, and serves the kind.
fn accept(cluster: &Cluster, crd: &mut Value, now: &str) {
    let names = names_of(crd);
    let group = crd["spec"]["group"].as_str().unwrap_or_default().to_owned();
    let own = format!("{}.{group}", names.plural);
    let clash = cluster
        .registry
        .all()
        .iter()
        .filter(|kind| kind.versions.iter().any(|version| version.gv.group == group))
        .filter(|kind| kind.row().is_some() || *kind.resource != *own)
        .find_map(|kind| names.clash(kind));
    let (accepted, established) = match clash {
        Some((reason, message)) => (
            Condition { kind: "NamesAccepted", truth: false, reason, message },
            Condition {
                kind: "Established",
                truth: false,
                reason: "NotAccepted",
                message: "not all names are accepted".to_owned(),
            },
        ),
        None => {
            crd["status"]["acceptedNames"] = names.to_value();
            (
                Condition {
                    kind: "NamesAccepted",
                    truth: true,
                    reason: "NoConflicts",
                    message: "no conflicts found".to_owned(),
                },
                Condition {
                    kind: "Established",
                    truth: true,
                    reason: "InitialNamesAccepted",
                    message: "the initial names have been accepted".to_owned(),
                },
            )
        }
    };
    // A kind that is being served stays served, whatever its new names are worth.
    let served = cluster.registry.custom().contains_key(&*own);
    let serves = established.truth || served;
    let compiled = serves.then(|| cluster.shared.library.kind(crd));
    let mut set = vec![accepted];
    match &compiled {
        // An older binary took it. What is not served must not be called established.
        Some(Err(errors)) if !served => {
            let message = why_not_served(errors);
            tracing::error!(cluster = %cluster.name, definition = own, message, "a kind is not served");
            set.push(Condition { kind: "Established", truth: false, reason: "NotServed", message });
        }
        _ if serves == established.truth => set.push(established),
        _ => {}
    }
    conditions(crd, &set, now);
    if let Some(Ok(kind)) = compiled {
        serve(cluster, kind);
    }
}

fn why_not_served(errors: &[FieldError]) -> String {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    format!("the definition cannot be used, correct it: {}", errors.join("; "))
}

/// Serves a kind as its definition now is. Objects that are there already are shown, and
/// selected, as if they had been written under it.
fn serve(cluster: &Cluster, kind: Arc<Kind>) {
    let resource = kind.resource.clone();
    let serving = cluster.serving.write().unwrap_or_else(PoisonError::into_inner);
    let before = cluster.registry.custom().get(&*resource).cloned();
    if before.as_ref().is_some_and(|before| Arc::ptr_eq(before, &kind)) {
        return;
    }
    let selects = |kind: &Kind| kind.selectable().next().is_some();
    let reselects = selects(&kind) || before.is_some_and(|before| selects(&before));
    cluster.registry.put(kind, cluster.store.last_commit() + 1);
    if reselects && let Some(served) = cluster.registry.stored(&resource) {
        cluster.store.reselect(&resource, |stored| {
            let object = rules::current(&served, served.version, stored).ok()?;
            Some(rules::selectable(&served.kind, &object))
        });
    }
    drop(serving);
}

/// Deletes what is left of the kind; the definition goes when nothing is.
fn terminate(cluster: &Cluster, crd: &mut Value, now: &str) {
    let holds = meta::finalizers(crd).any(|finalizer| finalizer == CLEANUP_FINALIZER);
    if !holds {
        return;
    }
    let resource = meta::text(crd, "name").to_owned();
    let left = if Registry::is_builtin(&resource) {
        0
    } else {
        // Whoever asked before the definition was marked has committed when this is passed.
        drop(cluster.serving.write().unwrap_or_else(PoisonError::into_inner));
        if let Some(served) = cluster.registry.stored(&resource) {
            sweep(cluster, &served);
        }
        cluster.store.list(&resource, Scope::All).items.len()
    };
    let condition = if left > 0 {
        Condition {
            kind: "Terminating",
            truth: true,
            reason: "InstanceDeletionInProgress",
            message: "CustomResource deletion is in progress".to_owned(),
        }
    } else {
        let rest: Vec<&str> =
            meta::finalizers(crd).filter(|finalizer| *finalizer != CLEANUP_FINALIZER).collect();
        let rest = json!(rest);
        let metadata = meta::of_mut(crd);
        if rest.as_array().is_some_and(Vec::is_empty) {
            metadata.remove("finalizers");
        } else {
            metadata.insert("finalizers".to_owned(), rest);
        }
        Condition {
            kind: "Terminating",
            truth: false,
            reason: "InstanceDeletionCompleted",
            message: "removed all instances".to_owned(),
        }
    };
    conditions(crd, &[condition], now);
}

/// Deletes every object of a kind; those with finalizers are marked and stay.
fn sweep(cluster: &Cluster, served: &Served) {
    for stored in cluster.store.list(&served.kind.resource, Scope::All).items {
        let mut found = Some(stored);
        while let Some(stored) = found.take() {
            match sweep_one(cluster, served, &stored) {
                // Somebody wrote in between, and may have added or taken a finalizer.
                Err(CommitError::Moved(newer)) => found = Some(newer),
                Err(why) => tracing::debug!(%why, key = %stored.key.name, "was not swept"),
                Ok(()) => {}
            }
        }
    }
}

fn sweep_one(cluster: &Cluster, served: &Served, stored: &Stored) -> Result<(), CommitError> {
    let kind = &*served.kind;
    let Ok(old) = rules::current(served, served.version, stored) else { return Ok(()) };
    let options = DeleteOptions::default();
    let after = delete::after_deletion(kind, &old, &options, cluster.env.clock.now());
    if !after.removes && after.value == old {
        return Ok(());
    }
    let Ok((head, json)) = write::encode(kind, &after.value) else { return Ok(()) };
    let change = match after.removes {
        true => Change::Delete { head, json },
        false => Change::Put { head, json },
    };
    let expect = Expect::At(stored.revision);
    let write = Write { resource: &kind.resource, key: stored.key.clone(), expect, change };
    cluster.store.commit(write).map(drop)
}

#[cfg(test)]
mod tests {
    use flagship_store::env::Env;
    use flagship_store::{Encoded, Head};

    use super::*;
    use crate::rest::Server;

    /// As an older binary may have left it: the kind is established, and cannot be compiled.
    #[tokio::test(start_paused = true)]
    async fn a_kind_that_cannot_be_served_is_not_called_established() {
        let handle = Server::new(Env::simulated(1)).add_cluster("hub");
        let cluster = &handle.cluster;
        let rule = json!({"rule": "self.nothing ==", "message": "never"});
        let schema = json!({"type": "object", "x-kubernetes-validations": [rule]});
        let crd = json!({"apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "ships.example.com", "uid": "u"},
            "spec": {"group": "example.com", "scope": "Cluster",
                "names": {"plural": "ships", "singular": "ship", "kind": "Ship", "listKind": "ShipList"},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}}]},
            "status": {"conditions": [{"type": "Established", "status": "True"}]}});
        let key = ObjectKey::new("", "ships.example.com");
        let (head, json) = (Head::of(&crd, Default::default()), Encoded::new(&crd));
        let (expect, change) = (Expect::Absent, Change::Put { head, json });
        let write = Write { resource: &DEFINITIONS.into(), key: key.clone(), expect, change };
        cluster.store.commit(write).unwrap();
        load(cluster);
        let stored = write::parse(&cluster.store.get(DEFINITIONS, &key).unwrap()).unwrap();
        assert!(!is_established(&stored), "{}", stored["status"]);
        let said = stored["status"]["conditions"].to_string();
        assert!(said.contains("NotServed") && said.contains("x-kubernetes-validations"), "{said}");
    }
}
