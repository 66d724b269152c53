//! What rules read of the hub's objects: one value for each kind, whatever its scope.
//!
//! An object is decoded once, into its mirror; every `Observed` shares that value. Kinds that
//! only one rule set reads are decoded in that rule set's `from_api`.

mod binding;

pub use binding::{Binding, Fence};
