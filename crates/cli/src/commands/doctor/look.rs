//! Reads everything of ours that a hub stores, and how the hub itself answers.
//!
//! What is not served or cannot be read is remembered: nothing is a left-over then.

use std::sync::Arc;
use std::time::Duration;

use flagship_api::approval::{ApprovalRequestSpec, ApprovalRequestStatus};
use flagship_api::binding::{ResourceBindingSpec, ResourceBindingStatus};
use flagship_api::cluster::{InternalMemberCluster, MemberClusterSpec, MemberClusterStatus};
use flagship_api::envelope::{ClusterResourceEnvelope, ResourceEnvelope};
use flagship_api::eviction::{
    ClusterResourcePlacementDisruptionBudget, ClusterResourcePlacementEviction,
};
use flagship_api::keys::{group, label};
use flagship_api::names::{HUB_LEASE, ObjectKey, SYSTEM_NAMESPACE};
use flagship_api::overrides::{
    ClusterResourceOverride, ClusterResourceOverrideSnapshot, ResourceOverride,
    ResourceOverrideSnapshot,
};
use flagship_api::placement::PlacementSpec;
use flagship_api::placement_status::PlacementStatus;
use flagship_api::snapshot::{
    ResourceSnapshotSpec, SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus,
};
use flagship_api::staged_update::{UpdateRunSpec, UpdateStrategySpec};
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_api::work::{AppliedWork, Work};
use flagship_base::machinery::gvk::qualified;
use flagship_explain::doctor::{
    ApprovalSeen, BindingSeen, Deleting, EvictionSeen, HubContents, LeaseSeen, MemberSeen, Owned,
    Reached, Right, Unlisted, WorkSeen,
};
use flagship_rules::heartbeat::last_heard;
use flagship_rules::model::{Binding, PolicySnapshot, ResourceSnapshot};
use flagship_rules::{eviction, placement, update_run, work};
use flagship_runtime::client::{Client, ClientError, Objects, ResourceType, Selection};
use futures::stream::{self, StreamExt};
use http::header::DATE;
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::commands::connect::Hub;
use crate::commands::scoped_kind::{ScopedKind, Stored, resource};

/// What our commands do, and one therefore has to be allowed to: verb, plural, subresource.
const NEEDED: &[(&str, &str, &str)] = &[
    ("list", "clusterstagedupdateruns", ""),
    ("watch", "clusterstagedupdateruns", ""),
    ("create", "clusterstagedupdateruns", ""),
    ("patch", "clusterstagedupdateruns", ""),
    ("patch", "clusterapprovalrequests", "status"),
    ("list", "clusterresourceplacements", ""),
    ("list", "clusterresourcebindings", ""),
    ("list", "works", ""),
    ("create", "clusterresourceplacementevictions", ""),
];

/// How long a member may take to answer, and how many are asked side by side.
const PATIENCE: Duration = Duration::from_secs(5);
const AT_ONCE: usize = 16;

/// One look.
pub(super) async fn at(hub: &Hub, now: Timestamp) -> Result<HubContents, ClientError> {
    let client = &hub.client;
    let version = client.version().await?;
    let mut reader =
        Reader { client, seen: HubContents { now, version, ..HubContents::default() } };
    reader.hub().await?;
    reader.members().await?;
    reader.reach(hub).await;
    reader.placements().await?;
    reader.runs().await?;
    reader.unjudged().await?;
    Ok(reader.seen)
}

struct Reader<'a> {
    client: &'a Client,
    seen: HubContents,
}

