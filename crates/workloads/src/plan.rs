//! The answer of every controller: what to do, why nothing more, when to look again.
//!
//! Actions are small, idempotent and ordered. The shell stops at the first
//! refusal and starts over from a fresh look; it never repairs half a plan.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::object::Fields;

/// What a controller decided about one object.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Plan {
    /// What to do, in this order.
    pub actions: Vec<Action>,
    /// Why nothing more is done, for people.
    pub waiting: Vec<String>,
    /// When to look again even if nothing changes.
    pub wake: Option<Timestamp>,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Action {
    /// Make an object. A taken name is success: children are named by what they are for.
    Create {
        /// Plural and group, as in `pods` or `replicasets.apps`.
        resource: &'static str,
        /// The object; `generateName` is allowed.
        object: Value,
        /// Said once the object exists; `{name}` stands for its name.
        then: Option<Note>,
        /// Said if the server refuses, with its words after the message.
        refused: Option<Note>,
    },
    /// Write the whole object; its `resourceVersion` is the precondition.
    Replace {
        /// Plural and group.
        resource: String,
        /// The object as it shall be.
        object: Value,
    },
    /// Change some fields of an object, if it is still the version that was looked at.
    Merge {
        /// Which object.
        target: Target,
        /// Its `resourceVersion`, the precondition.
        version: String,
        /// The fields as they shall be, as in a JSON merge patch.
        patch: Value,
    },
    /// Write the status of the object; its `resourceVersion` is the precondition.
    ReplaceStatus {
        /// Plural and group.
        resource: &'static str,
        /// The object with the status it shall have.
        object: Value,
    },
    /// Write a namespace's `spec.finalizers` through its own subresource.
    Finalize {
        /// The namespace as it shall be.
        object: Value,
    },
    /// Remove an object, if it is still the one that was looked at.
    Delete {
        /// Which object.
        target: Target,
        /// What happens to its dependents.
        propagation: Propagation,
        /// Seconds the object may take; `None` for its own default.
        grace: Option<i64>,
        /// Said once the deletion is accepted.
        then: Option<Note>,
    },
    /// Put a pod on a node.
    Bind {
        /// The pod.
        target: Target,
        /// Name of the node.
        node: String,
    },
    /// Change one part of an object's metadata, whatever its kind.
    Amend {
        /// Which object.
        target: Target,
        /// What changes.
        amendment: Amendment,
    },
    /// Record an event.
    Say(Note),
}

/// A change of metadata that garbage collection makes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Amendment {
    /// Remove one finalizer.
    DropFinalizer(String),
    /// Remove the owners with these UIDs.
    DropOwners(Vec<String>),
    /// No owner has to wait for this object any more.
    UnblockOwners,
}

/// Names one object and the version it was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    /// Plural and group.
    pub resource: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Another object of the same name is not meant.
    pub uid: String,
}

/// What happens to dependents when their owner goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Propagation {
    /// They follow later.
    Background,
    /// They go first.
    Foreground,
    /// They stay.
    Orphan,
}

/// An event to be recorded about an object.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Note {
    /// `involvedObject`: apiVersion, kind, namespace, name, uid, fieldPath.
    pub about: Value,
    /// Whether it is a `Warning`.
    pub warning: bool,
    /// CamelCase, such as `ScalingReplicaSet`.
    pub reason: &'static str,
    /// One sentence for people.
    pub message: String,
    /// The component that says it, such as `deployment-controller`.
    pub source: &'static str,
    /// The node, for what kubelets say.
    pub host: Option<String>,
}

impl Plan {
    /// Nothing to do.
    pub fn idle() -> Self {
        Self::default()
    }

    /// Nothing to do now, and why.
    pub fn wait(why: impl Into<String>) -> Self {
        Self { waiting: vec![why.into()], ..Self::default() }
    }

    /// Adds an action.
    pub fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Looks again at `moment`, or earlier if that was already asked for.
    pub fn wake_at(&mut self, moment: Timestamp) {
        self.wake = Some(self.wake.map_or(moment, |known| known.min(moment)));
    }

    /// Adds a status write, unless the status is what it was.
    pub fn status(&mut self, resource: &'static str, seen: &Value, status: Value) {
        if !crate::object::means_the_same(seen.at("/status"), &status) {
            let mut object = seen.clone();
            crate::object::set(&mut object, &["status"], status);
            self.act(Action::ReplaceStatus { resource, object });
        }
    }
}

impl Action {
    /// Deletes an object; its dependents follow later.
    pub fn delete(target: Target) -> Self {
        Self::Delete { target, propagation: Propagation::Background, grace: None, then: None }
    }
}

impl Target {
    /// The object itself, as seen.
    pub fn of(resource: impl Into<String>, object: &Value) -> Self {
        Self {
            resource: resource.into(),
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
        }
    }
}

impl Note {
    /// A `Normal` event.
    pub fn normal(
        about: &Value,
        source: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        let about = reference(about);
        Self { about, warning: false, reason, message: message.into(), source, host: None }
    }

    /// A `Warning` event.
    pub fn warning(
        about: &Value,
        source: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { warning: true, ..Self::normal(about, source, reason, message) }
    }

    /// Names the node it was said on.
    #[must_use]
    pub fn on(mut self, host: &str) -> Self {
        self.host = Some(host.to_owned());
        self
    }

    /// Names the container it is about.
    #[must_use]
    pub fn container(mut self, name: &str, init: bool) -> Self {
        let list = if init { "initContainers" } else { "containers" };
        self.about["fieldPath"] = Value::String(format!("spec.{list}{{{name}}}"));
        self
    }
}

/// How an event refers to an object.
fn reference(object: &Value) -> Value {
    let mut about = serde_json::json!({
        "apiVersion": object.text("/apiVersion"), "kind": object.text("/kind"),
        "name": object.name(), "uid": object.uid(),
        "resourceVersion": object.text("/metadata/resourceVersion"),
    });
    if !object.namespace().is_empty() {
        about["namespace"] = Value::String(object.namespace().to_owned());
    }
    about
}
