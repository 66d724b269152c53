//! What the page knows of the hub: everything a person is told about, watched with the
//! caller's own credentials.
//!
//! What the caller may not read stays empty, and [`Mirror::gaps`] says so. Heartbeats are
//! kept and wake nobody: each cluster sends one every few seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flagship_api::approval::{
    ApprovalRequest, ApprovalRequestSpec, ApprovalRequestStatus, ClusterApprovalRequest,
};
use flagship_api::approval_decision::{Approval as ApprovalWord, ClusterApproval};
use flagship_api::binding::{ClusterResourceBinding, ResourceBinding};
use flagship_api::cluster::{InternalMemberCluster, MemberCluster};
use flagship_api::condition::Generation;
use flagship_api::keys::{label, own};
use flagship_api::names::{HUB_LEASE, ObjectKey, SYSTEM_NAMESPACE, cluster_of_namespace};
use flagship_api::placement::{ClusterResourcePlacement, ResourcePlacement};
use flagship_api::staged_update::{
    ClusterStagedUpdateRun, ClusterStagedUpdateStrategy, StagedUpdateRun, StagedUpdateStrategy,
    UpdateStrategySpec,
};
use flagship_api::work::Work;
use flagship_explain::why::{
    ApprovalFacts, BindingFacts, ClusterFacts, Facts, PlacementFacts, RunFacts, Subject,
    last_heartbeat,
};
use flagship_rules::diagnosis::report::{self, Reported};
use flagship_rules::heartbeat::last_heard;
use flagship_rules::policy::Adopted;
use flagship_rules::policy::approvals::Word;
use flagship_rules::update_run::lifecycle::{has_ended, proven};
use flagship_rules::update_run::{self, Age, OtherRun};
use flagship_runtime::client::{Client, Objects, ResourceType, Selection};
use flagship_runtime::env::Env;
use flagship_runtime::reflector::{Change, Reflector, Store, Subscription};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::PartialObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A run and its metadata.
#[derive(Clone, Debug)]
pub struct Run {
    /// Name, labels, who wrote it.
    pub metadata: ObjectMeta,
    /// What is asked for, and how far it has come.
    pub facts: RunFacts,
    /// As other runs see it.
    pub rival: OtherRun,
}

/// An approval request.
#[derive(Clone, Debug)]
pub struct Approval {
    /// The run it belongs to.
    pub run: String,
    /// The stage it is about.
    pub stage: String,
    /// Who has said what.
    pub facts: ApprovalFacts,
    /// As the rules see it.
    pub value: update_run::Approval,
    /// When it was made, and by which client it was changed last.
    pub metadata: ObjectMeta,
}

/// What the agent of a member says about objects of one Work that are not available.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failing {
    placement: String,
    objects: Vec<Reported>,
}

/// Objects of both scopes.
pub struct Both<V> {
    wide: Store<V>,
    narrow: Store<V>,
}

impl<V> Both<V> {
    fn of(&self, key: &ObjectKey) -> &Store<V> {
        if key.namespace.is_some() { &self.narrow } else { &self.wide }
    }

    /// The object of that key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<V>> {
        self.of(key).get(key)
    }

    /// Whether those beside an object were read, or none are served.
    pub fn are_read(&self, key: &ObjectKey) -> bool {
        self.of(key).is_synced()
    }

    /// All of them, cluster-wide ones first.
    pub fn all(&self) -> Vec<(Arc<ObjectKey>, Arc<V>)> {
        let mut all = self.wide.all();
        all.extend(self.narrow.all());
        all
    }

    /// Those beside an object: cluster-wide ones, or those of its namespace.
    pub fn beside(&self, key: &ObjectKey) -> Vec<(Arc<ObjectKey>, Arc<V>)> {
        match &key.namespace {
            Some(namespace) => self.narrow.in_namespace(namespace),
            None => self.wide.all(),
        }
    }
}

/// The hub, as far as the caller may see it.
pub struct Mirror {
    /// Update runs.
    pub runs: Both<Run>,
    /// Approval requests.
    pub approvals: Both<Approval>,
    /// What people said to them, where policies ask for approvals.
    pub words: Both<Word>,
    /// Update strategies.
    pub strategies: Both<UpdateStrategySpec>,
    /// Placements.
    pub placements: Both<PlacementFacts>,
    /// Bindings.
    pub bindings: Both<BindingFacts>,
    /// Members.
    pub members: Store<ClusterFacts>,
    reports: Store<Timestamp>,
    failing: Store<Failing>,
    lease: Store<Timestamp>,
    gaps: Vec<Box<Probe>>,
    changed: watch::Sender<u64>,
    _subscriptions: Vec<Subscription>,
    _tasks: JoinSet<()>,
}

