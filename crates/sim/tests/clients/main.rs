//! Stock clients against the embedded server: kubectl, client-go and controller-runtime.

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod go_clients;
mod kubectl;
