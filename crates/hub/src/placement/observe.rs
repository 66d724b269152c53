//! What one pass over a placement looks at: all of it from mirrors, which show the
//! writes of the pass before.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::names::ObjectKey;
use flagship_api::placement_status::PlacementStatus;
use flagship_rules::placement::Observed;
use flagship_rules::placement::selection::{Selecting, Selection, select};
use flagship_runtime::client::Fence;

use super::content::Content;
use crate::hub::Context;
use crate::mirrors::{Fenced, Mirrors, Placement, ScopeMirrors};

/// What a pass looks at, and what its writes are fenced with.
pub(super) struct Seen {
    pub observed: Observed,
    pub placement: Arc<Placement>,
    pub copy: Option<Arc<Fenced<PlacementStatus>>>,
    pub policies: BTreeMap<String, Fence>,
    pub resources: BTreeMap<String, Fence>,
}

/// Reads everything for one pass over a placement.
pub(super) fn observe(
    cx: &Context,
    mirrors: &Mirrors,
    scope: &ScopeMirrors,
    content: &Content,
    placement: Arc<Placement>,
) -> Seen {
    let (value, now) = (&placement.value, cx.env.now());
    let key = value.key();
    let selection = if placement.deleting {
        Ok(Selection::default())
    } else {
        let selectors = &value.spec.resource_selectors;
        let who = Selecting {
            namespace: value.namespace.as_deref(),
            name: &value.name,
            selectors,
            options: &cx.options.selection,
            now,
        };
        select(&content.view(selectors, now), who)
    };
    let (policies, resources) = (scope.policies_of(&key), scope.resources_of(&key));
    let copy = value
        .named_namespace()
        .filter(|_| value.is_mirrored())
        .and_then(|namespace| mirrors.copies.get(&ObjectKey::namespaced(namespace, &value.name)));
    let observed = Observed {
        now,
        placement: value.clone(),
        selection,
        policy_snapshots: policies.iter().map(|policy| policy.value.clone()).collect(),
        resource_snapshots: resources.iter().map(|snapshot| snapshot.value.clone()).collect(),
        bindings: scope.bindings_of(&key).iter().map(|binding| binding.value.clone()).collect(),
        indexes_in_runs: scope.indexes_in_runs(&key),
        mirror: copy.as_ref().map(|copy| copy.value.clone()),
        batching: cx.options.batching,
    };
    let named = |fence: &Fence| (fence.key.name.clone(), fence.clone());
    let policies = policies.iter().map(|policy| named(&policy.fence)).collect();
    let resources = resources.iter().map(|snapshot| named(&snapshot.fence)).collect();
    Seen { observed, placement, copy, policies, resources }
}
