//! Which bindings leave when a policy asks for fewer clusters.
//!
//! Those without resources go first. Within a class the weakest score goes first and,
//! on a tie, the smallest name: the mirror image of how they were picked.

use super::classify::Classes;
use super::decision::Score;
use crate::model::Binding;

/// Splits the bindings in force into those that stay (scheduled, then bound) and the
/// `count` that leave.
pub fn trim<'a>(classes: &Classes<'a>, count: usize) -> (Vec<&'a Binding>, Vec<&'a Binding>) {
    let scheduled = split(&classes.scheduled, count);
    let bound = split(&classes.bound, count.saturating_sub(classes.scheduled.len()));
    let kept = scheduled.0.into_iter().chain(bound.0).collect();
    let trimmed = scheduled.1.into_iter().chain(bound.1).collect();
    (kept, trimmed)
}

fn split<'a>(class: &[&'a Binding], count: usize) -> (Vec<&'a Binding>, Vec<&'a Binding>) {
    if count == 0 {
        return (class.to_vec(), Vec::new());
    }
    if count >= class.len() {
        return (Vec::new(), class.to_vec());
    }
    let mut sorted = class.to_vec();
    // `None` orders before any score: a binding that was never scored leaves first.
    sorted.sort_by_key(|b| (Score::read(&b.spec.cluster_decision), b.cluster()));
    let kept = sorted.split_off(count);
    (kept, sorted)
}
