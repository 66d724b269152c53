//! Reads what `why` wants to know: the subject and what it points at, from the hub alone;
//! then, for whoever can wait, a look at the few members that the answer is about.

use std::collections::BTreeMap;
use std::time::Duration;

use flagship_api::approval::{ApprovalRequestSpec, ApprovalRequestStatus};
use flagship_api::binding::{ResourceBindingSpec, ResourceBindingStatus};
use flagship_api::cluster::{MemberClusterSpec, MemberClusterStatus};
use flagship_api::condition::Generation;
use flagship_api::keys::{label, own};
use flagship_api::names::{
    HUB_LEASE, ObjectKey, SYSTEM_NAMESPACE, cluster_of_namespace, member_namespace,
};
use flagship_api::placement::PlacementSpec;
use flagship_api::placement_status::PlacementStatus;
use flagship_api::snapshot::{SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus};
use flagship_api::staged_update::UpdateRunSpec;
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_explain::overview::Asked;
use flagship_explain::why::{
    ApprovalFacts, BindingFacts, ClusterFacts, Facts, MemberView, PlacementFacts, PlacementGlance,
    RunFacts, Subject, wants_reports, worth_a_look,
};
use flagship_rules::diagnosis::report::{self, Reported};
use flagship_rules::heartbeat::last_heard;
use flagship_rules::policy::Adopted;
use flagship_rules::update_run::lifecycle::{has_ended, proven};
use flagship_rules::update_run::{Age, OtherRun};
use flagship_runtime::client::{Client, ClientError, Listed, Selection};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use serde::Deserialize;
use serde_json::Value;

use super::connect::Hub;
use super::member_view;
use super::scoped_kind::{ScopedKind, Stored, resource};
use super::steer::{RunObject, runs_beside};

type Placement = Stored<PlacementSpec, PlacementStatus>;
type Binding = Stored<ResourceBindingSpec, ResourceBindingStatus>;

/// Everything about the subject that the hub knows. Members are asked by [`deepened`], if
/// anybody can wait for that.
pub async fn facts(hub: &Hub, subject: Subject, now: Timestamp) -> Result<Facts, ClientError> {
    let client = &hub.client;
    let mut facts = Facts::new(subject.clone(), now);
    let about = async {
        match &subject {
            Subject::Run(key) => about_run(client, key, &mut facts).await,
            Subject::Placement(key) => about_placement(client, key, &mut facts).await,
            Subject::Cluster(name) => about_cluster(client, name, &mut facts).await,
            Subject::Nothing(..) => Ok(()),
        }
    };
    let (renewed, clusters, about) = futures::join!(hub_renewed(client), clusters(client), about);
    about?;
    facts.hub_renewed = renewed;
    facts.clusters = clusters?;
    add_reports(client, renewed, &mut facts.clusters, now).await;
    Ok(facts)
}

/// The same facts, with what the few members show that the answer is about: side by side, and
/// only for as long as a person waits.
pub async fn deepened(hub: &Hub, mut facts: Facts) -> Facts {
    let looks = worth_a_look(&facts).into_iter().map(async |(cluster, resource)| {
        let looking = member_view::look(hub, &cluster, &resource);
        let view = tokio::time::timeout(LOOKING, looking).await.unwrap_or_else(|_| MemberView {
            blind: format!("it did not answer within {} s", LOOKING.as_secs()),
            ..MemberView::default()
        });
        (cluster, view)
    });
    facts.members.extend(futures::future::join_all(looks).await);
    facts
}

/// How long members may take to show what they have.
const LOOKING: Duration = Duration::from_secs(2);

