//! Whether the mirrors show what the server has, for a selection that is to be frozen.
//!
//! Somebody edits a Deployment and creates an update run a moment later: the run must take
//! that edit with it, and watches of different kinds do not come at the same time. The
//! versions of the objects on the server, which are cheap to list, tell whether a mirror
//! has come far enough.

use std::collections::BTreeSet;
use std::time::Duration;

use flagship_api::names::{ObjectKey, Scope};
use flagship_api::placement::{ResourceSelectorTerm, SelectionScope};
use flagship_rules::placement::Placement;
use flagship_rules::placement::selection::kind_of;
use flagship_runtime::client::{ClientError, Selection, key_of};
use flagship_runtime::dynamic::ServedType;
use flagship_runtime::effects::{Retry, is_transient, retry};
use flagship_runtime::error_action::Failure;
use flagship_runtime::reflector::{Revision, Store};
use futures::stream::{self, StreamExt, TryStreamExt};
use kube_core::DynamicObject;
use kube_core::metadata::PartialObjectMeta;

use super::selectable::{Kept, Selectable, kind_served};
use crate::hub::Context;

/// Kinds that are asked about at once.
const AT_ONCE: usize = 10;
/// How long a mirror may take to show what is there.
const PATIENCE: Duration = Duration::from_secs(5);

/// Waits until the mirrors show everything that the placement may select now.
pub(crate) async fn up_to_date(
    cx: &Context,
    selectable: &Selectable,
    placement: &Placement,
) -> Result<(), Failure> {
    // Before the first look every kind would seem to be unknown.
    selectable.registry().looked_beyond(0).await;
    let terms = &placement.spec.resource_selectors;
    let mirrors = selectable.registry().mirrors().into_iter();
    // One that is not caught up at all says so when something is selected.
    let concerned =
        mirrors.filter(|(served, store)| store.is_synced() && may_select(terms, served));
    let places = |served: &ServedType| match served.scope {
        Scope::Cluster => vec![None],
        Scope::Namespaced => namespaces(placement),
    };
    let questions = concerned.flat_map(|(served, store)| {
        let places = places(&served).into_iter();
        places.map(|place| (served.clone(), store.clone(), place)).collect::<Vec<_>>()
    });
    let questions: Vec<_> = questions.collect();
    stream::iter(questions)
        .map(|(served, store, place)| async move { shows(cx, &served, &store, place).await })
        .buffered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}

/// A namespace may stand for everything in it, which nothing cluster-scoped is.
fn may_select(terms: &[ResourceSelectorTerm], served: &ServedType) -> bool {
    terms.iter().any(|term| {
        let kind = kind_of(term);
        let whole = term.selection_scope.unwrap_or_default() != SelectionScope::NamespaceOnly;
        let within = kind.is_namespace() && whole && served.scope == Scope::Namespaced;
        kind == kind_served(served) || within
    })
}

/// Where the placement selects; `None` is everywhere.
fn namespaces(placement: &Placement) -> Vec<Option<String>> {
    if let Some(own) = &placement.namespace {
        return vec![Some(own.clone())];
    }
    let terms = placement.spec.resource_selectors.iter();
    let spaces = terms.filter(|term| kind_of(term).is_namespace());
    let named: BTreeSet<&str> = spaces.map(|term| term.name.as_str()).collect();
    if named.contains("") {
        return vec![None];
    }
    named.into_iter().map(|name| Some(name.to_owned())).collect()
}

async fn shows(
    cx: &Context,
    served: &ServedType,
    store: &Store<Kept>,
    place: Option<String>,
) -> Result<(), Failure> {
    let resource = served.resource.clone();
    let objects = cx.client.of_type::<PartialObjectMeta<DynamicObject>>(resource).metadata_only();
    let which = Selection { namespace: place.clone(), ..Selection::all() };
    // There are many kinds; one lost answer must not make all of them be asked again.
    let worth = |error: &ClientError| is_transient(error.action());
    let there = retry(&cx.env, Retry::CONFLICT, worth, || objects.list(&which)).await?.items;
    let late = || Failure::back_off(format!("{} is not mirrored up to now", served.resource));
    let versions = there.iter().filter_map(|object| object.metadata.resource_version.as_deref());
    if let Some(newest) = versions.filter_map(Revision::read).max()
        && tokio::time::timeout(PATIENCE, store.reached(newest)).await.is_err()
    {
        return Err(late());
    }
    // Deletions have no version that could be listed.
    let keys: BTreeSet<ObjectKey> = there.iter().filter_map(key_of).collect();
    let held = match &place {
        Some(namespace) => store.in_namespace(namespace),
        None => store.all(),
    };
    if held.iter().any(|(key, _)| !keys.contains(&**key)) {
        return Err(late());
    }
    Ok(())
}
