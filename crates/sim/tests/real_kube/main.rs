//! The stories of delivery on real API servers: a hub and three members on loopback.
//!
//! `scripts/real-kube` builds the servers once; `scripts/real-fleet` runs them. They have
//! no nodes, so `kubelet` says of every pod what a node would. What embedded clusters show
//! to kubectl is shown here too, word for word (`seen_with_kubectl`).
//! Run with `cargo test -p flagship-sim --features real-kube --test real_kube`.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

#[path = "../clients/kubectl/binary.rs"]
mod binary;
mod kubelet;
mod seen_with_kubectl;
mod servers;
#[path = "../clients/kubectl/shell.rs"]
mod shell;
#[path = "../clients/kubectl/transcript.rs"]
mod transcript;

use std::collections::BTreeMap;

use flagship_hub::Hub;
use flagship_member::Member;
use flagship_rules::placement::Batching;
use flagship_runtime::env::Env;
use flagship_runtime::metrics::Metrics;
use flagship_sim::fleet::{Cluster, Clusters};
use flagship_sim::stories;
use jiff::SignedDuration;
use kubelet::play_kubelet;
use seen_with_kubectl::StoryTime;
use serde_json::{Value, json};
use servers::{connect, install, start, token, with_token};
use tokio::task::JoinSet;

const MEMBERS: [&str; 3] = ["member1", "member2", "member3"];
/// Their labels, as where the transcript was written down.
const ENVIRONMENTS: [&str; 3] = ["canary", "staging", "canary"];

#[tokio::test]
async fn the_stories_of_delivery_hold_on_real_api_servers() {
    let servers = start("stories", &MEMBERS);
    let hub = Cluster::new("hub", connect(&servers, "hub", "kubectl").await);
    install(&hub, |_| true).await;
    hub.apply("{apiVersion: v1, kind: Namespace, metadata: {name: fleet-system}}").await;
    let (env, metrics) = (Env::system(), Metrics::default());
    // Where the transcript looks at pods, they get ready as it says; everywhere else at once.
    let time = StoryTime::default();
    let is_due = |time: StoryTime| {
        move |pod: &Value| pod["metadata"]["namespace"] != "toys" || time.passes()
    };
    let mut options = flagship_hub::Options { batching: Batching::NONE, ..Default::default() };
    options.update_runs.stuck_after = SignedDuration::from_secs(5);
    let mut controllers = JoinSet::new();
    let client = connect(&servers, "hub", "flagship-hub").await;
    let controller = Hub::new(client, env.clone(), metrics.clone(), options);
    controllers.spawn(async move { controller.run(std::future::pending()).await });
    let (mut members, mut credentials) = (BTreeMap::new(), BTreeMap::new());
    for (name, environment) in MEMBERS.into_iter().zip(ENVIRONMENTS) {
        let cluster = Cluster::new(name, connect(&servers, name, "kubectl").await);
        install(&cluster, |kind| kind == "AppliedWork").await;
        let own = connect(&servers, name, "flagship-member").await;
        // With nothing but what the hub gives a member: all stories are told with it.
        let account = format!("{name}-agent");
        let at_hub = with_token(&servers, &token(&hub, &account).await).await;
        credentials.insert(name, at_hub.clone());
        let options = flagship_member::Options::default();
        let agent = Member::new(name, own, at_hub, env.clone(), metrics.clone(), options);
        controllers.spawn(async move { agent.run(std::future::pending()).await });
        controllers.spawn(play_kubelet(cluster.clone(), is_due(time.clone())));
        hub.apply_object(&json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
            "kind": "MemberCluster",
            "metadata": {"name": name, "labels": {"environment": environment}},
            "spec": {"identity": {"kind": "ServiceAccount", "name": account, "namespace": "fleet-system"},
                "heartbeatPeriodSeconds": 60},
        }))
        .await;
        hub.becomes("memberclusters", "", name, "Joined", "True").await;
        members.insert(name.to_owned(), cluster);
    }
    let fleet = Clusters { hub, members };
    eprintln_story("a member's credentials do only their part");
    stories::credentials::do_only_their_part(&fleet, "member1", &credentials["member1"]).await;
    // First, for it lists all placements there are.
    eprintln_story("what members get, seen with kubectl");
    fleet.hub.apply(include_str!("../clients/kubectl/fleet.yaml")).await;
    let kubeconfig = servers.folder.join("kubeconfig");
    seen_with_kubectl::replay("what_members_get", &kubeconfig, &time).await;
    for (name, story) in stories::ALL {
        eprintln_story(name);
        story(&fleet).await;
    }
}

/// Which story was told last is the first thing one wants to know.
#[allow(clippy::print_stderr)]
fn eprintln_story(name: &str) {
    eprintln!("real API servers: {name}");
}
