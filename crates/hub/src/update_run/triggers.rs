//! Which change makes which run worth a pass.
//!
//! A binding that works wakes its runs at once: no cluster waits for a timer to be
//! followed by the next. Only when many bindings change at once passes wait for the
//! batching window, so that one pass covers several of them. Changes of placement, policy
//! and cluster labels are noticed at once too, so that a run that cannot go on says so early.

use std::time::Duration;

use flagship_api::names::ObjectKey;
use flagship_rules::model::Binding;
use flagship_rules::policy::approvals::Word;
use flagship_rules::update_run::Approval;
use flagship_rules::update_run::triggers::{
    BindingView, binding_changed, request_appeared, request_changed, request_deleted,
};
use flagship_runtime::queue::BatchingWindow;
use flagship_runtime::reflector::{Change, Subscription};

use crate::mirrors::{Cluster, Mirrors, Placement, Policy, Run, ScopeMirrors};
use crate::per_placement::{PerPlacement, PlacedKey};
use crate::status_cost::StatusCost;

/// Reserved in the batching window for each cluster of a run that is looked at, at least: twice
/// what it takes on the embedded server.
pub(super) const ROW: Duration = Duration::from_micros(100);

/// Fills the queue from now on, and with every run that is there already.
pub(super) fn listen(
    mirrors: &Mirrors,
    scope: &ScopeMirrors,
    queue: &PerPlacement,
    cost: &StatusCost,
) -> Vec<Subscription> {
    let waker = || Waker {
        scope: scope.clone(),
        queue: queue.clone(),
        window: BatchingWindow::default(),
        cost: cost.clone(),
    };
    let (runs, approvals, bindings) = (waker(), waker(), waker());
    let (placements, policies, clusters, freezes) = (waker(), waker(), waker(), waker());
    let words = waker();
    vec![
        scope.runs.runs.subscribe(move |change| runs.run(change)),
        scope.runs.approvals.subscribe(move |change| approvals.approval(change)),
        scope.runs.words.subscribe(move |change| words.word(change)),
        scope.bindings.subscribe(move |change| bindings.binding(change)),
        scope.placements.subscribe(move |change| placements.placement(change)),
        scope.policies.subscribe(move |change| policies.policy(change)),
        mirrors.members.clusters.subscribe(move |change| clusters.cluster(change)),
        // In force at once, and lifted at once, for every run it may mean.
        mirrors.freezes.subscribe(move |_| freezes.wake_all()),
    ]
}

struct Waker {
    scope: ScopeMirrors,
    queue: PerPlacement,
    window: BatchingWindow<PlacedKey>,
    cost: StatusCost,
}

impl Waker {
    /// Our own records wake nothing.
    fn run(&self, change: &Change<Run>) {
        let asked = |run: &Run| (run.value.generation, run.value.deleting, run.value.has_finalizer);
        if change.malformed.is_some() {
            // One that cannot be read is told so. Unless it could be read before, nobody knows
            // its placement.
            let unknown = || PlacedKey {
                placement: ObjectKey::new(change.key.namespace.as_deref(), ""),
                object: (*change.key).clone(),
            };
            let key = change.new.as_ref().map_or_else(unknown, |run| PlacedKey::from(&**run));
            self.queue.add_with(key, change.origin.priority());
            return;
        }
        match (&change.old, &change.new) {
            (Some(old), Some(new))
                if asked(old) == asked(new)
                    && old.value.skips == new.value.skips
                    && old.value.changed_policies() == new.value.changed_policies() => {}
            (_, Some(run)) | (Some(run), None) => {
                self.queue.add_with(PlacedKey::from(&**run), change.origin.priority());
            }
            (None, None) => {}
        }
    }

    fn approval(&self, change: &Change<Approval>) {
        let run = match (&change.old, &change.new) {
            (Some(old), Some(new)) => request_changed(old, new),
            (Some(old), None) => request_deleted(old),
            (None, Some(new)) => request_appeared(new),
            (None, None) => None,
        };
        let Some(run) = run else { return };
        let key = ObjectKey::new(change.key.namespace.as_deref(), run);
        if let Some(run) = self.scope.runs.runs.get(&key) {
            self.queue.add(PlacedKey::from(&*run));
        }
    }

    /// What somebody says wakes the run that asked. Where the request is not seen yet, nobody
    /// knows which run that is.
    fn word(&self, change: &Change<Word>) {
        let Some(word) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let beside = |name: &str| ObjectKey::new(change.key.namespace.as_deref(), name);
        match self.scope.runs.approvals.get(&beside(&word.spec.request)) {
            Some(request) => {
                if let Some(run) = self.scope.runs.runs.get(&beside(&request.run)) {
                    self.queue.add(PlacedKey::from(&*run));
                }
            }
            None => self.wake_all(),
        }
    }

    fn binding(&self, change: &Change<Binding>) {
        let Some(binding) = change.new.as_ref().or(change.old.as_ref()) else { return };
        let should_wake = |run: &Run| match (&change.old, &change.new) {
            (Some(old), Some(new)) => {
                binding_changed(&run.precondition.uid, &glance(old), &glance(new))
            }
            _ => true,
        };
        let placement = binding.placement_key();
        for run in self.scope.runs.open(&placement).filter(|run| should_wake(run)) {
            let rows = self.scope.count_bindings_of(&placement);
            let (cost, apart) = (self.cost.pass(rows), self.cost.window(rows));
            self.window.add(&self.queue, PlacedKey::from(&*run), cost, apart);
        }
    }

    fn placement(&self, change: &Change<Placement>) {
        let same = match (&change.old, &change.new) {
            (Some(old), Some(new)) => {
                old.value.generation == new.value.generation && old.deleting == new.deleting
            }
            _ => false,
        };
        if !same {
            self.wake(&change.key);
        }
    }

    fn policy(&self, change: &Change<Policy>) {
        let mut versions = [&change.old, &change.new].into_iter().flatten();
        if let Some(policy) = versions.find(|policy| policy.latest) {
            self.wake(&policy.placement);
        }
    }

    /// Labels decide which stage a cluster belongs to.
    fn cluster(&self, change: &Change<Cluster>) {
        let labels = |cluster: Option<&Cluster>| cluster.map(|c| c.value.labels.clone());
        if labels(change.old.as_deref()) == labels(change.new.as_deref()) {
            return;
        }
        self.wake_all();
    }

    fn wake_all(&self) {
        for (_, run) in self.scope.runs.runs.all() {
            if !run.rival.ended {
                self.queue.add(PlacedKey::from(&*run));
            }
        }
    }

    fn wake(&self, placement: &ObjectKey) {
        self.scope.runs.open(placement).for_each(|run| self.queue.add(PlacedKey::from(&*run)));
    }
}

fn glance(binding: &Binding) -> BindingView<'_> {
    BindingView {
        uid: &binding.uid,
        generation: binding.generation,
        deleting: binding.deleting,
        written_by: binding.fence.as_ref(),
        conditions: &binding.status.conditions,
    }
}
