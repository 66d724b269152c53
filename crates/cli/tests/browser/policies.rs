//! What policies and a freeze say of a run is on its board.

use crate::driver::Browser;
use crate::fleet::Fleet;
use crate::stories::{accessible, pictures, skipped, unharmed};

/// Clusters of staging have three seconds, all others ten minutes, and one may fail.
const POLICIES: &str = r#"kubectl --context hub apply -f - <<'END'
apiVersion: flagship.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: impatient}
spec:
  selects: {stages: [staging]}
  failure: {progressDeadline: 3s, budget: {stage: 1}}
---
apiVersion: flagship.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: production}
spec:
  failure: {progressDeadline: 10m, budget: {run: 1}}
END"#;

#[test]
fn the_board_shows_the_budget_the_deadline_who_is_skipped_and_who_has_frozen_the_run() {
    if skipped() {
        return;
    }
    let fleet = Fleet::new("console-policies");
    for line in [
        POLICIES,
        "kubectl --context hub label membercluster member3 environment=canary --overwrite",
        "kubectl --context hub -n test-namespace set image deployment/nginx-deployment nginx=nginx:1.28:latest",
        "flagship run demo --name policed --anyway",
        "flagship approve policed staging",
        r#"flagship skip policed member3 --reason "<img src=x onerror=window.hacked=1>""#,
        r#"flagship freeze "incident 4711""#,
    ] {
        fleet.line(line);
    }
    let browser = Browser::start();
    browser.open(&fleet.link);
    browser.until("document.querySelector('.home')");
    browser.run("location.hash = '#/run/policed'");
    let told = browser.until(
        "['Frozen', 'Budget', 'Deadline', 'Skipped'].every((name) => [...document.querySelectorAll('.policy dt')].some((dt) => dt.textContent === name)) && document.querySelector('.policy').textContent",
    );
    let told = told.as_str().unwrap();
    for said in [
        "Frozenby flagship-admin until it is lifted, freeze incident-4711: incident 4711",
        "the run: 1 of 1 spent by member2 (policy impatient, production)",
        "Deadlinemember1 must be available by ",
        "Skippedmember3 by flagship-admin: <img src=x onerror=window.hacked=1>",
    ] {
        assert!(told.contains(said), "{said} is not in {told}");
    }
    unharmed(&browser);
    browser.until("document.querySelector('.tile.c-skipped .name')?.textContent === 'member3'");
    accessible(&browser, "policies");
    pictures(&browser, "policies");
    // On a narrow screen nothing sticks out.
    browser.look(360, 780, "light");
    let wide = browser.run("return document.documentElement.scrollWidth");
    assert!(wide.as_u64().unwrap() <= 360, "{wide}");
}
