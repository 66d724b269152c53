//! PickN: the best N clusters, in one batch, or one a pass under spread constraints.
//!
//! What is placed stays placed: a pass only fills up to N or trims down to it.

use super::classify::Classes;
use super::cross_reference::Changes;
use super::decision::{self, Decision, Verdict};
use super::downscale::trim;
use super::filter::Filters;
use super::observed::Observed;
use super::{Action, Failure, Outcome};
use crate::model::Binding;

/// One pass.
pub fn plan(seen: &Observed, classes: &Classes<'_>) -> Result<Outcome, Failure> {
    let wanted = wanted(seen)?;
    let present = classes.present();
    if wanted > present {
        return fill(seen, classes, wanted, wanted - present);
    }
    let content = present == wanted && classes.obsolete.is_empty();
    let (kept, trimmed): (Vec<&Binding>, Vec<&Binding>) = if content {
        (classes.bound.iter().chain(&classes.scheduled).copied().collect(), Vec::new())
    } else {
        trim(classes, present - wanted)
    };
    let selected = kept.iter().map(|b| b.decision()).collect();
    let decisions = decision::list(selected, Vec::new(), Vec::new());
    let verdict = Verdict { fulfilled: true, found: kept.len() };
    let released = classes.obsolete.iter().copied().chain(trimmed);
    let report = if content {
        // Why others were not picked was said when these were, and still holds.
        decision::report_of_selected(&seen.snapshot, decisions, verdict)
    } else {
        decision::report(&seen.snapshot, decisions, verdict)
    };
    Ok(Outcome {
        report,
        actions: released.map(Action::release).collect(),
        again: false,
        remarks: Vec::new(),
    })
}

fn wanted(seen: &Observed) -> Result<usize, Failure> {
    let key = flagship_api::keys::annotation::NUMBER_OF_CLUSTERS;
    let Some(text) = &seen.snapshot.number_of_clusters else {
        return Err(Failure(format!(
            "policy snapshot {} has no annotation {key}",
            seen.snapshot.name
        )));
    };
    let count: Option<u32> = text.parse().ok();
    let count = count.ok_or_else(|| {
        Failure(format!(
            "annotation {key} of policy snapshot {} is not a number of clusters: {text:?}",
            seen.snapshot.name
        ))
    })?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

fn fill(
    seen: &Observed,
    classes: &Classes<'_>,
    wanted: usize,
    missing: usize,
) -> Result<Outcome, Failure> {
    let mut filters = Filters::new(seen, classes).map_err(Failure)?;
    let filtered = filters.run();
    let ranked = filters.rank(&filtered.passed).map_err(Failure)?;
    // Spread is judged against the state before the pass: one pick, then look again.
    let limit = if filters.spreads() { 1 } else { missing };
    let (picked, outscored) = ranked.split_at(missing.min(limit).min(ranked.len()));
    let picked: Vec<_> = picked.iter().map(|c| (filters.name(c.place), Some(c.score))).collect();
    let changes = Changes::between(&picked, classes)?;
    let gained = changes.gained();
    if missing > limit && gained == limit {
        // More to come. Obsolete bindings stay until the last pass, so that their
        // clusters keep their preference and nothing is withdrawn to be put back.
        let actions = changes.actions(false).collect();
        return Ok(Outcome { report: None, actions, again: true, remarks: Vec::new() });
    }
    let found = gained + classes.present();
    let outscored = outscored.iter().take(decision::MOST_UNSELECTED);
    let outscored =
        outscored.map(|c| Decision::outscored(filters.name(c.place), c.score)).collect();
    let filtered = filtered.rejected.iter().take(decision::MOST_UNSELECTED);
    let filtered = filtered.map(|(c, why)| Decision::filtered(&c.name, why));
    let decisions = decision::list(changes.selected(classes), outscored, filtered.collect());
    let verdict = Verdict { fulfilled: found >= wanted, found };
    Ok(Outcome {
        report: decision::report(&seen.snapshot, decisions, verdict),
        actions: changes.actions(true).collect(),
        again: false,
        remarks: filters.remarks(),
    })
}
