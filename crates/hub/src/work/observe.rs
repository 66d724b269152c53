//! What one pass looks at, all of it from mirrors that show the last pass's writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::names::{ObjectKey, member_namespace};
use flagship_rules::model::Binding;
use flagship_rules::work::{Observed, Placement, Strategies, relevant};
use flagship_runtime::client::Precondition;

use crate::hub::Context;
use crate::mirrors::Mirrors;
use crate::patches::precondition_of;

/// What a pass looks at, and what its writes carry as preconditions.
pub(super) struct PassInputs {
    pub observed: Observed,
    pub binding: Precondition,
    pub finalizers: Arc<[String]>,
    /// Works by name, with the strategies they have.
    pub works: BTreeMap<String, (Precondition, Strategies)>,
    /// UIDs of the snapshots in the mirror, by name.
    pub snapshots: BTreeMap<String, String>,
}

/// Reads everything for one pass; `None` if the binding is gone.
pub(super) fn observe(cx: &Context, mirrors: &Mirrors, key: &ObjectKey) -> Option<PassInputs> {
    let scope = mirrors.of(key)?;
    let binding = scope.bindings.get(key)?;
    let (target, of) = (binding.cluster(), binding.placement_key());
    let cluster = mirrors.members.clusters.get(&ObjectKey::cluster(target));
    let works = mirrors.works.of(key, &member_namespace(target));
    let snapshots = scope.resources_of(&of);
    let placement = scope.placements.get(&of);
    let versioned = works.iter().map(|(_, work)| {
        let strategies = Strategies {
            apply_strategy: work.value.apply_strategy.clone(),
            report_back_strategy: work.value.report_back.clone(),
        };
        (work.value.name.clone(), (work.precondition.clone(), strategies))
    });
    Some(PassInputs {
        binding: precondition_of(&binding),
        finalizers: binding.finalizers.clone(),
        works: versioned.collect(),
        snapshots: snapshots
            .iter()
            .map(|one| (one.value.name.clone(), one.precondition.uid.clone()))
            .collect(),
        observed: Observed {
            now: cx.env.now(),
            cluster: cluster.map(|cluster| cluster.value.clone()),
            works: works.iter().map(|(_, work)| work.value.clone()).collect(),
            snapshots: relevant(
                &binding.spec.resource_snapshot_name,
                snapshots.iter().map(|one| one.value.clone()).collect(),
            ),
            placement: placement.map(|kept| Placement::read(kept.deleting, &kept.value.spec)),
            override_hashes: override_hashes(mirrors, &binding),
            content: None,
            answer_due: None,
            binding,
        },
    })
}

fn override_hashes(mirrors: &Mirrors, binding: &Binding) -> Option<Vec<String>> {
    let (wide, narrow) = (&mirrors.overrides.cluster_wide, &mirrors.overrides.in_namespaces);
    let wide = binding.spec.cluster_resource_override_snapshots.iter().map(|name| {
        let found = wide.snapshots.get(&ObjectKey::cluster(name));
        found.map(|snapshot| snapshot.value.hash.clone())
    });
    let narrow = binding.spec.resource_override_snapshots.iter().map(|named| {
        let found = narrow.snapshots.get(&ObjectKey::namespaced(&named.namespace, &named.name));
        found.map(|snapshot| snapshot.value.hash.clone())
    });
    wide.chain(narrow).collect()
}
