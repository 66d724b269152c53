//! Whether the member takes part in the fleet. Works are touched only while it does.

use std::sync::Arc;

use tokio::sync::{RwLock, RwLockReadGuard, watch};

/// Begins with joining, ends with leaving. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Participation(Arc<Shared>);

struct Shared {
    on: watch::Sender<bool>,
    /// Held for reading while a Work is claimed, so that leaving can wait for that.
    claims: RwLock<()>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { on: watch::Sender::new(false), claims: RwLock::new(()) }
    }
}

impl Participation {
    pub fn begin(&self) {
        self.0.on.send_replace(true);
    }

    /// Ends it. When this returns, no Work is being claimed any more.
    pub async fn end(&self) {
        self.0.on.send_replace(false);
        drop(self.0.claims.write().await);
    }

    pub fn is_on(&self) -> bool {
        *self.0.on.borrow()
    }

    /// Leave to claim a Work, as long as the guard is held; `None` while it is off.
    pub async fn claim(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let guard = self.0.claims.read().await;
        self.is_on().then_some(guard)
    }

    /// Tells of every beginning and end.
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.0.on.subscribe()
    }
}
