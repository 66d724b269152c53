//! What a model begins with: a small fleet, one or two runs, and how much may go wrong.
//!
//! Everything is named by its place: cluster `c01` is the second of the first stage `s0`.
//! Runs name the snapshot they roll out, and have their finalizer from the start.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::approval_decision::{ApprovalSpec, Decision, Person};
use flagship_api::binding::{BindingState, ResourceBindingSpec};
use flagship_api::condition::{Generation, draft};
use flagship_api::condition_type::binding::{AVAILABLE, ROLLOUT_STARTED};
use flagship_api::condition_type::policy_snapshot::SCHEDULED;
use flagship_api::freeze::FreezeSpec;
use flagship_api::keys::{finalizer, own};
use flagship_api::names::{StageSide, approval_request};
use flagship_api::placement::{PlacementSpec, RolloutStrategy, RolloutStrategyType};
use flagship_api::snapshot::SchedulingPolicySnapshotStatus;
use flagship_api::staged_update::{
    StageConfig, StageTask, StageTaskType, UpdateRunSpec, UpdateRunState, UpdateStrategySpec,
};
use flagship_rules::model::{Binding, Cluster, PolicySnapshot, ResourceSnapshot};
use flagship_rules::placement::Placement;
use flagship_rules::policy::approvals::Word;
use flagship_rules::policy::quarantine::Quarantine;
use flagship_rules::policy::{self, Freeze, Policy};
use flagship_rules::update_run::{Approval, Observed, Options, Run};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The time between two moments of a model: longer than every wait and every patience.
pub const TICK: SignedDuration = SignedDuration::from_mins(10);

/// A fleet and its runs.
#[derive(Debug, Clone)]
pub struct World {
    /// How many stages.
    pub stages: usize,
    /// How many clusters each of them has.
    pub clusters: usize,
    /// How many of these may be in flight.
    pub at_once: i32,
    /// Stages somebody must approve before they begin.
    pub before: Vec<usize>,
    /// Stages somebody must approve before they end.
    pub after: Vec<usize>,
    /// Stages that end with a wait.
    pub waits: Vec<usize>,
    /// Clusters that are to lose their resources.
    pub dropped: usize,
    /// Hubs that take themselves for the leader.
    pub hubs: usize,
    /// Whether a second run, to another version, may come along.
    pub rival: bool,
    /// Whether clusters have the older version already, and the first run may be rolled back.
    pub rollback: bool,
    /// Whether somebody may freeze everything.
    pub freezes: bool,
    /// Whether somebody may quarantine what the first run brings.
    pub quarantines: bool,
    /// Whether records of all runs are kept.
    pub records: bool,
    /// People who may approve the first request, each again and again; who is named twice has
    /// two objects. The first run is by `author`.
    pub people: Vec<&'static str>,
    /// Policies that select every run.
    pub policies: Vec<Policy>,
    /// What may go wrong, and how often.
    pub faults: Faults,
}

/// How often each thing may happen that nobody can count on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A hub dies and starts again with nothing in mind.
    pub crash: u8,
    /// A hub looks at what was, not at what is.
    pub stale: u8,
    /// Somebody stops a run.
    pub stop: u8,
    /// A cluster that worked works no more.
    pub regress: u8,
    /// The scheduler rewrites a binding without changing what it holds.
    pub touch: u8,
    /// A tick passes for no reason.
    pub late: u8,
    /// Somebody deletes an open approval request.
    pub lose: u8,
    /// Somebody deletes a run.
    pub delete: u8,
    /// Somebody freezes everything.
    pub freeze: u8,
    /// Somebody quarantines what the first run brings.
    pub quarantine: u8,
}

impl Default for World {
    fn default() -> Self {
        Self {
            stages: 2,
            clusters: 2,
            at_once: 1,
            before: Vec::new(),
            after: Vec::new(),
            waits: Vec::new(),
            dropped: 0,
            hubs: 1,
            rival: false,
            rollback: false,
            freezes: false,
            quarantines: false,
            records: false,
            people: Vec::new(),
            policies: Vec::new(),
            faults: Faults::default(),
        }
    }
}

