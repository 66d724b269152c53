//! What people see of the record of a run; `docs/guides/records.md` has the rest.

use expect_test::expect;
use serde_json::json;

use super::*;
use crate::commands::records::Verify;
use crate::commands::{Replay, Report};

impl Scenario {
    /// A run with a gate that follows a policy, until it has ended.
    async fn recorded(scope: Scope) -> Self {
        let scenario = Self::begin(scope).await;
        scenario.policy("production", json!({"failure": {"progressDeadline": "10m"}})).await;
        scenario.place(json!({"type": "External"})).await;
        scenario.strategy(json!({"afterStageTasks": [{"type": "Approval"}]})).await;
        scenario.run("example-run", "Run").await;
        scenario.until("example-run", "UpdateRunWaiting").await;
        scenario.pass(60).await;
        scenario.approve("example-run").await;
        scenario.until("example-run", "UpdateRunSucceeded").await;
        scenario
    }

    /// What `flagship report` prints.
    pub(super) async fn report(&self, words: &str) -> String {
        let mut out = Vec::new();
        let command = self.typed::<Report>(words);
        let ended = command.answer(&self.reach(), self.fleet.env.now(), &mut out).await;
        told(out, ended)
    }

    /// What `flagship replay` prints.
    pub(super) async fn replay(&self, words: &str) -> String {
        let mut out = Vec::new();
        let ended = self.typed::<Replay>(words).answer(&self.reach(), &mut out).await;
        told(out, ended)
    }

