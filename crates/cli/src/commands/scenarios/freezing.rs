//! What people see of a freeze, in both scopes.

use expect_test::expect;
use serde_json::json;

use super::*;
use crate::commands::{Freeze, Unfreeze};

impl Scenario {
    /// What `flagship freeze` prints.
    async fn freeze(&self, words: &[&str]) -> String {
        let mut out = Vec::new();
        let line = ["flagship"].iter().chain(words);
        let command = Line::<Freeze>::try_parse_from(line).unwrap().command;
        let ended = command.on(&self.reach(), &self.fleet.env, &mut out).await;
        told(out, ended)
    }

    /// What `flagship unfreeze` prints.
    async fn unfreeze(&self, words: &[&str]) -> String {
        let mut out = Vec::new();
        let line = ["flagship"].iter().chain(words);
        let command = Line::<Unfreeze>::try_parse_from(line).unwrap().command;
        let ended = command.on(&self.reach(), &mut out).await;
        told(out, ended)
    }
}

#[tokio::test(start_paused = true)]
async fn a_frozen_run_says_by_whom_and_why() {
    let approval = json!({"afterStageTasks": [{"type": "Approval"}]});
    let scenario = Scenario::rolling(NAMESPACED, approval).await;
    scenario.until("example-run", "StageUpdatingWaiting").await;
    expect![[r#""#]].assert_eq(&scenario.freeze(&["incident 4711"]).await);
    expect![[r#""#]].assert_eq(&scenario.why("example-run").await);
    expect![[r#""#]].assert_eq(&scenario.status("example-run").await);
    expect![[r#""#]].assert_eq(&scenario.plan("example-placement").await);
    expect![[r#""#]].assert_eq(&scenario.freeze(&["incident 4711"]).await);
    expect![[r#""#]].assert_eq(&scenario.unfreeze(&["nope"]).await);
    expect![[r#""#]].assert_eq(&scenario.unfreeze(&[]).await);
    scenario.until("example-run", "UpdateRunWaiting").await;
    expect![[r#""#]].assert_eq(&scenario.unfreeze(&[]).await);
}

#[tokio::test(start_paused = true)]
async fn a_freeze_with_an_exception_holds_the_others() {
    let scenario = Scenario::rolling(CLUSTER, json!({})).await;
    expect![[r#""#]].assert_eq(
        &scenario.freeze(&["hot fix only", "--except", "example-run", "--for", "2h"]).await,
    );
    scenario.until("example-run", "UpdateRunSucceeded").await;
    scenario.deploy("nginx:1.28").await;
    scenario.run("next-run", "Run").await;
    scenario.until("next-run", "UpdateRunFrozen").await;
    expect![[r#""#]].assert_eq(&scenario.why("next-run").await);
}
