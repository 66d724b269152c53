//! An annotation of the run that announces a late write to a binding before it is made.
//!
//! Usually a run records `Started` for a cluster and writes its binding in the same pass. If
//! the scheduler rewrites the binding afterwards, or another run has written it, a later pass
//! must write again; by then another hub may have recorded the cluster as finished and the
//! run as stopped. So the later pass first announces on the run which generation of the
//! binding it will overwrite. The API server refuses that if the run has changed since it was
//! read. Once it is announced, no hub records the cluster as finished from an older
//! generation of the binding. Before a cluster's first start signal no hub can have done so,
//! and a write that a crash prevented there needs no announcement.

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
