//! Which changes make which placements worth another pass.
//!
//! A pass too many costs little; a pass too few leaves members with old content.

use std::collections::BTreeMap;

use flagship_api::condition::{Conditions, says_the_same};
use flagship_api::condition_type::Placement as Step;
use flagship_api::placement::{ResourceSelectorTerm, SelectionScope};
use flagship_api::placement_status::{FailedResourcePlacement, ResourceIdentifier};
use flagship_api::selector;

use super::observed::Placement;
use super::selection::{Kind, kind_of};
use crate::model::{Binding, PolicySnapshot};

/// How a binding changed, as far as its placement's status cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BindingChange {
    /// Nothing the status shows.
    Nothing,
    /// Only the wording of a condition, or a binding that has nothing to tell yet; worth a
    /// pass, but not more than one a second.
    Wording,
    /// Something the status must show at once.
    Status,
}

/// Compares two versions of one binding.
pub fn binding_change(old: &Binding, new: &Binding) -> BindingChange {
    if new.deleting {
        return binding_gone(old);
    }
    let (was, is) = (&old.status, &new.status);
    let steps = Step::ROLLOUT.map(Step::per_cluster);
    let same_step =
        |kind: &&str| says_the_same(was.conditions.of_type(kind), is.conditions.of_type(kind));
    let same = steps.iter().all(same_step)
        && same_failures(&was.failed_placements, &is.failed_placements)
        && same_set(&was.drifted_placements, &is.drifted_placements, |d| &d.resource)
        && same_set(&was.diffed_placements, &is.diffed_placements, |d| &d.resource);
    if !same {
        return BindingChange::Status;
    }
    let said =
        |conditions: &Vec<_>, kind: &str| conditions.of_type(kind).map(|c| c.message.clone());
    let reworded = |kind: &&str| said(&was.conditions, kind) != said(&is.conditions, kind);
    if steps.iter().any(reworded) { BindingChange::Wording } else { BindingChange::Nothing }
}

/// What a binding that is seen for the first time has to tell: a list may show it after members
/// have answered. One that is silent still counts: after an eviction the scheduler may decide as
/// before, and then nothing else says that there is a new one.
pub fn binding_appeared(new: &Binding) -> BindingChange {
    match (new.deleting, new.status.conditions.is_empty()) {
        (true, _) => BindingChange::Nothing,
        (false, true) => BindingChange::Wording,
        (false, false) => BindingChange::Status,
    }
}

/// What it means that a binding goes: the status counts none that is being deleted.
pub fn binding_gone(old: &Binding) -> BindingChange {
    if old.deleting { BindingChange::Nothing } else { BindingChange::Status }
}

/// Whether a policy that is seen for the first time has been decided on already.
pub fn policy_appeared(new: &PolicySnapshot) -> bool {
    !new.status.conditions.is_empty()
}

/// A failure is the same while its condition says the same, whenever it was said.
fn same_failures(old: &[FailedResourcePlacement], new: &[FailedResourcePlacement]) -> bool {
    let (old, new) = (sorted(old, |f| &f.resource), sorted(new, |f| &f.resource));
    old.len() == new.len()
        && old.iter().zip(&new).all(|(was, is)| {
            was.resource == is.resource && says_the_same(Some(&was.condition), Some(&is.condition))
        })
}

fn same_set<T: PartialEq>(old: &[T], new: &[T], id: fn(&T) -> &ResourceIdentifier) -> bool {
    sorted(old, id) == sorted(new, id)
}

fn sorted<T>(list: &[T], id: fn(&T) -> &ResourceIdentifier) -> Vec<&T> {
    let mut sorted: Vec<&T> = list.iter().collect();
    sorted.sort_by_cached_key(|item| {
        let id = id(item);
        let names = [&id.group, &id.version, &id.kind, &id.namespace, &id.name].map(String::clone);
        let envelope = id.envelope.as_ref();
        (names, envelope.map(|e| (e.namespace.clone(), e.name.clone())))
    });
    sorted
}

/// Whether an update of the placement itself is more than our own writing.
pub fn placement_changed(old_generation: i64, new_generation: i64) -> bool {
    old_generation != new_generation
}

/// Whether the deletion of its mirror concerns this placement.
pub fn misses_mirror(placement: &Placement) -> bool {
    placement.is_mirrored() && !placement.deleting
}

/// An object of the hub that came, changed or went.
#[derive(Debug, Clone, Copy)]
pub struct Changed<'a> {
    /// Its kind.
    pub kind: &'a Kind,
    /// Its namespace; `None` for a cluster-scoped one.
    pub namespace: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
    /// Its labels; `None` if it is gone.
    pub labels: Option<&'a BTreeMap<String, String>>,
    /// Labels of the Namespace object it is in; `None` if that is gone too.
    pub namespace_labels: Option<&'a BTreeMap<String, String>>,
}

/// Whether a placement should look again after such a change.
pub fn concerns(placement: &Placement, changed: &Changed<'_>) -> bool {
    let mut terms = placement.spec.resource_selectors.iter();
    match (placement.namespace.as_deref(), changed.namespace) {
        // Cluster-scoped placements reach into namespaces through the Namespace object.
        (None, Some(namespace)) => changed.namespace_labels.is_some_and(|labels| {
            is_listed(placement, changed)
                || terms.any(|term| {
                    kind_of(term).is_namespace()
                        && term.selection_scope != Some(SelectionScope::NamespaceOnly)
                        && means(term, namespace, labels)
                })
        }),
        (own, namespace) if own == namespace => {
            let selects = |labels| {
                terms
                    .any(|term| kind_of(term) == *changed.kind && means(term, changed.name, labels))
            };
            is_listed(placement, changed) || changed.labels.is_some_and(selects)
        }
        _ => false,
    }
}

/// Whether a placement waits for a kind that has just become visible.
pub fn waits_for_kind(placement: &Placement, kind: &Kind) -> bool {
    placement.spec.resource_selectors.iter().any(|term| kind_of(term) == *kind)
}

fn is_listed(placement: &Placement, changed: &Changed<'_>) -> bool {
    let Kind { group, version, kind } = changed.kind;
    placement.status.selected_resources.iter().any(|listed| {
        listed.name == changed.name
            && listed.namespace == changed.namespace.unwrap_or_default()
            && listed.kind == *kind
            && listed.version == *version
            && listed.group == *group
    })
}

fn means(term: &ResourceSelectorTerm, name: &str, labels: &BTreeMap<String, String>) -> bool {
    match (&term.label_selector, term.name.as_str()) {
        (_, wanted) if !wanted.is_empty() => wanted == name,
        (None, _) => true,
        // A selector that makes no sense is told in the pass it causes.
        (Some(selector), _) => {
            selector::read(Some(selector)).is_ok_and(|selector| selector.matches(labels))
        }
    }
}
