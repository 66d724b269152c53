//! Everything on the hub that could be selected, mirrored as text.
//!
//! A parsed tree is ten times the size of its text, so objects are parsed one at a time
//! while a pass looks at them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use flagship_api::placement::ResourceSelectorTerm;
use flagship_api::selector::Selector;
use flagship_rules::placement::selection::{Hub, Kind, ResourceType, TypeRules, Watch, kind_of};
use flagship_runtime::client::Client;
use flagship_runtime::dynamic::{Dynamic, DynamicConfig, Registry, ServedType};
use flagship_runtime::env::Env;
use flagship_runtime::reflector::Store;
use jiff::Timestamp;
use kube_core::{DynamicObject, GroupVersionKind, TypeMeta};
use serde_json::Value;
use tokio::task::JoinSet;

/// All types that are propagated, and their objects.
pub(crate) struct Content {
    pub registry: Registry<Object>,
    /// When a kind that nobody watches was first asked for.
    asked: Mutex<BTreeMap<Kind, Timestamp>>,
}

/// What is kept of an object.
#[derive(Debug, PartialEq)]
pub(crate) struct Object {
    pub labels: BTreeMap<String, String>,
    text: Box<str>,
}

impl Content {
    /// Starts mirroring, and waits until all types of the first look are listed.
    pub async fn start(
        client: &Client,
        env: &Env,
        types: TypeRules,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let wanted = move |served: &ServedType| !types.disables(&kind(served));
        let dynamic =
            Dynamic::new(client, env, DynamicConfig::default(), wanted, |served, object| {
                Object::read(served, object)
            });
        let registry = dynamic.registry();
        tasks.spawn(dynamic.run());
        registry.synced().await;
        Self { registry, asked: Mutex::default() }
    }

    /// Labels of a namespace that exists.
    pub fn namespace_labels(&self, name: &str) -> Option<BTreeMap<String, String>> {
        let namespaces = self.registry.store(&gvk(&Kind::new("", "v1", "Namespace")))?;
        let key = flagship_api::names::ObjectKey::cluster(name);
        Some(namespaces.get(&key)?.labels.clone())
    }

    /// Everything as it is now, for the selectors of one pass.
    pub fn view(&self, selectors: &[ResourceSelectorTerm], now: Timestamp) -> View {
        let mirrored = self.registry.mirrors().into_iter().map(|(served, store)| {
            let watch = if store.is_synced() { Watch::Synced } else { Watch::Syncing };
            (kind(&served), (resource_type(&served, watch), Some(store)))
        });
        let mut types: BTreeMap<_, _> = mirrored.collect();
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        for wanted in selectors.iter().map(kind_of) {
            if !types.contains_key(&wanted)
                && let Some(served) = self.registry.find(&gvk(&wanted))
            {
                let since = *asked.entry(wanted.clone()).or_insert(now);
                let unwatched = Watch::Unwatched { since };
                types.insert(wanted, (resource_type(&served, unwatched), None));
            }
        }
        View { types }
    }
}

impl Object {
    fn read(served: &ServedType, mut object: DynamicObject) -> Option<Self> {
        object.metadata.managed_fields = None;
        // Items of a list need not say what they are; a manifest must.
        object.types.get_or_insert_with(|| TypeMeta {
            api_version: served.resource.api_version(),
            kind: served.resource.kind.clone(),
        });
        let text = serde_json::to_string(&object).ok()?;
        let labels = object.metadata.labels.unwrap_or_default();
        Some(Self { labels, text: text.into() })
    }

    fn parse(&self) -> Result<Cow<'static, Value>, String> {
        serde_json::from_str(&self.text).map(Cow::Owned).map_err(|error| error.to_string())
    }
}

/// The kind of a served type.
pub(crate) fn kind(served: &ServedType) -> Kind {
    let resource = &served.resource;
    Kind::new(&resource.group, &resource.version, &resource.kind)
}

fn gvk(kind: &Kind) -> GroupVersionKind {
    GroupVersionKind::gvk(&kind.group, &kind.version, &kind.kind)
}

fn resource_type(served: &ServedType, watch: Watch) -> ResourceType {
    let plural = served.resource.plural.clone();
    ResourceType { kind: kind(served), plural, scope: served.scope, watch }
}

/// What selection sees.
pub(crate) struct View {
    types: BTreeMap<Kind, (ResourceType, Option<Store<Object>>)>,
}

impl View {
    fn store(&self, of: &ResourceType) -> Option<&Store<Object>> {
        self.types.get(&of.kind).and_then(|(_, store)| store.as_ref())
    }
}

impl Hub for View {
    fn look_up(&self, kind: &Kind) -> Result<&ResourceType, String> {
        let found = self.types.get(kind).map(|(of, _)| of);
        found.ok_or_else(|| {
            format!("no matches for kind {:?} in version {:?}", kind.kind, kind.api_version())
        })
    }

    fn watched(&self) -> Vec<&ResourceType> {
        self.types.values().filter(|(_, store)| store.is_some()).map(|(of, _)| of).collect()
    }

    fn get(
        &self,
        of: &ResourceType,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Cow<'_, Value>>, String> {
        let key = flagship_api::names::ObjectKey::new(namespace, name);
        let found = self.store(of).and_then(|store| store.get(&key));
        found.map(|object| object.parse()).transpose()
    }

    fn list<'a>(
        &'a self,
        of: &ResourceType,
        namespace: Option<&str>,
        matching: Option<&Selector>,
    ) -> Box<dyn Iterator<Item = Result<Cow<'a, Value>, String>> + 'a> {
        let Some(store) = self.store(of) else { return Box::new(std::iter::empty()) };
        let mut listed = match namespace {
            Some(namespace) => store.in_namespace(namespace),
            None => store.all(),
        };
        if let Some(selector) = matching {
            listed.retain(|(_, object)| selector.matches(&object.labels));
        }
        Box::new(listed.into_iter().map(|(_, object)| object.parse()))
    }
}
