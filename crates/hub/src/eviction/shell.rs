//! One pass over one eviction: read, plan, write in order.
//!
//! What a pass decides is in `flagship_rules::eviction`. Placement, bindings and budget are
//! read from the server itself, for the verdict is final; a binding that changes before it
//! is deleted ends the pass, and the next one judges anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::binding::ClusterResourceBinding;
use flagship_api::eviction::{
    ClusterResourcePlacementDisruptionBudget, ClusterResourcePlacementEviction,
};
use flagship_api::keys::{label, own};
use flagship_api::names::ObjectKey;
use flagship_api::placement::ClusterResourcePlacement;
use flagship_rules::eviction::{Action, Observed, Plan, plan};
use flagship_rules::placement::Placement;
use flagship_runtime::client::{ClientError, Precondition, Propagation, ResourceType, Selection};
use flagship_runtime::effects::{PendingWrites, Writer};
use flagship_runtime::error_action::Failure;
use flagship_runtime::queue::Outcome;
use serde_json::json;

use super::metrics::Outcomes;
use crate::hub::Context;
use crate::mirrors::{Eviction, Mirrors};
use crate::patches::ignore_not_found;
use crate::scope::binding;

/// Carries out the plans of evictions.
pub(super) struct Shell {
    cx: Context,
    mirrors: Arc<Mirrors>,
    outcomes: Arc<Outcomes>,
    seen: PendingWrites<ObjectKey>,
}

/// What a pass looks at, and the bindings as they were read.
struct PassInputs {
    observed: Observed,
    preconditions: BTreeMap<String, Precondition>,
}

impl Shell {
    pub fn new(cx: &Context, mirrors: &Arc<Mirrors>, outcomes: Arc<Outcomes>) -> Self {
        let seen = PendingWrites::default();
        let kind = ResourceType::of::<ClusterResourcePlacementEviction>();
        seen.shown_by(kind, &mirrors.evictions);
        Self { cx: cx.clone(), mirrors: mirrors.clone(), outcomes, seen }
    }

    /// One pass.
    pub async fn pass(&self, key: ObjectKey) -> Outcome {
        let caught_up = self.seen.caught_up(&key).await;
        let Some(eviction) = self.mirrors.evictions.get(&key) else { return Outcome::Done };
        let ended = match self.look_and_write(&key, &eviction).await {
            Ok(Plan { valid: Some(valid), .. }) => {
                self.outcomes.concluded(&key.name, valid, self.cx.env.now());
                Outcome::Done
            }
            Ok(_) => Outcome::Done,
            Err(failure) => {
                self.outcomes.failed(&key.name, self.cx.env.now());
                Outcome::Error(failure)
            }
        };
        ended.having_caught_up(caught_up)
    }

    async fn look_and_write(&self, key: &ObjectKey, eviction: &Eviction) -> Result<Plan, Failure> {
        let seen = self.observe(eviction).await?;
        let mut plan = plan(&seen.observed);
        let writer = Writer::new(&self.cx.client, &self.cx.leadership, &self.seen, key);
        let mut precondition = eviction.precondition.clone();
        for action in std::mem::take(&mut plan.actions) {
            self.act(&writer, &seen, &mut precondition, action).await?;
        }
        Ok(plan)
    }

    async fn observe(&self, eviction: &Eviction) -> Result<PassInputs, Failure> {
        let client = &self.cx.client;
        let name = &eviction.value.placement;
        let key = ObjectKey::cluster(name);
        // A name that cannot be one belongs to no placement; nobody need be asked.
        let (mut placement, mut bindings, mut budget) = (None, Vec::new(), None);
        if !name.is_empty() {
            placement = client.of::<ClusterResourcePlacement>().find(&key).await?;
            let which = Selection::all().with_labels(format!("{}={name}", label::PARENT_PLACEMENT));
            let listed = client.of::<ClusterResourceBinding>().list(&which).await?;
            if let Some(problem) = listed.malformed.first() {
                // It counts, but nobody can tell as what.
                return Err(Failure::back_off(format!("a binding cannot be read: {problem}")));
            }
            bindings = listed.items;
            budget = client.of::<ClusterResourcePlacementDisruptionBudget>().find(&key).await?;
        }
        let preconditions = bindings.iter().filter_map(Precondition::of);
        let preconditions = preconditions
            .map(|precondition| (precondition.key.name.clone(), precondition))
            .collect();
        let observed = Observed {
            now: self.cx.env.now(),
            eviction: eviction.value.clone(),
            placement: placement.map(|found: ClusterResourcePlacement| {
                Placement::read(&found.metadata, &found.spec, &found.status.unwrap_or_default())
            }),
            bindings: bindings.into_iter().map(binding).collect(),
            budget: budget.map(|found: ClusterResourcePlacementDisruptionBudget| found.spec),
        };
        Ok(PassInputs { observed, preconditions })
    }

    async fn act(
        &self,
        writer: &Writer<'_, ObjectKey>,
        seen: &PassInputs,
        precondition: &mut Precondition,
        action: Action,
    ) -> Result<(), ClientError> {
        match action {
            Action::Intend { uid } => {
                let patch = json!({"metadata": {"annotations": {own::EVICTED_BINDING: uid}}});
                let written =
                    writer.patch::<ClusterResourcePlacementEviction>(precondition, patch).await?;
                if let Some(written) = Precondition::of(&written) {
                    *precondition = written;
                }
            }
            Action::Delete { binding } => {
                if let Some(precondition) = seen.preconditions.get(&binding) {
                    let propagation = Propagation::Background;
                    writer.delete::<ClusterResourceBinding>(precondition, propagation).await?;
                }
            }
            Action::Conclude(conditions) => {
                let patch = json!({"status": {"conditions": conditions}});
                let written = writer
                    .patch_status::<ClusterResourcePlacementEviction>(precondition, patch)
                    .await;
                ignore_not_found(written)?;
            }
        }
        Ok(())
    }
}
