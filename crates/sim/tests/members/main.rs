//! Agents of members on a whole embedded fleet: joining, applying, delivery, credentials,
//! and manifests that mean harm.

mod credentials;
mod delivery;
mod hostile;
mod inventory;
mod member;
mod membership;
