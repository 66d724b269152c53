//! What was applied and does not come up: images, crashes, nodes, quotas, probes.

use expect_test::expect;
use serde_json::{Value, json};

use super::{CLUSTER, NAMESPACED, Scenario, Scope, container};

/// A run whose second version has these annotations and this pod spec, until it is stuck.
async fn stuck_with(scope: Scope, annotations: Value, pod: Value) -> Scenario {
    let scenario = Scenario::begin(scope).await;
    stuck(scenario, annotations, pod).await
}

async fn stuck(scenario: Scenario, annotations: Value, pod: Value) -> Scenario {
    scenario.deploy_with(annotations, pod).await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({"afterStageTasks": [{"type": "Approval"}]})).await;
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunStuck").await;
    scenario
}

// Guide 1 "Investigate update run stuck errors", guide 5 "Investigate ClusterStagedUpdateRun
// rollout stuck": cluster scope.
#[tokio::test(start_paused = true)]
async fn a_run_is_stuck_on_an_image_that_cannot_be_read() {
    let scenario = stuck_with(CLUSTER, json!({}), container("nginx:1.28:latest")).await;
    expect![[r#"
        example-run is stuck in stage staging: member2 has not become available for <age>.

          cause  IMAGE_NAME_INVALID  Deployment test-namespace/nginx-deployment cannot start a pod
          because  container nginx: image "nginx:1.28:latest" is not a valid reference

          run  example-run  Progressing=False  UpdateRunStuck
          binding  example-placement-member2-<hash>  Available=False  NotAllWorkAreAvailable
          work  fleet-member-member2/example-placement-work  Available=False  ManifestNotAvailableYet
          object  Deployment test-namespace/nginx-deployment  (member2)  0/3 ready
          pod  nginx-deployment-<hash>-<id>  InvalidImageName

          fix  correct the image on the hub:  kubectl --context hub -n test-namespace set image deployment.apps/nginx-deployment nginx=IMAGE
          then  roll the fix out:  flagship run example-placement
          more  flagship explain IMAGE_NAME_INVALID
        [exit 3]
    "#]].assert_eq(&scenario.why("example-run").await);
    // The placement and the cluster lead to the same pod.
    expect![[r#"
        example-run is stuck in stage staging: member2 has not become available for <age>.

          cause  IMAGE_NAME_INVALID  Deployment test-namespace/nginx-deployment cannot start a pod
          because  container nginx: image "nginx:1.28:latest" is not a valid reference

          placement example-placement  ClusterResourcePlacementRolloutStarted=Unknown  RolloutControlledByExternalController
          run  example-run  Progressing=False  UpdateRunStuck
          binding  example-placement-member2-<hash>  Available=False  NotAllWorkAreAvailable
          work  fleet-member-member2/example-placement-work  Available=False  ManifestNotAvailableYet
          object  Deployment test-namespace/nginx-deployment  (member2)  0/3 ready
          pod  nginx-deployment-<hash>-<id>  InvalidImageName

          fix  correct the image on the hub:  kubectl --context hub -n test-namespace set image deployment.apps/nginx-deployment nginx=IMAGE
          then  roll the fix out:  flagship run example-placement
          more  flagship explain IMAGE_NAME_INVALID
        [exit 3]
    "#]].assert_eq(&scenario.why("placement example-placement").await);
    expect![[r#"
        example-placement is not done on member2.

          cause  IMAGE_NAME_INVALID  Deployment test-namespace/nginx-deployment cannot start a pod
          because  container nginx: image "nginx:1.28:latest" is not a valid reference

          binding  example-placement-member2-<hash>  Available=False  NotAllWorkAreAvailable
          work  fleet-member-member2/example-placement-work  Available=False  ManifestNotAvailableYet
          object  Deployment test-namespace/nginx-deployment  (member2)  0/3 ready
          pod  nginx-deployment-<hash>-<id>  InvalidImageName

          fix  correct the image on the hub:  kubectl --context hub -n test-namespace set image deployment.apps/nginx-deployment nginx=IMAGE
          more  flagship explain IMAGE_NAME_INVALID
        [exit 3]
    "#]].assert_eq(&scenario.why("cluster member2").await);
}

// The same guides, namespace scope: "Investigate StagedUpdateRun rollout stuck".
#[tokio::test(start_paused = true)]
async fn a_namespaced_run_is_stuck_on_an_image_that_cannot_be_read() {
    let scenario = stuck_with(NAMESPACED, json!({}), container("nginx:1.28:latest")).await;
    expect![[r#"
        my-app-namespace/example-run is stuck in stage staging: member2 has not become available for <age>.

          cause  IMAGE_NAME_INVALID  Deployment my-app-namespace/nginx-deployment cannot start a pod
          because  container nginx: image "nginx:1.28:latest" is not a valid reference

          run  my-app-namespace/example-run  Progressing=False  UpdateRunStuck
          binding  my-app-namespace/example-placement-member2-<hash>  Available=False  NotAllWorkAreAvailable
          work  fleet-member-member2/my-app-namespace.example-placement-work  Available=False  ManifestNotAvailableYet
          object  Deployment my-app-namespace/nginx-deployment  (member2)  0/3 ready
          pod  nginx-deployment-<hash>-<id>  InvalidImageName

          fix  correct the image on the hub:  kubectl --context hub -n my-app-namespace set image deployment.apps/nginx-deployment nginx=IMAGE
          then  roll the fix out:  flagship run -n my-app-namespace example-placement
          more  flagship explain IMAGE_NAME_INVALID
        [exit 3]
    "#]].assert_eq(&scenario.why("example-run").await);
}

// Guides 1 and 5, the note: a run that is being stopped may be stuck in the same way.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_being_stopped_is_stuck_as_well() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.deploy("nginx:1.28:latest").await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({})).await;
    scenario.run("example-run", "Run").await;
    scenario.until_failed_on("member2").await;
    scenario.patch("StagedUpdateRun", "example-run", json!({"spec": {"state": "Stop"}})).await;
    scenario.until("example-run", "UpdateRunStopping").await;
    scenario.pass(2).await;
    expect![[r#"
        example-run is stopping: member2 is still finishing, for <age> now.

          cause  IMAGE_NAME_INVALID  Deployment test-namespace/nginx-deployment cannot start a pod
          because  container nginx: image "nginx:1.28:latest" is not a valid reference

          run  example-run  Progressing=Unknown  UpdateRunStopping
          binding  example-placement-member2-<hash>  Available=False  NotAllWorkAreAvailable
          work  fleet-member-member2/example-placement-work  Available=False  ManifestNotAvailableYet
          object  Deployment test-namespace/nginx-deployment  (member2)  0/3 ready
          pod  nginx-deployment-<hash>-<id>  InvalidImageName

          fix  correct the image on the hub:  kubectl --context hub -n test-namespace set image deployment.apps/nginx-deployment nginx=IMAGE
          then  roll the fix out:  flagship run example-placement
          more  flagship explain IMAGE_NAME_INVALID
        [exit 4]
    "#]].assert_eq(&scenario.why("example-run").await);
    scenario.until("example-run", "UpdateRunStuck").await;
    expect![[r#"
        example-run was told to stop and is stuck in stage staging: member2, begun before the stop, has not become available for <age>.

          cause  IMAGE_NAME_INVALID  Deployment test-namespace/nginx-deployment cannot start a pod
          because  container nginx: image "nginx:1.28:latest" is not a valid reference

          run  example-run  Progressing=False  UpdateRunStuck
          binding  example-placement-member2-<hash>  Available=False  NotAllWorkAreAvailable
          work  fleet-member-member2/example-placement-work  Available=False  ManifestNotAvailableYet
          object  Deployment test-namespace/nginx-deployment  (member2)  0/3 ready
          pod  nginx-deployment-<hash>-<id>  InvalidImageName

          fix  correct the image on the hub:  kubectl --context hub -n test-namespace set image deployment.apps/nginx-deployment nginx=IMAGE
          then  roll the fix out:  flagship run example-placement
          more  flagship explain IMAGE_NAME_INVALID
        [exit 3]
    "#]].assert_eq(&scenario.why("example-run").await);
}

// Guide 4 "Investigate StagedUpdateRun rollout stuck": the Deployment is wrapped in an
// envelope and its image is in no registry.
#[tokio::test(start_paused = true)]
async fn an_image_that_no_registry_has_is_found_through_an_envelope() {
    let scenario = Scenario::begin(CLUSTER).await;
    let mut wrapped = scenario.hub().get("deployments", "test-namespace", "nginx-deployment").await;
    scenario.hub().delete("deployments", "test-namespace", "nginx-deployment").await;
    wrapped["metadata"] = json!({"name": "nginx", "namespace": "test-namespace"});
    wrapped["status"] = json!(null);
    wrapped["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:1.28-typo");
    let envelope = json!({"apiVersion": super::API, "kind": "ResourceEnvelope",
        "metadata": {"name": "envelope-nginx-deploy", "namespace": "test-namespace"},
        "data": {"nginx.yaml": wrapped}});
    scenario.hub().apply_object(&envelope).await;
    scenario.gets_stuck(json!({"type": "External"})).await;
    expect![[r#"
        example-run is stuck in stage staging: member2 has not become available for <age>.

          cause  IMAGE_NOT_FOUND  Deployment test-namespace/nginx cannot start a pod
          because  container nginx: image "nginx:1.28-typo": Back-off pulling image "nginx:1.28-typo": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/nginx:1.28-typo": failed to resolve reference "docker.io/library/nginx:1.28-typo": docker.io/library/nginx:1.28-typo: not found

          run  example-run  Progressing=False  UpdateRunStuck
          binding  example-placement-member2-<hash>  Available=False  NotAllWorkAreAvailable
          work  fleet-member-member2/example-placement-work-envelope-01d8affb891c9717  Available=False  ManifestNotAvailableYet
          envelope  ResourceEnvelope test-namespace/envelope-nginx-deploy  carries Deployment test-namespace/nginx
          object  Deployment test-namespace/nginx  (member2)  0/3 ready
          pod  nginx-<hash>-<id>  ImagePullBackOff

          fix  correct the image in the envelope on the hub:  kubectl --context hub -n test-namespace edit resourceenvelope/envelope-nginx-deploy
          then  roll the fix out:  flagship run example-placement
          more  flagship explain IMAGE_NOT_FOUND
        [exit 3]
    "#]].assert_eq(&scenario.why("example-run").await);
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_wants_credentials_is_told_from_one_without_the_image() {
    let scenario = stuck_with(CLUSTER, json!({}), container("nginx:1.28-typo")).await;
    // The simulated kubelet knows no credentials: these are the words of a real one.
    let denied = "failed to pull and unpack image \"registry.example.com/nginx:1\": failed to resolve reference: pull access denied, repository does not exist or may require authorization";
    scenario.handle("member2").install_admission("kubelet", std::sync::Arc::new(Rewording(denied)));
    scenario.pass(90).await;
    expect![[r#"
        example-run is stuck in stage staging: member2 has not become available for <age>.

          cause  IMAGE_PULL_DENIED  Deployment test-namespace/nginx-deployment cannot start a pod
          because  container nginx: image "nginx:1.28-typo": failed to pull and unpack image "registry.example.com/nginx:1": failed to resolve reference: pull access denied, repository does not exist or may require authorization

          run  example-run  Progressing=False  UpdateRunStuck
          binding  example-placement-member2-<hash>  Available=False  NotAllWorkAreAvailable
          work  fleet-member-member2/example-placement-work  Available=False  ManifestNotAvailableYet
          object  Deployment test-namespace/nginx-deployment  (member2)  0/3 ready
          pod  nginx-deployment-<hash>-<id>  ImagePullBackOff

          look  see which pull secrets the pod has:  kubectl --context member2 -n test-namespace describe pod nginx-deployment-<hash>-<id>
          then  nothing more: the run goes on by itself
          more  flagship explain IMAGE_PULL_DENIED
        [exit 3]
    "#]].assert_eq(&scenario.why("example-run").await);
}

/// Replaces what a waiting container says.
struct Rewording(&'static str);

impl flagship_apiserver::rest::Admission for Rewording {
    fn mutate(
        &self,
        review: &mut flagship_apiserver::rest::Mutation<'_>,
    ) -> Result<(), flagship_base::machinery::status::ApiError> {
        let waiting = "/status/containerStatuses/0/state/waiting";
        if let Some(waiting) = review.object.pointer_mut(waiting) {
            waiting["message"] = json!(self.0);
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_that_ends_again_and_again_is_a_crash_loop() {
    let crash = json!({"workloads.flagship.dev/crash-loop": "true", "workloads.flagship.dev/exit-code": "137"});
    let scenario = stuck_with(CLUSTER, crash, container("nginx:1.28")).await;
    expect![[r#"
        example-run is stuck in stage staging: member2 has not become available for <age>.

          cause  CRASH_LOOP  Deployment test-namespace/nginx-deployment starts and ends again and again
          because  container nginx keeps ending, last with exit code 137

          run  example-run  Progressing=False  UpdateRunStuck
          binding  example-placement-member2-<hash>  Available=False  NotAllWorkAreAvailable
          work  fleet-member-member2/example-placement-work  Available=False  ManifestNotAvailableYet
          object  Deployment test-namespace/nginx-deployment  (member2)  0/3 ready
          pod  nginx-deployment-<hash>-<id>  CrashLoopBackOff, 2 restarts

          look  read what the container said:  kubectl --context member2 -n test-namespace logs nginx-deployment-<hash>-<id> -c nginx --previous
          then  roll the fix out:  flagship run example-placement
          more  flagship explain CRASH_LOOP
        [exit 3]
    "#]].assert_eq(&scenario.why("example-run").await);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_on_no_node_is_unschedulable() {
    let greedy = json!({"containers": [{"name": "nginx", "image": "nginx:1.28",
        "resources": {"requests": {"cpu": "64"}}}]});
    let scenario = stuck_with(CLUSTER, json!({}), greedy).await;
    expect![[r#"
        example-run is stuck in stage staging: member2 has not become available for <age>.

          cause  POD_UNSCHEDULABLE  Deployment test-namespace/nginx-deployment finds no node
          because  0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.

          run  example-run  Progressing=False  UpdateRunStuck
          binding  example-placement-member2-<hash>  Available=False  NotAllWorkAreAvailable
          work  fleet-member-member2/example-placement-work  Available=False  ManifestNotAvailableYet
          object  Deployment test-namespace/nginx-deployment  (member2)  0/3 ready
          pod  nginx-deployment-<hash>-<id>  Unschedulable

          look  see the nodes:  kubectl --context member2 get nodes
          then  roll the fix out:  flagship run example-placement
          more  flagship explain POD_UNSCHEDULABLE
        [exit 3]
    "#]].assert_eq(&scenario.why("example-run").await);
}

#[tokio::test(start_paused = true)]
async fn a_quota_on_the_member_keeps_pods_away() {
    let scenario = Scenario::begin(CLUSTER).await;
    let member = scenario.member("member2");
    member.apply("{apiVersion: v1, kind: Namespace, metadata: {name: test-namespace}}").await;
    member
        .apply("{apiVersion: v1, kind: ResourceQuota, metadata: {name: small, namespace: test-namespace}, spec: {hard: {pods: '0'}}}")
        .await;
    let scenario = stuck(scenario, json!({}), container("nginx:1.28")).await;
    expect![[r#"
        example-run is stuck in stage staging: member2 has not become available for <age>.

          cause  QUOTA_EXCEEDED  Deployment test-namespace/nginx-deployment cannot create a pod
          because  pods "nginx-deployment-<hash>-<id>" is forbidden: exceeded quota: small, requested: pods=1, used: pods=0, limited: pods=0

          run  example-run  Progressing=False  UpdateRunStuck
          binding  example-placement-member2-<hash>  Available=False  NotAllWorkAreAvailable
          work  fleet-member-member2/example-placement-work  Available=False  ManifestNotAvailableYet
          object  Deployment test-namespace/nginx-deployment  (member2)  0/3 ready

          look  see what is used up:  kubectl --context member2 -n test-namespace describe resourcequota
          then  nothing more: the run goes on by itself
          more  flagship explain QUOTA_EXCEEDED
        [exit 3]
    "#]].assert_eq(&scenario.why("example-run").await);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_runs_and_never_answers_its_probe_is_not_ready() {
    let silent = json!({"workloads.flagship.dev/never-ready": "true"});
    let scenario = stuck_with(CLUSTER, silent, container("nginx:1.28")).await;
    expect![[r#"
        example-run is stuck in stage staging: member2 has not become available for <age>.

          cause  POD_NOT_READY  Deployment test-namespace/nginx-deployment runs and does not become ready
          because  container nginx runs and is not ready yet; it has no readiness probe

          run  example-run  Progressing=False  UpdateRunStuck
          binding  example-placement-member2-<hash>  Available=False  NotAllWorkAreAvailable
          work  fleet-member-member2/example-placement-work  Available=False  ManifestNotAvailableYet
          object  Deployment test-namespace/nginx-deployment  (member2)  0/3 ready
          pod  nginx-deployment-<hash>-<id>  Running, not ready

          look  see the object on the member:  kubectl --context member2 -n test-namespace describe deployment.apps/nginx-deployment
          then  roll the fix out:  flagship run example-placement
          more  flagship explain POD_NOT_READY
        [exit 3]
    "#]].assert_eq(&scenario.why("example-run").await);
}

// Whoever has no credentials for the members still learns what the hub knows.
#[tokio::test(start_paused = true)]
async fn without_a_way_to_the_member_the_last_verified_thing_is_said() {
    let scenario = stuck_with(CLUSTER, json!({}), container("nginx:1.28:latest")).await;
    expect![[r#"
        example-run is stuck in stage staging: member2 has not become available for <age>.

          cause  IMAGE_NAME_INVALID  Deployment test-namespace/nginx-deployment cannot start a pod
          because  container nginx: image "nginx:1.28:latest" is not a valid reference

          run  example-run  Progressing=False  UpdateRunStuck
          binding  example-placement-member2-<hash>  Available=False  NotAllWorkAreAvailable
          work  fleet-member-member2/example-placement-work  Available=False  ManifestNotAvailableYet
          object  Deployment test-namespace/nginx-deployment  (member2)  not available

          fix  correct the image on the hub:  kubectl --context hub -n test-namespace set image deployment.apps/nginx-deployment nginx=IMAGE
          then  roll the fix out:  flagship run example-placement
          more  flagship explain IMAGE_NAME_INVALID
        [exit 3]
    "#]].assert_eq(&scenario.asked("example-run", ["member1"].into_iter()).await);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_has_just_begun_is_moving() {
    let slow = json!({"workloads.flagship.dev/ready-after": "20s"});
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.deploy_with(slow, container("nginx:1.28")).await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({})).await;
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunProgressing").await;
    scenario.pass(5).await;
    expect![[r#"
        example-run is updating member2 in stage staging, for <age> now.

          cause  IN_PROGRESS  member2 has the new version, and it is coming up

          run  example-run  Progressing=True  UpdateRunProgressing
          binding  example-placement-member2-<hash>  Available=False  NotAllWorkAreAvailable
          work  fleet-member-member2/example-placement-work  Available=False  ManifestNotAvailableYet
          object  Deployment test-namespace/nginx-deployment  (member2)  0/3 ready
          pod  nginx-deployment-<hash>-<id>  Running, not ready

          look  follow the run:  flagship watch example-run
          more  flagship explain IN_PROGRESS
        [exit 4]
    "#]].assert_eq(&scenario.why("example-run").await);
    scenario.until("example-run", "UpdateRunSucceeded").await;
    expect![[r#"
        example-run is done: 3 cluster(s) run snapshot 0 of example-placement.

          cause  DONE  everything asked for has happened

          run  example-run  Succeeded=True  UpdateRunSucceeded
        [exit 0]
    "#]]
    .assert_eq(&scenario.why("example-run").await);
}
