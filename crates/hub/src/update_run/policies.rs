//! What a pass sees of freezes: those there are, and the labels by which they select runs.
//!
//! Labels are only asked for while some freeze selects by them, so a hub without freezes asks
//! for nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::freeze;
use flagship_api::names::ObjectKey;
use flagship_rules::policy::selects::Wanted;
use flagship_rules::policy::{self, Freeze, Labels};
use flagship_runtime::client::{ClientError, ResourceType, Selection};
use flagship_runtime::effects::Kind;
use flagship_runtime::reflector::Store;
use flagship_runtime::verdict::Failure;
use k8s_openapi::api::core::v1::Namespace;
use kube_core::Resource;
use kube_core::metadata::PartialObjectMeta;

use crate::hub::Context;
use crate::mirrors::Run;
use crate::scope::Scoped;

/// What is mirrored of freezes, with the labels they ask for.
pub(super) async fn observe<S: Scoped>(
    cx: &Context,
    mirror: &Store<Freeze>,
    run: &Run,
) -> Result<policy::Seen, Failure> {
    let freezes = mirror.all().into_iter().map(|(_, freeze)| freeze).collect();
    with_labels::<S>(cx, run, freezes).await
}

/// The same, read from the server itself.
pub(super) async fn observe_fresh<S: Scoped>(
    cx: &Context,
    run: &Run,
) -> Result<policy::Seen, Failure> {
    let listed = match cx.client.of::<freeze::Freeze>().list(&Selection::all()).await {
        Err(ClientError::NotServed { .. }) => Vec::new(),
        listed => listed?.items,
    };
    let mut freezes: Vec<Arc<Freeze>> =
        listed.iter().map(|object| Arc::new(Freeze::read(object))).collect();
    freezes.sort_by(|a, b| a.name.cmp(&b.name));
    with_labels::<S>(cx, run, freezes).await
}

async fn with_labels<S: Scoped>(
    cx: &Context,
    run: &Run,
    freezes: Vec<Arc<Freeze>>,
) -> Result<policy::Seen, Failure> {
    let wanted = Wanted::by(freezes.iter().map(|freeze| &freeze.spec.selects));
    let mut labels = Labels::default();
    if wanted.strategy {
        labels.strategy = labels_of::<S::UpdateStrategy>(cx, &run.value.strategy_key()).await?;
    }
    if wanted.placement {
        labels.placement = labels_of::<S::Placement>(cx, &run.placement).await?;
    }
    if let (true, Some(space)) = (wanted.namespace, &run.value.namespace) {
        let space = labels_of::<Namespace>(cx, &ObjectKey::cluster(space)).await?;
        labels.namespace = Some(space);
    }
    Ok(policy::Seen { freezes, labels })
}

/// The labels of an object; none if it is not there.
async fn labels_of<K: Kind>(
    cx: &Context,
    key: &ObjectKey,
) -> Result<BTreeMap<String, String>, Failure> {
    let objects = cx.client.of_type::<PartialObjectMeta<K>>(ResourceType::of::<K>());
    let found = objects.metadata_only().find(key).await?;
    Ok(found.and_then(|object| object.meta().labels.clone()).unwrap_or_default())
}
