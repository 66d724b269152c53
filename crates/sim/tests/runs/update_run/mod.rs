//! Stories of update runs on a hub with all its controllers: the embedded server, paused
//! time, both scopes. The story itself plays the members.
//!
//! What a pass decides is told beside the rules; here is when runs look, what they write
//! and in which order, and what people see.

mod api;
mod approvals;
mod lifecycle;
mod real_members;
mod rivals;
mod seeds;
mod stopping;
pub mod story;
mod stuck;
mod trouble;
