//! PickAll: every cluster that passes the filters. Always fulfilled, never scored.

use super::classify::Classes;
use super::cross_reference::Changes;
use super::decision::{self, Decision, Score, Verdict};
use super::filter::Sieve;
use super::observed::Observed;
use super::{Failure, Outcome};

/// One pass.
pub fn plan(seen: &Observed, classes: &Classes<'_>) -> Result<Outcome, Failure> {
    let mut sieve = Sieve::new(seen, classes).map_err(Failure)?;
    let sieved = sieve.run();
    let passed = sieved.passed.iter().map(|place| sieve.name(*place));
    let picked: Vec<_> = passed.map(|name| (name, Some(Score::default()))).collect();
    let changes = Changes::between(&picked, classes)?;
    let filtered = sieved.filtered.iter().take(decision::MOST_UNSELECTED);
    let filtered = filtered.map(|(c, why)| Decision::filtered(&c.name, why));
    let found = changes.gained() + classes.present();
    let decisions = decision::list(changes.selected(classes), Vec::new(), filtered.collect());
    let verdict = Verdict { fulfilled: true, found };
    Ok(Outcome {
        report: decision::report(&seen.snapshot, decisions, verdict),
        actions: changes.actions(true).collect(),
        again: false,
        remarks: sieve.remarks(),
    })
}
