//! What credentials can do on an embedded hub, over its TLS port, by the clock: those of a
//! member, and those that KubeFleet's charts and ours give hub and agent.
//!
//! The agent of one member works with them, the way it would on a machine of its own; the
//! story itself is told in `flagship_sim::stories::credentials`, on real API servers too.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

use std::path::PathBuf;

use flagship_api::names::{HUB_LEASE, ObjectKey, SYSTEM_NAMESPACE};
use flagship_edge::{Authority, Config, Edge, Kubeconfig};
use flagship_fleet::{ClusterHost, Storage};
use flagship_hub::Hub;
use flagship_member::Member;
use flagship_runtime::client::Client;
use flagship_runtime::lease::LeaseConfig;
use flagship_sim::fleet::{Fleet, FleetConfig, HUB};
use flagship_sim::stories;
use flagship_store::env::Env as ServerEnv;
use serde_json::{Value, json};

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A client of a cluster with the certificate of a user, and nothing else.
async fn client_of(edge: &Edge, folder: &Folder, cluster: &str, user: &str) -> Client {
    let now = ServerEnv::system().clock.now();
    let credentials = edge.authority().client(user, None, now).unwrap();
    let contexts = vec![(cluster.to_owned(), edge.url(cluster))];
    let authority = edge.authority().certificate_pem();
    let path = folder.0.join(format!("{user}.kubeconfig"));
    Kubeconfig::new(authority, user, credentials, contexts).write(&path).unwrap();
    Client::from_kubeconfig(Some(&path), Some(cluster)).await.unwrap().named("flagship-member")
}

/// The TLS port of a fleet that runs by the clock, and a folder for who comes there.
async fn served(host: &ClusterHost, name: &str) -> (Edge, Folder) {
    let folder = format!("flagship-{name}-{}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(folder));
    std::fs::create_dir_all(&folder.0).unwrap();
    let env = ServerEnv::system();
    let authority = Authority::create(env.clock.now()).unwrap();
    let edge = Edge::start(host.server(), &env, Config::local(0, authority)).await.unwrap();
    (edge, folder)
}

/// The rights of a chart of ours, as its kustomize base has them, for a user of this name.
fn rights(base: &str, user: &str) -> String {
    let objects: Vec<Value> = serde_saphyr::from_multiple(base).unwrap();
    let subject = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]);
    let mut text = String::new();
    for mut object in objects {
        if object["apiVersion"] != "rbac.authorization.k8s.io/v1" {
            continue;
        }
        if object["subjects"].is_array() {
            object["subjects"] = subject.clone();
        }
        text.push_str(&format!("---\n{}", serde_saphyr::to_string(&object).unwrap()));
    }
    text
}

/// The hub's own process under the rights that KubeFleet's chart gives it.
#[tokio::test]
async fn a_hub_works_with_the_rights_of_kubefleets_chart() {
    a_hub_works_with("hub-rights", include_str!("hub_role.yaml"), false).await;
}

/// The same under those of our chart, which are fewer, and with a lease.
#[tokio::test]
async fn a_hub_works_with_the_rights_of_our_chart() {
    let base = include_str!("../../../../../deploy/kustomize/hub-agent/agent.yaml");
    a_hub_works_with("hub-own-rights", &rights(base, "hub-agent"), true).await;
}

