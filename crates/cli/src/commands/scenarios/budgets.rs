//! What `status` and the console show of policies and freezes: budgets, deadlines, skipped
//! clusters, and what holds a run.

use expect_test::expect;
use serde_json::{Value, json};

use super::*;

impl Scenario {
    /// `member2` has failed within the budget, `member1` is under way, `member3` is to be left
    /// out, and somebody has frozen everything.
    async fn in_the_middle(scope: Scope) -> Self {
        let scenario = Self::begin(scope).await;
        let failure = json!({"progressDeadline": "5m", "budget": {"run": 2, "stage": 1}});
        scenario.policy("production", json!({"failure": failure})).await;
        scenario.deploy("nginx:1.28-typo").await;
        scenario.place(json!({"type": "External"})).await;
        scenario.strategy(json!({})).await;
        scenario.run("example-run", "Run").await;
        scenario.pass(320).await;
        scenario.skip("example-run member3 --reason later").await;
        scenario.pass(5).await;
        scenario.freeze(&["incident 4711"]).await;
        scenario.until("example-run", "UpdateRunFrozen").await;
        scenario
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_in_the_middle_shows_its_budget_its_deadline_who_is_skipped_and_that_it_is_frozen() {
    for scope in [CLUSTER, NAMESPACED] {
        let scenario = Scenario::in_the_middle(scope).await;
        let name = match scope {
            CLUSTER => "example-run",
            NAMESPACED => "my-app-namespace/example-run",
        };
        let space = if scope == CLUSTER { "" } else { "-n my-app-namespace " };
        let printed = scenario.status("example-run").await;
        expect![[r#"
            RUN  example-placement (snapshot 0)  FROZEN  stage 2 of 2  0/3 clusters  <clock>

              staging  ✘ member2
              canary  ! member1 <clock> IMAGE_NOT_FOUND  ⊘ member3 skipped

              budget: stage staging: 1 of 1 spent by member2; stage canary: 1 may fail, none has; the run: 1 of 2 spent by member2 (policy production)
              deadline: member1 must be available by <moment>, <clock> left
              skipped: member3 by user: later
              frozen: by user until it is lifted, freeze incident-4711: incident 4711
              next: RUN is frozen, for <age>. flagship unfreeze
            [exit 4]
        "#]].assert_eq(&printed.replace(name, "RUN").replace(space, ""));
        let json = scenario.status("example-run -o json").await;
        let json: Value =
            serde_json::from_str(json.trim_end().trim_end_matches("[exit 4]")).unwrap();
        let board = &json["board"];
        let mut told = json!({"budgets": board["budgets"], "policies": board["policies"],
            "frozen": board["frozen"], "cells": board["stages"][1]["cells"]});
        told["cells"][0]["seconds"].take();
        expect![[r#"
            {
              "budgets": [
                {
                  "allowed": 1,
                  "failed": [
                    "member2"
                  ],
                  "says": "stage staging: 1 of 1 spent by member2",
                  "stage": "staging"
                },
                {
                  "allowed": 1,
                  "failed": [],
                  "says": "stage canary: 1 may fail, none has",
                  "stage": "canary"
                },
                {
                  "allowed": 2,
                  "failed": [
                    "member2"
                  ],
                  "says": "the run: 1 of 2 spent by member2"
                }
              ],
              "cells": [
                {
                  "cause": "IMAGE_NOT_FOUND",
                  "cluster": "member1",
                  "deadline": "<moment>",
                  "mark": "stuck",
                  "seconds": null,
                  "started": "<moment>"
                },
                {
                  "cluster": "member3",
                  "ended": "<moment>",
                  "mark": "skipped",
                  "says": "Skipped by user: later"
                }
              ],
              "frozen": "Frozen by user until it is lifted, freeze incident-4711: incident 4711",
              "policies": [
                "production"
              ]
            }
        "#]]
        .assert_eq(&normal(&serde_json::to_string_pretty(&told).unwrap()));
        // The page is told the same, and draws it.
        let page = scenario.console();
        let run = format!("run&name=example-run&namespace={}", scope.space());
        let seen = page.until(&run, |head| head["phase"] == "frozen").await;
        let head = &seen["head"];
        assert_eq!(head["budgets"], board["budgets"]);
        assert_eq!(head["frozen"], board["frozen"]);
        assert_eq!(head["deadline"]["cluster"], "member1");
        assert_eq!(head["skipped"][0]["cluster"], "member3");
        let updated = &head["stages"][0]["updated"];
        assert!(updated.is_i64(), "a stage is over without clusters that failed: {updated}");
        assert_eq!(seen["rows"][2][0], 6, "drawn as skipped: {seen:#}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_spent_budget_names_who_has_spent_it() {
    let scenario = Scenario::begin(CLUSTER).await;
    let failure = json!({"progressDeadline": "1m", "budget": {"run": 1}});
    scenario.policy("production", json!({"failure": failure})).await;
    scenario.deploy("nginx:1.28-typo").await;
    scenario.place(json!({"type": "External"})).await;
    scenario.strategy(json!({})).await;
    scenario.run("example-run", "Run").await;
    scenario.until("example-run", "UpdateRunFailed").await;
    let printed = scenario.status("example-run").await;
    let line = "budget: the run: spent, 2 failed and 1 may: member2, member1 (policy production)";
    assert!(printed.contains(line), "{printed}");
    // As it was when the first of them had failed, from the record.
    let then = scenario.replay("example-run --at 80s").await;
    let line = "budget: the run: 1 of 1 spent by member2 (policy production)";
    assert!(then.contains(line), "{then}");
}

#[tokio::test(start_paused = true)]
async fn a_run_without_a_policy_shows_nothing_of_the_kind() {
    let scenario = Scenario::rolling(CLUSTER, json!({})).await;
    scenario.until("example-run", "UpdateRunSucceeded").await;
    let printed = scenario.status("example-run").await;
    assert!(!printed.contains("budget") && !printed.contains("deadline"), "{printed}");
    let json = scenario.status("example-run -o json").await;
    let json: Value = serde_json::from_str(json.trim_end().trim_end_matches("[exit 0]")).unwrap();
    let json = json["board"].to_string();
    for field in ["budgets", "policies", "frozen", "deadline", "says"] {
        assert!(!json.contains(&format!("\"{field}\"")), "{field}: {json}");
    }
}
