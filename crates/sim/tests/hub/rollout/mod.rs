//! Stories of rolling updates and overrides: a hub on the embedded server, paused time,
//! placements and the scheduler beside them. What members do is told by the story.
//!
//! What a pass decides is told beside the rules; here is when controllers look, what they
//! write, and what they leave alone.

mod delivering;
mod endings;
mod evicting;
mod faults;
mod freezing;
mod moving;
mod overriding;
mod relists;
mod story;
mod strategies;
