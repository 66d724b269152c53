//! One pass over one override: read, plan, write, one write after the other.
//!
//! What a pass decides is in `flagship_rules::overrides::snapshots`.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use flagship_api::keys::{finalizer, label};
use flagship_api::names::ObjectKey;
use flagship_rules::overrides::snapshots::{Action, KEPT, Observed, plan};
use flagship_runtime::client::{Precondition, Propagation, ResourceType, Selection};
use flagship_runtime::effects::{Made, PendingWrites, Writer, carry_out_in_groups};
use flagship_runtime::error_action::Failure;
use flagship_runtime::queue::Outcome;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_core::metadata::PartialObjectMeta;
use serde_json::json;

use crate::hub::Context;
use crate::mirrors::{Mirrors, Override, OverrideSnapshot};
use crate::patches::{ignore_not_found, with_finalizer, without_finalizer};
use crate::scope::Overriding;

/// Deletions that are under way at once.
const AT_ONCE: usize = 10;

/// Carries out the plans of overrides of one scope.
pub(super) struct Shell<S: Overriding> {
    cx: Context,
    mirrors: Arc<Mirrors>,
    seen: PendingWrites<ObjectKey>,
    scope: PhantomData<S>,
}

impl<S: Overriding> Shell<S> {
    pub fn new(cx: &Context, mirrors: &Arc<Mirrors>) -> Self {
        let stores = S::stores(&mirrors.overrides);
        let seen = PendingWrites::default();
        seen.shown_by(ResourceType::of::<S::Override>(), &stores.overrides);
        seen.shown_by(ResourceType::of::<S::Snapshot>(), &stores.snapshots);
        Self { cx: cx.clone(), mirrors: mirrors.clone(), seen, scope: PhantomData }
    }

    /// One pass.
    pub async fn pass(&self, key: ObjectKey) -> Outcome {
        let caught_up = self.seen.caught_up(&key).await;
        match self.look_and_write(&key).await {
            Ok(()) => Outcome::Done.having_caught_up(caught_up),
            Err(failure) => Outcome::Error(failure),
        }
    }

    async fn look_and_write(&self, key: &ObjectKey) -> Result<(), Failure> {
        let stores = S::stores(&self.mirrors.overrides);
        let Some(kept) = stores.overrides.get(key) else { return Ok(()) };
        let snapshots = stores.snapshots_of(key);
        let observed = self.observe(key, &kept, &snapshots)?;
        let actions = plan(&observed).map_err(|trouble| Failure::back_off(trouble.to_string()))?;
        let preconditions: BTreeMap<&str, &Precondition> =
            snapshots.iter().map(|s| (s.value.name.as_str(), &s.precondition)).collect();
        let writer = Writer::new(&self.cx.client, &self.cx.leadership, &self.seen, key);
        for action in actions {
            self.act(&writer, &kept, &preconditions, action).await?;
        }
        Ok(())
    }

    fn observe(
        &self,
        key: &ObjectKey,
        kept: &Override<S::Spec>,
        snapshots: &[Arc<OverrideSnapshot<S::Spec>>],
    ) -> Result<Observed, Failure> {
        let hash = S::hash(&kept.spec)
            .map_err(|error| Failure::back_off(format!("{key} cannot be hashed: {error}")))?;
        // Only asked where something may go.
        let asked = snapshots.iter().filter(|_| snapshots.len() > KEPT);
        let in_use = asked.filter(|snapshot| {
            let mut scopes = self.mirrors.scopes();
            scopes.any(|scope| scope.names_override(&snapshot.precondition.key))
        });
        Ok(Observed {
            name: key.name.clone(),
            deleting: kept.deleting,
            has_finalizer: kept.finalizers.iter().any(|f| f == finalizer::OVERRIDE),
            hash,
            snapshots: snapshots.iter().map(|snapshot| snapshot.value.clone()).collect(),
            in_use: in_use.map(|snapshot| snapshot.value.name.clone()).collect(),
        })
    }

    async fn act(
        &self,
        writer: &Writer<'_, ObjectKey>,
        kept: &Override<S::Spec>,
        preconditions: &BTreeMap<&str, &Precondition>,
        action: Action,
    ) -> Result<(), Failure> {
        match action {
            Action::AddFinalizer => {
                let patch = with_finalizer(&kept.finalizers, finalizer::OVERRIDE);
                writer.patch::<S::Override>(&kept.precondition, patch).await?;
            }
            Action::RemoveFinalizer => {
                let patch = without_finalizer(&kept.finalizers, finalizer::OVERRIDE);
                ignore_not_found(writer.patch::<S::Override>(&kept.precondition, patch).await)?;
            }
            Action::Create { name, index, hash } => {
                let metadata = metadata::<S>(&kept.precondition, &name, index);
                let object = S::freeze(metadata, kept.spec.clone(), &hash);
                // One of that name is not ours to trust: the mirror is behind.
                if matches!(writer.create(&object).await?, Made::Existed) {
                    return Err(Failure::back_off(format!("{name} exists already")));
                }
            }
            Action::Mark { name, latest } => {
                let labels = json!({label::IS_LATEST_SNAPSHOT: latest.to_string()});
                let patch = json!({"metadata": {"labels": labels}});
                if let Some(precondition) = preconditions.get(name.as_str()) {
                    ignore_not_found(writer.patch::<S::Snapshot>(precondition, patch).await)?;
                }
            }
            Action::Delete { name } => {
                if let Some(precondition) = preconditions.get(name.as_str()) {
                    writer.delete::<S::Snapshot>(precondition, Propagation::Background).await?;
                }
            }
            Action::DeleteAll => self.delete_all(writer, &kept.precondition.key).await?,
        }
        Ok(())
    }

    /// Deletes every snapshot of an override. Metadata is enough, so that what nobody can
    /// read goes like the rest.
    async fn delete_all(
        &self,
        writer: &Writer<'_, ObjectKey>,
        key: &ObjectKey,
    ) -> Result<(), Failure> {
        let snapshots = ResourceType::of::<S::Snapshot>();
        let snapshots = self.cx.client.of_type::<PartialObjectMeta<S::Snapshot>>(snapshots);
        let labels = format!("{}={}", label::PARENT_OVERRIDE, key.name);
        let which = Selection { namespace: key.namespace.clone(), labels, ..Selection::all() };
        let listed = snapshots.metadata_only().list(&which).await?;
        let preconditions: Vec<Precondition> =
            listed.items.iter().filter_map(Precondition::of).collect();
        carry_out_in_groups(vec![preconditions], AT_ONCE, async |precondition| {
            writer.delete::<S::Snapshot>(&precondition, Propagation::Background).await.map(drop)
        })
        .await?;
        Ok(())
    }
}

/// Metadata of a new snapshot, which belongs to its override and goes with it.
fn metadata<S: Overriding>(of: &Precondition, name: &str, index: String) -> ObjectMeta {
    let kind = ResourceType::of::<S::Override>();
    let labels = [
        (label::PARENT_OVERRIDE, of.key.name.clone()),
        (label::IS_LATEST_SNAPSHOT, "true".to_owned()),
        (label::OVERRIDE_INDEX, index),
    ];
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: of.key.namespace.clone(),
        labels: Some(labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        owner_references: Some(vec![OwnerReference {
            api_version: kind.api_version(),
            kind: kind.kind,
            name: of.key.name.clone(),
            uid: of.uid.clone(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }]),
        ..ObjectMeta::default()
    }
}
