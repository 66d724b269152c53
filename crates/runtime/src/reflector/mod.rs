//! Mirrors the objects of one resource: list, then watch, then watch again.
//!
//! Keeps a projection of each object, not the object. After a cut it goes on where
//! it was; after 410 it lists again and tells the difference, deletions included.
//! A list is streamed through the watch where the server can, so no page is ever
//! held twice. All pauses are explicit and drawn from the seeded source.
//!
//! [`Store`] is what others read. The wire is in [`crate::client::watch`], types
//! that come and go in [`crate::dynamic`].

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use flagship_base::backoff::Backoff;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::client::watch::{Watch, WatchEvent, WatchFrom};
use crate::client::{ClientError, Malformed, Objects, PAGE, Selection, key_of};
use crate::env::Env;
use crate::error_action::ErrorAction;
use flagship_api::names::ObjectKey;
use store::Shown;

mod store;
#[cfg(test)]
mod tests;

pub(crate) use store::Progress;
pub use store::{Change, Entry, IndexId, Origin, Revision, Store, Subscription};

/// How a reflector behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReflectorConfig {
    /// How long one watch lasts; up to a fifth is added, so that not all end at once.
    pub watch_span: Duration,
    /// Pause after a first failure; doubles.
    pub backoff: Duration,
    /// Longest pause after failures.
    pub longest_backoff: Duration,
    /// Longest pause while the server answers that we may not look.
    pub longest_when_forbidden: Duration,
    /// Whether to ask for streamed lists first.
    pub streamed_lists: bool,
}

impl Default for ReflectorConfig {
    fn default() -> Self {
        Self {
            watch_span: Duration::from_secs(290),
            backoff: Duration::from_millis(800),
            longest_backoff: Duration::from_secs(30),
            longest_when_forbidden: Duration::from_secs(30),
            streamed_lists: true,
        }
    }
}

/// How long a server may be late to end a watch before we do.
const GRACE: Duration = Duration::from_secs(10);
/// How long a streamed list may be silent before we take the server for one that
/// does not know them and watches without ever closing the list.
const LIST_SILENCE: Duration = Duration::from_secs(30);
/// A watch that ends sooner than this counts as a failure, or we would spin.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);

/// Answers in a row without an optional type after which its objects are gone.
const ABSENCES: u32 = 3;

/// Mirrors objects read as `K` into a store of `V`.
pub struct Reflector<K, V> {
    objects: Objects<K>,
    selection: Selection,
    project: Box<dyn Fn(K) -> Option<V> + Send + Sync>,
    store: Store<V>,
    config: ReflectorConfig,
    env: Env,
    failures: u32,
    /// Whether a type that is not served is as good as one without objects.
    optional: bool,
    /// Answers in a row that the type is not served.
    absences: u32,
}

/// What the reflector does next.
enum Phase {
    List,
    Watch { from: String },
}

