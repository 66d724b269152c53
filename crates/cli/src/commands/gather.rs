//! Reads what `why` wants to know: the subject, what it points at, and the members behind it.

use std::collections::BTreeMap;

use flagship_api::approval::{ApprovalRequestSpec, ApprovalRequestStatus};
use flagship_api::binding::{ResourceBindingSpec, ResourceBindingStatus};
use flagship_api::cluster::{MemberClusterSpec, MemberClusterStatus};
use flagship_api::condition::Generation;
use flagship_api::keys::label;
use flagship_api::names::{HUB_LEASE, ObjectKey, SYSTEM_NAMESPACE};
use flagship_api::placement::PlacementSpec;
use flagship_api::placement_status::PlacementStatus;
use flagship_api::staged_update::UpdateRunSpec;
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_explain::why::{
    ApprovalFacts, BindingFacts, ClusterFacts, Facts, PlacementFacts, RunFacts, Subject,
};
use flagship_rules::heartbeat::last_heard;
use flagship_rules::update_run::Rival;
use flagship_rules::update_run::lifecycle::{has_ended, proven};
use flagship_runtime::client::{Client, ClientError, Selection};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use serde_json::Value;

use super::connect::Hub;
use super::member_view;
use super::scoped_kind::{ScopedKind, Stored, resource};
use super::steer::runs_of;

type Run = Stored<UpdateRunSpec, UpdateRunStatus>;
type Placement = Stored<PlacementSpec, PlacementStatus>;
type Binding = Stored<ResourceBindingSpec, ResourceBindingStatus>;

/// Everything about the subject that can be read now.
pub async fn facts(hub: &Hub, subject: Subject, now: Timestamp) -> Result<Facts, ClientError> {
    let client = &hub.client;
    let mut facts = Facts::new(subject.clone(), now);
    facts.hub_renewed = hub_renewed(client).await;
    facts.clusters = clusters(client).await?;
    match &subject {
        Subject::Run(key) => about_run(client, key, &mut facts).await?,
        Subject::Placement(key) => {
            about_placement(client, key, &mut facts).await?;
            if let Some(newest) = facts.rivals.last() {
                let newest = ObjectKey::new(key.namespace.as_deref(), newest);
                facts.run = run(client, &newest).await?;
                facts.approvals = approvals(client, &newest, &mut facts.unreadable).await?;
            }
        }
        Subject::Cluster(name) => about_cluster(client, name, &mut facts).await?,
        Subject::Nothing(..) => {}
    }
    for bound in &facts.bindings {
        // One look at each member: the first failed object is the one that is explained.
        let cluster = bound.spec.target_cluster.clone();
        if facts.members.contains_key(&cluster) {
            continue;
        }
        if let Some(failed) = bound.status.failed_placements.first() {
            let view = member_view::look(hub, &cluster, &failed.resource).await;
            facts.members.insert(cluster, view);
        }
    }
    Ok(facts)
}

async fn about_run(client: &Client, key: &ObjectKey, facts: &mut Facts) -> Result<(), ClientError> {
    facts.run = run(client, key).await?;
    let Some(run) = &facts.run else {
        return Ok(());
    };
    let placement = ObjectKey::new(key.namespace.as_deref(), &run.spec.placement_name);
    facts.approvals = approvals(client, key, &mut facts.unreadable).await?;
    about_placement(client, &placement, facts).await?;
    facts.rivals.retain(|rival| *rival != key.name);
    Ok(())
}

async fn run(client: &Client, key: &ObjectKey) -> Result<Option<RunFacts>, ClientError> {
    let found: Option<Run> = ScopedKind::Run.of(client, key.namespace.as_deref()).find(key).await?;
    Ok(found.map(|run| RunFacts {
        generation: Generation::of(&run.metadata),
        created: created(&run.metadata),
        spec: run.spec,
        status: run.status,
    }))
}

