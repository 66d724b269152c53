//! One pass over one placement: read, plan, write.
//!
//! Steps of the plan go one after the other, the writes of a step side by side. The first
//! failure ends the pass, and the next one starts from fresh reads. A delivery is one
//! write where the work generator carries the start signal into the status, and two where it
//! does not; a pass that ends between these is made good by the next, which sees a binding
//! that names the right things and has not been told so.
//!
//! What a pass decides is in `flagship_rules::rollout`; why it runs, in `triggers`.

use std::sync::Arc;
use std::time::Duration;

use flagship_api::binding::{BindingState, ResourceBindingSpec};
use flagship_api::condition::{ConditionDraft, Generation};
use flagship_api::names::ObjectKey;
use flagship_rules::model::Binding;
use flagship_rules::rollout::{Action, Observed, Plan, messages, plan};
use flagship_runtime::client::{ClientError, Precondition, Propagation, ResourceType};
use flagship_runtime::effects::{PendingWrites, Writer, carry_out_in_groups};
use flagship_runtime::error_action::Failure;
use flagship_runtime::queue::{Outcome, Queue};
use kube_core::Resource;
use serde_json::{Value, json};

use super::observe::observe;
use crate::hub::Context;
use crate::mirrors::{Mirrors, ScopeMirrors};
use crate::patches::{DeliveryMarks, difference, ignore_not_found, precondition_of};
use crate::scope::Scoped;

/// Writes of one step that are under way at once.
const AT_ONCE: usize = 10;

/// Carries out the plans of rollouts of one scope.
pub(super) struct Shell<S: Scoped> {
    cx: Context,
    mirrors: Arc<Mirrors>,
    scope: ScopeMirrors,
    queue: Queue<ObjectKey>,
    seen: PendingWrites<ObjectKey>,
    kinds: std::marker::PhantomData<S>,
}

impl<S: Scoped> Shell<S> {
    pub fn new(
        cx: &Context,
        mirrors: &Arc<Mirrors>,
        scope: &ScopeMirrors,
        queue: &Queue<ObjectKey>,
    ) -> Self {
        let seen = PendingWrites::default();
        seen.shown_by(ResourceType::of::<S::Binding>(), &scope.bindings);
        Self {
            cx: cx.clone(),
            mirrors: mirrors.clone(),
            scope: scope.clone(),
            queue: queue.clone(),
            seen,
            kinds: std::marker::PhantomData,
        }
    }

    /// One pass.
    pub async fn pass(&self, key: ObjectKey) -> Outcome {
        match self.look_and_write(&key).await {
            Ok(None) => Outcome::Done,
            Ok(Some(Plan { trouble: Some(trouble), .. })) => {
                Outcome::Error(Failure::back_off(trouble.to_string()))
            }
            Ok(Some(plan)) => {
                if plan.again {
                    // At once, and with a fresh back-off: this is progress, not trouble.
                    self.queue.add(key);
                }
                let wake = plan.wake.and_then(|wake| Duration::try_from(wake).ok());
                wake.map_or(Outcome::Done, Outcome::After)
            }
            Err(failure) => Outcome::Error(failure),
        }
    }

    async fn look_and_write(&self, key: &ObjectKey) -> Result<Option<Plan>, Failure> {
        let is_shown = self.seen.caught_up(key).await;
        let seen =
            observe::<S>(&self.cx, &self.mirrors, &self.scope, key, is_shown, &self.seen).await?;
        let Some(seen) = seen else { return Ok(None) };
        let mut plan = plan(&seen);
        let steps = std::mem::take(&mut plan.steps);
        for waiting in &plan.waiting {
            tracing::debug!(%key, ?waiting, "not everything is rolled out");
        }
        let writer = Writer::new(&self.cx.client, &self.cx.leadership, &self.seen, key);
        carry_out_in_groups(steps, AT_ONCE, async |action| self.act(&writer, &seen, action).await)
            .await?;
        Ok(Some(plan))
    }

    async fn act(
        &self,
        writer: &Writer<'_, ObjectKey>,
        seen: &Observed,
        action: Action,
    ) -> Result<(), ClientError> {
        let (Action::PushStrategy { binding, .. }
        | Action::HoldBack { binding }
        | Action::Confirm { binding }
        | Action::Deliver { binding, .. }
        | Action::Remove { binding }) = &action;
        let Some(found) = seen.bindings.iter().find(|b| b.name == *binding) else { return Ok(()) };
        let precondition = precondition_of(found);
        match action {
            Action::PushStrategy { strategy, .. } => {
                let spec =
                    ResourceBindingSpec { apply_strategy: Some(*strategy), ..found.spec.clone() };
                let patch = into_spec(&found.spec, &spec);
                ignore_not_found(writer.patch::<S::Binding>(&precondition, patch).await)?;
            }
            Action::HoldBack { .. } => {
                self.say(writer, &precondition, found.generation(), found, messages::held_back())
                    .await?;
            }
            Action::Confirm { .. } => {
                self.say(writer, &precondition, found.generation(), found, messages::started())
                    .await?;
            }
            Action::Deliver { snapshot, overrides, strategy, .. } => {
                let mut spec = ResourceBindingSpec {
                    state: BindingState::Bound,
                    resource_snapshot_name: snapshot,
                    cluster_resource_override_snapshots: overrides.wide,
                    resource_override_snapshots: overrides.narrow,
                    ..found.spec.clone()
                };
                if let Some(strategy) = strategy {
                    spec.apply_strategy = Some(*strategy);
                }
                let mut patch = into_spec(&found.spec, &spec);
                let (options, now) = (&self.cx.options, self.cx.env.now());
                let marks = DeliveryMarks::of(found, &spec, options, |conditions, at| {
                    messages::started().set(conditions, at, now);
                });
                let signalled = marks.signalled;
                marks.add_to(&mut patch);
                let delivered = writer.patch::<S::Binding>(&precondition, patch).await;
                if let Some(delivered) = ignore_not_found(delivered)?.filter(|_| !signalled) {
                    // The precondition held, so the status is still the one that was listed.
                    let Some(precondition) = Precondition::of(&delivered) else { return Ok(()) };
                    let generation = Generation::of(delivered.meta());
                    self.say(writer, &precondition, generation, found, messages::started()).await?;
                }
            }
            Action::Remove { .. } => {
                writer.delete::<S::Binding>(&precondition, Propagation::Background).await?;
            }
        }
        Ok(())
    }

    /// Says it on the binding, about the generation that was written or read.
    async fn say(
        &self,
        writer: &Writer<'_, ObjectKey>,
        precondition: &Precondition,
        generation: Generation,
        binding: &Binding,
        said: ConditionDraft,
    ) -> Result<(), ClientError> {
        let mut conditions = binding.status.conditions.clone();
        said.set(&mut conditions, generation, self.cx.env.now());
        let patch = json!({"status": {"conditions": conditions}});
        ignore_not_found(writer.patch_status::<S::Binding>(precondition, patch).await)?;
        Ok(())
    }
}

/// Changes what differs and nothing else: the spec has other writers.
fn into_spec(from: &ResourceBindingSpec, to: &ResourceBindingSpec) -> Value {
    json!({"spec": difference(&json!(from), &json!(to))})
}
