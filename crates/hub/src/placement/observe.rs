//! What one pass looks at, all of it from mirrors that show the last pass's writes.

use std::collections::BTreeMap;

use flagship_api::names::ObjectKey;
use flagship_rules::placement::selection::{Selecting, Selection, select};
use flagship_rules::placement::{Observed, Placement, Trouble};
use flagship_runtime::client::Fence;

use super::derived::{Family, Member};
use super::selectable::Selectable;
use crate::hub::Context;
use crate::mirrors::ScopeMirrors;

/// What a pass looks at, and what its writes are fenced with.
pub(super) struct Seen {
    pub observed: Observed,
    pub placement: Fence,
    pub finalizers: Vec<String>,
    pub policies: Fences,
    pub resources: Fences,
    /// The copy of the status.
    pub copy: Option<Fence>,
}

/// Objects by name.
pub(super) type Fences = BTreeMap<String, Fence>;

/// Reads everything for one pass; `None` if the placement is gone.
pub(super) fn observe(
    cx: &Context,
    mirrors: &ScopeMirrors,
    selectable: &Selectable,
    key: &ObjectKey,
) -> Option<Seen> {
    let (kept, derived) = (mirrors.placements.get(key)?, mirrors.derived.as_ref()?);
    let placement = kept.seen.clone();
    let selection = selected(cx, selectable, &placement);
    let (policies, policy_snapshots) = taken_apart(&derived.policies, key);
    let (resources, resource_snapshots) = taken_apart(&derived.resources, key);
    let runs = derived.runs.of(key);
    let target = placement.named_namespace().filter(|_| placement.is_mirrored());
    let copy = target.zip(derived.copies.as_ref()).and_then(|(namespace, copies)| {
        copies.get(&ObjectKey::namespaced(namespace, &placement.name))
    });
    let observed = Observed {
        now: cx.env.now(),
        selection,
        policy_snapshots,
        resource_snapshots,
        bindings: mirrors.bindings_of(key),
        indexes_in_runs: runs.iter().map(|run| run.seen.clone()).collect(),
        mirror: copy.as_ref().map(|copy| copy.status.clone()),
        batching: cx.options.batching,
        placement,
    };
    Some(Seen {
        observed,
        placement: kept.fence.clone(),
        finalizers: kept.finalizers.clone(),
        policies,
        resources,
        copy: copy.map(|copy| copy.fence.clone()),
    })
}

/// What the selectors of the placement select now.
fn selected(
    cx: &Context,
    selectable: &Selectable,
    placement: &Placement,
) -> Result<Selection, Trouble> {
    if placement.deleting {
        return Ok(Selection::default());
    }
    let now = cx.env.now();
    let selectors = &placement.spec.resource_selectors;
    let who = Selecting {
        namespace: placement.namespace.as_deref(),
        name: &placement.name,
        selectors,
        options: &cx.options.selection,
        now,
    };
    select(&selectable.view(selectors, now), who)
}

fn taken_apart<V: Clone + Send + Sync + 'static>(
    family: &Family<V>,
    of: &ObjectKey,
) -> (Fences, Vec<V>) {
    let members = family.of(of);
    let fence = |member: &Member<V>| (member.fence.key.name.clone(), member.fence.clone());
    (
        members.iter().map(|member| fence(member)).collect(),
        members.iter().map(|member| member.seen.clone()).collect(),
    )
}
