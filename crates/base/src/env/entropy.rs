//! Seeded randomness: uids, name suffixes, jitter.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A source of numbers that a seed decides entirely.
#[derive(Debug)]
pub struct Entropy(Mutex<fastrand::Rng>);

impl Entropy {
    /// The same seed gives the same sequence.
    pub fn seeded(seed: u64) -> Self {
        Self(Mutex::new(fastrand::Rng::with_seed(seed)))
    }

    /// A sequence that no other process has; for real clusters only.
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

    /// `digits` lower-case hexadecimal digits (at most 16), for name suffixes.
    pub fn hex(&self, digits: usize) -> String {
        let mut text = format!("{:016x}", self.u64());
        text.truncate(digits);
        text
    }

    /// A span between `span` and `span * (1 + part)`; `part` at most 1.
    pub fn jittered(&self, span: Duration, part: f64) -> Duration {
        let drawn = (self.u64() >> 11) as f64 / (1u64 << 53) as f64;
        span.mul_f64(1.0 + part.clamp(0.0, 1.0) * drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_sequence() {
        let (one, two) = (Entropy::seeded(7), Entropy::seeded(7));
        assert_eq!(one.uuid(), two.uuid());
        assert_eq!(one.hex(8), two.hex(8));
        assert_eq!(one.hex(8).len(), 8);
    }

    #[test]
    fn uuids_have_version_and_variant() {
        let id = Entropy::seeded(7).uuid();
        assert_eq!(id.len(), 36);
        assert_eq!(id.as_bytes()[14], b'4');
        assert!(matches!(id.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
    }

    #[test]
    fn jitter_only_lengthens() {
        let entropy = Entropy::seeded(3);
        let second = Duration::from_secs(1);
        for _ in 0..100 {
            let span = entropy.jittered(second, 0.1);
            assert!(span >= second && span <= second.mul_f64(1.1));
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_names() {
        assert_eq!(Entropy::seeded(7).uuid(), Entropy::seeded(7).uuid());
        assert_ne!(Entropy::seeded(7).uuid(), Entropy::seeded(8).uuid());
    }
}
