//! Mirrors every type that a server has, as types come and go.
//!
//! Discovery runs every 30 seconds and at once when a CustomResourceDefinition
//! changes. Each type that can be watched, in the version the server prefers, gets
//! a reflector of its own, and keeps it while it is served, preferred or not: somebody
//! may have named that version. A type is given up only after three looks in a row that
//! were sure about its group and did not find it: one bad answer of an aggregated
//! API must not look like the deletion of everything in it.
//!
//! [`Registry`] is what others read. What a single reflector does is in
//! [`crate::reflector`], how types are found in [`discover`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flagship_base::backoff::Backoff;
use kube::core::{DynamicObject, PartialObjectMeta};
use serde::de::DeserializeOwned;
use tokio::task::{AbortHandle, JoinSet};

use crate::client::{Client, ResourceType, Selection};
use crate::env::Env;
use crate::reflector::{Reflector, ReflectorConfig};

mod discovery;
mod registry;
#[cfg(test)]
mod tests;

pub use discovery::{Discovered, Looks, ServedType, discover};
pub use registry::{DynamicSubscription, Readiness, Registry};

/// How the mirror of all types behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DynamicConfig {
    /// Pause between looks.
    pub every: Duration,
    /// Looks in a row that must miss a type before it is given up.
    pub absences: u32,
    /// Whether only metadata is asked for.
    pub metadata_only: bool,
    /// How each reflector behaves.
    pub reflector: ReflectorConfig,
}

impl Default for DynamicConfig {
    fn default() -> Self {
        Self {
            every: Duration::from_secs(30),
            absences: 3,
            metadata_only: false,
            reflector: ReflectorConfig::default(),
        }
    }
}

/// A server may need a moment to serve what a definition just established.
const SECOND_LOOK: Duration = Duration::from_secs(2);

/// After the first look that found nothing at all, and doubled after each that follows.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// What is kept of an object of a type.
type Project<K, V> = dyn Fn(&ServedType, K) -> Option<V> + Send + Sync;

/// Mirrors all wanted types of a server, objects read as `K`, kept as `V`.
pub struct Dynamic<V, K = DynamicObject> {
    client: Client,
    env: Env,
    config: DynamicConfig,
    wanted: Box<dyn Fn(&ServedType) -> bool + Send + Sync>,
    project: Arc<Project<K, V>>,
    registry: Registry<V>,
}

impl<V, K> Dynamic<V, K>
where
    V: Send + Sync + 'static,
    K: kube::Resource + DeserializeOwned + 'static,
{
    /// `wanted` picks types, `project` keeps what rules read of their objects.
    pub fn new(
        client: &Client,
        env: &Env,
        config: DynamicConfig,
        wanted: impl Fn(&ServedType) -> bool + Send + Sync + 'static,
        project: impl Fn(&ServedType, K) -> Option<V> + Send + Sync + 'static,
    ) -> Self {
        Self {
            client: client.clone(),
            env: env.clone(),
            config,
            wanted: Box::new(wanted),
            project: Arc::new(project),
            registry: Registry::new(),
        }
    }

    /// What is known of the types, and where their objects are.
    pub fn registry(&self) -> Registry<V> {
        self.registry.clone()
    }

    /// Mirrors until it is dropped.
    pub async fn run(self) {
        let mut tasks = JoinSet::new();
        let mut running = BTreeMap::new();
        tasks.spawn(self.watch_definitions());
        let mut failures = 0u32;
        let mut asked = false;
        let (mut looks, mut last) = (Looks::default(), None);
        loop {
            let found = looks.look(&self.client).await;
            let is_new = last.as_ref().is_none_or(|last| !Arc::ptr_eq(last, &found));
            let hopeless = found.blind && !found.is_sure_about("");
            for (group, why) in found.missed() {
                tracing::warn!(group, why, "a group cannot be discovered");
            }
            let counts = running.values().any(|running: &Running| running.absences > 0);
            if !hopeless && (is_new || counts) {
                self.adopt(&found, &mut tasks, &mut running);
            }
            self.registry.discovered(is_new.then_some(&found));
            last = Some(found);
            failures = if hopeless { failures.saturating_add(1) } else { 0 };
            let pause = match failures {
                0 if asked => SECOND_LOOK.min(self.config.every),
                0 => self.config.every,
                n => Backoff { first: FIRST_RETRY, longest: self.config.every }.after(n - 1),
            };
            asked = self.registry.asked_within(pause).await;
        }
    }

    /// Starts mirrors of new types and ends those of types that are gone for good.
    fn adopt(
        &self,
        found: &Discovered,
        tasks: &mut JoinSet<()>,
        running: &mut BTreeMap<ResourceType, Running>,
    ) {
        let mirrored =
            |found: &&ServedType| found.preferred && found.can_be_watched() && (self.wanted)(found);
        let present: BTreeMap<_, _> =
            found.types.values().filter(mirrored).map(|found| (&found.resource, found)).collect();
        for (resource, served) in &present {
            let started = running.entry((*resource).clone()).or_insert_with(|| {
                tracing::info!(%resource, "mirroring a type");
                Running { task: self.start(served, tasks), absences: 0 }
            });
            started.absences = 0;
        }
        running.retain(|resource, started| {
            if !found.is_sure_about(&resource.group) {
                return true;
            }
            if found.types.get(resource).is_some_and(ServedType::can_be_watched) {
                started.absences = 0;
                return true;
            }
            started.absences += 1;
            let stays = started.absences < self.config.absences;
            if !stays {
                tracing::info!(%resource, "a type is gone");
                started.task.abort();
                self.registry.remove(resource);
            }
            stays
        });
    }

    fn start(&self, served: &ServedType, tasks: &mut JoinSet<()>) -> AbortHandle {
        let mut objects = self.client.of_type::<K>(served.resource.clone());
        if self.config.metadata_only {
            objects = objects.metadata_only();
        }
        let (project, of) = (self.project.clone(), served.clone());
        let keep = move |object| project(&of, object);
        let reflector = Reflector::new(&self.env, objects, Selection::all(), keep)
            .with_config(self.config.reflector);
        self.registry.insert(served, reflector.store());
        tasks.spawn(reflector.run())
    }

    /// Looks at once whenever a definition changes.
    fn watch_definitions(&self) -> impl Future<Output = ()> + Send + 'static {
        let resource = ResourceType {
            group: "apiextensions.k8s.io".to_owned(),
            version: "v1".to_owned(),
            plural: "customresourcedefinitions".to_owned(),
            kind: "CustomResourceDefinition".to_owned(),
        };
        let definitions = self.client.of_type::<PartialObjectMeta<DynamicObject>>(resource);
        let reflector = Reflector::new(
            &self.env,
            definitions.metadata_only(),
            Selection::all(),
            |_: PartialObjectMeta<DynamicObject>| Some(()),
        )
        .with_config(self.config.reflector);
        let (store, registry) = (reflector.store(), self.registry.clone());
        async move {
            let _subscription = store.subscribe(move |_| registry.look_now());
            reflector.run().await;
        }
    }
}

/// The mirror of one type.
struct Running {
    task: AbortHandle,
    /// Sure looks in a row that did not find the type.
    absences: u32,
}
