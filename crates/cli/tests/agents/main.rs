//! `flagship hub` and `flagship member` as an operator runs them: processes with flags,
//! environment, probes and signals, against API servers over TLS.
//!
//! What they do to a fleet is told elsewhere, on the same controllers; here it is that they
//! start as KubeFleet's agents do, take over from each other, and end in good order.

#![allow(clippy::unwrap_used, reason = "a process that cannot be started is a failed test")]

mod approvals;
#[path = "../../../sim/tests/clients/kubectl/binary.rs"]
mod binary;
mod guides;
mod joining;
#[path = "../../../sim/tests/real_kube/kubelet.rs"]
mod kubelet;
mod observe;
mod process;
#[path = "../../../sim/tests/real_kube/seen_with_kubectl.rs"]
mod seen_with_kubectl;
#[path = "../../../sim/tests/real_kube/servers.rs"]
mod servers;
#[path = "../../../sim/tests/clients/kubectl/shell.rs"]
mod shell;
mod tenant;
mod traces;
#[path = "../../../sim/tests/clients/kubectl/transcript.rs"]
mod transcript;
#[path = "../../../sim/tests/runs/policy/ways_past.rs"]
mod ways_past;

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flagship_edge::{Authority, Config, Edge, Kubeconfig};
use flagship_sim::fleet::{Cluster, Fleet, FleetConfig, HUB};
use flagship_store::env::Env;
use process::{Process, free_port};
use serde_json::{Value, json};

const LEASE: &str = "136224848560.hub.fleet.azure.com";
const CRP: &str = "clusterresourceplacements";

/// Clusters behind TLS, a folder, and nobody at work.
struct Scene {
    fleet: Fleet,
    edge: Edge,
    folder: PathBuf,
}

impl Scene {
    async fn named(name: &str) -> Self {
        let fleet = Fleet::new(FleetConfig::of(1).real_time()).await;
        let env = Env::system();
        let authority = Authority::create(env.clock.now()).unwrap();
        let edge = Edge::start(fleet.server(), &env, Config::local(0, authority)).await.unwrap();
        let folder = std::env::temp_dir().join(format!("flagship-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let admin = edge.authority().client("admin", Some("system:masters"), env.clock.now());
        let contexts = [HUB, "member1"]
            .map(|name| (name.to_owned(), edge.url(&fleet.cluster_name(name))))
            .to_vec();
        let authority = edge.authority().certificate_pem();
        let kubeconfig = Kubeconfig::new(authority, "admin", admin.unwrap(), contexts);
        kubeconfig.write(&folder.join("kubeconfig")).unwrap();
        Self { fleet, edge, folder }
    }

    fn hub(&self) -> &Cluster {
        &self.fleet.clusters.hub
    }

    fn member(&self) -> &Cluster {
        self.fleet.clusters.member("member1")
    }

    fn kubeconfig(&self) -> String {
        self.folder.join("kubeconfig").display().to_string()
    }

    /// A hub with the flags a chart would give it, and shorter waits.
    fn start_hub(&self) -> Process {
        self.start_hub_with("")
    }

    /// The same with further flags.
    fn start_hub_with(&self, more: &str) -> Process {
        let (health, metrics) = (free_port(), free_port());
        let flags = format!(
            "hub --kubeconfig={} --context=hub --leader-elect=true --leader-retry-period=1s \
             --health-probe-bind-address=127.0.0.1:{health} --metrics-bind-address=127.0.0.1:{metrics} \
             --resource-snapshot-creation-minimum-interval=0s --resource-changes-collection-duration=0s \
             --enable-webhook=false --webhook-client-connection-type=service --v=2 -add_dir_header {more}",
            self.kubeconfig()
        );
        Process::start(&flags, &[("POD_NAMESPACE", "fleet-system".to_owned())], health, metrics)
    }

    /// An agent that knows its hub by the environment alone, as KubeFleet's chart has it.
    fn start_member(&self, token: &Path) -> Process {
        self.start_member_with(token, "")
    }

    /// The same with further flags.
    fn start_member_with(&self, token: &Path, more: &str) -> Process {
        let (health, metrics) = (free_port(), free_port());
        let flags = format!(
            "member --kubeconfig={} --context=member1 --leader-elect=true \
             --hub-health-probe-bind-address=127.0.0.1:{health} --hub-metrics-bind-address=127.0.0.1:{metrics} \
             --health-probe-bind-address=0 --metrics-bind-address=0 -v=2 --property-provider=none {more}",
            self.kubeconfig()
        );
        let authority = STANDARD.encode(self.edge.authority().certificate_pem());
        let environment = [
            ("MEMBER_CLUSTER_NAME", "member1".to_owned()),
            ("HUB_SERVER_URL", self.edge.url(&self.fleet.cluster_name(HUB))),
            ("CONFIG_PATH", token.display().to_string()),
            ("HUB_CERTIFICATE_AUTHORITY", authority),
        ];
        Process::start(&flags, &environment, health, metrics)
    }

    /// Lets a service account of the member's name come.
    async fn invite(&self) {
        let identity =
            json!({"kind": "ServiceAccount", "name": "member1", "namespace": "fleet-system"});
        let member = json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
            "metadata": {"name": "member1"},
            "spec": {"identity": identity, "heartbeatPeriodSeconds": 15},
        });
        self.hub().apply_object(&member).await;
    }

