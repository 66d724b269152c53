//! Custom kinds compiled once and shared between clusters.
//!
//! Keyed by the hash of a definition's `spec`. Entries do not keep kinds alive: when
//! the last cluster drops a definition, its schema goes too.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use flagship_base::machinery::status::FieldError;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Kind, definition};

/// Compiled kinds by content.
#[derive(Debug, Default)]
pub struct Library {
    kinds: Mutex<BTreeMap<[u8; 32], Weak<Kind>>>,
    compilations: AtomicU64,
}

impl Library {
    /// The kind of a CustomResourceDefinition, compiled if no cluster has it yet.
    pub fn kind(&self, crd: &Value) -> Result<Arc<Kind>, Vec<FieldError>> {
        let spec = crd["spec"].to_string();
        let hash: [u8; 32] = Sha256::digest(spec.as_bytes()).into();
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kind) = kinds.get(&hash).and_then(Weak::upgrade) {
            return Ok(kind);
        }
        self.compilations.fetch_add(1, Ordering::Relaxed);
        let kind = Arc::new(definition::compile(crd)?);
        kinds.retain(|_, kind| kind.strong_count() > 0);
        kinds.insert(hash, Arc::downgrade(&kind));
        Ok(kind)
    }

    /// How often a definition was compiled so far.
    pub fn compilations(&self) -> u64 {
        self.compilations.load(Ordering::Relaxed)
    }

    /// How many kinds are in use.
    pub fn len(&self) -> usize {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.values().filter(|kind| kind.strong_count() > 0).count()
    }

    /// Whether no kind is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
