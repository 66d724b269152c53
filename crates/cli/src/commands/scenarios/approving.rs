//! Approvals where a policy asks for them: who may, who has, what is missing.

use expect_test::expect;
use serde_json::json;

use super::{CLUSTER, NAMESPACED, Scenario};

async fn begun(scenario: &Scenario) {
    let approvals = json!({"required": 2, "users": ["alice", "bob", "dan"], "reason": "Required"});
    let stages = json!({"stages": ["staging"]});
    scenario.policy("careful", json!({"selects": stages, "approvals": approvals})).await;
    scenario.deploy("nginx:1.28").await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn commands_say_who_must_approve_and_what_is_missing() {
    let scenario = Scenario::begin(CLUSTER).await;
    begun(&scenario).await;
    expect![[r#"
        Rolling out example-placement with strategy example-strategy

        STAGE  CLUSTERS  AT ONCE  GATES
        staging  member2  1  approval before
        canary  member1 member3  1

        3 cluster(s), 1 approval(s).
        note:  policy careful: stages staging, approvals by 2 people, alice or bob or dan, with a reason

        now:  no version on 3
        changes:  unknown: there is no snapshot yet, or what it selects cannot be read

        start it:  flagship run example-placement --strategy example-strategy
        [exit 0]
    "#]].assert_eq(&scenario.plan("example-placement").await);
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunWaiting").await;
    expect![[r#"
        example-run waits for approvals before stage staging for <age>: 0 of 2 approvals.

          cause  APPROVAL_MISSING  0 of 2 approvals; 2 missing, from 2 people, alice or bob or dan, with a reason

          run  example-run  Progressing=False  UpdateRunWaiting
          stage  staging  Progressing=False  StageUpdatingWaiting
          approval  example-run-before-staging  not approved

          fix  approve it:  flagship approve example-run staging
          look  see the request:  kubectl --context hub describe careq example-run-before-staging
          more  flagship explain APPROVAL_MISSING
        [exit 4]
    "#]]
    .assert_eq(&scenario.why("example-run").await);
    expect![[r#"
        example-run  example-placement (snapshot 0)  WAITING  stage 1 of 2  0/3 clusters  <clock>

          staging  · member2  ◐ before: approval
          canary  · member1  · member3

          next: example-run waits for approvals before stage staging for <age>: 0 of 2 approvals. flagship approve example-run staging
        [exit 4]
    "#]].assert_eq(&scenario.status("example-run").await);
    expect![[r#"
        waits for alice:
          example-run  staging  0 of 2 approvals; 2 missing, from 2 people, alice or bob or dan, with a reason
            flagship approve example-run staging --reason WHY
        [exit 0]
    "#]].assert_eq(&scenario.inbox_of("alice", "").await);
    expect![[r#"
        nothing waits for eve
        not for eve:
          example-run  staging  0 of 2 approvals; 2 missing, from 2 people, alice or bob or dan, with a reason
            eve is not alice or bob or dan (policy careful)
        [exit 0]
    "#]].assert_eq(&scenario.inbox_of("eve", "").await);
    expect![[r#"
        error: your approval of example-run-before-staging would not count: eve is not alice or bob or dan (policy careful); it waits for 2 people, alice or bob or dan, with a reason
    "#]].assert_eq(&scenario.approve_as("eve", "example-run --reason=mine").await);
    expect![[r#"
        error: policy careful wants a reason: --reason
    "#]]
    .assert_eq(&scenario.approve_as("alice", "example-run staging").await);
    let old = "example-run --plan 0123 --reason=tested";
    assert!(scenario.approve_as("alice", old).await.contains("and not about 0123"));
    expect![[r#"
        example-run-before-staging: 1 of 2 approvals, by alice (tested); 1 missing, from 2 people, alice or bob or dan, with a reason
        follow it:  flagship watch example-run
        [exit 0]
    "#]]
        .assert_eq(&scenario.approve_as("alice", "example-run staging --reason=tested").await);
    expect![[r#"
        nothing waits for alice
        not for alice:
          example-run  staging  1 of 2 approvals, by alice (tested); 1 missing, from 2 people, alice or bob or dan, with a reason
            you have approved it
        [exit 0]
    "#]].assert_eq(&scenario.inbox_of("alice", "").await);
    expect![[r#"
        example-run-before-staging: rejected by bob (risky)
        [exit 0]
    "#]]
    .assert_eq(&scenario.reject_as("bob", "example-run --reason=risky").await);
    expect![[r#"
        example-run waits for approvals before stage staging for <age>: rejected by bob (risky).

          cause  APPROVAL_MISSING  rejected by bob (risky)

          run  example-run  Progressing=False  UpdateRunWaiting
          stage  staging  Progressing=False  StageUpdatingWaiting
          approval  example-run-before-staging  not approved

          fix  approve it:  flagship approve example-run staging
          look  see the request:  kubectl --context hub describe careq example-run-before-staging
          more  flagship explain APPROVAL_MISSING
        [exit 4]
    "#]]
    .assert_eq(&scenario.why("example-run").await);
    expect![[r#"
        example-run-before-staging: rejected by bob (risky)
        follow it:  flagship watch example-run
        [exit 0]
    "#]]
    .assert_eq(&scenario.approve_as("dan", "example-run --reason=read").await);
    expect![[r#"
        example-run-before-staging: approved by alice (tested), bob (fine), dan (read)
        follow it:  flagship watch example-run
        [exit 0]
    "#]]
    .assert_eq(&scenario.approve_as("bob", "example-run --reason=fine").await);
    scenario.until("example-run", "UpdateRunProgressing").await;
    let json = scenario.inbox_of("alice", "-o json").await;
    assert!(json.starts_with("[]"), "{json}");
}

#[tokio::test(start_paused = true)]
async fn the_same_in_a_namespace() {
    let scenario = Scenario::begin(NAMESPACED).await;
    begun(&scenario).await;
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunWaiting").await;
    expect![[r#"
        waits for alice:
          my-app-namespace/example-run  staging  0 of 2 approvals; 2 missing, from 2 people, alice or bob or dan, with a reason
            flagship approve -n my-app-namespace example-run staging --reason WHY
        [exit 0]
    "#]].assert_eq(&scenario.inbox_of("alice", "--mine").await);
    scenario.approve_as("alice", "example-run --reason=tested").await;
    expect![[r#"
        example-run-before-staging: approved by alice (tested), bob (fine)
        follow it:  flagship watch -n my-app-namespace example-run
        [exit 0]
    "#]]
    .assert_eq(&scenario.approve_as("bob", "example-run --reason=fine").await);
    scenario.until("example-run", "UpdateRunProgressing").await;
}

#[tokio::test(start_paused = true)]
async fn without_a_policy_nobody_has_to_say_no() {
    let scenario = Scenario::begin(CLUSTER).await;
    scenario.deploy("nginx:1.28").await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({"beforeStageTasks": [{"type": "Approval"}]})).await;
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunWaiting").await;
    expect![[r#"
        waits for alice:
          example-run  staging  no policy: whoever may write the request approves it
            flagship approve example-run staging
        [exit 0]
    "#]]
    .assert_eq(&scenario.inbox_of("alice", "").await);
    expect![[r#"
        error: no rollout policy asks for approvals of example-run-before-staging, so nobody has to say no; hold the run: flagship stop example-run
    "#]].assert_eq(&scenario.reject_as("bob", "example-run --reason=risky").await);
}