async fn a_hub_works_with(name: &str, role: &str, elects: bool) {
    let host = ClusterHost::new(ServerEnv::system(), Storage::Ephemeral);
    let config = FleetConfig { host: Some(host.clone()), ..FleetConfig::of(2).real_time() };
    let mut options = config.hub.clone();
    let mut fleet = Fleet::new(config).await;
    if elects {
        let lease = LeaseConfig::new(&fleet.env, HUB_LEASE, "flagship-hub");
        let key = ObjectKey::namespaced(SYSTEM_NAMESPACE, HUB_LEASE);
        options.lease = Some(LeaseConfig { key, ..lease });
    }
    let (edge, folder) = served(&host, name).await;
    let person = fleet.clusters.hub.clone();
    person.apply(role).await;
    let client = client_of(&edge, &folder, HUB, "hub-agent").await.named("flagship-hub");
    let hub = Hub::new(client, fleet.env.clone(), fleet.metrics.clone(), options);
    let task = tokio::spawn(async move { hub.run(std::future::pending()).await });
    for member in ["member1", "member2"] {
        fleet.start(member);
        fleet.invite(member).await;
    }
    fleet.all_joined().await;
    let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
    let placement = |name: &str, strategy: Value| {
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement", "metadata": {"name": name},
        "spec": {"resourceSelectors": selector, "strategy": strategy}})
    };
    person.apply("{apiVersion: v1, kind: Namespace, metadata: {name: app}}").await;
    person
        .apply(
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: app}, data: {a: x}}",
        )
        .await;
    person
        .apply(
            "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceOverride
metadata: {name: c, namespace: app}
spec:
  placement: {name: app}
  resourceSelectors: [{group: '', version: v1, kind: ConfigMap, name: c}]
  policy:
    overrideRules:
    - clusterSelector: {clusterSelectorTerms: []}
      jsonPatchOverrides: [{op: replace, path: /data/a, value: '${MEMBER-CLUSTER-NAME}'}]
",
        )
        .await;
    person.apply_object(&placement("app", json!({"type": "External"}))).await;
    let crp = "clusterresourceplacements";
    person.becomes(crp, "", "app", "ClusterResourcePlacementScheduled", "True").await;
    person
        .apply(
            "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: all}
spec: {stages: [{name: all, labelSelector: {}, afterStageTasks: [{type: Approval}]}]}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata: {name: first}
spec: {placementName: app, stagedRolloutStrategyName: all, state: Run}
",
        )
        .await;
    let requests = "clusterapprovalrequests";
    person.eventually(requests, "", "first-after-all", |found| found.is_some()).await;
    let now = fleet.env.now().to_string();
    let approved = json!({"conditions": [{"type": "Approved", "status": "True", "reason": "Fine",
        "message": "", "observedGeneration": 1, "lastTransitionTime": now}]});
    person.patch_status(requests, "", "first-after-all", approved).await;
    person.becomes("clusterstagedupdateruns", "", "first", "Succeeded", "True").await;
    let map = fleet.clusters.member("member2").get("configmaps", "app", "c").await;
    assert_eq!(map["data"], json!({"a": "member2"}));
    person
        .apply(
            "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacementEviction
metadata: {name: out}
spec: {placementName: app, clusterName: member2}
",
        )
        .await;
    person.becomes("clusterresourceplacementevictions", "", "out", "Executed", "True").await;
    // Everything ends, too: placement, member, and what was made for them.
    person.delete(crp, "", "app").await;
    person.goes(crp, "", "app").await;
    person.delete("clusterstagedupdateruns", "", "first").await;
    person.goes("clusterstagedupdateruns", "", "first").await;
    person.delete("memberclusters", "", "member1").await;
    person.goes("memberclusters", "", "member1").await;
    task.abort();
    edge.shutdown().await;
}

/// The agent under the rights that KubeFleet's chart gives it on its own cluster: it may
/// not watch what it applied, and looks by the clock.
#[tokio::test]
async fn an_agent_works_with_the_rights_of_kubefleets_chart() {
    an_agent_works_with("member-rights", include_str!("member_role.yaml")).await;
}

/// The same under those of our chart, with which it watches, too.
#[tokio::test]
async fn an_agent_works_with_the_rights_of_our_chart() {
    let base = include_str!("../../../../../deploy/kustomize/member-agent/agent.yaml");
    an_agent_works_with("member-own-rights", &rights(base, "member-agent")).await;
}

