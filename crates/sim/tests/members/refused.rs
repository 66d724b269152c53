//! Controllers whose writes somebody's admission policy refuses: when it is gone, what they could
//! not write is written, although nothing tells them.

use flagship_sim::fleet::{Cluster, Fleet, FleetConfig};
use serde_json::{Value, json};

const POLICIES: &str = "validatingadmissionpolicies";
const POLICY_BINDINGS: &str = "validatingadmissionpolicybindings";
const CRP: &str = "clusterresourceplacements";
const RUNS: &str = "clusterstagedupdateruns";

/// How a policy may refuse: the server answers with 422, 403 and 413.
const REASONS: [&str; 3] = ["Invalid", "Forbidden", "RequestEntityTooLarge"];

/// How long a policy is in force: long enough for every back-off to have grown to its longest.
const CLOSED: u64 = 20 * 60;
/// The longest back-off, and a little for what comes after.
const PATIENCE: u64 = 6 * 60;

/// Has a policy refuse every write of these, as `group/resource`.
async fn close(hub: &Cluster, resource: &str, reason: &str) {
    let rule = json!({"operations": ["CREATE", "UPDATE"], "apiGroups": ["placement.kubernetes-fleet.io"],
        "apiVersions": ["*"], "resources": [resource]});
    let spec = json!({"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "false", "message": "not now", "reason": reason}]});
    let kind = |kind: &str, spec: Value| {
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": "closed"}, "spec": spec})
    };
    hub.apply_object(&kind("ValidatingAdmissionPolicy", spec)).await;
    let spec = json!({"policyName": "closed", "validationActions": ["Deny"]});
    hub.apply_object(&kind("ValidatingAdmissionPolicyBinding", spec)).await;
}

async fn open(hub: &Cluster) {
    hub.delete(POLICY_BINDINGS, "", "closed").await;
    hub.delete(POLICIES, "", "closed").await;
}

fn is_true(found: Option<&Value>, kind: &str) -> bool {
    let conditions = found.and_then(|object| object["status"]["conditions"].as_array());
    conditions.into_iter().flatten().any(|one| one["type"] == kind && one["status"] == "True")
}

fn placement(strategy: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Namespace
metadata: {{name: app}}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {{name: web}}
spec:
  resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: app}}]
  policy: {{placementType: PickAll}}
  strategy: {{type: {strategy}}}
"
    )
}

const RUN: &str = "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: all}
spec:
  stages: [{name: all, labelSelector: {}, maxConcurrency: 1}]
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata: {name: r}
spec: {placementName: web, stagedRolloutStrategyName: all, state: Run}
";

#[tokio::test(start_paused = true)]
async fn a_placement_goes_on_when_the_policy_that_refused_it_is_gone() {
    let written = [
        "clusterresourcesnapshots",
        "clusterschedulingpolicysnapshots",
        "clusterresourcebindings",
        "clusterresourcebindings/status",
        "clusterresourceplacements/status",
        "works",
        "works/status",
    ];
    for (nth, resource) in written.into_iter().enumerate() {
        let reason = REASONS[nth % REASONS.len()];
        let fleet = Fleet::joined(FleetConfig::of(2)).await;
        let hub = &fleet.clusters.hub;
        close(hub, resource, reason).await;
        hub.apply(&placement("RollingUpdate")).await;
        fleet.pass(CLOSED).await;
        let found = hub.find(CRP, "", "web").await;
        assert!(!is_true(found.as_ref(), "ClusterResourcePlacementAvailable"), "{resource}");
        open(hub).await;
        let available = |found: Option<&Value>| is_true(found, "ClusterResourcePlacementAvailable");
        hub.eventually_within(PATIENCE, CRP, "", "web", available).await;
        for member in fleet.clusters.members() {
            assert!(member.find("namespaces", "", "app").await.is_some(), "{resource} {reason}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_when_the_policy_that_refused_it_is_gone() {
    let written = [
        "clusterstagedupdateruns/status",
        "clusterresourcebindings",
        "clusterresourcebindings/status",
        "works",
        "works/status",
    ];
    for (nth, resource) in written.into_iter().enumerate() {
        let reason = REASONS[nth % REASONS.len()];
        let fleet = Fleet::joined(FleetConfig::of(2)).await;
        let hub = &fleet.clusters.hub;
        hub.apply(&placement("External")).await;
        hub.becomes(CRP, "", "web", "ClusterResourcePlacementScheduled", "True").await;
        close(hub, resource, reason).await;
        hub.apply(RUN).await;
        fleet.pass(CLOSED).await;
        assert!(!is_true(hub.find(RUNS, "", "r").await.as_ref(), "Succeeded"), "{resource}");
        open(hub).await;
        let succeeded = |found: Option<&Value>| is_true(found, "Succeeded");
        hub.eventually_within(PATIENCE * 3, RUNS, "", "r", succeeded).await;
    }
}
