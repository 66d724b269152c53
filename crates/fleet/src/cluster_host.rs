//! The API server that the clusters of a fleet stand on, and how a cluster gets our
//! definitions.
//!
//! Definitions are built, checked and compiled once per server. A cluster that lacks one
//! gets a copy of what was accepted; one that a restart brings back in an older form is
//! updated through the API, so that the server checks the change as any other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use flagship_api::kinds::KindInfo;
use flagship_api::names::SYSTEM_NAMESPACE;
use flagship_api::work::AppliedWork;
use flagship_apiserver::rest::{ClusterHandle, Server};
use flagship_runtime::client::ResourceType;
use flagship_store::durable::Durable;
use flagship_store::env::Env as ServerEnv;
use flagship_store::{
    Change, Encoded, Expect, Head, Limits, ObjectKey, Scope, Store, Stored, Write,
};
use futures::FutureExt;
use serde_json::{Value, json};

use crate::FleetError;

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Who installs definitions and the system namespace, as servers see it.
const INSTALLER: &str = "flagship-installer";

/// Where clusters keep their objects.
#[derive(Clone)]
pub enum Storage {
    /// In memory, gone with the process.
    Ephemeral,
    /// In a file, from which a restart takes them up again.
    Durable(Durable),
}

/// A server, and the definitions its clusters begin with. Clones share it.
#[derive(Clone)]
pub struct ClusterHost(Arc<Shared>);

struct Shared {
    server: Server,
    storage: Storage,
    accepted: OnceLock<Accepted>,
}

/// Definitions as a server that accepted them stores them.
struct Accepted {
    definitions: Vec<Definition>,
    /// As long as this cluster lives, what was compiled for it is shared with all others.
    _keeper: ClusterHandle,
}

struct Definition {
    name: String,
    object: Value,
    head: Head,
    json: Encoded,
}

/// All simulated fleets of a process stand on one server.
static SHARED: LazyLock<ClusterHost> =
    LazyLock::new(|| ClusterHost::new(ServerEnv::simulated(0), Storage::Ephemeral));
static FLEETS: AtomicU64 = AtomicU64::new(0);

impl ClusterHost {
    /// A server without clusters.
    pub fn new(env: ServerEnv, storage: Storage) -> Self {
        let server = Server::new(env);
        Self(Arc::new(Shared { server, storage, accepted: OnceLock::new() }))
    }

    /// The server that simulated fleets of this process share, and a prefix for the names
    /// of clusters that no other fleet on it has.
    pub fn shared() -> (Self, String) {
        let number = FLEETS.fetch_add(1, Ordering::Relaxed);
        (SHARED.clone(), format!("fleet{number}-"))
    }

    /// The server itself.
    pub fn server(&self) -> &Server {
        &self.0.server
    }

    /// A cluster that knows every kind of ours.
    pub(crate) async fn hub(
        &self,
        name: &str,
        env: ServerEnv,
        limits: Limits,
    ) -> Result<ClusterHandle, FleetError> {
        let handle = self.cluster(name, env, limits, |_| true).await?;
        let key = ObjectKey::new("", SYSTEM_NAMESPACE);
        if handle.store().get("namespaces", &key).is_none() {
            let namespace = json!({"metadata": {"name": SYSTEM_NAMESPACE}});
            let made =
                handle.unguarded().local(INSTALLER).create("namespaces", "", namespace).await;
            made.map_err(|error| FleetError::Namespace {
                name: SYSTEM_NAMESPACE,
                reason: format!("{error:?}"),
            })?;
        }
        Ok(handle)
    }

    /// A cluster that knows what a member must know.
    pub(crate) async fn member(
        &self,
        name: &str,
        env: ServerEnv,
        limits: Limits,
    ) -> Result<ClusterHandle, FleetError> {
        let applied = ResourceType::of::<AppliedWork>();
        let needed = format!("{}.{}", applied.plural, applied.group);
        self.cluster(name, env, limits, |definition| definition == needed).await
    }

    async fn cluster(
        &self,
        name: &str,
        env: ServerEnv,
        limits: Limits,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<ClusterHandle, FleetError> {
        let store = match &self.0.storage {
            Storage::Ephemeral => Store::new(env, limits),
            Storage::Durable(durable) => durable.store(name, env, limits)?,
        };
        let mut outdated = Vec::new();
        for definition in &self.0.accepted.get_or_init(|| self.accept()).definitions {
            if !wanted(&definition.name) {
                continue;
            }
            match store.get(DEFINITIONS, &ObjectKey::new("", &*definition.name)) {
                None => put(&store, definition)?,
                Some(stored) => {
                    let present: Value = serde_json::from_slice(&stored.json).unwrap_or_default();
                    if present["spec"] != definition.object["spec"] {
                        outdated.push((present, definition));
                    }
                }
            }
        }
        let handle = self.0.server.add_cluster_with(name, store);
        for (mut present, Definition { name, object, .. }) in outdated {
            present["spec"] = object["spec"].clone();
            let updated = handle.unguarded().local(INSTALLER).update(DEFINITIONS, present).await;
            // Somebody changed it so that ours does not fit any more. Whoever has to repair that
            // needs the API.
            if let Err(error) = updated {
                tracing::warn!("the definition {name} is not as it should be: {}", error.message);
            }
        }
        Ok(handle)
    }

    pub(crate) fn remove(&self, name: &str) {
        self.0.server.remove_cluster(name);
    }

    /// Lets everything that was taken on reach the disk, if there is one.
    pub(crate) fn close_storage(&self) -> Result<(), String> {
        match &self.0.storage {
            Storage::Ephemeral => Ok(()),
            Storage::Durable(durable) => durable.close(),
        }
    }

    /// Creates all definitions on a cluster of their own, which clients of the server do not
    /// see. Waits for nothing, so that a fleet is built in the same steps whether it is the
    /// first one or not.
    fn accept(&self) -> Accepted {
        // No cluster of a fleet may be called so.
        const KEEPER: &str = "-definitions";
        let keeper = self.0.server.add_cluster(KEEPER);
        let user = keeper.local(INSTALLER);
        use flagship_api::kinds;
        for info in kinds::all().iter().chain(kinds::policies()) {
            let definition = flagship_api::crd::definition(info);
            let made = user.create(DEFINITIONS, "", definition).now_or_never();
            let made = made.expect("an undisturbed server in this process answers at once");
            made.unwrap_or_else(|error| panic!("{}: {error:?}", KindInfo::crd_name(info)));
        }
        let stored = keeper.store().list(DEFINITIONS, Scope::All).items;
        let read = |stored: &Stored| Definition {
            name: stored.key.name.to_string(),
            object: serde_json::from_slice(&stored.json).expect("a stored object is JSON"),
            head: stored.head.clone(),
            json: Encoded::stored(&stored.json),
        };
        let definitions = stored.iter().map(|stored| read(stored)).collect();
        self.0.server.remove_cluster(KEEPER);
        Accepted { definitions, _keeper: keeper }
    }
}

/// Writes a definition that was accepted elsewhere past every check.
fn put(store: &Store, definition: &Definition) -> Result<(), FleetError> {
    let Definition { name, head, json, .. } = definition;
    let change = Change::Put { head: head.clone(), json: json.clone() };
    let key = ObjectKey::new("", &**name);
    let resource = DEFINITIONS.into();
    let done = store.commit(Write { resource: &resource, key, expect: Expect::Absent, change });
    done.map(drop).map_err(|error| FleetError::definition(name, error.to_string()))
}
