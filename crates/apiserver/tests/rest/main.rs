//! The server's promises, one test a sentence, over plain HTTP requests and through
//! `kube::Client`. No sockets: the cluster is the service.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod clients;
mod creating;
mod definitions;
mod deleting;
mod determinism;
mod discovery;
mod dry_runs;
mod harness;
mod hooks;
mod kube;
mod listing;
mod local;
mod negotiation;
mod patching;
mod pods;
mod selecting;
mod tables;
mod updating;
mod watching;
