//! The hub's controllers. Each has a shell that writes, around one rule set of
//! `flagship-rules`; what it reads is in `observe.rs` where that is more than a few lines.
//!
//! [`Hub`] starts them all over one client. What they watch is mirrored once, in
//! `mirrors`; both scopes of a kind meet in `scope`. Nothing here decides anything
//! that a person would call policy: that is in the rules. Knows nothing of `member`.

pub mod admission;
mod back_report;
mod changes;
mod checks;
mod counted_bindings;
mod definitions;
mod egress;
mod eviction;
mod hub;
mod inventory;
mod malformed_events;
mod membership;
mod mirrors;
mod notification;
mod options;
mod overrides;
mod patches;
mod per_placement;
mod placement;
pub mod policies;
mod rollout;
mod scheduling;
mod scope;
mod status_cost;
mod unreadable;
mod update_run;
mod work;

pub use definitions::Undefined;
pub use egress::Egress;
pub use flagship_runtime::readiness::Readiness;
pub use hub::Hub;
pub use options::{Controllers, Options};
#[doc(hidden)]
pub use update_run::FilledMirrors;
