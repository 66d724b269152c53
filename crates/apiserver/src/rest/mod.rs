//! HTTP verbs on resources: routing, decoding, the write pipeline, lists and watch streams.
//!
//! [`Server`] holds many logical clusters; a [`ClusterHandle`] is one of them and a
//! `tower::Service`, so that the same object serves sockets and `kube::Client`.
//! Controllers inside the process use [`Local`], which skips HTTP and nothing else:
//! both end in `write`, `read` and `watch`.
//!
//! Admission is what [`Admission`] hooks in the process do, and after them the webhooks and
//! admission policies of users.
//!
//! ```text
//! service -> route -> options, negotiate, decode -> write | read | watch -> store
//! local  ------------------------------------------^
//! ```

mod admission;
mod body;
mod certificates;
mod cluster;
mod connect;
mod crd;
mod decode;
mod delete;
mod documents;
mod draft;
mod dynamic_admission;
mod events;
mod failure;
mod health;
mod local;
mod managers;
mod meta;
mod metrics;
mod negotiate;
mod options;
mod patching;
mod pods;
mod present;
mod read;
mod roles;
mod route;
mod rules;
mod scale;
mod server;
mod service;
mod subresource;
mod taken;
mod tokens;
mod watch;
mod write;

pub use admission::{Admission, Mutation, Review};
pub use body::Body;
pub use certificates::{Signer, Wanted};
pub use cluster::{Caller, ClusterHandle};
pub use documents::text;
pub use failure::Unserved;
pub use health::without_cluster;
pub use local::Local;
pub use metrics::{Counting, MEDIA as METRICS_MEDIA, UnderWay};
pub use options::{DeleteOptions, FieldValidation, Propagation, WriteOptions};
pub use patching::PatchKind;
pub use route::nowhere;
pub use server::Server;
pub use service::{Disconnected, ServerService};
pub use service::{MAX_BODY, collect, refusal};
pub(crate) use tokens::decoded_text;
pub use watch::slow as slow_watch;