async fn an_agent_works_with(name: &str, role: &str) {
    let host = ClusterHost::new(ServerEnv::system(), Storage::Ephemeral);
    let config = FleetConfig { host: Some(host.clone()), ..FleetConfig::of(1).real_time() };
    let mut fleet = Fleet::new(config).await;
    let (edge, folder) = served(&host, name).await;
    let (hub, member) = (fleet.clusters.hub.clone(), fleet.clusters.member("member1").clone());
    member.apply(role).await;
    fleet.start(HUB);
    let own = client_of(&edge, &folder, "member1", "member-agent").await;
    let at_hub = client_of(&edge, &folder, HUB, "member1-agent").await;
    let options = flagship_member::Options::default();
    let agent =
        Member::new("member1", own, at_hub, fleet.env.clone(), fleet.metrics.clone(), options);
    let task = tokio::spawn(async move { agent.run(std::future::pending()).await });
    fleet.invite("member1").await;
    fleet.all_joined().await;
    hub.apply(
        "
apiVersion: v1
kind: Namespace
metadata: {name: app}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c, namespace: app}
data: {a: x}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: app}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'nginx:1.25'}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: [{apiGroups: [''], resources: [secrets], verbs: [list]}]
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: app}
spec:
  resourceSelectors:
  - {group: '', version: v1, kind: Namespace, name: app}
  - {group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole, name: reader}
",
    )
    .await;
    let (crp, available) = ("clusterresourceplacements", "ClusterResourcePlacementAvailable");
    hub.becomes(crp, "", "app", available, "True").await;
    member.patch("configmaps", "app", "c", json!({"data": {"a": "mine"}})).await;
    let mended = |found: Option<&Value>| found.is_some_and(|map| map["data"]["a"] == "x");
    member.eventually("configmaps", "app", "c", mended).await;
    hub.delete(crp, "", "app").await;
    hub.goes(crp, "", "app").await;
    member.goes("clusterroles", "", "reader").await;
    task.abort();
    edge.shutdown().await;
}

// laws S14
#[tokio::test]
async fn a_members_credentials_do_only_their_part() {
    let host = ClusterHost::new(ServerEnv::system(), Storage::Ephemeral);
    let config = FleetConfig { host: Some(host.clone()), ..FleetConfig::of(2).real_time() };
    let mut fleet = Fleet::new(config).await;
    let (edge, folder) = served(&host, "credentials").await;
    fleet.start(HUB);
    fleet.start("member2");
    // As the MemberCluster names it.
    let credentials = client_of(&edge, &folder, HUB, "member1-agent").await;
    let own = Client::in_process(fleet.handle("member1").called_by("member1")).named("member1");
    let (options, at_hub) = (flagship_member::Options::default(), credentials.clone());
    let agent =
        Member::new("member1", own, at_hub, fleet.env.clone(), fleet.metrics.clone(), options);
    let running = agent.clone();
    let task = tokio::spawn(async move { running.run(std::future::pending()).await });
    for member in ["member1", "member2"] {
        fleet.invite(member).await;
    }
    fleet.all_joined().await;
    assert!(agent.ready().is_ready(), "{}", agent.ready());
    stories::credentials::do_only_their_part(&fleet.clusters, "member1", &credentials).await;

    // And they are enough to be delivered to, and to let go.
    let hub = &fleet.clusters.hub;
    hub.apply("{apiVersion: v1, kind: Namespace, metadata: {name: app}}").await;
    let selector = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
    hub.apply_object(&json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement", "metadata": {"name": "app"},
        "spec": {"resourceSelectors": selector}}))
        .await;
    let (crp, available) = ("clusterresourceplacements", "ClusterResourcePlacementAvailable");
    hub.becomes(crp, "", "app", available, "True").await;
    assert!(fleet.clusters.member("member1").find("namespaces", "", "app").await.is_some());
    hub.delete(crp, "", "app").await;
    hub.goes(crp, "", "app").await;
    fleet.clusters.member("member1").goes("namespaces", "", "app").await;
    task.abort();
    edge.shutdown().await;
}
