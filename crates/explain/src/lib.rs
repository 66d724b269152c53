//! What a person is told: why something is not done, how a run stands, what a run would do,
//! whether the fleet is in order, what a joining member waits for, what changes for a hub that
//! KubeFleet runs, what the record of a run tells.
//!
//! Pure functions of what was read, as in `rules`. The command line and the console read,
//! call one of these and print; neither computes a rule.

pub mod board;
pub mod changes;
pub mod clusters;
pub mod doctor;
pub mod effect;
pub mod inbox;
pub mod joining;
pub mod migrating;
pub mod order;
pub mod overridden;
pub mod overview;
pub mod plan;
pub mod printable;
pub mod record;
pub mod rehearsal;
pub mod served_kinds;
pub mod unstaged;
pub mod why;
