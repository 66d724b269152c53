//! The checklist of the member specification (section 16), as tables and stories.
//!
//! `fixture` is a member cluster and a shell in memory. Groups of the checklist are counted from
//! 1 (lifecycle) to 11 (metrics): `checklist 4.2` is the second line on applying.

mod applying;
mod conditions;
mod details;
mod drift;
mod fixture;
mod histories;
mod merging;
mod preprocessing;
mod protected;
mod report_diff;
mod requeue;
mod secrets;
mod sizes;
mod taking_over;
mod waves;
