//! How long a status that tells of many clusters waits before it is written again.
//!
//! Each cluster changes on its own, and each write of such a status costs the API server time
//! for all of them: on a real one a placement of a hundred clusters takes some 100 ms, on the
//! embedded one 2. So the window follows what the last such write took. While few clusters change
//! the first is told at once; the end of a rollout does not wait at all, which is for the caller
//! to see to.

use std::time::Duration;

/// Times what a write takes that are left to others before the next one.
const SHARE: u32 = 5;
/// What a write costs beside the clusters in it, in clusters: a real API server takes some 6 ms
/// for any, and 1 ms more for each cluster.
const ALONE: u32 = 8;
/// A person who looks on sees something new at least this often.
pub const LONGEST: Duration = Duration::from_secs(5);

/// What the last write of such a status took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastWrite {
    /// Clusters in it.
    pub rows: u32,
    /// From the request to the answer.
    pub took: Duration,
}

/// How long to wait between two writes of a status with so many clusters: `least` for each of
/// them, and what the server takes for as many, by its last answer.
pub fn status_window(least: Duration, rows: u32, last: Option<LastWrite>) -> Duration {
    let by_latency = last.map_or(Duration::ZERO, |LastWrite { rows: of, took }| {
        took.saturating_mul(rows.saturating_add(ALONE)) / of.saturating_add(ALONE)
    });
    least.saturating_mul(rows).max(by_latency.saturating_mul(SHARE)).min(LONGEST)
}

/// The most such writes in a rollout of this length whose status costs so much: one for the first
/// change, one for the end, and one for each window between them.
pub fn most_writes(rollout: Duration, window: Duration) -> u32 {
    let windows = rollout.as_nanos() / window.as_nanos().max(1);
    u32::try_from(windows).unwrap_or(u32::MAX).saturating_add(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Duration = Duration::from_micros(500);

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn a_window_follows_the_size_of_the_status_and_the_latency_of_the_server() {
        let took = |rows, count| Some(LastWrite { rows, took: millis(count) });
        for (what, rows, last, window) in [
            ("nothing was written yet", 100, None, millis(50)),
            ("one cluster, nothing written", 1, None, Duration::from_micros(500)),
            ("the embedded server", 100, took(100, 2), millis(50)),
            ("a real server", 100, took(100, 99), millis(495)),
            ("a real server, and twice the clusters", 192, took(92, 100), millis(1000)),
            ("a first status without clusters", 100, took(0, 6), millis(405)),
            ("a large one before a small one", 2, took(92, 100), millis(50)),
            ("an overloaded server", 100, took(100, 8_000), LONGEST),
            ("a thousand clusters", 1000, took(1000, 900), millis(4500)),
            ("no cluster at all", 0, took(0, 3), millis(15)),
        ] {
            assert_eq!(status_window(LEAST, rows, last), window, "{what}");
        }
    }

    #[test]
    fn a_rollout_writes_its_status_a_stated_number_of_times() {
        // A hundred clusters within two seconds on a real API server, as published.
        let window = status_window(LEAST, 100, Some(LastWrite { rows: 100, took: millis(99) }));
        assert_eq!(most_writes(Duration::from_secs(2), window), 6);
        // However long it takes, a person sees something new every five seconds at least.
        assert_eq!(most_writes(Duration::from_secs(60), LONGEST), 14);
    }
}
