//! A small fixture for scheduling stories: a fleet, a policy, and a scheduler that carries
//! its own plans out.

use std::sync::Arc;

use flagship_api::binding::{BindingState, ResourceBindingSpec};
use flagship_api::keys::finalizer;
use flagship_api::policy::PlacementPolicy;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::model::{Agent, Binding, Cluster, Health, PolicySnapshot};
use crate::scheduling::{Action, Decision, Observed, Options, Plan, State, plan};

pub fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

pub fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

/// A healthy cluster with labels written as `env=prod region=east`.
pub fn cluster(name: &str, labels: &str) -> Cluster {
    let labels = labels.split_whitespace().map(|l| l.split_once('=').unwrap());
    Cluster {
        name: name.into(),
        labels: labels.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        agent: Some(Agent {
            heartbeat: ago(10),
            joined: true,
            health: Some(Health { healthy: true, since: ago(3600) }),
        }),
        ..Cluster::default()
    }
}

/// A cluster whose agent was never heard of.
pub fn silent(name: &str, labels: &str) -> Cluster {
    Cluster { agent: None, ..cluster(name, labels) }
}

pub fn with_property(mut cluster: Cluster, name: &str, value: &str) -> Cluster {
    let mut properties = cluster.properties.to_map();
    properties.insert(name.into(), value.into());
    cluster.properties = properties.into();
    cluster
}

pub fn policy(text: serde_json::Value) -> Option<PlacementPolicy> {
    Some(serde_json::from_value(text).unwrap())
}

pub fn pick_n(n: u32) -> Fixture {
    Fixture::new(policy(json!({"placementType": "PickN"}))).wanting(n)
}

/// The fixture of one placement.
pub struct Fixture {
    pub seen: Observed,
    created: usize,
}

impl Fixture {
    pub fn new(policy: Option<PlacementPolicy>) -> Self {
        let snapshot = PolicySnapshot {
            name: "web-0".into(),
            policy,
            placement_generation: Some("1".into()),
            ..PolicySnapshot::default()
        };
        let seen = Observed {
            now: now(),
            namespace: None,
            placement: "web".into(),
            snapshot: Arc::new(snapshot),
            clusters: Vec::new(),
            bindings: Vec::new(),
            options: Options::default(),
        };
        Self { seen, created: 0 }
    }

    pub fn wanting(mut self, n: u32) -> Self {
        self.snapshot().number_of_clusters = Some(n.to_string());
        self
    }

    pub fn over(mut self, clusters: impl IntoIterator<Item = Cluster>) -> Self {
        self.seen.clusters = clusters.into_iter().map(Arc::new).collect();
        self.seen.clusters.sort_by(|a, b| a.name.cmp(&b.name));
        self
    }

    /// A new policy snapshot takes the place of the old one.
    pub fn repolicy(&mut self, policy: Option<PlacementPolicy>) {
        let snapshot = self.snapshot();
        let index: u32 = snapshot.name.rsplit_once('-').unwrap().1.parse().unwrap();
        snapshot.name = format!("web-{}", index + 1);
        snapshot.policy = policy;
        snapshot.placement_generation = snapshot.answers().map(|now| (now + 1).to_string());
        snapshot.status = Default::default();
    }

    /// The policy snapshot, to be changed by hand.
    pub fn snapshot(&mut self) -> &mut PolicySnapshot {
        Arc::make_mut(&mut self.seen.snapshot)
    }

    /// Adds a binding by hand.
    pub fn bind(&mut self, cluster: &str, state: State, snapshot: &str) -> &mut Binding {
        self.created += 1;
        let binding = Binding {
            name: format!("web-{cluster}-{:08x}", self.created),
            finalizers: [finalizer::SCHEDULER_BINDING.to_owned()].into(),
            created: ago(1000 - i64::try_from(self.created).unwrap()),
            spec: ResourceBindingSpec {
                target_cluster: cluster.into(),
                state: written(state),
                scheduling_policy_snapshot_name: snapshot.into(),
                cluster_decision: Decision::picked(cluster, Some(Default::default()))
                    .on_the_wire()
                    .into(),
                ..ResourceBindingSpec::default()
            },
            ..Binding::default()
        };
        self.seen.bindings.push(binding);
        self.seen.bindings.sort_by(|a, b| a.name.cmp(&b.name));
        let at = self.seen.bindings.iter().position(|b| b.cluster() == cluster).unwrap();
        &mut self.seen.bindings[at]
    }

