//! What is kept of evictions.

use flagship_api::eviction::ClusterResourcePlacementEviction;
use flagship_rules::eviction;
use flagship_runtime::reflector::Store;

use super::{Fenced, Set};

/// What is kept of an eviction.
pub(crate) type Eviction = Fenced<eviction::Eviction>;

pub(super) fn mirror(set: &mut Set<'_>) -> Store<Eviction> {
    let evictions = set.mirror(|object: ClusterResourcePlacementEviction| {
        Fenced::of(&object, eviction::Eviction::read(&object))
    });
    set.add(evictions)
}
