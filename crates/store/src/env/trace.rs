//! What happened, as one number: two runs of a seed must end with the same hash.
//!
//! The REST layer calls [`Env::record`] once for each call, when its outcome is fixed; for a
//! watch that is when it begins. What a watch delivers and when it ends is not in here: a
//! test that cares records what it saw. Lines are kept only on request; the hash costs a few
//! hundred nanoseconds.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

use super::{Call, Env};

/// A rolling hash over everything recorded, and the lines themselves when asked for.
#[derive(Debug)]
pub struct Trace {
    state: Option<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    hash: u64,
    entries: u64,
    lines: Option<Vec<String>>,
}

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Virtual time.
    pub time: Timestamp,
    /// Who did it, such as `hub` or `member-7`.
    pub actor: &'a str,
    /// Such as `update`.
    pub verb: &'a str,
    /// Where: cluster, resource, namespace and name, as the recorder likes to print them.
    pub key: &'a str,
    /// Revision that came of it; 0 when none did.
    pub revision: u64,
    /// HTTP status code of the outcome; 0 when there was none.
    pub code: u16,
}

impl Trace {
    /// Records nothing. For servers that people use.
    pub fn off() -> Self {
        Self { state: None }
    }

    /// Keeps the hash only.
    pub fn hashing() -> Self {
        Self::with(None)
    }

    /// Keeps the hash and every line.
    pub fn recording() -> Self {
        Self::with(Some(Vec::new()))
    }

    fn with(lines: Option<Vec<String>>) -> Self {
        Self { state: Some(Mutex::new(State { hash: FNV_OFFSET, entries: 0, lines })) }
    }

    /// Whether recording does anything; lets callers skip preparing an entry.
    pub fn is_on(&self) -> bool {
        self.state.is_some()
    }

    /// Adds one entry.
    pub fn record(&self, entry: &Entry<'_>) {
        let Some(state) = &self.state else { return };
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.entries += 1;
        let mut hash = state.hash;
        // Lengths keep neighbouring texts apart: ("ab", "c") is not ("a", "bc").
        mix(&mut hash, &entry.time.as_nanosecond().to_le_bytes());
        for text in [entry.actor, entry.verb, entry.key] {
            mix(&mut hash, &(text.len() as u64).to_le_bytes());
            mix(&mut hash, text.as_bytes());
        }
        mix(&mut hash, &entry.revision.to_le_bytes());
        mix(&mut hash, &entry.code.to_le_bytes());
        state.hash = hash;
        if let Some(lines) = &mut state.lines {
            lines.push(entry.to_string());
        }
    }

    /// The hash so far.
    pub fn hash(&self) -> u64 {
        self.read(|state| state.hash)
    }

    /// How many entries were recorded.
    pub fn entries(&self) -> u64 {
        self.read(|state| state.entries)
    }

    /// The lines recorded so far; none unless made by [`Trace::recording`].
    pub fn lines(&self) -> Vec<String> {
        self.read(|state| state.lines.clone().unwrap_or_default())
    }

    fn read<T: Default>(&self, of: impl Fn(&State) -> T) -> T {
        let Some(state) = &self.state else { return T::default() };
        of(&state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Env {
    /// Records the outcome of a call: what it wrote or read up to, and its status code.
    pub fn record(&self, call: &Call<'_>, revision: u64, code: u16) {
        if self.trace.is_on() {
            let Call { cluster, who, verb, resource, namespace, name } = *call;
            let key = format!("{cluster}/{resource}/{namespace}/{name}");
            let time = self.clock.now();
            self.trace.record(&Entry { time, actor: who, verb, key: &key, revision, code });
        }
    }
}

impl fmt::Display for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, actor, verb, key, revision, code } = self;
        write!(f, "{time} {actor} {verb} {key} @{revision} {code}")
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

pub(super) fn hash_of(bytes: &[u8]) -> u64 {
    let mut hash = FNV_OFFSET;
    mix(&mut hash, bytes);
    hash
}

/// FNV-1a: tiny, stable across machines and versions, which std's hasher does not promise.
fn mix(hash: &mut u64, bytes: &[u8]) {
    for byte in bytes {
        *hash = (*hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'a>(actor: &'a str, verb: &'a str, revision: u64) -> Entry<'a> {
        let time = Timestamp::from_second(0).unwrap();
        Entry { time, actor, verb, key: "hub/pods/a/b", revision, code: 200 }
    }

    #[test]
    fn every_part_and_the_order_change_the_hash() {
        let hash = |entries: &[Entry<'_>]| {
            let trace = Trace::hashing();
            entries.iter().for_each(|entry| trace.record(entry));
            trace.hash()
        };
        let (a, b) = (entry("hub", "update", 2), entry("hub", "update", 3));
        assert_eq!(hash(&[a, b]), hash(&[a, b]));
        assert_ne!(hash(&[a, b]), hash(&[b, a]));
        assert_ne!(hash(&[entry("ab", "c", 1)]), hash(&[entry("a", "bc", 1)]));
        assert_ne!(hash(&[a]), hash(&[Entry { code: 409, ..a }]));
    }

    #[test]
    fn lines_are_kept_on_request_only() {
        let trace = Trace::recording();
        trace.record(&entry("hub", "update", 2));
        assert_eq!(trace.lines(), ["1970-01-01T00:00:00Z hub update hub/pods/a/b @2 200"]);
        let off = Trace::off();
        off.record(&entry("hub", "update", 2));
        assert_eq!((off.entries(), off.hash(), off.is_on()), (0, 0, false));
    }
}
