//! Stories of the work generators: a hub on the embedded server, paused time, and a
//! member that says what the story lets it say.
//!
//! What a pass decides is told beside the rules; here is when they look, what they
//! write, and what they leave alone.

mod back_report;
mod changes;
mod delivery;
mod endings;
mod mistakes;
mod seeds;
mod story;
mod trouble;
