//! What the server decides about an object before validation: status, generation, identity.
//!
//! Runs after defaulting, and after the server has set `metadata.uid` and the name: a
//! job's selector is made of its uid. Addresses of services come from the caller.

mod pod;
mod service;

pub(super) use pod::qos_class;

use flagship_base::machinery::status::{ApiError, FieldError};
use serde_json::{Value, json};

use super::addresses::Addresses;
use super::catalog::Kind;
use super::json::{Fill, Object, at, is_empty};

/// Readies a new object: first status, generation 1, and what the kind itself decides.
///
/// # Errors
/// If a service asks for an address or port that it cannot have.
pub fn prepare_create(
    kind: Kind,
    object: &mut Value,
    addresses: &mut dyn Addresses,
) -> Result<(), ApiError> {
    let Some(object) = object.as_object_mut() else { return Ok(()) };
    if let Some(status) = initial_status(kind, object) {
        object.insert("status".to_owned(), status);
    }
    if let Some(metadata) = object.child_or_new("metadata") {
        // A kind that does not count keeps whatever it is sent with.
        if kind.info().keeps_generation {
            metadata.insert("generation".to_owned(), 1.into());
        }
    }
    match kind {
        Kind::Namespace => namespace_finalizer(object),
        Kind::Pod => pod::admit(object),
        Kind::Job => job_identity(object),
        Kind::PersistentVolumeClaim => data_sources(object),
        Kind::Service => {
            service::allocate(object, None, addresses).map_err(|e| refused(object, &e))?;
        }
        Kind::CustomResourceDefinition => stored_versions(object),
        _ => {}
    }
    Ok(())
}

/// Readies a changed object: status stays as it was, generation counts the change.
///
/// # Errors
/// If a service asks for an address or port that it cannot have.
pub fn prepare_update(
    kind: Kind,
    new: &mut Value,
    old: &Value,
    addresses: &mut dyn Addresses,
) -> Result<(), ApiError> {
    let Some(object) = new.as_object_mut() else { return Ok(()) };
    if kind.info().has_status() {
        keep(object, old, "status");
    }
    match kind {
        Kind::Namespace => {
            let finalizers = at(old, &["spec", "finalizers"]).clone();
            if let Some(spec) = object.child_or_new("spec") {
                spec.insert("finalizers".to_owned(), finalizers);
                spec.retain(|_, value| !value.is_null());
            }
        }
        Kind::PersistentVolumeClaim => data_sources(object),
        // What somebody asked to be signed stays what it was.
        Kind::CertificateSigningRequest => keep(object, old, "spec"),
        Kind::Service => {
            service::keep_allocated(object, old);
            service::allocate(object, Some(old), addresses).map_err(|e| refused(object, &e))?;
        }
        Kind::CustomResourceDefinition => stored_versions(object),
        _ => {}
    }
    let changed = kind.info().keeps_generation && counts_as_change(kind, object, old);
    set_generation(object, old, changed);
    Ok(())
}

/// What of its metadata a write to `/status` may change, beside the status: most of the older
/// kinds let it pass, newer ones put it back. A Deployment's controller notes revisions that way,
/// which would otherwise count as a change of the specification.
pub fn metadata_through_status(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Pod => &["annotations", "finalizers", "labels"],
        Kind::Deployment => &["annotations", "finalizers", "ownerReferences"],
        Kind::CronJob
        | Kind::DaemonSet
        | Kind::HorizontalPodAutoscaler
        | Kind::Ingress
        | Kind::Job
        | Kind::Namespace
        | Kind::Node
        | Kind::PersistentVolume
        | Kind::PersistentVolumeClaim
        | Kind::PodDisruptionBudget
        | Kind::ReplicaSet
        | Kind::ReplicationController
        | Kind::ResourceQuota
        | Kind::Service
        | Kind::StatefulSet => &["annotations", "finalizers", "labels", "ownerReferences"],
        _ => &[],
    }
}