async fn about_placement(
    client: &Client,
    key: &ObjectKey,
    facts: &mut Facts,
) -> Result<(), ClientError> {
    let namespace = key.namespace.as_deref();
    let found: Option<Placement> = ScopedKind::Placement.of(client, namespace).find(key).await?;
    facts.placement = found.map(|placement| PlacementFacts {
        generation: Generation::of(&placement.metadata),
        created: created(&placement.metadata),
        spec: placement.spec,
        status: placement.status,
    });
    facts.bindings = bindings(client, namespace, Some(&key.name), &mut facts.unreadable).await?;
    let runs = runs_of(client, key).await?;
    let open = runs.iter().filter(|run| !has_ended(&run.status));
    facts.rivals = open.map(|run| run.name().to_owned()).collect();
    let mine = match &facts.subject {
        Subject::Run(run) => Some(run.name.as_str()),
        _ => facts.rivals.last().map(String::as_str),
    };
    facts.others = runs
        .iter()
        .filter(|run| Some(run.name()) != mine)
        .map(|run| Rival::read(&run.metadata, &run.status))
        .collect();
    facts.proven = runs.iter().filter_map(|run| proven(&run.status)).map(str::to_owned).collect();
    Ok(())
}

/// What is on a member; what is on all of them, if the name is empty.
async fn about_cluster(client: &Client, name: &str, facts: &mut Facts) -> Result<(), ClientError> {
    let mut all = bindings(client, None, None, &mut facts.unreadable).await?;
    all.extend(bindings(client, Some(""), None, &mut facts.unreadable).await?);
    all.retain(|bound| name.is_empty() || bound.spec.target_cluster == name);
    facts.bindings = all;
    Ok(())
}

/// Bindings of one placement, or of all. An empty namespace means every namespace.
async fn bindings(
    client: &Client,
    namespace: Option<&str>,
    placement: Option<&str>,
    unreadable: &mut Vec<String>,
) -> Result<Vec<BindingFacts>, ClientError> {
    let mut selection = everywhere(namespace);
    if let Some(placement) = placement {
        selection = selection.with_labels(format!("{}={placement}", label::PARENT_PLACEMENT));
    }
    let found = ScopedKind::Binding.of(client, namespace).list(&selection).await?;
    unreadable.extend(found.malformed.iter().map(ToString::to_string));
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
    Ok(found)
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
    unreadable: &mut Vec<String>,
) -> Result<BTreeMap<String, ApprovalFacts>, ClientError> {
    let namespace = run.namespace.as_deref();
    let selection =
        everywhere(namespace).with_labels(format!("{}={}", label::TARGET_UPDATE_RUN, run.name));
    let listed = ScopedKind::Approval.of(client, namespace).list(&selection).await?;
    unreadable.extend(listed.malformed.iter().map(ToString::to_string));
    let found = listed.items.into_iter().map(
        |request: Stored<ApprovalRequestSpec, ApprovalRequestStatus>| {
            let name = request.name().to_owned();
            let generation = Generation::of(&request.metadata);
            (name, ApprovalFacts { generation, status: request.status })
        },
    );
    Ok(found.collect())
}

/// Every member by its name.
pub async fn clusters(client: &Client) -> Result<BTreeMap<String, ClusterFacts>, ClientError> {
    let members =
        client.of_type::<Stored<MemberClusterSpec, MemberClusterStatus>>(resource("MemberCluster"));
    let listed = members.list(&Selection::all()).await?;
    let reported = reports(client).await;
    let found = listed.items.into_iter().map(|member| {
        let name = member.name().to_owned();
        let facts = ClusterFacts {
            generation: Generation::of(&member.metadata),
            leaving: member.metadata.deletion_timestamp.is_some(),
            labels: member.metadata.labels.unwrap_or_default(),
            reported: reported.get(&name).copied(),
            spec: member.spec,
            status: member.status,
        };
        (name, facts)
    });
    Ok(found.collect())
}

/// When each agent last reported in its own place on the hub; whoever may not read those
/// does without.
async fn reports(client: &Client) -> BTreeMap<String, Timestamp> {
    type Report = Stored<Value, MemberClusterStatus>;
    let reports = client.of_type::<Report>(resource("InternalMemberCluster"));
    let listed = reports.list(&Selection::all()).await.map_or_else(|_| Vec::new(), |all| all.items);
    let heard = |report: &Report| Some((report.name().to_owned(), last_heard(&report.status)?));
    listed.iter().filter_map(heard).collect()
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
