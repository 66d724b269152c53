//! A state, and the step from one to the next.
//!
//! Each write of a hub is a step of its own, so everything else can happen between two
//! of them. A hub works on each run apart. A write that would be refused is not a step:
//! the hub drops the rest of its plan as soon as that is certain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flagship_rules::update_run::Action;

use super::environment::{self, Event};
use super::judge::{Facts, Judge, Law};
use super::passes::{Passes, Planner, Writes};
use super::state_table::StateTable;
use super::world::{Faults, World};

/// Where everything stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// Number of what is stored.
    pub(super) store: u32,
    /// What each hub is doing about each run.
    pub(super) workers: Vec<Worker>,
    /// What each hub remembers.
    pub(super) caches: Vec<Cache>,
    /// What may still go wrong.
    pub(super) left: Faults,
    /// Run and cluster pairs that really worked at some time.
    worked: u32,
    /// Run and cluster pairs that somebody else wanted too, or wrote, while the run was busy.
    contested: u32,
    /// Laws that the last step broke.
    pub(super) broken: Law,
}

impl State {
    /// Whether the last step broke any of these laws.
    pub fn breaks(&self, laws: Law) -> bool {
        self.broken.meets(laws)
    }
}

/// A pass on its way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Worker {
    /// Number of its writes; 0 for none.
    pub(super) writes: u32,
    /// The next of them.
    pub(super) next: u8,
    /// Places to write that somebody has changed since they were read.
    lost: u32,
}

/// What a hub remembers of the store, as long as it may be led astray by it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Cache {
    /// One more than the number of what it read last; 0 for nothing.
    pub(super) read: u32,
    /// Places it has written since: of these it knows better.
    pub(super) own: u32,
}

/// Something that may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// A hub reads everything about a run and makes a plan.
    Read {
        /// The hub.
        hub: usize,
        /// The run.
        run: usize,
    },
    /// The same, but one object, or each, is as it was when the hub looked last.
    ReadOld {
        /// The hub.
        hub: usize,
        /// The run.
        run: usize,
        /// The place of the old object; none for all.
        slot: Option<usize>,
    },
    /// A hub does the next write of its plan.
    Write {
        /// The hub.
        hub: usize,
        /// The run.
        run: usize,
    },
    /// A hub does the write after the next one, which goes side by side with it.
    Overtake {
        /// The hub.
        hub: usize,
        /// The run.
        run: usize,
    },
    /// A hub dies and starts again.
    Crash {
        /// The hub.
        hub: usize,
    },
    /// Somebody or something else acts.
    Event(Event),
}

/// A world and everything found out about it.
pub struct Model {
    world: World,
    inner: Mutex<Inner>,
}

/// The numbers and memories of a model.
pub(super) struct Inner {
    pub(super) table: StateTable,
    pub(super) passes: Passes,
    pub(super) judge: Judge,
    possible: BTreeMap<u32, Arc<[Event]>>,
    happened: BTreeMap<(u32, Event), (u32, Option<usize>)>,
}

impl Inner {
    fn possible(&mut self, store: u32) -> Arc<[Event]> {
        let Self { table, possible, .. } = self;
        possible.entry(store).or_insert_with(|| environment::possible(table, store).into()).clone()
    }

    fn happen(&mut self, store: u32, event: Event) -> (u32, Option<usize>) {
        let Self { table, happened, .. } = self;
        *happened.entry((store, event)).or_insert_with(|| environment::happen(table, store, event))
    }
}

