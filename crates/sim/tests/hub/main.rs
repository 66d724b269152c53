//! The hub's controllers on the embedded server, under paused time: when they look, what
//! they write, and what they leave alone. Members are played by the test.

mod guarding;
mod membership;
mod placement;
mod rollout;
mod scheduling;
mod trouble;
mod work;
