//! What the member has to offer, kept at hand by watching its nodes and pods.
//!
//! Watching costs less than listing every pod once a heartbeat, and sees all of them.
//! Sums are made in `flagship_rules::properties`.

mod provider;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use flagship_rules::properties::{self, Amounts, Collected, Namespace, Node, Observed};
use flagship_runtime::client::Selection;
use flagship_runtime::effects::Kind;
use flagship_runtime::reflector::{Reflector, Store, Subscription};
use k8s_openapi::api::core::v1 as core;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::member::Context;
pub(crate) use provider::Guarded;
pub use provider::Provider;

/// Pods that take room.
const TAKING_ROOM: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";

/// How long the first heartbeat waits for the first lists.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the version of the server is believed.
const VERSION_AGE: Duration = Duration::from_secs(15 * 60);

/// Collects what the member has to offer.
pub(crate) struct Collector {
    cx: Context,
    nodes: Store<Node>,
    pods: Store<Amounts>,
    namespaces: Option<Store<Namespace>>,
    version: Mutex<Option<(String, Instant)>>,
    patience_ends: Instant,
}

impl Collector {
    pub fn new(cx: &Context, tasks: &mut JoinSet<()>) -> Self {
        let busy = Selection::all().with_fields(TAKING_ROOM);
        let nodes = mirror(cx, tasks, Selection::all(), |node: core::Node| Some(Node::read(&node)));
        let pods = mirror(cx, tasks, busy, |pod: core::Pod| Amounts::of_pod(&pod));
        let namespaces = cx.options.collect_namespaces.then(|| {
            mirror(cx, tasks, Selection::all(), |space: core::Namespace| Namespace::read(&space))
        });
        let patience_ends = Instant::now() + PATIENCE;
        Self { cx: cx.clone(), nodes, pods, namespaces, version: Mutex::default(), patience_ends }
    }

    /// Tells when the namespaces that are reported may have changed.
    pub fn on_namespaces(&self, tell: impl Fn() + Send + 'static) -> Option<Subscription> {
        let namespaces = self.namespaces.as_ref()?;
        Some(namespaces.subscribe(move |change| {
            if change.old.as_deref() != change.new.as_deref() {
                tell();
            }
        }))
    }

    /// What is so now; `None` while the member cannot be listed.
    pub async fn collect(&self) -> Option<Collected> {
        let synced = async {
            self.nodes.synced().await;
            self.pods.synced().await;
            if let Some(namespaces) = &self.namespaces {
                namespaces.synced().await;
            }
        };
        tokio::time::timeout_at(self.patience_ends.max(Instant::now()), synced).await.ok()?;
        let version = self.version().await;
        let (nodes, pods) = (self.nodes.all(), self.pods.all());
        let namespaces = self.namespaces.as_ref().map(Store::all);
        Some(properties::collect(&Observed {
            now: self.cx.env.now(),
            version: version.as_deref(),
            nodes: nodes.iter().map(|(_, node)| node.as_ref()).collect(),
            pods: pods.iter().map(|(_, pod)| pod.as_ref()).collect(),
            namespaces: namespaces.as_ref().map(|all| {
                all.iter().map(|(key, space)| (key.name.as_str(), space.as_ref())).collect()
            }),
        }))
    }

    /// The version of the server, asked for now and then. An old answer beats none.
    async fn version(&self) -> Option<String> {
        let known = self.version.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((version, asked)) = &known
            && asked.elapsed() < VERSION_AGE
        {
            return Some(version.clone());
        }
        match self.cx.member.version().await {
            Ok(version) => {
                let asked = Some((version.clone(), Instant::now()));
                *self.version.lock().unwrap_or_else(PoisonError::into_inner) = asked;
                Some(version)
            }
            Err(error) => {
                tracing::warn!(%error, "the member does not tell its version");
                known.map(|(version, _)| version)
            }
        }
    }
}

fn mirror<K, V>(
    cx: &Context,
    tasks: &mut JoinSet<()>,
    selection: Selection,
    project: impl Fn(K) -> Option<V> + Send + Sync + 'static,
) -> Store<V>
where
    K: Kind + Send + 'static,
    V: Send + Sync + 'static,
{
    let reflector = Reflector::new(&cx.env, cx.member.of::<K>(), selection, project);
    let store = reflector.store();
    tasks.spawn(reflector.run());
    store
}
