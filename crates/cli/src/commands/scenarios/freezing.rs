//! What people see of a freeze; `docs/guides/freeze.md` has the rest.

use expect_test::expect;
use serde_json::json;

use super::*;
use crate::commands::Freeze;

impl Scenario {
    /// What `flagship freeze` prints.
    pub(super) async fn freeze(&self, words: &[&str]) -> String {
        let mut out = Vec::new();
        let line = ["flagship"].iter().chain(words);
        let command = Line::<Freeze>::try_parse_from(line).unwrap().command;
        let ended = command.on(&self.reach(), &self.fleet.env, &mut out).await;
        told(out, ended)
    }
}

#[tokio::test(start_paused = true)]
async fn a_freeze_with_an_exception_holds_the_others() {
    let scenario = Scenario::rolling(CLUSTER, json!({})).await;
    expect![[r#"
        hot-fix-only is in force, no run is under way that it holds
        lift it:  flagship unfreeze hot-fix-only
        [exit 0]
    "#]]
    .assert_eq(&scenario.freeze(&["hot fix only", "--except", "example-run", "--for", "2h"]).await);
    scenario.until("example-run", "UpdateRunSucceeded").await;
    scenario.deploy("nginx:1.28").await;
    scenario.run("next-run", "Run").await;
    scenario.until("next-run", "UpdateRunFrozen").await;
    expect![[r#"
        next-run is frozen, for <age>.

          cause  FROZEN  Frozen by user until <moment>, freeze hot-fix-only: hot fix only
          because  nothing of it is under way

          run  next-run  Progressing=False  UpdateRunFrozen

          fix  lift it, if the reason is gone:  flagship unfreeze
          look  see every freeze:  kubectl --context hub get freezes
          more  flagship explain FROZEN
        [exit 4]
    "#]]
    .assert_eq(&scenario.why("next-run").await);
}
