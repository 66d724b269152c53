//! Objects that were read when they came in, for the controllers that look at them next.
//!
//! Every change is read once to be indexed, and most are looked at right after that. What
//! is here is handed on instead of being read again, and forgotten when nothing is left to
//! do: a cluster at rest keeps no object as JSON.

use std::collections::BTreeMap;

use flagship_store::Stored;
use serde_json::Value;

use crate::object::Fields;

/// More would cost more memory than reading them again costs time.
const MOST: usize = 64;

/// Whole objects by revision, which no two versions of objects share.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    objects: BTreeMap<u64, Value>,
}

impl Fresh {
    /// Keeps an object. When there are too many, the oldest goes.
    pub fn keep(&mut self, revision: u64, object: Value) {
        self.objects.insert(revision, object);
        if self.objects.len() > MOST {
            self.objects.pop_first();
        }
    }

    /// Hands out the object that is stored so, if it is here.
    pub fn take(&mut self, stored: &Stored) -> Option<Value> {
        self.objects.remove(&stored.revision).filter(|object| object.uid() == &*stored.head.uid)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.objects.clear();
    }
}
