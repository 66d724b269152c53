//! The ReplicaSets of one Deployment: which is new, what they ask for, how one is made.
//!
//! A set is changed in memory while a plan is made and written once at its end: only what
//! has changed, on the version that was looked at.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::budget::Budget;
use super::facts::{Failure, HASH, SetFacts, fingerprint};
use crate::hash;
use crate::object::{Fields, Labels, controller_ref, set};
use crate::plan::Action;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";

/// Annotations that belong to the deployment alone.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];

/// One ReplicaSet while a plan is made.
#[derive(Debug, Clone)]
pub(super) struct Set {
    pub seen: Arc<SetFacts>,
    size: i64,
    delay: i64,
    /// Annotations that it gets, or that get another value.
    notes: Labels,
}

impl Set {
    pub fn new(seen: Arc<SetFacts>) -> Self {
        Self { size: seen.size, delay: seen.delay, notes: Labels::new(), seen }
    }
    pub fn name(&self) -> &str {
        &self.seen.target.name
    }
    pub fn size(&self) -> i64 {
        self.size
    }
    pub fn actual(&self) -> i64 {
        self.seen.actual
    }
    pub fn ready(&self) -> i64 {
        self.seen.ready
    }
    pub fn available(&self) -> i64 {
        self.seen.available
    }
    pub fn failure(&self) -> Option<&Failure> {
        self.seen.failure.as_ref()
    }
    pub fn revision(&self) -> i64 {
        self.number(REVISION).unwrap_or(0)
    }
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.notes.get(key).or_else(|| self.seen.annotations.get(key)).map(String::as_str)
    }
    pub fn number(&self, annotation: &str) -> Option<i64> {
        self.annotation(annotation)?.parse().ok()
    }
    pub fn created(&self) -> Option<Timestamp> {
        self.seen.created
    }
    /// Whether nothing of it is left and nothing of it is coming.
    pub fn is_spent(&self) -> bool {
        self.actual() == 0 && self.size() == 0 && self.seen.generation <= self.seen.observed
    }

    /// Sets the size and notes what it was computed for.
    pub fn resize(&mut self, size: i64, budget: Budget) {
        self.size = size;
        self.note_all(sized_for(budget));
    }

    /// Takes over the deployment's annotations, revision and readiness delay.
    pub fn follow(&mut self, deployment: &Value, revision: i64, budget: Budget) {
        self.note_all(inherited(deployment));
        let old = self.number(REVISION);
        if old.is_none_or(|old| old < revision) {
            self.note(REVISION, revision.to_string());
            if let Some(old) = old {
                let before = self.annotation(HISTORY).unwrap_or("");
                let history =
                    if before.is_empty() { old.to_string() } else { format!("{before},{old}") };
                self.note(HISTORY, history);
            }
        }
        if self.number(DESIRED).is_none() {
            self.note_all(sized_for(budget));
        }
        self.delay = readiness_delay(deployment);
    }

    /// The write that makes the change lasting, if there is one.
    pub fn write(&self) -> Option<Action> {
        let mut patch = json!({});
        if !self.notes.is_empty() {
            set(&mut patch, &["metadata", "annotations"], json!(self.notes));
        }
        for (field, now, before) in [
            ("replicas", self.size, self.seen.size),
            ("minReadySeconds", self.delay, self.seen.delay),
        ] {
            if now != before {
                set(&mut patch, &["spec", field], json!(now));
            }
        }
        let (target, version) = (&self.seen.target, &self.seen.version);
        (patch != json!({})).then(|| Action::Merge {
            target: target.clone(),
            version: version.clone(),
            patch,
        })
    }

    fn note_all(&mut self, notes: Labels) {
        notes.into_iter().for_each(|(key, value)| self.note(&key, value));
    }

    fn note(&mut self, key: &str, value: String) {
        if self.seen.annotations.get(key) == Some(&value) {
            self.notes.remove(key);
        } else {
            self.notes.insert(key.to_owned(), value);
        }
    }
}

/// What a set of any size says about the deployment it was sized for.
fn sized_for(budget: Budget) -> Labels {
    let notes = [(DESIRED, budget.desired), (MAX, budget.ceiling())];
    notes.into_iter().map(|(key, number)| (key.to_owned(), number.to_string())).collect()
}

/// Annotations of the deployment that its sets bear too.
fn inherited(deployment: &Value) -> Labels {
    let mut all = deployment.strings("/metadata/annotations");
    all.retain(|key, _| !NOT_COPIED.contains(&key.as_str()));
    all
}

fn readiness_delay(deployment: &Value) -> i64 {
    deployment.int("/spec/minReadySeconds").unwrap_or(0)
}

/// The set made from the deployment's template, and the others, oldest first.
pub(super) fn split(deployment: &Value, mut sets: Vec<Set>) -> (Option<Set>, Vec<Set>) {
    sets.sort_by(|a, b| (a.created(), a.name()).cmp(&(b.created(), b.name())));
    let wanted = fingerprint(deployment.at("/spec/template"));
    let new = sets.iter().position(|s| s.seen.template == wanted).map(|at| sets.remove(at));
    (new, sets)
}

/// A ReplicaSet for the deployment's present template.
pub(super) fn make(deployment: &Value, revision: i64, size: i64, budget: Budget) -> Value {
    let collisions = deployment.int("/status/collisionCount");
    let hash = hash::of_template(deployment.at("/spec/template"), collisions);
    let mut template = deployment.at("/spec/template").clone();
    set(&mut template, &["metadata", "labels", HASH], json!(hash));
    let mut selector = deployment.at("/spec/selector").clone();
    set(&mut selector, &["matchLabels", HASH], json!(hash));
    let mut annotations = inherited(deployment);
    annotations.insert(REVISION.to_owned(), revision.to_string());
    annotations.append(&mut sized_for(budget));
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", deployment.name()),
            "namespace": deployment.namespace(),
            "labels": template.at("/metadata/labels").clone(),
            "annotations": annotations,
            "ownerReferences": [controller_ref(deployment)],
        },
        "spec": {"replicas": size, "selector": selector, "template": template},
    });
    let delay = readiness_delay(deployment);
    if delay != 0 {
        set(&mut object, &["spec", "minReadySeconds"], json!(delay));
    }
    object
}

/// Old sets beyond the history limit that can go, oldest revision first.
pub(super) fn beyond_history(old: &[Set], limit: i64) -> Vec<&Set> {
    let mut kept: Vec<&Set> = old.iter().filter(|s| !s.seen.deleting).collect();
    kept.sort_by_key(|s| (s.revision(), s.created()));
    let surplus = usize::try_from(kept.len() as i64 - limit.max(0)).unwrap_or(0);
    kept.into_iter().take(surplus).filter(|s| s.is_spent()).collect()
}

/// The order of proportional scaling: larger first, then newer when growing and
/// older when shrinking.
pub(super) fn largest_first(sets: &mut [&mut Set], growing: bool) {
    sets.sort_by(|a, b| {
        let age = if growing {
            (Reverse(a.created()), Reverse(a.name()))
                .cmp(&(Reverse(b.created()), Reverse(b.name())))
        } else {
            (a.created(), a.name()).cmp(&(b.created(), b.name()))
        };
        b.size().cmp(&a.size()).then(age)
    });
}
