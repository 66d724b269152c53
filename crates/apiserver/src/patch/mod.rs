//! JSON patch, merge patch, strategic merge patch and server-side apply over JSON values.
//!
//! Everything here is a function from values to a value or a refusal: no HTTP, no
//! clock, no store. What a list is merged by comes from [`crate::schema`]; where the
//! schema is silent, maps are merged and lists replaced.
//!
//! Choosing the patch type by media type, and retrying on conflict, is `rest`'s.

pub mod apply;
#[cfg(test)]
mod arbitrary;
mod json;
mod merge;
mod printed;
mod refused;
mod strategic;
pub mod three_way;

pub use json::{MAX_OPERATIONS, json};
pub use merge::merge;
pub use refused::PatchError;
pub use strategic::strategic;
