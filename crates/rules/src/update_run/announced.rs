//! Writes to bindings that a run makes later than its record promised them: said first, in
//! an annotation of the run.
//!
//! A promise is recorded and kept in one pass. If the scheduler rewrites the binding
//! afterwards, or another run has written it, a later pass has to write again, and by then
//! another hub may have called the cluster finished and the run stopped. So that pass first
//! writes to the run over which generation of the binding it will write. This is refused if
//! the run has changed since it was read, and from then on nobody calls the cluster finished
//! by an older look at its binding. Nobody can have done so before the first start signal,
//! so what a crash left open before it is done without.

use std::collections::BTreeMap;

use flagship_api::keys::own;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::model::Binding;

/// Generations that are written over, by UID of the binding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announced(BTreeMap<String, i64>);

/// As it is stored. A copy of a run has another UID, and has announced nothing.
#[derive(Serialize, Deserialize)]
struct Stored {
    run: String,
    bindings: BTreeMap<String, i64>,
}

impl Announced {
    /// What a run has announced; nothing if that cannot be read, which is then said again.
    pub fn by(run: &ObjectMeta) -> Self {
        let text = run.annotations.as_ref().and_then(|notes| notes.get(own::ANNOUNCED_WRITES));
        let stored: Option<Stored> = text.and_then(|text| serde_json::from_str(text).ok());
        let own = stored.filter(|stored| Some(&stored.run) == run.uid.as_ref());
        own.map_or_else(Self::default, |stored| Self(stored.bindings))
    }

    /// The value of the annotation.
    pub fn to_text(&self, run: &str) -> String {
        let stored = Stored { run: run.to_owned(), bindings: self.0.clone() };
        serde_json::to_string(&stored).expect("strings and numbers make JSON")
    }

    /// Whether a later generation was met before: this look at the binding is an old one.
    pub fn is_ahead_of(&self, binding: &Binding) -> bool {
        self.0.get(&binding.uid).is_some_and(|generation| *generation > binding.generation)
    }

    /// Announces a write over this generation.
    pub fn add(&mut self, binding: &Binding) {
        self.0.insert(binding.uid.clone(), binding.generation);
    }
}
