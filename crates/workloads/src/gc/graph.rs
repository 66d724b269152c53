//! Who owns whom in one cluster, kept up to date object by object.
//!
//! Holds what garbage collection asks about an object and nothing else, for
//! every object of every resource, custom ones included.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::object::Fields;

/// An object's UID.
pub type Uid = Arc<str>;

/// One object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Plural and group.
    pub resource: Arc<str>,
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Uid,
    /// Its owners, in the order it names them.
    pub owners: Box<[Owner]>,
    /// Whether deletion was asked for.
    pub deleting: bool,
    /// Its finalizers.
    pub finalizers: Box<[Box<str>]>,
}

/// An owner as its dependent names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Owner {
    /// Group and version.
    pub api_version: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// UID: another object of the same name is not meant.
    pub uid: Uid,
    /// Whether it is the controller.
    pub controller: bool,
    /// Whether the owner may not go before the dependent, in foreground deletion.
    pub blocks: bool,
}

/// Finalizer of foreground deletion.
pub const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of orphaning deletion.
pub const ORPHAN: &str = "orphan";

impl Node {
    /// Reads an object's metadata.
    pub fn of(resource: &Arc<str>, object: &Value) -> Self {
        let owner = |o: &Value| Owner {
            api_version: o.text("/apiVersion").into(),
            kind: o.text("/kind").into(),
            name: o.text("/name").into(),
            uid: o.text("/uid").into(),
            controller: o.is_true("/controller"),
            blocks: o.is_true("/blockOwnerDeletion"),
        };
        let finalizers = object.list("/metadata/finalizers").iter();
        Self {
            resource: Arc::clone(resource),
            namespace: object.namespace().into(),
            name: object.name().into(),
            uid: object.uid().into(),
            owners: object.list("/metadata/ownerReferences").iter().map(owner).collect(),
            deleting: object.is_deleting(),
            finalizers: finalizers.filter_map(|f| f.as_str().map(Into::into)).collect(),
        }
    }

    fn is_held_by(&self, finalizer: &str) -> bool {
        self.deleting && self.finalizers.iter().any(|f| &**f == finalizer)
    }

    /// Going, but its dependents go first.
    pub fn waits_for_dependents(&self) -> bool {
        self.is_held_by(FOREGROUND)
    }

    /// Going, and its dependents stay.
    pub fn orphans_dependents(&self) -> bool {
        self.is_held_by(ORPHAN)
    }
}

/// All objects of a cluster by UID, and the way from owners to dependents.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: BTreeMap<Uid, Node>,
    dependents: BTreeMap<Uid, BTreeSet<Uid>>,
}

impl Graph {
    /// The object with a UID.
    pub fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// The objects that name `uid` as an owner.
    pub fn dependents<'a>(&'a self, uid: &str) -> impl Iterator<Item = &'a Node> + use<'a> {
        let uids = self.dependents.get(uid).into_iter().flatten();
        uids.filter_map(|uid| self.nodes.get(uid))
    }

    /// Whether anything names `uid` as an owner.
    pub fn has_dependents(&self, uid: &str) -> bool {
        self.dependents.get(uid).is_some_and(|set| !set.is_empty())
    }

    /// Takes in an object as it is now. Returns the objects to look at because of it.
    pub fn put(&mut self, node: Node) -> BTreeSet<Uid> {
        let mut check = BTreeSet::new();
        let uid = Arc::clone(&node.uid);
        let old = self.nodes.get(&uid);
        if old == Some(&node) {
            return check;
        }
        if !node.owners.is_empty() || node.deleting {
            check.insert(Arc::clone(&uid));
        }
        let began = node.waits_for_dependents() && !old.is_some_and(Node::waits_for_dependents);
        if began {
            check.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
        }
        let before: Vec<Uid> =
            old.into_iter().flat_map(|o| o.owners.iter().map(|w| Arc::clone(&w.uid))).collect();
        for owner in before {
            self.unlink(&owner, &uid);
            self.note_waiting(&owner, &mut check);
        }
        for owner in &node.owners {
            self.dependents.entry(Arc::clone(&owner.uid)).or_default().insert(Arc::clone(&uid));
            self.note_waiting(&owner.uid, &mut check);
        }
        self.nodes.insert(uid, node);
        check
    }

    /// Forgets an object. Returns the objects to look at because of it.
    pub fn remove(&mut self, uid: &str) -> BTreeSet<Uid> {
        let mut check = BTreeSet::new();
        if let Some(node) = self.nodes.remove(uid) {
            for owner in &node.owners {
                self.unlink(&owner.uid, uid);
                self.note_waiting(&owner.uid, &mut check);
            }
        }
        check.extend(self.dependents.get(uid).into_iter().flatten().cloned());
        check
    }

    /// Every UID, in order.
    pub fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.nodes.keys()
    }

    fn note_waiting(&self, owner: &Uid, check: &mut BTreeSet<Uid>) {
        if self.nodes.get(owner).is_some_and(Node::waits_for_dependents) {
            check.insert(Arc::clone(owner));
        }
    }

    fn unlink(&mut self, owner: &str, dependent: &str) {
        if let Some(set) = self.dependents.get_mut(owner) {
            set.remove(dependent);
            if set.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }
}
