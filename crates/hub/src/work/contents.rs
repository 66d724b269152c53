//! Reads manifests and overrides for passes that have to write.
//!
//! All clusters of a placement get the same snapshots at about the same time, so the last
//! few that were read are kept: a bounded number of bytes, by UID, since a snapshot never
//! changes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use flagship_api::names::ObjectKey;
use flagship_api::overrides::{ClusterResourceOverrideSnapshot, ResourceOverrideSnapshot};
use flagship_rules::overrides::{ClusterOverride, NamespacedOverride};
use flagship_rules::work::{Content, Reads, SnapshotContent};
use flagship_runtime::client::{Client, ClientError};
use kube_core::Resource;

use crate::scope::{Parts, Scoped};

/// Most bytes of manifests that are kept.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// Snapshots that were read a moment ago.
#[derive(Default)]
pub(super) struct Contents(Mutex<VecDeque<Kept>>);

struct Kept {
    uid: String,
    bytes: usize,
    content: Arc<SnapshotContent>,
}

impl Contents {
    /// Reads what a pass asked for. What is not there is left out.
    pub async fn read<S: Scoped>(
        &self,
        client: &Client,
        binding: &ObjectKey,
        reads: &Reads,
        uids: &BTreeMap<String, String>,
    ) -> Result<Content, ClientError> {
        let mut content = Content::default();
        for name in &reads.snapshots {
            if let Some(kept) = uids.get(name).and_then(|uid| self.find(uid)) {
                content.snapshots.insert(name.clone(), (*kept).clone());
                continue;
            }
            let key = ObjectKey::new(binding.namespace.as_deref(), name);
            let Some(object) = client.of::<S::ResourceSnapshot>().find(&key).await? else {
                continue;
            };
            let read = SnapshotContent::read(object.meta(), object.spec().clone());
            if let Some(uid) = &object.meta().uid {
                self.keep(uid, &read);
            }
            content.snapshots.insert(name.clone(), read);
        }
        for name in &reads.cluster_overrides {
            let objects = client.of::<ClusterResourceOverrideSnapshot>();
            if let Some(object) = objects.find(&ObjectKey::cluster(name)).await? {
                let spec = object.spec.override_spec;
                content.cluster_overrides.push(ClusterOverride { name: name.clone(), spec });
            }
        }
        for named in &reads.overrides {
            let key = ObjectKey::namespaced(&named.namespace, &named.name);
            let objects = client.of::<ResourceOverrideSnapshot>();
            if let Some(object) = objects.find(&key).await? {
                let spec = object.spec.override_spec;
                content.overrides.push(NamespacedOverride { key: named.clone(), spec });
            }
        }
        Ok(content)
    }

    fn find(&self, uid: &str) -> Option<Arc<SnapshotContent>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|one| one.uid == uid)?;
        let found = kept.remove(at)?;
        let content = found.content.clone();
        kept.push_front(found);
        Some(content)
    }

    fn keep(&self, uid: &str, content: &SnapshotContent) {
        let bytes = content.resources.iter().map(|one| one.text().len()).sum();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|one| one.uid != uid);
        kept.push_front(Kept { uid: uid.to_owned(), bytes, content: Arc::new(content.clone()) });
        let mut total = 0;
        kept.retain(|one| {
            total += one.bytes;
            total <= MOST_BYTES
        });
    }
}

#[cfg(test)]
mod tests {
    use flagship_api::raw_json::RawJson;

    use super::*;

    fn of_size(bytes: usize) -> SnapshotContent {
        let text = format!("\"{}\"", "x".repeat(bytes - 2));
        let resources = vec![RawJson::from_text(text).unwrap()];
        SnapshotContent { placement: None, resources }
    }

    #[test]
    fn the_last_snapshots_are_kept_as_far_as_there_is_room() {
        let contents = Contents::default();
        contents.keep("a", &of_size(MOST_BYTES / 2));
        contents.keep("b", &of_size(MOST_BYTES / 2));
        assert!(contents.find("a").is_some());
        // `a` was asked for last, so `b` has to go.
        contents.keep("c", &of_size(MOST_BYTES / 2));
        assert!(contents.find("a").is_some() && contents.find("c").is_some());
        assert!(contents.find("b").is_none());
    }

    #[test]
    fn one_that_is_too_large_is_not_kept() {
        let contents = Contents::default();
        contents.keep("a", &of_size(MOST_BYTES + 1));
        assert!(contents.find("a").is_none());
    }
}
