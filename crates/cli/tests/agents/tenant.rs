//! A tenant of the hub who wants to be more on members, on real API servers: the binary as the
//! hub, without webhooks and with them.
//!
//! Its some fifty ways are a story of `flagship-sim`, told on embedded clusters elsewhere.
//! `scripts/real-kube` builds the servers; run it by
//! `cargo test -p flagship-cli --test agents -- --ignored tenant`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use flagship_member::Member;
use flagship_runtime::env::Env;
use flagship_runtime::metrics::Metrics;
use flagship_sim::fleet::{Cluster, Clusters};
use flagship_sim::stories;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::process::{Process, STEP, STEPS, free_port};
use super::servers::{Servers, connect, install, start, token, with_token};

const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];
pub const SYSTEM: &str = "fleet-system";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers that scripts/real-kube builds; scripts/nightly runs it"]
async fn a_tenant_reaches_nothing_on_real_servers_without_webhooks() {
    told(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers that scripts/real-kube builds; scripts/nightly runs it"]
async fn a_tenant_reaches_nothing_on_real_servers_with_webhooks() {
    told(true).await;
}

async fn told(webhooks: bool) {
    let servers = start(&format!("tenant-{webhooks}"), &MEMBERS);
    let hub = prepared(&servers).await;
    let mut process = start_hub(&servers.folder.join("kubeconfig"), webhooks);
    process.is_ready().await;
    let (clusters, agents) = joined(&servers, hub, &MEMBERS).await;
    assert_eq!(refuses_at_once(&clusters.hub, webhooks).await, webhooks, "{}", process.said());
    stories::named(stories::TENANT)(&clusters).await;
    drop(agents);
    assert!(process.stops().await, "{}", process.said());
}

/// The hub's cluster before there is a hub.
pub async fn prepared(servers: &Servers) -> Cluster {
    let hub = Cluster::new("hub", connect(servers, "hub", "kubectl").await);
    install(&hub, |_| true).await;
    hub.apply_object(&json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": SYSTEM}}))
        .await;
    // No kube-proxy runs: the API server follows the name of a service like this one by itself.
    hub.apply_object(&json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "fleetwebhook", "namespace": SYSTEM},
        "spec": {"type": "ExternalName", "externalName": "localhost"}}))
        .await;
    hub
}

pub fn start_hub(kubeconfig: &Path, webhooks: bool) -> Process {
    let (health, metrics, port) = (free_port(), free_port(), free_port());
    let flags = format!(
        "hub --kubeconfig={} --context=hub --leader-elect=true --v=2 \
         --health-probe-bind-address=127.0.0.1:{health} --metrics-bind-address=127.0.0.1:{metrics} \
         --resource-snapshot-creation-minimum-interval=0s --resource-changes-collection-duration=0s \
         --enable-webhook={webhooks} --webhook-client-connection-type=service \
         --webhook-bind-address=127.0.0.1 --webhook-port={port}",
        kubeconfig.display()
    );
    Process::start(&flags, &[("POD_NAMESPACE", SYSTEM.to_owned())], health, metrics)
}

/// Members with the rights that the hub gives them, and no others.
pub async fn joined(servers: &Servers, hub: Cluster, names: &[&str]) -> (Clusters, JoinSet<()>) {
    let (env, metrics) = (Env::system(), Metrics::default());
    let (mut members, mut agents) = (BTreeMap::new(), JoinSet::new());
    for &name in names {
        let cluster = Cluster::new(name, connect(servers, name, "kubectl").await);
        install(&cluster, |kind| kind == "AppliedWork").await;
        let own = connect(servers, name, "flagship-member").await;
        let account = format!("{name}-agent");
        let at_hub = with_token(servers, &token(&hub, &account).await).await;
        let options = flagship_member::Options::default();
        let agent = Member::new(name, own, at_hub, env.clone(), metrics.clone(), options);
        agents.spawn(async move { agent.run(std::future::pending()).await });
        let identity = json!({"kind": "ServiceAccount", "name": account, "namespace": SYSTEM});
        hub.apply_object(&json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
            "metadata": {"name": name},
            "spec": {"identity": identity, "heartbeatPeriodSeconds": 60},
        }))
        .await;
        hub.becomes("memberclusters", "", name, "Joined", "True").await;
        members.insert(name.to_owned(), cluster);
    }
    (Clusters { hub, members }, agents)
}

/// Whether an override that makes another object is refused when it is written. A server asks
/// new webhooks only after a moment.
pub async fn refuses_at_once(hub: &Cluster, waits: bool) -> bool {
    for at in 0..STEPS {
        let patch = json!({"op": "replace", "path": "/kind", "value": "Secret"});
        let rule = json!({"clusterSelector": {"clusterSelectorTerms": []},
            "jsonPatchOverrides": [patch]});
        let selector = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": "none"});
        let tried: Value = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ResourceOverride",
            "metadata": {"name": format!("tried-{at}"), "namespace": "default"},
            "spec": {"resourceSelectors": [selector], "policy": {"overrideRules": [rule]}}});
        match hub.try_apply(&tried).await {
            Err(refused) => {
                assert_eq!(refused.code, 403, "{refused}");
                return true;
            }
            Ok(_) if !waits => return false,
            Ok(_) => tokio::time::sleep(STEP.max(Duration::from_millis(500))).await,
        }
    }
    false
}
