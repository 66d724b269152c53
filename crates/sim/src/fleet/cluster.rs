//! A cluster as a person with kubectl sees it.
//!
//! Kinds are named as kubectl takes them: `deployments`, `deployments.apps`, `Deployment`.
//! What cannot be done is a failed story, so everything here panics with what the server
//! said; the few verbs that hand errors out say `try`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flagship_api::keys::group;
use flagship_api::names::{ObjectKey, Scope};
use flagship_runtime::client::{
    Applying, Client, ClientError, Deleted, Manifests, Merge, Propagation, Refused, Selection,
};
use flagship_runtime::dynamic::{Discovered, ServedType, discover};
use serde_json::{Value, json};

/// How long something is waited for, in seconds.
const TIMEOUT_SECS: u64 = 300;

/// How soon it is looked at again: at first, and after a while.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LATER_LOOK: Duration = Duration::from_secs(1);

/// One cluster and a user of it. Clones share what is known of its kinds.
#[derive(Clone)]
pub struct Cluster {
    name: Arc<str>,
    client: Client,
    kinds: Arc<Mutex<Arc<Discovered>>>,
}

/// One condition as `Type=Status Reason: message`, and its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `type`.
    pub kind: String,
    /// `status`.
    pub status: String,
    /// `reason`.
    pub reason: String,
    /// `message`.
    pub message: String,
    /// `observedGeneration`, 0 if it does not say.
    pub generation: i64,
}

impl std::fmt::Display for Condition {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}={} {}: {}", self.kind, self.status, self.reason, self.message)
    }
}

impl Cluster {
    /// A cluster reached through a client, which acts as its user.
    pub fn new(name: &str, client: Client) -> Self {
        Self { name: name.into(), client, kinds: Arc::default() }
    }

