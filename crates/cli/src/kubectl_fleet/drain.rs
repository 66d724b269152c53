//! `draincluster`: keeps new placements off a cluster, then evicts those that are there.
//!
//! Twice, as KubeFleet does: what was scheduled between the cordon and the list is
//! evicted by the second pass. A drain that a budget blocks is said, and is no failure.
//! What an eviction may do is the hub's business: see `flagship_rules::eviction`.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, anyhow};
use flagship_api::binding::ClusterResourceBinding;
use flagship_api::eviction::{ClusterResourcePlacementEviction, PlacementEvictionSpec};
use flagship_api::keys::label;
use flagship_api::names::{ObjectKey, drain_eviction};
use flagship_api::placement::ClusterResourcePlacement;
use flagship_api::placement_status::ResourceIdentifier;
use flagship_rules::eviction::{Eviction, found_nothing, is_executed, is_settled};
use flagship_runtime::client::{Client, Selection};
use flagship_runtime::env::Env;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Deadline;
use super::cordon::cordon;
use super::log::Log;

/// Pauses between looks at an eviction, the last one again and again: most are answered at
/// once.
const LOOKS: [Duration; 4] = [
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_millis(500),
];

/// Drains a cluster, and says how it went.
pub async fn drain(
    cluster: &str,
    hub: &Client,
    env: &Env,
    until: &Deadline,
    log: &mut Log<'_>,
) -> anyhow::Result<()> {
    let success = pass(cluster, hub, env, until, log).await;
    let success =
        success.map_err(|error| anyhow!("failed to drain member cluster {cluster}: {error:#}"))?;
    log.say(format!("drain was {} for cluster {cluster}", word(success)));
    log.say("retrying drain to ensure all resources propagated from hub cluster are evicted");
    let success = pass(cluster, hub, env, until, log).await;
    let success = success
        .map_err(|error| anyhow!("failed to drain cluster on retry {cluster}: {error:#}"))?;
    log.say(format!("drain retry was {} for cluster {cluster}", word(success)));
    log.say(format!("reminder: uncordon the cluster {cluster} to remove cordon taint if needed"));
    Ok(())
}

fn word(success: bool) -> &'static str {
    if success { "successful" } else { "not successful" }
}

/// One pass; whether everything that was there may go.
async fn pass(
    cluster: &str,
    hub: &Client,
    env: &Env,
    until: &Deadline,
    log: &mut Log<'_>,
) -> anyhow::Result<bool> {
    let cordoned = cordon(hub, env, cluster).await;
    cordoned.map_err(|error| anyhow!("failed to cordon member cluster {cluster}: {error:#}"))?;
    log.say(format!("Successfully cordoned member cluster {cluster} by adding cordon taint"));
    let placements = placements_on(hub, cluster).await?;
    if placements.is_empty() {
        log.say(format!(
            "There are currently no resources propagated to {cluster} from fleet using \
             ClusterResourcePlacement resources"
        ));
        return Ok(true);
    }
    let mut success = true;
    for placement in &placements {
        let eviction = create(hub, env, placement, cluster).await?;
        let about = format!("for CRP {placement} targeting member cluster {cluster}");
        log.say(format!("Created eviction {eviction} {about}"));
        let answer = until.hold(answer(hub, &eviction)).await;
        let answer = answer.map_err(|error| {
            anyhow!(
                "failed to wait for eviction {eviction} {about} to reach terminal state: {error:#}"
            )
        })?;
        if found_nothing(&answer) {
            continue;
        }
        if !is_executed(&answer) {
            success = false;
            log.say(format!("eviction {eviction} was not executed successfully {about}"));
            continue;
        }
        log.say(format!("eviction {eviction} was executed successfully {about}"));
        for resource in cluster_scoped(hub, placement).await? {
            log.say(format!(
                "evicted resource {} propagated by CRP {placement} targeting member cluster \
                 {cluster}",
                written(&resource)
            ));
        }
    }
    Ok(success)
}

/// Placements whose binding on the cluster is not on its way out.
async fn placements_on(hub: &Client, cluster: &str) -> anyhow::Result<BTreeSet<String>> {
    let bindings = hub.of::<ClusterResourceBinding>().list(&Selection::all()).await;
    let bindings =
        bindings.map_err(|error| anyhow!("failed to list cluster resource bindings: {error}"))?;
    let there = bindings.items.iter().filter(|binding| {
        binding.spec.target_cluster == cluster && binding.metadata.deletion_timestamp.is_none()
    });
    let named = there.map(|binding| {
        let labels = binding.metadata.labels.as_ref();
        let placement = labels.and_then(|labels| labels.get(label::PARENT_PLACEMENT)).cloned();
        placement.with_context(|| {
            let name = binding.metadata.name.as_deref().unwrap_or_default();
            format!("failed to get CRP name from binding {name}")
        })
    });
    named.collect()
}

/// Asks the hub to take a placement off the cluster; hands out the name of the question.
async fn create(hub: &Client, env: &Env, placement: &str, cluster: &str) -> anyhow::Result<String> {
    let name = drain_eviction(placement, cluster, env.entropy.uuid()).map_err(|errors| {
        anyhow!(
            "failed to format a qualified name for drain eviction object with CRP name \
             {placement}, cluster name {cluster}: {}",
            errors.join("; ")
        )
    })?;
    let object = ClusterResourcePlacementEviction {
        metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
        spec: PlacementEvictionSpec {
            placement_name: placement.to_owned(),
            cluster_name: cluster.to_owned(),
        },
        status: None,
    };
    let created = hub.of::<ClusterResourcePlacementEviction>().create(&object).await;
    created.map_err(|error| {
        anyhow!(
            "failed to create eviction {name} for CRP {placement} targeting member cluster \
             {cluster}: {error}"
        )
    })?;
    Ok(name)
}

/// Waits until everything has been said about an eviction.
async fn answer(hub: &Client, name: &str) -> anyhow::Result<Eviction> {
    let evictions = hub.of::<ClusterResourcePlacementEviction>();
    let key = ObjectKey::cluster(name);
    let mut looks = LOOKS.iter();
    let mut pause = Duration::ZERO;
    loop {
        let seen = Eviction::read(&evictions.get(&key).await?);
        if is_settled(&seen) {
            return Ok(seen);
        }
        pause = looks.next().copied().unwrap_or(pause);
        tokio::time::sleep(pause).await;
    }
}

/// What the placement selects and belongs to no namespace.
async fn cluster_scoped(hub: &Client, placement: &str) -> anyhow::Result<Vec<ResourceIdentifier>> {
    let key = ObjectKey::cluster(placement);
    let found = hub.of::<ClusterResourcePlacement>().find(&key).await?;
    let status = found.and_then(|found: ClusterResourcePlacement| found.status);
    let mut selected = status.map(|status| status.selected_resources).unwrap_or_default();
    selected.retain(|resource| resource.namespace.is_empty());
    Ok(selected)
}

/// `group/version/kind/namespace/name`, what is empty as `''`.
fn written(resource: &ResourceIdentifier) -> String {
    let ResourceIdentifier { group, version, kind, namespace, name, .. } = resource;
    let part = |text: &String| if text.is_empty() { "''".to_owned() } else { text.clone() };
    [group, version, kind, namespace, name].map(part).join("/")
}
