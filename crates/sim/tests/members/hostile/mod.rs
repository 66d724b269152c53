//! Manifests and webhooks that mean harm, on a whole fleet.
//!
//! Each ends in a condition that is true, and nothing else suffers: beside every one of them
//! a placement called `bystander` is delivered, edited and kept in order. What a member's
//! credentials may do is told in `credentials`, hostile bytes in the API server's own
//! tests.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod claims;
mod heartbeats;
mod hooks;
mod own_objects;
mod scene;
mod secrets;
mod sizes;
mod tenant;
