//! One pass over the profile of one member: read, plan, write in order.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flagship_api::cluster::MemberCluster;
use flagship_api::cluster_profile::{ClusterProfile, ClusterProfileSpec};
use flagship_api::keys::{finalizer, label};
use flagship_api::names::{ObjectKey, cluster_profile};
use flagship_rules::inventory::{self, Action, MANAGER, Member, Observed, Profile};
use flagship_runtime::client::{ClientError, Precondition, Propagation, ResourceType};
use flagship_runtime::effects::{PendingWrites, Writer};
use flagship_runtime::error_action::Failure;
use flagship_runtime::queue::Outcome;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::has_finalizer;
use crate::hub::Context;
use crate::mirrors::{Cluster, Mirrors, Versioned};
use crate::patches::{ignore_not_found, with_finalizer, without_finalizer};

/// Carries out the plans of the inventory.
pub(super) struct Shell {
    cx: Context,
    mirrors: Arc<Mirrors>,
    seen: PendingWrites<ObjectKey>,
}

/// What a pass looks at, as it was mirrored.
struct PassInputs {
    cluster: Option<Arc<Cluster>>,
    profile: Option<Arc<Versioned<Profile>>>,
}

impl Shell {
    pub fn new(cx: &Context, mirrors: Arc<Mirrors>) -> Self {
        let seen = PendingWrites::default();
        seen.shown_by(ResourceType::of::<MemberCluster>(), &mirrors.members.clusters);
        if let Some(profiles) = &mirrors.profiles {
            seen.shown_by(ResourceType::of::<ClusterProfile>(), profiles);
        }
        Self { cx: cx.clone(), mirrors, seen }
    }

    /// One pass.
    pub async fn pass(&self, key: &ObjectKey) -> Result<Outcome, Failure> {
        let caught_up = self.seen.caught_up(key).await;
        let profiles = self.mirrors.profiles.as_ref();
        let seen = PassInputs {
            cluster: self.mirrors.members.clusters.get(key),
            profile: profiles.and_then(|profiles| profiles.get(&cluster_profile(&key.name))),
        };
        let observed = Observed {
            now: self.cx.env.now(),
            listening_since: self.cx.listening_since,
            member: seen.cluster.as_deref().map(member),
            profile: seen.profile.as_deref().map(|profile| profile.value.clone()),
            heartbeat_threshold: self.cx.options.unhealthy_after,
        };
        let plan = inventory::plan(&observed);
        let writer = Writer::new(&self.cx.client, &self.cx.leadership, &self.seen, key);
        // The precondition of a status is what the update before it left.
        let mut precondition = seen.profile.as_deref().map(|profile| profile.precondition.clone());
        for action in plan.actions {
            act(&writer, &key.name, &seen, &mut precondition, action).await?;
        }
        let next = match plan.wake.and_then(|span| Duration::try_from(span).ok()) {
            Some(span) => Outcome::After(span),
            None => Outcome::Done,
        };
        Ok(next.having_caught_up(caught_up))
    }
}

fn member(cluster: &Cluster) -> Member {
    let member = &cluster.member;
    Member {
        name: member.name.clone(),
        generation: member.generation,
        deleting: member.leaving_since.is_some(),
        has_finalizer: has_finalizer(cluster),
        status: member.status.clone(),
    }
}

async fn act(
    writer: &Writer<'_, ObjectKey>,
    name: &str,
    seen: &PassInputs,
    precondition: &mut Option<Precondition>,
    action: Action,
) -> Result<(), ClientError> {
    match action {
        Action::AddFinalizer => {
            if let Some(cluster) = &seen.cluster {
                let patch = with_finalizer(&cluster.finalizers, finalizer::CLUSTER_PROFILE);
                ignore_not_found(
                    writer.patch::<MemberCluster>(&cluster.precondition, patch).await,
                )?;
            }
        }
        Action::RemoveFinalizer => {
            if let Some(cluster) = &seen.cluster {
                let patch = without_finalizer(&cluster.finalizers, finalizer::CLUSTER_PROFILE);
                ignore_not_found(
                    writer.patch::<MemberCluster>(&cluster.precondition, patch).await,
                )?;
            }
        }
        Action::Create(spec) => drop(writer.create(&profile(name, spec)).await?),
        Action::Update(spec) => {
            if let Some(seen) = precondition.as_ref() {
                let labels = json!({label::CLUSTER_MANAGER: MANAGER});
                let patch = json!({"metadata": {"labels": labels}, "spec": spec});
                let written = ignore_not_found(writer.patch::<ClusterProfile>(seen, patch).await)?;
                *precondition = written.as_ref().and_then(Precondition::of);
            }
        }
        Action::Status(status) => {
            if let (Some(precondition), Some(profile)) = (precondition.as_ref(), &seen.profile) {
                let metadata = ObjectMeta {
                    name: Some(precondition.key.name.clone()),
                    namespace: precondition.key.namespace.clone(),
                    uid: Some(precondition.uid.clone()),
                    resource_version: Some(precondition.resource_version.clone()),
                    ..ObjectMeta::default()
                };
                let spec = profile.value.spec.clone();
                let object = ClusterProfile { metadata, spec, status: Some(status) };
                ignore_not_found(writer.update_status(&object).await)?;
            }
        }
        Action::Delete => {
            if let Some(precondition) = precondition.as_ref() {
                writer.delete::<ClusterProfile>(precondition, Propagation::Background).await?;
            }
        }
    }
    Ok(())
}

fn profile(name: &str, spec: ClusterProfileSpec) -> ClusterProfile {
    let key = cluster_profile(name);
    let manager = (label::CLUSTER_MANAGER.to_owned(), MANAGER.to_owned());
    let metadata = ObjectMeta {
        name: Some(key.name),
        namespace: key.namespace,
        labels: Some(BTreeMap::from([manager])),
        ..ObjectMeta::default()
    };
    ClusterProfile { metadata, spec, status: None }
}
