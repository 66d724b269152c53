//! Ends a Work that is deleted, as `flagship_rules::apply::withdrawal` says.

use std::collections::BTreeSet;
use std::time::Duration;

use flagship_api::keys::finalizer;
use flagship_api::names::ObjectKey;
use flagship_api::work::{AppliedWork, Work, WorkResourceIdentifier};
use flagship_rules::apply::{self, ApplyOptions, Withdrawal};
use flagship_runtime::client::{ClientError, Deleted, Precondition, Propagation};
use flagship_runtime::error_action::Failure;
use flagship_runtime::queue::Outcome;
use jiff::SignedDuration;
use serde_json::json;

use super::Shell;
use super::manifests::place;

impl Shell {
    pub(super) async fn withdraw(
        &self,
        key: &ObjectKey,
        work: &Work,
        applied: Option<&AppliedWork>,
    ) -> Result<Outcome, Failure> {
        let patience = SignedDuration::try_from(self.cx.options.deletion_wait).unwrap_or_default();
        match (apply::withdrawal(work, applied, patience, self.cx.env.now()), applied) {
            (Withdrawal::NotOurs, _) => {
                self.forget(key);
                Ok(Outcome::Done)
            }
            (Withdrawal::Release, _) | (_, None) => self.release(key, work).await,
            (Withdrawal::Delete { orphan }, Some(applied)) => {
                let look_again = Ok(Outcome::After(span(apply::WITHDRAWAL_CHECK)));
                let Some(precondition) = Precondition::of(applied) else { return look_again };
                let manner = if orphan { Propagation::Orphan } else { Propagation::Foreground };
                match self.member(key).delete::<AppliedWork>(&precondition, manner).await? {
                    Deleted::Gone => self.release(key, work).await,
                    Deleted::Terminating { .. } => look_again,
                }
            }
            (Withdrawal::Wait(left), Some(_)) => Ok(Outcome::After(span(left))),
            (Withdrawal::Unblock, Some(applied)) => {
                self.unblock(work, applied).await?;
                Ok(Outcome::After(span(apply::WITHDRAWAL_CHECK)))
            }
        }
    }

    /// Lets the Work go.
    async fn release(&self, key: &ObjectKey, work: &Work) -> Result<Outcome, Failure> {
        self.forget(key);
        let all = work.metadata.finalizers.as_deref().unwrap_or_default();
        let rest: Vec<&String> = all.iter().filter(|one| *one != finalizer::WORK).collect();
        let Some(precondition) = Precondition::of(work) else { return Ok(Outcome::Done) };
        let patch = json!({"metadata": {"finalizers": rest}});
        match self.hub(key).patch::<Work>(&precondition, patch).await {
            Ok(_) | Err(ClientError::NotFound { .. }) => Ok(Outcome::Done),
            Err(error) => Err(error.into()),
        }
    }

    /// An object with other owners may keep the AppliedWork from going, for instance while
    /// another owner is missing. It need not wait for ours.
    async fn unblock(&self, work: &Work, applied: &AppliedWork) -> Result<(), Failure> {
        let name = applied.metadata.name.as_deref().unwrap_or_default();
        let uid = applied.metadata.uid.as_deref().unwrap_or_default();
        let owner = ApplyOptions::new(None, name, uid).owner;
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

fn span(span: SignedDuration) -> Duration {
    Duration::try_from(span).unwrap_or_default()
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
