//! Numbers for objects and for whole stores, so that a state is a handful of integers.
//!
//! Objects are told apart by all they say; versions are left out, since a write is
//! refused exactly when the object has changed since it was read, and states keep track of
//! that themselves. Places (slots) are fixed: runs, then bindings, then approval requests, then
//! the freeze and the quarantine, if there may be one, then the records of runs, if they are
//! kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::rollout_record::RolloutRecordSpec;
use flagship_rules::model::Binding;
use flagship_rules::policy::approvals::Word;
use flagship_rules::policy::quarantine::{Quarantine, brought};
use flagship_rules::policy::{Follower, Freeze};
use flagship_rules::record::Keep;
use flagship_rules::update_run::{Approval, Observed, OtherRun, Run};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Serialize;

use super::world::{World, moment};

/// Stands for an object that is not there.
pub const ABSENT: u32 = 0;

/// Something that is stored.
#[derive(Debug, Clone, Serialize)]
pub enum Object {
    /// A run.
    Run(Box<Run>),
    /// A binding.
    Binding(Box<Binding>),
    /// An approval request.
    Request(Box<Approval>),
    /// A freeze.
    Freeze(Box<Freeze>),
    /// A quarantine of the newer version.
    Quarantine(Box<Quarantine>),
    /// The record of a run.
    Record(Box<RolloutRecordSpec>),
    /// What somebody said to a request.
    Word(Box<Word>),
}

/// Everything that is stored, and the time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Store {
    /// Ticks since the beginning.
    pub tick: u8,
    /// The object in each place.
    pub slots: Box<[u32]>,
}

/// The numbers given so far.
pub struct StateTable {
    /// How many runs there may be; they come first.
    pub runs: usize,
    /// How many bindings there are; they come next.
    pub bindings: usize,
    /// Names of the approval requests, which come then.
    pub requests: Vec<String>,
    /// How many freezes there may be, none or one.
    freezes: usize,
    /// How many quarantines there may be, none or one.
    quarantines: usize,
    world: World,
    scenery: Observed,
    objects: Vec<Option<Object>>,
    by_text: BTreeMap<String, u32>,
    stores: Vec<Arc<Store>>,
    by_store: BTreeMap<Arc<Store>, u32>,
    changed: BTreeMap<(u32, u8, u32), u32>,
}

impl StateTable {
    /// Begins with the first store of a world, number 0.
    pub fn new(world: &World) -> Self {
        let bindings = world.bindings();
        let mut table = Self {
            runs: world.runs(),
            bindings: bindings.len(),
            requests: world.requests(),
            freezes: usize::from(world.freezes),
            quarantines: usize::from(world.quarantines || world.rollback),
            world: world.clone(),
            scenery: world.scenery(),
            objects: vec![None],
            by_text: BTreeMap::new(),
            stores: Vec::new(),
            by_store: BTreeMap::new(),
            changed: BTreeMap::new(),
        };
        let places = table.runs + bindings.len() + table.requests.len();
        let records = if world.records { table.runs } else { 0 };
        let places = places + table.freezes + table.quarantines + records + world.people.len();
        let mut slots = vec![ABSENT; places];
        slots[0] = table.number(Object::Run(Box::new(world.run(0, moment(0)))));
        for (at, binding) in bindings.into_iter().enumerate() {
            slots[table.runs + at] = table.number(Object::Binding(Box::new(binding)));
        }
        table.store_number(Store { tick: 0, slots: slots.into() });
        table
    }

    /// A run as it is created.
    pub fn created(&self, at: usize, now: Timestamp) -> Run {
        self.world.run(at, now)
    }

    /// The number of an object.
    pub fn number(&mut self, mut object: Object) -> u32 {
        match &mut object {
            Object::Run(run) => run.resource_version.clear(),
            Object::Binding(binding) => binding.resource_version.clear(),
            Object::Request(request) => request.resource_version.clear(),
            Object::Freeze(_) | Object::Quarantine(_) | Object::Record(_) | Object::Word(_) => {}
        }
        let text = serde_json::to_string(&object).unwrap_or_default();
        let next = u32::try_from(self.objects.len()).unwrap_or(u32::MAX);
        let number = *self.by_text.entry(text).or_insert(next);
        if number == next {
            self.objects.push(Some(object));
        }
        number
    }

    /// The number of a store.
    pub fn store_number(&mut self, store: Store) -> u32 {
        if let Some(number) = self.by_store.get(&store) {
            return *number;
        }
        let number = u32::try_from(self.stores.len()).unwrap_or(u32::MAX);
        let store = Arc::new(store);
        self.stores.push(store.clone());
        self.by_store.insert(store, number);
        number
    }

