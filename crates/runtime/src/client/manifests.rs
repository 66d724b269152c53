//! Whole objects as they are written, of any kind: what an applier needs.
//!
//! Nothing is read into types, so that no field is lost on the way, and a refusal keeps
//! the server's own words and causes, because people will read them in a condition.
//! A write has the precondition that is inside it: the caller decides whether a
//! `resourceVersion` is.

use bytes::Bytes;
use flagship_api::names::ObjectKey;
use http::Method;
use kube::core::Status;
use serde_json::{Value, json};

use super::objects::{APPLY_PATCH, JSON, MERGE_PATCH};
use super::{Call, Client, ClientError, Query, ResourceType};

const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

/// The objects of one kind on one server, as plain JSON.
#[derive(Clone)]
pub struct Manifests {
    client: Client,
    resource: ResourceType,
}

/// How a patch is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Lists with keys are merged by them; only for kinds built into Kubernetes.
    Strategic,
    /// Lists are replaced.
    Json,
}

/// How an apply is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applying {
    /// Takes fields that others own.
    pub force: bool,
    /// Only says what would come out.
    pub dry_run: bool,
}

/// A request that did not succeed, in the server's words.
#[derive(Debug, thiserror::Error)]
#[error("{says}")]
pub struct Refused {
    /// HTTP status; 0 if there was no answer.
    pub code: u16,
    /// What the server says about it, or what was wrong with the connection.
    pub says: String,
    /// What exactly, as far as the server tells.
    pub causes: Vec<Cause>,
    /// The same, sorted by what to do about it.
    #[source]
    pub error: ClientError,
}

/// One cause of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// What sort of problem, such as `FieldManagerConflict`.
    pub reason: String,
    /// The problem in words.
    pub message: String,
    /// Where.
    pub field: String,
}

impl Refused {
    /// Whether the object is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self.error, ClientError::NotFound { .. })
    }

    /// Whether the server calls the object invalid.
    pub fn is_invalid(&self) -> bool {
        self.code == 422
    }
}

impl Client {
    /// Objects of any kind as plain JSON.
    pub fn manifests(&self, resource: ResourceType) -> Manifests {
        Manifests { client: self.clone(), resource }
    }
}

impl Manifests {
    /// Which resource.
    pub fn resource(&self) -> &ResourceType {
        &self.resource
    }

    /// Reads one object that may not be there.
    pub async fn find(&self, key: &ObjectKey) -> Result<Option<Value>, Refused> {
        match self.ask(Method::GET, self.resource.object(key), key, None).await {
            Ok(object) => Ok(Some(object)),
            Err(refused) if refused.is_not_found() => Ok(None),
            Err(refused) => Err(refused),
        }
    }

    /// Creates the object.
    pub async fn create(&self, key: &ObjectKey, object: &Value) -> Result<Value, Refused> {
        let path = self.managed().on(self.resource.collection(key.namespace.as_deref()));
        self.ask(Method::POST, path, key, Some((JSON, object))).await
    }

    /// Writes the object back. Its `resourceVersion` is the precondition.
    pub async fn update(&self, key: &ObjectKey, object: &Value) -> Result<Value, Refused> {
        let path = self.managed().on(self.resource.object(key));
        self.ask(Method::PUT, path, key, Some((JSON, object))).await
    }

    /// Merges a patch into the object.
    pub async fn patch(
        &self,
        key: &ObjectKey,
        merge: Merge,
        patch: &Value,
    ) -> Result<Value, Refused> {
        let media_type = match merge {
            Merge::Strategic => STRATEGIC_PATCH,
            Merge::Json => MERGE_PATCH,
        };
        let path = self.managed().on(self.resource.object(key));
        self.ask(Method::PATCH, path, key, Some((media_type, patch))).await
    }

    /// Applies a configuration server-side, under the client's name.
    pub async fn apply(
        &self,
        key: &ObjectKey,
        configuration: &Value,
        how: Applying,
    ) -> Result<Value, Refused> {
        let query = self
            .managed()
            .with("force", if how.force { "true" } else { "" })
            .with("dryRun", if how.dry_run { "All" } else { "" });
        let path = query.on(self.resource.object(key));
        self.ask(Method::PATCH, path, key, Some((APPLY_PATCH, configuration))).await
    }

    /// Deletes that very object, whatever version it is by now. What becomes of what it
    /// owns is left to the kind. One that is gone already is fine.
    pub async fn delete(&self, key: &ObjectKey, uid: &str) -> Result<(), Refused> {
        let options = json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid},
        });
        let path = self.resource.object(key);
        match self.ask(Method::DELETE, path, key, Some((JSON, &options))).await {
            Err(refused) if !refused.is_not_found() => Err(refused),
            _ => Ok(()),
        }
    }

    fn managed(&self) -> Query {
        Query::default().with("fieldManager", self.client.name())
    }

    async fn ask(
        &self,
        method: Method,
        path: String,
        key: &ObjectKey,
        content: Option<(&'static str, &Value)>,
    ) -> Result<Value, Refused> {
        let object = self.resource.named(key);
        let content = content.map(|(media_type, value)| (media_type, value.to_string().into()));
        let call = Call { method, path, accept: JSON, content, object: object.clone() };
        let body = self.client.ask_plainly(call).await?;
        serde_json::from_slice(&body).map_err(|error| Refused {
            code: 0,
            says: error.to_string(),
            causes: Vec::new(),
            error: ClientError::Unreachable { object, source: Box::new(error) },
        })
    }
}

/// An answer that is no success, before it is sorted.
pub(super) struct Declined {
    pub(super) code: http::StatusCode,
    pub(super) retry_after: Option<std::time::Duration>,
    pub(super) body: Bytes,
}

impl Refused {
    /// No answer, or none that can be read.
    pub(super) fn unanswered(error: ClientError) -> Self {
        let mut says = error.to_string();
        let mut below = std::error::Error::source(&error);
        while let Some(cause) = below {
            says = cause.to_string();
            below = cause.source();
        }
        Self { code: 0, says, causes: Vec::new(), error }
    }

    pub(super) fn declined(object: String, declined: &Declined) -> Self {
        let Declined { code, retry_after, body } = declined;
        let error = ClientError::from_answer(object, *code, *retry_after, body);
        let status: Option<Status> = serde_json::from_slice(body).ok();
        let Some(status) = status else {
            let says = error.to_string();
            return Self { code: code.as_u16(), says, causes: Vec::new(), error };
        };
        let causes = status.details.map(|details| details.causes).unwrap_or_default();
        let causes = causes.into_iter().map(|cause| Cause {
            reason: cause.reason,
            message: cause.message,
            field: cause.field,
        });
        Self { code: code.as_u16(), says: status.message, causes: causes.collect(), error }
    }
}
