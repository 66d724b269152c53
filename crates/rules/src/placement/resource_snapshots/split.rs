//! Cuts a selection into pieces that fit an object.

use std::ops::Range;

/// Most manifest bytes of one snapshot object.
pub const LIMIT: usize = 800 * 1024;

/// Ranges of resources, one per snapshot object: greedy, in order. Something larger than
/// the limit goes alone, and nothing at all is one empty piece.
pub fn split(sizes: impl IntoIterator<Item = usize>) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let (mut start, mut end, mut sum) = (0, 0, 0_usize);
    for size in sizes {
        // KubeFleet's encoder ends each manifest with a line feed and counts it.
        let size = size.saturating_add(1);
        if end > start && sum.saturating_add(size) > LIMIT {
            pieces.push(start..end);
            (start, sum) = (end, 0);
        }
        end += 1;
        sum = sum.saturating_add(size);
    }
    if end > start || pieces.is_empty() {
        pieces.push(start..end);
    }
    pieces
}
