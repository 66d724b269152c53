//! Works that somebody else writes over. Two hubs that both lead, one of which has not seen the
//! newest version of the binding, would write a Work in turn as fast as the server answers:
//! each write wakes the other. Who has to write the same again waits, each time twice as long.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use flagship_api::names::ObjectKey;
use flagship_rules::work::Stamp;
use tokio::time::Instant;

/// How far apart the first two writes of the same are.
const FIRST: Duration = Duration::from_millis(100);
/// How far apart they are at most.
const LONGEST: Duration = Duration::from_secs(60);
/// After that a write is the first one again.
const FORGOTTEN: Duration = Duration::from_secs(180);

/// What was written lately.
#[derive(Default)]
pub(super) struct Contested(Mutex<Lately>);

#[derive(Default)]
struct Lately {
    works: BTreeMap<ObjectKey, Written>,
    tidied: Option<Instant>,
}

struct Written {
    stamp: Stamp,
    at: Instant,
    /// Until then the same is not written again.
    apart: Duration,
}

impl Contested {
    /// How long a Work is to be left as it is, since the same was written to it a moment ago.
    pub fn wait(&self, work: &ObjectKey, stamp: &Stamp) -> Option<Duration> {
        let lately = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let written = lately.works.get(work).filter(|written| written.stamp == *stamp)?;
        let left = (written.at + written.apart).saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Notes that a Work was written.
    pub fn written(&self, work: &ObjectKey, stamp: Stamp) {
        let (now, mut lately) =
            (Instant::now(), self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let is_recent = |written: &Written| now - written.at < FORGOTTEN;
        if lately.tidied.is_none_or(|tidied| now - tidied >= FORGOTTEN) {
            lately.works.retain(|_, written| is_recent(written));
            lately.tidied = Some(now);
        }
        let before = lately.works.get(work);
        let again = before.filter(|written| written.stamp == stamp && is_recent(written));
        let apart = again.map_or(FIRST, |written| (written.apart * 2).min(LONGEST));
        lately.works.insert(work.clone(), Written { stamp, at: now, apart });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_same_is_written_ever_more_seldom_and_anything_else_at_once() {
        let (contested, work) = (Contested::default(), ObjectKey::new(Some("m1"), "web"));
        let stamp = |index: &str| Stamp { index: Some(index.into()), ..Stamp::default() };
        let mut waits = Vec::new();
        for _ in 0..12 {
            let wait = contested.wait(&work, &stamp("1")).unwrap_or_default();
            waits.push(wait.as_millis());
            tokio::time::advance(wait).await;
            contested.written(&work, stamp("1"));
        }
        assert_eq!(
            waits,
            [0, 100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 60_000]
        );
        assert_eq!(contested.wait(&work, &stamp("2")), None);
        assert_eq!(contested.wait(&ObjectKey::new(Some("m2"), "web"), &stamp("1")), None);
        tokio::time::advance(FORGOTTEN).await;
        contested.written(&work, stamp("1"));
        assert_eq!(contested.wait(&work, &stamp("1")), Some(FIRST));
    }
}
