//! What a pass looks at when it fixes a run, ends it, or takes a cluster from another:
//! read from the server itself, because a mirror may not show yet what a person did a
//! moment before.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::cluster::MemberCluster;
use flagship_api::keys::label;
use flagship_api::names::ObjectKey;
use flagship_api::overrides::{ClusterResourceOverrideSnapshot, ResourceOverrideSnapshot};
use flagship_api::placement_status::NamespacedName;
use flagship_base::names::label_value;
use flagship_rules::model::{Binding, Cluster, PolicySnapshot};
use flagship_rules::placement::Placement;
use flagship_rules::update_run::{ClusterOverride, NamespacedOverride, OtherRun};
use flagship_runtime::client::{ClientError, Listed, ResourceType, Selection};
use flagship_runtime::effects::Kind;
use flagship_runtime::error_action::Failure;
use kube_core::Resource;
use kube_core::metadata::PartialObjectMeta;

use super::observe::{Departed, PassInputs, approvals, under_way, writers};
use crate::hub::Context;
use crate::mirrors::{ResourceSnapshot, Run, ScopeMirrors};
use crate::placement::{Selectable, selected, up_to_date};
use crate::scope::{Parts, Scoped, binding};

/// Why something was not read.
enum NotRead {
    /// It is there, and cannot be read as what it should be.
    Malformed(String),
    /// The server did not say.
    Failed(Failure),
}

/// Reads everything for one pass; or says what is there and cannot be read.
pub(super) async fn observe_fresh<S: Scoped>(
    cx: &Context,
    scope: &ScopeMirrors,
    selectable: &Selectable,
    departed: &Departed,
    run: &Run,
) -> Result<PassInputs, Failure> {
    match everything::<S>(cx, scope, selectable, departed, run).await {
        Ok(seen) => Ok(seen),
        Err(NotRead::Failed(failure)) => Err(failure),
        Err(NotRead::Malformed(what)) => {
            let mut seen = PassInputs { fresh: true, ..PassInputs::alone(cx, run) };
            seen.observed.unreadable = Some(what);
            Ok(seen)
        }
    }
}

async fn everything<S: Scoped>(
    cx: &Context,
    scope: &ScopeMirrors,
    selectable: &Selectable,
    departed: &Departed,
    run: &Run,
) -> Result<PassInputs, NotRead> {
    let key = &run.placement;
    let mut seen = PassInputs { fresh: true, ..PassInputs::alone(cx, run) };
    let observed = &mut seen.observed;
    let in_force = format!("{}=true", label::IS_LATEST_SNAPSHOT);
    let (placement, policies, bindings, clusters) = futures::try_join!(
        find::<S::Placement>(cx, key),
        list::<S::PolicySnapshot>(cx, key, &in_force),
        list::<S::Binding>(cx, key, ""),
        clusters(cx),
    )?;
    observed.placement = placement.map(|object| {
        let status = object.status().cloned().unwrap_or_default();
        Placement::read(object.meta(), object.spec(), &status)
    });
    let policies = policies.iter().map(|p| PolicySnapshot::read(p.meta(), p.spec(), p.status()));
    observed.policy_snapshots = policies.map(Arc::new).collect();
    observed.bindings = bindings.into_iter().map(|b| Arc::new(binding(b))).collect();
    observed.clusters = clusters;
    observed.approvals = approvals(scope, run);
    observed.rivals = rivals::<S>(cx, scope, departed, run, &observed.bindings).await?;
    under_way(scope, run, &mut observed.rivals);
    if run.value.is_initialized() {
        seen.observed.snapshot_gone = snapshot_gone::<S>(cx, run).await?;
    } else {
        what_to_fix::<S>(cx, scope, selectable, run, &mut seen).await?;
    }
    Ok(seen)
}

async fn snapshot_gone<S: Scoped>(cx: &Context, run: &Run) -> Result<bool, NotRead> {
    let Some(key) = run.value.snapshot_key() else { return Ok(false) };
    let snapshots = cx.client.of_type(ResourceType::of::<S::ResourceSnapshot>()).metadata_only();
    let found: Option<PartialObjectMeta<S::ResourceSnapshot>> = snapshots.find(&key).await?;
    Ok(found.is_none())
}

/// What is only read until the run is initialized.
async fn what_to_fix<S: Scoped>(
    cx: &Context,
    scope: &ScopeMirrors,
    selectable: &Selectable,
    run: &Run,
    seen: &mut PassInputs,
) -> Result<(), NotRead> {
    let observed = &mut seen.observed;
    let namespace = run.value.namespace.as_deref();
    let strategy = run.value.strategy_key();
    let (strategy, wide, narrow) = futures::try_join!(
        find::<S::UpdateStrategy>(cx, &strategy),
        latest::<ClusterResourceOverrideSnapshot>(cx, None),
        latest::<ResourceOverrideSnapshot>(cx, namespace),
    )?;
    observed.strategy = strategy.map(Into::into);
    let wide = wide.into_iter().map(|object| ClusterOverride {
        name: object.metadata.name.unwrap_or_default(),
        spec: object.spec.override_spec,
    });
    observed.cluster_overrides = wide.collect();
    let narrow = narrow.into_iter().map(|object| NamespacedOverride {
        key: NamespacedName {
            namespace: object.metadata.namespace.unwrap_or_default(),
            name: object.metadata.name.unwrap_or_default(),
        },
        spec: object.spec.override_spec,
    });
    observed.overrides = narrow.collect();
    observed.indexes_in_runs = scope.indexes_in_runs(&run.placement);

    let index = &run.value.spec.resource_snapshot_index;
    // Snapshots hold manifests, so only the named ones are listed. What is no label value
    // labels nothing.
    let mut listed = Vec::new();
    if !index.is_empty() && label_value(index).is_empty() {
        let labels = format!("{}={index}", label::RESOURCE_INDEX);
        listed = list::<S::ResourceSnapshot>(cx, &run.placement, &labels).await?;
    }
    let named = |snapshot: &ResourceSnapshot| {
        !index.is_empty() && snapshot.value.index.as_deref() == Some(index)
    };
    let mirrored = scope.resources_of(&run.placement);
    let mirrored = mirrored.into_iter().filter(|snapshot| !named(snapshot));
    let listed = listed.iter().filter_map(ResourceSnapshot::read).map(Arc::new);
    for snapshot in mirrored.chain(listed) {
        seen.resources.insert(snapshot.value.name.clone(), snapshot.precondition.clone());
        observed.resource_snapshots.push(snapshot.value.clone());
    }
    if let (true, Some(placement)) = (index.is_empty(), &observed.placement) {
        up_to_date(cx, selectable, placement).await?;
        observed.selection = Some(selected(cx, selectable, placement));
    }
    Ok(())
}

