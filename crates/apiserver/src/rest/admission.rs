//! Hooks that see every write: in-process counterparts of admission webhooks.
//!
//! Mutating hooks run after decoding and defaulting, validating ones after the object
//! has passed its own rules, just before the commit. Each sees what the ones before it
//! left. A refusal ends the request.

use serde_json::Value;

use super::cluster::Caller;
use crate::machinery::status::ApiError;
use crate::store::Store;

/// A write under review.
pub struct Review<'a> {
    /// The cluster's name.
    pub cluster: &'a str,
    /// The cluster's objects, for hooks that look at others than the one written.
    pub store: &'a Store,
    /// `create`, `update` or `delete`; patches come as what they amount to.
    pub operation: &'static str,
    /// `plural.group`.
    pub resource: &'a str,
    /// Kind as written in manifests.
    pub kind: &'a str,
    /// Group and version of the request.
    pub api_version: &'a str,
    /// Such as `status`; empty for the object itself.
    pub subresource: &'a str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// Who asks.
    pub caller: &'a Caller,
    /// Nothing will be committed; hooks must not act either.
    pub dry_run: bool,
    /// The object as it will be; for deletes, as it is. Only mutating hooks may change it.
    pub object: &'a mut Value,
    /// The object as it is; absent on create.
    pub old: Option<&'a Value>,
    /// What to tell the client in `Warning` headers.
    pub warnings: &'a mut Vec<String>,
}

/// A hook.
pub trait Admission: Send + Sync {
    /// May change the object, or refuse it.
    fn mutate(&self, review: &mut Review<'_>) -> Result<(), ApiError> {
        _ = review;
        Ok(())
    }

    /// May refuse the object. Changes made here are lost.
    fn validate(&self, review: &mut Review<'_>) -> Result<(), ApiError> {
        _ = review;
        Ok(())
    }
}
