//! What a member refuses to apply, or must not: webhooks, fields, kinds, owners, drifts.

use std::sync::Arc;

use expect_test::expect;
use flagship_apiserver::rest::{Admission, Review};
use flagship_base::machinery::status::ApiError;
use serde_json::{Value, json};

use super::{API, CLUSTER, NAMESPACED, Scenario};

/// A policy on a member that lets no settings in.
struct NoSettings;

impl Admission for NoSettings {
    fn validate(&self, review: &mut Review<'_>) -> Result<(), ApiError> {
        if review.kind != "ConfigMap" || review.name != "settings" {
            return Ok(());
        }
        Err(ApiError::new(
            403,
            "Forbidden",
            "admission webhook \"policy.example.com\" denied the request: settings need an owner label",
        ))
    }
}

/// A ConfigMap beside the application.
async fn settings(scenario: &Scenario, data: Value) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": scenario.scope.home()}, "data": data});
    scenario.hub().apply_object(&map).await;
}

#[tokio::test(start_paused = true)]
async fn an_admission_webhook_of_the_member_is_quoted() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.handle("member2").install_admission("policy", Arc::new(NoSettings));
    settings(&scenario, json!({"greeting": "hello"})).await;
    scenario.gets_stuck(json!({"type": "External"})).await;
    expect![[r#"
        example-run is stuck in stage staging: member2 has not become available for <age>.

          cause  WEBHOOK_DENIED  ConfigMap test-namespace/settings was not applied on member2: an admission webhook refused the object
          because  admission webhook "policy.example.com" denied the request: settings need an owner label

          run  example-run  Progressing=False  UpdateRunStuck
          binding  example-placement-member2-<hash>  Applied=False  NotAllWorkHaveBeenApplied
          work  fleet-member-member2/example-placement-work  Applied=False  ManifestApplyFailed
          object  ConfigMap test-namespace/settings  (member2)  ManifestApplyFailed

          look  see the webhooks of the member:  kubectl --context member2 get validatingwebhookconfigurations,mutatingwebhookconfigurations
          fix  correct the object on the hub:  kubectl --context hub -n test-namespace edit configmap/settings
          then  roll the fix out:  flagship run example-placement
          more  flagship explain WEBHOOK_DENIED
        [exit 3]
    "#]].assert_eq(&scenario.why("example-run").await);
}

#[tokio::test(start_paused = true)]
async fn a_field_that_cannot_change_is_named() {
    let scenario = Scenario::rolling(CLUSTER, json!({})).await;
    scenario.until("example-run", "UpdateRunSucceeded").await;
    // Made anew on the hub, which is what no member may do by itself.
    let mut object = scenario.hub().get("deployments", "test-namespace", "nginx-deployment").await;
    scenario.hub().delete("deployments", "test-namespace", "nginx-deployment").await;
    scenario.hub().goes("deployments", "test-namespace", "nginx-deployment").await;
    object["metadata"] = json!({"name": "nginx-deployment", "namespace": "test-namespace"});
    object["status"] = json!(null);
    object["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
    object["spec"]["template"]["metadata"] = json!({"labels": {"app": "web"}});
    scenario.hub().apply_object(&object).await;
    scenario.pass(2).await;
    scenario.run("second-run", "Run").await;
    scenario.until("second-run", "UpdateRunStuck").await;
    expect![[r#"
        second-run is stuck in stage staging: member2 has not become available for <age>.

          cause  FIELD_IMMUTABLE  Deployment test-namespace/nginx-deployment was not applied on member2: a field cannot be changed once the object exists
          because  Deployment.apps "nginx-deployment" is invalid: spec.selector: Invalid value: {"matchLabels":{"app":"web"}}: field is immutable

          run  second-run  Progressing=False  UpdateRunStuck
          binding  example-placement-member2-<hash>  Applied=False  NotAllWorkHaveBeenApplied
          work  fleet-member-member2/example-placement-work  Applied=False  ManifestApplyFailed
          object  Deployment test-namespace/nginx-deployment  (member2)  ManifestApplyFailed

          fix  set the field back on the hub:  kubectl --context hub -n test-namespace edit deployment.apps/nginx-deployment
          or  let it be made anew: delete it on the member:  kubectl --context member2 -n test-namespace delete deployment.apps/nginx-deployment
          then  roll the fix out:  flagship run example-placement
          more  flagship explain FIELD_IMMUTABLE
        [exit 3]
    "#]].assert_eq(&scenario.why("second-run").await);
}

#[tokio::test(start_paused = true)]
async fn a_kind_the_member_does_not_serve_is_named() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.hub()
        .apply(
            "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
",
        )
        .await;
    scenario
        .hub()
        .becomes("customresourcedefinitions", "", "widgets.example.com", "Established", "True")
        .await;
    scenario.hub()
        .apply("{apiVersion: example.com/v1, kind: Widget, metadata: {name: round, namespace: test-namespace}}")
        .await;
    scenario.gets_stuck(json!({"type": "External"})).await;
    expect![[r#"
        example-run is stuck in stage staging: member2 has not become available for <age>.

          cause  KIND_MISSING  Widget test-namespace/round was not applied on member2: the member does not serve this kind
          because  no matches for kind "Widget" in version "example.com/v1"

          run  example-run  Progressing=False  UpdateRunStuck
          binding  example-placement-member2-<hash>  Applied=False  NotAllWorkHaveBeenApplied
          work  fleet-member-member2/example-placement-work  Applied=False  DecodingErred
          object  Widget test-namespace/round  (member2)  DecodingErred

          look  see what the member serves:  kubectl --context member2 api-resources
          fix  select the CustomResourceDefinition in the placement too
          then  roll the fix out:  flagship run example-placement
          more  flagship explain KIND_MISSING
        [exit 3]
    "#]].assert_eq(&scenario.why("example-run").await);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_the_member_lacks_is_named() {
    let scenario = Scenario::begin(NAMESPACED).await;
    scenario.member("member2").delete("namespaces", "", "my-app-namespace").await;
    scenario.member("member2").goes("namespaces", "", "my-app-namespace").await;
    scenario.gets_stuck(json!({"type": "External"})).await;
    expect![[r#"
        my-app-namespace/example-run is stuck in stage staging: member2 has not become available for <age>.

          cause  NAMESPACE_MISSING  Deployment my-app-namespace/nginx-deployment was not applied on member2: the namespace does not exist on the member
          because  namespaces "my-app-namespace" not found

          run  my-app-namespace/example-run  Progressing=False  UpdateRunStuck
          binding  my-app-namespace/example-placement-member2-<hash>  Applied=False  NotAllWorkHaveBeenApplied
          work  fleet-member-member2/my-app-namespace.example-placement-work  Applied=False  ManifestApplyFailed
          object  Deployment my-app-namespace/nginx-deployment  (member2)  ManifestApplyFailed

          fix  create the namespace on the member, or select it in the placement:  kubectl --context member2 create namespace my-app-namespace
          then  nothing more: the run goes on by itself
          more  flagship explain NAMESPACE_MISSING
        [exit 3]
    "#]].assert_eq(&scenario.why("example-run").await);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_belongs_to_somebody_else_is_left_alone() {
    let scenario = Scenario::begin(CLUSTER).await;
    let member = scenario.member("member2");
    member.apply("{apiVersion: v1, kind: Namespace, metadata: {name: test-namespace}}").await;
    member.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: landlord, namespace: test-namespace}}").await;
    let landlord = member.get("configmaps", "test-namespace", "landlord").await;
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "landlord",
        "uid": landlord["metadata"]["uid"]}]);
    member
        .apply_object(&json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "settings", "namespace": "test-namespace", "ownerReferences": owner},
            "data": {"greeting": "theirs"}}))
        .await;
    settings(&scenario, json!({"greeting": "ours"})).await;
    scenario
        .gets_stuck(json!({"type": "External", "applyStrategy": {"allowCoOwnership": false}}))
        .await;
    expect![[r#"
        example-run is stuck in stage staging: member2 has not become available for <age>.

          cause  OWNERSHIP_CONFLICT  ConfigMap test-namespace/settings was not applied on member2: the object on the member belongs to somebody else
          because  the object is already owned by some other sources(s) and co-ownership is disallowed: ConfigMap landlord

          run  example-run  Progressing=False  UpdateRunStuck
          binding  example-placement-member2-<hash>  Applied=False  NotAllWorkHaveBeenApplied
          work  fleet-member-member2/example-placement-work  Applied=False  FailedToTakeOver
          object  ConfigMap test-namespace/settings  (member2)  FailedToTakeOver

          look  see the object on the member:  kubectl --context member2 -n test-namespace get configmap/settings -o yaml
          fix  take it away from its owner, or name another object
          then  nothing more: the run goes on by itself
          more  flagship explain OWNERSHIP_CONFLICT
        [exit 3]
    "#]].assert_eq(&scenario.why("example-run").await);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_was_there_before_may_not_be_taken_over() {
    let scenario = Scenario::begin(CLUSTER).await;
    let member = scenario.member("member2");
    member.apply("{apiVersion: v1, kind: Namespace, metadata: {name: test-namespace}}").await;
    member.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: test-namespace}, data: {greeting: theirs}}").await;
    settings(&scenario, json!({"greeting": "ours"})).await;
    scenario
        .gets_stuck(json!({"type": "External", "applyStrategy": {"whenToTakeOver": "Never"}}))
        .await;
    expect![[r#"
        example-run is stuck in stage staging: member2 has not become available for <age>.

          cause  OWNERSHIP_CONFLICT  ConfigMap test-namespace/settings was not applied on member2: the object on the member belongs to somebody else
          because  no ownership of the object in the member cluster; takeover is needed

          run  example-run  Progressing=False  UpdateRunStuck
          binding  example-placement-member2-<hash>  Applied=False  NotAllWorkHaveBeenApplied
          work  fleet-member-member2/example-placement-work  Applied=False  NotTakenOver
          object  ConfigMap test-namespace/settings  (member2)  NotTakenOver

          look  see the object on the member:  kubectl --context member2 -n test-namespace get configmap/settings -o yaml
          fix  delete it there, and it is made anew:  kubectl --context member2 -n test-namespace delete configmap/settings
          then  nothing more: the run goes on by itself
          more  flagship explain OWNERSHIP_CONFLICT
        [exit 3]
    "#]].assert_eq(&scenario.why("example-run").await);
}

#[tokio::test(start_paused = true)]
async fn a_drift_names_the_field_and_both_values() {
    let scenario = Scenario::begin(CLUSTER).await;
    settings(&scenario, json!({"greeting": "hello"})).await;
    scenario
        .place(json!({"type": "External", "applyStrategy": {"whenToApply": "IfNotDrifted"}}))
        .await;
    scenario.strategy(json!({})).await;
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunSucceeded").await;
    scenario
        .member("member2")
        .patch("configmaps", "test-namespace", "settings", json!({"data": {"greeting": "edited"}}))
        .await;
    scenario.until_failed_on("member2").await;
    expect![[r#"
        example-placement is not done on member2.

          cause  DRIFTED  ConfigMap test-namespace/settings was not applied on member2: the object was changed on the member
          because  /data/greeting: "edited" on the member, "hello" on the hub

          placement example-placement  ClusterResourcePlacementApplied=False  ApplyFailed
          binding  example-placement-member2-<hash>  Applied=False  NotAllWorkHaveBeenApplied
          work  fleet-member-member2/example-placement-work  Applied=False  FoundDrifts
          object  ConfigMap test-namespace/settings  (member2)  FoundDrifts

          fix  set it back on the member:  kubectl --context member2 -n test-namespace edit configmap/settings
          more  flagship explain DRIFTED
        [exit 3]
    "#]].assert_eq(&scenario.why("placement example-placement").await);
}

#[tokio::test(start_paused = true)]
async fn an_override_that_does_not_fit_its_object_is_told() {
    let scenario = Scenario::begin(CLUSTER).await;
    let rule = json!({"clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"environment": "staging"}}}]},
        "jsonPatchOverrides": [{"op": "remove", "path": "/spec/template/spec/nodeSelector"}]});
    let object = json!({"apiVersion": API, "kind": "ResourceOverride",
        "metadata": {"name": "staging-nodes", "namespace": "test-namespace"},
        "spec": {"placement": {"name": "example-placement"},
            "resourceSelectors": [{"group": "apps", "version": "v1", "kind": "Deployment", "name": "nginx-deployment"}],
            "policy": {"overrideRules": [rule]}}});
    scenario.hub().apply_object(&object).await;
    scenario.pass(2).await;
    scenario.gets_stuck(json!({"type": "External"})).await;
    expect![[r#"
        example-run is stuck in stage staging: member2 has not become available for <age>.

          cause  OVERRIDE_INVALID  the resources cannot be adapted to member2
          because  ResourceOverrideSnapshot "staging-nodes-0" failed to apply on Deployment "nginx-deployment" in namespace "test-namespace": error in remove for path: '/spec/template/spec/nodeSelector': unable to remove nonexistent key: nodeSelector: missing value

          run  example-run  Progressing=False  UpdateRunStuck
          binding  example-placement-member2-<hash>  Overridden=False  OverriddenFailed

          look  see the overrides:  kubectl --context hub get clusterresourceoverrides,resourceoverrides -A
          then  roll the fix out:  flagship run example-placement
          more  flagship explain OVERRIDE_INVALID
        [exit 3]
    "#]].assert_eq(&scenario.why("example-run").await);
}
