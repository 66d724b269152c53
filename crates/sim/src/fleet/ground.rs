//! A server on which clusters begin with our definitions, compiled once for all of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use flagship_api::kinds::KindInfo;
use flagship_api::names::SYSTEM_NAMESPACE;
use flagship_api::work::AppliedWork;
use flagship_apiserver::rest::{ClusterHandle, Server};
use flagship_runtime::client::ResourceType;
use flagship_store::env::Env as ServerEnv;
use flagship_store::{Change, Encoded, Expect, Head, Limits, ObjectKey, Scope, Store, Write};
use futures::FutureExt;
use serde_json::{Value, json};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// A server, and the definitions its clusters begin with. Clones share it.
#[derive(Clone)]
pub struct Ground(Arc<Shared>);

struct Shared {
    server: Server,
    /// Definitions as a server that accepted them stores them.
    accepted: OnceLock<Vec<Value>>,
}

/// All simulated fleets of a process stand on one server.
static SHARED: LazyLock<Ground> = LazyLock::new(|| Ground::new(ServerEnv::simulated(0)));
static FLEETS: AtomicU64 = AtomicU64::new(0);

impl Ground {
    /// A server without clusters.
    pub fn new(env: ServerEnv) -> Self {
        let shared = Shared { server: Server::new(env), accepted: OnceLock::new() };
        Self(Arc::new(shared))
    }

    /// The server of the process, and a prefix that no other fleet on it has.
    pub(super) fn shared() -> (Self, String) {
        let number = FLEETS.fetch_add(1, Ordering::Relaxed);
        (SHARED.clone(), format!("fleet{number}-"))
    }

    /// The server itself, for those who give it a socket.
    pub fn server(&self) -> &Server {
        &self.0.server
    }

    /// A cluster that knows every kind of ours.
    pub(super) fn hub(&self, name: &str, env: ServerEnv) -> ClusterHandle {
        let handle = self.cluster(name, env, |_| true);
        let namespace = json!({"metadata": {"name": SYSTEM_NAMESPACE}});
        let user = handle.local("kube-apiserver");
        let made = user.create("namespaces", "", namespace).now_or_never();
        made.expect("nothing makes it wait").expect("a new cluster takes a namespace");
        handle
    }

    /// A cluster that knows what a member must know.
    pub(super) fn member(&self, name: &str, env: ServerEnv) -> ClusterHandle {
        let applied = ResourceType::of::<AppliedWork>();
        let needed = format!("{}.{}", applied.plural, applied.group);
        self.cluster(name, env, |definition| definition == needed)
    }

    fn cluster(&self, name: &str, env: ServerEnv, wanted: impl Fn(&str) -> bool) -> ClusterHandle {
        let store = Store::new(env, Limits::default());
        for definition in self.0.accepted.get_or_init(|| self.accept()) {
            let named = definition["metadata"]["name"].as_str().unwrap_or_default();
            if wanted(named) {
                put(&store, named, definition);
            }
        }
        self.0.server.add_cluster_with(name, store)
    }

    pub(super) fn remove(&self, name: &str) {
        self.0.server.remove_cluster(name);
    }

    /// Creates all definitions on a cluster of their own, which is left standing: as long
    /// as it does, what was compiled for it is shared. Waits for nothing, so that a fleet
    /// is built in the same steps whether it is the first one or not.
    fn accept(&self) -> Vec<Value> {
        let keeper = self.0.server.add_cluster("definitions");
        let user = keeper.local("kube-apiserver");
        for info in flagship_api::kinds::all() {
            let definition = flagship_api::crd::definition(info);
            let made = user.create(DEFINITIONS, "", definition).now_or_never();
            let made = made.expect("an undisturbed server in this process answers at once");
            made.unwrap_or_else(|error| panic!("{}: {error:?}", KindInfo::crd_name(info)));
        }
        let stored = keeper.store().list(DEFINITIONS, Scope::All).items;
        let read = |json: &[u8]| serde_json::from_slice(json).expect("a stored object is JSON");
        stored.iter().map(|stored| read(&stored.json)).collect()
    }
}

/// Writes a definition that was accepted elsewhere past every check.
fn put(store: &Store, name: &str, definition: &Value) {
    let (head, json) = (Head::of(definition, Default::default()), Encoded::new(definition));
    let change = Change::Put { head, json };
    let key = ObjectKey::new("", name);
    let resource = DEFINITIONS.into();
    store
        .commit(Write { resource: &resource, key, expect: Expect::Absent, change })
        .expect("the store is new and the key is not taken");
}
