//! One pass over one placement: read, plan, write in order.
//!
//! The status comes last and in one write. The first failure ends the pass; the next
//! one waits until the mirrors show what this one wrote.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flagship_api::keys::{annotation, finalizer, label};
use flagship_api::names::{ObjectKey, Scope};
use flagship_api::placement_status::{ClusterResourcePlacementStatus, PlacementStatus};
use flagship_rules::event::Event;
use flagship_rules::placement::mirror::{self, Mirror};
use flagship_rules::placement::policy_snapshots::PolicyAction;
use flagship_rules::placement::resource_snapshots::ResourceAction;
use flagship_rules::placement::selection::Selection;
use flagship_rules::placement::{self, Action, Series};
use flagship_runtime::client::{
    ClientError, Fence, Listed, Propagation, ResourceType, Selection as Selected,
};
use flagship_runtime::effects::{Kind, Made, SeenWrites, Writer};
use flagship_runtime::events::{EventType, Recorder};
use flagship_runtime::metrics::Metrics;
use flagship_runtime::queue::Outcome;
use flagship_runtime::verdict::Failure;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use kube_core::metadata::PartialObjectMeta;
use serde_json::{Value, json};

use super::content::Content;
use super::observe::{Seen, observe};
use crate::hub::Context;
use crate::mirrors::{Mirrors, ScopeMirrors};
use crate::patches::{gone_is_fine, reference, with_finalizer, without_finalizer};
use crate::scope::{ClusterWide, InNamespace, Parts, Scoped};

const SERIES: &str = "fleet_workload_placement_status_last_timestamp_seconds";

/// Carries out the plans of placements.
pub(super) struct Shell {
    cx: Context,
    mirrors: Arc<Mirrors>,
    content: Arc<Content>,
    recorder: Recorder,
    seen: SeenWrites<ObjectKey>,
    /// What the metric says of each placement.
    told: Mutex<BTreeMap<ObjectKey, [String; 6]>>,
}

/// A pass under way.
struct Pass<'a> {
    cx: &'a Context,
    seen: &'a Seen,
    writer: Writer<'a, ObjectKey>,
    /// The placement as this pass left it.
    fence: Fence,
    finalizers: Vec<String>,
}

impl Shell {
    pub fn new(
        cx: &Context,
        mirrors: Arc<Mirrors>,
        content: Arc<Content>,
        recorder: Recorder,
    ) -> Self {
        let seen = SeenWrites::default();
        shown::<ClusterWide>(&seen, Some(&mirrors.cluster_wide));
        shown::<InNamespace>(&seen, mirrors.in_namespaces.as_ref());
        seen.shown_by(ResourceType::of::<ClusterResourcePlacementStatus>(), &mirrors.copies);
        let told = Mutex::default();
        Self { cx: cx.clone(), mirrors, content, recorder, seen, told }
    }

    /// How many placements of a scope to look at side by side.
    pub fn workers(&self) -> usize {
        self.cx.options.placement_workers()
    }

    pub fn metrics(&self) -> &Metrics {
        &self.cx.metrics
    }

    /// One pass.
    pub async fn pass(&self, key: &ObjectKey) -> Result<Outcome, Failure> {
        self.seen.caught_up(key).await;
        match key.scope() {
            Scope::Cluster => self.pass_in::<ClusterWide>(key).await,
            Scope::Namespaced => self.pass_in::<InNamespace>(key).await,
        }
    }

    async fn pass_in<S: Scoped>(&self, key: &ObjectKey) -> Result<Outcome, Failure> {
        let Some(scope) = self.mirrors.of(key) else { return Ok(Outcome::Done) };
        let Some(found) = scope.placements.get(key) else {
            self.measure(key, 0, None);
            return Ok(Outcome::Done);
        };
        let seen = observe(&self.cx, &self.mirrors, scope, &self.content, found);
        let plan = placement::plan(&seen.observed);
        self.measure(key, seen.observed.placement.generation, plan.series.as_ref());
        let mut pass = Pass {
            cx: &self.cx,
            seen: &seen,
            writer: Writer::new(&self.cx.client, &self.cx.leadership, &self.seen, key),
            fence: seen.placement.fence.clone(),
            finalizers: seen.placement.finalizers.clone(),
        };
        for action in plan.actions {
            pass.act::<S>(action).await?;
        }
        for event in &plan.events {
            self.say::<S>(&seen, event);
        }
        if let Some(trouble) = plan.trouble {
            return Err(Failure::back_off(trouble.to_string()));
        }
        Ok(match plan.wake.and_then(|span| Duration::try_from(span).ok()) {
            Some(span) => Outcome::After(span),
            None => Outcome::Done,
        })
    }

