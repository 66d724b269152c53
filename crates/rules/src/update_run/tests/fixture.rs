//! A small hub in memory: it carries plans out write by write, may crash after any of
//! them, and holds every write against the laws.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::binding::{BindingState, ResourceBindingSpec};
use flagship_api::condition::{Condition, ConditionStatus, Conditions, Generation, draft};
use flagship_api::condition_type::binding as kind;
use flagship_api::names::{rollback_run, rolled_back_run};
use flagship_api::placement_status::ResourceIdentifier;
use flagship_api::raw_json::RawJson;
use flagship_api::rollout_record::{RecordEntry, RecordedRun, RolloutRecordSpec};
use flagship_api::snapshot::SchedulingPolicySnapshotStatus;
use flagship_api::staged_update::{UpdateRunState, UpdateStrategySpec};
use flagship_api::staged_update_status::UpdateRunStatus;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

use crate::model::{Binding, Cluster, PolicySnapshot, ResourceSnapshot};
use crate::placement::Placement;
use crate::placement::resource_snapshots::{Part, ResourceAction};
use crate::placement::selection::{Selected, Selection};
use crate::policy::Follower;
use crate::policy::quarantine::brought;
use crate::record::{Keep, chain};
use crate::update_run::lifecycle::succeeded_with;
use crate::update_run::{
    Action, Approval, ClusterOverride, DatesAhead, Observed, Options, OtherRun, Plan, Run,
    entries_beside, laws, plan,
};

/// As mirrors hand things out.
fn shared<T: Clone>(all: &[T]) -> Vec<Arc<T>> {
    all.iter().cloned().map(Arc::new).collect()
}

pub fn start() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

#[derive(Clone)]
pub struct Fixture {
    pub now: Timestamp,
    pub namespace: Option<String>,
    pub runs: Vec<Run>,
    pub placement: Option<Placement>,
    pub policy_snapshots: Vec<PolicySnapshot>,
    pub bindings: Vec<Binding>,
    pub clusters: Vec<Cluster>,
    pub strategy: Option<UpdateStrategySpec>,
    pub resource_snapshots: Vec<ResourceSnapshot>,
    pub selection: Selection,
    pub approvals: Vec<Approval>,
    pub cluster_overrides: Vec<ClusterOverride>,
    /// What the hub finds and cannot read.
    pub unreadable: Option<String>,
    /// What the hub has found dated later than its clock, by run.
    pub dates_ahead: BTreeMap<usize, DatesAhead>,
    pub version: u64,
    /// Writes so far.
    pub writes: usize,
    /// What they were, as far as two tellings of a story agree.
    pub log: Vec<String>,
    /// Whether a hub crashes, or another meddles, in this telling.
    pub crashed: bool,
    /// The hub crashes after so many more writes.
    pub crash_after: Option<usize>,
    /// Whether entries that go side by side with a write to the run are stored after it.
    pub entries_second: bool,
    /// Policies and freezes.
    pub policy: crate::policy::Seen,
    /// Records of runs, by their place.
    pub records: BTreeMap<usize, RolloutRecordSpec>,
    /// Of which runs records are kept.
    pub keep: Keep,
    /// A second hub that also leads.
    pub second: Option<Second>,
}

/// A hub that reads at one moment and writes at a later one.
#[derive(Clone)]
pub struct Second {
    /// It makes its plan after so many writes of the first ...
    pub reads_at: usize,
    /// ... and carries it out after so many.
    pub writes_at: usize,
    /// The plan.
    pub plan: Option<(usize, Plan, Observed)>,
}

/// Both scopes a run-level story is told in.
pub fn both_scopes(story: impl Fn(Fixture)) {
    for namespace in [None, Some("app")] {
        story(Fixture::new(namespace));
    }
}

pub fn strategy(stages: Value) -> UpdateStrategySpec {
    serde_json::from_value(json!({"stages": stages})).unwrap()
}

