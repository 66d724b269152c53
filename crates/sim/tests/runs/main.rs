//! Update runs: scenarios on a hub, hubs that die after each write, and every interleaving
//! of small fleets.

mod crash_everywhere;
mod model;
mod update_run;