    fn say<S: Scoped>(&self, seen: &Seen, event: &Event) {
        let of = &seen.observed.placement;
        let sort = if event.warning { EventType::Warning } else { EventType::Normal };
        let about = reference::<S::Placement>(of.namespace.as_deref(), &of.name, &of.uid);
        self.recorder.note_about(about, sort, &event.reason, &event.message);
    }

    /// Says where a placement stands, and nothing of where it stood before.
    fn measure(&self, key: &ObjectKey, generation: i64, series: Option<&Series>) {
        let names = ["namespace", "name", "generation", "conditionType", "status", "reason"];
        let now = series.map(|series| {
            let Series { condition, status, reason } = series.clone();
            let namespace = key.namespace.clone().unwrap_or_default();
            [namespace, key.name.clone(), generation.to_string(), condition, status, reason]
        });
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match &now {
            Some(now) => told.insert(key.clone(), now.clone()),
            None => told.remove(key),
        };
        let labels = |values: &[String; 6]| -> Vec<(&str, String)> {
            names.into_iter().zip(values.clone()).collect()
        };
        if let Some(before) = before.filter(|before| now.as_ref() != Some(before)) {
            let before = labels(&before);
            let before: Vec<_> = before.iter().map(|(name, value)| (*name, &**value)).collect();
            self.cx.metrics.forget(SERIES, &before);
        }
        if let Some(now) = now {
            let now = labels(&now);
            let now: Vec<_> = now.iter().map(|(name, value)| (*name, &**value)).collect();
            let gauge = self.cx.metrics.gauge(SERIES, "When a placement last stood so.", &now);
            gauge.set(self.cx.env.now().as_second() as f64);
        }
    }
}