/// A resource that is not read, or was read and is no longer followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// Which.
    pub resource: String,
    /// The server's words; empty while the first answer is waited for.
    pub why: String,
    /// Whether older objects of it are shown.
    pub stale: bool,
}

/// Says what is amiss with one mirror.
type Probe = dyn Fn() -> Option<Gap> + Send + Sync;

impl Mirror {
    /// Begins to watch.
    pub fn start(client: &Client, env: &Env) -> Self {
        let mut set = Set {
            client,
            env,
            quiet: false,
            changed: watch::Sender::new(0),
            gaps: Vec::new(),
            subscriptions: Vec::new(),
            tasks: JoinSet::new(),
        };
        let runs = Both {
            wide: set.add(|o: ClusterStagedUpdateRun| {
                Some(Run::of(o.metadata, o.spec, o.status.unwrap_or_default()))
            }),
            narrow: set.add(|o: StagedUpdateRun| {
                Some(Run::of(o.metadata, o.spec, o.status.unwrap_or_default()))
            }),
        };
        let approvals = Both {
            wide: set.add(|o: ClusterApprovalRequest| {
                Some(Approval::of(o.metadata, o.spec, o.status.unwrap_or_default()))
            }),
            narrow: set.add(|o: ApprovalRequest| {
                Some(Approval::of(o.metadata, o.spec, o.status.unwrap_or_default()))
            }),
        };
        let strategies = Both {
            wide: set.add(|o: ClusterStagedUpdateStrategy| Some(o.spec)),
            narrow: set.add(|o: StagedUpdateStrategy| Some(o.spec)),
        };
        let placed = |metadata: &ObjectMeta, spec, status| PlacementFacts {
            generation: Generation::of(metadata),
            created: created(metadata),
            spec,
            status,
        };
        let placements = Both {
            wide: set.add(move |o: ClusterResourcePlacement| {
                Some(placed(&o.metadata, o.spec, o.status.unwrap_or_default()))
            }),
            narrow: set.add(move |o: ResourcePlacement| {
                Some(placed(&o.metadata, o.spec, o.status.unwrap_or_default()))
            }),
        };
        let bound = |metadata: &ObjectMeta, spec, status| BindingFacts {
            key: key_of(metadata),
            placement: label_of(metadata, label::PARENT_PLACEMENT).to_owned(),
            generation: Generation::of(metadata),
            spec,
            status,
        };
        let bindings = Both {
            wide: set.add(move |o: ClusterResourceBinding| {
                Some(bound(&o.metadata, o.spec, o.status.unwrap_or_default()))
            }),
            narrow: set.add(move |o: ResourceBinding| {
                Some(bound(&o.metadata, o.spec, o.status.unwrap_or_default()))
            }),
        };
        let members = set.add_telling(Selection::all(), member, is_news);
        set.quiet = true;
        let words = Both {
            wide: set.add(|o: ClusterApproval| Some(Word::read(&o.metadata, &o.spec))),
            narrow: set.add(|o: ApprovalWord| Some(Word::read(&o.metadata, &o.spec))),
        };
        let reports = set.add_telling(
            Selection::all(),
            |o: InternalMemberCluster| last_heard(&o.status.unwrap_or_default()),
            |_| false,
        );
        let works = set.client.of_type(ResourceType::of::<Work>()).metadata_only();
        let failing =
            set.follow(works, Selection::all(), failing, |change| change.old != change.new);
        let of_hub = Selection::namespace(SYSTEM_NAMESPACE)
            .with_fields(format!("metadata.name={HUB_LEASE}"));
        let lease = set.add_telling(
            of_hub,
            |o: Lease| o.spec?.renew_time.map(|time| time.0),
            |change| change.old.is_none() != change.new.is_none(),
        );
        let Set { changed, gaps, subscriptions: _subscriptions, tasks: _tasks, .. } = set;
        Self {
            runs,
            approvals,
            words,
            strategies,
            placements,
            bindings,
            members,
            reports,
            failing,
            lease,
            gaps,
            changed,
            _subscriptions,
            _tasks,
        }
    }

