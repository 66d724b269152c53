//! Rolling updates: moves a placement's clusters to its latest resources, a few at a time.
//!
//! A pass is a pure function of what is stored and of the clock; nothing is remembered
//! between passes. Who may move is counted over all bindings of the placement, so what the last
//! pass wrote must be among them.
//!
//! Placements with the `External` strategy are left to `update_run`. What a cluster then
//! gets is made in `work`.

mod budget;
pub mod delivery_state;
pub mod messages;
mod observed;
mod reconcile;
mod sorting;
mod surplus_bindings;
pub mod triggers;
mod wanted;

#[cfg(test)]
mod tests;

pub use observed::Observed;
pub use reconcile::{Action, Plan, Waiting, plan};
