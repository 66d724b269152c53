//! Statuses that people know from the documents, word for word, from `create` on.

use flagship_api::condition::Condition;
use flagship_api::placement::{ClusterResourcePlacement, ResourcePlacement};
use flagship_api::placement_status::{PerClusterPlacementStatus, PlacementStatus};
use flagship_runtime::client::Client;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::placement::story::{CRS, RS, Story};
use flagship_sim::testing::text;

/// As `kubectl describe` prints a status, without its columns.
fn described(status: &PlacementStatus) -> String {
    let mut out = String::from("Status:\nConditions:\n");
    status.conditions.iter().for_each(|condition| describe(&mut out, condition));
    if !status.observed_resource_index.is_empty() {
        out.push_str(&format!("Observed Resource Index: {}\n", status.observed_resource_index));
    }
    out.push_str("Placement Statuses:\n");
    for PerClusterPlacementStatus { cluster_name, conditions, .. } in &status.placement_statuses {
        out.push_str(&format!("Cluster Name: {cluster_name}\nConditions:\n"));
        conditions.iter().for_each(|condition| describe(&mut out, condition));
    }
    out
}

fn describe(out: &mut String, told: &Condition) {
    out.push_str(&format!("Last Transition Time: {}\n", told.last_transition_time.0));
    out.push_str(&format!("Message: {}\n", told.message));
    out.push_str(&format!(
        "Observed Generation: {}\n",
        told.observed_generation.unwrap_or_default()
    ));
    out.push_str(&format!(
        "Reason: {}\nStatus: {}\nType: {}\n",
        told.reason, told.status, told.type_
    ));
}

/// Lines without indentation and columns.
fn plain(text: &str) -> String {
    let lines = text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|l| !l.is_empty()).map(|l| format!("{l}\n")).collect()
}

/// What the documents print for a placement of two clusters that no run has touched.
fn document(prefix: &str, time: &str) -> String {
    let cluster = |name: &str| {
        format!(
            r#"
    Cluster Name:  {name}
    Conditions:
      Last Transition Time:  {time}
      Message:               Successfully scheduled resources for placement in "{name}" (affinity score: 0, topology spread score: 0): picked by scheduling policy
      Observed Generation:   1
      Reason:                Scheduled
      Status:                True
      Type:                  Scheduled
      Last Transition Time:  {time}
      Message:               In the process of deciding whether to roll out some version of the resources or not
      Observed Generation:   1
      Reason:                RolloutStartedUnknown
      Status:                Unknown
      Type:                  RolloutStarted
"#
        )
    };
    plain(&format!(
        r#"
Status:
  Conditions:
    Last Transition Time:  {time}
    Message:               found all cluster needed as specified by the scheduling policy, found 2 cluster(s)
    Observed Generation:   1
    Reason:                SchedulingPolicyFulfilled
    Status:                True
    Type:                  {prefix}Scheduled
    Last Transition Time:  {time}
    Message:               Rollout is controlled by an external controller and no resource snapshot name is observed across clusters, probably rollout has not started yet
    Observed Generation:   1
    Reason:                RolloutControlledByExternalController
    Status:                Unknown
    Type:                  {prefix}RolloutStarted
  Placement Statuses:{}{}"#,
        cluster("member1"),
        cluster("member2")
    ))
}

fn placement(meta: Value, selectors: Value) -> Value {
    let spec = json!({
        "resourceSelectors": selectors,
        "policy": {"placementType": "PickAll"},
        "strategy": {"type": "External"},
    });
    json!({"metadata": meta, "spec": spec})
}

/// The newest document (seed 004) shows both scopes; the oldest (seed 003) shows either in
/// an older wording, of which today's stands here. Seed 000 shows the same of three
/// clusters, which is held against the rules.
#[tokio::test(start_paused = true)]
async fn a_placement_that_waits_for_a_run_reads_as_the_documents_say() {
    let story = Story::both_scopes(61).await.starts().await;
    story.namespace("my-app-namespace", json!({})).await;
    let user = Client::in_process(story.hub.called_by("someone"));
    let post = PostParams::default();
    let wide: Api<ClusterResourcePlacement> = Api::all(user.kube().clone());
    let narrow: Api<ResourcePlacement> = Api::namespaced(user.kube().clone(), "my-app-namespace");
    let namespaces = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "app"}]);
    let deployments = json!([{"group": "apps", "version": "v1", "kind": "Deployment", "name": "nginx-deployment"}]);
    for name in ["example-placement", "older-placement"] {
        let one = placement(json!({"name": name}), namespaces.clone());
        wide.create(&post, &serde_json::from_value(one).unwrap()).await.unwrap();
    }
    for name in ["web-app-placement", "older-placement"] {
        let meta = json!({"name": name, "namespace": "my-app-namespace"});
        let one = placement(meta, deployments.clone());
        narrow.create(&post, &serde_json::from_value(one).unwrap()).await.unwrap();
    }
    story.settle().await;
    for name in ["example-placement", "older-placement"] {
        let read = wide.get(name).await.unwrap();
        let status = read.status.unwrap();
        let since = status.conditions[0].last_transition_time.0.to_string();
        assert_eq!(described(&status), document("ClusterResourcePlacement", &since));
        // While no run has chosen a version, the status shows none.
        assert!(status.selected_resources.is_empty());
        assert_eq!(read.metadata.generation, Some(1));
        assert_eq!(
            read.metadata.finalizers.unwrap(),
            ["kubernetes-fleet.io/crp-cleanup", "kubernetes-fleet.io/scheduler-cleanup"]
        );
    }
    for name in ["web-app-placement", "older-placement"] {
        let status = narrow.get(name).await.unwrap().status.unwrap();
        let since = status.conditions[0].last_transition_time.0.to_string();
        assert_eq!(described(&status), document("ResourcePlacement", &since));
    }
    // Versions are the runs' to make, whatever changes.
    story.map("app", "settings", "x").await;
    story.settle().await;
    assert_eq!((story.snapshots(CRS).len(), story.snapshots(RS).len()), (0, 0));
    assert!(
        story
            .events("ClusterResourcePlacement")
            .iter()
            .all(|event| !event.contains(" PlacementRollout"))
    );
    let kind = text(&story.get(flagship_sim::testing::CRP, "", "example-placement")["kind"]);
    assert_eq!(kind, "ClusterResourcePlacement");
}
