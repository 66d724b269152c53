//! Our custom resources on our own API server.
//!
//! Every definition of `flagship_api::crd` is installed in an embedded cluster and asked
//! over HTTP, in process. What is expected comes from the definitions and from
//! Kubernetes' own wordings, which `wordings` writes down once; nothing is computed by
//! the code under test.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod fleet;
mod installing;
mod limits;
mod names;
mod pruning;
mod refusals;
mod rule_cases;
mod rules;
mod samples;
mod spots;
mod typed;
mod versions;
mod wordings;