/// A selection of one config map with this name.
pub fn selected(name: &str) -> Selection {
    let id = ResourceIdentifier {
        version: "v1".into(),
        kind: "ConfigMap".into(),
        name: name.into(),
        namespace: "app".into(),
        ..ResourceIdentifier::default()
    };
    let text = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let manifest = RawJson::from_text(text.to_string()).unwrap();
    Selection { resources: vec![Selected { id, manifest }], ..Selection::default() }
}

impl Fixture {
    /// Three clusters: m2 is canary, m1 and m3 are prod (m3 first, by its order). Stages
    /// have no tasks.
    pub fn new(namespace: Option<&str>) -> Self {
        let metadata = ObjectMeta {
            name: Some("web".into()),
            namespace: namespace.map(Into::into),
            uid: Some("p".into()),
            generation: Some(1),
            ..ObjectMeta::default()
        };
        let spec = json!({"resourceSelectors": [], "strategy": {"type": "External"}});
        let spec = serde_json::from_value(spec).unwrap();
        let placement = Placement::read(&metadata, &spec, &Default::default());
        let mut fixture = Self {
            now: start(),
            namespace: namespace.map(Into::into),
            runs: vec![],
            placement: Some(placement),
            policy_snapshots: vec![],
            bindings: vec![],
            clusters: vec![],
            strategy: Some(strategy(json!([
                {"name": "canary", "labelSelector": {"matchLabels": {"env": "canary"}}},
                {"name": "prod", "labelSelector": {"matchLabels": {"env": "prod"}},
                 "sortingLabelKey": "order"},
            ]))),
            resource_snapshots: vec![],
            selection: selected("a"),
            approvals: vec![],
            cluster_overrides: vec![],
            unreadable: None,
            dates_ahead: BTreeMap::new(),
            version: 0,
            writes: 0,
            log: Vec::new(),
            crashed: false,
            crash_after: None,
            entries_second: false,
            policy: crate::policy::Seen::default(),
            records: BTreeMap::new(),
            keep: Keep::default(),
            second: None,
        };
        let scheduled = draft("Scheduled").is_true("SchedulingPolicyFulfilled");
        fixture.policy_snapshots.push(PolicySnapshot {
            name: "web-0".into(),
            generation: 1,
            index: Some("0".into()),
            status: SchedulingPolicySnapshotStatus {
                conditions: vec![scheduled.into_condition(Generation(1), start())],
                ..SchedulingPolicySnapshotStatus::default()
            },
            ..PolicySnapshot::default()
        });
        fixture.join("m1", &[("env", "prod"), ("order", "2")]);
        fixture.join("m2", &[("env", "canary"), ("order", "1")]);
        fixture.join("m3", &[("env", "prod"), ("order", "1")]);
        for index in 0..2 {
            fixture.resource_snapshots.push(ResourceSnapshot {
                name: format!("web-{index}-snapshot"),
                index: Some(index.to_string()),
                latest: index == 1,
                hash: Some(format!("h{index}")),
                count: Some("1".into()),
                ..ResourceSnapshot::default()
            });
        }
        fixture
    }

    /// A cluster with its binding.
    pub fn join(&mut self, name: &str, labels: &[(&str, &str)]) {
        let labels: BTreeMap<_, _> =
            labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let labels = labels.into();
        self.clusters.push(Cluster { name: name.into(), labels, ..Cluster::default() });
        self.bind(name);
    }

    pub fn bind(&mut self, cluster: &str) {
        let resource_version = self.bump();
        self.bindings.push(Binding {
            namespace: self.namespace.clone(),
            name: format!("web-{cluster}"),
            uid: format!("u-{cluster}-{resource_version}"),
            resource_version,
            generation: 1,
            placement: "web".into(),
            spec: ResourceBindingSpec {
                scheduling_policy_snapshot_name: "web-0".into(),
                target_cluster: cluster.into(),
                ..ResourceBindingSpec::default()
            },
            ..Binding::default()
        });
    }

