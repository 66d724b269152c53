//! Plans, whole: after an image and a ConfigMap have changed, with an override, with clusters
//! in no stage, with a kind that members do not serve. The page gets the same values.

use expect_test::expect;
use serde_json::{Value, json};

use super::console::timeless;
use super::{API, CLUSTER, NAMESPACED, Scenario, Scope};

impl Scenario {
    /// A fleet that has everything rolled out, and then a new image, a new setting and an
    /// override on the canaries.
    pub(super) async fn changed(scope: Scope) -> Self {
        let scenario = Self::begin(scope).await;
        scenario.set("1").await;
        let home = scope.home();
        let selectors = match scope {
            CLUSTER => Value::Null,
            NAMESPACED => json!([
                {"group": "apps", "version": "v1", "kind": "Deployment", "name": "nginx-deployment"},
                {"group": "", "version": "v1", "kind": "ConfigMap", "name": "app"},
            ]),
        };
        scenario
            .place_with(json!({"resourceSelectors": selectors,
                "policy": {"placementType": "PickAll"}, "strategy": {"type": "External"}}))
            .await;
        scenario.strategy(json!({"afterStageTasks": [{"type": "Approval"}]})).await;
        scenario.pass(5).await;
        scenario.start("example-placement --name first").await;
        scenario.approve("first staging").await;
        scenario.until("first", "UpdateRunSucceeded").await;
        scenario.deploy("nginx:1.28").await;
        scenario.set("2").await;
        let canaries = json!({"clusterSelectorTerms": [
            {"labelSelector": {"matchLabels": {"environment": "canary"}}}]});
        let policy = json!({"overrideRules": [{"clusterSelector": canaries,
            "jsonPatchOverrides": [{"op": "replace", "path": "/spec/replicas", "value": 5}]}]});
        let selectors = json!([{"group": "apps", "version": "v1", "kind": "Deployment",
            "name": "nginx-deployment"}]);
        let object = json!({"apiVersion": API, "kind": "ResourceOverride",
            "metadata": {"name": "canary-replicas", "namespace": home},
            "spec": {"resourceSelectors": selectors, "policy": policy}});
        scenario.hub().apply_object(&object).await;
        scenario.pass(60).await;
        scenario
    }

