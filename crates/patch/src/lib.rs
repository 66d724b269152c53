//! JSON patch, merge patch, strategic merge patch and three-way merge over JSON values.
//!
//! Everything here is a function from values to a value or a refusal. What a list is merged
//! by comes from a [`Shape`]; where that is silent, maps are merged and lists replaced. The
//! shapes of the kinds Kubernetes brings with it are in a table of their own, see
//! [`builtin()`]; whoever has whole schemas may use those.
//!
//! Server-side apply is not here: it needs more of a schema than merge keys. Choosing a patch
//! type, sending it, and trying again is the business of servers and clients.

#[cfg(any(test, feature = "arbitrary"))]
pub mod arbitrary;
mod builtin;
mod depth;
mod json;
mod merge;
#[cfg(test)]
mod openapi;
mod printed;
mod refused;
mod shape;
mod strategic;
pub mod three_way;

pub use builtin::{Builtin, builtin};
pub use depth::{MAX_DEPTH, fits};
pub use json::{MAX_OPERATIONS, json};
pub use merge::{merge, merge_owned};
pub use printed::{printed, type_name};
pub use refused::PatchError;
pub use shape::Shape;
pub use strategic::strategic;
