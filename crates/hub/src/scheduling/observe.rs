//! What one pass looks at.
//!
//! All of it comes from mirrors, which show what the last pass over the placement wrote: on less
//! a pass would place things twice.

use std::sync::Arc;

use flagship_api::names::ObjectKey;
use flagship_rules::model::Cluster;
use flagship_rules::scheduling::{Observed, Options};
use flagship_runtime::effects::PendingWrites;

use super::shell::PassError;
use crate::counted_bindings::{Uncounted, bindings_of};
use crate::hub::Context;
use crate::mirrors::{Mirrors, Policy, ScopeMirrors};
use crate::scope::Scoped;

/// What a pass looks at, and the version of the policy snapshot that its report is written for.
pub(super) struct PassInputs {
    pub observed: Observed,
    pub policy: Arc<Policy>,
}

/// Reads everything for one pass over a placement.
pub(super) async fn observe<S: Scoped>(
    cx: &Context,
    mirrors: &Mirrors,
    scope: &ScopeMirrors,
    key: &ObjectKey,
    policy: Arc<Policy>,
    is_shown: bool,
    seen: &PendingWrites<ObjectKey>,
) -> Result<PassInputs, PassError> {
    let counted = bindings_of::<S>(cx, scope, key, is_shown, seen).await;
    let mut bindings = counted.map_err(|uncounted| match uncounted {
        Uncounted::Failed(error) => PassError::from(error),
        // Its cluster is unknown, and might be chosen a second time.
        Uncounted::Malformed(problem) => {
            PassError::Undecidable(format!("a binding cannot be read: {problem}"))
        }
    })?;
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
    Ok(PassInputs { observed, policy })
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
