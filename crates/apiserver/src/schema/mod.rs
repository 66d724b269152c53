//! Schemas of resources: the tree, its loaders, and what is done with it.

mod node;

pub use node::{Arena, ListType, Node, NodeId, NodeRef, PatchStrategy, Schema, Type};
