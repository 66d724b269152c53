//! Hooks that see every write: in-process counterparts of admission webhooks.
//!
//! Mutating hooks run after decoding and defaulting, validating ones after the object
//! has passed its own rules, just before the commit. Each sees what the ones before it
//! left. A refusal ends the request.

use serde_json::Value;

use super::cluster::{Caller, Cluster, Place};
use super::meta;
use super::subresource::Sub;
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

/// The hooks of a cluster, ready for the stages of one write.
pub(super) struct Hooks<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) caller: &'a Caller,
    pub(super) place: &'a Place,
    pub(super) operation: &'static str,
    pub(super) sub: Sub,
    pub(super) dry_run: bool,
}

impl Hooks<'_> {
    /// Lets every hook change the object.
    pub(super) fn mutate(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        self.run(object, old, warnings, |hook, review| hook.mutate(review))
    }

    /// Lets every hook refuse the object.
    pub(super) fn validate(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Result<(), ApiError> {
        self.run(object, old, warnings, |hook, review| hook.validate(review))
    }

    fn run(
        &self,
        object: &mut Value,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
        stage: impl Fn(&dyn Admission, &mut Review<'_>) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let hooks = self.cluster.admission();
        if hooks.is_empty() {
            return Ok(());
        }
        let name = meta::text(object, "name").to_owned();
        let namespace = meta::text(object, "namespace").to_owned();
        let served = &self.place.served;
        for hook in hooks.iter() {
            let mut review = Review {
                cluster: &self.cluster.name,
                store: &self.cluster.store,
                operation: self.operation,
                resource: &served.kind.resource,
                kind: &served.kind.kind,
                api_version: &served.version().api_version,
                subresource: self.sub.name(),
                namespace: &namespace,
                name: &name,
                caller: self.caller,
                dry_run: self.dry_run,
                object,
                old,
                warnings,
            };
            stage(&**hook, &mut review)?;
        }
        Ok(())
    }
}