impl Model {
    /// A world whose hubs use this planner.
    pub fn new(world: World, planner: Planner) -> Self {
        let inner = Inner {
            table: StateTable::new(&world),
            passes: Passes::new(planner),
            judge: Judge::default(),
            possible: BTreeMap::new(),
            happened: BTreeMap::new(),
        };
        Self { world, inner: Mutex::new(inner) }
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn worker(&self, hub: usize, run: usize) -> usize {
        hub * self.world.runs() + run
    }

    /// How many different stores there were.
    pub fn stores(&self) -> usize {
        self.inner().table.stores()
    }

    /// Every way it ended so far: what runs say and what clusters hold, without times.
    pub fn ends(&self) -> BTreeSet<String> {
        self.inner().judge.ends().clone()
    }

    /// Where it begins.
    pub fn first(&self) -> State {
        State {
            store: 0,
            workers: vec![Worker::default(); self.world.hubs * self.world.runs()],
            caches: vec![Cache::default(); self.world.hubs],
            left: self.world.faults,
            worked: 0,
            contested: 0,
            broken: Law::NONE,
        }
    }

    fn facts(&self, store: u32) -> Facts {
        let inner = &mut *self.inner();
        inner.judge.facts(&mut inner.table, &mut inner.passes, store)
    }

    /// Whether every run has ended.
    pub fn has_ended(&self, state: &State) -> bool {
        self.facts(state.store).ended
    }

    /// Whether every run that is to stop has stopped.
    pub fn has_stopped(&self, state: &State) -> bool {
        self.facts(state.store).stopped
    }

    /// Everything that may happen next.
    pub fn acts(&self, state: &State) -> Vec<Act> {
        let mut acts = Vec::new();
        for hub in 0..self.world.hubs {
            let mut busy = state.caches[hub].own != 0;
            for run in 0..self.world.runs() {
                let worker = state.workers[self.worker(hub, run)];
                if worker.writes != 0 {
                    let plan = self.inner().passes.writes(worker.writes);
                    if !worker.is_refused(&plan, 0) {
                        acts.push(Act::Write { hub, run });
                    }
                    if worker.overtakes(&plan) {
                        acts.push(Act::Overtake { hub, run });
                    }
                    busy = true;
                    continue;
                }
                acts.push(Act::Read { hub, run });
                let old = self.old_slots(state, hub);
                acts.extend(old.iter().map(|slot| Act::ReadOld { hub, run, slot: Some(*slot) }));
                if old.len() > 1 {
                    acts.push(Act::ReadOld { hub, run, slot: None });
                }
            }
            if busy && state.left.crash > 0 {
                acts.push(Act::Crash { hub });
            }
        }
        let timer = self.facts(state.store).timer;
        let events = self.inner().possible(state.store);
        let events = events.iter().filter(|event| event.spend(state.left, timer).is_some());
        acts.extend(events.map(|event| Act::Event(*event)));
        acts
    }

    /// Places of which a hub may still have an older copy in mind.
    fn old_slots(&self, state: &State, hub: usize) -> Vec<usize> {
        let cache = state.caches[hub];
        if state.left.stale == 0 || cache.read == 0 {
            return Vec::new();
        }
        let inner = self.inner();
        let (old, new) = (inner.table.store(cache.read - 1), inner.table.store(state.store));
        let slots = 0..new.slots.len();
        slots.filter(|s| old.slots[*s] != new.slots[*s] && cache.own & (1 << s) == 0).collect()
    }

    /// What becomes of it; nothing if nothing changes.
    pub fn step(&self, state: &State, act: Act) -> Option<State> {
        let mut next = state.clone();
        next.broken = Law::NONE;
        match act {
            Act::Read { hub, run } => self.read(&mut next, hub, run, state.store)?,
            Act::ReadOld { hub, run, slot } => {
                let view = self.old_view(state, hub, slot)?;
                next.left.stale -= 1;
                self.read(&mut next, hub, run, view)?;
                // Refused at once: as if it had never looked.
                if next.workers[self.worker(hub, run)].writes == 0 {
                    return None;
                }
            }
            Act::Write { hub, run } => self.write(&mut next, hub, run)?,
            Act::Overtake { hub, run } => {
                let worker = &mut next.workers[self.worker(hub, run)];
                let plan = self.inner().passes.writes(worker.writes);
                worker.writes = plan.overtaken(usize::from(worker.next))?;
                self.write(&mut next, hub, run)?;
            }
            Act::Crash { hub } => {
                next.left.crash -= 1;
                for run in 0..self.world.runs() {
                    next.workers[self.worker(hub, run)] = Worker::default();
                }
                next.caches[hub].own = 0;
            }
            Act::Event(event) => {
                let timer = self.facts(state.store).timer;
                next.left = event.spend(state.left, timer)?;
                let inner = &mut *self.inner();
                let (store, changed) = inner.happen(state.store, event);
                next.store = store;
                lose(inner, &mut next, changed.map_or(0, |slot| 1 << slot), None);
            }
        }
        if next.left.stale == 0 {
            next.caches.fill(Cache::default());
        }
        self.judge(state, &mut next);
        Some(next)
    }

    fn judge(&self, last: &State, next: &mut State) {
        let (before, facts) = (self.facts(last.store), self.facts(next.store));
        next.broken |= facts.broken;
        // Whatever a hub read, and when: what is called finished has worked.
        next.worked |= facts.works;
        if facts.claimed & !before.claimed & !next.worked != 0 {
            next.broken |= Law::of("S12");
        }
        if self.world.rival {
            let bindings = self.inner().table.bindings;
            let (first, second) = (facts.busy & ((1 << bindings) - 1), facts.busy >> bindings);
            let both = first & second;
            next.contested |= both | both << bindings;
        }
        // Nobody gives up what nobody took.
        if facts.lost & !before.lost & !next.contested != 0 {
            next.broken |= Law::of("S6");
        }
        // What was judged need not be remembered.
        next.worked &= !facts.claimed;
        next.contested &= facts.busy;
    }

    fn old_view(&self, state: &State, hub: usize, slot: Option<usize>) -> Option<u32> {
        let slots = slot.map_or_else(|| self.old_slots(state, hub), |slot| vec![slot]);
        let inner = &mut *self.inner();
        let old = inner.table.store(state.caches[hub].read.checked_sub(1)?);
        let view = slots
            .into_iter()
            .fold(state.store, |view, slot| inner.table.set(view, slot, old.slots[slot]));
        Some(view)
    }

    fn read(&self, next: &mut State, hub: usize, run: usize, view: u32) -> Option<()> {
        let inner = &mut *self.inner();
        let pass = inner.passes.over(&mut inner.table, view, run)?;
        if pass.writes == 0 {
            return None;
        }
        next.broken |= pass.broken;
        let (seen, real) = (inner.table.store(view), inner.table.store(next.store));
        let slots = (0..real.slots.len()).filter(|slot| seen.slots[*slot] != real.slots[*slot]);
        let differs = slots.fold(0, |bits, slot| bits | 1 << slot);
        next.caches[hub] = Cache { read: view + 1, own: next.caches[hub].own & differs };
        let mut worker = Worker { writes: pass.writes, next: 0, lost: 0 };
        worker.notice(&inner.passes.writes(pass.writes), differs);
        next.workers[self.worker(hub, run)] = worker;
        Some(())
    }

    fn write(&self, next: &mut State, hub: usize, run: usize) -> Option<()> {
        let inner = &mut *self.inner();
        let at = self.worker(hub, run);
        let mut worker = next.workers[at];
        let plan = inner.passes.writes(worker.writes);
        let place = usize::from(worker.next);
        let write = plan.writes.get(place)?;
        let Inner { table, passes, judge, .. } = inner;
        next.broken |= judge.write(table, passes, next.store, worker.writes, place);
        let mut changed = 0;
        if matches!(write.action, Action::UpdateBinding(_)) {
            let pairs = table.pairs_of_others(run, &write.sets);
            next.contested |= judge.facts(table, passes, next.store).busy & pairs;
        }
        for (slot, object) in &write.sets {
            next.store = table.set(next.store, *slot, *object);
            changed |= 1 << slot;
        }
        next.caches[hub].own |= changed;
        worker.next += 1;
        worker.notice(&plan, 0);
        next.workers[at] = worker;
        lose(inner, next, changed, Some(at));
        Some(())
    }
}

impl Worker {
    /// Takes note of changed places; gives up if the next write is sure to be refused, and with
    /// it the one beside.
    fn notice(&mut self, plan: &Writes, changed: u32) {
        self.lost = (self.lost | changed) & plan.remaining(usize::from(self.next));
        if self.is_refused(plan, 0) && !self.overtakes(plan) {
            *self = Self::default();
        }
    }

    /// Whether a write so many places after the next is sure to be refused, or is none.
    fn is_refused(&self, plan: &Writes, after: usize) -> bool {
        plan.writes.get(usize::from(self.next) + after).is_none_or(|write| {
            write.versioned && write.sets.iter().any(|(slot, _)| self.lost & (1 << slot) != 0)
        })
    }

    /// Whether the write after the next one may be stored first.
    fn overtakes(&self, plan: &Writes) -> bool {
        plan.overtaken(usize::from(self.next)).is_some() && !self.is_refused(plan, 1)
    }
}

/// Tells every worker but one that places have changed.
fn lose(inner: &Inner, next: &mut State, changed: u32, but: Option<usize>) {
    for (at, worker) in next.workers.iter_mut().enumerate() {
        if worker.writes != 0 && Some(at) != but {
            worker.notice(&inner.passes.writes(worker.writes), changed);
        }
    }
}
