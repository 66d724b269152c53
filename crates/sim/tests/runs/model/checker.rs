//! The model as stateright wants it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Mutex;

use flagship_sim::model::{self, Act, Graph, LAWS, Law, Planner, State, World};
use stateright::{Checker, Model, Property};

/// A world under a checker.
pub struct Checked {
    model: model::Model,
    graph: Mutex<Graph>,
    /// The laws it is held against.
    laws: Law,
}

impl Model for Checked {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        vec![self.model.first()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Act>) {
        actions.extend(self.model.acts(state));
    }

    fn next_state(&self, last: &State, act: Act) -> Option<State> {
        let next = self.model.step(last, act)?;
        let (ended, stopped) = (self.model.has_ended(&next), self.model.has_stopped(&next));
        self.graph.lock().unwrap().note(last, act, &next, ended, stopped);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        // All in one: asking for each law apart costs more than the walk itself.
        vec![Property::always("the laws hold", |checked: &Self, state: &State| {
            !state.breaks(checked.laws)
        })]
    }
}

/// What a walk through a world found.
pub struct Found {
    /// States that can be reached.
    pub states: usize,
    /// Steps between them.
    pub steps: usize,
    /// Contents of the API server among them.
    pub stores: usize,
    /// The laws that were broken, and the shortest way there.
    pub broken: Option<(Vec<&'static str>, String)>,
    /// Every way it ended.
    pub ends: BTreeSet<String>,
    /// States without a way to an end.
    pub never_end: usize,
    /// States without a way to a stop.
    pub never_stop: usize,
}

/// Walks through a world, and stops at the first state that breaks one of these laws.
pub fn explore(world: World, planner: Planner, laws: &[&str]) -> Found {
    let laws = laws.iter().fold(Law::NONE, |all, law| all | Law::of(law));
    let graph = Mutex::default();
    let checked = Checked { model: model::Model::new(world, planner), graph, laws };
    let checker = checked.checker().threads(1).spawn_bfs().join();
    let broken = checker.discoveries().into_values().next().map(|path| {
        let (mut way, mut names) = (String::new(), Vec::new());
        for (state, act) in path.into_vec() {
            names = LAWS.into_iter().filter(|law| state.breaks(Law::of(law))).collect();
            if let Some(act) = act {
                writeln!(way, "{}", checker.model().model.told(&state, act)).unwrap();
            }
        }
        (names, way)
    });
    let graph = checker.model().graph.lock().unwrap();
    Found {
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        stores: checker.model().model.stores(),
        broken,
        ends: checker.model().model.ends(),
        never_end: graph.never_end(),
        never_stop: graph.never_stop(),
    }
}
