//! What is remembered of an object, to tell whether a change matters.
//!
//! A new status does not, unless it makes the object work or stop working: a workload
//! counts its pods all day. Whoever has a generation counts it when the spec changes; the
//! others have no status to speak of, and every version of them counts.

use std::hash::{DefaultHasher, Hash, Hasher};

use flagship_api::work::WorkResourceIdentifier;
use flagship_rules::availability::{Availability, assess};
use flagship_runtime::client::ResourceType;
use flagship_runtime::reflector::Revision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::DynamicObject;
use serde_json::{Value, json};

/// Resources whose status says whether they work.
const JUDGED: [(&str, &str, &str); 6] = [
    ("apps", "v1", "deployments"),
    ("apps", "v1", "statefulsets"),
    ("apps", "v1", "daemonsets"),
    ("", "v1", "services"),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
    ("policy", "v1", "poddisruptionbudgets"),
];

/// An object in short.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mark {
    /// Which version it was.
    pub revision: Revision,
    /// What a person or another controller may have changed.
    content: u64,
    /// Whether it works, for kinds where that can be told.
    works: Option<Availability>,
}

/// Whether metadata alone cannot tell what matters.
pub(super) fn needs_whole(kind: &ResourceType) -> bool {
    JUDGED.contains(&(&kind.group, &kind.version, &kind.plural))
}

impl Mark {
    /// Of an object of which only metadata was read.
    pub fn of_meta(meta: &ObjectMeta) -> Option<Self> {
        let version = meta.resource_version.as_deref()?;
        let mut content = DefaultHasher::new();
        match meta.generation.unwrap_or(0) {
            0 => version.hash(&mut content),
            generation => generation.hash(&mut content),
        }
        meta.labels.hash(&mut content);
        meta.annotations.hash(&mut content);
        meta.finalizers.hash(&mut content);
        meta.deletion_timestamp.is_some().hash(&mut content);
        for owner in meta.owner_references.iter().flatten() {
            (&owner.uid, owner.block_owner_deletion).hash(&mut content);
        }
        Some(Self { revision: Revision::read(version)?, content: content.finish(), works: None })
    }

    /// Of a whole object of a judged kind.
    pub fn of_whole(kind: &ResourceType, object: DynamicObject) -> Option<Self> {
        let DynamicObject { metadata, mut data, .. } = object;
        data["metadata"] = json!({"generation": metadata.generation});
        Some(Self { works: judged(kind, &data), ..Self::of_meta(&metadata)? })
    }

    /// Of an object as a pass saw it.
    pub fn of_live(kind: &ResourceType, live: &Value) -> Option<Self> {
        let meta: ObjectMeta = serde_json::from_value(live.get("metadata")?.clone()).ok()?;
        Some(Self { works: judged(kind, live), ..Self::of_meta(&meta)? })
    }

    /// Whether nothing that matters is different.
    pub fn says_the_same(&self, other: &Self) -> bool {
        (self.content, &self.works) == (other.content, &other.works)
    }
}

fn judged(kind: &ResourceType, object: &Value) -> Option<Availability> {
    if !needs_whole(kind) {
        return None;
    }
    let of = WorkResourceIdentifier {
        group: kind.group.clone(),
        version: kind.version.clone(),
        resource: kind.plural.clone(),
        ..WorkResourceIdentifier::default()
    };
    Some(assess(&of, object))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployments() -> ResourceType {
        let word = |text: &str| text.to_owned();
        ResourceType {
            group: word("apps"),
            version: word("v1"),
            plural: word("deployments"),
            kind: word("Deployment"),
        }
    }

    fn deployment(version: &str, available: i64) -> Value {
        json!({
            "metadata": {"name": "web", "resourceVersion": version, "generation": 2},
            "spec": {"replicas": 2},
            "status": {"observedGeneration": 2, "updatedReplicas": 2,
                "availableReplicas": available},
        })
    }

    #[test]
    fn a_status_matters_only_when_it_turns_the_verdict() {
        let mark = |object: &Value| Mark::of_live(&deployments(), object).unwrap();
        let (none, one, two) = (deployment("5", 0), deployment("6", 1), deployment("7", 2));
        assert!(mark(&none).says_the_same(&mark(&one)));
        assert!(!mark(&one).says_the_same(&mark(&two)));
        assert!(mark(&one).revision < mark(&two).revision);
    }

    #[test]
    fn a_watch_and_a_pass_see_the_same() {
        let live = deployment("7", 2);
        let object: DynamicObject = serde_json::from_value(live.clone()).unwrap();
        assert_eq!(Mark::of_whole(&deployments(), object), Mark::of_live(&deployments(), &live));
    }

    #[test]
    fn labels_owners_and_deletion_matter_for_every_kind() {
        let meta = |more: Value| {
            let mut meta = json!({"name": "a", "resourceVersion": "9", "generation": 1});
            meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            Mark::of_meta(&serde_json::from_value(meta).unwrap()).unwrap()
        };
        let plain = meta(json!({}));
        assert!(plain.says_the_same(&meta(json!({"resourceVersion": "10"}))));
        for change in [
            json!({"generation": 2}),
            json!({"labels": {"a": "b"}}),
            json!({"annotations": {"a": "b"}}),
            json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}]}),
        ] {
            assert!(!plain.says_the_same(&meta(change.clone())), "{change}");
        }
    }

    #[test]
    fn without_a_generation_every_version_counts() {
        let meta = |version: &str| {
            let meta = json!({"name": "a", "resourceVersion": version});
            Mark::of_meta(&serde_json::from_value(meta).unwrap()).unwrap()
        };
        assert!(!meta("1").says_the_same(&meta("2")));
    }
}
