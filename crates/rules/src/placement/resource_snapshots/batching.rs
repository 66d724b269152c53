//! How long a change waits for others before it becomes a snapshot.

use jiff::{SignedDuration, Timestamp};

use crate::model::ResourceSnapshot;
use crate::placement::observed::Batching;

/// Whether a change seen now may become a snapshot now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Due {
    /// Yes.
    Now,
    /// Not before so long; `stamp` says that nobody wrote down yet when it was first seen.
    In { wait: SignedDuration, stamp: bool },
}

/// Decides by the latest snapshot's age and by when a change was first seen, which is
/// written on it. That stamp is never cleared, so a change that was undone shortens the
/// wait of the next one.
pub fn due(latest: &ResourceSnapshot, batching: Batching, now: Timestamp) -> Due {
    let zero = SignedDuration::ZERO;
    if batching.minimum_interval <= zero && batching.collection <= zero {
        return Due::Now;
    }
    let stamped: Option<Timestamp> = latest.detected.as_deref().and_then(|at| at.parse().ok());
    let seen_for = now.duration_since(stamped.unwrap_or(now));
    let age = now.duration_since(latest.created);
    let wait = (batching.collection - seen_for).max(batching.minimum_interval - age);
    if wait <= zero { Due::Now } else { Due::In { wait, stamp: stamped.is_none() } }
}

/// The stamp as it is written: whole seconds.
pub fn stamp(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stamp_has_whole_seconds() {
        let now: Timestamp = "2026-01-01T12:00:00.987Z".parse().unwrap();
        assert_eq!(stamp(now), "2026-01-01T12:00:00Z");
    }
}
