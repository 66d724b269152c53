//! A small fixture for stories of one binding: what it names, the Works it has, a member
//! that says things, and a generator that carries its own plans out.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::binding::{BindingState, ResourceBindingSpec};
use flagship_api::condition::{Condition, ConditionStatus, Generation, draft};
use flagship_api::keys::finalizer;
use flagship_api::keys::{annotation, label, own};
use flagship_api::names::{SnapshotIndex, master_snapshot, sub_snapshot};
use flagship_api::raw_json::RawJson;
use flagship_api::work::{Work as Object, WorkloadTemplate};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

use crate::event::Event;
use crate::model::{Binding, Cluster, ResourceSnapshot};
use crate::placement::identifier;
use crate::work::{
    ABANDON, Action, Content, Observed, Placement, Plan, Reads, SnapshotContent, Stamp, Work,
    Write, plan, relevant,
};

pub struct Fixture {
    pub seen: Observed,
    /// What can be read when asked for.
    pub held: Content,
    /// The Works as the server has them.
    pub objects: BTreeMap<String, Object>,
    pub events: Vec<Event>,
    /// Every write to a Work, as `verb name`.
    pub writes: Vec<String>,
    /// How often the status was written.
    pub told: usize,
}

pub fn now() -> Timestamp {
    "2026-01-12T22:44:08Z".parse().unwrap()
}

pub fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "app"}, "data": {"key": value}})
}

pub fn raw(value: &Value) -> RawJson {
    RawJson::of(value).unwrap()
}

impl Fixture {
    /// A binding of ClusterResourcePlacement `web` on cluster `m1`.
    pub fn cluster_wide() -> Self {
        Self::new(None)
    }

    /// A binding of ResourcePlacement `app/web` on cluster `m1`.
    pub fn in_namespace() -> Self {
        Self::new(Some("app"))
    }

    fn new(namespace: Option<&str>) -> Self {
        let binding = Binding {
            namespace: namespace.map(str::to_owned),
            name: "web-m1".into(),
            placement: "web".into(),
            generation: 1,
            finalizers: [finalizer::WORK.to_owned()].into(),
            spec: ResourceBindingSpec {
                target_cluster: "m1".into(),
                ..ResourceBindingSpec::default()
            },
            ..Binding::default()
        };
        let labels = BTreeMap::from([("env".to_owned(), "prod".to_owned())]);
        let seen = Observed {
            override_hashes: Some(Vec::new()),
            now: now(),
            binding: Arc::new(binding),
            cluster: Some(Arc::new(Cluster {
                name: "m1".into(),
                labels: labels.into(),
                ..Cluster::default()
            })),
            works: vec![],
            snapshots: vec![],
            placement: Some(Placement::default()),
            content: None,
            answer_due: None,
        };
        let (held, objects) = (Content::default(), BTreeMap::new());
        Self { seen, held, objects, events: vec![], writes: vec![], told: 0 }
    }

    /// The binding, to be changed.
    pub fn binding(&mut self) -> &mut Binding {
        Arc::make_mut(&mut self.seen.binding)
    }

    /// The cluster, to be changed.
    pub fn cluster(&mut self) -> &mut Cluster {
        Arc::make_mut(self.seen.cluster.as_mut().unwrap())
    }

    /// A snapshot, to be changed.
    pub fn snapshot_at(&mut self, at: usize) -> &mut ResourceSnapshot {
        Arc::make_mut(&mut self.seen.snapshots[at])
    }

    /// Whether the binding carries our finalizer.
    pub fn has_finalizer(&self) -> bool {
        self.seen.binding.has_finalizer(finalizer::WORK)
    }

    /// The same, bound to a first version with these objects, and all Works written.
    pub fn delivered(mut self, groups: &[&[Value]]) -> Self {
        self.snapshot(0, groups);
        self.bind(0);
        self.pass();
        self
    }

    /// A snapshot group: one list of manifests per object, the master first.
    pub fn snapshot(&mut self, index: u32, groups: &[&[Value]]) {
        let number = SnapshotIndex::from(index);
        for (at, manifests) in groups.iter().enumerate() {
            let sub = u32::try_from(at).unwrap().checked_sub(1);
            let name = match sub {
                None => master_snapshot("web", number),
                Some(sub) => sub_snapshot("web", number, sub),
            };
            let resources: Vec<RawJson> = manifests.iter().map(raw).collect();
            self.seen.snapshots.push(Arc::new(ResourceSnapshot {
                name: name.clone(),
                index: Some(index.to_string()),
                hash: sub.is_none().then(|| "h".to_owned()),
                count: sub.is_none().then(|| groups.len().to_string()),
                subindex: sub.map(|sub| sub.to_string()),
                resources: resources.iter().map(identifier).collect(),
                ..ResourceSnapshot::default()
            }));
            let content = SnapshotContent { placement: Some("web".into()), resources };
            self.held.snapshots.insert(name, content);
        }
    }

