//! The patches of [`flagship_patch`] with the schemas of this server, and server-side apply.
//!
//! Everything here is a function from values to a value or a refusal: no HTTP, no
//! clock, no store. What a list is merged by comes from `flagship_schema`; where the
//! schema is silent, maps are merged and lists replaced.
//!
//! Choosing the patch type by media type, and retrying on conflict, is `rest`'s.

pub mod apply;
mod refused;

pub use flagship_patch::{MAX_OPERATIONS, PatchError, json, merge, merge_owned, strategic};
pub use refused::refused;
