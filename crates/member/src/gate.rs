//! Whether the member takes part in the fleet. Works are touched only while it does.

use std::sync::Arc;

use tokio::sync::{RwLock, RwLockReadGuard, watch};

/// Opened by joining, closed by leaving. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<Shared>);

struct Shared {
    open: watch::Sender<bool>,
    /// Held for reading while a Work is claimed, so that leaving can wait for that.
    claims: RwLock<()>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { open: watch::Sender::new(false), claims: RwLock::new(()) }
    }
}

impl Gate {
    pub fn open(&self) {
        self.0.open.send_replace(true);
    }

    /// Closes the gate. When this returns, no Work is being claimed any more.
    pub async fn close(&self) {
        self.0.open.send_replace(false);
        drop(self.0.claims.write().await);
    }

    pub fn is_open(&self) -> bool {
        *self.0.open.borrow()
    }

    /// Leave to claim a Work, as long as the guard is held; `None` while closed.
    pub async fn enter(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let guard = self.0.claims.read().await;
        self.is_open().then_some(guard)
    }

    /// Tells of every opening and closing.
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.0.open.subscribe()
    }
}