    /// Forgets a snapshot everywhere.
    pub fn lose(&mut self, name: &str) {
        self.seen.snapshots.retain(|snapshot| snapshot.name != name);
        self.held.snapshots.remove(name);
    }

    /// What the rollout does: a new spec, and the start signal for it.
    pub fn bind(&mut self, index: u32) {
        self.binding().spec.state = BindingState::Bound;
        self.binding().spec.resource_snapshot_name =
            master_snapshot("web", SnapshotIndex::from(index));
        self.changed();
    }

    /// The spec of the binding was changed, and the rollout said go.
    pub fn changed(&mut self) {
        self.binding().generation += 1;
        self.starts();
    }

    pub fn starts(&mut self) {
        let generation = self.seen.binding.generation();
        let conditions = &mut self.binding().status.conditions;
        draft("RolloutStarted").is_true("RolloutStarted").set(conditions, generation, now());
    }

    /// One pass, carried out, and the next one if the member does not answer in time.
    pub fn pass(&mut self) -> Plan {
        let mut next = self.quick_pass();
        if next.answer_due.take().is_some() {
            self.seen.answer_due = Some(SignedDuration::ZERO);
            let late = self.quick_pass();
            self.seen.answer_due = None;
            next.actions.extend(late.actions);
            next.wake = late.wake;
        }
        next
    }

    /// One pass, carried out.
    pub fn quick_pass(&mut self) -> Plan {
        self.look();
        let mut next = plan(&self.seen);
        if let Some(reads) = next.reads.take() {
            assert!(next.actions.is_empty(), "nothing is written before it is known");
            self.seen.content = Some(self.read(&reads));
            next = plan(&self.seen);
            assert_eq!(next.reads, None, "one look must be enough");
            self.seen.content = None;
        }
        for action in &next.actions {
            match action.clone() {
                Action::AddFinalizer => {
                    self.binding().finalizers = [finalizer::WORK.to_owned()].into();
                }
                Action::RemoveFinalizer => self.binding().finalizers = [].into(),
                Action::Status(status) => {
                    self.binding().status = *status;
                    self.told += 1;
                }
                Action::Work(write) => self.write(write),
            }
        }
        self.events.extend(next.events.clone());
        self.look();
        next
    }

    /// Lets time go by.
    pub fn wait(&mut self, seconds: i64) {
        self.seen.now += SignedDuration::from_secs(seconds);
    }

    fn look(&mut self) {
        // As a shell would hand them over; a story may add more at any time.
        let named = self.seen.binding.spec.resource_snapshot_name.clone();
        let kept = relevant(&named, self.seen.snapshots.clone());
        let in_group = |one: &ResourceSnapshot| kept.iter().any(|it| it.name == one.name);
        self.seen.snapshots.retain(|one| !in_group(one));
        self.seen.snapshots.extend(kept);
        self.seen.works = self.objects.values().map(Work::read).collect();
    }

    fn read(&self, reads: &Reads) -> Content {
        let mut content = self.held.clone();
        content.snapshots.retain(|name, _| reads.snapshots.contains(name));
        content.cluster_overrides.retain(|one| reads.cluster_overrides.contains(&one.name));
        content.overrides.retain(|one| reads.overrides.contains(&one.key));
        content
    }

    fn write(&mut self, write: Write) {
        let verb = match &write {
            Write::Create(_) => "create",
            Write::Update { .. } => "update",
            Write::Note { .. } => "note",
            Write::Steer { .. } => "steer",
            Write::Abandon { .. } => "abandon",
            Write::Delete { .. } => "delete",
        };
        let name = write.name().to_owned();
        self.writes.push(format!("{verb} {name}"));
        if let Write::Create(new) = write {
            let mut object = new.object();
            assert_eq!(object.metadata.namespace.as_deref(), Some("fleet-member-m1"));
            object.metadata.generation = Some(1);
            assert!(self.objects.insert(name, object).is_none(), "the name is free");
            return;
        }
        let object = self.objects.get_mut(&name).expect("a plan speaks of Works it saw");
        let before = object.spec.clone();
        match write {
            Write::Update { stamp, manifests, strategies, to_abandon, .. } => {
                stamp_on(&mut object.metadata, &stamp, to_abandon);
                object.spec.workload = WorkloadTemplate { manifests };
                object.spec.apply_strategy = strategies.apply_strategy;
                object.spec.report_back_strategy = strategies.report_back_strategy;
            }
            Write::Note { stamp, to_abandon, .. } => {
                stamp_on(&mut object.metadata, &stamp, to_abandon);
            }
            Write::Steer { strategies, to_abandon, .. } => {
                let stamp = Work::read(object).stamp;
                stamp_on(&mut object.metadata, &stamp, to_abandon);
                object.spec.apply_strategy = strategies.apply_strategy;
                object.spec.report_back_strategy = strategies.report_back_strategy;
            }
            Write::Abandon { .. } => {
                let notes = object.metadata.annotations.get_or_insert_default();
                notes.insert(own::ABANDONED.to_owned(), "true".to_owned());
            }
            Write::Delete { .. } => {
                if object.metadata.finalizers.is_none() {
                    self.objects.remove(&name);
                    return;
                }
                object.metadata.deletion_timestamp = Some(Time(now()));
            }
            Write::Create(_) => unreachable!("handled above"),
        }
        if object.spec != before {
            object.metadata.generation = object.metadata.generation.map(|old| old + 1);
        }
    }

