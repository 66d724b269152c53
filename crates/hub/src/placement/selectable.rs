//! Everything on the hub that a placement may select, watched as types come and go.
//!
//! Of an object its labels and its manifest are kept, the latter as text: a parsed tree
//! is ten times the size. What never leaves the hub is not kept at all, so to everybody
//! here such an object does not exist.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flagship_api::names::ObjectKey;
use flagship_api::placement::ResourceSelectorTerm;
use flagship_api::raw_json::RawJson;
use flagship_api::selector::Selector;
use flagship_rules::placement::selection::{
    Hub, Kind, ResourceType, SelectionOptions, Watch, kind_of, manifest, stays,
};
use flagship_runtime::dynamic::{Dynamic, DynamicConfig, Registry, ServedType};
use flagship_runtime::reflector::Store;
use jiff::Timestamp;
use kube_core::{DynamicObject, GroupVersionKind};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::hub::Context;

/// A type that never catches up must not keep all others waiting at the start.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is kept of an object that may be selected.
#[derive(Debug, PartialEq)]
pub(crate) struct Kept {
    pub labels: BTreeMap<String, String>,
    /// What members would get. Equal text is equal content.
    manifest: RawJson,
}

/// All objects that may be selected.
pub(crate) struct Selectable {
    registry: Registry<Kept>,
    /// Since when a selected kind is known without being watched.
    unwatched: Mutex<BTreeMap<Kind, Timestamp>>,
}

impl Selectable {
    /// Starts watching what may be selected.
    pub fn new(cx: &Context, tasks: &mut JoinSet<()>) -> Self {
        let options = Arc::new(cx.options.selection.clone());
        let (wanted, kept) = (options.clone(), options);
        let dynamic = Dynamic::new(
            &cx.client,
            &cx.env,
            DynamicConfig::default(),
            move |served| is_wanted(&kind_served(served), &wanted),
            move |served, object| keep(&kind_served(served), object, &kept),
        );
        let registry = dynamic.registry();
        tasks.spawn(dynamic.run());
        Self { registry, unwatched: Mutex::default() }
    }

    /// Where the objects are.
    pub fn registry(&self) -> &Registry<Kept> {
        &self.registry
    }

    /// Waits until the types are known, and for their objects as long as is reasonable:
    /// selections that need a type which is not caught up wait on their own.
    pub async fn ready(&self) {
        self.registry.looked_beyond(0).await;
        if tokio::time::timeout(PATIENCE, self.registry.synced()).await.is_err() {
            tracing::warn!(state = %self.registry.readiness(), "starting all the same");
        }
    }

    /// The labels of a namespace that is there and stays.
    pub fn namespace_labels(&self, name: &str) -> Option<Arc<Kept>> {
        let namespaces = self.registry.store(&GroupVersionKind::gvk("", "v1", "Namespace"))?;
        namespaces.get(&ObjectKey::cluster(name))
    }

    /// The objects as these selectors may see them now.
    pub fn view(&self, selectors: &[ResourceSelectorTerm], now: Timestamp) -> View {
        let (mut types, mut stores) = (BTreeMap::new(), BTreeMap::new());
        for (served, store) in self.registry.mirrors() {
            let watch = if store.is_synced() { Watch::Synced } else { Watch::Syncing };
            let kind = kind_served(&served);
            types.insert(kind.clone(), resource_type(&served, watch));
            stores.insert(kind, store);
        }
        let mut unwatched = self.unwatched.lock().unwrap_or_else(PoisonError::into_inner);
        for term in selectors {
            let kind = kind_of(term);
            if stores.contains_key(&kind) {
                unwatched.remove(&kind);
            } else if let Some(served) = self.registry.find(&gvk(&kind)) {
                let since = *unwatched.entry(kind.clone()).or_insert(now);
                types.insert(kind, resource_type(&served, Watch::Unwatched { since }));
            } else {
                unwatched.remove(&kind);
            }
        }
        View { types, stores }
    }
}

/// Types whose objects are kept. Namespaces and Services decide about other objects.
fn is_wanted(kind: &Kind, options: &SelectionOptions) -> bool {
    !options.types.disables(kind) || kind.is_namespace() || kind.is("", "v1", "Service")
}