    /// Tells of every change that is worth another look.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Has every view look again.
    pub fn touch(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// What cannot be read, or not any more.
    pub fn gaps(&self) -> Vec<Gap> {
        self.gaps.iter().filter_map(|gap| gap()).collect()
    }

    /// Whether everything that can be read has been read once.
    pub fn is_filled(&self) -> bool {
        self.gaps().iter().all(|gap| gap.stale || !gap.why.is_empty())
    }

    /// What is known of every member.
    pub fn clusters(&self) -> BTreeMap<String, ClusterFacts> {
        let reports: BTreeMap<String, Timestamp> =
            self.reports.all().into_iter().map(|(key, at)| (key.name.clone(), *at)).collect();
        let members = self.members.all().into_iter();
        members
            .map(|(key, member)| {
                let reported = reports.get(&key.name).copied();
                (key.name.clone(), ClusterFacts { reported, ..(*member).clone() })
            })
            .collect()
    }

    /// The question, and what every answer needs.
    fn asked(&self, subject: Subject, now: Timestamp) -> Facts {
        let mut facts = Facts::new(subject, now);
        facts.clusters = self.clusters();
        facts.hub_renewed = self.lease.all().first().map(|(_, at)| **at);
        facts
    }

    /// What `why` reads about a run.
    pub fn about_run(&self, key: &ObjectKey, now: Timestamp) -> Facts {
        let mut facts = self.asked(Subject::Run(key.clone()), now);
        let Some(run) = self.runs.get(key) else { return facts };
        facts.run = Some(run.facts.clone());
        facts.approvals = self.approvals_of(key);
        let placement = ObjectKey::new(key.namespace.as_deref(), &run.facts.spec.placement_name);
        facts.placement = self.placements.get(&placement).map(|found| (*found).clone());
        facts.bindings = self.bindings_of(&placement);
        facts.reports = self.reported_causes(|_, work| work.placement == placement.name);
        for (name, other) in self.runs_of(&placement) {
            if let Some(version) = proven(&other.facts.status) {
                facts.proven.push(version.to_owned());
            }
            if name == key.name {
                continue;
            }
            if !has_ended(&other.facts.status) {
                facts.rivals.push(name);
            }
            facts.others.push(other.rival.clone());
        }
        facts
    }

    /// What `why` reads about a member; about all of them, if the name is empty.
    pub fn about_cluster(&self, name: &str, now: Timestamp) -> Facts {
        let mut facts = self.asked(Subject::Cluster(name.to_owned()), now);
        let all = self.bindings.all().into_iter();
        let there = all.filter(|(_, bound)| name.is_empty() || bound.spec.target_cluster == name);
        facts.bindings = there.map(|(_, bound)| (*bound).clone()).collect();
        facts.reports = self.reported_causes(|cluster, _| name.is_empty() || cluster == name);
        facts
    }

    /// What agents say about objects that are not available, by cluster.
    fn reported_causes(
        &self,
        wanted: impl Fn(&str, &Failing) -> bool,
    ) -> BTreeMap<String, Vec<Reported>> {
        let mut reports: BTreeMap<String, Vec<Reported>> = BTreeMap::new();
        for (key, work) in self.failing.all() {
            let cluster = key.namespace.as_deref().and_then(cluster_of_namespace);
            if let Some(cluster) = cluster.filter(|cluster| wanted(cluster, &work)) {
                reports.entry(cluster.to_owned()).or_default().extend(work.objects.iter().cloned());
            }
        }
        reports
    }

    /// Runs of a placement, oldest first.
    pub fn runs_of(&self, placement: &ObjectKey) -> Vec<(String, Arc<Run>)> {
        let mut runs = self.runs.beside(placement);
        runs.retain(|(_, run)| run.facts.spec.placement_name == placement.name);
        runs.sort_by_cached_key(|(_, run)| Age::of(&run.metadata, &run.facts.status));
        runs.into_iter().map(|(key, run)| (key.name.clone(), run)).collect()
    }

    fn bindings_of(&self, placement: &ObjectKey) -> Vec<BindingFacts> {
        let mut bound = self.bindings.beside(placement);
        bound.retain(|(_, bound)| bound.placement == placement.name);
        bound.into_iter().map(|(_, bound)| (*bound).clone()).collect()
    }

    fn approvals_of(&self, run: &ObjectKey) -> BTreeMap<String, ApprovalFacts> {
        let beside = self.approvals.beside(run).into_iter();
        let ours = beside.filter(|(_, request)| request.run == run.name);
        ours.map(|(key, request)| (key.name.clone(), request.facts.clone())).collect()
    }

    /// Names of the strategies beside a placement.
    pub fn strategies_beside(&self, placement: &ObjectKey) -> BTreeSet<String> {
        let beside = self.strategies.beside(placement).into_iter();
        beside.map(|(key, _)| key.name.clone()).collect()
    }
}

impl Run {
    fn of(
        metadata: ObjectMeta,
        spec: flagship_api::staged_update::UpdateRunSpec,
        status: flagship_api::staged_update_status::UpdateRunStatus,
    ) -> Self {
        let rival = OtherRun::read(&metadata, &status);
        let facts = RunFacts {
            generation: Generation::of(&metadata),
            created: created(&metadata),
            adopted: Adopted::noted_on(&metadata),
            spec,
            status,
        };
        Self { metadata, facts, rival }
    }
}

impl Approval {
    fn of(metadata: ObjectMeta, spec: ApprovalRequestSpec, status: ApprovalRequestStatus) -> Self {
        Self {
            run: label_of(&metadata, label::TARGET_UPDATE_RUN).to_owned(),
            value: update_run::Approval::read(&metadata, &spec, Some(&status)),
            stage: spec.target_stage,
            facts: ApprovalFacts { generation: Generation::of(&metadata), status },
            metadata,
        }
    }
}

/// Most Works have nothing to say.
fn failing(work: PartialObjectMeta<Work>) -> Option<Failing> {
    let note = work.metadata.annotations.as_ref()?.get(own::FAILURE_CAUSES)?;
    let placement = label_of(&work.metadata, label::PARENT_PLACEMENT).to_owned();
    Some(Failing { placement, objects: report::read(note) })
}

fn member(object: MemberCluster) -> Option<ClusterFacts> {
    Some(ClusterFacts {
        generation: Generation::of(&object.metadata),
        leaving: object.metadata.deletion_timestamp.is_some(),
        labels: object.metadata.labels.unwrap_or_default(),
        reported: None,
        spec: object.spec,
        status: object.status.unwrap_or_default(),
    })
}

/// Whether more than a heartbeat has come. A heartbeat of a member that was silent is news.
fn is_news(change: &Change<ClusterFacts>) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let told = |member: &ClusterFacts| -> Vec<(String, String)> {
        let conditions = member.status.conditions.iter();
        conditions.map(|found| (found.type_.clone(), found.status.clone())).collect()
    };
    let gap = match (last_heartbeat(old), last_heartbeat(new)) {
        (Some(before), Some(after)) => after.duration_since(before).as_secs(),
        _ => i64::MAX,
    };
    let period = i64::from(new.spec.heartbeat_period_seconds.unwrap_or(60));
    old.generation != new.generation
        || old.labels != new.labels
        || old.leaving != new.leaving
        || told(old) != told(new)
        || gap > 2 * period
}

