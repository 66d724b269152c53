//! Keeps a status small enough to be stored.
//!
//! An object of more than about 1.5 MiB is refused, and then nothing would be reported
//! at all. Details go before lists and lists before nothing else: conditions always stay.

use flagship_api::placement_status::{PerClusterPlacementStatus, PlacementStatus};
use serde::Serialize;

/// Most bytes of a status: 1.35 MiB.
pub const MOST_BYTES: usize = 1_415_577;

/// One thing to leave out of an entry.
type Cut = fn(&mut PerClusterPlacementStatus);

const CUTS: [Cut; 4] = [drop_details, drop_drifts, drop_diffs, drop_failures];

fn drop_details(entry: &mut PerClusterPlacementStatus) {
    for drifted in &mut entry.drifted_placements {
        drifted.observed_drifts.clear();
    }
    for diffed in &mut entry.diffed_placements {
        diffed.observed_diffs.clear();
    }
}

fn drop_drifts(entry: &mut PerClusterPlacementStatus) {
    entry.drifted_placements.clear();
}

fn drop_diffs(entry: &mut PerClusterPlacementStatus) {
    entry.diffed_placements.clear();
}

fn drop_failures(entry: &mut PerClusterPlacementStatus) {
    entry.failed_placements.clear();
}

/// Whether there is anything to cut.
fn has_details(entry: &PerClusterPlacementStatus) -> bool {
    !(entry.drifted_placements.is_empty()
        && entry.diffed_placements.is_empty()
        && entry.failed_placements.is_empty())
}

/// Cuts the largest entries first, and no more than is needed.
pub fn fit(status: &mut PlacementStatus, most: usize) {
    // Measuring costs as much as the rest of a pass, so do it only where it may help.
    if !status.placement_statuses.iter().any(has_details) {
        return;
    }
    let mut total = bytes(status);
    if total <= most {
        return;
    }
    let entries = &mut status.placement_statuses;
    for cut in CUTS {
        let candidates = entries.iter().enumerate().filter(|(_, entry)| has_details(entry));
        let mut by_size: Vec<(usize, usize)> =
            candidates.map(|(at, entry)| (bytes(entry), at)).collect();
        by_size.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        for (size, at) in by_size {
            if total <= most {
                return;
            }
            let Some(entry) = entries.get_mut(at) else { continue };
            cut(entry);
            total -= size.saturating_sub(bytes(entry)).min(total);
        }
    }
}

/// How long something is on the wire, give or take nothing.
fn bytes<T: Serialize>(value: &T) -> usize {
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        // Counting cannot fail to write, and statuses have no keys that are not text.
        Err(_) => usize::MAX,
    }
}

struct Counter(usize);

impl std::io::Write for Counter {
    fn write(&mut self, written: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.saturating_add(written.len());
        Ok(written.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
