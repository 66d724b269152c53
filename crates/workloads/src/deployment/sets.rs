//! The ReplicaSets of one Deployment: which is new, what they ask for, how one is made.
//!
//! A set is changed in memory while a plan is made and written once at its end.

use std::cmp::Reverse;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::budget::Budget;
use crate::hash;
use crate::object::{Fields, controller_ref, means_the_same, set, unset};

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The label that keeps sets of one deployment apart.
pub const HASH: &str = "pod-template-hash";

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
    seen: Value,
    pub now: Value,
}

impl Set {
    pub fn new(object: Value) -> Self {
        Self { now: object.clone(), seen: object }
    }
    pub fn name(&self) -> &str {
        self.now.name()
    }
    pub fn size(&self) -> i64 {
        self.now.int("/spec/replicas").unwrap_or(1)
    }
    pub fn actual(&self) -> i64 {
        self.now.int("/status/replicas").unwrap_or(0)
    }
    pub fn ready(&self) -> i64 {
        self.now.int("/status/readyReplicas").unwrap_or(0)
    }
    pub fn available(&self) -> i64 {
        self.now.int("/status/availableReplicas").unwrap_or(0)
    }
    pub fn revision(&self) -> i64 {
        self.number(REVISION).unwrap_or(0)
    }
    pub fn number(&self, annotation: &str) -> Option<i64> {
        self.now.annotation(annotation)?.parse().ok()
    }
    pub fn created(&self) -> Option<Timestamp> {
        self.now.created()
    }
    /// Whether nothing of it is left and nothing of it is coming.
    pub fn is_spent(&self) -> bool {
        let observed = self.now.int("/status/observedGeneration").unwrap_or(0);
        self.actual() == 0 && self.size() == 0 && self.now.generation() <= observed
    }
    pub fn is_changed(&self) -> bool {
        self.now != self.seen
    }

    /// Sets the size and notes what it was computed for.
    pub fn resize(&mut self, size: i64, budget: Budget) {
        set(&mut self.now, &["spec", "replicas"], json!(size));
        self.note_budget(budget);
    }

    pub fn note_budget(&mut self, budget: Budget) {
        for (key, number) in [(DESIRED, budget.desired), (MAX, budget.ceiling())] {
            set(&mut self.now, &["metadata", "annotations", key], json!(number.to_string()));
        }
    }

    /// Takes over the deployment's annotations, revision and readiness delay.
    pub fn follow(&mut self, deployment: &Value, revision: i64, budget: Budget) {
        for (key, value) in deployment.strings("/metadata/annotations") {
            if !NOT_COPIED.contains(&key.as_str()) {
                set(&mut self.now, &["metadata", "annotations", &key], json!(value));
            }
        }
        let old = self.number(REVISION);
        if old.is_none_or(|old| old < revision) {
            set(&mut self.now, &["metadata", "annotations", REVISION], json!(revision.to_string()));
            if let Some(old) = old {
                let before = self.now.annotation(HISTORY).unwrap_or("");
                let history =
                    if before.is_empty() { old.to_string() } else { format!("{before},{old}") };
                set(&mut self.now, &["metadata", "annotations", HISTORY], json!(history));
            }
        }
        if self.number(DESIRED).is_none() {
            self.note_budget(budget);
        }
        let delay = deployment.int("/spec/minReadySeconds").unwrap_or(0);
        if self.now.int("/spec/minReadySeconds").unwrap_or(0) != delay {
            set(&mut self.now, &["spec", "minReadySeconds"], json!(delay));
        }
    }
}

/// The set made from the deployment's template, and the others, oldest first.
pub(super) fn split(deployment: &Value, mut sets: Vec<Set>) -> (Option<Set>, Vec<Set>) {
    sets.sort_by(|a, b| (a.created(), a.name()).cmp(&(b.created(), b.name())));
    let same =
        |s: &Set| is_same_template(deployment.at("/spec/template"), s.now.at("/spec/template"));
    let new = sets.iter().position(same).map(|at| sets.remove(at));
    (new, sets)
}

/// Equal but for the label that the controller itself adds.
fn is_same_template(wanted: &Value, found: &Value) -> bool {
    let bare = |template: &Value| {
        let mut template = template.clone();
        unset(&mut template, &["metadata", "labels", HASH]);
        unset(&mut template, &["metadata", "creationTimestamp"]);
        template
    };
    means_the_same(&bare(wanted), &bare(found))
}

/// A ReplicaSet for the deployment's present template, of size zero.
pub(super) fn make(deployment: &Value, revision: i64, budget: Budget) -> Set {
    let collisions = deployment.int("/status/collisionCount");
    let hash = hash::of_template(deployment.at("/spec/template"), collisions);
    let mut template = deployment.at("/spec/template").clone();
    set(&mut template, &["metadata", "labels", HASH], json!(hash));
    let mut selector = deployment.at("/spec/selector").clone();
    set(&mut selector, &["matchLabels", HASH], json!(hash));
    let object = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", deployment.name()),
            "namespace": deployment.namespace(),
            "labels": template.at("/metadata/labels").clone(),
            "ownerReferences": [controller_ref(deployment)],
        },
        "spec": {"replicas": 0, "selector": selector, "template": template},
    });
    let mut fresh = Set::new(object);
    fresh.follow(deployment, revision, budget);
    fresh.note_budget(budget);
    fresh
}

/// Old sets beyond the history limit that can go, oldest revision first.
pub(super) fn beyond_history(old: &[Set], limit: i64) -> Vec<&Set> {
    let mut kept: Vec<&Set> = old.iter().filter(|s| !s.now.is_deleting()).collect();
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
