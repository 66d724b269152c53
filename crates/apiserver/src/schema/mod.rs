//! Schemas of resources: the tree, its loaders, and what is done with it.

mod load;
mod node;

pub use load::LoadError;
pub use node::{
    Arena, Bound, Checks, ListType, Node, NodeId, NodeRef, PatchStrategy, Pattern, Range, Schema,
    Type,
};
