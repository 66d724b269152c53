//! Garbage collection: objects go when none of their owners is left.
//!
//! Foreground deletion holds the owner until dependents that block it are gone;
//! orphaning cuts dependents loose first. The owner's UID counts, not its name.
//! A ring of owners under foreground deletion is cut by unblocking it.

mod graph;

use std::collections::BTreeSet;

use serde_json::{Value, json};

pub use graph::{FOREGROUND, Graph, Node, ORPHAN, Owner, Uid};

use crate::object::{Fields, drop_finalizer, set, unset};
use crate::plan::{Action, Amendment, Note, Plan, Propagation, Target};

/// Where the owners of a kind live, as far as the cluster serves the kind.
pub trait Kinds {
    /// Whether objects of the kind have a namespace; `None` if nobody knows the kind.
    fn is_namespaced(&self, api_version: &str, kind: &str) -> Option<bool>;
}

/// Decides about one object. `absent` names owners proven missing by a fresh read;
/// the graph alone may be behind.
pub fn plan(graph: &Graph, kinds: &dyn Kinds, uid: &str, absent: &BTreeSet<Uid>) -> Plan {
    let Some(node) = graph.get(uid) else { return Plan::idle() };
    if node.orphans_dependents() {
        return cut_loose(graph, node);
    }
    if node.waits_for_dependents() {
        return wait_for_dependents(graph, node);
    }
    if node.deleting || node.owners.is_empty() {
        return Plan::idle();
    }
    let mut plan = Plan::default();
    let (mut solid, mut waiting, mut gone) = (0, Vec::new(), Vec::new());
    for owner in &node.owners {
        match stand(graph, kinds, node, owner, absent) {
            Stand::Solid => solid += 1,
            Stand::Waiting => waiting.push(owner.uid.to_string()),
            Stand::Absent => gone.push(owner.uid.to_string()),
            Stand::Elsewhere => {
                plan.act(Action::Say(elsewhere(node, owner)));
                gone.push(owner.uid.to_string());
            }
            Stand::Unknown => {
                let why = format!("{} {} cannot be resolved", owner.kind, owner.name);
                return Plan::wait(why);
            }
        }
    }
    if solid > 0 {
        gone.append(&mut waiting);
        if !gone.is_empty() {
            plan.act(amend(node, Amendment::DropOwners(gone)));
        }
        return plan;
    }
    let propagation = if !waiting.is_empty() && graph.has_dependents(uid) {
        // A dependent that is itself waiting closes a ring: nobody could go first.
        if graph.dependents(uid).any(Node::waits_for_dependents)
            && node.owners.iter().any(|o| o.blocks)
        {
            plan.act(amend(node, Amendment::UnblockOwners));
            return plan;
        }
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    plan.act(Action::Delete { target: target(node), propagation, grace: None, then: None });
    plan
}

/// How one owner stands towards its dependent.
enum Stand {
    Solid,
    Waiting,
    Absent,
    Elsewhere,
    Unknown,
}

fn stand(
    graph: &Graph,
    kinds: &dyn Kinds,
    node: &Node,
    owner: &Owner,
    absent: &BTreeSet<Uid>,
) -> Stand {
    match graph.get(&owner.uid) {
        Some(found) if !found.namespace.is_empty() && found.namespace != node.namespace => {
            // A namespaced owner can only own within its namespace.
            if node.namespace.is_empty() { Stand::Unknown } else { Stand::Elsewhere }
        }
        Some(found) if found.waits_for_dependents() => Stand::Waiting,
        Some(_) => Stand::Solid,
        None => match kinds.is_namespaced(&owner.api_version, &owner.kind) {
            None => Stand::Unknown,
            Some(true) if node.namespace.is_empty() => Stand::Unknown,
            Some(_) if absent.contains(&owner.uid) => Stand::Absent,
            Some(_) => Stand::Unknown,
        },
    }
}

fn wait_for_dependents(graph: &Graph, node: &Node) -> Plan {
    let blocks =
        |d: &&Node| d.uid != node.uid && d.owners.iter().any(|o| o.uid == node.uid && o.blocks);
    match graph.dependents(&node.uid).find(blocks) {
        Some(first) => Plan::wait(format!("{} {} goes first", first.resource, first.name)),
        None => {
            let mut plan = Plan::default();
            plan.act(amend(node, Amendment::DropFinalizer(FOREGROUND.into())));
            plan
        }
    }
}

fn cut_loose(graph: &Graph, node: &Node) -> Plan {
    let mut plan = Plan::default();
    for dependent in graph.dependents(&node.uid) {
        plan.act(amend(dependent, Amendment::DropOwners(vec![node.uid.to_string()])));
    }
    plan.act(amend(node, Amendment::DropFinalizer(ORPHAN.into())));
    plan
}

fn target(node: &Node) -> Target {
    Target {
        resource: node.resource.to_string(),
        namespace: node.namespace.to_string(),
        name: node.name.to_string(),
        uid: node.uid.to_string(),
    }
}

fn amend(node: &Node, amendment: Amendment) -> Action {
    Action::Amend { target: target(node), amendment }
}

fn elsewhere(node: &Node, owner: &Owner) -> Note {
    let about = json!({"kind": "", "metadata": {
        "name": &*node.name, "namespace": &*node.namespace, "uid": &*node.uid}});
    let (version, kind, ns) = (&owner.api_version, &owner.kind, &node.namespace);
    let message = format!(
        "ownerRef [{version}/{kind}, namespace: {ns}, name: {}, uid: {}] does not exist in namespace {ns:?}",
        owner.name, owner.uid
    );
    Note::warning(&about, "garbage-collector-controller", "OwnerRefInvalidNamespace", message)
}

/// Carries an amendment out on an object.
pub fn amend_object(object: &mut Value, amendment: &Amendment) {
    match amendment {
        Amendment::DropFinalizer(name) => drop_finalizer(object, name),
        Amendment::DropOwners(uids) => {
            let owners = object.list("/metadata/ownerReferences");
            let is_kept = |o: &&Value| !uids.iter().any(|uid| uid == o.text("/uid"));
            let kept: Vec<Value> = owners.iter().filter(is_kept).cloned().collect();
            if kept.is_empty() {
                unset(object, &["metadata", "ownerReferences"]);
            } else {
                set(object, &["metadata", "ownerReferences"], Value::Array(kept));
            }
        }
        Amendment::UnblockOwners => {
            let owners = object.pointer_mut("/metadata/ownerReferences");
            for owner in owners.and_then(Value::as_array_mut).into_iter().flatten() {
                set(owner, &["blockOwnerDeletion"], json!(false));
            }
        }
    }
}

#[cfg(test)]
mod tests;
