//! What a hub does with what it read: the planner's writes, each as a change of a place.
//!
//! A pass depends on nothing but what was read, so every plan is made once and kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::keys::finalizer;
use flagship_api::rollout_record::RecordedRun;
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_rules::record::chain;
use flagship_rules::update_run::{
    Action, Approval, Observed, Plan, Run, Waiting, entries_beside, laws,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::judge::{Law, mask};
use super::state_table::{ABSENT, Object, StateTable};

/// Makes a plan of what was read.
pub type Planner = fn(&Observed) -> Plan;

/// One write.
#[derive(Debug, Clone)]
pub struct Write {
    /// The places it changes, and what to.
    pub sets: Vec<(usize, u32)>,
    /// Whether it is refused if one of them has changed since it was read.
    pub versioned: bool,
    /// What the planner called it.
    pub action: Action,
}

/// The writes of one pass, in order.
#[derive(Debug, Clone, Default)]
pub struct Writes {
    /// Whose pass it is.
    pub run: usize,
    /// In order.
    pub writes: Vec<Write>,
    /// Where the next two writes go side by side: the place of the first, and the number of the
    /// writes of a pass in which the second is stored first.
    pub beside: Option<(usize, u32)>,
}

impl Writes {
    /// The pass in which the write after this place is stored first, if the two go side by side.
    pub fn overtaken(&self, next: usize) -> Option<u32> {
        self.beside.filter(|(at, _)| *at == next).map(|(_, other)| other)
    }

    /// The places that are still to be written, as bits.
    pub fn remaining(&self, next: usize) -> u32 {
        let slots = self.writes.iter().skip(next).flat_map(|write| &write.sets);
        slots.fold(0, |bits, (slot, _)| bits | 1 << slot)
    }
}

/// What came of looking.
#[derive(Debug, Clone, Copy)]
pub struct Pass {
    /// Number of its writes; 0 stands for none.
    pub writes: u32,
    /// Laws it breaks by what it claims about what it read.
    pub broken: Law,
    /// Whether it has nothing to do before time has passed.
    pub waits_for_time: bool,
}

/// What a write does, for telling passes apart: whether it can be refused, and the places.
type Sets = (bool, Vec<(usize, u32)>);

/// All passes so far.
pub struct Passes {
    planner: Planner,
    made: BTreeMap<(u32, u8), Option<Pass>>,
    writes: Vec<Arc<Writes>>,
    by_sets: BTreeMap<(usize, Vec<Sets>), u32>,
}

impl Passes {
    /// None yet.
    pub fn new(planner: Planner) -> Self {
        Self {
            planner,
            made: BTreeMap::new(),
            writes: vec![Arc::new(Writes::default())],
            by_sets: BTreeMap::new(),
        }
    }

    /// The writes of a pass.
    pub fn writes(&self, number: u32) -> Arc<Writes> {
        self.writes[number as usize].clone()
    }

    /// What a pass over a run does with a store; nothing if the run is not there.
    pub fn over(&mut self, table: &mut StateTable, store: u32, run: usize) -> Option<Pass> {
        let key = (store, u8::try_from(run).unwrap_or(u8::MAX));
        if let Some(made) = self.made.get(&key) {
            return *made;
        }
        let made = table.seen(store, run).map(|seen| self.make(table, store, run, &seen));
        self.made.insert(key, made);
        made
    }

    fn make(&mut self, table: &mut StateTable, store: u32, run: usize, seen: &Observed) -> Pass {
        let plan = (self.planner)(seen);
        let mut writes = Writes { run, ..Writes::default() };
        let (beside, mut pair) = (entries_beside(&plan.actions), None);
        let (mut then, mut broken) = (store, mask(&laws::decided(seen, &plan)));
        for (at, action) in plan.actions.iter().enumerate() {
            let Some(write) = written(table, then, run, seen, action) else { continue };
            if beside == Some(at) {
                pair = Some(writes.writes.len());
            }
            if let Action::Status(status) = action {
                let mut after = seen.clone();
                after.run.status = (**status).clone();
                broken |= mask(&laws::step(seen, seen, &after));
            }
            for (slot, object) in &write.sets {
                then = table.set(then, *slot, *object);
            }
            writes.writes.push(write);
        }
        if let Some(at) = pair {
            let mut other = Writes { beside: None, ..writes.clone() };
            other.writes.swap(at, at + 1);
            writes.beside = Some((at, self.number(other)));
        }
        let timer = |waiting: &Waiting| {
            matches!(
                waiting,
                Waiting::Timer { .. } | Waiting::Closed { .. } | Waiting::Checking { .. }
            )
        };
        Pass {
            waits_for_time: plan.actions.is_empty() && plan.waiting.iter().any(timer),
            writes: self.number(writes),
            broken,
        }
    }

    fn number(&mut self, writes: Writes) -> u32 {
        if writes.writes.is_empty() {
            return 0;
        }
        let sets = writes.writes.iter().map(|write| (write.versioned, write.sets.clone()));
        let key = (writes.run, sets.collect());
        if let Some(number) = self.by_sets.get(&key) {
            return *number;
        }
        let number = u32::try_from(self.writes.len()).unwrap_or(u32::MAX);
        self.by_sets.insert(key, number);
        self.writes.push(Arc::new(writes));
        number
    }
}

/// What a write does to the store it meets, if it meets the one that was read.
fn written(
    table: &mut StateTable,
    store: u32,
    run: usize,
    seen: &Observed,
    action: &Action,
) -> Option<Write> {
    let now = seen.now;
    let versioned = !matches!(action, Action::DeleteApprovalRequests | Action::RemoveFinalizer);
    let sets = match action {
        Action::AnnounceWrites(announced) => {
            let mut new = table.run(store, run)?.clone();
            new.announced = announced.clone();
            vec![(run, table.number(Object::Run(Box::new(new))))]
        }
        Action::Record(recording) => {
            let slot = table.record_slot(run)?;
            let name = RecordedRun { name: seen.run.name.clone(), uid: seen.run.uid.clone() };
            let head = recording.head.clone().unwrap_or_default();
            let known = table.record(store, run).cloned();
            let mut new = known.unwrap_or_else(|| chain::begun(name, None, head));
            let drafts = recording.drafts.iter().map(|draft| (draft.clone(), None)).collect();
            let more = chain::sealed(&new, new.entries.last(), drafts, now);
            new.entries.extend(more);
            vec![(slot, table.number(Object::Record(Box::new(new))))]
        }
        Action::Adopt(adopted) => {
            let mut new = table.run(store, run)?.clone();
            new.adopted = Some(adopted.clone());
            vec![(run, table.number(Object::Run(Box::new(new))))]
        }
        Action::Status(status) => {
            let mut new = table.run(store, run)?.clone();
            new.status = (**status).clone();
            vec![(run, table.number(Object::Run(Box::new(new))))]
        }
        Action::UpdateBinding(deliver) => {
            let slot = table.slot_of_binding(store, &deliver.binding)?;
            let mut new = table.binding(store, slot)?.clone();
            new.spec = deliver.spec.clone();
            new.fence = Some(deliver.fence.clone());
            new.generation += 1;
            vec![(slot, table.number(Object::Binding(Box::new(new))))]
        }
        Action::SignalStart(signal) => {
            let slot = table.slot_of_binding(store, &signal.binding)?;
            let mut new = table.binding(store, slot)?.clone();
            let generation = new.generation;
            signal.give(&mut new.status.conditions, generation, now);
            vec![(slot, table.number(Object::Binding(Box::new(new))))]
        }
        Action::DeleteBinding(withdraw) => {
            let slot = table.slot_of_binding(store, &withdraw.binding)?;
            let mut new = table.binding(store, slot)?.clone();
            new.deleting = true;
            vec![(slot, table.number(Object::Binding(Box::new(new))))]
        }
        Action::CreateApprovalRequest(ask) => {
            let slot = table.slot_of_request(&ask.name)?;
            let metadata = ObjectMeta {
                uid: Some(format!("uid-{}", ask.name)),
                generation: Some(1),
                creation_timestamp: Some(Time(now)),
                ..ask.metadata(&seen.run)
            };
            let new = Approval::read(&metadata, &ask.spec(&seen.run), None);
            vec![(slot, table.number(Object::Request(Box::new(new))))]
        }
        Action::AcceptApproval(accept) => {
            let slot = table.slot_of_request(&accept.request)?;
            let mut new = table.request(store, slot)?.clone();
            accept.answer(&mut new.conditions, now);
            vec![(slot, table.number(Object::Request(Box::new(new))))]
        }
        Action::DeleteApprovalRequests => {
            let ours = |slot: &usize| {
                let request = table.request(store, *slot);
                request.is_some_and(|found| found.labelled.as_ref() == Some(&seen.run.name))
            };
            table.request_slots().filter(ours).map(|slot| (slot, ABSENT)).collect()
        }
        Action::DeleteForeignRequest(dismiss) => {
            vec![(table.slot_of_request(&dismiss.request)?, ABSENT)]
        }
        Action::RemoveFinalizer => vec![(run, ABSENT)],
        Action::Quarantine(note) => {
            let slot = table.quarantine_slot()?;
            vec![(slot, table.number(Object::Quarantine(Box::new(note.clone()))))]
        }
        Action::CreateRollback(create) => {
            let slot = table.rollback_slot(run).filter(|slot| table.run(store, *slot).is_none())?;
            let metadata = ObjectMeta {
                uid: Some(format!("uid-{}", create.name)),
                generation: Some(1),
                creation_timestamp: Some(Time(now)),
                finalizers: Some(vec![finalizer::UPDATE_RUN.to_owned()]),
                ..create.metadata(&seen.run)
            };
            let new = Run::read(&metadata, &create.spec, &UpdateRunStatus::default());
            vec![(slot, table.number(Object::Run(Box::new(new))))]
        }
        // Worlds name their snapshots, and their runs have the finalizer.
        Action::AddFinalizer | Action::Resources(_) => return None,
    };
    Some(Write { sets, versioned, action: action.clone() })
}