async fn about_run(client: &Client, key: &ObjectKey, facts: &mut Facts) -> Result<(), ClientError> {
    let runs = ScopedKind::Run.of(client, key.namespace.as_deref());
    let run = readable(runs.find(key).await, &mut facts.subject_unreadable)?;
    let Some(run): Option<RunObject> = run.flatten() else {
        return Ok(());
    };
    facts.run = Some(run_facts(run.clone()));
    let placement = ObjectKey::new(key.namespace.as_deref(), &run.spec.placement_name);
    let (approvals, about) =
        futures::join!(approvals(client, key), of_placement(client, &placement, Some(run)));
    let (found, unreadable) = approvals?;
    facts.approvals = found;
    facts.unreadable.extend(unreadable);
    about?.put_into(facts, Some(&key.name));
    facts.rivals.retain(|rival| *rival != key.name);
    Ok(())
}

async fn about_placement(
    client: &Client,
    key: &ObjectKey,
    facts: &mut Facts,
) -> Result<(), ClientError> {
    let mut about = of_placement(client, key, None).await?;
    facts.subject_unreadable = about.itself_unreadable.take();
    let newest = about.runs.iter().rfind(|run| !has_ended(&run.status)).map(RunObject::name);
    let newest = newest.map(|name| ObjectKey::new(key.namespace.as_deref(), name));
    let ended = about.runs.last().filter(|_| newest.is_none());
    facts.last_run = ended.map(|run| (run.name().to_owned(), run_facts(run.clone())));
    if let Some(newest) = &newest {
        let found = about.runs.iter().find(|run| run.name() == newest.name);
        facts.run = found.cloned().map(run_facts);
        let (found, unreadable) = approvals(client, newest).await?;
        facts.approvals = found;
        facts.unreadable.extend(unreadable);
    }
    about.put_into(facts, newest.as_ref().map(|newest| newest.name.as_str()));
    Ok(())
}

fn run_facts(run: RunObject) -> RunFacts {
    RunFacts {
        generation: Generation::of(&run.metadata),
        created: created(&run.metadata),
        adopted: Adopted::noted_on(&run.metadata),
        spec: run.spec,
        status: run.status,
    }
}

/// A placement, what it has where, and its runs, oldest first.
struct OfPlacement {
    placement: Option<PlacementFacts>,
    bindings: Vec<BindingFacts>,
    reports: BTreeMap<String, Vec<Reported>>,
    runs: Vec<RunObject>,
    /// Why the placement itself cannot be read.
    itself_unreadable: Option<String>,
    /// Bindings and scheduling policies that cannot be read, with the reason.
    unreadable: Vec<String>,
}

