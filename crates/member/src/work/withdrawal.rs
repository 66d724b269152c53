//! What happens on the member when a Work is deleted.
//!
//! Objects go with the AppliedWork that owns them, by the member's own garbage collector:
//! what is ours alone is deleted, what has other owners only loses our reference. The Work
//! stays until the AppliedWork is gone, so that the hub knows when that is. A Work that is
//! marked as abandoned leaves everything where it is: the objects only lose their owner.

use std::collections::BTreeSet;
use std::time::Duration;

use flagship_api::keys::{finalizer, own};
use flagship_api::names::ObjectKey;
use flagship_api::work::{AppliedWork, Work, WorkResourceIdentifier};
use flagship_rules::apply::{self, Terms};
use flagship_runtime::client::{ClientError, Deleted, Fence, Propagation};
use flagship_runtime::queue::Outcome;
use flagship_runtime::verdict::Failure;
use jiff::SignedDuration;
use serde_json::json;

use super::Applier;
use super::manifests::place;

/// The end of an AppliedWork wakes us; this is for an end that nobody told us of.
const LOOK: Duration = Duration::from_secs(30);

impl Applier {
    pub(super) async fn withdraw(&self, key: &ObjectKey, work: &Work) -> Result<Outcome, Failure> {
        let all = work.metadata.finalizers.as_deref().unwrap_or_default();
        if !all.iter().any(|one| one == finalizer::WORK) {
            self.forget(key);
            return Ok(Outcome::Done);
        }
        let Some(applied) = self.applied.get(&ObjectKey::cluster(&key.name)) else {
            return self.release(key, work).await;
        };
        let Some(deleted) = &applied.metadata.deletion_timestamp else {
            let Some(fence) = Fence::of(&*applied) else { return Ok(Outcome::After(LOOK)) };
            let member = self.member(key);
            let deleting = member.delete::<AppliedWork>(&fence, manner(work));
            return match deleting.await? {
                Deleted::Gone => self.release(key, work).await,
                Deleted::Terminating { .. } => Ok(Outcome::After(LOOK)),
            };
        };
        let waited = self.cx.env.now().duration_since(deleted.0);
        let patience = SignedDuration::try_from(self.cx.options.deletion_wait).unwrap_or_default();
        if waited < patience {
            let left = Duration::try_from(patience - waited).unwrap_or_default();
            return Ok(Outcome::After(LOOK.min(left).max(Duration::from_secs(1))));
        }
        self.unblock(work, &applied).await?;
        Ok(Outcome::After(LOOK))
    }

    /// Lets the Work go.
    async fn release(&self, key: &ObjectKey, work: &Work) -> Result<Outcome, Failure> {
        self.forget(key);
        let all = work.metadata.finalizers.as_deref().unwrap_or_default();
        let rest: Vec<&String> = all.iter().filter(|one| *one != finalizer::WORK).collect();
        let Some(fence) = Fence::of(work) else { return Ok(Outcome::Done) };
        let patch = json!({"metadata": {"finalizers": rest}});
        match self.hub(key).patch::<Work>(&fence, patch).await {
            Ok(_) | Err(ClientError::NotFound { .. }) => Ok(Outcome::Done),
            Err(error) => Err(error.into()),
        }
    }

    /// An object with other owners may keep the AppliedWork from going, for instance while
    /// another owner is missing. It need not wait for ours.
    async fn unblock(&self, work: &Work, applied: &AppliedWork) -> Result<(), Failure> {
        let name = applied.metadata.name.as_deref().unwrap_or_default();
        let uid = applied.metadata.uid.as_deref().unwrap_or_default();
        let owner = Terms::new(None, name, uid).owner;
        let mut asked = BTreeSet::new();
        for of in recorded(work, applied) {
            let Some((kind, key)) = place(of) else { continue };
            if !asked.insert((kind.clone(), key.clone())) {
                continue;
            }
            let objects = self.cx.member.manifests(kind);
            let live = match objects.find(&key).await {
                Ok(live) => live,
                Err(refused) if refused.code == 404 => None,
                Err(refused) => return Err(refused.error.into()),
            };
            let Some(freed) = live.and_then(|live| apply::release(&live, &owner)) else { continue };
            match objects.update(&key, &freed).await {
                Err(refused) if refused.code != 404 => {
                    let failure = Failure::from(refused.error);
                    return Err(Failure { why: apply::redacted(failure.why, [&freed]), ..failure });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// What becomes of the objects.
fn manner(work: &Work) -> Propagation {
    let notes = work.metadata.annotations.as_ref();
    let abandoned = notes.is_some_and(|notes| notes.contains_key(own::ABANDONED));
    if abandoned { Propagation::Orphan } else { Propagation::Foreground }
}

/// Everything that may be on the member because of the Work.
fn recorded<'a>(
    work: &'a Work,
    applied: &'a AppliedWork,
) -> impl Iterator<Item = &'a WorkResourceIdentifier> {
    let told = work.status.iter().flat_map(|status| &status.manifest_conditions);
    let owned = applied.status.iter().flat_map(|status| &status.applied_resources);
    told.map(|entry| &entry.identifier).chain(owned.map(|entry| &entry.identifier))
}
