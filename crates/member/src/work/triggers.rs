//! Which change makes which Work worth a look, and how soon.
//!
//! What we report about a Work ourselves wakes nobody. Objects on the member are watched in
//! [`crate::watching`].

use std::sync::Arc;

use flagship_api::names::ObjectKey;
use flagship_api::work::{AppliedWork, Work};
use flagship_rules::apply::{Trigger, priority};
use flagship_runtime::queue::Priority;
use flagship_runtime::reflector::{Change, Subscription};

use super::shell::Shell;

/// Fills the queue from now on.
pub(super) fn listen(shell: &Arc<Shell>) -> Vec<Subscription> {
    let (one, other) = (Arc::downgrade(shell), Arc::downgrade(shell));
    vec![
        shell.mirrors.works.subscribe(move |change| {
            if let Some(shell) = one.upgrade() {
                shell.work_changed(change);
            }
        }),
        shell.mirrors.applied.subscribe(move |change| {
            if let Some(shell) = other.upgrade() {
                shell.applied_work_changed(change);
            }
        }),
    ]
}

/// Looks at every Work when the member joins, and again when it comes back.
pub(super) async fn follow_gate(shell: Arc<Shell>) {
    let mut changes = shell.cx.participation.changes();
    // It lives in the shell, so the channel cannot be closed.
    while changes.changed().await.is_ok() {
        if shell.cx.participation.is_on() {
            for (key, _) in shell.mirrors.works.all() {
                shell.queue.add((*key).clone());
            }
        }
    }
}

impl Shell {
    fn work_changed(&self, change: &Change<Work>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if old.map(asked) == new.map(asked) {
            return;
        }
        let trigger = match (old, new) {
            (_, None) => Trigger::Deleted,
            (_, Some(new)) if new.metadata.deletion_timestamp.is_some() => Trigger::Deleted,
            (None, Some(_)) => Trigger::Created,
            (Some(old), Some(_)) => Trigger::Updated { old },
        };
        self.queue.add_with((*change.key).clone(), self.priority(trigger));
    }

    fn priority(&self, trigger: Trigger<'_>) -> Priority {
        let Some(ageing) = self.cx.options.priorities else { return Priority::Normal };
        match priority(trigger, ageing, self.cx.env.now()) {
            50.. => Priority::High,
            0..50 => Priority::Normal,
            _ => Priority::Low,
        }
    }

    /// An AppliedWork that goes takes its objects along: to be waited for if the Work goes
    /// too, and to be made good if it does not.
    fn applied_work_changed(&self, change: &Change<AppliedWork>) {
        let state = |one: &AppliedWork| {
            (one.metadata.uid.clone(), one.metadata.deletion_timestamp.is_some())
        };
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if old.is_some() && old.map(state) != new.map(state) {
            self.queue.add(ObjectKey::namespaced(&self.cx.space, &change.key.name));
        }
    }
}

/// What is asked of us.
fn asked(work: &Work) -> (Option<&String>, Option<i64>, bool) {
    let meta = &work.metadata;
    (meta.uid.as_ref(), meta.generation, meta.deletion_timestamp.is_some())
}
