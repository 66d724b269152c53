//! Which changes make a placement's rollout worth another pass.
//!
//! Nothing polls: what is not listed here, and is not a matter of time, cannot change what
//! a rollout decides. A pass too many costs one list of bindings.

use flagship_api::condition::{Conditions, says_the_same};
use flagship_api::condition_type::binding::{AVAILABLE, DIFF_REPORTED};
use flagship_api::names::ObjectKey;
use flagship_api::overrides::{PlacementRef, PlacementScope};
use flagship_api::placement::PlacementSpec;

use crate::model::{Binding, ResourceSnapshot};
use crate::placement::Placement;

/// Whether a binding's change may let it, or another one, move.
pub fn binding_changed(old: &Binding, new: &Binding) -> bool {
    let said = |binding: &Binding, kind: &str| binding.status.conditions.of_type(kind).cloned();
    let same = |kind| says_the_same(said(old, kind).as_ref(), said(new, kind).as_ref());
    old.generation != new.generation
        || old.deleting != new.deleting
        || !same(AVAILABLE)
        || !same(DIFF_REPORTED)
        // A delivery that turns out broken frees the place of a surging one.
        || old.delivery_state() != new.delivery_state()
}

/// Whether a new version of a placement is to be rolled out differently.
pub fn placement_changed(old: &Placement, new: &Placement) -> bool {
    let size = |spec: &PlacementSpec| {
        let policy = spec.policy.clone().unwrap_or_default();
        (
            policy.placement_type.unwrap_or_default(),
            policy.number_of_clusters,
            policy.cluster_names.len(),
        )
    };
    !new.deleting && (old.spec.strategy != new.spec.strategy || size(&old.spec) != size(&new.spec))
}

/// Whether these are resources to roll out: the first object of the latest group.
pub fn is_latest_master(snapshot: &ResourceSnapshot) -> bool {
    snapshot.latest && snapshot.hash.is_some()
}

/// The placement that an override names. One that names none is noticed by the next pass
/// that has another reason.
pub fn placement_of(named: Option<&PlacementRef>, namespace: Option<&str>) -> Option<ObjectKey> {
    let named = named?;
    match (named.scope.unwrap_or_default(), namespace) {
        (PlacementScope::Cluster, _) => Some(ObjectKey::cluster(&named.name)),
        (PlacementScope::Namespaced, Some(namespace)) => {
            Some(ObjectKey::namespaced(namespace, &named.name))
        }
        // Refused by the API: there is no namespace to look in.
        (PlacementScope::Namespaced, None) => None,
    }
}
