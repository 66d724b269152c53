//! From API objects to what the rules see, and back. Both scopes meet here.

use flagship_api::approval::{ApprovalRequestSpec, ApprovalRequestStatus};
use flagship_api::keys::{finalizer, label, own};
use flagship_api::staged_update::UpdateRunSpec;
use flagship_api::staged_update_status::UpdateRunStatus;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;

use super::announced::Announced;
use super::lifecycle::{has_ended, in_flight, started_at};
use super::observed::{Approval, OtherRun, Run};
use crate::policy::Adopted;
use crate::policy::approvals::Authors;

impl Run {
    /// What the rules read of a run of either scope.
    pub fn read(metadata: &ObjectMeta, spec: &UpdateRunSpec, status: &UpdateRunStatus) -> Self {
        Self {
            namespace: metadata.namespace.clone().filter(|namespace| !namespace.is_empty()),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            created: created(metadata),
            deleting: metadata.deletion_timestamp.is_some(),
            has_finalizer: metadata.finalizers.iter().flatten().any(|f| f == finalizer::UPDATE_RUN),
            announced: Announced::by(metadata),
            asked_index: None,
            adopted: Adopted::noted_on(metadata),
            authors: Authors {
                created: annotated(metadata, own::CREATED_BY),
                started: noted(metadata, own::STARTED_BY).unwrap_or_default(),
            },
            skips: noted(metadata, own::SKIPPED_CLUSTERS).unwrap_or_default(),
            only: noted(metadata, own::ONLY_CLUSTERS),
            rollback_of: annotated(metadata, own::ROLLBACK_OF),
            spec: spec.clone(),
            status: status.clone(),
        }
    }
}

impl OtherRun {
    /// What a run reads of another run.
    pub fn read(metadata: &ObjectMeta, status: &UpdateRunStatus) -> Self {
        let name = metadata.name.clone().unwrap_or_default();
        Self::known(name, metadata.uid.clone().unwrap_or_default(), created(metadata), status)
    }

    /// What a run would read of this one.
    pub fn of(run: &Run) -> Self {
        Self::known(run.name.clone(), run.uid.clone(), run.created, &run.status)
    }

    fn known(name: String, uid: String, created: Timestamp, status: &UpdateRunStatus) -> Self {
        let ended = has_ended(status);
        let clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
        let busy = clusters.clone().filter(|cluster| !ended && in_flight(cluster));
        let busy = busy.map(|cluster| cluster.cluster_name.clone()).collect();
        let started = clusters
            .filter_map(|cluster| Some((cluster.cluster_name.clone(), started_at(cluster)?)));
        let version = status.resource_snapshot_index_used.clone();
        Self { name, uid, created, version, ended, started: started.collect(), busy }
    }
}

impl Approval {
    /// What the rules read of an approval request of either scope.
    pub fn read(
        metadata: &ObjectMeta,
        spec: &ApprovalRequestSpec,
        status: Option<&ApprovalRequestStatus>,
    ) -> Self {
        let annotations = metadata.annotations.as_ref();
        let labels = metadata.labels.as_ref();
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            created: created(metadata),
            labelled: labels.and_then(|l| l.get(label::TARGET_UPDATE_RUN)).cloned(),
            run_uid: annotations.and_then(|a| a.get(own::UPDATE_RUN_UID)).cloned(),
            plan: annotations.and_then(|a| a.get(own::PLAN_HASH)).cloned(),
            run: spec.parent_stage_rollout.clone(),
            stage: spec.target_stage.clone(),
            conditions: status.map(|status| status.conditions.clone()).unwrap_or_default(),
        }
    }
}

/// What an annotation says; nothing if it is absent or cannot be read.
fn noted<T: DeserializeOwned>(metadata: &ObjectMeta, key: &str) -> Option<T> {
    serde_json::from_str(metadata.annotations.as_ref()?.get(key)?).ok()
}

fn annotated(metadata: &ObjectMeta, key: &str) -> Option<String> {
    metadata.annotations.as_ref()?.get(key).cloned()
}

fn created(metadata: &ObjectMeta) -> Timestamp {
    metadata.creation_timestamp.clone().map_or_else(Default::default, |time| time.0)
}
