//! What one pass looks at.
//!
//! Clusters and the policy come from the mirrors. The bindings are listed from the
//! server itself: on a lagging cache a pass would place things twice.

use std::sync::Arc;

use flagship_api::keys::label;
use flagship_api::names::ObjectKey;
use flagship_rules::model::{Binding, Cluster};
use flagship_rules::scheduling::{Observed, Options};
use flagship_runtime::client::{Listed, Selection};

use super::shell::PassError;
use crate::hub::Context;
use crate::mirrors::{Mirrors, Policy};
use crate::scope::{Scoped, binding};

/// What a pass looks at, and the version of the policy snapshot that its report is written for.
pub(super) struct Seen {
    pub observed: Observed,
    pub policy: Arc<Policy>,
}

/// Reads everything for one pass over a placement.
pub(super) async fn observe<S: Scoped>(
    cx: &Context,
    mirrors: &Mirrors,
    key: &ObjectKey,
    policy: Arc<Policy>,
) -> Result<Seen, PassError> {
    let listed: Listed<S::Binding> = cx.client.of().list(&bindings_of(key)).await?;
    if let Some(problem) = listed.malformed.first() {
        // Its cluster is unknown, and might be chosen a second time.
        return Err(PassError::Undecidable(format!("a binding cannot be read: {problem}")));
    }
    let mut bindings: Vec<Binding> = listed.items.into_iter().map(binding).collect();
    bindings.sort_by(|a, b| a.name.cmp(&b.name));
    let observed = Observed {
        now: cx.env.now(),
        namespace: key.namespace.clone(),
        placement: key.name.clone(),
        snapshot: policy.value.clone(),
        clusters: clusters(mirrors),
        bindings,
        options: Options {
            spread_over_feasible_clusters: cx.options.spread_over_feasible_clusters,
        },
    };
    Ok(Seen { observed, policy })
}

/// Selects the bindings of a placement.
pub(super) fn bindings_of(key: &ObjectKey) -> Selection {
    let labels = format!("{}={}", label::PARENT_PLACEMENT, key.name);
    Selection { namespace: key.namespace.clone(), labels, ..Selection::all() }
}

/// All clusters by name. One that cannot be read, and never could, is there all the
/// same: nothing new goes to it, and what it has is not taken away by a typo.
fn clusters(mirrors: &Mirrors) -> Vec<Arc<Cluster>> {
    let known = mirrors.members.clusters.all();
    let mut clusters: Vec<Arc<Cluster>> =
        known.iter().map(|(_, cluster)| cluster.value.clone()).collect();
    let unreadable = mirrors.members.clusters.all_malformed();
    let unknown = unreadable.iter().filter_map(|problem| {
        let key = problem.key()?;
        mirrors
            .members
            .clusters
            .get(&key)
            .is_none()
            .then(|| Arc::new(Cluster { name: key.name, ..Cluster::default() }))
    });
    clusters.extend(unknown);
    clusters.sort_by(|a, b| a.name.cmp(&b.name));
    clusters
}