    /// What `flagship audit verify` prints.
    async fn verify(&self, words: &str) -> String {
        let mut out = Vec::new();
        let ended = self.typed::<Verify>(words).answer(&self.reach(), &mut out).await;
        told(out, ended)
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_is_verified_and_one_byte_of_an_entry_is_changed() {
    for scope in [CLUSTER, NAMESPACED] {
        let scenario = Scenario::recorded(scope).await;
        let verified = scenario.verify("example-run").await;
        assert!(verified.contains("example-run: verified, 15 entries"), "{verified}");
        assert!(scenario.verify("").await.ends_with("[exit 0]\n"));
        let kind = scope.kind("RolloutRecord");
        let mut record = scenario.hub().get(&kind, scope.space(), "example-run").await;
        assert_eq!(record["spec"]["entries"][3]["cluster"], "member2");
        record["spec"]["entries"][3]["cluster"] = json!("member3");
        let entries = json!({"spec": {"entries": record["spec"]["entries"]}});
        scenario.patch("RolloutRecord", "example-run", entries).await;
        let space = match scope {
            CLUSTER => "",
            NAMESPACED => "my-app-namespace/",
        };
        let lines = format!(
            "{space}example-run: NOT as it was written, 15 entries\n  entry 4 was changed after it was written\n"
        );
        let told = scenario.verify("example-run").await;
        assert!(told.starts_with(&lines) && told.ends_with("[exit 5]\n"), "{told}");
        // Whoever changes an entry and its hash has to change every later one.
        let entry = serde_json::from_value(record["spec"]["entries"][3].clone()).unwrap();
        let hash = flagship_rules::record::chain::hash_of(&entry);
        record["spec"]["entries"][3]["hash"] = json!(hash);
        let entries = json!({"spec": {"entries": record["spec"]["entries"]}});
        scenario.patch("RolloutRecord", "example-run", entries).await;
        let told = scenario.verify("").await;
        assert!(told.contains("  entry 5 does not follow entry 4"), "{told}");
        assert!(scenario.report("example-run").await.ends_with("[exit 5]\n"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_tells_the_story_of_a_run() {
    let scenario = Scenario::recorded(CLUSTER).await;
    expect![[r#"
        # Rollout example-run

        example-placement, snapshot 0, by strategy example-strategy: **succeeded** after <age>.

        All stages are completed successfully

        | | |
        |---|---|
        | from | <moment> |
        | until | <moment> |
        | plan | 63410b8ae015e1cbef6a61e2ac506e98.03103d4dd8074413 |
        | policies | production |
        | record | example-run: verified, 15 entries |
        | last hash | <hash> |

        ## Stage staging: <age>

        | cluster | result | time |
        |---|---|---|
        | member2 | done | <age> |

        Gate after-Approval was closed for <age>, opened by kubectl (managedFields): approved by user

        ## Stage canary: <age>

        | cluster | result | time |
        |---|---|---|
        | member1 | done | <age> |
        | member3 | done | <age> |

        ## People

        | who | known by | did |
        |---|---|---|
        | kubectl | ManagedFields | planned, started, approved stage staging |

        ## Entries

        1. <moment> planned by kubectl (managedFields)
        2. <moment> started by kubectl (managedFields)
        3. <moment> stage staging begins
        4. <moment> member2 begins in stage staging
        5. <moment> member2 is done
        6. <moment> stage staging waits, after-Approval
        7. <moment> stage staging is approved, after-Approval by kubectl (managedFields): approved by user
        8. <moment> stage staging is done
        9. <moment> stage canary begins
        10. <moment> member1 begins in stage canary
        11. <moment> member1 is done
        12. <moment> member3 begins in stage canary
        13. <moment> member3 is done
        14. <moment> stage canary is done
        15. <moment> ended: UpdateRunSucceeded, All stages are completed successfully
        [exit 0]
    "#]].assert_eq(&scenario.report("example-run").await);
    let page = scenario.report("example-run -o html").await;
    assert!(page.starts_with("<!doctype html>") && !page.contains("<script"), "{page}");
    // A bar for each stage, cluster and gate of the timeline.
    let bars = ["stage", "done", "gate"].map(|bar| page.matches(&format!("\"bar-{bar}\"")).count());
    assert_eq!(bars, [2, 3, 1]);
    let json = scenario.report("example-run -o json").await;
    let json = json.trim_end_matches("[exit 0]\n");
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(
        (&json["outcome"], &json["stages"][0]["clusters"][0]["result"]),
        (&json!("succeeded"), &json!("done"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_is_replayed_with_the_board_of_status() {
    let scenario = Scenario::recorded(CLUSTER).await;
    expect![[r#"
        example-run  example-placement (snapshot 0)  WAITING  stage 1 of 2  1/3 clusters  <clock>

          staging  ✔ member2  ◐ after: approval
          canary  · member1  · member3

          budget: stage staging: none may fail (policy production)
          told: entry 6 of 15, <moment>: stage staging waits, after-Approval.
        [exit 0]
    "#]]
    .assert_eq(&scenario.replay("example-run --at 30s").await);
    expect![[r#"
        <moment>  example-run  example-placement (snapshot 0)  RUNNING  stage 1 of 2  0/3 clusters  <clock>
        <moment>  example-run  example-placement (snapshot 0)  WAITING  stage 1 of 2  1/3 clusters  <clock>
        <moment>  example-run  example-placement (snapshot 0)  RUNNING  stage 2 of 2  1/3 clusters  <clock>
        <moment>  example-run  example-placement (snapshot 0)  RUNNING  stage 2 of 2  2/3 clusters  <clock>
        <moment>  example-run  example-placement (snapshot 0)  SUCCEEDED  stage 2 of 2  3/3 clusters  <clock>

        example-run  example-placement (snapshot 0)  SUCCEEDED  stage 2 of 2  3/3 clusters  <clock>

          staging  ✔ member2  ✔ approved after
          canary  ✔ member1  ✔ member3

          told: entry 15 of 15, <moment>: ended: UpdateRunSucceeded, All stages are completed successfully.
        [exit 0]
    "#]].assert_eq(&scenario.replay("example-run").await);
    let board = |text: &str| text.lines().take(4).map(str::to_owned).collect::<Vec<_>>();
    let (then, now) =
        (scenario.replay("example-run --at 2h").await, scenario.status("example-run").await);
    assert_eq!(board(&then), board(&now));
    let early = scenario.replay("example-run --at 2020-01-01T00:00:00Z").await;
    assert!(early.contains("nothing is recorded of example-run before"), "{early}");
    let odd = scenario.replay("example-run --at yesterday").await;
    assert!(odd.contains("is neither a time, such as"), "{odd}");
}

#[tokio::test(start_paused = true)]
async fn history_names_people_and_runs_that_were_deleted() {
    for scope in [CLUSTER, NAMESPACED] {
        let scenario = Scenario::recorded(scope).await;
        expect![[r#"
            RUN  SNAPSHOT  STRATEGY  STATE  CLUSTERS  CREATED  TIME  APPROVED  WHO
            example-run  0  example-strategy  Succeeded  3/3  <moment>  <clock>  staging (approved by user)  kubectl: planned, started, approved stage staging
            [exit 0]
        "#]].assert_eq(&scenario.history("example-placement").await);
        let kind = scope.kind("StagedUpdateRun");
        scenario.hub().delete(&kind, scope.space(), "example-run").await;
        scenario.pass(5).await;
        expect![[r#"
            RUN  SNAPSHOT  STRATEGY  STATE  CLUSTERS  CREATED  TIME  APPROVED  WHO
            example-run  0  example-strategy  Succeeded, deleted  3/3  <moment>  <clock>  kubectl: planned, started, approved stage staging
            [exit 0]
        "#]].assert_eq(&scenario.history("example-placement").await);
        assert!(scenario.verify("example-run").await.contains("verified"), "it outlives its run");
        assert!(scenario.report("example-run").await.ends_with("[exit 0]\n"));
        let none = scenario.report("no-run").await;
        assert!(none.contains("there is neither a run"), "{none}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_without_a_record_is_told_how_to_get_one() {
    let scenario = Scenario::rolling(CLUSTER, json!({})).await;
    scenario.until("example-run", "UpdateRunSucceeded").await;
    let told = scenario.report("example-run").await;
    assert!(told.contains("--rollout-records=All"), "{told}");
    assert_eq!(scenario.verify("").await, "no record is kept of any run\n[exit 0]\n");
}

#[tokio::test(start_paused = true)]
async fn a_record_has_the_hash_that_plan_printed() {
    for scope in [CLUSTER, NAMESPACED] {
        // With changed content, an override and a policy.
        let scenario = Scenario::changed(scope).await;
        scenario.policy("production", json!({"failure": {"progressDeadline": "10m"}})).await;
        let planned = scenario.plan("example-placement").await;
        let hash = planned.split("--plan ").nth(1).and_then(|rest| rest.split_whitespace().next());
        let hash = hash.unwrap_or_else(|| panic!("no hash in {planned}"));
        scenario.run("second", "Run").await;
        scenario.until("second", "UpdateRunWaiting").await;
        let kind = scope.kind("RolloutRecord");
        let record = scenario.hub().get(&kind, scope.space(), "second").await;
        assert_eq!(record["spec"]["plan"]["hash"], hash, "{planned}");
        let told = scenario.report("second").await;
        assert!(told.contains(&format!("| plan | {hash} |")), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_stuck_is_replayed_as_stuck() {
    for scope in [CLUSTER, NAMESPACED] {
        let scenario = Scenario::begin(scope).await;
        scenario.policy("production", json!({"failure": {"progressDeadline": "10m"}})).await;
        scenario.deploy("nginx:1.28-typo").await;
        scenario.gets_stuck(json!({"type": "External"})).await;
        let (then, now) =
            (scenario.replay("example-run --at 5m").await, scenario.status("example-run").await);
        assert!(now.lines().next().is_some_and(|line| line.contains("  STUCK  ")), "{now}");
        assert!(then.lines().next().is_some_and(|line| line.contains("  STUCK  ")), "{then}");
        assert!(then.contains(": stuck: The updateRun is stuck waiting for member2"), "{then}");
        // It is over when a cluster gets on, well or badly.
        scenario.until("example-run", "UpdateRunFailed").await;
        let all = scenario.replay("example-run").await;
        assert!(all.lines().any(|line| line.contains("  STUCK  ")), "{all}");
        assert!(all.lines().any(|line| line.contains("  FAILED  ")), "{all}");
    }
}
