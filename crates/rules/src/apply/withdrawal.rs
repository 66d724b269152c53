//! What happens on the member when a Work is deleted.
//!
//! Objects go with the AppliedWork that owns them, by the member's own garbage collector:
//! what is ours alone is deleted, what has other owners only loses our reference. The Work
//! stays until the AppliedWork is gone, so that the hub knows when that is. A Work that is
//! marked as abandoned leaves everything where it is: the objects only lose their owner.

use flagship_api::keys::{finalizer, own};
use flagship_api::work::{AppliedWork, Work};
use jiff::{SignedDuration, Timestamp};

/// The end of an AppliedWork wakes the agent; this is for an end that nobody told it of.
pub const WITHDRAWAL_CHECK: SignedDuration = SignedDuration::from_secs(30);

/// The next step in withdrawing a Work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Withdrawal {
    /// Nothing: our finalizer is not on it.
    NotOurs,
    /// Take our finalizer off: nothing of it is left.
    Release,
    /// Delete the AppliedWork.
    Delete {
        /// Its objects stay where they are.
        orphan: bool,
    },
    /// Look again after this span: the AppliedWork is on its way out.
    Wait(SignedDuration),
    /// The AppliedWork has been on its way out for too long: take our owner reference off
    /// the objects that hold it up.
    Unblock,
}

/// Decides the next step for a Work that is being deleted.
pub fn withdrawal(
    work: &Work,
    applied: Option<&AppliedWork>,
    patience: SignedDuration,
    now: Timestamp,
) -> Withdrawal {
    let finalizers = work.metadata.finalizers.as_deref().unwrap_or_default();
    if !finalizers.iter().any(|one| one == finalizer::WORK) {
        return Withdrawal::NotOurs;
    }
    let Some(applied) = applied else { return Withdrawal::Release };
    let Some(deleted) = &applied.metadata.deletion_timestamp else {
        let notes = work.metadata.annotations.as_ref();
        let orphan = notes.is_some_and(|notes| notes.contains_key(own::ABANDONED));
        return Withdrawal::Delete { orphan };
    };
    let waited = now.duration_since(deleted.0);
    if waited >= patience {
        return Withdrawal::Unblock;
    }
    let left = (patience - waited).min(WITHDRAWAL_CHECK);
    Withdrawal::Wait(left.max(SignedDuration::from_secs(1)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_deleted_work_goes_step_by_step() {
        let work = |metadata: Value| -> Work {
            serde_json::from_value(json!({"metadata": metadata})).unwrap()
        };
        let ours = work(json!({"finalizers": [finalizer::WORK]}));
        let abandoned =
            work(json!({"finalizers": [finalizer::WORK], "annotations": {own::ABANDONED: ""}}));
        let spec = json!({"workName": "w", "workNamespace": "fleet-member-m"});
        let applied = |metadata: Value| -> AppliedWork {
            serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
        };
        let there = applied(json!({}));
        let going = applied(json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        let next = |work: &Work, applied: Option<&AppliedWork>, second: i64| {
            let begun: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
            let now = begun + SignedDuration::from_secs(second);
            withdrawal(work, applied, SignedDuration::from_secs(60), now)
        };
        let wait = |seconds| Withdrawal::Wait(SignedDuration::from_secs(seconds));
        assert_eq!(next(&work(json!({})), Some(&there), 0), Withdrawal::NotOurs);
        assert_eq!(next(&ours, None, 0), Withdrawal::Release);
        assert_eq!(next(&ours, Some(&there), 0), Withdrawal::Delete { orphan: false });
        assert_eq!(next(&abandoned, Some(&there), 0), Withdrawal::Delete { orphan: true });
        assert_eq!(next(&ours, Some(&going), 0), wait(30));
        assert_eq!(next(&ours, Some(&going), 50), wait(10));
        assert_eq!(next(&ours, Some(&going), 60), Withdrawal::Unblock);
    }
}
