//! Workloads that never come up, told as the guides for troubleshooting print it.

use serde_json::{Value, json};

use super::telling::{conditions, placement, rows};
use crate::fleet::Clusters;

const CRP: &str = "clusterresourceplacements";

/// A namespace with a Deployment whose image no registry can have.
async fn broken(clusters: &Clusters, name: &str, strategy: &str) {
    clusters
        .hub
        .apply(&format!(
            "
apiVersion: v1
kind: Namespace
metadata: {{name: {name}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: nginx-deployment, namespace: {name}}}
spec:
  replicas: 3
  selector: {{matchLabels: {{app: nginx}}}}
  template:
    metadata: {{labels: {{app: nginx}}}}
    spec:
      containers: [{{name: nginx, image: 'nginx::no'}}]
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {{name: {name}}}
spec:
  resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: {name}}}]
  policy: {{placementType: PickAll}}
  strategy: {strategy}
"
        ))
        .await;
}

/// What the placement says of a cluster whose workload does not come up.
fn not_available(cluster: &str, name: &str, rollout: &str) -> String {
    format!(
        "\
{cluster}:
  Scheduled=True Scheduled: Successfully scheduled resources for placement in \"{cluster}\" (affinity score: 0, topology spread score: 0): picked by scheduling policy
  RolloutStarted=True RolloutStarted: Detected the new changes on the resources and started the rollout process{rollout}
  Overridden=True NoOverrideSpecified: No override rules are configured for the selected resources
  WorkSynchronized=True AllWorkSynced: All of the works are synchronized to the latest
  Applied=True AllWorkHaveBeenApplied: All corresponding work objects are applied
  Available=False NotAllWorkAreAvailable: Work object {name}-work is not yet available
  failed Deployment {name}/nginx-deployment
    Available=False ManifestNotAvailableYet: Manifest is not yet available; Fleet will check again later
"
    )
}

fn is_failed(cluster: &'static str) -> impl Fn(Option<&Value>) -> bool {
    move |found| {
        found.is_some_and(|crp| {
            rows(&crp["status"], "placementStatuses").any(|one| {
                one["clusterName"] == cluster && rows(one, "failedPlacements").next().is_some()
            })
        })
    }
}

pub(super) async fn bad_image(clusters: &Clusters) {
    let strategy = "{type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}}";
    broken(clusters, "broken", strategy).await;
    for cluster in ["member1", "member2", "member3"] {
        clusters.hub.eventually(CRP, "", "broken", is_failed(cluster)).await;
    }
    let told = placement(&clusters.hub, "broken").await;
    for cluster in ["member1", "member2", "member3"] {
        let expected = not_available(cluster, "broken", "");
        assert!(told.contains(&expected), "expected:\n{expected}\ntold:\n{told}");
    }
    let member = clusters.member("member2");
    let web = member.get("deployments", "broken", "nginx-deployment").await;
    assert_eq!(web["status"]["replicas"], 3);
    assert!(web["status"]["availableReplicas"].is_null());
    for pod in member.list("pods", "broken").await {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let is_refused = |found: Option<&Value>| {
            let at = "/status/containerStatuses/0/state/waiting/reason";
            found.and_then(|pod| pod.pointer(at)).is_some_and(|why| why == "InvalidImageName")
        };
        member.eventually("pods", "broken", name, is_refused).await;
    }
}

pub(super) async fn stuck_run(clusters: &Clusters) {
    let label = |name: &'static str| json!({"metadata": {"labels": {"environment": name}}});
    clusters.hub.patch("memberclusters", "", "member2", label("staging")).await;
    clusters.hub.patch("memberclusters", "", "member1", label("prod")).await;
    clusters.hub.patch("memberclusters", "", "member3", label("prod")).await;
    broken(clusters, "stuck", "{type: External}").await;
    let scheduled = "ClusterResourcePlacementScheduled";
    clusters.hub.becomes(CRP, "", "stuck", scheduled, "True").await;
    clusters
        .hub
        .apply(
            "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: stuck}
spec:
  stages:
  - name: staging
    labelSelector: {matchLabels: {environment: staging}}
    maxConcurrency: 1
    afterStageTasks: [{type: Approval}]
  - name: prod
    labelSelector: {matchLabels: {environment: prod}}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata: {name: stuck-run}
spec: {placementName: stuck, stagedRolloutStrategyName: stuck, state: Run}
",
        )
        .await;
    let runs = "clusterstagedupdateruns";
    let is_stuck = |found: Option<&Value>| {
        found.is_some_and(|run| {
            rows(&run["status"], "conditions").any(|one| one["reason"] == "UpdateRunStuck")
        })
    };
    let run = clusters.hub.eventually_within(600, runs, "", "stuck-run", is_stuck).await;
    let run = run.unwrap_or_default();
    assert_eq!(
        conditions(&run["status"]),
        [
            "Initialized=True UpdateRunInitializedSuccessfully: The UpdateRun initialized successfully",
            "Progressing=False UpdateRunStuck: The updateRun is stuck waiting for member2 cluster(s) in stage staging to finish updating, please check placement status for potential errors",
        ]
    );
    clusters.hub.eventually(CRP, "", "stuck", is_failed("member2")).await;
    let told = placement(&clusters.hub, "stuck").await;
    let expected =
        not_available("member2", "stuck", ", resourceSnapshotIndex: 0, updateRun: stuck-run");
    assert!(told.contains(&expected), "expected:\n{expected}\ntold:\n{told}");
}
