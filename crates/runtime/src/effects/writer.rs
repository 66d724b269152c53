//! Writes of one pass: fenced by leadership, remembered until the caches show them.
//!
//! An answer is metadata only, unless the verb says whole: a pass that goes on needs no more
//! than the next precondition, and the caches show the rest.

use std::fmt::Debug;

use flagship_api::names::ObjectKey;
use kube::core::PartialObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::PendingWrites;
use crate::client::{
    Client, ClientError, Deleted, Objects, Precondition, Propagation, ResourceType, key_of,
};
use crate::lease::Leadership;

/// What a create achieved.
#[derive(Clone, Debug, PartialEq)]
pub enum Made<K> {
    /// The object is new.
    New(K),
    /// One of that name was there already, of whatever content.
    Existed,
}

/// Writes on behalf of one pass over `O`.
pub struct Writer<'a, O> {
    client: &'a Client,
    leadership: &'a Leadership,
    seen: &'a PendingWrites<O>,
    pass: &'a O,
}

impl<'a, O: Ord + Clone + Debug> Writer<'a, O> {
    /// A writer for one pass.
    pub fn new(
        client: &'a Client,
        leadership: &'a Leadership,
        seen: &'a PendingWrites<O>,
        pass: &'a O,
    ) -> Self {
        Self { client, leadership, seen, pass }
    }

    /// Creates the object. A name that is taken is not an error here.
    pub async fn create<K: Kind>(
        &self,
        object: &K,
    ) -> Result<Made<PartialObjectMeta<K>>, ClientError> {
        let objects = self.objects::<K>(key_of(object).as_ref())?;
        match objects.create(object).await {
            Ok(made) => Ok(Made::New(self.remember(&objects, made))),
            Err(ClientError::AlreadyExists { .. }) => Ok(Made::Existed),
            Err(error) => Err(error),
        }
    }

    /// Writes the object back, if it is still the version we saw.
    pub async fn update<K: Kind>(&self, object: &K) -> Result<PartialObjectMeta<K>, ClientError> {
        let objects = self.objects::<K>(key_of(object).as_ref())?;
        let updated = objects.update(object).await?;
        Ok(self.remember(&objects, updated))
    }

    /// Writes the status back, if the object is still the version we saw.
    pub async fn update_status<K: Kind>(
        &self,
        object: &K,
    ) -> Result<PartialObjectMeta<K>, ClientError> {
        let objects = self.objects::<K>(key_of(object).as_ref())?;
        let updated = objects.update_status(object).await?;
        Ok(self.remember(&objects, updated))
    }

    /// Changes fields, if the object is still the version we saw.
    pub async fn patch<K: Kind>(
        &self,
        precondition: &Precondition,
        patch: Value,
    ) -> Result<PartialObjectMeta<K>, ClientError> {
        let objects = self.objects::<K>(Some(&precondition.key))?;
        let patched = objects.patch(precondition, patch).await?;
        Ok(self.remember(&objects, patched))
    }

    /// Changes status fields, if the object is still the version we saw.
    pub async fn patch_status<K: Kind>(
        &self,
        precondition: &Precondition,
        patch: Value,
    ) -> Result<PartialObjectMeta<K>, ClientError> {
        let objects = self.objects::<K>(Some(&precondition.key))?;
        let patched = objects.patch_status(precondition, patch).await?;
        Ok(self.remember(&objects, patched))
    }

    /// The same, and reads what came of it.
    pub async fn patch_status_whole<K: Kind>(
        &self,
        precondition: &Precondition,
        patch: Value,
    ) -> Result<K, ClientError> {
        self.may_write::<K>(Some(&precondition.key))?;
        let objects = self.client.of::<K>();
        let patched = objects.patch_status(precondition, patch).await?;
        Ok(self.remember(&objects, patched))
    }

    /// Deletes the object, if it is still the version we saw. One that is gone
    /// already is not an error here.
    pub async fn delete<K: Kind>(
        &self,
        precondition: &Precondition,
        propagation: Propagation,
    ) -> Result<Deleted, ClientError> {
        let objects = self.objects::<K>(Some(&precondition.key))?;
        let deleted = match objects.delete(precondition, propagation).await {
            Err(ClientError::NotFound { .. }) => Deleted::Gone,
            other => other?,
        };
        self.seen.deleted(self.pass, objects.resource(), precondition, &deleted);
        Ok(deleted)
    }

    fn objects<K: Kind>(
        &self,
        key: Option<&ObjectKey>,
    ) -> Result<Objects<PartialObjectMeta<K>>, ClientError> {
        self.may_write::<K>(key)?;
        Ok(self.client.of_type(ResourceType::of::<K>()).metadata_only())
    }

    /// The last moment to notice that another leads by now.
    fn may_write<K: Kind>(&self, key: Option<&ObjectKey>) -> Result<(), ClientError> {
        if self.leadership.is_held() {
            return Ok(());
        }
        let kind = ResourceType::of::<K>().kind;
        let name = key.map(ToString::to_string).unwrap_or_default();
        Err(ClientError::Deposed { object: format!("{kind} {name}") })
    }

    fn remember<K: kube::Resource>(&self, objects: &Objects<K>, object: K) -> K {
        self.seen.wrote(self.pass, objects.resource(), &object);
        object
    }
}

/// A type that knows its resource and can be read and written.
pub trait Kind: kube::Resource<DynamicType = ()> + DeserializeOwned + Serialize {}

impl<K: kube::Resource<DynamicType = ()> + DeserializeOwned + Serialize> Kind for K {}
