//! The member agent: applies Works, watches what it applied, reports drift,
//! availability and its own heartbeat.
//!
//! [`Member`] runs it over two clients: the hub's, of which it may see only its own
//! namespace, and its own cluster's. What a manifest needs, what is available and what
//! is said about it is decided in `flagship-rules`; here it is read, written and looked
//! at again in time. Knows nothing of `hub`.

mod kinds;
mod member;
mod membership;
mod options;
mod participation;
mod properties;
mod watching;
mod work;

pub use flagship_runtime::readiness::Readiness;
pub use member::Member;
pub use options::Options;
pub use properties::Provider;
