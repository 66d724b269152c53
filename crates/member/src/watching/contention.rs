//! Keeps a Work that is fought over from being processed without end.
//!
//! The first few changes are answered at once. Where somebody undoes what we do as often
//! as we do it, answers come later and later, up to the longest of [`FIGHT`].

use std::time::Duration;

use flagship_base::backoff::Backoff;
use tokio::time::Instant;

/// Changes that are answered at once.
const PATIENT: u32 = 5;

/// Changes that come together are answered together. Every millisecond of it is one that
/// a rollout waits for each cluster.
const TOGETHER: Duration = Duration::from_millis(10);

/// The pauses before an answer where patience has ended.
const FIGHT: Backoff =
    Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(5) };

/// Without a change for this long, all is forgotten.
const FORGIVEN: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct ContentionBackOff {
    last: Option<Instant>,
    streak: u32,
}

impl ContentionBackOff {
    /// How long to wait before this change is answered.
    pub fn pause(&mut self, now: Instant) -> Duration {
        if self.last.is_none_or(|last| now.duration_since(last) >= FORGIVEN) {
            self.streak = 0;
        }
        self.last = Some(now);
        self.streak = self.streak.saturating_add(1);
        match self.streak.saturating_sub(PATIENT) {
            0 => TOGETHER,
            fights => FIGHT.after(fights - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_get_later_in_a_fight_and_quick_again_after_it() {
        let mut back_off = ContentionBackOff::default();
        let mut now = Instant::now();
        let pauses: Vec<u128> = (0..14)
            .map(|_| {
                now += Duration::from_secs(1);
                back_off.pause(now).as_millis()
            })
            .collect();
        assert_eq!(pauses, [10, 10, 10, 10, 10, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
        assert_eq!(back_off.pause(now + FORGIVEN).as_millis(), 10);
    }
}
