//! The verbs, on the objects of one resource.
//!
//! Every write carries what it was decided on: updates the `resourceVersion` that
//! was read, patches and deletes a [`Precondition`]. The few verbs that do not say so in
//! their names (`patch_anyway`, `delete_anyway`).

use std::marker::PhantomData;

use bytes::Bytes;
use flagship_api::decode::{self, DecodedList};
use flagship_api::names::ObjectKey;
use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::by_update::is_about_the_verb;
use super::{Call, Client, ClientError, Malformed, Query, ResourceType, Selection};

pub(super) const JSON: &str = "application/json";
pub(super) const MERGE_PATCH: &str = "application/merge-patch+json";
pub(super) const APPLY_PATCH: &str = "application/apply-patch+yaml";
const ONE_META: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const MANY_META: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Objects of one list request; a page of this size is a few megabytes at most.
pub(crate) const PAGE: &str = "500";

/// The objects of one resource, read as `K`.
pub struct Objects<K> {
    pub(crate) client: Client,
    pub(crate) resource: ResourceType,
    metadata_only: bool,
    read_as: PhantomData<fn() -> K>,
}

/// What a write was decided on: which object, and which version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precondition {
    /// Which object.
    pub key: ObjectKey,
    /// `metadata.uid`: not a namesake that came later.
    pub uid: String,
    /// `metadata.resourceVersion`: nothing was changed since.
    pub resource_version: String,
}

/// What a list held.
#[derive(Clone, Debug)]
pub struct Listed<K> {
    /// Where a watch may go on.
    pub resource_version: String,
    /// The good objects, in the server's order.
    pub items: Vec<K>,
    /// One for each bad one.
    pub malformed: Vec<Malformed>,
}

/// What becomes of the objects that an object owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// They go after it.
    #[default]
    Background,
    /// They go before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// What a delete achieved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The object is gone.
    Gone,
    /// Finalizers hold it; it goes when they are done.
    Terminating {
        /// The version that carries the date of deletion.
        resource_version: String,
    },
}

impl<K> Default for Listed<K> {
    fn default() -> Self {
        Self { resource_version: String::new(), items: Vec::new(), malformed: Vec::new() }
    }
}

impl Precondition {
    /// The version of the object that we hold. `None` if it was never stored.
    pub fn of<K: kube::Resource>(object: &K) -> Option<Self> {
        let meta = object.meta();
        Some(Self {
            key: key_of(object)?,
            uid: meta.uid.clone()?,
            resource_version: meta.resource_version.clone()?,
        })
    }
}

/// Where the object stands. `None` for one without a name.
pub fn key_of<K: kube::Resource>(object: &K) -> Option<ObjectKey> {
    let meta = object.meta();
    Some(ObjectKey::new(meta.namespace.as_deref(), meta.name.as_deref()?))
}

impl<K> Clone for Objects<K> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            resource: self.resource.clone(),
            metadata_only: self.metadata_only,
            read_as: PhantomData,
        }
    }
}

impl<K> Objects<K> {
    pub(super) fn new(client: Client, resource: ResourceType) -> Self {
        Self { client, resource, metadata_only: false, read_as: PhantomData }
    }

    /// Asks the server for metadata only, which any `K` must be able to live with.
    #[must_use]
    pub fn metadata_only(self) -> Self {
        Self { metadata_only: true, ..self }
    }

    /// Which resource.
    pub fn resource(&self) -> &ResourceType {
        &self.resource
    }

    pub(crate) fn accept_one(&self) -> &'static str {
        if self.metadata_only { ONE_META } else { JSON }
    }

    fn accept_many(&self) -> &'static str {
        if self.metadata_only { MANY_META } else { JSON }
    }
}

impl<K: DeserializeOwned> Objects<K> {
    /// Reads one object.
    pub async fn get(&self, key: &ObjectKey) -> Result<K, ClientError> {
        let call = self.call(Method::GET, self.resource.object(key), self.resource.named(key));
        self.one(self.client.ask(call).await?)
    }

