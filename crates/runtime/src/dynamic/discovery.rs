//! Which types a server has.
//!
//! Asks for everything at once where the server can (aggregated discovery), and
//! group by group where it cannot. A part that fails is named, not fatal: types of
//! a failed group are neither known to be there nor known to be gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use flagship_api::decode;
use flagship_api::names::Scope;
use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroupList, APIResourceList, APIVersions};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::client::{Call, Client, ClientError, ResourceType};

/// A type as the server serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedType {
    /// Group, version, plural and kind.
    pub resource: ResourceType,
    /// Whether its objects live in namespaces.
    pub scope: Scope,
    /// What can be done with it, such as `list`.
    pub verbs: Vec<String>,
    /// Whether this is the version of the resource that the server prefers.
    pub preferred: bool,
}

impl ServedType {
    /// Whether its objects can be mirrored.
    pub fn can_be_watched(&self) -> bool {
        ["list", "watch"].iter().all(|needed| self.verbs.iter().any(|verb| verb == needed))
    }
}

/// What one look at a server found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    /// All types in all versions.
    pub types: BTreeMap<ResourceType, ServedType>,
    /// Groups about which nothing is known, and why. The core group is `""`.
    pub failed: BTreeMap<String, String>,
    /// Whether not even the list of groups could be read.
    pub blind: bool,
}

impl Discovered {
    /// Whether the absence of a type of this group means that it is gone.
    pub fn is_sure_about(&self, group: &str) -> bool {
        !self.failed.contains_key(group) && (group.is_empty() || !self.blind)
    }

    /// Groups that failed, and why. What measures clusters is left out: it is often down,
    /// and nothing of it is ever mirrored.
    pub fn missed(&self) -> impl Iterator<Item = (&String, &String)> {
        self.failed.iter().filter(|(group, _)| *group != "metrics.k8s.io")
    }
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
     application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

/// Looks at all groups.
pub async fn discover(client: &Client) -> Discovered {
    Arc::unwrap_or_clone(Looks::default().look(client).await)
}

/// Looks at a server again and again. Thousands of looks find what the first one found, so an
/// answer that is word for word the one before is not read again.
#[derive(Default)]
pub struct Looks {
    /// What `/api` and `/apis` said last, if they said everything.
    said: Option<(Bytes, Bytes)>,
    found: Arc<Discovered>,
}

impl Looks {
    /// Looks at all groups. What is the same as last time is the same `Arc`.
    pub async fn look(&mut self, client: &Client) -> Arc<Discovered> {
        let core = ask(client, "/api").await;
        let named = ask(client, "/apis").await;
        let said = match (&core, &named) {
            (Ok(core), Ok(named)) => Some((core.clone(), named.clone())),
            _ => None,
        };
        if said.is_none() || said != self.said {
            let (found, is_all) = read(client, core, named).await;
            (self.said, self.found) = (said.filter(|_| is_all), Arc::new(found));
        }
        self.found.clone()
    }
}

/// What the two roots say, and whether they said everything.
async fn read(
    client: &Client,
    core: Result<Bytes, ClientError>,
    named: Result<Bytes, ClientError>,
) -> (Discovered, bool) {
    let mut found = Discovered::default();
    let mut is_all = true;
    match core.and_then(|body| root::<APIVersions>("/api", &body)) {
        Ok(Root::Aggregated(groups)) => found.add_all(groups),
        Ok(Root::Plain(core)) => {
            is_all = false;
            found.ask_group(client, "", "/api", core.versions).await;
        }
        Err(error) => drop(found.failed.insert(String::new(), error.to_string())),
    }
    match named.and_then(|body| root::<APIGroupList>("/apis", &body)) {
        Ok(Root::Aggregated(groups)) => found.add_all(groups),
        Ok(Root::Plain(list)) => {
            is_all = false;
            for group in list.groups {
                // The preferred version first, as aggregated discovery has it.
                let preferred = group.preferred_version.map(|version| version.version);
                let others = group.versions.into_iter().map(|version| version.version);
                let others: Vec<_> = others.filter(|v| Some(v) != preferred.as_ref()).collect();
                let versions = preferred.into_iter().chain(others).collect();
                let path = format!("/apis/{}", group.name);
                found.ask_group(client, &group.name, &path, versions).await;
            }
        }
        Err(error) => {
            tracing::warn!(%error, "cannot read which groups there are");
            found.blind = true;
        }
    }
    (found, is_all)
}

enum Root<T> {
    Aggregated(Groups),
    Plain(T),
}

/// Groups that could be read, and the problems of those that could not.
struct Groups {
    groups: Vec<Group>,
    failed: Vec<(String, String)>,
}

async fn ask(client: &Client, path: &str) -> Result<Bytes, ClientError> {
    client.ask(call(path, AGGREGATED)).await
}

fn root<T: DeserializeOwned>(path: &str, body: &[u8]) -> Result<Root<T>, ClientError> {
    #[derive(Deserialize)]
    struct Which {
        kind: String,
    }
    let which: Option<Which> = serde_json::from_slice(body).ok();
    if which.is_some_and(|which| which.kind == "APIGroupDiscoveryList") {
        let list = decode::decode_list(body).map_err(|error| unreadable(path, &error))?;
        let failed = list.errors.into_iter().map(|error| {
            let group = error.object.key.as_ref().map_or(String::new(), |key| key.name.clone());
            (group, error.to_string())
        });
        return Ok(Root::Aggregated(Groups { groups: list.items, failed: failed.collect() }));
    }
    serde_json::from_slice(body).map(Root::Plain).map_err(|error| unreadable(path, &error))
}

fn call<'a>(path: &str, accept: &'a str) -> Call<'a> {
    let object = format!("discovery of {path}");
    Call { method: Method::GET, path: path.to_owned(), accept, content: None, object }
}