    /// The token of a service account of the hub, in a file: by a Secret that is filled with
    /// one, as KubeFleet's scripts get it.
    async fn token(&self, account: &str) -> PathBuf {
        let meta = |name: &str| json!({"name": name, "namespace": "fleet-system"});
        let object =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(account)});
        self.hub().apply_object(&object).await;
        let name = format!("{account}-hub-cluster-access-token");
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta(&name),
            "type": "kubernetes.io/service-account-token"});
        secret["metadata"]["annotations"] = json!({"kubernetes.io/service-account.name": account});
        self.hub().apply_object(&secret).await;
        let is_filled =
            |found: Option<&Value>| found.is_some_and(|secret| secret["data"]["token"].is_string());
        let secret = self.hub().eventually("secrets", "fleet-system", &name, is_filled).await;
        let token = secret.unwrap()["data"]["token"].as_str().unwrap().to_owned();
        let file = self.folder.join("token");
        std::fs::write(&file, STANDARD.decode(token).unwrap()).unwrap();
        file
    }

    async fn settings_become(&self, value: &str) {
        let is_so =
            |found: Option<&Value>| found.is_some_and(|map| map["data"]["greeting"] == value);
        self.member().eventually_within(60, "configmaps", "app", "settings", is_so).await;
    }
}

/// Who leads; empty if the lease was given back.
async fn leader(cluster: &Cluster, namespace: &str) -> String {
    let lease = cluster.find("leases", namespace, LEASE).await.unwrap_or_default();
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

// checklist fleet 12.53, 12.54, 12.59
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_start_take_over_and_end_as_processes() {
    let scene = Scene::named("agents").await;
    let hub = scene.hub();

    let mut first = scene.start_hub();
    first.is_ready().await;
    let leads = |found: Option<&Value>| {
        found.is_some_and(|lease| lease["spec"]["holderIdentity"] != json!(""))
    };
    hub.eventually_within(60, "leases", "fleet-system", LEASE, leads).await;
    let one = leader(hub, "fleet-system").await;
    assert!(one.starts_with("flagship-hub_"), "{one}");
    // The second waits for the first, and says that it would be ready.
    let mut second = scene.start_hub();
    second.is_ready().await;

    scene.invite().await;
    let token = scene.token("member1").await;
    let mut member = scene.start_member(&token);
    hub.becomes("memberclusters", "", "member1", "Joined", "True").await;
    member.is_ready().await;
    let holder = leader(scene.member(), "kube-system").await;
    assert!(holder.starts_with("flagship-member_"), "{holder}");

    hub.apply("{apiVersion: v1, kind: Namespace, metadata: {name: app}}").await;
    let settings = |value: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": "app"}, "data": {"greeting": value}})
    };
    hub.apply_object(&settings("hello")).await;
    let namespace = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "app"});
    hub.apply_object(&json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": "app"},
        "spec": {"resourceSelectors": [namespace], "policy": {"placementType": "PickAll"}},
    }))
    .await;
    hub.becomes(CRP, "", "app", "ClusterResourcePlacementAvailable", "True").await;
    scene.settings_become("hello").await;
    let counted = first.metrics();
    assert!(counted.contains("fleet_workload_reconcile_total"), "{counted}");
    let counted = member.metrics();
    let works = "fleet_work_processing_requests_total{apply_status=\"AllManifestsApplied\",\
                 availability_status=\"AllManifestsAvailable\",diff_reporting_status=\"Skipped\"}";
    assert!(counted.contains(works), "{counted}");

    // Told to stop, it finishes, gives the lease back and ends well; the other goes on.
    assert!(first.stops().await, "{}", first.said());
    let taken_over = |found: Option<&Value>| {
        let holder = found.and_then(|lease| lease["spec"]["holderIdentity"].as_str());
        holder.is_some_and(|holder| !holder.is_empty() && holder != one)
    };
    hub.eventually_within(30, "leases", "fleet-system", LEASE, taken_over).await;
    hub.apply_object(&settings("salut")).await;
    scene.settings_become("salut").await;

    assert!(member.stops().await, "{}", member.said());
    assert_eq!(leader(scene.member(), "kube-system").await, "");
    assert!(second.stops().await, "{}", second.said());
    assert_eq!(leader(hub, "fleet-system").await, "");
}

#[test]
fn what_an_agent_cannot_start_with_is_said_in_one_line() {
    let ends = |flags: &str| Process::start(flags, &[], 0, 0).refuses();
    for (flags, words) in [
        ("member", "member cluster name cannot be empty"),
        ("member --name=m --kubeconfig=/nowhere", "cannot use the kubeconfig /nowhere"),
        ("hub --max-fleet-size=7", "invalid parameter: --max-fleet-size must be from 30 to 200"),
        ("hub --enable-webhook=false --kubeconfig=/nowhere", "cannot use the kubeconfig /nowhere"),
        ("hub --kubeconfig=/nowhere", "run without webhooks by --enable-webhook=false"),
    ] {
        let said = ends(flags);
        let last = said.lines().last().unwrap_or_default();
        assert!(last.starts_with("error: ") && last.contains(words), "{flags}: {said}");
    }
}
