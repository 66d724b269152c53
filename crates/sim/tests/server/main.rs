//! The embedded API server with our definitions, and the runtime on it.

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod crd;
mod runtime_on_the_server;
