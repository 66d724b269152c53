//! What is kept of freezes. Policies are read from the server when a run is initialized.

use flagship_api::freeze;
use flagship_rules::policy::Freeze;
use flagship_runtime::reflector::Store;

use super::Set;

pub(super) fn mirror(set: &mut Set<'_>) -> Store<Freeze> {
    let freezes = set.mirror(|object: freeze::Freeze| Some(Freeze::read(&object)));
    set.add(freezes)
}