/// The other runs that bindings name, as they are now.
async fn rivals<S: Scoped>(
    cx: &Context,
    scope: &ScopeMirrors,
    departed: &Departed,
    run: &Run,
    bindings: &[Arc<Binding>],
) -> Result<Vec<OtherRun>, NotRead> {
    let mut found = Vec::new();
    let mut everybody: Option<BTreeMap<String, ObjectKey>> = None;
    for uid in writers(bindings, run) {
        let known = scope.runs.with_uid(uid);
        if let Some(known) = known.as_ref().filter(|known| known.rival.ended) {
            found.push(known.rival.clone());
            continue;
        }
        let key = match (known, &mut everybody) {
            (Some(known), _) => Some(known.precondition.key.clone()),
            (None, Some(everybody)) => everybody.get(uid).cloned(),
            (None, unasked) => {
                let everybody = unasked.insert(by_uid::<S>(cx, run).await?);
                everybody.get(uid).cloned()
            }
        };
        let object = match key {
            Some(key) => find::<S::UpdateRun>(cx, &key).await?,
            None => None,
        };
        match object.filter(|object| object.meta().uid.as_deref() == Some(uid)) {
            Some(rival) => {
                let status = rival.status().cloned().unwrap_or_default();
                found.push(OtherRun::read(rival.meta(), &status));
            }
            None => {
                departed.add(uid);
                found.push(OtherRun::departed(uid));
            }
        }
    }
    Ok(found)
}

/// All runs of the scope by UID.
async fn by_uid<S: Scoped>(
    cx: &Context,
    run: &Run,
) -> Result<BTreeMap<String, ObjectKey>, NotRead> {
    let listed = metadata::<S::UpdateRun>(cx, run.value.namespace.as_deref()).await?;
    let named = listed.into_iter().filter_map(|object| {
        let meta = object.metadata;
        Some((meta.uid?, ObjectKey::new(meta.namespace.as_deref(), &meta.name?)))
    });
    Ok(named.collect())
}

async fn clusters(cx: &Context) -> Result<Vec<Arc<Cluster>>, NotRead> {
    let listed = metadata::<MemberCluster>(cx, None).await?;
    Ok(listed.iter().map(|cluster| Arc::new(Cluster::named(&cluster.metadata))).collect())
}

async fn metadata<K: Kind>(
    cx: &Context,
    namespace: Option<&str>,
) -> Result<Vec<PartialObjectMeta<K>>, NotRead> {
    let objects = cx.client.of_type::<PartialObjectMeta<K>>(ResourceType::of::<K>());
    let namespace = namespace.map(str::to_owned);
    let listed = objects.metadata_only().list(&Selection { namespace, ..Selection::all() }).await?;
    Ok(listed.items)
}

async fn find<K: Kind>(cx: &Context, key: &ObjectKey) -> Result<Option<K>, NotRead> {
    Ok(cx.client.of::<K>().find(key).await?)
}

/// What belongs to a placement and has these labels too.
async fn list<K: Kind>(
    cx: &Context,
    placement: &ObjectKey,
    labels: &str,
) -> Result<Vec<K>, NotRead> {
    let mut all = format!("{}={}", label::PARENT_PLACEMENT, placement.name);
    if !labels.is_empty() {
        all = format!("{all},{labels}");
    }
    labelled(cx, placement.namespace.as_deref(), all).await
}

async fn latest<K: Kind>(cx: &Context, namespace: Option<&str>) -> Result<Vec<K>, NotRead> {
    labelled(cx, namespace, format!("{}=true", label::IS_LATEST_SNAPSHOT)).await
}

async fn labelled<K: Kind>(
    cx: &Context,
    namespace: Option<&str>,
    labels: String,
) -> Result<Vec<K>, NotRead> {
    let namespace = namespace.map(str::to_owned);
    let which = Selection { namespace, labels, ..Selection::all() };
    readable(cx.client.of::<K>().list(&which).await?)
}

/// A list with a gap decides nothing.
fn readable<K>(listed: Listed<K>) -> Result<Vec<K>, NotRead> {
    match listed.malformed.first() {
        Some(problem) => Err(NotRead::Malformed(problem.to_string())),
        None => Ok(listed.items),
    }
}

impl From<ClientError> for NotRead {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Malformed(problem) => Self::Malformed(problem.to_string()),
            error => Self::Failed(error.into()),
        }
    }
}

impl From<Failure> for NotRead {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