    /// How many different stores there were.
    pub fn stores(&self) -> usize {
        self.stores.len()
    }

    /// A store by its number.
    pub fn store(&self, number: u32) -> Arc<Store> {
        self.stores[number as usize].clone()
    }

    /// The store in which one place holds something else.
    pub fn set(&mut self, store: u32, slot: usize, object: u32) -> u32 {
        let key = (store, u8::try_from(slot).unwrap_or(u8::MAX), object);
        if let Some(found) = self.changed.get(&key) {
            return *found;
        }
        let mut new = Store::clone(&self.store(store));
        new.slots[slot] = object;
        let number = self.store_number(new);
        self.changed.insert(key, number);
        number
    }

    fn object(&self, store: u32, slot: usize) -> Option<&Object> {
        let number = self.stores[store as usize].slots[slot];
        self.objects.get(number as usize)?.as_ref()
    }

    /// The run in a place.
    pub fn run(&self, store: u32, at: usize) -> Option<&Run> {
        match self.object(store, at)? {
            Object::Run(run) => Some(run),
            _ => None,
        }
    }

    /// The binding in a place.
    pub fn binding(&self, store: u32, slot: usize) -> Option<&Binding> {
        match self.object(store, slot)? {
            Object::Binding(binding) => Some(binding),
            _ => None,
        }
    }

    /// The approval request in a place.
    pub fn request(&self, store: u32, slot: usize) -> Option<&Approval> {
        match self.object(store, slot)? {
            Object::Request(request) => Some(request),
            _ => None,
        }
    }

    /// Places of bindings.
    pub fn binding_slots(&self) -> std::ops::Range<usize> {
        self.runs..self.runs + self.bindings
    }

    /// Places of approval requests.
    pub fn request_slots(&self) -> std::ops::Range<usize> {
        let first = self.runs + self.bindings;
        first..first + self.requests.len()
    }

    /// The place of the freeze.
    pub fn freeze_slot(&self) -> Option<usize> {
        (self.freezes > 0).then(|| self.request_slots().end)
    }

    /// The place of the quarantine.
    pub fn quarantine_slot(&self) -> Option<usize> {
        (self.quarantines > 0).then(|| self.request_slots().end + self.freezes)
    }

    /// The quarantine of the newer version.
    pub fn quarantine(&self, store: u32) -> Option<&Quarantine> {
        match self.object(store, self.quarantine_slot()?)? {
            Object::Quarantine(quarantine) => Some(quarantine),
            _ => None,
        }
    }

    /// The place of the quarantine, if somebody may make one.
    pub fn quarantined_by_people(&self) -> Option<usize> {
        self.quarantine_slot().filter(|_| self.world.quarantines)
    }

    /// The quarantine as somebody makes it.
    pub fn made_quarantine(&self) -> Quarantine {
        self.world.quarantine()
    }

    /// The freeze in force.
    pub fn freeze(&self, store: u32) -> Option<&Freeze> {
        match self.object(store, self.freeze_slot()?)? {
            Object::Freeze(freeze) => Some(freeze),
            _ => None,
        }
    }

    /// The place of a run's record.
    pub fn record_slot(&self, run: usize) -> Option<usize> {
        self.world.records.then(|| self.request_slots().end + self.freezes + self.quarantines + run)
    }

    /// The record of a run.
    pub fn record(&self, store: u32, run: usize) -> Option<&RolloutRecordSpec> {
        match self.object(store, self.record_slot(run)?)? {
            Object::Record(record) => Some(record),
            _ => None,
        }
    }

    /// Places of what people say.
    pub fn word_slots(&self) -> std::ops::Range<usize> {
        let records = if self.world.records { self.runs } else { 0 };
        let first = self.request_slots().end + self.freezes + self.quarantines + records;
        first..first + self.world.people.len()
    }

    /// What somebody said.
    pub fn word(&self, store: u32, slot: usize) -> Option<&Word> {
        match self.object(store, slot)? {
            Object::Word(word) => Some(word),
            _ => None,
        }
    }

