//! What is kept of evictions.

use flagship_api::eviction::ClusterResourcePlacementEviction;
use flagship_rules::eviction;
use flagship_runtime::reflector::Store;

use super::{Set, Versioned};

/// What is kept of an eviction.
pub(crate) type Eviction = Versioned<eviction::Eviction>;

pub(super) fn mirror(set: &mut Set<'_>) -> Store<Eviction> {
    let evictions = set.mirror(|object: ClusterResourcePlacementEviction| {
        Versioned::of(&object, eviction::Eviction::read(&object))
    });
    set.add(evictions)
}
