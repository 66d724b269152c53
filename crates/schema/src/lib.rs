//! Schemas of resources: the tree, its loaders, and what is done with it.

#[cfg(test)]
mod authors;
mod builtin;
mod cel;
mod compiled;
mod decode;
mod default;
mod definition;
mod embedded;
mod format;
mod keywords;
#[cfg(test)]
mod laws;
mod lists;
mod load;
mod node;
mod path;
mod prune;
mod read;
mod shapes;
mod structural;
mod validate;
#[cfg(test)]
mod verdicts;
mod walk;

pub use builtin::{Published, builtin, builtin_kinds, object_meta, published};
pub use cel::admission::{AccessPolicy, Asker, Evaluation, Noted, Program, Sight};
pub use cel::typed::{Sighted, Subject};
pub use compiled::Compiled;
pub use decode::decode_error;
pub use definition::validate_crd;
pub use load::LoadError;
pub use node::{
    Arena, Bound, Checks, ListType, Node, NodeId, NodeRef, PatchStrategy, Pattern, Range, RuleText,
    Schema, Type,
};
pub use read::{ReadJson, in_order_of, read_json};
