//! What people see of a run that follows a policy.

use expect_test::expect;
use serde_json::{Value, json};

use super::*;
use crate::commands::{Retry, Skip};

impl Scenario {
    async fn policy(&self, name: &str, spec: Value) {
        let object = json!({"apiVersion": "flagship.dev/v1alpha1", "kind": "RolloutPolicy",
            "metadata": {"name": name}, "spec": spec});
        self.hub().apply_object(&object).await;
    }

    /// What `flagship skip` prints; the last word is the reason.
    async fn skip(&self, words: &str) -> String {
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

          look  read the run:  kubectl --context hub describe csur example-run
          then  start again with a new run:  flagship run example-placement
          more  flagship explain BUDGET_SPENT
        [exit 5]
    "#]].assert_eq(&scenario.why("example-run").await);
    expect![[r#"
        example-run  example-placement (snapshot 0)  FAILED  stage 1 of 2  0/3 clusters  <clock>

          staging  ✘ member2
          canary  · member1  · member3

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