/// Readies a write to `/status`: everything but the status, and the
/// [metadata that passes with it](metadata_through_status), stays as it was.
pub fn prepare_status_update(kind: Kind, new: &mut Value, old: &Value) {
    let status = new.get_mut("status").map(Value::take);
    let passing = metadata_through_status(kind);
    let sent = new.get_mut("metadata").and_then(Value::as_object_mut);
    let sent: Vec<(&str, Option<Value>)> = match sent {
        Some(sent) => passing.iter().map(|key| (*key, sent.remove(*key))).collect(),
        None => Vec::new(),
    };
    restore(new, old);
    if let Some(metadata) = new.as_object_mut().and_then(|object| object.child_or_new("metadata")) {
        for (key, value) in sent {
            match value.filter(|value| !is_empty(value)) {
                Some(value) => metadata.insert(key.to_owned(), value),
                None => metadata.remove(key),
            };
        }
    }
    let Some(object) = new.as_object_mut() else { return };
    object.remove("status");
    if let Some(status) = status.filter(|status| !status.is_null()) {
        object.insert("status".to_owned(), status);
    } else if let Some(first) = initial_status(kind, object) {
        object.insert("status".to_owned(), first);
    }
}

/// Readies a write to a certificate request's `/approval`: only conditions may change, and
/// metadata.
pub fn prepare_approval(new: &mut Value, old: &Value) {
    let Some(object) = new.as_object_mut() else { return };
    keep(object, old, "spec");
    if let Some(status) = object.child_or_new("status") {
        keep(status, at(old, &["status"]), "certificate");
    }
}

/// Readies a write to a namespace's `/finalize`: only `spec.finalizers` may change.
pub fn prepare_finalize(new: &mut Value, old: &Value) {
    let finalizers = at(new, &["spec", "finalizers"]).clone();
    restore(new, old);
    let spec = new.as_object_mut().and_then(|object| object.child_or_new("spec"));
    if let Some(spec) = spec {
        spec.insert("finalizers".to_owned(), finalizers);
        spec.retain(|_, value| !is_empty(value));
    }
}

/// Puts the old object back, with the bookkeeping of the request that came in.
fn restore(new: &mut Value, old: &Value) {
    let told = ["resourceVersion", "managedFields"].map(|key| {
        let metadata = new.get_mut("metadata").and_then(Value::as_object_mut);
        (key, metadata.and_then(|metadata| metadata.remove(key)))
    });
    put_back(new, old);
    let metadata = new.as_object_mut().and_then(|object| object.child_or_new("metadata"));
    if let Some(metadata) = metadata {
        for (key, value) in told {
            if let Some(value) = value.filter(|value| !value.is_null()) {
                metadata.insert(key.to_owned(), value);
            }
        }
    }
}

/// Makes one object equal to another. Copies only what differs, which is little where a
/// client read an object, changed its status and sent it back.
fn put_back(new: &mut Value, old: &Value) {
    put_back_but(new, old, |_| false);
}

/// The same but for the status, which may be large and is left as it is.
pub fn put_back_but_status(new: &mut Value, old: &Value) {
    put_back_but(new, old, |key| key == "status");
}