    /// Reads one object that may not be there.
    pub async fn find(&self, key: &ObjectKey) -> Result<Option<K>, ClientError> {
        match self.get(key).await {
            Ok(object) => Ok(Some(object)),
            Err(ClientError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads all selected objects from the server itself, page by page.
    pub async fn list(&self, selection: &Selection) -> Result<Listed<K>, ClientError> {
        match self.pages(selection, PAGE).await {
            // The pages' snapshot was compacted away under us; one big page has none.
            Err(ClientError::Expired { .. }) => self.pages(selection, "").await,
            other => other,
        }
    }

    async fn pages(&self, selection: &Selection, limit: &str) -> Result<Listed<K>, ClientError> {
        let mut all = Listed::default();
        let mut token = String::new();
        loop {
            let (page, next) = self.page(selection, limit, &token).await?;
            all.items.extend(page.items);
            all.malformed.extend(page.malformed);
            all.resource_version = page.resource_version;
            match next {
                Some(next) => token = next,
                None => return Ok(all),
            }
        }
    }

    /// One page, and the token of the next. An empty limit asks for everything.
    pub(crate) async fn page(
        &self,
        selection: &Selection,
        limit: &str,
        token: &str,
    ) -> Result<(Listed<K>, Option<String>), ClientError> {
        let query = Query::of(selection).with("limit", limit).with("continue", token);
        let path = query.on(self.resource.collection(selection.namespace.as_deref()));
        let mut call = self.call(Method::GET, path, self.resource.to_string());
        call.accept = self.accept_many();
        let body = self.client.ask(call).await?;
        let page: DecodedList<K> = decode::decode_list(&body).map_err(|e| self.unreadable(e))?;
        let bad = page.errors.into_iter();
        let listed = Listed {
            resource_version: page.resource_version.unwrap_or_default(),
            items: page.items,
            malformed: bad.map(|error| Malformed::new(&self.resource.kind, error)).collect(),
        };
        Ok((listed, page.continue_token))
    }

    /// Changes fields of the object by merge patch, if it is still the version we saw.
    pub async fn patch(&self, precondition: &Precondition, patch: Value) -> Result<K, ClientError> {
        self.merge(&precondition.key, "", self.conditional(precondition, patch)?).await
    }

    /// Changes fields of the status by merge patch, if it is still the version we saw.
    pub async fn patch_status(
        &self,
        precondition: &Precondition,
        patch: Value,
    ) -> Result<K, ClientError> {
        self.merge(&precondition.key, "/status", self.conditional(precondition, patch)?).await
    }

    /// Changes fields whatever else was changed: only for fields that are ours alone.
    pub async fn patch_anyway(&self, key: &ObjectKey, patch: Value) -> Result<K, ClientError> {
        self.merge(key, "", patch).await
    }

    /// Changes status fields whatever else was changed: only for fields that are ours alone.
    pub async fn patch_status_anyway(
        &self,
        key: &ObjectKey,
        patch: Value,
    ) -> Result<K, ClientError> {
        self.merge(key, "/status", patch).await
    }

    /// Applies a configuration server-side, under the client's name as field manager.
    pub async fn apply(
        &self,
        key: &ObjectKey,
        configuration: &impl Serialize,
        force: bool,
    ) -> Result<K, ClientError> {
        let query = self.managed().with("force", if force { "true" } else { "" });
        let path = query.on(self.resource.object(key));
        let mut call = self.call(Method::PATCH, path, self.resource.named(key));
        call.content = Some((APPLY_PATCH, self.written(configuration, key)?));
        self.one(self.client.ask(call).await?)
    }

    /// Deletes the object, if it is still the version we saw.
    pub async fn delete(
        &self,
        precondition: &Precondition,
        propagation: Propagation,
    ) -> Result<Deleted, ClientError> {
        let conditions =
            json!({"uid": precondition.uid, "resourceVersion": precondition.resource_version});
        self.remove(&precondition.key, json!({"preconditions": conditions}), propagation).await
    }

    /// Deletes whatever has that name now.
    pub async fn delete_anyway(
        &self,
        key: &ObjectKey,
        propagation: Propagation,
    ) -> Result<Deleted, ClientError> {
        self.remove(key, json!({}), propagation).await
    }

    async fn remove(
        &self,
        key: &ObjectKey,
        mut options: Value,
        propagation: Propagation,
    ) -> Result<Deleted, ClientError> {
        options["kind"] = json!("DeleteOptions");
        options["apiVersion"] = json!("v1");
        options["propagationPolicy"] = json!(format!("{propagation:?}"));
        let path = self.resource.object(key);
        let mut call = self.call(Method::DELETE, path, self.resource.named(key));
        call.content = Some((JSON, self.written(&options, key)?));
        let body = self.client.ask(call).await?;
        // The answer is a Status or the object as it was; one that still lives has a date.
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        let meta = &answer["metadata"];
        let held = meta["finalizers"].as_array().is_some_and(|held| !held.is_empty());
        if !held || meta["deletionTimestamp"].is_null() {
            return Ok(Deleted::Gone);
        }
        let resource_version = meta["resourceVersion"].as_str().unwrap_or_default().to_owned();
        Ok(Deleted::Terminating { resource_version })
    }

    async fn merge(&self, key: &ObjectKey, sub: &str, patch: Value) -> Result<K, ClientError> {
        if self.may_not_patch(sub) {
            return self.one(self.by_update(key, sub, &patch).await?);
        }
        let path = self.managed().on(self.resource.object(key) + sub);
        let mut call = self.call(Method::PATCH, path, self.resource.named(key));
        call.content = Some((MERGE_PATCH, self.written(&patch, key)?));
        let refused = match self.client.ask(call).await {
            Err(error) if is_about_the_verb(&error) => error,
            other => return self.one(other?),
        };
        match self.by_update(key, sub, &patch).await {
            Ok(body) => {
                self.give_up_patching(sub);
                self.one(body)
            }
            // Neither verb is ours: what was asked first says it.
            Err(ClientError::Forbidden { .. }) => Err(refused),
            Err(error) => Err(error),
        }
    }

    /// A `resourceVersion` inside a patch is a precondition.
    fn conditional(
        &self,
        precondition: &Precondition,
        mut patch: Value,
    ) -> Result<Value, ClientError> {
        let meta = patch.as_object_mut().map(|patch| patch.entry("metadata").or_insert(json!({})));
        let Some(meta) = meta.and_then(Value::as_object_mut) else {
            let object = self.resource.named(&precondition.key);
            return Err(ClientError::Invalid { object, message: "the patch is no object".into() });
        };
        meta.insert("resourceVersion".to_owned(), json!(precondition.resource_version));
        Ok(patch)
    }

    pub(super) fn managed(&self) -> Query {
        Query::default().with("fieldManager", &self.client.name)
    }

    fn call(&self, method: Method, path: String, object: String) -> Call<'static> {
        Call { method, path, accept: self.accept_one(), content: None, object }
    }

    fn one(&self, body: Bytes) -> Result<K, ClientError> {
        decode::decode(&body).map_err(|error| self.unreadable(error))
    }

    /// A whole object, whatever it is read as elsewhere.
    pub(super) fn read(&self, body: &[u8]) -> Result<Value, ClientError> {
        decode::decode(body).map_err(|error| self.unreadable(error))
    }

    fn unreadable(&self, error: decode::DecodeError) -> ClientError {
        ClientError::Malformed(Box::new(Malformed::new(&self.resource.kind, error)))
    }

    fn written(&self, object: &impl Serialize, key: &ObjectKey) -> Result<Vec<u8>, ClientError> {
        serde_json::to_vec(object).map_err(|error| ClientError::Invalid {
            object: self.resource.named(key),
            message: format!("cannot be written as JSON: {error}"),
        })
    }
}

/// What is sent need not be what is read: often only the metadata of the answer is wanted.
impl<K: DeserializeOwned> Objects<K> {
    /// Creates the object.
    pub async fn create(
        &self,
        object: &(impl kube::Resource + Serialize),
    ) -> Result<K, ClientError> {
        let meta = object.meta();
        // A generated name is not known yet; errors then show its prefix.
        let name = meta.name.as_ref().or(meta.generate_name.as_ref());
        let key = ObjectKey::new(meta.namespace.as_deref(), name.map_or("", String::as_str));
        let path = self.managed().on(self.resource.collection(key.namespace.as_deref()));
        let mut call = self.call(Method::POST, path, self.resource.named(&key));
        call.content = Some((JSON, self.written(object, &key)?));
        self.one(self.client.ask(call).await?)
    }

    /// Writes the object back, if it is still the version we saw.
    pub async fn update(
        &self,
        object: &(impl kube::Resource + Serialize),
    ) -> Result<K, ClientError> {
        self.replace(object, "").await
    }

    /// Writes the status back, if the object is still the version we saw.
    pub async fn update_status(
        &self,
        object: &(impl kube::Resource + Serialize),
    ) -> Result<K, ClientError> {
        self.replace(object, "/status").await
    }

    async fn replace(
        &self,
        object: &(impl kube::Resource + Serialize),
        sub: &str,
    ) -> Result<K, ClientError> {
        let key = key_of(object).unwrap_or_else(|| ObjectKey::cluster(""));
        if object.meta().resource_version.as_ref().is_none_or(String::is_empty) {
            return Err(ClientError::Unfenced { object: self.resource.named(&key) });
        }
        let path = self.managed().on(self.resource.object(&key) + sub);
        let mut call = self.call(Method::PUT, path, self.resource.named(&key));
        call.content = Some((JSON, self.written(object, &key)?));
        self.one(self.client.ask(call).await?)
    }
}
