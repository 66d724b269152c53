//! Stories of one member and the Works it is given, told by the real agent.
//!
//! Works are written by hand here, as a person at the hub could; how placements become
//! Works is told elsewhere. What a pass decides is told beside the rules; here is when it
//! looks, what it writes, and what it leaves alone.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod applying;
mod drifting;
mod lifecycle;
mod preparing;
mod scene;
mod taking_over;
mod trouble;
mod watching;
