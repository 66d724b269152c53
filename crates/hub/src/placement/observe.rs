//! What one pass looks at, all of it from mirrors that show the last pass's writes.

use std::collections::BTreeMap;

use flagship_api::names::ObjectKey;
use flagship_rules::placement::selection::{Selecting, Selection, select};
use flagship_rules::placement::{Observed, PassError, Placement};
use flagship_runtime::client::Precondition;

use super::selectable::Selectable;
use crate::hub::Context;
use crate::mirrors::Mirrors;

/// What a pass looks at, and what its writes carry as preconditions.
pub(super) struct PassInputs {
    pub observed: Observed,
    pub placement: Precondition,
    pub finalizers: Vec<String>,
    pub policies: Preconditions,
    pub resources: Preconditions,
    /// The copy of the status.
    pub copy: Option<Precondition>,
}

/// Objects by name.
pub(crate) type Preconditions = BTreeMap<String, Precondition>;

/// Reads everything for one pass; `None` if the placement is gone.
pub(super) fn observe(
    cx: &Context,
    mirrors: &Mirrors,
    selectable: &Selectable,
    key: &ObjectKey,
) -> Option<PassInputs> {
    let scope = mirrors.of(key)?;
    let kept = scope.placements.get(key)?;
    let placement = kept.value.clone();
    let (policies, resources) = (scope.policies_of(key), scope.resources_of(key));
    let target = placement.named_namespace().filter(|_| placement.is_mirrored());
    let copy = target.and_then(|namespace| {
        mirrors.copies.get(&ObjectKey::namespaced(namespace, &placement.name))
    });
    let observed = Observed {
        now: cx.env.now(),
        selection: selected(cx, selectable, &placement),
        policy_snapshots: policies.iter().map(|policy| policy.value.clone()).collect(),
        resource_snapshots: resources.iter().map(|snapshot| snapshot.value.clone()).collect(),
        bindings: scope.bindings_of(key),
        indexes_in_runs: scope.indexes_in_runs(key),
        mirror: copy.as_ref().map(|copy| copy.value.clone()),
        batching: cx.options.batching,
        placement,
    };
    let named = |precondition: &Precondition| (precondition.key.name.clone(), precondition.clone());
    Some(PassInputs {
        observed,
        placement: kept.precondition.clone(),
        finalizers: kept.finalizers.clone(),
        policies: policies.iter().map(|policy| named(&policy.precondition)).collect(),
        resources: resources.iter().map(|snapshot| named(&snapshot.precondition)).collect(),
        copy: copy.map(|copy| copy.precondition.clone()),
    })
}

/// What the selectors of the placement select now.
pub(crate) fn selected(
    cx: &Context,
    selectable: &Selectable,
    placement: &Placement,
) -> Result<Selection, PassError> {
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
