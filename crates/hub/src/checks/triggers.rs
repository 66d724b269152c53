//! Which change makes which check worth a look, and which Work of a check.

use flagship_api::names::ObjectKey;
use flagship_rules::work::Work;
use flagship_runtime::queue::Queue;
use flagship_runtime::reflector::{Change, Subscription};

use super::CheckKey;
use crate::mirrors::{Mirrors, Run, Versioned, WorkMirrors};

/// Fills the queue of checks with what members report from now on, and the queue of Works with
/// every Work of a check, and again when its run ends or is gone.
pub(super) fn listen(
    mirrors: &Mirrors,
    checks: &Queue<CheckKey>,
    works: &Queue<ObjectKey>,
) -> Vec<Subscription> {
    let (asking, sweeping) = (checks.clone(), works.clone());
    let reports = mirrors.works.works.subscribe(move |change| work(&asking, &sweeping, change));
    let runs = mirrors.scopes().map(|scope| {
        let (sweeping, all) = (works.clone(), mirrors.works.clone());
        scope.runs.runs.subscribe(move |change| run(&sweeping, &all, change))
    });
    [reports].into_iter().chain(runs).collect()
}

fn work(asking: &Queue<CheckKey>, sweeping: &Queue<ObjectKey>, change: &Change<Versioned<Work>>) {
    let check = |of: &Versioned<Work>| of.value.check.clone();
    let (old, new) = (change.old.as_deref().and_then(check), change.new.as_deref().and_then(check));
    if old == new {
        return;
    }
    if let Some(report) = old.as_ref().or(new.as_ref()) {
        asking.add((report.run_uid.clone(), report.key.clone()));
    }
    if new.is_some() {
        sweeping.add((*change.key).clone());
    }
}

/// A run that has ended or is gone needs no Jobs any more.
fn run(sweeping: &Queue<ObjectKey>, works: &WorkMirrors, change: &Change<Run>) {
    let Some(run) = change.old.as_ref().or(change.new.as_ref()) else { return };
    let ended = |run: &Run| run.rival.ended;
    let is_over = change.new.as_deref().is_none_or(ended);
    if is_over && !change.old.as_deref().is_some_and(ended) || change.new.is_none() {
        let left = works.of_checks(&run.precondition.uid);
        left.into_iter().for_each(|(key, _)| sweeping.add((*key).clone()));
    }
}