impl Pass<'_> {
    async fn act<S: Scoped>(&mut self, action: Action) -> Result<(), ClientError> {
        match action {
            Action::Guard => {
                let patch = with_finalizer(&self.finalizers, finalizer::PLACEMENT);
                self.patch_placement::<S>(patch).await
            }
            Action::Unguard => {
                let patch = without_finalizer(&self.finalizers, finalizer::PLACEMENT);
                self.patch_placement::<S>(patch).await
            }
            Action::Policy(action) => self.act_on_policy::<S>(action).await,
            Action::Resources(action) => self.act_on_resources::<S>(action).await,
            Action::Mirror(mirror) => self.copy::<S>(&mirror).await,
            Action::Status(status) => self.report::<S>(status).await,
            Action::DeletePolicySnapshots => self.delete_all::<S::PolicySnapshot>().await,
            Action::DeleteResourceSnapshots => self.delete_all::<S::ResourceSnapshot>().await,
        }
    }

    async fn act_on_policy<S: Scoped>(&self, action: PolicyAction) -> Result<(), ClientError> {
        let of = &self.seen.observed.placement;
        match action {
            PolicyAction::Retire { name } => {
                let patch = json!({"metadata": {"labels": {label::IS_LATEST_SNAPSHOT: "false"}}});
                self.patch::<S::PolicySnapshot>(self.seen.policies.get(&name), patch).await
            }
            PolicyAction::Refresh { name, placement_generation, number_of_clusters } => {
                let mut notes =
                    json!({annotation::PLACEMENT_GENERATION: placement_generation.to_string()});
                if let Some(number) = number_of_clusters {
                    notes[annotation::NUMBER_OF_CLUSTERS] = json!(number.to_string());
                }
                let labels = json!({label::IS_LATEST_SNAPSHOT: "true"});
                let patch = json!({"metadata": {"labels": labels, "annotations": notes}});
                self.patch::<S::PolicySnapshot>(self.seen.policies.get(&name), patch).await
            }
            PolicyAction::Create(new) => {
                self.create(&S::PolicySnapshot::new(new.metadata(of), new.spec(of))).await
            }
            PolicyAction::Delete { name } => {
                self.delete::<S::PolicySnapshot>(self.seen.policies.get(&name)).await
            }
        }
    }

    async fn act_on_resources<S: Scoped>(&self, action: ResourceAction) -> Result<(), ClientError> {
        let of = &self.seen.observed.placement;
        let fence = |name: &str| self.seen.resources.get(name);
        match action {
            ResourceAction::Mark { name, latest } => {
                let labels = json!({label::IS_LATEST_SNAPSHOT: latest.to_string()});
                let patch = json!({"metadata": {"labels": labels}});
                self.patch::<S::ResourceSnapshot>(fence(&name), patch).await
            }
            ResourceAction::Stamp { name, at } => {
                let notes = json!({annotation::NEXT_SNAPSHOT_DETECTION_TIME: at});
                let patch = json!({"metadata": {"annotations": notes}});
                self.patch::<S::ResourceSnapshot>(fence(&name), patch).await
            }
            ResourceAction::Create(new) => {
                let nothing = Selection::default();
                let selection = self.seen.observed.selection.as_ref().unwrap_or(&nothing);
                let spec = new.spec(selection);
                self.create(&S::ResourceSnapshot::new(new.metadata(of), spec)).await
            }
            ResourceAction::Delete { name } => {
                self.delete::<S::ResourceSnapshot>(fence(&name)).await
            }
        }
    }

    /// Copies the status into the placed namespace. If that fails, the status says so.
    async fn copy<S: Scoped>(&mut self, mirror: &Mirror) -> Result<(), ClientError> {
        let of = &self.seen.observed.placement;
        let mut object = mirror.object(of);
        let copied = match &self.seen.copy {
            Some(there) => {
                object.metadata.resource_version = Some(there.fence.resource_version.clone());
                self.writer.update(&object).await.map(drop)
            }
            None => self.create(&object).await,
        };
        let Err(error) = copied else { return Ok(()) };
        let now = self.cx.env.now();
        if let Some(status) = mirror::after_failure(of, mirror, &error.to_string(), now) {
            self.report::<S>(status).await?;
        }
        Err(error)
    }

    /// Writes the whole status: what is no longer said must not stay.
    async fn report<S: Scoped>(&mut self, status: PlacementStatus) -> Result<(), ClientError> {
        let of = &self.seen.observed.placement;
        let metadata = ObjectMeta {
            name: Some(of.name.clone()),
            namespace: of.namespace.clone(),
            uid: Some(of.uid.clone()),
            resource_version: Some(self.fence.resource_version.clone()),
            ..ObjectMeta::default()
        };
        let object = S::Placement::new(metadata, of.spec.clone()).with_status(status);
        if let Some(written) = gone_is_fine(self.writer.update_status(&object).await)? {
            self.left(&written);
        }
        Ok(())
    }

    async fn patch_placement<S: Scoped>(&mut self, patch: Value) -> Result<(), ClientError> {
        let patched = self.writer.patch::<S::Placement>(&self.fence, patch).await;
        if let Some(patched) = gone_is_fine(patched)? {
            self.left(&patched);
        }
        Ok(())
    }

    /// Notes how a write left the placement.
    fn left<K: Resource>(&mut self, placement: &K) {
        self.finalizers = placement.meta().finalizers.clone().unwrap_or_default();
        if let Some(fence) = Fence::of(placement) {
            self.fence = fence;
        }
    }

    /// A name that is taken means that a mirror lags: the next pass knows better.
    async fn create<K: Kind>(&self, object: &K) -> Result<(), ClientError> {
        match self.writer.create(object).await? {
            Made::New(_) => Ok(()),
            Made::Existed => {
                let object = object.meta().name.clone().unwrap_or_default();
                Err(ClientError::AlreadyExists { object })
            }
        }
    }

    async fn patch<K: Parts>(
        &self,
        fence: Option<&Fence>,
        patch: Value,
    ) -> Result<(), ClientError> {
        if let Some(fence) = fence {
            self.writer.patch::<K>(fence, patch).await?;
        }
        Ok(())
    }

    async fn delete<K: Parts>(&self, fence: Option<&Fence>) -> Result<(), ClientError> {
        if let Some(fence) = fence {
            self.writer.delete::<K>(fence, Propagation::Background).await?;
        }
        Ok(())
    }

    /// Deletes all objects of a kind that belong to the placement, readable or not.
    async fn delete_all<K: Parts>(&self) -> Result<(), ClientError> {
        let of = &self.seen.observed.placement;
        let labels = format!("{}={}", label::PARENT_PLACEMENT, of.name);
        let all = Selected { namespace: of.namespace.clone(), labels, ..Selected::all() };
        let objects = self.cx.client.of_type(ResourceType::of::<K>()).metadata_only();
        let listed: Listed<PartialObjectMeta<K>> = objects.list(&all).await?;
        for object in &listed.items {
            self.delete::<K>(Fence::of(object).as_ref()).await?;
        }
        Ok(())
    }
}

/// Names the mirrors that show our writes.
fn shown<S: Scoped>(seen: &SeenWrites<ObjectKey>, mirrors: Option<&ScopeMirrors>) {
    if let Some(mirrors) = mirrors {
        seen.shown_by(ResourceType::of::<S::Placement>(), &mirrors.placements);
        seen.shown_by(ResourceType::of::<S::PolicySnapshot>(), &mirrors.policies);
        seen.shown_by(ResourceType::of::<S::ResourceSnapshot>(), &mirrors.resources);
    }
}
