//! Schemas of resources: the tree, its loaders, and what is done with it.

mod builtin;
mod load;
mod node;

pub use builtin::{builtin, builtin_kinds, object_meta};
pub use load::LoadError;
pub use node::{
    Arena, Bound, Checks, ListType, Node, NodeId, NodeRef, PatchStrategy, Pattern, Range, Schema,
    Type,
};