/// A moment of the model.
pub fn moment(tick: u8) -> Timestamp {
    // Ticks are few: this never leaves the range of timestamps.
    Timestamp::UNIX_EPOCH.saturating_add(TICK * i32::from(tick)).unwrap_or(Timestamp::MAX)
}

impl World {
    /// How many runs there may be.
    pub fn runs(&self) -> usize {
        1 + usize::from(self.rival) + usize::from(self.rollback)
    }

    /// The runs as they are created; a rival comes later, if at all.
    pub fn run(&self, at: usize, created: Timestamp) -> Run {
        // A rival is newer, also where no tick has passed.
        let later = SignedDuration::from_secs(i64::from(at > 0 && !self.policies.is_empty()));
        let created = created.saturating_add(later).unwrap_or(created);
        let spec = UpdateRunSpec {
            placement_name: "web".to_owned(),
            resource_snapshot_index: (1 - at.min(1)).to_string(),
            staged_rollout_strategy_name: "plan".to_owned(),
            state: Some(UpdateRunState::Run),
        };
        let by = (own::CREATED_BY.to_owned(), "author".to_owned());
        let known = (!self.people.is_empty()).then(|| BTreeMap::from([by]));
        let metadata = ObjectMeta {
            annotations: known,
            name: Some(run_name(at)),
            uid: Some(format!("uid-{at}")),
            generation: Some(1),
            creation_timestamp: Some(Time(created)),
            finalizers: Some(vec![finalizer::UPDATE_RUN.to_owned()]),
            ..ObjectMeta::default()
        };
        Run::read(&metadata, &spec, &Default::default())
    }

    /// The freeze that somebody may make.
    pub fn freeze(&self) -> Freeze {
        let spec = FreezeSpec { reason: "incident".to_owned(), ..FreezeSpec::default() };
        Freeze { name: "stop".to_owned(), by: None, spec }
    }

    /// What somebody says to a request that was made for a plan.
    pub fn word(&self, at: usize, request: &Approval, plan: &str, now: Timestamp) -> Word {
        let user = self.people[at].to_owned();
        let spec = ApprovalSpec {
            request: request.name.clone(),
            request_uid: request.uid.clone(),
            plan_hash: plan.to_owned(),
            decision: Decision::Approve,
            reason: String::new(),
            break_glass: false,
            by: Some(Person { user, ..Person::default() }),
        };
        Word { name: format!("word{at}"), at: now, deleting: false, spec }
    }

    /// The quarantine that somebody may make.
    pub fn quarantine(&self) -> Quarantine {
        let (hash, reason) = ("hash-1".to_owned(), "it leaks".to_owned());
        Quarantine { hash, reason, by: String::new() }
    }

    /// The bindings: those of the stages in order, then the dropped ones.
    pub fn bindings(&self) -> Vec<Binding> {
        let chosen = (0..self.stages * self.clusters)
            .map(|at| (self.cluster(at / self.clusters, at % self.clusters), false));
        let dropped = (0..self.dropped).map(|at| (format!("x{at}"), true));
        let made = |(cluster, dropped): (String, bool)| self.binding(&cluster, dropped);
        chosen.chain(dropped).map(made).collect()
    }

    fn binding(&self, cluster: &str, dropped: bool) -> Binding {
        let state = if dropped { BindingState::Unscheduled } else { BindingState::Scheduled };
        let mut binding = Binding {
            name: format!("web-{cluster}"),
            uid: format!("uid-{cluster}"),
            generation: 1,
            placement: "web".to_owned(),
            spec: ResourceBindingSpec {
                state,
                scheduling_policy_snapshot_name: "web-0".to_owned(),
                target_cluster: cluster.to_owned(),
                ..ResourceBindingSpec::default()
            },
            ..Binding::default()
        };
        if self.rollback {
            binding.spec.state = BindingState::Bound;
            binding.spec.resource_snapshot_name = "web-0-snapshot".to_owned();
            for kind in [ROLLOUT_STARTED, AVAILABLE] {
                let said = draft(kind).is_true("Reported");
                said.set(&mut binding.status.conditions, Generation(1), moment(0));
            }
        }
        binding
    }

