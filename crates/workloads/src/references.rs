//! What a pod refers to and cannot do without: ConfigMaps and Secrets, claims of volumes, and
//! the account it runs as.
//!
//! A pod whose volume cannot be mounted stays `ContainerCreating`, a container whose
//! environment cannot be read waits with `CreateContainerConfigError`, a claim that cannot be
//! bound keeps its pod from being scheduled, and a pod of an unknown account is refused, each in
//! Kubernetes' words.

use std::collections::BTreeMap;

use flagship_apiserver::rest::{Admission, Review};
use flagship_base::machinery::status::ApiError;
use flagship_store::ObjectKey;
use serde::Serialize;
use serde_json::Value;

use crate::object::Fields;

/// What a node misses for a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Why volumes cannot be mounted, one sentence each.
    pub mounts: Vec<String>,
    /// Why containers cannot be created, by their names.
    pub containers: BTreeMap<String, String>,
}

/// Finds an object of the pod's namespace: its resource and name.
pub type Find<'a> = &'a dyn Fn(&str, &str) -> Option<Value>;

/// What the pod refers to and is not there.
pub fn missing(pod: &Value, find: Find<'_>) -> Missing {
    let mut missing = Missing::default();
    for volume in pod.list("/spec/volumes") {
        let mut whys: Vec<String> = mounted(volume, find).collect();
        for source in volume.list("/projected/sources") {
            whys.extend(mounted(source, find));
        }
        if let Some(why) = whys.into_iter().next() {
            let name = volume.text("/name");
            missing.mounts.push(format!("MountVolume.SetUp failed for volume {name:?} : {why}"));
        }
    }
    let lists = ["/spec/initContainers", "/spec/containers"];
    for container in lists.iter().flat_map(|list| pod.list(list)) {
        if let Some(why) = unreadable(pod.namespace(), container, find) {
            missing.containers.insert(container.text("/name").to_owned(), why);
        }
    }
    missing
}

/// Kinds that a pod reads: resource, how messages begin, and how they name the kind.
const MAPS: (&str, &str, &str) = ("configmaps", "configmap", "ConfigMap");
const SECRETS: (&str, &str, &str) = ("secrets", "secret", "Secret");

/// Why a source of a volume cannot be mounted.
fn mounted<'a>(source: &'a Value, find: Find<'a>) -> impl Iterator<Item = String> + 'a {
    let sources = [
        (MAPS, source.at("/configMap"), "/name"),
        (
            SECRETS,
            source.at("/secret"),
            if source.at("/secret/secretName").is_null() { "/name" } else { "/secretName" },
        ),
    ];
    sources.into_iter().filter_map(move |((resource, word, _), of, name)| {
        if of.is_null() || of.is_true("/optional") {
            return None;
        }
        let name = of.text(name);
        let Some(found) = find(resource, name) else {
            return Some(format!("{word} {name:?} not found"));
        };
        let keys = of.list("/items").iter().map(|item| item.text("/key"));
        let absent = keys.into_iter().find(|key| !has_key(&found, key))?;
        Some(format!(
            "{word} references non-existent {} key: {absent}",
            if word == "secret" { "secret" } else { "config" }
        ))
    })
}

/// Why the environment of a container cannot be read.
fn unreadable(namespace: &str, container: &Value, find: Find<'_>) -> Option<String> {
    let whole = container
        .list("/envFrom")
        .iter()
        .flat_map(|from| [(MAPS, from.at("/configMapRef")), (SECRETS, from.at("/secretRef"))]);
    let single = container.list("/env").iter().flat_map(|env| {
        let from = env.at("/valueFrom");
        [(MAPS, from.at("/configMapKeyRef")), (SECRETS, from.at("/secretKeyRef"))]
    });
    whole.chain(single).find_map(|((resource, word, kind), of)| {
        if of.is_null() || of.is_true("/optional") {
            return None;
        }
        let (name, key) = (of.text("/name"), of.text("/key"));
        let Some(found) = find(resource, name) else {
            return Some(format!("{word} {name:?} not found"));
        };
        let lacks = !key.is_empty() && !has_key(&found, key);
        lacks.then(|| format!("couldn't find key {key} in {kind} {namespace}/{name}"))
    })
}

fn has_key(object: &Value, key: &str) -> bool {
    ["data", "binaryData", "stringData"].iter().any(|part| object[*part].get(key).is_some())
}

/// Why no node can be found for the pod before its claims are bound, if that is so.
pub fn unbound(pod: &Value, find: Find<'_>) -> Option<String> {
    let claims = pod
        .list("/spec/volumes")
        .iter()
        .map(|volume| volume.text("/persistentVolumeClaim/claimName"));
    claims.filter(|name| !name.is_empty()).find_map(|name| {
        let Some(claim) = find("persistentvolumeclaims", name) else {
            return Some(format!("persistentvolumeclaim {name:?} not found"));
        };
        let waits = claim.text("/status/phase") != "Bound" && lacks_class(&claim, find).is_some();
        waits.then(|| "pod has unbound immediate PersistentVolumeClaims".to_owned())
    })
}

