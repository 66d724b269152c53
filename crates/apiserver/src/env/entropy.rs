//! Where randomness comes from.

use std::sync::{Mutex, PoisonError};

/// Seeded randomness: uids, generated names, jitter.
#[derive(Debug)]
pub struct Entropy(Mutex<fastrand::Rng>);

impl Entropy {
    /// The same seed gives the same sequence.
    pub fn seeded(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    /// A sequence nobody can repeat, for servers that people use.
    pub fn unseeded() -> Self {
        Self(Mutex::new(fastrand::Rng::new()))
    }

    /// The next 64 bits.
    pub fn u64(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).u64(..)
    }

    /// A version 4 UUID in its usual text form.
    pub fn uuid(&self) -> String {
        let high = (self.u64() & 0xffff_ffff_ffff_0fff) | 0x4000;
        let low = (self.u64() & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
        let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, high & 0xffff);
        format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & 0xffff_ffff_ffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_version_and_variant() {
        let id = Entropy::seeded(7).uuid();
        assert_eq!(id.len(), 36);
        assert_eq!(id.as_bytes()[14], b'4');
        assert!(matches!(id.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
    }

    #[test]
    fn the_same_seed_gives_the_same_names() {
        assert_eq!(Entropy::seeded(7).uuid(), Entropy::seeded(7).uuid());
        assert_ne!(Entropy::seeded(7).uuid(), Entropy::seeded(8).uuid());
    }
}