    /// The member keeps its Works until it has cleaned up.
    pub fn hold(&mut self) {
        for object in self.objects.values_mut() {
            object.metadata.finalizers = Some(vec!["kubernetes-fleet.io/work-cleanup".into()]);
        }
    }

    /// The member says something about the present content of a Work.
    pub fn says(
        &mut self,
        work: &str,
        kind: &'static str,
        truth: ConditionStatus,
        reason: &'static str,
    ) {
        let generation = self.objects[work].metadata.generation.unwrap();
        self.says_of(work, kind, truth, reason, generation);
    }

    /// The member says something about some generation of a Work.
    pub fn says_of(
        &mut self,
        work: &str,
        kind: &'static str,
        truth: ConditionStatus,
        reason: &'static str,
        generation: i64,
    ) {
        let object = self.objects.get_mut(work).unwrap();
        let conditions = &mut object.status.get_or_insert_default().conditions;
        conditions.retain(|condition| condition.type_ != kind);
        let said = draft(kind).is(truth, reason);
        conditions.push(said.into_condition(Generation(generation), now()));
    }

    /// All is well with every Work.
    pub fn all_fine(&mut self) {
        for name in self.objects.keys().cloned().collect::<Vec<_>>() {
            self.says(&name, "Applied", ConditionStatus::True, "AllManifestsApplied");
            self.says(&name, "Available", ConditionStatus::True, "AllManifestsAvailable");
        }
    }

    /// What became of one manifest of a Work.
    pub fn manifest(&mut self, work: &str, told: Value) {
        let status = self.objects.get_mut(work).unwrap().status.get_or_insert_default();
        status.manifest_conditions.push(serde_json::from_value(told).unwrap());
    }

    /// `type status reason: message`, without what others say.
    pub fn conditions(&self) -> Vec<String> {
        let all = self.seen.binding.status.conditions.iter();
        let ours = all.filter(|condition| condition.type_ != "RolloutStarted");
        let line = |c: &Condition| format!("{} {} {}: {}", c.type_, c.status, c.reason, c.message);
        ours.map(line).collect()
    }

    /// The last of them.
    pub fn last(&self) -> String {
        self.conditions().pop().unwrap_or_default()
    }

    /// `name (index, generation): manifests`.
    pub fn works(&self) -> Vec<String> {
        let line = |(name, object): (&String, &Object)| {
            let labels = object.metadata.labels.clone().unwrap_or_default();
            let index = labels.get(label::PARENT_RESOURCE_SNAPSHOT_INDEX);
            let names = object.spec.workload.manifests.iter().map(|one| identifier(one).name);
            let generation = object.metadata.generation.unwrap_or_default();
            let index = index.map_or("", String::as_str);
            format!("{name} ({index}, {generation}): {}", names.collect::<Vec<_>>().join(", "))
        };
        self.objects.iter().map(line).collect()
    }

    /// Changes the metadata of a Work behind the generator's back.
    pub fn tamper(&mut self, work: &str, change: impl FnOnce(&mut ObjectMeta)) {
        change(&mut self.objects.get_mut(work).unwrap().metadata);
    }
}

/// As the shell patches it: what the stamp lacks is left alone, our own keys go.
fn stamp_on(meta: &mut ObjectMeta, stamp: &Stamp, to_abandon: bool) {
    meta.labels.get_or_insert_default().extend(stamp.labels());
    let notes = meta.annotations.get_or_insert_default();
    for key in [own::RENDERED_INPUTS_HASH, own::MANIFESTS_HASH, own::DELETE_POLICY] {
        notes.remove(key);
    }
    notes.extend(stamp.annotations());
    if to_abandon {
        notes.insert(own::DELETE_POLICY.to_owned(), ABANDON.to_owned());
    }
    assert!(notes.contains_key(annotation::PARENT_RESOURCE_SNAPSHOT_NAME));
}
