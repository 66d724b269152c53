//! One logical cluster and the handle that everyone uses it through.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use flagship_base::machinery::status::ApiError;
use flagship_store::env::{Call, Env, Point};
use flagship_store::{ObjectKey, Store};
use http::HeaderMap;
use http::header::ACCEPT;
use serde_json::Value;

use super::admission::Admission;
use super::certificates::Signer;
use super::dynamic_admission;
use super::events;
use super::failure::Failure;
use super::local::Local;
use super::metrics;
use super::server::Shared;
use super::taken::Taken;
use crate::auth::accounts::Keyring;
use crate::auth::{RequestAttributes, User, group, rbac};
use crate::registry::{Registry, Served};

/// The objects and kinds of one cluster.
pub(crate) struct Cluster {
    pub(super) name: Arc<str>,
    pub(super) store: Arc<Store>,
    pub(super) registry: Registry,
    pub(super) env: Env,
    pub(super) shared: Arc<Shared>,
    /// Held while a service is committed, so that no two get the same address, and while a
    /// hook has the last word.
    pub(super) allocating: Mutex<Taken>,
    /// When its Events were written.
    pub(super) events: Mutex<events::Written>,
    /// Hooks of this cluster alone, by name.
    pub(super) hooks: RwLock<BTreeMap<&'static str, Arc<dyn Admission>>>,
    /// Read while an object is committed, written while a kind changes or goes.
    pub(super) serving: RwLock<()>,
    /// The server has no cluster like this any more; handles may still be held.
    pub(super) removed: AtomicBool,
    /// Roles and bindings, compiled.
    pub(super) policy: rbac::Cache,
    /// Webhooks and admission policies, compiled.
    pub(super) dynamic_admission: dynamic_admission::Cache,
    /// Whether the cluster has what people expect of one.
    pub(super) furnished: AtomicBool,
    /// The key that signs tokens of service accounts.
    pub(super) keyring: Keyring,
    /// Who signs the server's certificate, once that is known, and those of its users.
    pub(super) authority: OnceLock<Arc<dyn Signer>>,
    /// What came over the network so far.
    pub(super) counts: metrics::Counts,
}

/// One logical cluster: a `tower::Service`, and the way to its in-process API.
#[derive(Clone)]
pub struct ClusterHandle {
    pub(super) cluster: Arc<Cluster>,
    /// Who the requests of this handle come from when they do not say.
    pub(super) caller: Arc<Caller>,
}

/// Who a request comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user, or the controller inside the process; faults and traces know it by this.
    pub name: Arc<str>,
    /// Groups of the user.
    pub groups: Vec<Arc<str>>,
    /// Identifies the user beyond its name; mostly empty.
    pub uid: Arc<str>,
    /// What else is known of the user, by key.
    pub extra: BTreeMap<String, Vec<String>>,
    /// Owner of the fields it writes, unless the request names one.
    pub manager: Arc<str>,
    /// Whether webhooks and admission policies that users made are not asked about its writes.
    pub(super) unguarded: bool,
}

impl Caller {
    /// A caller inside the process, whose fields are its own. It is trusted.
    pub fn named(name: &str) -> Self {
        let name: Arc<str> = name.into();
        Self {
            manager: name.clone(),
            name,
            groups: vec![group::MASTERS.into()],
            uid: "".into(),
            extra: BTreeMap::new(),
            unguarded: false,
        }
    }

    /// The user behind it.
    pub fn user(&self) -> User {
        let Self { name, groups, uid, extra, .. } = self.clone();
        User { name, uid, groups, extra }
    }
}

impl Cluster {
    /// See [`ClusterHandle::identity`].
    pub(super) fn identity(&self) -> String {
        let system = self.store.get("namespaces", &ObjectKey::new("", "kube-system"));
        let uid = system.map(|system| system.head.uid.to_string()).unwrap_or_default();
        format!("{}:{uid}", self.name)
    }
}

impl ClusterHandle {
    /// The name the cluster was added under.
    pub fn name(&self) -> &str {
        &self.cluster.name
    }

    /// How many bytes the object has that a request would change or show in another form, for
    /// whoever must know what that costs; nothing for requests that do neither.
    pub fn reads_through(&self, ask: &RequestAttributes, headers: &HeaderMap) -> usize {
        let RequestAttributes::Resource { verb, at } = ask else { return 0 };
        let shown_anew = || {
            let mut forms = headers.get_all(ACCEPT).iter().filter_map(|one| one.to_str().ok());
            forms.any(|form| form.contains("as=") || form.contains("yaml"))
        };
        let read = match verb.as_str() {
            "update" | "patch" | "delete" => true,
            "get" => shown_anew(),
            _ => false,
        };
        if !read {
            return 0;
        }
        let Some(served) = self.cluster.registry.find(&at.group, &at.version, &at.resource) else {
            return 0;
        };
        let namespace = at.namespace.as_deref().filter(|_| served.kind.namespaced);
        let name = at.name.as_deref().unwrap_or_default();
        let key = ObjectKey::new(namespace.unwrap_or_default(), name);
        self.cluster.store.get(&served.kind.resource, &key).map_or(0, |stored| stored.json.len())
    }

