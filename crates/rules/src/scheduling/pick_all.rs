//! PickAll: every cluster that passes the filters. Always fulfilled, never scored.

use super::classify::Classes;
use super::cross_reference::Changes;
use super::decision::{self, Decision, Score, Verdict};
use super::filter::Filters;
use super::observed::Observed;
use super::{Failure, Outcome};

/// One pass.
pub fn plan(seen: &Observed, classes: &Classes<'_>) -> Result<Outcome, Failure> {
    let mut filters = Filters::new(seen, classes).map_err(Failure)?;
    let filtered = filters.run();
    let passed = filtered.passed.iter().map(|place| filters.name(*place));
    let picked: Vec<_> = passed.map(|name| (name, Some(Score::default()))).collect();
    let changes = Changes::between(&picked, classes)?;
    let filtered = filtered.rejected.iter().take(decision::MOST_UNSELECTED);
    let filtered = filtered.map(|(c, why)| Decision::filtered(&c.name, why));
    let found = changes.gained() + classes.present();
    let decisions = decision::list(changes.selected(classes), Vec::new(), filtered.collect());
    let verdict = Verdict { fulfilled: true, found };
    Ok(Outcome {
        report: decision::report(&seen.snapshot, decisions, verdict),
        actions: changes.actions(true).collect(),
        again: false,
        remarks: filters.remarks(),
    })
}