    fn cluster(&self, stage: usize, at: usize) -> String {
        format!("c{stage}{at}")
    }

    /// Names of every approval request the runs may ask for.
    pub fn requests(&self) -> Vec<String> {
        let mut names = Vec::new();
        for run in 0..self.runs() {
            for (side, stages) in
                [(StageSide::Before, &self.before), (StageSide::After, &self.after)]
            {
                names.extend(
                    stages
                        .iter()
                        .map(|stage| approval_request(&run_name(run), side, stage_name(*stage))),
                );
            }
        }
        names
    }

    /// Everything a run may look at that never changes here; the rest is filled in.
    pub fn scenery(&self) -> Observed {
        let metadata = ObjectMeta {
            name: Some("web".to_owned()),
            uid: Some("uid-web".to_owned()),
            generation: Some(1),
            ..ObjectMeta::default()
        };
        let external = RolloutStrategy {
            r#type: Some(RolloutStrategyType::External),
            ..RolloutStrategy::default()
        };
        let spec = PlacementSpec { strategy: Some(external), ..PlacementSpec::default() };
        let scheduled = draft(SCHEDULED).is_true("SchedulingPolicyFulfilled");
        let policy = PolicySnapshot {
            name: "web-0".to_owned(),
            generation: 1,
            index: Some("0".to_owned()),
            status: SchedulingPolicySnapshotStatus {
                conditions: vec![scheduled.into_condition(Generation(1), moment(0))],
                ..SchedulingPolicySnapshotStatus::default()
            },
            ..PolicySnapshot::default()
        };
        let snapshots = (0..2).map(|index| ResourceSnapshot {
            name: format!("web-{index}-snapshot"),
            index: Some(index.to_string()),
            latest: index == 1,
            hash: Some(format!("hash-{index}")),
            count: Some("1".to_owned()),
            ..ResourceSnapshot::default()
        });
        let clusters = (0..self.stages * self.clusters).map(|at| {
            let stage = at / self.clusters;
            let labels = BTreeMap::from([("stage".to_owned(), stage_name(stage))]);
            let name = self.cluster(stage, at % self.clusters);
            Arc::new(Cluster { name, labels: labels.into(), ..Cluster::default() })
        });
        let known = Observed::of(self.run(0, moment(0)), moment(0));
        let options = Options { approvers_are_verified: !self.people.is_empty(), ..known.options };
        Observed {
            options,
            placement: Some(Placement::read(&metadata, &spec, &Default::default())),
            policy_snapshots: vec![Arc::new(policy)],
            clusters: clusters.collect(),
            strategy: Some(self.strategy()),
            resource_snapshots: snapshots.map(Arc::new).collect(),
            policy: policy::Seen { policies: self.policies.clone(), ..policy::Seen::default() },
            ..known
        }
    }

    fn strategy(&self) -> UpdateStrategySpec {
        let approval = || StageTask { r#type: StageTaskType::Approval, wait_time: None };
        let wait =
            || StageTask { r#type: StageTaskType::TimedWait, wait_time: Some("30s".to_owned()) };
        let stages = (0..self.stages).map(|stage| {
            let mut after = Vec::new();
            after.extend(self.after.contains(&stage).then(approval));
            after.extend(self.waits.contains(&stage).then(wait));
            let labels = BTreeMap::from([("stage".to_owned(), stage_name(stage))]);
            StageConfig {
                name: stage_name(stage),
                label_selector: Some(LabelSelector {
                    match_labels: Some(labels),
                    ..LabelSelector::default()
                }),
                max_concurrency: Some(IntOrString::Int(self.at_once)),
                before_stage_tasks: self
                    .before
                    .contains(&stage)
                    .then(approval)
                    .into_iter()
                    .collect(),
                after_stage_tasks: after,
                ..StageConfig::default()
            }
        });
        UpdateStrategySpec { stages: stages.collect() }
    }
}

/// What a run is called.
pub fn run_name(at: usize) -> String {
    format!("run{at}")
}

fn stage_name(at: usize) -> String {
    format!("s{at}")
}