    /// The name in stories.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What reaches it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Applies every document of a YAML text, in order.
    pub async fn apply(&self, yaml: &str) {
        let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)
            .unwrap_or_else(|error| panic!("this is no YAML: {error}\n{yaml}"));
        for document in documents.iter().filter(|document| !document.is_null()) {
            self.apply_object(document).await;
        }
    }

    /// Applies one object.
    pub async fn apply_object(&self, object: &Value) {
        if let Err(refused) = self.try_apply(object).await {
            panic!("{}: {refused}\n{object:#}", self.name);
        }
    }

    /// Applies one object, or says why not.
    pub async fn try_apply(&self, object: &Value) -> Result<Value, Refused> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("");
        let (api_version, kind) = (text("/apiVersion"), text("/kind"));
        let same = |found: &ServedType| {
            found.resource.kind == kind && found.resource.api_version() == api_version
        };
        let Some(found) = self.find_kind_soon(same).await else {
            panic!("{} does not serve {api_version} {kind}", self.name);
        };
        let mut object = object.clone();
        let mut namespace = text("/metadata/namespace").to_owned();
        if found.scope == Scope::Namespaced && namespace.is_empty() {
            namespace = "default".to_owned();
            object["metadata"]["namespace"] = json!(namespace);
        }
        let key = key(&found, &namespace, object["metadata"]["name"].as_str().unwrap_or(""));
        let how = Applying { force: true, dry_run: false };
        self.client.manifests(found.resource).apply(&key, &object, how).await
    }

    /// An object that may not be there. A kind that is not served has no objects.
    pub async fn find(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let (kind, key) = self.place(resource, namespace, name).await?;
        kind.find(&key).await.unwrap_or_else(|refused| panic!("{}: {refused}", self.name))
    }

    /// An object that must be there.
    pub async fn get(&self, resource: &str, namespace: &str, name: &str) -> Value {
        let found = self.find(resource, namespace, name).await;
        found.unwrap_or_else(|| panic!("{} has no {resource} {namespace}/{name}", self.name))
    }

    /// All objects of a kind, in one namespace or, if that is empty, everywhere.
    pub async fn list(&self, resource: &str, namespace: &str) -> Vec<Value> {
        let Some((kind, _)) = self.place(resource, namespace, "").await else { return Vec::new() };
        let objects = self.client.of_type::<Value>(kind.resource().clone());
        let some = match namespace {
            "" => Selection::all(),
            namespace => Selection::namespace(namespace),
        };
        let listed = objects.list(&some).await;
        listed.unwrap_or_else(|error| panic!("{}: {error}", self.name)).items
    }

    /// Merges a patch into an object.
    pub async fn patch(&self, resource: &str, namespace: &str, name: &str, patch: Value) {
        let (kind, key) = self.must_place(resource, namespace, name).await;
        if let Err(refused) = kind.patch(&key, Merge::Json, &patch).await {
            panic!("{}: {refused}\n{patch:#}", self.name);
        }
    }

    /// Merges a patch into the status of an object.
    pub async fn patch_status(&self, resource: &str, namespace: &str, name: &str, status: Value) {
        let patched = self.try_patch_status(resource, namespace, name, status).await;
        patched.unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }

    /// The same for an object that may be gone by now.
    pub async fn try_patch_status(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        status: Value,
    ) -> Result<(), ClientError> {
        let (kind, key) = self.must_place(resource, namespace, name).await;
        let objects = self.client.of_type::<Value>(kind.resource().clone());
        objects.patch_status_anyway(&key, json!({"status": status})).await.map(drop)
    }

    /// Deletes an object; what it owns follows in the background.
    pub async fn delete(&self, resource: &str, namespace: &str, name: &str) -> Deleted {
        let (kind, key) = self.must_place(resource, namespace, name).await;
        let objects = self.client.of_type::<Value>(kind.resource().clone());
        let deleted = objects.delete_anyway(&key, Propagation::Background).await;
        deleted.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Waits until the object, or its absence, is as it should be, and hands it out.
    pub async fn eventually(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        is_so: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        self.eventually_within(TIMEOUT_SECS, resource, namespace, name, is_so).await
    }

    /// The same with a patience of so many seconds.
    pub async fn eventually_within(
        &self,
        seconds: u64,
        resource: &str,
        namespace: &str,
        name: &str,
        is_so: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        let looking = async {
            let mut pause = FIRST_LOOK;
            loop {
                let found = self.find(resource, namespace, name).await;
                if is_so(found.as_ref()) {
                    return found;
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LATER_LOOK);
            }
        };
        match tokio::time::timeout(Duration::from_secs(seconds), looking).await {
            Ok(found) => found,
            Err(_) => {
                let last = self.find(resource, namespace, name).await;
                let last = last.map_or("it is not there".to_owned(), |last| format!("{last:#}"));
                panic!("{}: waited in vain for {resource} {namespace}/{name}: {last}", self.name)
            }
        }
    }

    /// Waits until the object has a condition of this type and status for its present
    /// generation, as far as it says, and hands the object out.
    pub async fn becomes(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        kind: &str,
        status: &str,
    ) -> Value {
        let is_so = |found: Option<&Value>| {
            let Some(object) = found else { return false };
            let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
            conditions(object).iter().any(|condition| {
                condition.kind == kind
                    && condition.status == status
                    && [0, generation].contains(&condition.generation)
            })
        };
        let found = self.eventually(resource, namespace, name, is_so).await;
        found.expect("an object that is not there has no conditions")
    }

    /// Waits until the object is gone.
    pub async fn goes(&self, resource: &str, namespace: &str, name: &str) {
        self.eventually(resource, namespace, name, |found| found.is_none()).await;
    }

    /// The conditions of an object, one in a line.
    pub async fn conditions(&self, resource: &str, namespace: &str, name: &str) -> Vec<String> {
        let object = self.get(resource, namespace, name).await;
        conditions(&object).iter().map(ToString::to_string).collect()
    }

    /// Events about a kind, as `Type Reason name: message (xN)`, sorted.
    pub async fn events(&self, kind: &str) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut all = Vec::new();
        for event in self.list("events", "").await {
            let about = &event["involvedObject"];
            if about["kind"] == kind {
                let (sort, reason) = (text(&event["type"]), text(&event["reason"]));
                let (name, message) = (text(&about["name"]), text(&event["message"]));
                all.push(format!("{sort} {reason} {name}: {message} (x{})", event["count"]));
            }
        }
        all.sort();
        all
    }

    async fn must_place(&self, resource: &str, space: &str, name: &str) -> (Manifests, ObjectKey) {
        let place = self.place(resource, space, name).await;
        place.unwrap_or_else(|| panic!("{} does not serve {resource}", self.name))
    }

    async fn place(
        &self,
        resource: &str,
        space: &str,
        name: &str,
    ) -> Option<(Manifests, ObjectKey)> {
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let same = |found: &ServedType| {
            let served = &found.resource;
            let called = served.plural == plural || served.kind.eq_ignore_ascii_case(plural);
            is_read(found) && called && (group.is_empty() || served.group == group)
        };
        let found = self.find_kind(same).await?;
        let key = key(&found, space, name);
        Some((self.client.manifests(found.resource), key))
    }

    /// The same, for a kind whose definition may have been established just now: a real API
    /// server shows it in discovery some time later.
    async fn find_kind_soon(&self, same: impl Fn(&ServedType) -> bool) -> Option<ServedType> {
        let looking = async {
            loop {
                if let Some(found) = self.find_kind(&same).await {
                    return found;
                }
                tokio::time::sleep(LATER_LOOK).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(TIMEOUT_SECS), looking).await.ok()
    }

    /// A kind that is served, the core group first; looks again if none is known.
    async fn find_kind(&self, same: impl Fn(&ServedType) -> bool) -> Option<ServedType> {
        let known = self.kinds.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(found) = known.types.values().find(|found| same(found)) {
            return Some(found.clone());
        }
        let fresh = Arc::new(discover(&self.client).await);
        let found = fresh.types.values().find(|found| same(found)).cloned();
        *self.kinds.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        found
    }
}

/// Kinds of ours are read in the version that has all their fields, others in the one
/// that the server prefers.
fn is_read(kind: &ServedType) -> bool {
    let ours = [group::PLACEMENT, group::CLUSTER].contains(&kind.resource.group.as_str());
    if ours { kind.resource.version == "v1beta1" } else { kind.preferred }
}

fn key(kind: &ServedType, namespace: &str, name: &str) -> ObjectKey {
    match kind.scope {
        Scope::Namespaced => ObjectKey::namespaced(namespace, name),
        Scope::Cluster => ObjectKey::cluster(name),
    }
}

/// The conditions in the status of an object.
fn conditions(object: &Value) -> Vec<Condition> {
    let all = object["status"]["conditions"].as_array();
    all.into_iter().flatten().map(Condition::read).collect()
}

impl Condition {
    /// Reads a condition.
    pub fn read(condition: &Value) -> Self {
        let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
        Self {
            kind: text("type"),
            status: text("status"),
            reason: text("reason"),
            message: text("message"),
            generation: condition["observedGeneration"].as_i64().unwrap_or(0),
        }
    }
}
