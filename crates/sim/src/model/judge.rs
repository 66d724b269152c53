//! The laws, as bits, and what is known about a store: which laws it breaks, what works.

use std::collections::{BTreeMap, BTreeSet};

use flagship_api::condition::{Conditions, Generation};
use flagship_api::condition_type::binding::{AVAILABLE, DIFF_REPORTED};
use flagship_api::condition_type::update_run::PROGRESSING;
use flagship_api::names::{SnapshotIndex, master_snapshot};
use flagship_api::reason::update_run::STOPPED;
use flagship_api::staged_update::UpdateRunState;
use flagship_api::staged_update_status::ClusterUpdatingStatus;
use flagship_rules::model::Binding;
use flagship_rules::update_run::laws::{self, Broken};
use flagship_rules::update_run::lifecycle;
use flagship_rules::update_run::{Observed, Run};

use super::passes::Passes;
use super::state_table::StateTable;

/// S1 as people on the clusters notice it, whatever the record says.
pub const DOWN: &str = "S1 (down)";

/// Every law a model is held against.
pub const LAWS: [&str; 25] = [
    "S1", DOWN, "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S11", "S12", "S16", "L1", "L3",
    "L4", "P1", "P2", "P3", "P4", "P5", "P6", "P8", "P9", "P10",
];

/// Passes after which a run that still writes will never come to rest.
const MOST_PASSES: usize = 60;

/// A set of laws.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Law(u32);

impl Law {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// One law by its name; a name nobody knows stands for all, so that it is not lost.
    pub fn of(name: &str) -> Self {
        LAWS.iter().position(|law| *law == name).map_or(Self(u32::MAX), |at| Self(1 << at))
    }

