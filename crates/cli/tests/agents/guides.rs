//! What the troubleshooting guides for update runs tell, in both scopes, on the fleet of the charts:
//! three replicas of the binary as the hub, whose webhooks the API server asks, and three as members.
//!
//! The transcripts are those of embedded fleets, where a test tells them under paused time. Here real
//! API servers serve the clusters, and `scripts/real-charts` runs the binary as the pods of the charts
//! would. Build what it needs by `scripts/real-kube` and `scripts/helm --path`, and run it by
//! `cargo test -p flagship-cli --test agents -- --ignored guides`.

use std::collections::BTreeMap;

use flagship_sim::fleet::{Cluster, Clusters};
use serde_json::Value;
use tokio::task::JoinSet;

use super::CRP;
use super::kubelet::play_kubelet;
use super::process::{BINARY, STEP, ask};
use super::seen_with_kubectl::{StoryTime, replay};
use super::servers::{Servers, connect, folder, install, script};

const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];
const RP: &str = "resourceplacements";

/// The guides. The last one takes checks out of definitions.
const GUIDES: [&str; 10] = [
    "no_run_yet",
    "no_such_version",
    "from_the_first_word_to_the_last",
    "a_run_is_stopped_and_resumed",
    "an_approval_does_not_count",
    "a_cluster_is_taken_by_another_run",
    "clusters_do_not_fit_the_stages",
    "the_placement_is_deleted",
    "a_rollout_is_stuck",
    "the_strategy_is_missing_or_wrong",
];

/// What people write and what they place; everything else follows from it.
const WRITTEN: [&str; 6] = [
    "clusterstagedupdateruns",
    "stagedupdateruns",
    RP,
    CRP,
    "clusterstagedupdatestrategies",
    "stagedupdatestrategies",
];
const NAMESPACES: [&str; 2] = ["test-namespace", "my-app-namespace"];

/// What the hub makes of it.
const MADE: [&str; 9] = [
    "clusterapprovalrequests",
    "approvalrequests",
    "clusterresourcebindings",
    "resourcebindings",
    "clusterresourcesnapshots",
    "resourcesnapshots",
    "clusterschedulingpolicysnapshots",
    "schedulingpolicysnapshots",
    "works",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs what scripts/real-kube and scripts/helm build; scripts/nightly runs it"]
async fn the_guides_hold_on_the_fleet_of_the_charts() {
    let folder = folder("guides");
    let mut charts = script("real-charts");
    charts.arg(&*BINARY).arg("--serve").arg(&folder);
    let servers = Servers::of(charts, folder);
    let (fleet, time, _kubelets) = clusters(&servers).await;
    let only = std::env::var("FLAGSHIP_GUIDE").ok();
    for guide in
        GUIDES.into_iter().filter(|guide| only.as_deref().is_none_or(|only| only == *guide))
    {
        say(guide);
        set_up(&fleet.hub).await;
        replay(guide, &servers.folder.join("kubeconfig"), &time).await;
        clear(&fleet).await;
    }
    let read = |file: &str| std::fs::read_to_string(servers.folder.join(file)).unwrap();
    for port in read("hubs").lines() {
        let answered = reviews(&ask(port.parse().unwrap(), "/metrics"));
        say(&format!("the replica at {port} has answered {answered} reviews"));
        assert!(answered > 0, "the script has asked each of them");
    }
    for kind in ["clusterstagedupdateruns", "stagedupdateruns"] {
        let observed = read(&format!("observed-{kind}"));
        say(&format!("the observer of {kind}: {observed}"));
        assert_eq!(observed.lines().count(), 1, "{observed}");
    }
    for entry in std::fs::read_dir(&servers.folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let log = std::fs::read_to_string(&path).unwrap();
            let bad = log.lines().find(|l| l.contains("is forbidden") || l.contains("panicked at"));
            assert_eq!(bad, None, "{}", path.display());
        }
    }
}

/// The clusters with all rights, and nodes on which pods get ready as the stories say.
async fn clusters(servers: &Servers) -> (Clusters, StoryTime, JoinSet<()>) {
    let hub = Cluster::new("hub", connect(servers, "hub", "kubectl").await);
    let (mut members, mut kubelets) = (BTreeMap::new(), JoinSet::new());
    let time = StoryTime::default();
    for name in MEMBERS {
        let member = Cluster::new(name, connect(servers, name, "kubectl").await);
        let time = time.clone();
        kubelets.spawn(play_kubelet(member.clone(), move |_: &Value| time.passes()));
        members.insert(name.to_owned(), member);
    }
    (Clusters { hub, members }, time, kubelets)
}

/// What is there when a guide begins.
async fn set_up(hub: &Cluster) {
    hub.apply(include_str!("../../../sim/tests/clients/kubectl/fleet.yaml")).await;
    for (kind, namespace, name, condition) in [
        (CRP, "", "my-app-namespace", "ClusterResourcePlacementAvailable"),
        (CRP, "", "example-placement", "ClusterResourcePlacementScheduled"),
        (RP, "my-app-namespace", "web-app-placement", "ResourcePlacementScheduled"),
    ] {
        hub.becomes(kind, namespace, name, condition, "True").await;
    }
}

/// Takes away what a guide leaves, on the hub and on members.
async fn clear(fleet: &Clusters) {
    let hub = &fleet.hub;
    let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
    for kind in WRITTEN {
        for object in hub.list(kind, "").await {
            let metadata = &object["metadata"];
            hub.delete(kind, &text(&metadata["namespace"]), &text(&metadata["name"])).await;
        }
        empties(hub, kind).await;
    }
    for namespace in NAMESPACES {
        hub.delete("namespaces", "", namespace).await;
        hub.goes("namespaces", "", namespace).await;
        for member in fleet.members() {
            member.goes("namespaces", "", namespace).await;
        }
    }
    for kind in MADE {
        empties(hub, kind).await;
    }
    install(hub, |_| true).await;
}

/// Waits until there is nothing of a kind.
async fn empties(hub: &Cluster, kind: &str) {
    for _ in 0..3000 {
        if hub.list(kind, "").await.is_empty() {
            return;
        }
        tokio::time::sleep(STEP).await;
    }
    panic!("{kind} are left: {:#?}", hub.list(kind, "").await);
}

/// How many reviews a replica says that it has answered.
fn reviews(metrics: &str) -> u64 {
    let counted =
        metrics.lines().filter(|l| l.starts_with("controller_runtime_webhook_requests_total"));
    counted.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

/// Straight to stderr: the runner hides what a passing test prints.
fn say(line: &str) {
    use std::io::Write;
    drop(writeln!(std::io::stderr(), "guides on the charts: {}", line.trim_end()));
}
