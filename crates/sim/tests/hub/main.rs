//! The hub's controllers on the embedded server, under paused time: when they look, what
//! they write, and what they leave alone. Members are played by the test.

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod binding_names;
mod guarding;
mod membership;
mod placement;
mod rollout;
mod scheduling;
mod trouble;
mod work;
mod writes;
