//! Agents of members on a whole embedded fleet: joining, applying, delivery, credentials,
//! and manifests that mean harm.

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod credentials;
mod delivery;
mod hostile;
mod inventory;
mod member;
mod membership;
mod refused;
