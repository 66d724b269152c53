//! Custom kinds compiled once and shared between clusters.
//!
//! Keyed by the hash of a definition's `spec`. Entries do not keep kinds alive: when
//! the last cluster drops a definition, its schema goes too.
//!
//! What a whole store full of definitions came to is kept as well: clusters of one fleet
//! begin with the same ones, and reading them is most of what adding a cluster costs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use flagship_base::machinery::status::FieldError;
use flagship_store::{Stored, without_revision};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Kind, definition};

/// Stands for what was hashed.
pub type Hash = [u8; 32];

/// Compiled kinds by content.
#[derive(Debug, Default)]
pub struct Library {
    kinds: Mutex<BTreeMap<Hash, Weak<Kind>>>,
    sets: Mutex<BTreeMap<Hash, Vec<Weak<Kind>>>>,
    compilations: AtomicU64,
}

impl Library {
    /// The kind of a CustomResourceDefinition, compiled if no cluster has it yet.
    pub fn kind(&self, crd: &Value) -> Result<Arc<Kind>, Vec<FieldError>> {
        let spec = crd["spec"].to_string();
        let hash: Hash = Sha256::digest(spec.as_bytes()).into();
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

    /// What the definitions of a store have in common with every store that holds the same:
    /// their texts, but for the revisions that wrote them.
    pub fn hash_of(definitions: &[Arc<Stored>]) -> Hash {
        let mut hash = Sha256::new();
        for stored in definitions {
            for part in without_revision(&stored.json) {
                hash.update(part);
            }
        }
        hash.finalize().into()
    }

    /// The kinds that a store with these definitions serves, if that is known and all of
    /// them are still in use.
    pub fn set(&self, hash: &Hash) -> Option<Vec<Arc<Kind>>> {
        let sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.get(hash)?.iter().map(Weak::upgrade).collect()
    }

    /// Remembers which kinds a store with these definitions serves.
    pub fn keep_set(&self, hash: Hash, kinds: &[Arc<Kind>]) {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.retain(|_, kinds| kinds.iter().all(|kind| kind.strong_count() > 0));
        sets.insert(hash, kinds.iter().map(Arc::downgrade).collect());
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

#[cfg(test)]
mod tests {
    use flagship_store::env::Env;
    use flagship_store::{Change, Encoded, Expect, Head, Limits, ObjectKey, Scope, Store, Write};
    use serde_json::json;

    use super::*;

    fn gadgets() -> Value {
        json!({"metadata": {"name": "gadgets.example.com"}, "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        }})
    }

    /// What a store lists that wrote a definition after `before` other objects.
    fn stored(before: usize, definition: &Value) -> Vec<Arc<Stored>> {
        let store = Store::new(Env::simulated(1), Limits::default());
        let write = |resource: &str, name: &str, object: &Value| {
            let change = Change::Put {
                head: Head::of(object, Default::default()),
                json: Encoded::new(object),
            };
            let (resource, key) = (resource.into(), ObjectKey::new("", name));
            let write = Write { resource: &resource, key, expect: Expect::Absent, change };
            store.commit(write).expect("nothing is in the way");
        };
        for number in 0..before {
            write("others", &number.to_string(), &json!({}));
        }
        write("definitions", "gadgets.example.com", definition);
        store.list("definitions", Scope::All).items
    }

    #[test]
    fn stores_with_the_same_definitions_have_the_same_hash_whatever_their_revisions() {
        let definition = gadgets();
        let first = Library::hash_of(&stored(0, &definition));
        assert_eq!(first, Library::hash_of(&stored(12, &definition)));
        let mut other = definition;
        other["spec"]["versions"][0]["served"] = json!(false);
        assert_ne!(first, Library::hash_of(&stored(0, &other)));
    }

    #[test]
    fn a_set_is_known_as_long_as_its_kinds_are_in_use() {
        let library = Library::default();
        let hash = Library::hash_of(&stored(0, &gadgets()));
        let kind = library.kind(&gadgets()).expect("it is valid");
        library.keep_set(hash, std::slice::from_ref(&kind));
        let known = library.set(&hash).expect("its kind is in use");
        assert!(Arc::ptr_eq(&known[0], &kind));
        drop((known, kind));
        assert!(library.set(&hash).is_none());
    }
}