    /// Whether any of these is in it.
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether it is empty.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Those in both.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl std::ops::BitOr for Law {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Law {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

/// The laws in a list.
pub fn mask(broken: &[Broken]) -> Law {
    broken.iter().fold(Law::NONE, |all, broken| all | Law::of(broken.law))
}

/// What is known about a store.
#[derive(Debug, Clone, Copy, Default)]
pub struct Facts {
    /// Laws it breaks.
    pub broken: Law,
    /// Run and cluster pairs, as bits: the cluster really runs what the run wants.
    pub works: u32,
    /// The same: the run says so.
    pub claimed: u32,
    /// The same: the run is busy with the cluster.
    pub busy: u32,
    /// The same: the run has given the cluster up.
    pub lost: u32,
    /// Whether every run has ended or is gone.
    pub ended: bool,
    /// Whether every run that is to stop has stopped, or ended.
    pub stopped: bool,
    /// Whether some run waits for time.
    pub timer: bool,
}

/// What is known about stores and writes so far.
#[derive(Default)]
pub struct Judge {
    // By the number of the store.
    facts: Vec<Option<Facts>>,
    rests: BTreeMap<u32, Law>,
    ends: BTreeSet<String>,
    writes: BTreeMap<(u32, u32, u32, u32, u32, usize), Law>,
}

impl Judge {
    /// What is known about a store.
    pub fn facts(&mut self, table: &mut StateTable, passes: &mut Passes, store: u32) -> Facts {
        if let Some(Some(facts)) = self.facts.get(store as usize) {
            return *facts;
        }
        let mut facts = look(table, passes, store);
        facts.broken |= self.at_rest(table, passes, store);
        if facts.ended {
            self.ends.insert(end(table, store));
        }
        if self.facts.len() <= store as usize {
            self.facts.resize(store as usize + 1, None);
        }
        self.facts[store as usize] = Some(facts);
        facts
    }

    /// How it ended, each way once.
    pub fn ends(&self) -> &BTreeSet<String> {
        &self.ends
    }

    /// S16 and L1 to L3: with nothing else happening, passes soon find nothing to do, and
    /// then every run has ended or waits for what it says it waits for.
    fn at_rest(&mut self, table: &mut StateTable, passes: &mut Passes, mut store: u32) -> Law {
        let mut way = Vec::new();
        let found = loop {
            if let Some(known) = self.rests.get(&store) {
                break *known;
            }
            if way.len() > MOST_PASSES {
                break Law::of("S16");
            }
            way.push(store);
            let next = after_passes(table, passes, store);
            if next == store {
                let seen = (0..table.runs).filter_map(|run| table.seen(store, run));
                break seen.fold(Law::NONE, |all, seen| all | mask(&laws::rest(&seen)));
            }
            store = next;
        };
        self.rests.extend(way.into_iter().map(|store| (store, found)));
        found
    }

    /// Laws that a write breaks in the store it meets.
    pub fn write(
        &mut self,
        table: &StateTable,
        passes: &Passes,
        store: u32,
        writes: u32,
        next: usize,
    ) -> Law {
        let plan = passes.writes(writes);
        let Some(write) = plan.writes.get(next) else { return Law::NONE };
        let slots = &table.store(store).slots;
        let target = write.sets.first().map_or(0, |(slot, _)| slots[*slot]);
        let freeze = table.freeze_slot().map_or(0, |slot| slots[slot]);
        let record = table.record_slot(plan.run).map_or(0, |slot| slots[slot]);
        let key = (slots[plan.run], target, freeze, record, writes, next);
        if let Some(known) = self.writes.get(&key) {
            return *known;
        }
        let seen = table.seen(store, plan.run);
        let broken = seen.map_or(Law::NONE, |seen| mask(&laws::write(&seen, &write.action)));
        self.writes.insert(key, broken);
        broken
    }
}

fn look(table: &mut StateTable, passes: &mut Passes, store: u32) -> Facts {
    let mut facts = Facts { ended: true, stopped: true, ..Facts::default() };
    for run in 0..table.runs {
        let Some(seen) = table.seen(store, run) else {
            facts.broken |= orphans(table, store, run);
            continue;
        };
        facts.broken |= mask(&laws::state(&seen));
        if !laws::few_are_down(&seen).is_empty() {
            facts.broken |= Law::of(DOWN);
        }
        let ended = lifecycle::has_ended(&seen.run.status);
        facts.ended &= ended;
        facts.stopped &= ended || is_stopped(&seen.run);
        facts.timer |= passes.over(table, store, run).is_some_and(|pass| pass.waits_for_time);
        for (at, binding) in seen.bindings.iter().enumerate() {
            let bit = 1 << (run * table.bindings + at);
            facts.works |= if works_for(&seen.run, binding) { bit } else { 0 };
        }
        facts.claimed |= pairs(table, run, &seen, lifecycle::is_finished);
        facts.busy |= pairs(table, run, &seen, |cluster| !ended && lifecycle::in_flight(cluster));
        facts.lost |= pairs(table, run, &seen, laws::is_lost);
    }
    facts
}

/// How everything ended, without times: what runs say, what clusters hold.
fn end(table: &StateTable, store: u32) -> String {
    let runs = (0..table.runs).filter_map(|run| table.run(store, run));
    let mut text: String = runs.map(|run| laws::ending(&run.status)).collect();
    for binding in table.binding_slots().filter_map(|slot| table.binding(store, slot)) {
        text += &format!("{}: {}\n", binding.name, binding.spec.resource_snapshot_name);
    }
    text
}

/// L4: a run that is gone leaves no request behind.
fn orphans(table: &StateTable, store: u32, run: usize) -> Law {
    let name = super::world::run_name(run);
    let left = table
        .request_slots()
        .any(|slot| table.request(store, slot).is_some_and(|request| request.run == name));
    if left { Law::of("L4") } else { Law::NONE }
}

fn is_stopped(run: &Run) -> bool {
    let told = run.status.conditions.of_type(PROGRESSING);
    run.state() != UpdateRunState::Stop
        || told.is_some_and(|told| {
            told.reason == STOPPED && Generation::seen_by(told) == Generation(run.generation)
        })
}

fn works_for(run: &Run, binding: &Binding) -> bool {
    let index: Option<SnapshotIndex> = run.spec.resource_snapshot_index.parse().ok();
    let target = index.map(|index| master_snapshot(&run.spec.placement_name, index));
    let at = Generation(binding.generation);
    let works = [AVAILABLE, DIFF_REPORTED];
    target.is_some_and(|target| binding.spec.resource_snapshot_name == target)
        && works.iter().any(|works| binding.status.conditions.is_true_at(works, at))
}

/// Pairs of this run and the clusters of which something is so.
fn pairs(
    table: &StateTable,
    run: usize,
    seen: &Observed,
    is_so: impl Fn(&ClusterUpdatingStatus) -> bool,
) -> u32 {
    let clusters = seen.run.status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let bits = clusters.filter(|cluster| is_so(cluster)).filter_map(|cluster| {
        let at = seen.bindings.iter().position(|b| b.cluster() == cluster.cluster_name)?;
        Some(1 << (run * table.bindings + at))
    });
    bits.fold(0, |all, bit: u32| all | bit)
}

/// The store after one whole pass over each run.
fn after_passes(table: &mut StateTable, passes: &mut Passes, mut store: u32) -> u32 {
    for run in 0..table.runs {
        let Some(pass) = passes.over(table, store, run) else { continue };
        for write in &passes.writes(pass.writes).writes {
            for (slot, object) in &write.sets {
                store = table.set(store, *slot, *object);
            }
        }
    }
    store
}
