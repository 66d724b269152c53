//! The model as stateright wants it.

use std::fmt::Write;
use std::sync::Mutex;

use flagship_sim::model::{self, Act, Graph, LAWS, Law, Planner, State, World};
use stateright::{Checker, Expectation, Model, Property};

/// A world under a checker.
pub struct Checked {
    model: model::Model,
    graph: Mutex<Graph>,
    /// The laws it is held against.
    laws: &'static [&'static str],
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
        /// A property is a plain function, so each law needs one of its own.
        fn holds<const LAW: usize>(_: &Checked, state: &State) -> bool {
            !state.breaks(Law::of(LAWS[LAW]))
        }
        const HOLDS: [fn(&Checked, &State) -> bool; LAWS.len()] = [
            holds::<0>,
            holds::<1>,
            holds::<2>,
            holds::<3>,
            holds::<4>,
            holds::<5>,
            holds::<6>,
            holds::<7>,
            holds::<8>,
            holds::<9>,
            holds::<10>,
            holds::<11>,
            holds::<12>,
            holds::<13>,
            holds::<14>,
            holds::<15>,
        ];
        let laws = LAWS.iter().zip(HOLDS).filter(|(law, _)| self.laws.contains(law));
        laws.map(|(law, condition)| Property {
            expectation: Expectation::Always,
            name: law,
            condition,
        })
        .collect()
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
    /// Broken laws, each with the way there.
    pub broken: Vec<(String, String)>,
    /// States without a way to an end.
    pub never_end: usize,
    /// States without a way to a stop.
    pub never_stop: usize,
}

/// Walks through a world; one law at a time stops at the first place where it is broken,
/// which is then the shortest way there.
pub fn explore(world: World, planner: Planner, laws: &'static [&'static str]) -> Found {
    let graph = Mutex::default();
    let checked = Checked { model: model::Model::new(world, planner), graph, laws };
    let checker = checked.checker().threads(1).spawn_bfs().join();
    let mut broken = Vec::new();
    for (law, path) in checker.discoveries() {
        let mut way = String::new();
        for (state, act) in path.into_vec() {
            if let Some(act) = act {
                writeln!(way, "{}", checker.model().model.told(&state, act)).unwrap();
            }
        }
        broken.push((law.to_owned(), way));
    }
    broken.sort();
    let graph = checker.model().graph.lock().unwrap();
    Found {
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        stores: checker.model().model.stores(),
        broken,
        never_end: graph.never_end(),
        never_stop: graph.never_stop(),
    }
}
