//! Stories of the placement controllers at work: a hub on the embedded server, paused
//! time, the scheduler beside them.
//!
//! What a pass decides is told beside the rules; here is when they look, what they
//! write, and what they leave alone.

mod admission;
mod changes;
mod copies;
mod endings;
mod faults;
mod kinds;
mod mistakes;
mod seeds;
mod story;
mod unreadable;
mod versions;
mod walk;
