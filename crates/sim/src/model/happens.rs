//! What others do: members report, people approve and stop, the scheduler meddles.

use flagship_api::binding::BindingState;
use flagship_api::condition::{Conditions, Generation, Truth, draft};
use flagship_api::condition_type::approval_request::{APPROVAL_ACCEPTED, APPROVED};
use flagship_api::condition_type::binding::{AVAILABLE, ROLLOUT_STARTED};
use flagship_api::staged_update::UpdateRunState;
use flagship_rules::update_run::{Binding, laws};

use super::atlas::{ABSENT, Atlas, Object, Store};
use super::world::{Troubles, moment};

/// Something that happens to the store without a hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// Time passes.
    Tick,
}

impl Event {
    /// Whether it is a trouble: no run may count on it.
    pub fn is_trouble(self) -> bool {
        matches!(self, Self::Fails(_) | Self::Touched(_) | Self::Lost(_) | Self::Stopped(_))
    }
}

/// Everything that may happen to a store; time passes by itself if a run waits for it.
pub fn possible(atlas: &Atlas, store: u32, left: Troubles, timer: bool) -> Vec<Event> {
    let mut events = Vec::new();
    for slot in atlas.binding_slots() {
        let Some(binding) = atlas.binding(store, slot) else { continue };
        let works = works(binding);
        if is_delivered(binding) && !works {
            events.push(Event::Works(slot));
        }
        if works && left.regress > 0 {
            events.push(Event::Fails(slot));
        }
        if left.touch > 0 && !binding.deleting && binding.fence.is_some() {
            events.push(Event::Touched(slot));
        }
        if binding.deleting {
            events.push(Event::Vanishes(slot));
        }
    }
    for slot in atlas.request_slots() {
        let Some(request) = atlas.request(store, slot) else { continue };
        let at = Generation(request.generation);
        if request.conditions.is_true_at(APPROVAL_ACCEPTED, at) {
            continue;
        }
        if !request.conditions.is_true_at(APPROVED, at) {
            events.push(Event::Approved(slot));
        }
        if left.lose > 0 {
            events.push(Event::Lost(slot));
        }
    }
    for at in 0..atlas.runs {
        let Some(run) = atlas.run(store, at) else {
            // A run that was deleted does not come back: it is the first that can be.
            events.extend((at > 0).then_some(Event::RivalComes));
            continue;
        };
        if run.deleting {
            continue;
        }
        let ended = laws::has_ended(&run.status);
        match run.state() {
            UpdateRunState::Run if left.stop > 0 && !ended => events.push(Event::Stopped(at)),
            UpdateRunState::Stop if !ended => events.push(Event::Resumed(at)),
            _ => {}
        }
        if left.delete > 0 && at == 0 {
            events.push(Event::Deleted(at));
        }
    }
    if timer || left.late > 0 {
        events.push(Event::Tick);
    }
    events
}

fn works(binding: &Binding) -> bool {
    binding.conditions.is_true_at(AVAILABLE, Generation(binding.generation))
}

fn is_delivered(binding: &Binding) -> bool {
    binding.spec.state == BindingState::Bound
        && binding.conditions.is_true_at(ROLLOUT_STARTED, Generation(binding.generation))
}

/// Lets it happen; returns the places that changed.
pub fn happen(
    atlas: &mut Atlas,
    store: &mut u32,
    left: &mut Troubles,
    event: Event,
) -> Vec<usize> {
    let tick = atlas.store(*store).tick;
    let now = moment(tick);
    let changed = match event {
        Event::Works(slot) => report(atlas, *store, slot, Truth::True, tick),
        Event::Fails(slot) => {
            left.regress -= 1;
            report(atlas, *store, slot, Truth::False, tick)
        }
        Event::Touched(slot) => {
            left.touch -= 1;
            atlas.binding(*store, slot).cloned().map(|mut binding| {
                binding.generation += 1;
                binding.spec.cluster_decision.reason.push('!');
                (slot, Some(Object::Binding(Box::new(binding))))
            })
        }
        Event::Vanishes(slot) => Some((slot, None)),
        Event::Approved(slot) => atlas.request(*store, slot).cloned().map(|mut request| {
            let at = Generation(request.generation);
            draft(APPROVED).is_true("lgtm").set(&mut request.conditions, at, now);
            (slot, Some(Object::Request(Box::new(request))))
        }),
        Event::Lost(slot) => {
            left.lose -= 1;
            Some((slot, None))
        }
        Event::Stopped(run) => {
            left.stop -= 1;
            ask(atlas, *store, run, UpdateRunState::Stop)
        }
        Event::Resumed(run) => ask(atlas, *store, run, UpdateRunState::Run),
        Event::Deleted(run) => {
            left.delete -= 1;
            atlas.run(*store, run).cloned().map(|mut found| {
                found.deleting = true;
                found.generation += 1;
                (run, Some(Object::Run(Box::new(found))))
            })
        }
        Event::RivalComes => {
            let rival = atlas.created(1, now);
            Some((1, Some(Object::Run(Box::new(rival)))))
        }
        Event::Tick => {
            left.late = left.late.saturating_sub(1);
            let old = atlas.store(*store);
            *store = atlas.store_number(Store { tick: tick + 1, slots: old.slots.clone() });
            None
        }
    };
    let Some((slot, object)) = changed else { return Vec::new() };
    let number = object.map_or(ABSENT, |object| atlas.number(object));
    *store = atlas.set(*store, slot, number);
    vec![slot]
}

type Change = Option<(usize, Option<Object>)>;

fn report(atlas: &Atlas, store: u32, slot: usize, truth: Truth, tick: u8) -> Change {
    let mut binding = atlas.binding(store, slot)?.clone();
    let at = Generation(binding.generation);
    draft(AVAILABLE).is(truth, "Reported").set(&mut binding.conditions, at, moment(tick));
    Some((slot, Some(Object::Binding(Box::new(binding)))))
}

fn ask(atlas: &Atlas, store: u32, run: usize, state: UpdateRunState) -> Change {
    let mut found = atlas.run(store, run)?.clone();
    found.spec.state = Some(state);
    found.generation += 1;
    Some((run, Some(Object::Run(Box::new(found)))))
}
