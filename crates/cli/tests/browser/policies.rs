//! What policies and a freeze say of a run is on its board.

use crate::driver::Browser;
use crate::fleet::Fleet;
use crate::stories::{accessible, confirm, pictures, skipped, unharmed};

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

/// Two people of a group or of a list must approve before staging, and say why.
const APPROVALS: &str = r#"kubectl --context hub apply -f - <<'END'
apiVersion: flagship.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: careful}
spec:
  selects: {stages: [staging]}
  approvals: {required: 2, users: [alice, flagship-admin], reason: Required, breakGlass: {groups: [sre]}}
---
apiVersion: flagship.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: others}
spec:
  selects: {stages: [canary]}
  approvals: {required: 1, groups: [release-managers], notAuthor: true}
---
apiVersion: flagship.dev/v1alpha1
kind: RolloutPolicy
metadata: {name: office-hours}
spec:
  selects: {stages: [production]}
  windows:
  - {allow: "Mon-Fri 09:00-16:00", timeZone: Europe/Berlin}
  - {allow: "22:00-04:00", timeZone: America/New_York}
END"#;

/// What somebody says to the request before staging, with a right that approvers have.
const ALICE: &str = r#"kubectl --context hub --as=alice --as-group=system:masters create -f - <<END
apiVersion: flagship.dev/v1alpha1
kind: ClusterApproval
metadata: {name: alice-later}
spec:
  request: later-before-staging
  requestUID: $(kubectl --context hub get careq later-before-staging -o jsonpath={.metadata.uid})
  planHash: $(kubectl --context hub get careq later-before-staging -o jsonpath='{.metadata.annotations.flagship\.dev/plan-hash}')
  decision: Approve
  reason: "<img src=x onerror=window.hacked=1>"
END"#;

#[test]
fn a_card_shows_who_has_approved_lets_the_next_do_so_and_tells_others_why_not() {
    if skipped() {
        return;
    }
    let fleet = Fleet::new("console-approvals");
    for line in [
        APPROVALS,
        "flagship run demo --name later",
        "kubectl --context hub wait careq/later-before-staging --for=create --timeout=60s",
        ALICE,
    ] {
        fleet.line(line);
    }
    let browser = Browser::start();
    browser.open(&fleet.link);
    browser.until("document.querySelector('.home')");
    browser.run("location.hash = '#/run/later'");
    let told = browser.until(
        "document.querySelector('.request .people li b') && !document.querySelector('.request .may-not') && document.querySelector('.request').textContent",
    );
    let told = told.as_str().unwrap();
    for said in [
        "Approvals before staging",
        "1 of 2 1 missing (policy careful)",
        "alice: “<img src=x onerror=window.hacked=1>”",
        "Wants 2 people, alice or flagship-admin, with a reason.",
        "You may approve it as flagship-admin.",
    ] {
        assert!(told.contains(said), "{said} is not in {told}");
    }
    unharmed(&browser);
    accessible(&browser, "approvals");
    seen_whole(&browser, ".request", "approvals");
    // Nobody here is of the group that may break the glass.
    let buttons =
        "[...document.querySelectorAll('.request .verb')].map((verb) => verb.textContent).join()";
    assert_eq!(browser.run(&format!("return {buttons}")), "Approve staging,Reject staging");
    // A rejection wants a reason, and holds the gate.
    let opened = |label: &str| {
        browser.click(".request .verb", label);
        browser.until("document.activeElement?.name === 'reason'");
    };
    opened("Reject staging");
    let disabled = "return document.querySelector('dialog[open] .primary').disabled";
    assert_eq!(browser.run(disabled), true, "a reason is wanted");
    browser.keys("not on a Friday");
    accessible(&browser, "reject");
    pictures(&browser, "reject");
    confirm(&browser);
    browser.until(
        "document.querySelector('.request.is-rejected')?.textContent.includes('not on a Friday')",
    );
    accessible(&browser, "rejected");
    seen_whole(&browser, ".request", "rejected");
    // Of one person the last word counts.
    opened("Approve staging");
    browser.keys("it is Monday");
    pictures(&browser, "approve");
    confirm(&browser);
    // The strategy asks after staging, too, and the policy counts there as well.
    browser.until(
        "document.querySelector('.request')?.textContent.includes('Approvals after staging')",
    );
    browser.look(360, 780, "light");
    let wide = browser.run("return document.documentElement.scrollWidth");
    assert!(wide.as_u64().unwrap() <= 360, "{wide}");
    browser.look(1440, 900, "light");
    browser.run("location.hash = '#/plan/demo'");
    browser.until("document.querySelector('.calendar .week span')");
    accessible(&browser, "calendar");
    seen_whole(&browser, ".calendar", "calendar");
    browser.look(360, 780, "light");
    let wide = browser.run("return document.documentElement.scrollWidth");
    assert!(wide.as_u64().unwrap() <= 360, "{wide}");
    browser.look(1440, 900, "light");
    // Whoever may not approve is told why, on the card and at home.
    for line in [
        "kubectl --context hub delete rpol careful office-hours",
        r#"kubectl --context hub patch rpol others --type merge -p '{"spec":{"selects":{"stages":["staging"]}}}'"#,
        "flagship run demo --name second",
    ] {
        fleet.line(line);
    }
    browser.run("location.hash = '#/run/second'");
    let why = "flagship-admin is not of group release-managers (policy others).";
    browser.until(&format!(
        "document.querySelector('.request .may-not')?.textContent.includes('{why}')"
    ));
    let disabled = "return [...document.querySelectorAll('.request .verb')].every((verb) => verb.getAttribute('aria-disabled'))";
    assert_eq!(browser.run(disabled), true);
    accessible(&browser, "may-not");
    seen_whole(&browser, ".request", "may-not");
    browser.run("location.hash = '#/'");
    browser.until(&format!(
        "[...document.querySelectorAll('.line .not')].some((one) => one.textContent === '{why}')"
    ));
    accessible(&browser, "not-yours");
    pictures(&browser, "not-yours");
}

/// Pictures of a part of the page that is further down, once what was just said is gone.
fn seen_whole(browser: &Browser, part: &str, name: &str) {
    browser.until("!document.querySelector('.said.shown')");
    browser.run(&format!("window.inPicture = '{part}'"));
    pictures(browser, name);
    browser.run("delete window.inPicture");
}

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