    /// What tells the cluster from others, also from one of the same name that was there
    /// before: its name, and the UID of its namespace `kube-system`, which nobody can delete.
    pub fn identity(&self) -> String {
        self.cluster.identity()
    }

    /// The same cluster for another caller; simulators name their clients with this.
    #[must_use]
    pub fn called_by(&self, name: &str) -> Self {
        Self { cluster: self.cluster.clone(), caller: Arc::new(self.caller_named(name)) }
    }

    /// The same cluster for whoever sets it up: webhooks and admission policies that users made
    /// are not asked. One that refuses everything would otherwise keep a server from starting,
    /// and without the server nobody could remove it.
    #[must_use]
    pub fn unguarded(&self) -> Self {
        let caller = Caller { unguarded: true, ..Caller::clone(&self.caller) };
        Self { cluster: self.cluster.clone(), caller: Arc::new(caller) }
    }

    fn caller_named(&self, name: &str) -> Caller {
        Caller { unguarded: self.caller.unguarded, ..Caller::named(name) }
    }

    /// The in-process API, for a controller of this name.
    pub fn local(&self, actor: &str) -> Local {
        Local::new(self.cluster.clone(), self.caller_named(actor))
    }

    /// The in-process API for a user whom hooks, webhooks and policies know by these groups, and
    /// not as somebody of this process. Nobody asks whether the user may.
    pub fn local_as(&self, user: &str, groups: &[&str]) -> Local {
        let groups = groups.iter().map(|group| (*group).into()).collect();
        Local::new(self.cluster.clone(), Caller { groups, ..self.caller_named(user) })
    }

    /// Adds a hook that sees every write to this cluster, after those of the server. One of
    /// the same name is replaced.
    pub fn install_admission(&self, name: &'static str, hook: Arc<dyn Admission>) {
        let mut hooks = self.cluster.hooks.write().unwrap_or_else(PoisonError::into_inner);
        hooks.insert(name, hook);
    }

    /// The objects themselves, for those who persist, inspect or disturb them.
    pub fn store(&self) -> &Arc<Store> {
        &self.cluster.store
    }

    /// The kinds the cluster serves.
    pub fn registry(&self) -> &Registry {
        &self.cluster.registry
    }

    /// What the cluster gets from outside itself.
    pub fn env(&self) -> &Env {
        &self.cluster.env
    }
}

/// A resolved place: a kind, a namespace and maybe a name.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(super) served: Served,
    /// Empty for cluster-scoped kinds, and for requests across namespaces.
    pub(super) namespace: Arc<str>,
    /// Empty for collections.
    pub(super) name: Arc<str>,
}

impl Place {
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey { namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// `plural.group`, for messages.
    pub(super) fn qualified(&self) -> String {
        self.served.kind.qualified(self.served.version)
    }

    pub(super) fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.qualified(), &self.name)
    }
}

/// A request under way: who, what, where.
pub(crate) struct Ctx<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) caller: &'a Caller,
    pub(super) verb: &'static str,
    pub(super) place: &'a Place,
}

impl Ctx<'_> {
    pub(super) fn call(&self) -> Call<'_> {
        Call {
            cluster: &self.cluster.name,
            who: &self.caller.name,
            verb: self.verb,
            resource: &self.place.served.kind.resource,
            namespace: &self.place.namespace,
            name: &self.place.name,
        }
    }

    /// Takes the request past a fault point.
    pub(super) async fn pass(&self, point: Point) -> Result<(), Failure> {
        let env = &self.cluster.env;
        if env.faults.is_quiet() {
            return Ok(());
        }
        env.pass(point, &self.call()).await.map_err(Failure::from)
    }

    /// Notes the outcome in the trace.
    pub(super) fn record(&self, revision: u64, code: u16) {
        self.cluster.env.record(&self.call(), revision, code);
    }
}

impl Cluster {
    /// The present moment as `metadata` writes it.
    pub(super) fn now(&self) -> String {
        flagship_base::machinery::time::seconds(self.env.clock.now())
    }

    /// Ends every watch, and fails whatever comes through a handle that is still held.
    pub(super) fn close(&self) {
        self.removed.store(true, Ordering::Release);
        self.store.close();
    }

    /// Refuses to go on when the cluster was removed or replaced.
    pub(super) fn check_open(&self) -> Result<(), ApiError> {
        if !self.removed.load(Ordering::Acquire) {
            return Ok(());
        }
        let says = format!("the cluster {:?} behind this handle was removed", self.name);
        Err(ApiError::new(503, "ServiceUnavailable", says))
    }

    /// The hooks of the server, then those of this cluster in the order of their names.
    pub(super) fn admission(&self) -> Arc<[Arc<dyn Admission>]> {
        let own = self.hooks.read().unwrap_or_else(PoisonError::into_inner);
        if own.is_empty() {
            return self.shared.admission();
        }
        self.shared.admission().iter().chain(own.values()).cloned().collect()
    }

    /// A stored object as a value, for kinds the server itself acts upon.
    pub(super) fn read(&self, resource: &str, key: &ObjectKey) -> Option<Value> {
        let stored = self.store.get(resource, key)?;
        serde_json::from_slice(&stored.json).ok()
    }
}