/// The class that a claim asks for and that is not there. Claims without one are given a volume.
pub fn lacks_class(claim: &Value, find: Find<'_>) -> Option<String> {
    let class = claim.text("/spec/storageClassName");
    let absent = !class.is_empty()
        && claim.text("/spec/volumeName").is_empty()
        && find(CLASSES, class).is_none();
    absent.then(|| class.to_owned())
}

/// Where classes of storage are kept; they belong to no namespace.
pub const CLASSES: &str = "storageclasses.storage.k8s.io";

/// Refuses pods of an account that is not there. The account `default` is on its way in a new
/// namespace, and nobody waits for it here.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServiceAccountAdmission;

impl Admission for ServiceAccountAdmission {
    fn validate(&self, review: &mut Review<'_>) -> Result<(), ApiError> {
        if review.resource != "pods"
            || review.operation != "create"
            || !review.subresource.is_empty()
        {
            return Ok(());
        }
        let account = review.object.text("/spec/serviceAccountName");
        if account.is_empty() || account == "default" {
            return Ok(());
        }
        let key = ObjectKey::new(review.namespace, account);
        if review.store.get("serviceaccounts", &key).is_some() {
            return Ok(());
        }
        let why = format!(
            "error looking up service account {}/{account}: serviceaccount {account:?} not found",
            review.namespace
        );
        Err(ApiError::forbidden("pods", review.name, &why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn find(resource: &str, name: &str) -> Option<Value> {
        match (resource, name) {
            ("configmaps", "app") => Some(json!({"data": {"a": "1"}})),
            ("secrets", "key") => Some(json!({"data": {"k": "Zm9v"}})),
            ("persistentvolumeclaims", "slow") => {
                Some(json!({"spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"}}))
            }
            ("persistentvolumeclaims", "bound") => {
                Some(json!({"spec": {"storageClassName": "fast"}, "status": {"phase": "Bound"}}))
            }
            ("persistentvolumeclaims", "plain") => Some(json!({"spec": {}})),
            _ => None,
        }
    }

    #[test]
    fn a_volume_needs_what_it_is_made_of() {
        let table = [
            (json!({"name": "v", "configMap": {"name": "app"}}), None),
            (json!({"name": "v", "configMap": {"name": "none", "optional": true}}), None),
            (json!({"name": "v", "emptyDir": {}}), None),
            (
                json!({"name": "v", "configMap": {"name": "none"}}),
                Some("configmap \"none\" not found"),
            ),
            (
                json!({"name": "v", "secret": {"secretName": "none"}}),
                Some("secret \"none\" not found"),
            ),
            (
                json!({"name": "v", "configMap": {"name": "app", "items": [{"key": "b", "path": "b"}]}}),
                Some("configmap references non-existent config key: b"),
            ),
            (
                json!({"name": "v", "projected": {"sources": [{"secret": {"name": "none"}}]}}),
                Some("secret \"none\" not found"),
            ),
        ];
        for (volume, why) in table {
            let pod = json!({"metadata": {"namespace": "ns"}, "spec": {"volumes": [volume]}});
            let why = why.map(|why| format!("MountVolume.SetUp failed for volume \"v\" : {why}"));
            assert_eq!(missing(&pod, &find).mounts, Vec::from_iter(why), "{pod}");
        }
    }

    #[test]
    fn a_container_needs_its_environment() {
        let from =
            |reference: Value| json!({"name": "c", "env": [{"name": "E", "valueFrom": reference}]});
        let table = [
            (json!({"name": "c"}), None),
            (from(json!({"configMapKeyRef": {"name": "app", "key": "a"}})), None),
            (
                from(json!({"configMapKeyRef": {"name": "app", "key": "b"}})),
                Some("couldn't find key b in ConfigMap ns/app"),
            ),
            (
                from(json!({"secretKeyRef": {"name": "key", "key": "x"}})),
                Some("couldn't find key x in Secret ns/key"),
            ),
            (
                json!({"name": "c", "envFrom": [{"secretRef": {"name": "none"}}]}),
                Some("secret \"none\" not found"),
            ),
            (
                json!({"name": "c", "envFrom": [{"configMapRef": {"name": "none", "optional": true}}]}),
                None,
            ),
        ];
        for (container, why) in table {
            let pod = json!({"metadata": {"namespace": "ns"}, "spec": {"containers": [container]}});
            let told = missing(&pod, &find).containers;
            assert_eq!(told.get("c").map(String::as_str), why, "{pod}");
        }
    }

    #[test]
    fn a_claim_of_no_class_holds_its_pod() {
        let told = |claim: &str| {
            let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
            unbound(&json!({"spec": {"volumes": [volume]}}), &find)
        };
        assert_eq!(
            told("slow").as_deref(),
            Some("pod has unbound immediate PersistentVolumeClaims")
        );
        assert_eq!(told("none").as_deref(), Some("persistentvolumeclaim \"none\" not found"));
        assert_eq!((told("bound"), told("plain")), (None, None));
    }
}
