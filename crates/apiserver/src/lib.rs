//! An embedded, Kubernetes-shaped API server: many logical clusters in one process.
//!
//! A request enters as an `http::Request`, is routed by [`rest`], decoded, defaulted,
//! pruned and validated by `flagship_schema` and `flagship_kinds`, patched by [`patch`], committed
//! by compare-and-swap into `flagship_store`, and fanned out to watchers there. Time, chance
//! and failure come from `flagship_store::env`, so that a paused runtime replays exactly.
//!
//! `flagship_edge` puts it on the network, behind [`auth`].
//!
//! Knows nothing of fleets.

pub mod auth;
pub mod openapi;
pub mod patch;
pub mod registry;
pub mod rest;
