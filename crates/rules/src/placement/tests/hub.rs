//! A hub made of maps, for stories about selection.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use flagship_api::kinds::Scope;
use flagship_api::placement::ResourceSelectorTerm;
use flagship_api::selector::Selector;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::placement::PassError;
use crate::placement::selection::{
    Hub, Kind, ResourceType, Selecting, Selection, SelectionOptions, Watch, select,
};

pub fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// Kinds every test hub knows.
const KINDS: &[(&str, &str, &str, &str, Scope)] = &[
    ("", "v1", "Namespace", "namespaces", Scope::Cluster),
    ("", "v1", "ConfigMap", "configmaps", Scope::Namespaced),
    ("", "v1", "Secret", "secrets", Scope::Namespaced),
    ("", "v1", "Service", "services", Scope::Namespaced),
    ("", "v1", "ServiceAccount", "serviceaccounts", Scope::Namespaced),
    ("", "v1", "Endpoints", "endpoints", Scope::Namespaced),
    ("", "v1", "Pod", "pods", Scope::Namespaced),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", Scope::Namespaced),
    ("apps", "v1", "Deployment", "deployments", Scope::Namespaced),
    ("apps", "v1", "ReplicaSet", "replicasets", Scope::Namespaced),
    ("apps", "v1", "ControllerRevision", "controllerrevisions", Scope::Namespaced),
    ("batch", "v1", "Job", "jobs", Scope::Namespaced),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", Scope::Namespaced),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", Scope::Namespaced),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", Scope::Cluster),
    (
        "placement.kubernetes-fleet.io",
        "v1beta1",
        "ResourceEnvelope",
        "resourceenvelopes",
        Scope::Namespaced,
    ),
    ("placement.kubernetes-fleet.io", "v1beta1", "Work", "works", Scope::Namespaced),
];

pub struct FakeHub {
    pub types: BTreeMap<Kind, ResourceType>,
    objects: BTreeMap<(Kind, String, String), Value>,
    /// Kinds that cannot be listed.
    pub broken: BTreeSet<Kind>,
}

impl FakeHub {
    pub fn new() -> Self {
        let types = KINDS.iter().map(|(group, version, kind, plural, scope)| {
            let kind = Kind::new(group, version, kind);
            let plural = (*plural).to_owned();
            let (scope, watch) = (*scope, Watch::Synced);
            (kind.clone(), ResourceType { kind, plural, scope, preferred: true, watch })
        });
        Self { types: types.collect(), objects: BTreeMap::new(), broken: BTreeSet::new() }
    }

    pub fn add(&mut self, object: Value) {
        let (kind, namespace, name) = names(&object);
        assert!(self.types.contains_key(&kind), "{kind}");
        self.objects.insert((kind, namespace, name), object);
    }

    pub fn with(mut self, object: Value) -> Self {
        self.add(object);
        self
    }

    /// A namespace `app` with a config map, a secret and a role, and some strangers.
    pub fn busy() -> Self {
        Self::new()
            .with(object("v1", "Namespace", "", "app"))
            .with(object("v1", "ConfigMap", "app", "settings"))
            .with(object("v1", "Secret", "app", "password"))
            .with(object("rbac.authorization.k8s.io/v1", "Role", "app", "reader"))
            .with(object("v1", "Namespace", "", "other"))
            .with(object("v1", "ConfigMap", "other", "settings"))
            .with(object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "viewer"))
    }

    pub fn watch(&mut self, kind: &Kind, watch: Watch) {
        self.types.get_mut(kind).unwrap().watch = watch;
    }

    pub fn get_mut(&mut self, kind: &Kind, namespace: &str, name: &str) -> &mut Value {
        self.objects.get_mut(&(kind.clone(), namespace.to_owned(), name.to_owned())).unwrap()
    }
}

fn names(object: &Value) -> (Kind, String, String) {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let kind = Kind::new(group, version, object["kind"].as_str().unwrap());
    (kind, text(&metadata["namespace"]), text(&metadata["name"]))
}