impl<K, V> Reflector<K, V>
where
    K: kube::Resource + DeserializeOwned,
{
    /// Mirrors the selected objects. `project` keeps what rules read, and `None`
    /// for objects that nobody wants: one that ceases to be wanted is a deletion.
    pub fn new(
        env: &Env,
        objects: Objects<K>,
        selection: Selection,
        project: impl Fn(K) -> Option<V> + Send + Sync + 'static,
    ) -> Self {
        Self {
            objects,
            selection,
            project: Box::new(project),
            store: Store::new(),
            config: ReflectorConfig::default(),
            env: env.clone(),
            failures: 0,
            optional: false,
            absences: 0,
        }
    }

    /// A type that the server does not serve counts as one without objects, until it
    /// does. Without this the mirror is never filled, and whoever waits for it waits.
    #[must_use]
    pub fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    /// Tells of the end of objects that the projection did not keep, too: as a change from
    /// nothing to nothing. For projections that come to want an object only after it was
    /// listed, which would else go unnoticed as long as it does not change.
    #[must_use]
    pub fn with_deletes_of_unkept(self) -> Self {
        self.store.tell_deletes_of_unkept();
        self
    }

    /// Other pauses and spans.
    #[must_use]
    pub fn with_config(self, config: ReflectorConfig) -> Self {
        Self { config, ..self }
    }

    /// Keeps the objects also under the keys that `keys` gives: owner, label, parent.
    pub fn index(
        &self,
        keys: impl Fn(&ObjectKey, &V) -> Vec<String> + Send + Sync + 'static,
    ) -> IndexId {
        self.store.add_index(keys)
    }

    /// Where the objects are found.
    pub fn store(&self) -> Store<V> {
        self.store.clone()
    }

    /// Mirrors until it is dropped.
    pub async fn run(mut self) {
        let mut phase = Phase::List;
        loop {
            let turn = match &phase {
                Phase::List if self.config.streamed_lists => self.stream().await,
                Phase::List => Box::pin(self.list()).await,
                Phase::Watch { from } => self.watch(from.clone()).await,
            };
            phase = match turn {
                Ok(next) => next,
                Err(Turn { error: ClientError::NotServed { .. }, .. }) if self.optional => {
                    self.absent().await;
                    Phase::List
                }
                Err(turn) => {
                    self.pause(&turn.error).await;
                    turn.then
                }
            };
        }
    }

    /// Lists page by page, then watches.
    async fn list(&mut self) -> Result<Phase, Turn> {
        match self.pages(PAGE).await {
            Err(ClientError::Expired { .. }) => self.pages("").await,
            other => other,
        }
        .map(|from| Phase::Watch { from })
        .map_err(|error| Turn { error, then: Phase::List })
    }

    async fn pages(&mut self, limit: &str) -> Result<String, ClientError> {
        let mut shown = BTreeSet::new();
        let mut token = String::new();
        loop {
            let (page, next) = self.objects.page(&self.selection, limit, &token).await?;
            for object in page.items {
                shown.extend(self.applied(object, Origin::Listed));
            }
            for problem in page.malformed {
                shown.extend(self.unreadable(problem, Origin::Listed));
            }
            match next {
                Some(next) => token = next,
                None => {
                    self.listed(&shown, &page.resource_version);
                    return Ok(page.resource_version);
                }
            }
        }
    }

    /// Lists through a watch, and goes on with the same watch.
    async fn stream(&mut self) -> Result<Phase, Turn> {
        // Boxed: a task is as large as the largest future it awaits, and this one mostly waits
        // for the next event.
        let opened = Box::pin(self.open(&WatchFrom::StreamedList)).await;
        let (mut watch, end) = match opened {
            Ok(opened) => opened,
            // A server that does not stream lists says that the request is wrong.
            Err(ClientError::Invalid { .. } | ClientError::Refused { .. }) => {
                self.config.streamed_lists = false;
                return Ok(Phase::List);
            }
            Err(error) => return Err(Turn { error, then: Phase::List }),
        };
        let mut shown = BTreeSet::new();
        let from = loop {
            let next = tokio::time::timeout(LIST_SILENCE, watch.next()).await;
            match next {
                Ok(Some(Ok(WatchEvent::ListEnded(version)))) => break version,
                Ok(Some(Ok(event))) => shown.extend(self.take(event, Origin::Listed).0),
                Ok(Some(Err(error))) => return Err(Turn { error, then: Phase::List }),
                Ok(None) | Err(_) => {
                    self.config.streamed_lists = false;
                    return Ok(Phase::List);
                }
            }
        };
        self.listed(&shown, &from);
        // The watch lasts for minutes, and the keys of all objects are in the store.
        drop(shown);
        self.follow(&mut watch, end, from).await
    }

    async fn watch(&mut self, from: String) -> Result<Phase, Turn> {
        let begun = Instant::now();
        match Box::pin(self.open(&WatchFrom::Version(from.clone()))).await {
            Ok((mut watch, end)) => {
                let next = self.follow(&mut watch, end, from.clone()).await?;
                match next {
                    Phase::Watch { from: same }
                        if same == from && begun.elapsed() < SHORTEST_WATCH =>
                    {
                        let source = "the watch ended as soon as it began".into();
                        let object = self.objects.resource().to_string();
                        let error = ClientError::Unreachable { object, source };
                        Err(Turn { error, then: Phase::Watch { from } })
                    }
                    next => Ok(next),
                }
            }
            Err(error) => Err(Turn::after(error, from)),
        }
    }

    async fn open(&self, from: &WatchFrom) -> Result<(Watch<K>, Instant), ClientError> {
        let span = self.env.entropy.jittered(self.config.watch_span, 0.2);
        let end = Instant::now() + span + GRACE;
        let watch = self.objects.watch(&self.selection, from, span).await?;
        Ok((watch, end))
    }

    /// Takes events in until the watch ends.
    async fn follow(
        &mut self,
        watch: &mut Watch<K>,
        end: Instant,
        mut from: String,
    ) -> Result<Phase, Turn> {
        loop {
            match tokio::time::timeout_at(end, watch.next()).await {
                Ok(Some(Ok(event))) => {
                    if std::mem::take(&mut self.failures) > 0 {
                        self.store.set_trouble(None);
                    }
                    if let Some(version) = self.take(event, Origin::Watched).1 {
                        self.store.advance(&version, Origin::Watched);
                        from = version;
                    }
                }
                Ok(Some(Err(error))) => return Err(Turn::after(error, from)),
                Ok(None) | Err(_) => return Ok(Phase::Watch { from }),
            }
        }
    }

    /// Takes one event in; says which object it was about and which version it was.
    fn take(&self, event: WatchEvent<K>, origin: Origin) -> (Option<ObjectKey>, Option<String>) {
        match event {
            WatchEvent::Applied(object) => {
                let version = object.meta().resource_version.clone();
                (self.applied(object, origin), version)
            }
            WatchEvent::Deleted(object) => {
                let version = object.meta().resource_version.clone();
                if let Some(key) = key_of(&object) {
                    self.store.gone(&key, version.as_deref(), origin);
                }
                (None, version)
            }
            WatchEvent::Malformed { problem, resource_version, deleted: true } => {
                if let Some(key) = problem.key() {
                    self.store.gone(&key, resource_version.as_deref(), origin);
                }
                (None, resource_version)
            }
            WatchEvent::Malformed { problem, resource_version, deleted: false } => {
                (self.unreadable(problem, origin), resource_version)
            }
            WatchEvent::Bookmark(version) | WatchEvent::ListEnded(version) => (None, Some(version)),
        }
    }

    fn applied(&self, object: K, origin: Origin) -> Option<ObjectKey> {
        let key = key_of(&object)?;
        let meta = object.meta();
        let uid = meta.uid.clone().unwrap_or_default();
        let version = meta.resource_version.clone().unwrap_or_default();
        // One object that the projection chokes on must not end the mirror of all.
        let Ok(value) = catch_unwind(AssertUnwindSafe(|| (self.project)(object))) else {
            let why = "reading it made a rule panic".to_owned();
            let ObjectKey { namespace, name } = key;
            let kind = self.objects.resource().kind.clone();
            let (field, resource_version) = (String::new(), version);
            let problem = Malformed { kind, namespace, name, uid, resource_version, field, why };
            return self.unreadable(problem, origin);
        };
        self.store.show(Shown { key: key.clone(), uid, version, value }, origin);
        Some(key)
    }

    fn unreadable(&self, problem: Malformed, origin: Origin) -> Option<ObjectKey> {
        tracing::warn!(%problem, "an object cannot be read");
        let key = problem.key()?;
        self.store.unreadable(key.clone(), problem, origin);
        Some(key)
    }

    fn listed(&mut self, shown: &BTreeSet<ObjectKey>, version: &str) {
        self.store.keep_only(shown);
        self.store.advance(version, Origin::Listed);
        self.store.set_synced();
        self.store.set_trouble(None);
        self.failures = 0;
        self.absences = 0;
    }

    /// The type is not served. At the start that is believed at once; later one bad answer
    /// must not look like the deletion of everything.
    async fn absent(&mut self) {
        let resource = self.objects.resource();
        if self.absences == 0 {
            tracing::warn!(%resource, "not served: taken for empty until its definition is installed");
        }
        self.absences = self.absences.saturating_add(1);
        if !self.store.is_synced() || self.absences >= ABSENCES {
            self.store.clear();
            self.store.set_synced();
        }
        self.store.set_trouble(Some(format!("the server does not serve {resource}")));
        let pause = self.env.entropy.jittered(self.config.longest_backoff / 2, 0.5);
        tokio::time::sleep(pause).await;
    }

    async fn pause(&mut self, error: &ClientError) {
        let ReflectorConfig { backoff: first, longest_backoff, longest_when_forbidden, .. } =
            self.config;
        let forbidden = matches!(error, ClientError::Forbidden { .. });
        let longest = if forbidden { longest_when_forbidden } else { longest_backoff };
        let span = Backoff { first, longest }.after(self.failures);
        self.failures = self.failures.saturating_add(1);
        let asked = match error.action() {
            ErrorAction::BackOff { after } => after.unwrap_or_default(),
            // The version is gone: a list is due at once, if it is the first time.
            ErrorAction::Reread if self.failures == 1 => return,
            _ => Duration::ZERO,
        };
        let pause = self.env.entropy.jittered(span, 0.5).max(asked);
        let error = error.in_full();
        tracing::warn!(resource = %self.objects.resource(), %error, ?pause, "watching again later");
        self.store.set_trouble(Some(error));
        tokio::time::sleep(pause).await;
    }
}

/// A failed step, and what to do after the pause.
struct Turn {
    error: ClientError,
    then: Phase,
}

impl Turn {
    /// Goes on where it was, unless the server has forgotten that place.
    fn after(error: ClientError, from: String) -> Self {
        let then = match error {
            ClientError::Expired { .. }
            | ClientError::NotServed { .. }
            | ClientError::Refused { .. }
            | ClientError::Invalid { .. } => Phase::List,
            _ => Phase::Watch { from },
        };
        Self { error, then }
    }
}
