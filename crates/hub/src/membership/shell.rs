//! One pass over one member: read, plan, write in order.
//!
//! The MemberCluster may be written several times in a pass; the precondition of each is
//! the version that the write before it left.

use std::sync::Arc;
use std::time::Duration;

use flagship_api::cluster::{InternalMemberCluster, MemberCluster};
use flagship_api::condition::ConditionStatus;
use flagship_api::condition_type::member_cluster;
use flagship_api::keys::{field_manager, finalizer, label};
use flagship_api::names::ObjectKey;
use flagship_api::work::Work;
use flagship_rules::event::Event;
use flagship_rules::membership::{self, Action, Member};
use flagship_runtime::client::{ClientError, Precondition, Propagation, ResourceType};
use flagship_runtime::effects::{Kind, PendingWrites, Writer};
use flagship_runtime::error_action::Failure;
use flagship_runtime::events::{EventType, Recorder};
use flagship_runtime::metrics::Counter;
use flagship_runtime::queue::Outcome;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::metadata::PartialObjectMeta;
use serde_json::{Value, json};

use super::observe::{PassInputs, observe};
use crate::hub::Context;
use crate::mirrors::{Mirrors, Versioned};
use crate::patches::{ignore_not_found, reference, with_finalizer, without_finalizer};

/// Carries out the plans of membership.
pub(super) struct Shell {
    cx: Context,
    mirrors: Arc<Mirrors>,
    recorder: Recorder,
    seen: PendingWrites<ObjectKey>,
    joins: Counter,
    leaves: Counter,
}

/// A pass under way.
struct Pass<'a> {
    seen: &'a PassInputs,
    writer: Writer<'a, ObjectKey>,
    /// The MemberCluster as this pass left it.
    precondition: Precondition,
    finalizers: Vec<String>,
}

impl Shell {
    pub fn new(cx: &Context, mirrors: Arc<Mirrors>, recorder: Recorder) -> Self {
        let client = cx.client.named(field_manager::MEMBER_CLUSTER);
        let cx = Context { client, ..cx.clone() };
        let seen = PendingWrites::default();
        seen.shown_by(ResourceType::of::<MemberCluster>(), &mirrors.members.clusters);
        seen.shown_by(ResourceType::of::<InternalMemberCluster>(), &mirrors.members.internals);
        seen.shown_by(ResourceType::of::<Namespace>(), &mirrors.members.namespaces);
        seen.shown_by(ResourceType::of::<Role>(), &mirrors.members.roles);
        seen.shown_by(ResourceType::of::<RoleBinding>(), &mirrors.members.role_bindings);
        let success = [("result", "success")];
        let counter = |name, help| cx.metrics.counter(name, help, &success);
        let joins = counter("join_result_counter", "Members that joined.");
        let leaves = counter("leave_result_counter", "Members that left.");
        Self { cx, mirrors, recorder, seen, joins, leaves }
    }

    /// One pass.
    pub async fn pass(&self, key: &ObjectKey) -> Result<Outcome, Failure> {
        let caught_up = self.seen.caught_up(key).await;
        let Some(cluster) = self.mirrors.members.clusters.get(key) else {
            return Ok(Outcome::Done);
        };
        let seen = observe(&self.cx, &self.mirrors, cluster).await?;
        let plan = membership::plan(&seen.observed);
        if plan.actions.contains(&Action::CreateNamespace)
            && !self.is_still_a_member(&seen.cluster.precondition).await?
        {
            // The mirror is behind; what it shows next wakes the key.
            return Ok(Outcome::Done.having_caught_up(caught_up));
        }
        let mut pass = Pass {
            seen: &seen,
            writer: Writer::new(&self.cx.client, &self.cx.leadership, &self.seen, key),
            precondition: seen.cluster.precondition.clone(),
            finalizers: seen.cluster.finalizers.clone(),
        };
        let member = &seen.observed.member;
        let mut due = plan.events.iter().peekable();
        for (done, action) in plan.actions.into_iter().enumerate() {
            let turned = self.turn_counted_for(member, &action);
            pass.act(action).await?;
            turned.inspect(|counter| counter.inc());
            while let Some(told) = due.next_if(|told| told.after <= done + 1) {
                self.say(member, &told.event);
            }
        }
        due.for_each(|told| self.say(member, &told.event));
        if let Some(why) = plan.failure {
            return Err(Failure::back_off(why));
        }
        let next = match plan.wake.and_then(|span| Duration::try_from(span).ok()) {
            Some(span) => Outcome::After(span),
            None => Outcome::Done,
        };
        Ok(next.having_caught_up(caught_up))
    }

    /// Asks the API server whether the MemberCluster exists and is not being deleted. The garbage
    /// collector deletes a namespace whose owner is gone, which wakes the next pass: without this
    /// a hub with a late mirror would create the namespace again and again.
    async fn is_still_a_member(&self, known: &Precondition) -> Result<bool, ClientError> {
        let members = self.cx.client.of_type(ResourceType::of::<MemberCluster>()).metadata_only();
        let found: Option<PartialObjectMeta<MemberCluster>> = members.find(&known.key).await?;
        Ok(found.is_some_and(|found| {
            found.metadata.uid.as_ref() == Some(&known.uid)
                && found.metadata.deletion_timestamp.is_none()
        }))
    }