impl Reader<'_> {
    async fn hub(&mut self) -> Result<(), ClientError> {
        self.seen.hub_time = self.time().await;
        self.seen.unready = self.unready().await;
        self.seen.rights = self.rights().await;
        let definitions = ResourceType {
            group: "apiextensions.k8s.io".to_owned(),
            version: "v1".to_owned(),
            plural: "customresourcedefinitions".to_owned(),
            kind: "CustomResourceDefinition".to_owned(),
        };
        let found = self.client.of_type::<Value>(definitions).list(&Selection::all()).await;
        if let Ok(found) = found {
            let named = found.items.into_iter().filter_map(|definition| {
                Some((definition["metadata"]["name"].as_str()?.to_owned(), definition))
            });
            self.seen.definitions = Some(named.collect());
        }
        let key = ObjectKey::namespaced(SYSTEM_NAMESPACE, HUB_LEASE);
        let lease: Option<Lease> = self.client.of::<Lease>().find(&key).await.unwrap_or(None);
        self.seen.lease = lease.and_then(|lease| lease.spec).map(|spec| LeaseSeen {
            holder: spec.holder_identity.unwrap_or_default(),
            renewed: spec.renew_time.map(|time| time.0),
            lasts: SignedDuration::from_secs(spec.lease_duration_seconds.unwrap_or(60).into()),
        });
        for namespace in self.all(&self.client.of::<Namespace>()).await? {
            self.seen.namespaces.extend(namespace.metadata.name);
        }
        Ok(())
    }

    /// What time the server says it is.
    async fn time(&self) -> Option<Timestamp> {
        let request = http::Request::get("/version").body(Body::empty()).ok()?;
        let response = self.client.kube().send(request).await.ok()?;
        let date = response.headers().get(DATE)?.to_str().ok()?;
        jiff::fmt::rfc2822::parse(date).ok().map(|zoned| zoned.timestamp())
    }

    /// Which checks of the server fail; none if it does not say.
    async fn unready(&self) -> Vec<String> {
        let asked = async {
            let request = http::Request::get("/readyz?verbose").body(Body::empty()).ok()?;
            let response = self.client.kube().send(request).await.ok()?;
            let body = response.into_body().collect().await.ok()?.to_bytes();
            Some(String::from_utf8_lossy(&body).into_owned())
        };
        let told = asked.await.unwrap_or_default();
        let failed = told.lines().filter_map(|line| line.strip_prefix("[-]"));
        failed.map(str::to_owned).collect()
    }

    /// What the server says that we may do; nothing if it does not say.
    async fn rights(&self) -> Vec<Right> {
        let mut rights = Vec::new();
        for (verb, plural, subresource) in NEEDED {
            let word = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let spec = SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    verb: word(verb),
                    group: word(group::PLACEMENT),
                    resource: word(plural),
                    subresource: word(subresource),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            };
            let asked = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
            let reviews = self.client.of::<SelfSubjectAccessReview>();
            let Ok(answer) = reviews.create(&asked).await else { return Vec::new() };
            let Some(status) = answer.status else { return Vec::new() };
            let below = if subresource.is_empty() { "" } else { "/" };
            rights.push(Right {
                verb: (*verb).to_owned(),
                resource: format!("{plural}.{}{below}{subresource}", group::PLACEMENT),
                allowed: status.allowed,
            });
        }
        rights
    }

    async fn members(&mut self) -> Result<(), ClientError> {
        let members = self
            .client
            .of_type::<Stored<MemberClusterSpec, MemberClusterStatus>>(resource("MemberCluster"));
        for member in self.all(&members).await? {
            self.leaves(&members, &member.metadata);
            let seen = MemberSeen {
                leaving: member.metadata.deletion_timestamp.is_some(),
                spec: member.spec.clone(),
                status: member.status.clone(),
            };
            self.seen.members.insert(member.name().to_owned(), seen);
        }
        let internals = self.client.of::<InternalMemberCluster>();
        for internal in self.all(&internals).await? {
            let beat = internal.status.as_ref().and_then(last_heard);
            self.seen.heartbeats.insert(internal.metadata.name.unwrap_or_default(), beat);
        }
        Ok(())
    }

    /// Asks members themselves, those that the kubeconfig knows.
    async fn reach(&mut self, way: &Hub) {
        let known = self.seen.members.keys().filter(|name| way.knows(name)).cloned();
        let asked = stream::iter(known).map(|name| async {
            let reached = match way.member(&name).await {
                Ok(client) => ask(&client.with_timeout(PATIENCE)).await,
                Err(error) => Reached::Silent(error),
            };
            (name, reached)
        });
        self.seen.reached = asked.buffered(AT_ONCE).collect().await;
    }

    async fn placements(&mut self) -> Result<(), ClientError> {
        for found in
            self.both_scopes::<PlacementSpec, PlacementStatus>(ScopedKind::Placement).await?
        {
            let read = placement::Placement::read(&found.metadata, &found.spec, &found.status);
            self.seen.placements.push(read);
        }
        for found in self
            .both_scopes::<SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus>(
                ScopedKind::PolicySnapshot,
            )
            .await?
        {
            let (meta, spec) = (&found.metadata, &found.spec);
            let value = PolicySnapshot::read(meta, spec, Some(&found.status));
            self.seen.policies.push(owned(meta, value));
        }
        for found in
            self.both_scopes::<ResourceSnapshotSpec, Value>(ScopedKind::ResourceSnapshot).await?
        {
            let value = ResourceSnapshot::read(&found.metadata, &found.spec);
            self.seen.resources.push(owned(&found.metadata, value));
        }
        for found in self
            .both_scopes::<ResourceBindingSpec, ResourceBindingStatus>(ScopedKind::Binding)
            .await?
        {
            let meta = found.metadata.clone();
            let value = Binding::read(found.metadata, found.spec, Some(found.status));
            let binding: BindingSeen = owned(&meta, Arc::new(value));
            self.seen.bindings.push(binding);
        }
        let works = self.client.of::<Work>();
        for found in self.all(&works).await? {
            self.leaves(&works, &found.metadata);
            let value = work::Work::read(&found);
            self.seen.works.push(WorkSeen { key: key(&found.metadata), value });
        }
        Ok(())
    }

    async fn runs(&mut self) -> Result<(), ClientError> {
        for found in self.both_scopes::<UpdateRunSpec, UpdateRunStatus>(ScopedKind::Run).await? {
            let read = update_run::Run::read(&found.metadata, &found.spec, &found.status);
            self.seen.runs.push(read);
        }
        for found in self
            .both_scopes::<ApprovalRequestSpec, ApprovalRequestStatus>(ScopedKind::Approval)
            .await?
        {
            let (meta, spec) = (&found.metadata, &found.spec);
            let value = update_run::Approval::read(meta, spec, Some(&found.status));
            self.seen.approvals.push(ApprovalSeen { key: key(meta), value });
        }
        let evictions = self.client.of::<ClusterResourcePlacementEviction>();
        for found in self.all(&evictions).await? {
            self.leaves(&evictions, &found.metadata);
            let created = found.metadata.creation_timestamp.as_ref().map(|time| time.0);
            self.seen.evictions.push(EvictionSeen {
                name: found.metadata.name.clone().unwrap_or_default(),
                created: created.unwrap_or(self.seen.now),
                value: eviction::Eviction::read(&found),
            });
        }
        Ok(())
    }

    /// Kinds that no check judges: whether they can be read at all.
    async fn unjudged(&mut self) -> Result<(), ClientError> {
        let client = self.client;
        self.both_scopes::<UpdateStrategySpec, Value>(ScopedKind::Strategy).await?;
        self.all(&client.of::<ClusterResourceOverride>()).await?;
        self.all(&client.of::<ResourceOverride>()).await?;
        self.all(&client.of::<ClusterResourceOverrideSnapshot>()).await?;
        self.all(&client.of::<ResourceOverrideSnapshot>()).await?;
        self.all(&client.of::<ClusterResourceEnvelope>()).await?;
        self.all(&client.of::<ResourceEnvelope>()).await?;
        self.all(&client.of::<ClusterResourcePlacementDisruptionBudget>()).await?;
        Ok(())
    }

    /// All objects of both scopes.
    async fn both_scopes<S, T>(
        &mut self,
        kind: ScopedKind,
    ) -> Result<Vec<Stored<S, T>>, ClientError>
    where
        S: serde::Serialize + DeserializeOwned,
        T: serde::Serialize + DeserializeOwned + Default,
    {
        let mut all = Vec::new();
        for namespace in [None, Some("")] {
            let objects = kind.of::<S, T>(self.client, namespace);
            let found = self.all(&objects).await?;
            for object in &found {
                self.leaves(&objects, &object.metadata);
            }
            all.extend(found);
        }
        Ok(all)
    }

    /// All objects of a kind; those that cannot be read are remembered.
    async fn all<K: DeserializeOwned>(
        &mut self,
        objects: &Objects<K>,
    ) -> Result<Vec<K>, ClientError> {
        match objects.list(&Selection::all()).await {
            Ok(listed) => {
                let bad = listed.malformed.iter().map(ToString::to_string);
                self.seen.unreadable.extend(bad);
                Ok(listed.items)
            }
            // Without an answer from anybody there is nothing to judge.
            Err(error @ ClientError::Unreachable { .. }) => Err(error),
            Err(error) => {
                let why = match error {
                    ClientError::NotServed { .. } | ClientError::NotFound { .. } => {
                        Unlisted::NotServed
                    }
                    ClientError::Forbidden { message, .. } => Unlisted::Forbidden(message),
                    error => Unlisted::Failed(error.to_string()),
                };
                let ResourceType { plural, group, .. } = objects.resource();
                self.seen.unlisted.insert(qualified(plural, group), why);
                Ok(Vec::new())
            }
        }
    }

    /// Remembers an object that is on its way out.
    fn leaves<K>(&mut self, objects: &Objects<K>, meta: &ObjectMeta) {
        let Some(since) = &meta.deletion_timestamp else { return };
        let kind = objects.resource();
        self.seen.deleting.push(Deleting {
            resource: qualified(&kind.plural, &kind.group),
            key: key(meta),
            since: since.0,
            finalizers: meta.finalizers.clone().unwrap_or_default(),
        });
    }
}

/// Whether a member answers, and knows what its agent needs.
async fn ask(member: &Client) -> Reached {
    let nobody = ObjectKey::cluster("flagship-doctor");
    match member.of::<AppliedWork>().find(&nobody).await {
        Ok(_) => Reached::Answers { has_applied_works: true },
        Err(ClientError::NotServed { .. }) => Reached::Answers { has_applied_works: false },
        // Whoever may not look has been answered.
        Err(ClientError::Forbidden { .. }) => Reached::Answers { has_applied_works: true },
        Err(error) => Reached::Silent(format!("{:#}", anyhow::Error::from(error))),
    }
}

fn key(meta: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
}

fn owned<V>(meta: &ObjectMeta, value: V) -> Owned<V> {
    let labels = meta.labels.as_ref();
    let parent = labels.and_then(|labels| labels.get(label::PARENT_PLACEMENT));
    let placement = parent.map(|name| ObjectKey::new(meta.namespace.as_deref(), name));
    Owned { key: key(meta), placement, value }
}