    /// The application's settings.
    async fn set(&self, version: &str) {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "app", "namespace": self.scope.home()},
            "data": {"version": version}});
        self.hub().apply_object(&object).await;
    }

    async fn label(&self, member: &str, environment: Value) {
        let labels = json!({"metadata": {"labels": {"environment": environment}}});
        self.hub().patch("MemberCluster", "", member, labels).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_plan_after_an_image_a_setting_and_an_override_changed() {
    let scenario = Scenario::changed(CLUSTER).await;
    expect![[r#"
        Rolling out example-placement with strategy example-strategy

        STAGE  CLUSTERS  AT ONCE  GATES
        staging  member2  1  approval after
        canary  member1 member3  1

        3 cluster(s), 1 approval(s).

        now:  snapshot 0 on 3
        changes:  2 object(s), against snapshot 0
          ~ ConfigMap test-namespace/app
              data.version: 1 → 2
          ~ Deployment test-namespace/nginx-deployment  restarts 3 pod(s) a cluster
              spec.template.spec.containers[nginx].image: nginx:1.27 → nginx:1.28
        overrides:
          ResourceOverride test-namespace/canary-replicas on Deployment test-namespace/nginx-deployment
              spec.replicas: 3 → 5
              on:  2 cluster(s), member1, member3
        pods that restart: 13 on all clusters

        start it:  flagship run example-placement --strategy example-strategy --plan fadde861375e7fd3c5d77ba71ceb6800.7e6c3d4deda4c3d1
        [exit 0]
    "#]].assert_eq(&scenario.plan("example-placement").await);
    let scenario = Scenario::changed(NAMESPACED).await;
    expect![[r#"
        Rolling out my-app-namespace/example-placement with strategy example-strategy

        STAGE  CLUSTERS  AT ONCE  GATES
        staging  member2  1  approval after
        canary  member1 member3  1

        3 cluster(s), 1 approval(s).

        now:  snapshot 0 on 3
        changes:  2 object(s), against snapshot 0
          ~ ConfigMap my-app-namespace/app
              data.version: 1 → 2
          ~ Deployment my-app-namespace/nginx-deployment  restarts 3 pod(s) a cluster
              spec.template.spec.containers[nginx].image: nginx:1.27 → nginx:1.28
        overrides:
          ResourceOverride my-app-namespace/canary-replicas on Deployment my-app-namespace/nginx-deployment
              spec.replicas: 3 → 5
              on:  2 cluster(s), member1, member3
        pods that restart: 13 on all clusters

        start it:  flagship run -n my-app-namespace example-placement --strategy example-strategy --plan 2aef28ae15bffe816e70a616be01b364.6c893d4deda4478b
        [exit 0]
    "#]].assert_eq(&scenario.plan("example-placement").await);
}

#[tokio::test(start_paused = true)]
async fn a_plan_counts_all_clusters_in_no_stage_by_what_they_lack() {
    let scenario = Scenario::changed(CLUSTER).await;
    scenario.label("member1", Value::Null).await;
    scenario.label("member3", json!("dev")).await;
    scenario.pass(5).await;
    expect![[r#"
        a run of example-placement would be refused: no stage selects member1, member3.

          cause  CLUSTER_IN_NO_STAGE  a chosen cluster's labels match no stage
          because  some clusters are not placed in any stage, total 2, showing up to 10: member1, member3

          no stage  1 cluster  environment=dev: member3
          no stage  1 cluster  no label environment: member1

          look  compare labels and stages:  kubectl --context hub get memberclusters --show-labels
          fix  correct the strategy:  kubectl --context hub edit csus example-strategy
          then  start again with a new run:  flagship run example-placement
          more  flagship explain CLUSTER_IN_NO_STAGE
        [exit 5]
    "#]].assert_eq(&scenario.plan("example-placement").await);
    let scenario = Scenario::changed(NAMESPACED).await;
    scenario.label("member3", Value::Null).await;
    scenario.pass(5).await;
    expect![[r#"
        a run of example-placement would be refused: no stage selects member3.

          cause  CLUSTER_IN_NO_STAGE  a chosen cluster's labels match no stage
          because  some clusters are not placed in any stage, total 1, showing up to 10: member3

          no stage  1 cluster  no label environment: member3

          look  compare labels and stages:  kubectl --context hub get memberclusters --show-labels
          fix  correct the strategy:  kubectl --context hub -n my-app-namespace edit sus example-strategy
          then  start again with a new run:  flagship run -n my-app-namespace example-placement
          more  flagship explain CLUSTER_IN_NO_STAGE
        [exit 5]
    "#]].assert_eq(&scenario.plan("example-placement").await);
}

/// A hub asks no member what it serves: it knows what was refused, and what was applied.
#[tokio::test(start_paused = true)]
async fn a_plan_says_where_a_kind_is_missing_or_may_be() {
    let scenario = Scenario::begin(CLUSTER).await;
    let definition = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
";
    let hub = scenario.hub();
    hub.apply(definition).await;
    hub.becomes("customresourcedefinitions", "", "widgets.example.com", "Established", "True")
        .await;
    hub.apply("{apiVersion: example.com/v1, kind: Widget, metadata: {name: round, namespace: test-namespace}}")
        .await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({})).await;
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunStuck").await;
    let stuck = scenario.plan("example-placement").await;
    let fails = "fails:  would fail on 1 cluster(s), member2: no kind Widget of example.com";
    assert!(stuck.contains(fails), "{stuck}");
    assert!(stuck.contains("unknown:  whether 2 cluster(s) serve kind Widget"), "{stuck}");
}

/// The page shows what the command prints, from the same value.
#[tokio::test(start_paused = true)]
async fn the_page_gets_the_plan_that_the_command_prints() {
    for scope in [CLUSTER, NAMESPACED] {
        let scenario = Scenario::changed(scope).await;
        let shown = timeless(scenario.planned_on_page().await);
        let printed = scenario.plan("example-placement -o json").await;
        let printed: Value =
            serde_json::from_str(printed.trim_end().trim_end_matches("[exit 0]")).unwrap();
        let printed = timeless(printed);
        assert!(!printed["effect"]["overrides"].as_array().unwrap().is_empty(), "{printed:#}");
        for field in
            ["stages", "atOnce", "clusters", "approvals", "passed", "frozen", "policies", "effect"]
        {
            assert_eq!(shown[field], printed[field], "{field}");
        }
        assert_eq!(shown["open"], printed["openRuns"]);
    }
}
