//! What people see of a run that follows a policy.

use expect_test::expect;
use serde_json::{Value, json};

use super::*;
use crate::commands::{Quarantine, Retry, Skip};

impl Scenario {
    pub(super) async fn policy(&self, name: &str, spec: Value) {
        let object = json!({"apiVersion": "flagship.dev/v1alpha1", "kind": "RolloutPolicy",
            "metadata": {"name": name}, "spec": spec});
        self.hub().apply_object(&object).await;
    }

    /// What `flagship skip` prints; the last word is the reason.
    pub(super) async fn skip(&self, words: &str) -> String {
        let mut out = Vec::new();
        let ended = self.typed::<Skip>(words).on(&self.reach(), &mut out).await;
        told(out, ended)
    }

    /// What `flagship retry` prints.
    async fn retry(&self, words: &str) -> String {
        let mut out = Vec::new();
        let ended = self.typed::<Retry>(words).on(&self.reach(), &mut out).await;
        told(out, ended)
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_with_a_bad_image_spends_the_budget() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.policy("production", json!({"failure": {"finalCauses": "Fail"}})).await;
    scenario.deploy("nginx:1.28-typo").await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({})).await;
    expect![[r#"
        Rolling out example-placement with strategy example-strategy

        STAGE  CLUSTERS  AT ONCE  GATES
        staging  member2  1
        canary  member1 member3  1

        3 cluster(s), 0 approval(s).
        note:  policy production: finalCauses Fail

        now:  no version on 3
        changes:  unknown: there is no snapshot yet, or what it selects cannot be read

        start it:  flagship run example-placement --strategy example-strategy
        [exit 0]
    "#]]
    .assert_eq(&scenario.plan("example-placement").await);
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunFailed").await;
    expect![[r#"
        example-run failed: more clusters have failed than the policy allows.

          cause  BUDGET_SPENT  more clusters have failed than the policy allows
          because  the failure budget of stage `staging` is spent, 1 cluster(s) have failed and 0 may: member2 (policy production)

          run  example-run  Succeeded=False  UpdateRunFailed
          cluster  member2  Failed under policy production: IMAGE_NOT_FOUND, container nginx: image "nginx:1.28-typo": rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/nginx:1.28-typo": failed to resolve reference "docker.io/library/nginx:1.28-typo": docker.io/library/nginx:1.28-typo: not found

          look  read the run:  kubectl --context hub describe csur example-run
          then  start again with a new run:  flagship run example-placement
          more  flagship explain BUDGET_SPENT
        [exit 5]
    "#]].assert_eq(&scenario.why("example-run").await);
    expect![[r#"
        example-run  example-placement (snapshot 0)  FAILED  stage 1 of 2  0/3 clusters  <clock>

          staging  ✘ member2
          canary  · member1  · member3

          budget: stage staging: spent, 1 failed and 0 may: member2 (policy production)
          next: example-run failed: more clusters have failed than the policy allows.
        [exit 5]
    "#]]
    .assert_eq(&scenario.status("example-run").await);
    expect![[r#"
        error: example-run has ended; try its clusters again: flagship retry example-run
    "#]]
    .assert_eq(&scenario.skip("example-run member2 --reason late").await);
    expect![[r#"
        example-run-retry-1 created: brings snapshot 0 of example-placement to member2
        follow it:  flagship watch example-run-retry-1
        [exit 0]
    "#]]
    .assert_eq(&scenario.retry("example-run").await);
}

impl Scenario {
    /// What `flagship quarantine` prints.
    async fn quarantine(&self, words: &str) -> String {
        let mut out = Vec::new();
        let ended = self.typed::<Quarantine>(words).on(&self.reach(), &mut out).await;
        told(out, ended)
    }

    /// A first version everywhere, and a bad image that the hub takes back by itself.
    async fn rolled_back(scope: Scope) -> Self {
        let scenario = Self::begin(scope).await;
        scenario.place(json!({"type": "External"})).await;
        scenario.strategy(json!({})).await;
        scenario.run("first-run", "Run").await;
        scenario.until("first-run", "UpdateRunSucceeded").await;
        let failure = json!({"finalCauses": "Fail", "then": "Rollback"});
        scenario.policy("production", json!({"failure": failure})).await;
        scenario.deploy("nginx:1.28-typo").await;
        scenario.pass(5).await;
        scenario.run("example-run", "Run").await;
        scenario.until("example-run", "UpdateRunFailed").await;
        scenario.until("example-run-rollback", "UpdateRunSucceeded").await;
        scenario
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_image_goes_back_by_itself_and_is_refused_until_it_is_lifted() {
    let scenario = Scenario::rolled_back(CLUSTER).await;
    expect![[r#"
        example-run failed: more clusters have failed than the policy allows.

          cause  BUDGET_SPENT  more clusters have failed than the policy allows
          because  the failure budget of stage `staging` is spent, 1 cluster(s) have failed and 0 may: member2 (policy production); 1 cluster(s) go back to snapshot 0 in update run `example-run-rollback`, and snapshot 1 is quarantined

          run  example-run  Succeeded=False  UpdateRunFailed
          cluster  member2  Failed under policy production: IMAGE_NOT_FOUND, container nginx: image "nginx:1.28-typo": Back-off pulling image "nginx:1.28-typo": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/nginx:1.28-typo": failed to resolve reference "docker.io/library/nginx:1…

          look  read the run:  kubectl --context hub describe csur example-run
          then  start again with a new run:  flagship run example-placement
          more  flagship explain BUDGET_SPENT
        [exit 5]
    "#]].assert_eq(&scenario.why("example-run").await);
    expect![[r#"
        example-run-rollback  example-placement (snapshot 0)  SUCCEEDED  stage 1 of 1  1/1 clusters  <clock>

          staging  ✔ member2

          next: nothing, it is done
        [exit 0]
    "#]].assert_eq(&scenario.status("example-run-rollback").await);
    expect![[r#"
        a run of example-placement would be refused: what it brings is quarantined.

          cause  QUARANTINED  what it brings is quarantined
          because  resource snapshot 1 is quarantined by update run example-run: the failure budget of stage `staging` is spent, 1 cluster(s) have failed and 0 may: member2 (policy production); to roll it out all the same, lift it: flagship quarantine example-placement --lift

          look  see what is quarantined:  flagship quarantine example-placement
          fix  let it be rolled out again, if the reason is gone:  flagship quarantine example-placement --lift
          then  start again with a new run:  flagship run example-placement
          more  flagship explain QUARANTINED
        [exit 5]
    "#]].assert_eq(&scenario.plan("example-placement").await);
    expect![[r#"
        a run of example-placement would be refused: what it brings is quarantined.

          cause  QUARANTINED  what it brings is quarantined
          because  resource snapshot 1 is quarantined by update run example-run: the failure budget of stage `staging` is spent, 1 cluster(s) have failed and 0 may: member2 (policy production); to roll it out all the same, lift it: flagship quarantine example-placement --lift

          look  see what is quarantined:  flagship quarantine example-placement
          fix  let it be rolled out again, if the reason is gone:  flagship quarantine example-placement --lift
          then  start again with a new run:  flagship run example-placement
          more  flagship explain QUARANTINED

        Nothing was created; --anyway creates the run all the same.
        [exit 5]
    "#]].assert_eq(&scenario.start("example-placement").await);
    expect![[r#"
        PLACEMENT  SNAPSHOT  BY  REASON
        example-placement  1  update run example-run  the failure budget of stage `staging` is spent, 1 cluster(s) have failed and 0 may: member2 (policy production)
        [exit 0]
    "#]].assert_eq(&scenario.quarantine("").await);
    expect![[r#"
        snapshot 1 of example-placement may be rolled out again
        roll it out:  flagship run example-placement
        [exit 0]
    "#]]
    .assert_eq(&scenario.quarantine("example-placement --lift").await);
    expect![[r#"
        error: nothing of example-placement is quarantined
    "#]]
    .assert_eq(&scenario.quarantine("example-placement --lift").await);
    expect![[r#"
        Nothing is quarantined.
        [exit 0]
    "#]]
    .assert_eq(&scenario.quarantine("").await);
    expect![[r#"
        Rolling out example-placement with strategy example-strategy

        STAGE  CLUSTERS  AT ONCE  GATES
        staging  member2  1
        canary  member1 member3  1

        3 cluster(s), 0 approval(s).
        note:  policy production: finalCauses Fail, then Rollback
        note:  if it fails, clusters go back to snapshot 0

        now:  snapshot 0 on 3
        changes:  1 object(s), against snapshot 0
          ~ Deployment test-namespace/nginx-deployment  restarts 3 pod(s) a cluster
              spec.template.spec.containers[nginx].image: nginx:1.27 → nginx:1.28-typo
        pods that restart: 9 on all clusters

        start it:  flagship run example-placement --strategy example-strategy --plan ee7e7f79c03d2bb1053ff817a28134be.60983d4d7b9c4413
        [exit 0]
    "#]].assert_eq(&scenario.plan("example-placement").await);
    expect![[r#"
        snapshot 0 of example-placement is quarantined: no run to its content begins anything
        lift it:  flagship quarantine example-placement --lift
        [exit 0]
    "#]]
    .assert_eq(&scenario.quarantine("example-placement --snapshot 0 --reason old").await);
    expect![[r#"
        error: example-placement has no resource snapshot 7
    "#]]
    .assert_eq(&scenario.quarantine("example-placement --snapshot 7 --reason x").await);
}

#[tokio::test(start_paused = true)]
async fn the_same_in_a_namespace() {
    let scenario = Scenario::rolled_back(NAMESPACED).await;
    scenario.run("again", "Run").await;
    scenario.pass(5).await;
    expect![[r#"
        my-app-namespace/again could not be initialized: what it brings is quarantined.

          cause  QUARANTINED  what it brings is quarantined
          because  resource snapshot 1 is quarantined by update run my-app-namespace/example-run: the failure budget of stage `staging` is spent, 1 cluster(s) have failed and 0 may: member2 (policy production); to roll it out all the same, lift it: flagship quarantine -n my-app-namespace example-placement --lift

          run  my-app-namespace/again  Initialized=False  UpdateRunInitializedFailed

          look  see what is quarantined:  flagship quarantine -n my-app-namespace example-placement
          fix  let it be rolled out again, if the reason is gone:  flagship quarantine -n my-app-namespace example-placement --lift
          then  start again with a new run:  flagship run -n my-app-namespace example-placement
          more  flagship explain QUARANTINED
        [exit 5]
    "#]].assert_eq(&scenario.why("again").await);
    expect![[r#"
        PLACEMENT  SNAPSHOT  BY  REASON
        my-app-namespace/example-placement  1  update run my-app-namespace/example-run  the failure budget of stage `staging` is spent, 1 cluster(s) have failed and 0 may: member2 (policy production)
        [exit 0]
    "#]].assert_eq(&scenario.quarantine("").await);
    expect![[r#"
        snapshot 1 of my-app-namespace/example-placement may be rolled out again
        roll it out:  flagship run -n my-app-namespace example-placement
        [exit 0]
    "#]]
    .assert_eq(&scenario.quarantine("example-placement --lift").await);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_for_a_window_says_until_when() {
    let scenario = Scenario::begin(CLUSTER).await;
    let windows = json!([{"allow": "2099-01-05/2099-01-09", "timeZone": "Europe/Berlin"}]);
    scenario.policy("production", json!({"windows": windows})).await;
    scenario.deploy("nginx:1.28").await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({})).await;
    expect![[r#"
        Rolling out example-placement with strategy example-strategy

        STAGE  CLUSTERS  AT ONCE  GATES
        staging  member2  1
        canary  member1 member3  1

        3 cluster(s), 0 approval(s).
        note:  policy production: allow 2099-01-05/2099-01-09 Europe/Berlin
        note:  stage staging is closed until Mon 2099-01-05 <clock> Europe/Berlin (policy production)
        note:  stage canary is closed until Mon 2099-01-05 <clock> Europe/Berlin (policy production)

        now:  no version on 3
        changes:  unknown: there is no snapshot yet, or what it selects cannot be read

        start it:  flagship run example-placement --strategy example-strategy
        [exit 0]
    "#]].assert_eq(&scenario.plan("example-placement").await);
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunWindowClosed").await;
    expect![[r#"
        example-run is closed until Mon 2099-01-05 <clock> Europe/Berlin (policy production).

          cause  WINDOW_CLOSED  no window is open in which it may go on
          because  nothing of it is under way, and nothing may begin, for <age>

          run  example-run  Progressing=False  UpdateRunWindowClosed

          look  see the windows:  kubectl --context hub get rpol production -o yaml
          more  flagship explain WINDOW_CLOSED
        [exit 4]
    "#]]
    .assert_eq(&scenario.why("example-run").await);
    expect![[r#"
        example-run  example-placement (snapshot 0)  CLOSED  stage 1 of 2  0/3 clusters  <clock>

          staging  · member2
          canary  · member1  · member3

          next: example-run is closed until Mon 2099-01-05 <clock> Europe/Berlin (policy production).
        [exit 4]
    "#]].assert_eq(&scenario.status("example-run").await);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_must_prove_itself_waits_and_silence_is_not_success() {
    let scenario = Scenario::begin(CLUSTER).await;
    let prometheus = json!({"url": "http://prometheus.monitoring:9090",
        "query": "errors{cluster=\"{{cluster}}\"}"});
    let check = json!({"name": "errors", "after": "Stage", "prometheus": prometheus,
        "pass": {"below": 0.01}, "for": "5m", "interval": "5m"});
    let spec = json!({"selects": {"stages": ["staging"]}, "checks": [check]});
    scenario.policy("production", spec).await;
    scenario.deploy("nginx:1.28").await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({})).await;
    expect![[r#"
        Rolling out example-placement with strategy example-strategy

        STAGE  CLUSTERS  AT ONCE  GATES
        staging  member2  1
        canary  member1 member3  1

        3 cluster(s), 0 approval(s).
        note:  policy production: stages staging, check errors after each stage below 0.01 for <age>

        now:  no version on 3
        changes:  unknown: there is no snapshot yet, or what it selects cannot be read

        start it:  flagship run example-placement --strategy example-strategy
        [exit 0]
    "#]]
    .assert_eq(&scenario.plan("example-placement").await);
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunChecking").await;
    scenario.pass(5).await;
    expect![[r#"
        example-run waits for checks of stage staging.

          cause  CHECKING  errors (policy production): no answer about member2: the hub may not call prometheus.monitoring:9090; add prometheus.monitoring:9090 to its flag --allow-egress, or change the URL (1 of 3 in a row)
          because  what was begun is updated and is being checked; moving for <age>

          run  example-run  Progressing=True  UpdateRunChecking

          look  see what was measured:  flagship report example-run
          more  flagship explain CHECKING
        [exit 4]
    "#]].assert_eq(&scenario.why("example-run").await);
    expect![[r#"
        example-run  example-placement (snapshot 0)  CHECKING  stage 1 of 2  1/3 clusters  <clock>

          staging  ✔ member2
          canary  · member1  · member3

          next: example-run waits for checks of stage staging.
        [exit 4]
    "#]]
    .assert_eq(&scenario.status("example-run").await);
    scenario.until("example-run", "UpdateRunFailed").await;
    expect![[r#"
        example-run failed: a check that a policy asks for has failed.

          cause  CHECK_FAILED  a check that a policy asks for has failed
          because  stage `staging` has not proved itself: Checks failed under policy production: CHECK_FAILED, check errors: no answer about member2: the hub may not call prometheus.monitoring:9090; add prometheus.monitoring:9090 to its flag --allow-egress, or change the URL; 3 times in a row it was no good answer

          run  example-run  Succeeded=False  UpdateRunFailed

          look  read the run:  kubectl --context hub describe csur example-run
          then  start again with a new run:  flagship run example-placement
          more  flagship explain CHECK_FAILED
        [exit 5]
    "#]].assert_eq(&scenario.why("example-run").await);
}

/// The member runs it, its pods are simulated, and the agent reports what it wrote.
#[tokio::test(start_paused = true)]
async fn a_job_on_the_member_is_the_check_and_what_it_wrote_last_is_the_reason() {
    for scope in [CLUSTER, NAMESPACED] {
        let scenario = Scenario::begin(scope).await;
        let job = |name: &str, annotations: Value| {
            let pod = json!({"restartPolicy": "Never",
                "containers": [{"name": "probe", "image": "probe:1"}]});
            let template = json!({"metadata": {"annotations": annotations}, "spec": pod});
            let spec = json!({"backoffLimit": 0, "template": template});
            json!({"name": name, "after": "Cluster", "job": {"namespace": scope.home(),
                "timeout": "2m", "template": {"spec": spec}}})
        };
        let fails = json!({"workloads.flagship.dev/run-for": "8s",
            "workloads.flagship.dev/exit-code": "3",
            "workloads.flagship.dev/termination-message":
                "GET /health 200\nGET /cart 500\n1 of 2 requests failed\n"});
        let selects = json!({"stages": ["staging"]});
        let spec = json!({"selects": selects, "checks": [job("ready", json!({}))]});
        scenario.policy("staging", spec).await;
        let spec = json!({"selects": {"stages": ["canary"]}, "checks": [job("smoke", fails)]});
        scenario.policy("production", spec).await;
        scenario.place(json!({"type": "External"})).await;
        scenario.strategy(json!({})).await;
        let planned = scenario.plan("example-placement").await;
        let note =
            planned.lines().find(|line| line.contains("policy production")).unwrap_or_default();
        let home = scope.home();
        assert_eq!(
            note,
            format!(
                "note:  policy production: stages canary, check smoke after each cluster by a Job in namespace {home} within <age>"
            )
        );
        scenario.run("example-run", "Run").await;
        scenario.until("example-run", "UpdateRunChecking").await;
        scenario.until("example-run", "UpdateRunFailed").await;
        let why = scenario.why("example-run").await;
        let report = scenario.report("example-run").await;
        if scope == CLUSTER {
            expect![[r#"
                example-run failed: more clusters have failed than the policy allows.

                  cause  BUDGET_SPENT  more clusters have failed than the policy allows
                  because  the failure budget of stage `canary` is spent, 1 cluster(s) have failed and 0 may: member1 (policy production, staging)

                  run  example-run  Succeeded=False  UpdateRunFailed
                  cluster  member1  Failed under policy production: CHECK_FAILED, check smoke: Job test-namespace/example-run-smoke-<hash> on member1 failed after <age>, BackoffLimitExceeded: container probe ended with exit code 3: GET /health 200 | GET /cart 500 | 1 of 2 requests failed

                  look  read the run:  kubectl --context hub describe csur example-run
                  then  start again with a new run:  flagship run example-placement
                  more  flagship explain BUDGET_SPENT
                [exit 5]
            "#]].assert_eq(&why);
            expect![[r#"
                # Rollout example-run

                example-placement, snapshot 0, by strategy example-strategy: **failed** after <age>.

                cannot continue the updateRun: the failure budget of stage \`canary\` is spent, 1 cluster(s) have failed and 0 may: member1 (policy production, staging)

                | | |
                |---|---|
                | from | <moment> |
                | until | <moment> |
                | plan | f368f6a1f04ddf4730e0bc99e37c084d.03103d4dee8e4413 |
                | policies | production, staging |
                | record | example-run: verified, 13 entries |
                | last hash | <hash> |

                ## Stage staging: <age>

                | cluster | result | time |
                |---|---|---|
                | member2 | done | <age> |

                ## Stage canary: <age>, not over

                | cluster | result | time |
                |---|---|---|
                | member1 | failed | <age> |
                | member3 | queued |  |

                ## Checks

                | check | result | |
                |---|---|---|
                | staging/ready of member2 | passed | the Job is complete on member2 after <age> |
                | production/smoke of member1 | failed | Job test-namespace/example-run-smoke-<hash> on member1 failed after <age>, BackoffLimitExceeded: container probe ended with exit code 3: GET /health 200 \| GET /cart 500 \| 1 of 2 requests failed |

                ## Not updated

                | cluster | stage | cause | |
                |---|---|---|---|
                | member1 | canary | CHECK\_FAILED | Failed under policy production: CHECK\_FAILED, check smoke: Job test-namespace/example-run-smoke-<hash> on member1 failed after <age>, BackoffLimitExceeded: container probe ended with exit code 3: GET /health 200 \| GET /cart 500 \| 1 of 2 requests failed |

                ## People

                | who | known by | did |
                |---|---|---|
                | kubectl | ManagedFields | planned, started |

                ## Entries

                1. <moment> planned by kubectl (managedFields)
                2. <moment> started by kubectl (managedFields)
                3. <moment> stage staging begins
                4. <moment> member2 begins in stage staging
                5. <moment> check staging/ready of member2 has passed: the Job is complete on member2 after <age>
                6. <moment> member2 is done
                7. <moment> stage staging is done
                8. <moment> stage canary begins
                9. <moment> member1 begins in stage canary
                10. <moment> check production/smoke of member1 has failed: CHECK\_FAILED, Job test-namespace/example-run-smoke-<hash> on member1 failed after <age>, BackoffLimitExceeded: container probe ended with exit code 3: GET /health 200 \| GET /cart 500 \| 1 of 2 requests failed
                11. <moment> member1 failed: CHECK\_FAILED, Failed under policy production: CHECK\_FAILED, check smoke: Job test-namespace/example-run-smoke-<hash> on member1 failed after <age>, BackoffLimitExceeded: container probe ended with exit code 3: GET /health 200 \| GET /cart 500 \| 1 of 2 requests failed
                12. <moment> the failure budget is spent: the failure budget of stage \`canary\` is spent, 1 cluster(s) have failed and 0 may: member1 (policy production, staging)
                13. <moment> ended: UpdateRunFailed, cannot continue the updateRun: the failure budget of stage \`canary\` is spent, 1 cluster(s) have failed and 0 may: member1 (policy production, staging)
                [exit 0]
            "#]].assert_eq(&report);
        }
        assert!(why.contains("on member1 failed"), "{why}");
        assert!(report.contains("GET /cart 500 \\| 1 of 2 requests failed"), "{report}");
        // The Job that failed is there to be looked at, and the others are gone.
        scenario.pass(30).await;
        let left = |cluster: &str| {
            let jobs = scenario.member(cluster);
            async move { jobs.list("Job", home).await.len() }
        };
        assert_eq!((left("member1").await, left("member2").await), (1, 0));
    }
}
