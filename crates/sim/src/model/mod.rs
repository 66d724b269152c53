//! Every state a small fleet can get into, for a model checker to walk through.
//!
//! The objects are the real ones and the planner is the real one; only the API server is
//! reduced to what matters: an object is where it was, or it has changed since you read
//! it. A checker looks at one [`State`] after the other; [`Model`] says what may happen
//! next, does it, and holds it against the laws of `rules::update_run::laws`.
//!
//! There is no checker here: `tests/runs/model` brings one, with the worlds it looks at.

mod environment;
mod graph;
mod judge;
mod passes;
mod state;
mod state_table;
mod words;
mod world;

pub use graph::{Graph, Kind};
pub use judge::{DOWN, LAWS, Law};
pub use passes::Planner;
pub use state::{Act, Model, State};
pub use world::{Faults, TICK, World};
