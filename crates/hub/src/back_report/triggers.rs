//! Which change makes which Work worth a look: something else came back, it may come
//! back now, or it belongs to somebody else.

use std::sync::Arc;

use flagship_api::names::ObjectKey;
use flagship_rules::work::Work;
use flagship_rules::work::back_report::is_asked_for;
use flagship_runtime::queue::Queue;
use flagship_runtime::reflector::{Change, Subscription};

use crate::mirrors::{Mirrors, Placement, ScopeMirrors, Versioned, WorkMirrors};

/// Fills the queue from now on, and with every Work that brings something back.
pub(super) fn listen(mirrors: &Arc<Mirrors>, queue: &Queue<ObjectKey>) -> Vec<Subscription> {
    let waker = queue.clone();
    let works = mirrors.works.works.subscribe(move |change| work(&waker, change));
    let placements = mirrors.scopes().map(|scope| {
        let (waker, of, works) = (queue.clone(), scope.clone(), mirrors.works.clone());
        scope.placements.subscribe(move |change| placement(&waker, &of, &works, change))
    });
    [works].into_iter().chain(placements).collect()
}

fn work(queue: &Queue<ObjectKey>, change: &Change<Versioned<Work>>) {
    let Some(new) = change.new.as_ref().filter(|new| brings_something(&new.value)) else { return };
    let same = change.old.as_ref().is_some_and(|old| {
        let (old, new) = (&old.value, &new.value);
        old.reported == new.reported
            && old.conditions == new.conditions
            && old.report_back == new.report_back
            && old.generation == new.generation
    });
    if !same {
        queue.add_with((*change.key).clone(), change.origin.priority());
    }
}

fn placement(
    queue: &Queue<ObjectKey>,
    scope: &ScopeMirrors,
    works: &WorkMirrors,
    change: &Change<Placement>,
) {
    let Some(new) = &change.new else { return };
    let same = |old: &Arc<Placement>| {
        let (was, is) = (&old.value, &new.value);
        was.generation == is.generation
            && was.status.selected_resources == is.status.selected_resources
    };
    // Works may have reported before their placement was seen.
    if change.old.as_ref().is_some_and(same) {
        return;
    }
    for binding in scope.bindings_of(&change.key) {
        let space = binding.member_namespace();
        let all = works.of(&binding.key(), &space).into_iter();
        let concerned = all.filter(|(_, work)| brings_something(&work.value));
        concerned.for_each(|(key, _)| queue.add((*key).clone()));
    }
}

fn brings_something(work: &Work) -> bool {
    is_asked_for(work.report_back.as_ref()) && work.reported.is_some() && !work.deleting
}