    /// Who speaks in a place.
    pub fn speaker(&self, slot: usize) -> &'static str {
        self.world.people[slot - self.word_slots().start]
    }

    /// What is said now in a place, to the first request; nothing if nobody asks.
    pub fn said(&self, store: u32, slot: usize) -> Option<Word> {
        let request = self.request(store, self.request_slots().next()?)?;
        let plan = self.run(store, 0)?.adopted.as_ref().map(|adopted| adopted.plan.as_str());
        let now = moment(self.store(store).tick);
        let at = slot - self.word_slots().start;
        Some(self.world.word(at, request, plan.unwrap_or_default(), now))
    }

    /// The freeze as it is made.
    pub fn made_freeze(&self) -> Freeze {
        self.world.freeze()
    }

    /// Pairs of other runs with the clusters whose bindings are in these places, as bits.
    pub fn pairs_of_others(&self, run: usize, sets: &[(usize, u32)]) -> u32 {
        let others = (0..self.runs).filter(|other| *other != run);
        others.fold(0, |bits, other| {
            let slots = sets.iter().map(|(slot, _)| slot - self.runs);
            slots.fold(bits, |bits, at| bits | 1 << (other * self.bindings + at))
        })
    }

    /// The place of the second run that somebody may create.
    pub fn rival_slot(&self) -> Option<usize> {
        self.world.rival.then_some(1)
    }

    /// The place of the run that takes a run back.
    pub fn rollback_slot(&self, run: usize) -> Option<usize> {
        (run == 0 && self.world.rollback).then(|| self.runs - 1)
    }

    /// The place of a binding.
    pub fn slot_of_binding(&self, store: u32, name: &str) -> Option<usize> {
        self.binding_slots()
            .find(|slot| self.binding(store, *slot).is_some_and(|binding| binding.name == name))
    }

    /// The place of an approval request, there or not.
    pub fn slot_of_request(&self, name: &str) -> Option<usize> {
        let at = self.requests.iter().position(|request| request == name)?;
        Some(self.request_slots().start + at)
    }

    /// What a pass over a run would look at; nothing if the run is not there.
    pub fn seen(&self, store: u32, run: usize) -> Option<Observed> {
        let mut seen = self.scenery.clone();
        let found = self.store(store);
        let version = |slot: usize| found.slots[slot].to_string();
        seen.now = moment(found.tick);
        seen.run = self.run(store, run)?.clone();
        seen.run.resource_version = version(run);
        for slot in self.binding_slots() {
            let binding = self.binding(store, slot).cloned();
            let seen_at = |found| Binding { resource_version: version(slot), ..found };
            seen.bindings.extend(binding.map(|found| Arc::new(seen_at(found))));
        }
        for slot in self.request_slots() {
            let request = self.request(store, slot).cloned();
            seen.approvals
                .extend(request.map(|found| Approval { resource_version: version(slot), ..found }));
        }
        if let Some(slot) = self.rollback_slot(0) {
            let (first, back) = (self.run(store, 0), self.run(store, slot));
            seen.policy.source = first.filter(|_| run == slot).cloned().map(Box::new);
            seen.policy.follower = back.filter(|_| run == 0).map(|found| {
                let (rollback_of, spec) = (found.rollback_of.clone(), found.spec.clone());
                Box::new(Follower { rollback_of, spec })
            });
        }
        if let Some(quarantine) = self.quarantine(store) {
            for snapshot in seen.resource_snapshots.iter_mut().map(Arc::make_mut) {
                let held = snapshot.hash.as_ref() == Some(&quarantine.hash);
                snapshot.quarantine = held.then(|| quarantine.clone());
            }
        }
        if seen.run.is_initialized() {
            let snapshots = seen.resource_snapshots.iter().map(|snapshot| &**snapshot);
            let index = &seen.run.status.resource_snapshot_index_used;
            seen.policy.brought = brought(snapshots, index);
        }
        let words = self.word_slots().filter_map(|slot| self.word(store, slot).cloned());
        seen.policy.words = words.map(Arc::new).collect();
        seen.policy.freezes.extend(self.freeze(store).cloned().map(Arc::new));
        if self.world.records {
            let entries = self.record(store, run).map(|record| record.entries.clone());
            seen.record = Some(Arc::new(entries.unwrap_or_default()));
            seen.options.records = Keep::All;
        }
        let others = (0..self.runs).filter(|other| *other != run);
        seen.rivals = others.filter_map(|other| Some(rival(self.run(store, other)?))).collect();
        Some(seen)
    }
}

fn rival(run: &Run) -> OtherRun {
    let metadata = ObjectMeta {
        name: Some(run.name.clone()),
        uid: Some(run.uid.clone()),
        creation_timestamp: Some(Time(run.created)),
        ..ObjectMeta::default()
    };
    OtherRun::read(&metadata, &run.status)
}