fn keep(kind: &Kind, object: DynamicObject, options: &SelectionOptions) -> Option<Kept> {
    let labels = object.metadata.labels.clone().unwrap_or_default();
    let value = serde_json::to_value(object).ok()?;
    // What it cannot tell alone is asked again when the object is selected.
    if stays(&UnknownHub, kind, &value, options.workloads_run_here).unwrap_or(false) {
        return None;
    }
    Some(Kept { labels, manifest: manifest(kind, value).ok()? })
}

/// The objects of the hub as one pass sees them.
pub(crate) struct View {
    types: BTreeMap<Kind, ResourceType>,
    stores: BTreeMap<Kind, Store<Kept>>,
}

impl View {
    fn store(&self, of: &ResourceType) -> Result<&Store<Kept>, String> {
        self.stores.get(&of.kind).ok_or_else(|| format!("{} is not watched", of.gvr()))
    }
}

impl Hub for View {
    fn look_up(&self, kind: &Kind) -> Result<&ResourceType, String> {
        self.types.get(kind).ok_or_else(|| no_matches(kind))
    }

    fn watched(&self) -> Vec<&ResourceType> {
        self.stores.keys().filter_map(|kind| self.types.get(kind)).collect()
    }

    fn get(
        &self,
        of: &ResourceType,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Cow<'_, Value>>, String> {
        let (store, key) = (self.store(of)?, ObjectKey::new(namespace, name));
        if let Some(problem) = store.malformed(&key) {
            return Err(problem.to_string());
        }
        store.get(&key).map(|kept| parsed(&kept)).transpose()
    }

    fn list<'a>(
        &'a self,
        of: &ResourceType,
        namespace: Option<&str>,
        matching: Option<&Selector>,
    ) -> Box<dyn Iterator<Item = Result<Cow<'a, Value>, String>> + 'a> {
        let store = match self.store(of) {
            Ok(store) => store,
            Err(error) => return Box::new(std::iter::once(Err(error))),
        };
        // Its labels are unknown, so it may be meant; nothing is selected by halves.
        let unreadable = store
            .all_malformed()
            .into_iter()
            .filter(|problem| namespace.is_none() || problem.namespace.as_deref() == namespace);
        let unreadable: Vec<_> = unreadable.map(|problem| Err(problem.to_string())).collect();
        let mut found = match namespace {
            Some(namespace) => store.in_namespace(namespace),
            None => store.all(),
        };
        found.retain(|(_, kept)| matching.is_none_or(|selector| selector.matches(&kept.labels)));
        Box::new(unreadable.into_iter().chain(found.into_iter().map(|(_, kept)| parsed(&kept))))
    }
}

fn parsed<'a>(kept: &Kept) -> Result<Cow<'a, Value>, String> {
    kept.manifest.parse().map(Cow::Owned).map_err(|error| error.to_string())
}

/// A hub of which nothing is known.
struct UnknownHub;

impl Hub for UnknownHub {
    fn look_up(&self, kind: &Kind) -> Result<&ResourceType, String> {
        Err(no_matches(kind))
    }

    fn watched(&self) -> Vec<&ResourceType> {
        Vec::new()
    }

    fn get(
        &self,
        _: &ResourceType,
        _: Option<&str>,
        _: &str,
    ) -> Result<Option<Cow<'_, Value>>, String> {
        Ok(None)
    }

    fn list<'a>(
        &'a self,
        _: &ResourceType,
        _: Option<&str>,
        _: Option<&Selector>,
    ) -> Box<dyn Iterator<Item = Result<Cow<'a, Value>, String>> + 'a> {
        Box::new(std::iter::empty())
    }
}

/// A server's own words.
pub(crate) fn no_matches(kind: &Kind) -> String {
    format!("no matches for kind \"{}\" in version \"{}\"", kind.kind, kind.api_version())
}

/// The kind of a type that the server serves.
pub(crate) fn kind_served(served: &ServedType) -> Kind {
    let of = &served.resource;
    Kind::new(&of.group, &of.version, &of.kind)
}

/// The other way to write a kind down.
pub(crate) fn gvk(kind: &Kind) -> GroupVersionKind {
    GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind)
}

fn resource_type(served: &ServedType, watch: Watch) -> ResourceType {
    ResourceType {
        kind: kind_served(served),
        plural: served.resource.plural.clone(),
        scope: served.scope,
        preferred: served.preferred,
        watch,
    }
}