    fn bump(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    /// A person creates a run; an empty index leaves it out.
    pub fn create(&mut self, name: &str, index: &str, state: UpdateRunState) -> usize {
        let spec = serde_json::from_value(json!({
            "placementName": "web",
            "resourceSnapshotIndex": index,
            "stagedRolloutStrategyName": "plan",
            "state": format!("{state:?}"),
        }));
        let metadata = ObjectMeta {
            name: Some(name.into()),
            namespace: self.namespace.clone(),
            uid: Some(format!("uid-{name}-{}", self.version)),
            generation: Some(1),
            resource_version: Some(self.bump()),
            creation_timestamp: Some(Time(self.now)),
            ..ObjectMeta::default()
        };
        self.runs.push(Run::read(&metadata, &spec.unwrap(), &UpdateRunStatus::default()));
        self.runs.len() - 1
    }

    pub fn set_state(&mut self, run: usize, state: UpdateRunState) {
        self.runs[run].spec.state = Some(state);
        self.runs[run].generation += 1;
        self.runs[run].resource_version = self.bump();
    }

    pub fn seen(&self, run: usize) -> Observed {
        let others = self.runs.iter().enumerate().filter(|(at, _)| *at != run);
        let rivals = others.map(|(_, other)| {
            let metadata = ObjectMeta {
                name: Some(other.name.clone()),
                uid: Some(other.uid.clone()),
                creation_timestamp: Some(Time(other.created)),
                ..ObjectMeta::default()
            };
            OtherRun::read(&metadata, &other.status)
        });
        let this = &self.runs[run];
        let named =
            |name: Option<String>| self.runs.iter().find(|r| Some(&r.name) == name.as_ref());
        let mut policy = self.policy.clone();
        let source = rolled_back_run(&this.name).filter(|_| this.rollback_of.is_some());
        policy.source = named(source.map(str::to_owned)).map(|found| Box::new(found.clone()));
        policy.follower = named(rollback_run(&this.name)).map(|found| {
            let (rollback_of, spec) = (found.rollback_of.clone(), found.spec.clone());
            Box::new(Follower { rollback_of, spec })
        });
        if this.is_initialized() {
            let index = &this.status.resource_snapshot_index_used;
            policy.brought = brought(&self.resource_snapshots, index);
        }
        policy.proven = succeeded_with(self.runs.iter().cloned());
        Observed {
            placement: self.placement.clone(),
            policy_snapshots: shared(&self.policy_snapshots),
            bindings: shared(&self.bindings),
            clusters: shared(&self.clusters),
            strategy: self.strategy.clone(),
            resource_snapshots: shared(&self.resource_snapshots),
            selection: Some(Ok(self.selection.clone())),
            cluster_overrides: self.cluster_overrides.clone(),
            approvals: self.approvals.clone(),
            rivals: rivals.collect(),
            unreadable: self.unreadable.clone(),
            dates_ahead: self.dates_ahead.get(&run).cloned().unwrap_or_default(),
            snapshot_gone: self.snapshot_gone(run),
            policy,
            record: Some(Arc::new(self.entries(run).to_vec())),
            options: Options { records: self.keep, ..Options::default() },
            ..Observed::of(self.runs[run].clone(), self.now)
        }
    }

    fn snapshot_gone(&self, run: usize) -> bool {
        let key = self.runs[run].snapshot_key();
        key.is_some_and(|key| !self.resource_snapshots.iter().any(|s| s.name == key.name))
    }

    /// The entries of a run's record.
    pub fn entries(&self, run: usize) -> &[RecordEntry] {
        self.records.get(&run).map_or(&[], |record| &record.entries)
    }

    /// One pass, carried out until the end or a crash.
    pub fn step(&mut self, run: usize) -> Plan {
        self.let_the_second_act(run);
        self.dates_ahead.entry(run).or_default().notice(&self.runs[run].status, self.now);
        let plan = plan(&self.seen(run));
        self.carry_out(run, &plan);
        plan
    }

    fn let_the_second_act(&mut self, run: usize) {
        let Some(mut second) = self.second.take() else { return };
        if second.plan.is_none() && self.writes >= second.reads_at {
            let read = self.seen(run);
            second.plan = Some((run, plan(&read), read));
        }
        if self.writes < second.writes_at || second.plan.is_none() {
            self.second = Some(second);
        } else if let Some((run, plan, read)) = second.plan {
            self.carry_out_late(run, &plan, &read);
        }
    }

    pub fn carry_out(&mut self, run: usize, plan: &Plan) {
        let read = self.seen(run);
        self.carry_out_late(run, plan, &read);
    }

    /// Carries a plan out that was made from what was read a while ago.
    pub fn carry_out_late(&mut self, run: usize, plan: &Plan, read: &Observed) {
        assert_eq!(laws::decided(read, plan), []);
        let mut version = read.run.resource_version.clone();
        let mut actions: Vec<&Action> = plan.actions.iter().collect();
        if let Some(at) = entries_beside(&plan.actions).filter(|_| self.entries_second) {
            actions.swap(at, at + 1);
        }
        for action in actions {
            let before = self.seen(run);
            // The record is written over the version that was read.
            if matches!(action, Action::Record(_)) && before.record != read.record {
                return;
            }
            let is_on_run = action.is_on_run();
            if is_on_run && version != before.run.resource_version {
                return;
            }
            if !self.write(run, action) {
                return;
            }
            if is_on_run || matches!(action, Action::AddFinalizer) {
                version.clone_from(&self.runs[run].resource_version);
            }
            assert_eq!(laws::write(&before, action), [], "{action:?}");
            self.writes += 1;
            self.log.push(serde_json::to_string(action).unwrap());
            let after = self.seen(run);
            assert_eq!(laws::step(read, &before, &after), []);
            assert_eq!(laws::state(&after), []);
            if let Some(left) = &mut self.crash_after {
                *left -= 1;
                if *left == 0 {
                    self.crash_after = None;
                    return;
                }
            }
        }
    }

    /// Does one write; false is a conflict.
    pub fn write(&mut self, run: usize, action: &Action) -> bool {
        let (now, version) = (self.now, self.bump());
        match action {
            Action::AddFinalizer => {
                self.runs[run].has_finalizer = true;
                self.runs[run].resource_version = version;
            }
            Action::RemoveFinalizer => {
                self.runs[run].has_finalizer = false;
                self.runs[run].resource_version = version;
            }
            Action::Status(status) => {
                self.runs[run].status = (**status).clone();
                self.runs[run].resource_version = version;
            }
            Action::Record(recording) => {
                let identity =
                    RecordedRun { name: "r".to_owned(), uid: self.runs[run].uid.clone() };
                let head = recording.head.clone().unwrap_or_default();
                let record =
                    self.records.entry(run).or_insert_with(|| chain::begun(identity, None, head));
                let drafts = recording.drafts.iter().map(|draft| (draft.clone(), None)).collect();
                let more = chain::sealed(record, record.entries.last(), drafts, now);
                record.entries.extend(more);
            }
            Action::Adopt(adopted) => {
                self.runs[run].adopted = Some(adopted.clone());
                self.runs[run].resource_version = version;
            }
            Action::AnnounceWrites(announced) => {
                self.runs[run].announced = announced.clone();
                self.runs[run].resource_version = version;
            }
            Action::Resources(action) => return self.snapshot(action),
            Action::Quarantine(note) => {
                let index = self.runs[run].status.resource_snapshot_index_used.clone();
                let mut all = self.resource_snapshots.iter_mut();
                let found = all.find(|snapshot| snapshot.index.as_ref() == Some(&index));
                found.unwrap().quarantine = Some(note.clone());
            }
            Action::CreateRollback(create) => {
                if self.runs.iter().any(|found| found.name == create.name) {
                    return false;
                }
                let metadata = ObjectMeta {
                    uid: Some(format!("uid-{}", create.name)),
                    generation: Some(1),
                    resource_version: Some(version),
                    creation_timestamp: Some(Time(now)),
                    ..create.metadata(&self.runs[run])
                };
                let made = Run::read(&metadata, &create.spec, &UpdateRunStatus::default());
                self.runs.push(made);
            }
            Action::CreateApprovalRequest(ask) => {
                if self.approvals.iter().any(|request| request.name == ask.name) {
                    return false;
                }
                let metadata = ObjectMeta {
                    uid: Some(format!("a-{version}")),
                    generation: Some(1),
                    creation_timestamp: Some(Time(now)),
                    resource_version: Some(version),
                    ..ask.metadata(&self.runs[run])
                };
                let spec = ask.spec(&self.runs[run]);
                self.approvals.push(Approval::read(&metadata, &spec, None));
            }
            Action::AcceptApproval(accept) => {
                let request = self.approvals.iter_mut().find(|a| a.name == accept.request);
                let Some(request) = request else { return false };
                if (&request.uid, &request.resource_version)
                    != (&accept.uid, &accept.resource_version)
                {
                    return false;
                }
                accept.answer(&mut request.conditions, now);
                request.resource_version = version;
            }
            Action::DeleteForeignRequest(dismiss) => {
                let found = self.approvals.iter().position(|a| a.name == dismiss.request);
                let Some(at) = found else { return false };
                let request = &self.approvals[at];
                if (&request.uid, &request.resource_version)
                    != (&dismiss.uid, &dismiss.resource_version)
                {
                    return false;
                }
                self.approvals.remove(at);
            }
            Action::UpdateBinding(deliver) => {
                let found = self.bindings.iter_mut().find(|b| b.name == deliver.binding);
                let Some(binding) = found else { return false };
                if (&binding.uid, &binding.resource_version)
                    != (&deliver.uid, &deliver.resource_version)
                {
                    return false;
                }
                binding.spec = deliver.spec.clone();
                binding.fence = Some(deliver.fence.clone());
                binding.generation += 1;
                binding.resource_version = format!("{}+", deliver.resource_version);
            }
            Action::SignalStart(signal) => {
                let found = self.bindings.iter_mut().find(|b| b.name == signal.binding);
                let Some(binding) = found else { return false };
                let read = &signal.resource_version;
                if ![read.clone(), format!("{read}+")].contains(&binding.resource_version) {
                    return false;
                }
                let generation = binding.generation;
                signal.give(&mut binding.status.conditions, generation, now);
                binding.resource_version = version;
            }
            Action::DeleteBinding(withdraw) => {
                let found = self.bindings.iter_mut().find(|b| b.name == withdraw.binding);
                let Some(binding) = found else { return false };
                if (&binding.uid, &binding.resource_version)
                    != (&withdraw.uid, &withdraw.resource_version)
                {
                    return false;
                }
                binding.deleting = true;
                binding.generation += 1;
                binding.resource_version = version;
            }
            Action::DeleteApprovalRequests => {
                let name = self.runs[run].name.clone();
                self.approvals.retain(|a| a.labelled.as_ref() != Some(&name));
            }
        }
        true
    }

    fn snapshot(&mut self, action: &ResourceAction) -> bool {
        match action {
            ResourceAction::Create(new) => {
                let Part::Master { hash, count, .. } = &new.part else { panic!("one is enough") };
                if self.resource_snapshots.iter().any(|s| s.name == new.name) {
                    return false;
                }
                self.resource_snapshots.push(ResourceSnapshot {
                    name: new.name.clone(),
                    index: Some(new.index.clone()),
                    latest: true,
                    hash: Some(hash.clone()),
                    count: Some(count.to_string()),
                    ..ResourceSnapshot::default()
                });
            }
            ResourceAction::Mark { name, latest } => {
                let found = self.resource_snapshots.iter_mut().find(|s| s.name == *name);
                found.unwrap().latest = *latest;
            }
            ResourceAction::Stamp { .. } => panic!("runs do not wait"),
            ResourceAction::Delete { name } => self.resource_snapshots.retain(|s| s.name != *name),
        }
        true
    }

    pub fn binding_named(&mut self, name: &str) -> &mut Binding {
        self.bindings.iter_mut().find(|binding| binding.name == name).unwrap()
    }

    pub fn binding(&mut self, cluster: &str) -> &mut Binding {
        self.binding_named(&format!("web-{cluster}"))
    }

    /// Somebody edits a binding's spec.
    pub fn edit(&mut self, cluster: &str, edit: impl FnOnce(&mut ResourceBindingSpec)) {
        let version = self.bump();
        let binding = self.binding(cluster);
        edit(&mut binding.spec);
        binding.generation += 1;
        binding.resource_version = version;
    }

    /// Passes until nothing is left to do at this moment, then checks that it is so.
    pub fn settle(&mut self, run: usize) -> Plan {
        for _ in 0..50 {
            let plan = self.step(run);
            if laws::quiet(&plan) {
                if plan.trouble.is_none() {
                    assert_eq!(laws::rest(&self.seen(run)), [], "{}", self.told(run));
                }
                return plan;
            }
        }
        panic!("does not come to rest: {}", self.told(run));
    }

    pub fn later(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// Members report on everything that was delivered to them.
    pub fn report(&mut self, kind_: &'static str, truth: ConditionStatus) {
        let now = self.now;
        let version = self.bump();
        for binding in &mut self.bindings {
            let at = Generation(binding.generation);
            if binding.spec.state == BindingState::Bound
                && binding.status.conditions.is_true_at(kind::ROLLOUT_STARTED, at)
            {
                draft(kind_).is(truth, "Reported").set(&mut binding.status.conditions, at, now);
                binding.resource_version.clone_from(&version);
            }
        }
    }

    /// Everything delivered works.
    pub fn available(&mut self) {
        self.report(kind::AVAILABLE, ConditionStatus::True);
    }

    /// Somebody approves every request, for this generation.
    pub fn approve_at(&mut self, generation: i64) {
        let (now, version) = (self.now, self.bump());
        for request in &mut self.approvals {
            let draft = draft("Approved").is_true("lgtm");
            draft.set(&mut request.conditions, Generation(generation), now);
            request.resource_version.clone_from(&version);
        }
    }

    pub fn approve(&mut self) {
        self.approve_at(1);
    }

    /// Deletions the members and the scheduler are done with.
    pub fn vanish(&mut self) {
        self.bindings.retain(|binding| !binding.deleting);
    }

    /// Lets time pass and everybody do what is asked, until the run has ended.
    pub fn run_to_the_end(&mut self, run: usize) {
        for _ in 0..100 {
            let plan = self.settle(run);
            if plan.waiting.is_empty() && plan.trouble.is_none() {
                return;
            }
            self.later(5);
            self.approve();
            self.available();
            self.vanish();
        }
        panic!("does not end: {}", self.told(run));
    }

    pub fn status(&self, run: usize) -> &UpdateRunStatus {
        &self.runs[run].status
    }

    /// Where the run stands, without times.
    pub fn told(&self, run: usize) -> String {
        laws::ending(self.status(run))
    }

    /// A run condition: `status reason: message`.
    pub fn said(&self, run: usize, kind: &str) -> String {
        said(&self.status(run).conditions, kind)
    }

    /// What a binding holds.
    pub fn snapshots(&self) -> Vec<&str> {
        self.bindings.iter().map(|b| b.spec.resource_snapshot_name.as_str()).collect()
    }

    /// The placement as a string in messages.
    pub fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace.as_deref().unwrap_or_default())
    }
}

pub fn said(conditions: &[Condition], kind: &str) -> String {
    let line = |c: &Condition| format!("{} {}: {}", c.status, c.reason, c.message);
    conditions.of_type(kind).map(line).unwrap_or_default()
}
