//! Reads what `why` wants to know: the subject, what it points at, and the members behind it.

use std::collections::BTreeMap;

use flagship_api::approval::{ApprovalRequestSpec, ApprovalRequestStatus};
use flagship_api::binding::{ResourceBindingSpec, ResourceBindingStatus};
use flagship_api::cluster::{MemberClusterSpec, MemberClusterStatus};
use flagship_api::condition::{Conditions, Generation};
use flagship_api::condition_type::update_run;
use flagship_api::keys::label;
use flagship_api::names::{HUB_LEASE, ObjectKey, SYSTEM_NAMESPACE};
use flagship_api::placement::PlacementSpec;
use flagship_api::placement_status::PlacementStatus;
use flagship_api::staged_update::UpdateRunSpec;
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_rules::why::{
    ApprovalFacts, BindingFacts, ClusterFacts, Facts, PlacementFacts, RunFacts, Subject,
};
use flagship_runtime::client::{Client, ClientError, Selection};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::connect::Hub;
use super::member_view;
use super::twins::{Stored, Twin, resource};

type Run = Stored<UpdateRunSpec, UpdateRunStatus>;
type Placement = Stored<PlacementSpec, PlacementStatus>;
type Binding = Stored<ResourceBindingSpec, ResourceBindingStatus>;

/// Everything about the subject that can be read now.
pub async fn facts(hub: &Hub, subject: Subject, now: Timestamp) -> Result<Facts, ClientError> {
    let client = &hub.client;
    let mut facts = Facts {
        now,
        hub_renewed: hub_renewed(client).await,
        run: None,
        placement: None,
        bindings: Vec::new(),
        clusters: clusters(client).await?,
        approvals: BTreeMap::new(),
        rivals: Vec::new(),
        members: BTreeMap::new(),
        subject: subject.clone(),
    };
    match &subject {
        Subject::Run(key) => about_run(client, key, &mut facts).await?,
        Subject::Placement(key) => about_placement(client, key, &mut facts).await?,
        Subject::Cluster(name) => about_cluster(client, name, &mut facts).await?,
    }
    for bound in &facts.bindings {
        // One look at each member: the first failed object is the one that is explained.
        if let Some(failed) = bound.status.failed_placements.first() {
            let cluster = bound.spec.target_cluster.clone();
            let view = member_view::look(hub, &cluster, &failed.resource).await;
            facts.members.insert(cluster, view);
        }
    }
    Ok(facts)
}

async fn about_run(client: &Client, key: &ObjectKey, facts: &mut Facts) -> Result<(), ClientError> {
    let namespace = key.namespace.as_deref();
    let Some(run): Option<Run> = Twin::Run.of(client, namespace).find(key).await? else {
        return Ok(());
    };
    let placement = ObjectKey::new(namespace, &run.spec.placement_name);
    facts.approvals = approvals(client, key).await?;
    facts.run = Some(RunFacts {
        generation: Generation::of(&run.metadata),
        created: created(&run.metadata),
        spec: run.spec,
        status: run.status,
    });
    about_placement(client, &placement, facts).await?;
    facts.rivals.retain(|rival| *rival != key.name);
    Ok(())
}

async fn about_placement(
    client: &Client,
    key: &ObjectKey,
    facts: &mut Facts,
) -> Result<(), ClientError> {
    let namespace = key.namespace.as_deref();
    let found: Option<Placement> = Twin::Placement.of(client, namespace).find(key).await?;
    facts.placement = found.map(|placement| PlacementFacts {
        generation: Generation::of(&placement.metadata),
        created: created(&placement.metadata),
        spec: placement.spec,
        status: placement.status,
    });
    facts.bindings = bindings(client, namespace, Some(&key.name)).await?;
    facts.rivals = open_runs(client, key).await?;
    Ok(())
}

async fn about_cluster(client: &Client, name: &str, facts: &mut Facts) -> Result<(), ClientError> {
    let mut all = bindings(client, None, None).await?;
    all.extend(bindings(client, Some(""), None).await?);
    all.retain(|bound| bound.spec.target_cluster == name);
    facts.bindings = all;
    Ok(())
}

/// Bindings of one placement, or of all. An empty namespace means every namespace.
async fn bindings(
    client: &Client,
    namespace: Option<&str>,
    placement: Option<&str>,
) -> Result<Vec<BindingFacts>, ClientError> {
    let mut selection = everywhere(namespace);
    if let Some(placement) = placement {
        selection = selection.with_labels(format!("{}={placement}", label::PARENT_PLACEMENT));
    }
    let found = Twin::Binding.of(client, namespace).list(&selection).await?;
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

/// Runs of a placement that have not ended.
async fn open_runs(client: &Client, placement: &ObjectKey) -> Result<Vec<String>, ClientError> {
    let namespace = placement.namespace.as_deref();
    let listed = Twin::Run.of(client, namespace).list(&everywhere(namespace)).await?;
    let open = listed.items.iter().filter(|run: &&Run| {
        run.spec.placement_name == placement.name
            && run.status.conditions.of_type(update_run::SUCCEEDED).is_none()
            && run
                .status
                .conditions
                .of_type(update_run::INITIALIZED)
                .is_none_or(|initialized| initialized.status == "True")
    });
    Ok(open.map(|run| run.name().to_owned()).collect())
}

async fn approvals(
    client: &Client,
    run: &ObjectKey,
) -> Result<BTreeMap<String, ApprovalFacts>, ClientError> {
    let namespace = run.namespace.as_deref();
    let selection =
        everywhere(namespace).with_labels(format!("{}={}", label::TARGET_UPDATE_RUN, run.name));
    let listed = Twin::Approval.of(client, namespace).list(&selection).await?;
    let found = listed.items.into_iter().map(
        |request: Stored<ApprovalRequestSpec, ApprovalRequestStatus>| {
            let name = request.name().to_owned();
            let generation = Generation::of(&request.metadata);
            (name, ApprovalFacts { generation, status: request.status })
        },
    );
    Ok(found.collect())
}

async fn clusters(client: &Client) -> Result<BTreeMap<String, ClusterFacts>, ClientError> {
    let members =
        client.of_type::<Stored<MemberClusterSpec, MemberClusterStatus>>(resource("MemberCluster"));
    let listed = members.list(&Selection::all()).await?;
    let found = listed.items.into_iter().map(|member| {
        let name = member.name().to_owned();
        let generation = Generation::of(&member.metadata);
        (name, ClusterFacts { generation, spec: member.spec, status: member.status })
    });
    Ok(found.collect())
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
