//! What others do: members report, people approve and stop, the scheduler meddles.

use std::sync::Arc;

use flagship_api::binding::BindingState;
use flagship_api::condition::{ConditionStatus, Conditions, Generation, draft};
use flagship_api::condition_type::approval_request::{APPROVAL_ACCEPTED, APPROVED};
use flagship_api::condition_type::binding::{AVAILABLE, ROLLOUT_STARTED};
use flagship_api::staged_update::UpdateRunState;
use flagship_rules::model::Binding;
use flagship_rules::update_run::lifecycle;

use super::state_table::{ABSENT, Object, StateTable, Store};
use super::world::{Faults, moment};

/// Something that happens to the store without a hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// A member says that what was delivered works.
    Works(usize),
    /// A member says that it works no more.
    Fails(usize),
    /// The scheduler rewrites a binding.
    Touched(usize),
    /// A binding that is being deleted is gone.
    Vanishes(usize),
    /// Somebody approves.
    Approved(usize),
    /// Somebody says what a policy asks for, or says it again.
    Said(usize),
    /// Somebody deletes an open request.
    Lost(usize),
    /// Somebody stops a run.
    Stopped(usize),
    /// Somebody lets it go on.
    Resumed(usize),
    /// Somebody deletes a run.
    Deleted(usize),
    /// A second run is created.
    RivalComes,
    /// Somebody freezes everything.
    Frozen(usize),
    /// Somebody lifts the freeze.
    Lifted(usize),
    /// Somebody quarantines what the first run brings.
    Quarantined(usize),
    /// Time passes.
    Tick,
}

impl Event {
    /// Whether it is a fault: no run may count on it.
    pub fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Fails(_)
                | Self::Touched(_)
                | Self::Lost(_)
                | Self::Stopped(_)
                | Self::Frozen(_)
                | Self::Quarantined(_)
        )
    }

    /// What is left of the faults afterwards; nothing if it may not happen any more.
    pub fn spend(self, mut left: Faults, timer: bool) -> Option<Faults> {
        let purse = match self {
            Self::Fails(_) => &mut left.regress,
            Self::Touched(_) => &mut left.touch,
            Self::Lost(_) => &mut left.lose,
            Self::Stopped(_) => &mut left.stop,
            Self::Deleted(_) => &mut left.delete,
            Self::Frozen(_) => &mut left.freeze,
            Self::Quarantined(_) => &mut left.quarantine,
            // Time passes by itself if a run waits for it.
            Self::Tick if !timer => &mut left.late,
            _ => return Some(left),
        };
        *purse = purse.checked_sub(1)?;
        Some(left)
    }
}

/// Everything that may happen to a store, if enough faults are left for it.
pub fn possible(table: &StateTable, store: u32) -> Vec<Event> {
    let mut events = vec![Event::Tick];
    for slot in table.binding_slots() {
        let Some(binding) = table.binding(store, slot) else { continue };
        let works = works(binding);
        if is_delivered(binding) && !works {
            events.push(Event::Works(slot));
        }
        if works {
            events.push(Event::Fails(slot));
        }
        if binding.deleting {
            events.push(Event::Vanishes(slot));
        } else if binding.fence.is_some() {
            events.push(Event::Touched(slot));
        }
    }
    for slot in table.request_slots() {
        let Some(request) = table.request(store, slot) else { continue };
        let at = Generation(request.generation);
        if request.conditions.is_true_at(APPROVAL_ACCEPTED, at) {
            continue;
        }
        if !request.conditions.is_true_at(APPROVED, at) {
            events.push(Event::Approved(slot));
        }
        events.push(Event::Lost(slot));
    }
    let asked = table.request_slots().next().and_then(|slot| table.request(store, slot));
    let open = asked.is_some_and(|request| {
        !request.conditions.is_true_at(APPROVAL_ACCEPTED, Generation(request.generation))
    });
    for slot in table.word_slots().filter(|_| open) {
        if table.said(store, slot).as_ref() != table.word(store, slot) {
            events.push(Event::Said(slot));
        }
    }
    for at in 0..table.runs {
        let Some(run) = table.run(store, at) else {
            // The first run may have been deleted; it does not come back.
            events.extend((table.rival_slot() == Some(at)).then_some(Event::RivalComes));
            continue;
        };
        if run.deleting {
            continue;
        }
        if !lifecycle::has_ended(&run.status) {
            events.push(match run.state() {
                UpdateRunState::Stop => Event::Resumed(at),
                _ => Event::Stopped(at),
            });
        }
        events.extend((at == 0).then_some(Event::Deleted(at)));
    }
    if let Some(slot) = table.freeze_slot() {
        events.push(match table.freeze(store) {
            Some(_) => Event::Lifted(slot),
            None => Event::Frozen(slot),
        });
    }
    if let Some(slot) = table.quarantined_by_people()
        && table.quarantine(store).is_none()
    {
        events.push(Event::Quarantined(slot));
    }
    events
}

