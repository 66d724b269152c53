//! From the hub to the members, and away again.

use serde_json::json;

use super::telling::placement;
use crate::fleet::Clusters;

const CRP: &str = "clusterresourceplacements";

/// A namespace with a Deployment, its settings and a Service, and a placement on all
/// members.
fn shop(name: &str, image: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Namespace
metadata: {{name: {name}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings, namespace: {name}}}
data: {{greeting: hello}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: {name}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers: [{{name: web, image: '{image}'}}]
---
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: {name}}}
spec:
  selector: {{app: web}}
  ports: [{{port: 80}}]
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {{name: {name}}}
spec:
  resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: {name}}}]
  policy: {{placementType: PickAll}}
  strategy: {{type: RollingUpdate}}
"
    )
}

/// Gives the members a shop and waits until it works everywhere.
pub(super) async fn open_shop(clusters: &Clusters, name: &str, image: &str) {
    clusters.hub.apply(&shop(name, image)).await;
    is_available(clusters, name).await;
}

/// Waits until the placement says that all is well for its present generation.
pub(super) async fn is_available(clusters: &Clusters, name: &str) {
    clusters.hub.becomes(CRP, "", name, "ClusterResourcePlacementAvailable", "True").await;
}

pub(super) async fn arrives(clusters: &Clusters) {
    open_shop(clusters, "shop", "nginx:1.25").await;
    for member in clusters.members() {
        let settings = member.get("configmaps", "shop", "settings").await;
        assert_eq!(settings["data"], json!({"greeting": "hello"}));
        let web = member.get("deployments", "shop", "web").await;
        assert_eq!(web["status"]["availableReplicas"], 2, "{}", member.name());
        assert_eq!(web["metadata"]["generation"], 1, "applied once");
        assert!(member.find("services", "shop", "web").await.is_some());
        assert_eq!(member.list("pods", "shop").await.len(), 2);
    }
    let cluster = |name: &str| {
        format!(
            "\
{name}:
  Scheduled=True Scheduled: Successfully scheduled resources for placement in \"{name}\" (affinity score: 0, topology spread score: 0): picked by scheduling policy
  RolloutStarted=True RolloutStarted: Detected the new changes on the resources and started the rollout process
  Overridden=True NoOverrideSpecified: No override rules are configured for the selected resources
  WorkSynchronized=True AllWorkSynced: All of the works are synchronized to the latest
  Applied=True AllWorkHaveBeenApplied: All corresponding work objects are applied
  Available=True AllWorkAreAvailable: All corresponding work objects are available
"
        )
    };
    let expected = format!(
        "\
ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 3 cluster(s)
ClusterResourcePlacementRolloutStarted=True RolloutStarted: All 3 cluster(s) start rolling out the latest resource
ClusterResourcePlacementOverridden=True NoOverrideSpecified: No override rules are configured for the selected resources
ClusterResourcePlacementWorkSynchronized=True WorkSynchronized: Work(s) are successfully created or updated in 3 target cluster(s)' namespaces
ClusterResourcePlacementApplied=True ApplySucceeded: The selected resources are successfully applied to 3 cluster(s)
ClusterResourcePlacementAvailable=True ResourceAvailable: The selected resources in 3 cluster(s) are available now
{}{}{}",
        cluster("member1"),
        cluster("member2"),
        cluster("member3")
    );
    assert_eq!(placement(&clusters.hub, "shop").await, expected);
}

pub(super) async fn edited(clusters: &Clusters) {
    open_shop(clusters, "edited", "nginx:1.25").await;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "nginx:1.26"}]}}}});
    clusters.hub.patch("deployments", "edited", "web", image).await;
    clusters
        .hub
        .patch("configmaps", "edited", "settings", json!({"data": {"greeting": "salut"}}))
        .await;
    for member in clusters.members() {
        let is_new = |found: Option<&serde_json::Value>| {
            found.is_some_and(|web| {
                web["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:1.26"
                    && web["status"]["availableReplicas"] == 2
            })
        };
        let web = member.eventually("deployments", "edited", "web", is_new).await;
        let generation = web.map(|web| web["metadata"]["generation"].clone());
        assert_eq!(generation, Some(json!(2)), "changed once");
        let is_new = |found: Option<&serde_json::Value>| {
            found.is_some_and(|map| map["data"]["greeting"] == "salut")
        };
        member.eventually("configmaps", "edited", "settings", is_new).await;
    }
    is_available(clusters, "edited").await;
}

pub(super) async fn defined(clusters: &Clusters) {
    clusters
        .hub
        .apply(
            "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kites.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: kites, singular: kite, kind: Kite}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {colour: {type: string}}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: sky}
",
        )
        .await;
    clusters
        .hub
        .becomes("customresourcedefinitions", "", "kites.example.com", "Established", "True")
        .await;
    clusters
        .hub
        .apply(
            "
apiVersion: example.com/v1
kind: Kite
metadata: {name: first, namespace: sky}
spec: {colour: red}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: sky}
spec:
  resourceSelectors:
  - {group: '', version: v1, kind: Namespace, name: sky}
  - {group: apiextensions.k8s.io, version: v1, kind: CustomResourceDefinition, name: kites.example.com}
  policy: {placementType: PickAll}
  strategy: {type: RollingUpdate, rollingUpdate: {unavailablePeriodSeconds: 1}}
",
        )
        .await;
    for member in clusters.members() {
        let is_red = |found: Option<&serde_json::Value>| {
            found.is_some_and(|kite| kite["spec"]["colour"] == "red")
        };
        member.eventually("kites", "sky", "first", is_red).await;
    }
    is_available(clusters, "sky").await;
}

pub(super) async fn deleted(clusters: &Clusters) {
    open_shop(clusters, "closing", "nginx:1.25").await;
    clusters.hub.delete(CRP, "", "closing").await;
    clusters.hub.goes(CRP, "", "closing").await;
    for member in clusters.members() {
        member.goes("namespaces", "", "closing").await;
        assert!(member.list("appliedworks", "").await.iter().all(|one| {
            !one["metadata"]["name"].as_str().unwrap_or_default().starts_with("closing-")
        }));
        let space = format!("fleet-member-{}", member.name());
        let works = clusters.hub.list("works", &space).await;
        assert!(works.iter().all(|one| {
            !one["metadata"]["name"].as_str().unwrap_or_default().starts_with("closing-")
        }));
    }
}
