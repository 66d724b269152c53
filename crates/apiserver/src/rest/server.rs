//! Many clusters in one process.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use flagship_store::env::Env;
use flagship_store::{Limits, Store};
use serde_json::{Value, json};

use super::admission::Admission;
use super::cluster::{Caller, Cluster, ClusterHandle};
use super::{crd, write};
use crate::openapi;
use crate::registry::{Library, Registry};

/// The namespaces every cluster begins with.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// A set of logical clusters that share compiled schemas and admission hooks.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
}

/// What all clusters have in common.
pub(crate) struct Shared {
    env: Env,
    pub(super) library: Library,
    pub(super) documents: openapi::Cache,
    clusters: RwLock<BTreeMap<Arc<str>, ClusterHandle>>,
    admission: RwLock<Arc<[Arc<dyn Admission>]>>,
}

impl Shared {
    pub(super) fn admission(&self) -> Arc<[Arc<dyn Admission>]> {
        self.admission.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The service under which pods find the server.
fn front_door() -> Value {
    json!({
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.96.0.1",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    })
}

impl Server {
    /// A server without clusters.
    pub fn new(env: Env) -> Self {
        let shared = Shared {
            env,
            library: Library::default(),
            documents: openapi::Cache::default(),
            clusters: RwLock::default(),
            admission: RwLock::new(Arc::new([])),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Adds a hook that sees every write to every cluster, after those added before.
    pub fn add_admission(&self, hook: Arc<dyn Admission>) {
        let mut hooks = self.shared.admission.write().unwrap_or_else(PoisonError::into_inner);
        *hooks = hooks.iter().cloned().chain([hook]).collect();
    }

    /// Adds a cluster with its first namespaces and the service `default/kubernetes`. A cluster of the same name is replaced,
    /// as if it had been wiped: new objects, new uids, its watches end, and requests through
    /// its handles fail.
    pub fn add_cluster(&self, name: &str) -> ClusterHandle {
        self.add_cluster_with(name, Store::new(self.shared.env.clone(), Limits::default()))
    }

    /// Adds a cluster over a store, which may have limits and a clock of its own, and may
    /// hold objects already.
    pub fn add_cluster_with(&self, name: &str, store: Arc<Store>) -> ClusterHandle {
        let env = store.env().clone();
        let name: Arc<str> = name.into();
        let cluster = Cluster {
            name: name.clone(),
            store,
            registry: Registry::default(),
            env,
            shared: self.shared.clone(),
            allocating: Mutex::default(),
            events: Mutex::default(),
            hooks: RwLock::default(),
            serving: RwLock::default(),
            removed: AtomicBool::default(),
            policy: Default::default(),
            dynamic_admission: Default::default(),
            furnished: AtomicBool::default(),
            keyring: Default::default(),
            authority: OnceLock::new(),
            counts: Default::default(),
        };
        crd::load(&cluster);
        let system = Caller::named("kube-apiserver");
        for namespace in NAMESPACES {
            let object = json!({"metadata": {"name": namespace}});
            write::seed(&cluster, &system, "namespaces", object);
        }
        write::seed(&cluster, &system, "services", front_door());
        let handle = ClusterHandle {
            cluster: Arc::new(cluster),
            caller: Arc::new(Caller { manager: "unknown".into(), ..Caller::named("anonymous") }),
        };
        let mut clusters = self.shared.clusters.write().unwrap_or_else(PoisonError::into_inner);
        let replaced = clusters.insert(name, handle.clone());
        drop(clusters);
        if let Some(replaced) = replaced {
            replaced.cluster.close();
        }
        handle
    }

    /// The cluster of this name.
    pub fn cluster(&self, name: &str) -> Option<ClusterHandle> {
        self.shared.clusters.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The names of all clusters, sorted.
    pub fn clusters(&self) -> Vec<Arc<str>> {
        let clusters = self.shared.clusters.read().unwrap_or_else(PoisonError::into_inner);
        clusters.keys().cloned().collect()
    }

    /// Removes a cluster and ends its watches. Whether there was one.
    pub fn remove_cluster(&self, name: &str) -> bool {
        let mut clusters = self.shared.clusters.write().unwrap_or_else(PoisonError::into_inner);
        let removed = clusters.remove(name);
        drop(clusters);
        if let Some(handle) = &removed {
            handle.cluster.close();
        }
        removed.is_some()
    }

    /// How often a definition was compiled so far, for diagnosis.
    pub fn compilations(&self) -> u64 {
        self.shared.library.compilations()
    }

    /// How many compiled custom kinds are in use; equal definitions count once.
    pub fn compiled_kinds(&self) -> usize {
        self.shared.library.len()
    }
}