fn works(binding: &Binding) -> bool {
    binding.status.conditions.is_true_at(AVAILABLE, Generation(binding.generation))
}

fn is_delivered(binding: &Binding) -> bool {
    binding.spec.state == BindingState::Bound
        && binding.status.conditions.is_true_at(ROLLOUT_STARTED, Generation(binding.generation))
}

/// What becomes of a store, and the place that changes.
pub fn happen(table: &mut StateTable, store: u32, event: Event) -> (u32, Option<usize>) {
    let tick = table.store(store).tick;
    let now = moment(tick);
    let changed = match event {
        Event::Works(slot) => report(table, store, slot, ConditionStatus::True, tick),
        Event::Fails(slot) => report(table, store, slot, ConditionStatus::False, tick),
        Event::Touched(slot) => table.binding(store, slot).cloned().map(|mut binding| {
            binding.generation += 1;
            Arc::make_mut(&mut binding.spec.cluster_decision).reason.push('!');
            (slot, Some(Object::Binding(Box::new(binding))))
        }),
        Event::Approved(slot) => table.request(store, slot).cloned().map(|mut request| {
            let at = Generation(request.generation);
            draft(APPROVED).is_true("lgtm").set(&mut request.conditions, at, now);
            (slot, Some(Object::Request(Box::new(request))))
        }),
        Event::Said(slot) => {
            table.said(store, slot).map(|word| (slot, Some(Object::Word(Box::new(word)))))
        }
        Event::Vanishes(slot) | Event::Lost(slot) | Event::Lifted(slot) => Some((slot, None)),
        Event::Frozen(slot) => Some((slot, Some(Object::Freeze(Box::new(table.made_freeze()))))),
        Event::Quarantined(slot) => {
            Some((slot, Some(Object::Quarantine(Box::new(table.made_quarantine())))))
        }
        Event::Stopped(run) => ask(table, store, run, UpdateRunState::Stop),
        Event::Resumed(run) => ask(table, store, run, UpdateRunState::Run),
        Event::Deleted(run) => table.run(store, run).cloned().map(|mut found| {
            found.deleting = true;
            found.generation += 1;
            (run, Some(Object::Run(Box::new(found))))
        }),
        Event::RivalComes => Some((1, Some(Object::Run(Box::new(table.created(1, now)))))),
        Event::Tick => {
            let slots = table.store(store).slots.clone();
            return (table.store_number(Store { tick: tick + 1, slots }), None);
        }
    };
    let Some((slot, object)) = changed else { return (store, None) };
    let number = object.map_or(ABSENT, |object| table.number(object));
    (table.set(store, slot, number), Some(slot))
}

type Change = Option<(usize, Option<Object>)>;

fn report(table: &StateTable, store: u32, slot: usize, truth: ConditionStatus, tick: u8) -> Change {
    let mut binding = table.binding(store, slot)?.clone();
    let at = Generation(binding.generation);
    draft(AVAILABLE).is(truth, "Reported").set(&mut binding.status.conditions, at, moment(tick));
    Some((slot, Some(Object::Binding(Box::new(binding)))))
}

fn ask(table: &StateTable, store: u32, run: usize, state: UpdateRunState) -> Change {
    let mut found = table.run(store, run)?.clone();
    found.spec.state = Some(state);
    found.generation += 1;
    Some((run, Some(Object::Run(Box::new(found)))))
}
