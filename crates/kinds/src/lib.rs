//! What the server knows of Kubernetes' own kinds: names, defaults and validation.
//!
//! Everything here is a pure function over one or two JSON values. A write calls, in
//! this order: [`default_object`] after decoding (and after patching), then mutating
//! hooks, then [`prepare_create`], [`prepare_update`] or [`prepare_status_update`] once
//! the server has set uid and timestamps, then [`validate_create`] or
//! [`validate_update`], then validating hooks. None of them panics, whatever the shape of the JSON: fields of
//! the wrong type are passed over, for the schema to complain about.
//!
//! Custom resources are not known here, nor is anything that reads other objects. What
//! `kubectl get` shows of a kind is in [`tables`], its protobuf form in [`protobuf`].

// Tests hand over what `json!` made; a reference would only add noise.
#![cfg_attr(test, allow(clippy::needless_pass_by_value))]

pub mod addresses;
mod catalog;
pub mod convert;
mod default;
mod json;
pub mod limits;
mod prepare;
pub mod protobuf;
pub mod quota;
pub mod scale;
mod selectable;
pub mod tables;
mod validate;

pub use catalog::{
    BuiltinKind, Kind, NameRule, Selectable, Subresource, catalog, find, find_resource,
};
pub use default::default_object;
pub use prepare::{
    metadata_through_status, prepare_approval, prepare_create, prepare_finalize,
    prepare_status_update, prepare_update, put_back_but_status,
};
pub use selectable::selectable_fields;
pub use validate::{
    approvals_kept, late_finalizers, strict_event, validate_create, validate_metadata,
    validate_update,
};

#[cfg(test)]
mod hostile;

/// The finalizer that keeps a definition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