    /// What counts a status by which the member joins or leaves.
    fn turn_counted_for(&self, member: &Member, action: &Action) -> Option<&Counter> {
        let Action::Status(status) = action else { return None };
        match membership::turned(&member.status, status, member_cluster::JOINED)? {
            ConditionStatus::True => Some(&self.joins),
            ConditionStatus::False => Some(&self.leaves),
            ConditionStatus::Unknown => None,
        }
    }

    fn say(&self, member: &Member, event: &Event) {
        let sort = if event.warning { EventType::Warning } else { EventType::Normal };
        let about = reference::<MemberCluster>(None, &member.name, &member.uid);
        self.recorder.note_about(about, sort, &event.reason, &event.message);
    }
}

impl Pass<'_> {
    async fn act(&mut self, action: Action) -> Result<(), ClientError> {
        let member = &self.seen.observed.member;
        let writer = &self.writer;
        match action {
            Action::AddFinalizer => {
                let patch = with_finalizer(&self.finalizers, finalizer::MEMBER_CLUSTER);
                self.patch_member(patch).await?;
            }
            Action::RemoveFinalizer => {
                let patch = without_finalizer(&self.finalizers, finalizer::MEMBER_CLUSTER);
                self.patch_member(patch).await?;
            }
            Action::Label => {
                let labels = json!({label::MEMBER_NAME: member.name});
                self.patch_member(json!({"metadata": {"labels": labels}})).await?;
            }
            Action::Status(status) => {
                let object = MemberCluster {
                    metadata: ObjectMeta {
                        name: Some(member.name.clone()),
                        uid: Some(member.uid.clone()),
                        resource_version: Some(self.precondition.resource_version.clone()),
                        ..ObjectMeta::default()
                    },
                    spec: member.spec.clone(),
                    status: Some(status),
                };
                // One that is gone needs no status.
                ignore_not_found(writer.update_status(&object).await)?;
            }
            Action::CreateNamespace => drop(writer.create(&member.namespace()).await?),
            Action::LabelNamespace => {
                let labels = json!({label::IS_FLEET_RESOURCE: "true"});
                let patch = json!({"metadata": {"labels": labels}});
                self.patch::<Namespace, _>(self.seen.namespace.as_deref(), patch).await?;
            }
            Action::DeleteNamespace => {
                if let Some(namespace) = &self.seen.namespace {
                    let precondition = &namespace.precondition;
                    writer.delete::<Namespace>(precondition, Propagation::Background).await?;
                }
            }
            Action::CreateRole(rules) => drop(writer.create(&member.role(rules)).await?),
            Action::UpdateRole(rules) => {
                self.patch::<Role, _>(self.seen.role.as_deref(), json!({"rules": rules})).await?;
            }
            Action::CreateRoleBinding(bound) => {
                writer.create(&member.role_binding(bound)).await?;
            }
            Action::UpdateRoleBinding(bound) => {
                let patch = json!({"subjects": bound.subjects});
                self.patch::<RoleBinding, _>(self.seen.role_binding.as_deref(), patch).await?;
            }
            Action::ReplaceRoleBinding(bound) => {
                if let Some(old) = &self.seen.role_binding {
                    writer
                        .delete::<RoleBinding>(&old.precondition, Propagation::Background)
                        .await?;
                }
                writer.create(&member.role_binding(bound)).await?;
            }
            Action::CreateInternal(spec) => {
                let metadata = member.inside(member.name.clone());
                writer.create(&InternalMemberCluster { metadata, spec, status: None }).await?;
            }
            Action::UpdateInternal(spec) => {
                let period = spec.heartbeat_period_seconds;
                let patch =
                    json!({"spec": {"state": spec.state, "heartbeatPeriodSeconds": period}});
                let internal = self.seen.internal.as_deref();
                self.patch::<InternalMemberCluster, _>(internal, patch).await?;
            }
            Action::RemoveWorkFinalizers { name } => {
                if let Some(precondition) = self.seen.works.get(&name) {
                    let patch = json!({"metadata": {"finalizers": []}});
                    ignore_not_found(writer.patch::<Work>(precondition, patch).await)?;
                }
            }
        }
        Ok(())
    }

    async fn patch_member(&mut self, patch: Value) -> Result<(), ClientError> {
        let patched = self.writer.patch::<MemberCluster>(&self.precondition, patch).await;
        let Some(patched) = ignore_not_found(patched)? else { return Ok(()) };
        self.finalizers = patched.metadata.finalizers.clone().unwrap_or_default();
        if let Some(precondition) = Precondition::of(&patched) {
            self.precondition = precondition;
        }
        Ok(())
    }

    /// Patches what this pass has seen.
    async fn patch<K: Kind, V>(
        &self,
        seen: Option<&Versioned<V>>,
        patch: Value,
    ) -> Result<(), ClientError> {
        if let Some(seen) = seen {
            self.writer.patch::<K>(&seen.precondition, patch).await?;
        }
        Ok(())
    }
}