fn put_back_but(new: &mut Value, old: &Value, stays: impl Fn(&str) -> bool) {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            new.retain(|key, _| stays(key) || old.contains_key(key));
            for (key, value) in old.iter().filter(|(key, _)| !stays(key)) {
                match new.get_mut(key) {
                    Some(there) => put_back(there, value),
                    None => {
                        new.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (new, old) => {
            if new != old {
                *new = old.clone();
            }
        }
    }
}

/// The status of a new object; `None` where the kind has none or keeps what it is given.
fn initial_status(kind: Kind, object: &Object) -> Option<Value> {
    let status = match kind {
        Kind::Namespace => json!({"phase": "Active"}),
        Kind::Pod => {
            let class = qos_class(object.get("spec").unwrap_or(&Value::Null));
            json!({"phase": "Pending", "qosClass": class})
        }
        Kind::Service | Kind::Ingress => json!({"loadBalancer": {}}),
        Kind::PersistentVolume | Kind::PersistentVolumeClaim => json!({"phase": "Pending"}),
        Kind::ReplicaSet | Kind::ReplicationController => json!({"replicas": 0}),
        Kind::StatefulSet => json!({"availableReplicas": 0, "replicas": 0}),
        Kind::DaemonSet => json!({
            "currentNumberScheduled": 0, "desiredNumberScheduled": 0,
            "numberMisscheduled": 0, "numberReady": 0,
        }),
        Kind::PodDisruptionBudget => json!({
            "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
        }),
        Kind::HorizontalPodAutoscaler => json!({"desiredReplicas": 0}),
        Kind::VolumeAttachment => json!({"attached": false}),
        Kind::CustomResourceDefinition => json!({
            "acceptedNames": {"kind": "", "plural": ""}, "conditions": [], "storedVersions": [],
        }),
        Kind::Deployment
        | Kind::Job
        | Kind::CronJob
        | Kind::ResourceQuota
        | Kind::ValidatingAdmissionPolicy
        | Kind::CertificateSigningRequest
        | Kind::ApiService => json!({}),
        // A node registers with its status.
        _ => return None,
    };
    Some(status)
}

fn keep(object: &mut Object, old: &Value, key: &str) {
    match old.get(key) {
        Some(value) => drop(object.insert(key.to_owned(), value.clone())),
        None => drop(object.remove(key)),
    }
}

/// Whether generation moves: anything outside metadata and status, and for
/// deployments their annotations, which carry the reason of a rollout.
fn counts_as_change(kind: Kind, object: &Object, old: &Value) -> bool {
    let ignored = |key: &str| matches!(key, "apiVersion" | "kind" | "metadata" | "status");
    let old_keys = old.as_object().into_iter().flat_map(|map| map.keys());
    let mut keys = object.keys().chain(old_keys).filter(|key| !ignored(key));
    let differs = keys.any(|key| {
        let (new, old) = (object.get(key), old.get(key));
        new.unwrap_or(&Value::Null) != old.unwrap_or(&Value::Null)
    });
    let annotations = |metadata: Option<&Value>| {
        let found = metadata.and_then(|metadata| metadata.get("annotations")).cloned();
        found.filter(|map| !is_empty(map))
    };
    differs
        || (kind == Kind::Deployment
            && annotations(object.get("metadata")) != annotations(old.get("metadata")))
}

fn set_generation(object: &mut Object, old: &Value, changed: bool) {
    let Some(metadata) = object.child_or_new("metadata") else { return };
    metadata.remove("generation");
    let before = at(old, &["metadata", "generation"]).as_i64();
    if let Some(generation) = before.or(changed.then_some(0)) {
        let now = generation.saturating_add(i64::from(changed));
        metadata.insert("generation".to_owned(), now.into());
    }
}

/// The finalizer that holds a namespace until it is empty.
fn namespace_finalizer(object: &mut Object) {
    let Some(spec) = object.child_or_new("spec") else { return };
    spec.fill("finalizers", json!([]));
    if let Some(list) = spec.get_mut("finalizers").and_then(Value::as_array_mut)
        && !list.contains(&json!("kubernetes"))
    {
        list.push("kubernetes".into());
    }
}

/// A job finds its pods by its own uid, unless the user takes over.
fn job_identity(object: &mut Object) {
    let metadata = object.get("metadata").cloned().unwrap_or_default();
    let uid = at(&metadata, &["uid"]).as_str().unwrap_or_default();
    let name = at(&metadata, &["name"]).as_str().unwrap_or_default();
    let Some(spec) = object.child("spec") else { return };
    if spec.get("manualSelector") == Some(&Value::Bool(true)) || uid.is_empty() {
        return;
    }
    let template = spec.child_or_new("template").and_then(|t| t.child_or_new("metadata"));
    let mut generated = Value::Null;
    if let Some(labels) = template.and_then(|metadata| metadata.child_or_new("labels")) {
        // A user's own value stays, for validation to refuse.
        labels.fill("batch.kubernetes.io/controller-uid", uid);
        labels.fill("batch.kubernetes.io/job-name", name);
        labels.fill("controller-uid", uid);
        labels.fill("job-name", name);
        generated = Value::Object(labels.clone());
    }
    let selector = spec.child_or_new("selector").and_then(|s| s.child_or_new("matchLabels"));
    if let Some(labels) = selector {
        labels.fill("batch.kubernetes.io/controller-uid", uid);
    }
    // Defaulting gives a job without labels those of its template, and would do so
    // on the next write: now is the time, as a real server does when it reads back.
    if at(&metadata, &["labels"]).as_object().is_none_or(Object::is_empty)
        && generated.is_object()
        && let Some(metadata) = object.child_or_new("metadata")
    {
        metadata.insert("labels".to_owned(), generated);
    }
}

/// `dataSource` and `dataSourceRef` say the same in the claim's own namespace.
fn data_sources(object: &mut Object) {
    let Some(spec) = object.child("spec") else { return };
    match (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned()) {
        (Some(source), None) => drop(spec.insert("dataSourceRef".to_owned(), source)),
        (None, Some(source)) if source.get("namespace").is_none() => {
            spec.insert("dataSource".to_owned(), source);
        }
        _ => {}
    }
}

/// A definition remembers every version it has ever stored.
fn stored_versions(object: &mut Object) {
    let versions = object.get("spec").and_then(|spec| spec.get("versions"));
    let storage: Vec<Value> = versions
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|version| version.get("storage") == Some(&Value::Bool(true)))
        .filter_map(|version| version.get("name").cloned())
        .collect();
    let Some(status) = object.child_or_new("status") else { return };
    status.fill("storedVersions", json!([]));
    if let Some(stored) = status.get_mut("storedVersions").and_then(Value::as_array_mut) {
        for name in storage {
            if !stored.contains(&name) {
                stored.push(name);
            }
        }
    }
}

fn refused(service: &Object, error: &FieldError) -> ApiError {
    let metadata = service.get("metadata").unwrap_or(&Value::Null);
    let name = at(metadata, &["name"]).as_str().unwrap_or_default();
    ApiError::invalid("", "Service", name, std::slice::from_ref(error))
}

#[cfg(test)]
mod tests {
    use super::super::addresses::ServiceRanges;
    use super::*;

    fn created(kind: Kind, mut object: Value) -> Value {
        prepare_create(kind, &mut object, &mut ServiceRanges::default()).unwrap();
        object
    }

    fn updated(kind: Kind, mut new: Value, old: &Value) -> Value {
        prepare_update(kind, &mut new, old, &mut ServiceRanges::default()).unwrap();
        new
    }

    #[test]
    fn a_new_object_cannot_bring_its_status() {
        let web = json!({"metadata": {"generation": 9}, "spec": {}, "status": {"replicas": 4}});
        let web = created(Kind::Deployment, web);
        assert_eq!(web, json!({"metadata": {"generation": 1}, "spec": {}, "status": {}}));
        let map = created(Kind::ConfigMap, json!({"metadata": {"generation": 9}}));
        assert_eq!(map, json!({"metadata": {"generation": 9}}), "it does not count");
    }

    #[test]
    fn a_namespace_is_held_until_it_is_empty() {
        let space = created(Kind::Namespace, json!({"metadata": {"name": "a"}}));
        assert_eq!(space["spec"], json!({"finalizers": ["kubernetes"]}));
        assert_eq!(space["status"], json!({"phase": "Active"}));
        let changed = updated(Kind::Namespace, json!({"metadata": {"name": "a"}}), &space);
        assert_eq!(changed["spec"], json!({"finalizers": ["kubernetes"]}));
        let mut done =
            json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"finalizers": []}});
        prepare_finalize(&mut done, &space);
        assert_eq!(done["spec"], json!({}));
        assert!(done["metadata"].get("labels").is_none());
    }

    #[test]
    fn generation_counts_changes_of_the_spec_only() {
        let old = json!({"metadata": {"generation": 3}, "spec": {"replicas": 1}, "status": {"replicas": 1}});
        let label =
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 1}, "status": {}});
        let same = updated(Kind::StatefulSet, label, &old);
        assert_eq!(same["metadata"]["generation"], 3);
        assert_eq!(same["status"], json!({"replicas": 1}));
        let scaled =
            updated(Kind::StatefulSet, json!({"metadata": {}, "spec": {"replicas": 2}}), &old);
        assert_eq!(scaled["metadata"]["generation"], 4);
        let note = json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"replicas": 1}});
        assert_eq!(updated(Kind::Deployment, note, &old)["metadata"]["generation"], 4);
    }

    #[test]
    fn a_status_write_changes_nothing_else() {
        let old =
            json!({"metadata": {"name": "a", "resourceVersion": "5"}, "spec": {"replicas": 1}});
        let mut new = json!({
            "metadata": {"name": "a", "resourceVersion": "4", "labels": {"x": "y"}},
            "spec": {"replicas": 9}, "status": {"replicas": 9},
        });
        prepare_status_update(Kind::CertificateSigningRequest, &mut new, &old);
        assert_eq!(
            new,
            json!({
                "metadata": {"name": "a", "resourceVersion": "4"},
                "spec": {"replicas": 1}, "status": {"replicas": 9},
            })
        );
    }

    #[test]
    fn metadata_passes_through_the_status_of_older_kinds() {
        let old = json!({"metadata": {"name": "a", "labels": {"a": "1"}, "annotations": {"a": "1"}},
            "spec": {"replicas": 1}});
        let sent = json!({"metadata": {"name": "a", "labels": {"b": "2"}, "annotations": {"b": "2"},
            "ownerReferences": [{"uid": "u"}]}, "spec": {"replicas": 9}});
        let table = [
            (Kind::StatefulSet, "b", "b", true),
            (Kind::Pod, "b", "b", false),
            (Kind::Deployment, "a", "b", true),
            (Kind::ApiService, "a", "a", false),
        ];
        for (kind, label, annotation, owned) in table {
            let mut new = sent.clone();
            prepare_status_update(kind, &mut new, &old);
            let metadata = &new["metadata"];
            assert!(metadata["labels"][label].is_string(), "{kind:?}");
            assert!(metadata["annotations"][annotation].is_string(), "{kind:?}");
            assert_eq!(metadata["ownerReferences"].is_array(), owned, "{kind:?}");
            assert_eq!(new["spec"], json!({"replicas": 1}), "{kind:?}");
        }
    }

    #[test]
    fn a_job_finds_its_pods_by_uid() {
        let job = created(Kind::Job, json!({"metadata": {"name": "j", "uid": "u"}, "spec": {}}));
        assert_eq!(
            job["spec"]["selector"],
            json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}})
        );
        assert_eq!(
            job["spec"]["template"]["metadata"]["labels"],
            json!({
                "batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "j",
                "controller-uid": "u", "job-name": "j",
            })
        );
        assert_eq!(job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]);
    }

    #[test]
    fn a_definition_remembers_the_versions_it_stored() {
        let versions = |name: &str| json!({"versions": [{"name": name, "storage": true}]});
        let old = created(Kind::CustomResourceDefinition, json!({"spec": versions("v1")}));
        assert_eq!(old["status"]["storedVersions"], json!(["v1"]));
        let new = updated(Kind::CustomResourceDefinition, json!({"spec": versions("v2")}), &old);
        assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));
    }
}