    pub fn plan(&self) -> Plan {
        plan(&self.seen)
    }

    /// Carries one plan out, as the shell would.
    pub fn step(&mut self) -> Plan {
        let plan = self.plan();
        for action in &plan.actions {
            self.apply(action);
        }
        if let Some(report) = &plan.report {
            let status = report.status(&self.seen.snapshot, self.seen.now);
            self.snapshot().status = status;
        }
        plan
    }

    /// Runs until the plan asks for nothing more; returns the last plan with a report.
    pub fn settle(&mut self) -> Plan {
        for _ in 0..200 {
            let plan = self.step();
            if !plan.again {
                return plan;
            }
        }
        panic!("the scheduler never settles");
    }

    fn apply(&mut self, action: &Action) {
        let snapshot = self.seen.snapshot.name.clone();
        match action {
            Action::Create { decision } => {
                let binding = self.bind(&decision.cluster, State::Scheduled, &snapshot);
                binding.spec.cluster_decision = decision.on_the_wire().into();
            }
            Action::Take { binding, state, decision } => {
                let binding = self.named(binding);
                binding.spec.state = written(*state);
                binding.spec.scheduling_policy_snapshot_name = snapshot;
                binding.spec.cluster_decision = decision.on_the_wire().into();
                binding.previous = None;
            }
            Action::Release { binding, previous } => {
                let binding = self.named(binding);
                binding.spec.state = BindingState::Unscheduled;
                binding.previous = Some(format!("{previous:?}"));
            }
            Action::RemoveFinalizer { binding } => self.named(binding).finalizers = [].into(),
        }
    }

    fn named(&mut self, name: &str) -> &mut Binding {
        self.seen.bindings.iter_mut().find(|b| b.name == name).expect("the plan names a binding")
    }

    /// The rollout side binds everything that is scheduled.
    pub fn bind_all(&mut self) {
        for binding in &mut self.seen.bindings {
            if binding.is(BindingState::Scheduled) {
                binding.spec.state = BindingState::Bound;
            }
        }
    }

    pub fn cluster(&mut self, name: &str) -> &mut Cluster {
        Arc::make_mut(self.seen.clusters.iter_mut().find(|c| c.name == name).unwrap())
    }

    /// Clusters with a live binding of the current snapshot.
    pub fn placed(&self) -> Vec<&str> {
        let live = |b: &&Binding| {
            !b.is_unscheduled()
                && !b.deleting
                && b.spec.scheduling_policy_snapshot_name == self.seen.snapshot.name
        };
        let mut names: Vec<&str> =
            self.seen.bindings.iter().filter(live).map(|b| b.cluster()).collect();
        names.sort_unstable();
        names
    }

    pub fn unscheduled(&self) -> Vec<(&str, State)> {
        let gone = self.seen.bindings.iter().filter(|b| b.is_unscheduled());
        gone.map(|b| (b.cluster(), b.previous_state().unwrap())).collect()
    }
}

fn written(state: State) -> BindingState {
    match state {
        State::Scheduled => BindingState::Scheduled,
        State::Bound => BindingState::Bound,
        State::Unscheduled => BindingState::Unscheduled,
        State::Foreign => BindingState::Other("Odd".into()),
    }
}

/// What people read: the verdict, then a line per decision.
pub fn told(plan: &Plan) -> String {
    let report = plan.report.as_ref().expect("the plan reports");
    let mut text = format!("{}: {}\n", report.verdict.reason(), report.verdict.message());
    for decision in &report.decisions {
        let mark = if decision.selected { '+' } else { '-' };
        text.push_str(&format!("{mark} {}: {}\n", decision.cluster, decision.reason));
    }
    text
}

pub fn map<M: FromIterator<(String, String)>>(pairs: &[(&str, &str)]) -> M {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}