fn created(metadata: &ObjectMeta) -> Option<Timestamp> {
    metadata.creation_timestamp.as_ref().map(|time| time.0)
}

fn key_of(metadata: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default())
}

fn label_of<'a>(metadata: &'a ObjectMeta, key: &str) -> &'a str {
    let labels = metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(key)).map_or("", String::as_str)
}

/// Mirrors in the making.
struct Set<'a> {
    client: &'a Client,
    env: &'a Env,
    /// Whether a caller who may not read the kinds that follow does well without.
    quiet: bool,
    changed: watch::Sender<u64>,
    gaps: Vec<Box<Probe>>,
    subscriptions: Vec<Subscription>,
    tasks: JoinSet<()>,
}

impl Set<'_> {
    fn add<K, V>(&mut self, project: impl Fn(K) -> Option<V> + Send + Sync + 'static) -> Store<V>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + 'static,
        V: Send + Sync + 'static,
    {
        self.add_telling(Selection::all(), project, |_| true)
    }

    fn add_telling<K, V>(
        &mut self,
        selection: Selection,
        project: impl Fn(K) -> Option<V> + Send + Sync + 'static,
        news: impl Fn(&Change<V>) -> bool + Send + 'static,
    ) -> Store<V>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + 'static,
        V: Send + Sync + 'static,
    {
        let objects = self.client.of::<K>();
        self.follow(objects, selection, project, news)
    }

    fn follow<K, V>(
        &mut self,
        objects: Objects<K>,
        selection: Selection,
        project: impl Fn(K) -> Option<V> + Send + Sync + 'static,
        news: impl Fn(&Change<V>) -> bool + Send + 'static,
    ) -> Store<V>
    where
        K: Resource + DeserializeOwned + Send + 'static,
        V: Send + Sync + 'static,
    {
        let resource = objects.resource().clone();
        let reflector = Reflector::new(self.env, objects, selection, project).optional();
        let store = reflector.store();
        let changed = self.changed.clone();
        self.subscriptions.push(store.subscribe(move |change| {
            if news(change) {
                changed.send_modify(|count| *count += 1);
            }
        }));
        let (probed, quiet) = (store.clone(), self.quiet);
        self.gaps.push(Box::new(move || {
            let (stale, why) = (probed.is_synced(), probed.trouble());
            let fine = if stale { why.is_none() } else { quiet && why.is_some() };
            if fine {
                return None;
            }
            let resource = resource.plural.clone();
            Some(Gap { resource, why: why.unwrap_or_default(), stale })
        }));
        let (synced, changed) = (store.clone(), self.changed.clone());
        self.tasks.spawn(reflector.run());
        self.tasks.spawn(async move {
            synced.synced().await;
            changed.send_modify(|count| *count += 1);
        });
        store
    }
}
