//! Who can get where: whether every state can still reach an end.
//!
//! "Something good happens at last" cannot be seen in one state, and a search that looks
//! at paths gets lost in circles. But if from every state some way leads to the good one
//! without any further fault, then nobody is stuck for good.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::environment::Event;
use super::state::{Act, State};

/// What kind of step leads on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Hubs, members, time, and people who do what they are asked.
    Fair,
    /// People who change their mind: a run may not count on it to come to a stop.
    Resumed,
    /// Faults.
    Fault,
}

impl Act {
    /// What kind of step it is.
    pub fn kind(self) -> Kind {
        match self {
            Self::Read { .. } | Self::Write { .. } | Self::Overtake { .. } => Kind::Fair,
            Self::ReadOld { .. } | Self::Crash { .. } => Kind::Fault,
            Self::Event(Event::Resumed(_)) => Kind::Resumed,
            Self::Event(event) if event.is_fault() => Kind::Fault,
            Self::Event(_) => Kind::Fair,
        }
    }
}

/// Every step that was looked at.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    numbers: BTreeMap<u64, u32>,
    steps: Vec<(u32, u32, Kind)>,
    goals: [Vec<u32>; 2],
    // Steps come in bunches from one state.
    last: Option<(State, u32)>,
}

/// A state as one number; two states share one with a chance nobody has to think of.
pub fn print(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

impl Graph {
    fn number(&mut self, state: &State) -> (u32, bool) {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(print(state)).or_insert(next);
        (number, number == next)
    }

    /// Takes note of a step; `ended` and `stopped` say whether it leads to such a state.
    pub fn note(&mut self, from: &State, act: Act, to: &State, ended: bool, stopped: bool) {
        let from = match &self.last {
            Some((last, number)) if last == from => *number,
            _ => {
                let (number, _) = self.number(from);
                self.last = Some((from.clone(), number));
                number
            }
        };
        let (to, new) = self.number(to);
        self.steps.push((from, to, act.kind()));
        if new && ended {
            self.goals[0].push(to);
        }
        if new && stopped {
            self.goals[1].push(to);
        }
    }

    /// How many states were met.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// How many states can never come to an end, however kind the world is from then on.
    pub fn never_end(&self) -> usize {
        self.numbers.len() - self.reach(&self.goals[0], |kind| kind != Kind::Fault)
    }

    /// How many can never come to a stop, unless somebody gives up stopping.
    pub fn never_stop(&self) -> usize {
        self.numbers.len() - self.reach(&self.goals[1], |kind| kind == Kind::Fair)
    }

    /// How many states have a way to one of these over such steps.
    fn reach(&self, goals: &[u32], over: impl Fn(Kind) -> bool) -> usize {
        let mut backwards = vec![Vec::new(); self.numbers.len()];
        for (from, to, kind) in &self.steps {
            if over(*kind) {
                backwards[*to as usize].push(*from);
            }
        }
        let mut reached = vec![false; self.numbers.len()];
        let mut open: Vec<u32> = goals.to_vec();
        let mut count = 0;
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut reached[at as usize], true) {
                count += 1;
                open.extend(&backwards[at as usize]);
            }
        }
        count
    }
}