/// What was read; or nothing, and why it cannot be read though it is there.
fn readable<T>(
    read: Result<T, ClientError>,
    why: &mut Option<String>,
) -> Result<Option<T>, ClientError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(ClientError::Malformed(problem)) => {
            *why = Some(problem.to_string());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// `known` is a run of it that was read already.
async fn of_placement(
    client: &Client,
    key: &ObjectKey,
    known: Option<RunObject>,
) -> Result<OfPlacement, ClientError> {
    let namespace = key.namespace.as_deref();
    let placements = ScopedKind::Placement.of(client, namespace);
    let (found, bindings, policies, runs) = futures::join!(
        placements.find(key),
        bindings(client, namespace, Some(&key.name)),
        unreadable_policies(client, key),
        runs_beside(client, key, known)
    );
    let mut itself_unreadable = None;
    let found: Option<Placement> = readable(found, &mut itself_unreadable)?.flatten();
    let (bindings, mut unreadable) = bindings?;
    unreadable.extend(policies);
    let works = Selection::all().with_labels(format!("{}={}", label::PARENT_PLACEMENT, key.name));
    let reports = match bindings.iter().any(BindingFacts::is_unavailable) {
        true => reported_causes(client, &works).await,
        false => BTreeMap::new(),
    };
    Ok(OfPlacement {
        placement: found.map(placement_facts),
        bindings,
        reports,
        itself_unreadable,
        unreadable,
        runs: runs?,
    })
}

impl OfPlacement {
    /// Tells it of the run of this name, or of the placement as a whole.
    fn put_into(self, facts: &mut Facts, run: Option<&str>) {
        facts.placement = self.placement;
        facts.bindings = self.bindings;
        facts.reports = self.reports;
        facts.unreadable.extend(self.itself_unreadable);
        facts.unreadable.extend(self.unreadable);
        let open = self.runs.iter().filter(|run| !has_ended(&run.status));
        facts.rivals = open.map(|run| run.name().to_owned()).collect();
        let mine = run.or(facts.last_run.as_ref().map(|(name, _)| name.as_str()));
        let others = self.runs.iter().filter(|run| Some(run.name()) != mine);
        facts.others = others.map(|run| OtherRun::read(&run.metadata, &run.status)).collect();
        let proven = self.runs.iter().filter_map(|run| proven(&run.status));
        facts.proven = proven.map(str::to_owned).collect();
    }
}

/// What agents say about objects that are not available, by cluster; whoever may not read
/// Works does without.
async fn reported_causes(client: &Client, works: &Selection) -> BTreeMap<String, Vec<Reported>> {
    let noted = client.of_type::<Noted>(resource("Work")).metadata_only();
    let listed = noted.list(works).await.map_or_else(|_| Vec::new(), |all| all.items);
    let mut reports: BTreeMap<String, Vec<Reported>> = BTreeMap::new();
    for Noted { metadata } in listed {
        let note = metadata.annotations.as_ref().and_then(|all| all.get(own::FAILURE_CAUSES));
        let cluster = metadata.namespace.as_deref().and_then(cluster_of_namespace);
        if let (Some(note), Some(cluster)) = (note, cluster) {
            reports.entry(cluster.to_owned()).or_default().extend(report::read(note));
        }
    }
    reports
}

/// An object of which only the metadata is asked for.
#[derive(Deserialize)]
struct Noted {
    metadata: ObjectMeta,
}

/// What is on a member; what is on all of them, if the name is empty.
async fn about_cluster(client: &Client, name: &str, facts: &mut Facts) -> Result<(), ClientError> {
    let (wide, namespaced, glances) = futures::join!(
        bindings(client, None, None),
        bindings(client, Some(""), None),
        placements(client)
    );
    for read in [wide, namespaced] {
        let (found, unreadable) = read?;
        facts.bindings.extend(found);
        facts.unreadable.extend(unreadable);
    }
    facts.bindings.retain(|bound| name.is_empty() || bound.spec.target_cluster == name);
    facts.placements = glances?;
    if facts.bindings.iter().any(BindingFacts::is_unavailable) {
        let works = match name {
            "" => Selection::all(),
            name => Selection::namespace(&member_namespace(name)),
        };
        facts.reports = reported_causes(client, &works).await;
    }
    Ok(())
}

/// Every placement of both scopes at a glance.
async fn placements(client: &Client) -> Result<BTreeMap<ObjectKey, PlacementGlance>, ClientError> {
    let all = Selection::all();
    let kinds = |kind: ScopedKind, scope| kind.of::<Value, Value>(client, scope);
    let runs = |scope| ScopedKind::Run.of::<UpdateRunSpec, UpdateRunStatus>(client, scope);
    let (wide_kinds, kinds) =
        (kinds(ScopedKind::Placement, None), kinds(ScopedKind::Placement, Some("")));
    let (wide_runs, runs) = (runs(None), runs(Some("")));
    let (wide, namespaced, wide_runs, runs) = futures::join!(
        wide_kinds.list(&all),
        kinds.list(&all),
        wide_runs.list(&all),
        runs.list(&all)
    );
    let mut glances: BTreeMap<ObjectKey, PlacementGlance> = BTreeMap::new();
    for placement in wide?.items.into_iter().chain(namespaced?.items) {
        let key = ObjectKey::new(placement.metadata.namespace.as_deref(), placement.name());
        let external = placement.spec["strategy"]["type"] == "External";
        glances.insert(key, PlacementGlance { external, open_run: None });
    }
    let mut runs: Vec<RunObject> = wide_runs?.items.into_iter().chain(runs?.items).collect();
    runs.retain(|run| !has_ended(&run.status));
    runs.sort_by_cached_key(|run| Age::of(&run.metadata, &run.status));
    for run in runs {
        let key = ObjectKey::new(run.metadata.namespace.as_deref(), &run.spec.placement_name);
        if let Some(glance) = glances.get_mut(&key) {
            glance.open_run = Some(run.name().to_owned());
        }
    }
    Ok(glances)
}

/// The whole fleet, for a look at all of it.
pub async fn everything(hub: &Hub, now: Timestamp) -> Result<Asked, ClientError> {
    let client = &hub.client;
    let all = Selection::all();
    let of = |kind: ScopedKind, scope| kind.of::<PlacementSpec, PlacementStatus>(client, scope);
    let (wide, namespaced) = (of(ScopedKind::Placement, None), of(ScopedKind::Placement, Some("")));
    let runs = |scope| ScopedKind::Run.of::<UpdateRunSpec, UpdateRunStatus>(client, scope);
    let (wide_runs, runs) = (runs(None), runs(Some("")));
    let requests = |scope| ScopedKind::Approval.of(client, scope);
    let (wide_requests, requests) = (requests(None), requests(Some("")));
    // The long lists first, so that others are read while they are made.
    let (clusters, wide_bindings, bindings, renewed, wide, namespaced) = futures::join!(
        clusters(client),
        bindings(client, None, None),
        bindings(client, Some(""), None),
        hub_renewed(client),
        wide.list(&all),
        namespaced.list(&all)
    );
    let (wide_runs, runs, wide_requests, requests) = futures::join!(
        wide_runs.list(&all),
        runs.list(&all),
        wide_requests.list(&all),
        requests.list(&all)
    );
    let mut clusters = clusters?;
    add_reports(client, renewed, &mut clusters, now).await;
    let mut runs: Vec<RunObject> = wide_runs?.items.into_iter().chain(runs?.items).collect();
    runs.sort_by_cached_key(|run| Age::of(&run.metadata, &run.status));
    let placements = wide?.items.into_iter().chain(namespaced?.items).map(|placement| {
        let key = ObjectKey::new(placement.metadata.namespace.as_deref(), placement.name());
        (key, placement_facts(placement))
    });
    let requests = wide_requests?.items.into_iter().chain(requests?.items).map(|request| {
        let key = ObjectKey::new(request.metadata.namespace.as_deref(), request.name());
        (key, approval_facts(request))
    });
    Ok(Asked {
        now,
        hub_renewed: renewed,
        clusters,
        placements: placements.collect(),
        runs: runs
            .into_iter()
            .map(|run| {
                let key = ObjectKey::new(run.metadata.namespace.as_deref(), run.name());
                let rival = OtherRun::read(&run.metadata, &run.status);
                (key, run_facts(run), rival)
            })
            .collect(),
        bindings: wide_bindings?.0.into_iter().chain(bindings?.0).collect(),
        approvals: requests.collect(),
    })
}

fn placement_facts(placement: Placement) -> PlacementFacts {
    PlacementFacts {
        generation: Generation::of(&placement.metadata),
        created: created(&placement.metadata),
        spec: placement.spec,
        status: placement.status,
    }
}

fn approval_facts(request: Stored<ApprovalRequestSpec, ApprovalRequestStatus>) -> ApprovalFacts {
    ApprovalFacts { generation: Generation::of(&request.metadata), status: request.status }
}

/// Bindings of one placement, or of all, and what of them cannot be read. An empty namespace
/// means every namespace.
async fn bindings(
    client: &Client,
    namespace: Option<&str>,
    placement: Option<&str>,
) -> Result<(Vec<BindingFacts>, Vec<String>), ClientError> {
    let mut selection = everywhere(namespace);
    if let Some(placement) = placement {
        selection = selection.with_labels(format!("{}={placement}", label::PARENT_PLACEMENT));
    }
    let found = ScopedKind::Binding.of(client, namespace).list(&selection).await?;
    let unreadable = found.malformed.iter().map(ToString::to_string).collect();
    let mut found: Vec<BindingFacts> = found
        .items
        .into_iter()
        .map(|bound: Binding| BindingFacts {
            key: ObjectKey::new(bound.metadata.namespace.as_deref(), bound.name()),
            placement: bound.label(label::PARENT_PLACEMENT).to_owned(),
            generation: Generation::of(&bound.metadata),
            spec: bound.spec,
            status: bound.status,
        })
        .collect();
    found.sort_by(|a, b| a.key.cmp(&b.key));
    Ok((found, unreadable))
}

/// Scheduling policies of a placement that cannot be read; whoever may not list them does
/// without.
async fn unreadable_policies(client: &Client, placement: &ObjectKey) -> Vec<String> {
    type Policy = Stored<SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus>;
    let namespace = placement.namespace.as_deref();
    let labels = format!("{}={}", label::PARENT_PLACEMENT, placement.name);
    let policies = ScopedKind::PolicySnapshot.of(client, namespace);
    let listed = policies.list(&everywhere(namespace).with_labels(labels)).await;
    let listed = listed.map_or_else(|_| Vec::new(), |listed: Listed<Policy>| listed.malformed);
    listed.iter().map(ToString::to_string).collect()
}

fn everywhere(namespace: Option<&str>) -> Selection {
    match namespace {
        None | Some("") => Selection::all(),
        Some(namespace) => Selection::namespace(namespace),
    }
}

async fn approvals(
    client: &Client,
    run: &ObjectKey,
) -> Result<(BTreeMap<String, ApprovalFacts>, Vec<String>), ClientError> {
    let namespace = run.namespace.as_deref();
    let selection =
        everywhere(namespace).with_labels(format!("{}={}", label::TARGET_UPDATE_RUN, run.name));
    let listed = ScopedKind::Approval.of(client, namespace).list(&selection).await?;
    let unreadable = listed.malformed.iter().map(ToString::to_string).collect();
    let found = listed.items.into_iter().map(
        |request: Stored<ApprovalRequestSpec, ApprovalRequestStatus>| {
            (request.name().to_owned(), approval_facts(request))
        },
    );
    Ok((found.collect(), unreadable))
}

/// Every member by its name.
pub async fn clusters(client: &Client) -> Result<BTreeMap<String, ClusterFacts>, ClientError> {
    let members =
        client.of_type::<Stored<MemberClusterSpec, MemberClusterStatus>>(resource("MemberCluster"));
    let listed = members.list(&Selection::all()).await?;
    let found = listed.items.into_iter().map(|member| {
        let name = member.name().to_owned();
        let facts = ClusterFacts {
            generation: Generation::of(&member.metadata),
            leaving: member.metadata.deletion_timestamp.is_some(),
            labels: member.metadata.labels.unwrap_or_default(),
            reported: None,
            spec: member.spec,
            status: member.status,
        };
        (name, facts)
    });
    Ok(found.collect())
}

/// Adds when each agent last reported in its own place on the hub, where that could tell more;
/// whoever may not read those does without.
async fn add_reports(
    client: &Client,
    hub_renewed: Option<Timestamp>,
    clusters: &mut BTreeMap<String, ClusterFacts>,
    now: Timestamp,
) {
    type Report = Stored<Value, MemberClusterStatus>;
    if !wants_reports(hub_renewed, clusters, now) {
        return;
    }
    let reports = client.of_type::<Report>(resource("InternalMemberCluster"));
    let listed = reports.list(&Selection::all()).await.map_or_else(|_| Vec::new(), |all| all.items);
    for report in listed {
        if let Some(member) = clusters.get_mut(report.name()) {
            member.reported = last_heard(&report.status);
        }
    }
}

/// When the hub last renewed its lease; nothing if it holds none or may not be asked.
async fn hub_renewed(client: &Client) -> Option<Timestamp> {
    let key = ObjectKey::namespaced(SYSTEM_NAMESPACE, HUB_LEASE);
    let lease = client.of::<Lease>().find(&key).await.ok()??;
    lease.spec?.renew_time.map(|time| time.0)
}

fn created(metadata: &ObjectMeta) -> Option<Timestamp> {
    metadata.creation_timestamp.as_ref().map(|time| time.0)
}
