//! Update runs: scenarios on a hub, hubs that die after each write, and every interleaving
//! of small fleets.

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod crash_everywhere;
mod model;
mod policy;
mod update_run;