fn unreadable(path: &str, error: &impl std::fmt::Display) -> ClientError {
    let object = format!("discovery of {path}");
    ClientError::Unreachable { object, source: error.to_string().into() }
}

impl Discovered {
    fn add_all(&mut self, groups: Groups) {
        self.failed.extend(groups.failed);
        for group in groups.groups {
            let name = group.metadata.name.unwrap_or_default();
            let mut seen = BTreeSet::new();
            for version in group.versions {
                if version.freshness.as_deref() == Some("Stale") {
                    let why = format!("{} of the group is stale", version.version);
                    self.failed.insert(name.clone(), why);
                }
                for found in version.resources {
                    // A resource without a kind of its own is a mere subresource holder.
                    let Some(kind) = found.response_kind.map(|kind| kind.kind) else { continue };
                    let (group, version) = (name.clone(), version.version.clone());
                    let resource = ResourceType { group, version, plural: found.resource, kind };
                    self.add(resource, found.scope == "Namespaced", found.verbs, &mut seen);
                }
            }
        }
    }

    async fn ask_group(&mut self, client: &Client, group: &str, path: &str, versions: Vec<String>) {
        let mut seen = BTreeSet::new();
        for version in versions {
            let path = format!("{path}/{version}");
            let list: Result<APIResourceList, _> =
                match client.ask(call(&path, "application/json")).await {
                    Ok(body) => {
                        serde_json::from_slice(&body).map_err(|error| unreadable(&path, &error))
                    }
                    Err(error) => Err(error),
                };
            match list {
                Ok(list) => {
                    for found in list.resources {
                        let (group, version) = (group.to_owned(), version.clone());
                        let (plural, kind) = (found.name, found.kind);
                        let resource = ResourceType { group, version, plural, kind };
                        self.add(resource, found.namespaced, found.verbs, &mut seen);
                    }
                }
                Err(error) => drop(self.failed.insert(group.to_owned(), error.to_string())),
            }
        }
    }

    /// `seen` has the resources that a better version of the group serves.
    fn add(
        &mut self,
        resource: ResourceType,
        namespaced: bool,
        verbs: Vec<String>,
        seen: &mut BTreeSet<String>,
    ) {
        if resource.plural.contains('/') {
            return;
        }
        let preferred = seen.insert(resource.plural.clone());
        let scope = if namespaced { Scope::Namespaced } else { Scope::Cluster };
        let found = ServedType { resource: resource.clone(), scope, verbs, preferred };
        self.types.insert(resource, found);
    }
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: GroupMeta,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
struct GroupMeta {
    #[serde(default)]
    name: Option<String>,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    freshness: Option<String>,
    #[serde(default)]
    resources: Vec<Found>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    resource: String,
    #[serde(default)]
    response_kind: Option<FoundKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct FoundKind {
    kind: String,
}