impl Hub for FakeHub {
    fn look_up(&self, kind: &Kind) -> Result<&ResourceType, String> {
        self.types.get(kind).ok_or_else(|| {
            format!(r#"no matches for kind "{}" in version "{}""#, kind.kind, kind.api_version())
        })
    }

    fn watched(&self) -> Vec<&ResourceType> {
        let seen = |of: &&ResourceType| !matches!(of.watch, Watch::Unwatched { .. });
        self.types.values().filter(seen).collect()
    }

    fn get(
        &self,
        of: &ResourceType,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Cow<'_, Value>>, String> {
        if self.broken.contains(&of.kind) {
            return Err("the cache is broken".to_owned());
        }
        let namespace = namespace.unwrap_or_default().to_owned();
        let found = self.objects.get(&(of.kind.clone(), namespace, name.to_owned()));
        Ok(found.map(Cow::Borrowed))
    }

    fn list<'a>(
        &'a self,
        of: &ResourceType,
        namespace: Option<&str>,
        matching: Option<&Selector>,
    ) -> Box<dyn Iterator<Item = Result<Cow<'a, Value>, String>> + 'a> {
        if self.broken.contains(&of.kind) {
            return Box::new(std::iter::once(Err("the cache is broken".to_owned())));
        }
        let labels = |object: &Value| -> BTreeMap<String, String> {
            serde_json::from_value(object["metadata"]["labels"].clone()).unwrap_or_default()
        };
        let listed: Vec<_> = self
            .objects
            .iter()
            .filter(|((kind, place, _), _)| {
                *kind == of.kind && namespace.is_none_or(|namespace| namespace == place)
            })
            .map(|(_, object)| object)
            .filter(|object| matching.is_none_or(|selector| selector.matches(&labels(object))))
            .map(|object| Ok(Cow::Borrowed(object)))
            .collect();
        Box::new(listed.into_iter())
    }
}

/// An object with nothing but its names.
pub fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

pub fn labelled(mut object: Value, key: &str, value: &str) -> Value {
    object["metadata"]["labels"][key] = value.into();
    object
}

pub fn deleting(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    object
}

/// Selectors as written in a spec.
pub fn terms(selectors: Value) -> Vec<ResourceSelectorTerm> {
    serde_json::from_value(selectors).unwrap()
}

/// What a ClusterResourcePlacement called `web` selects.
pub fn crp(hub: &FakeHub, selectors: Value) -> Result<Selection, PassError> {
    crp_with(hub, selectors, &SelectionOptions::default())
}

pub fn crp_with(
    hub: &FakeHub,
    selectors: Value,
    options: &SelectionOptions,
) -> Result<Selection, PassError> {
    let selectors = terms(selectors);
    let who =
        Selecting { namespace: None, name: "web", selectors: &selectors, options, now: now() };
    select(hub, who)
}

/// What a ResourcePlacement `app/web` selects.
pub fn rp(hub: &FakeHub, selectors: Value) -> Result<Selection, PassError> {
    let (selectors, options) = (terms(selectors), SelectionOptions::default());
    let who = Selecting {
        namespace: Some("app"),
        name: "web",
        selectors: &selectors,
        options: &options,
        now: now(),
    };
    select(hub, who)
}

/// `Kind namespace/name`, one per resource.
pub fn listed(selection: Result<Selection, PassError>) -> Vec<String> {
    let selection = selection.unwrap_or_else(|trouble| panic!("{trouble}"));
    let line = |s: &crate::placement::selection::Selected| {
        format!("{} {}/{}", s.id.kind, s.id.namespace, s.id.name)
    };
    selection.resources.iter().map(line).collect()
}

/// The user's mistake, without its class.
pub fn mistake(selection: Result<Selection, PassError>) -> String {
    match selection {
        Err(PassError::User(cause)) => cause,
        other => panic!("not a user's mistake: {other:?}"),
    }
}
