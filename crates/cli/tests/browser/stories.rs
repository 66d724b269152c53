//! What a release manager does with the page.

use std::io::Write;
use std::path::PathBuf;

use serde_json::Value;

use crate::driver::{Browser, missing};
use crate::fleet::Fleet;

/// Says why a story is not told here.
pub fn skipped() -> bool {
    let Some(why) = missing() else { return false };
    drop(writeln!(std::io::stderr(), "the console's story is skipped: {why}"));
    true
}

/// A picture of each size, light and dark, if somebody wants pictures.
pub fn pictures(browser: &Browser, name: &str) {
    if std::env::var_os("FLAGSHIP_PICTURES").is_none() {
        return;
    }
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/pictures"));
    std::fs::create_dir_all(&folder).unwrap();
    for (width, height) in [(1440, 900), (800, 1000), (360, 780)] {
        for scheme in ["light", "dark"] {
            browser.look(width, height, scheme);
            browser.until("document.readyState === 'complete'");
            browser.run(
                "window.inPicture && document.querySelector(window.inPicture).scrollIntoView({ block: 'center' })",
            );
            let size = if (width, scheme) == (1440, "light") {
                String::new()
            } else {
                format!("-{width}-{scheme}")
            };
            browser.picture(&folder.join(format!("{name}{size}.png")));
        }
    }
    browser.look(1440, 900, "light");
}

/// Holds what is seen against axe-core's rules, light and dark, where it is installed.
pub fn accessible(browser: &Browser, name: &str) {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/axe/node_modules/axe-core/axe.min.js");
    let Ok(axe) = std::fs::read_to_string(path) else {
        drop(writeln!(
            std::io::stderr(),
            "axe-core is skipped: npm install --prefix target/axe axe-core"
        ));
        return;
    };
    for scheme in ["light", "dark"] {
        browser.look(1440, 900, scheme);
        browser.run(&format!("{axe}; window.found = null; axe.run().then((found) => {{ window.found = found.violations; }});"));
        browser.until("window.found !== null");
        let found = browser.run(
            "return window.found.filter((one) => ['serious', 'critical'].includes(one.impact))
               .map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(' | ')}`)",
        );
        assert_eq!(found, Value::Array(Vec::new()), "{name}, {scheme}");
    }
    browser.look(1440, 900, "light");
}

/// Confirms the card that is open.
pub fn confirm(browser: &Browser) {
    browser.click("dialog[open] button.primary", "");
    browser.until("!document.querySelector('dialog[open]')");
}

fn approve(browser: &Browser, stage: &str) {
    browser.click(".verb:not([aria-disabled])", &format!("Approve {stage}"));
    confirm(browser);
}

/// Nothing that came from elsewhere has become markup or run.
pub fn unharmed(browser: &Browser) {
    assert_eq!(
        browser.run("return [document.querySelectorAll('main img').length, window.hacked ?? 0]"),
        serde_json::json!([0, 0])
    );
}

/// Five replicas instead of three for canaries.
const OVERRIDE: &str = r#"kubectl --context hub apply -f - <<'END'
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceOverride
metadata: {name: canary-replicas, namespace: test-namespace}
spec:
  resourceSelectors: [{group: apps, version: v1, kind: Deployment, name: nginx-deployment}]
  policy:
    overrideRules:
    - clusterSelector: {clusterSelectorTerms: [{labelSelector: {matchLabels: {environment: canary}}}]}
      jsonPatchOverrides: [{op: replace, path: /spec/replicas, value: 5}]
END"#;

#[test]
fn a_stuck_run_is_found_explained_stopped_and_rolled_back_by_clicks() {
    if skipped() {
        return;
    }
    let mut fleet = Fleet::new("console-story");
    let browser = Browser::start();
    browser.open(&fleet.link);
    browser.until("document.querySelector('.s-approval')");
    let address = browser.run("return location.href");
    assert!(!address.as_str().unwrap().contains("key="), "the key stays in no history: {address}");
    browser.run("window.never_reloaded = true");

    // The first rollout, gate by gate. What a person types is shown as typed.
    browser.click(".line", "");
    browser.click(".verb:not([aria-disabled])", "Approve staging");
    browser.until("document.activeElement?.name === 'reason'");
    browser.keys("<img src=x onerror=window.hacked=1>");
    confirm(&browser);
    browser.until("document.querySelector('.log')?.textContent.includes('<img src=x onerror=window.hacked=1>')");
    unharmed(&browser);
    approve(&browser, "canary");
    // By the keyboard alone.
    browser.until("[...document.querySelectorAll('.verb')].some((verb) => verb.textContent === 'Approve production')");
    browser.run("document.activeElement.blur()");
    browser.keys("a");
    browser.until("document.activeElement?.name === 'reason'");
    browser.keys("\u{e007}");
    browser.until("document.querySelector('.figures .p-succeeded')");

    // A broken version, a setting that looks like markup and an override, planned and started
    // on the page.
    for line in [
        "kubectl --context hub -n test-namespace set image deployment/nginx-deployment nginx=nginx:1.28:latest",
        r#"kubectl --context hub -n test-namespace patch configmap app --type merge -p '{"data":{"version":"<img src=x onerror=window.hacked=2>"}}'"#,
        OVERRIDE,
    ] {
        fleet.line(line);
    }
    browser.click(".verb", "Plan a run");
    // The page asks again while it is told of changes; a person sees the last answer.
    browser.until("document.querySelector('.stages-table')");
    browser.click("#nav a", "Home");
    browser.until("document.querySelector('.home')");
    browser.run("location.hash = '#/plan/demo'");
    let plan = browser.until(
        "document.querySelector('.plan')?.textContent.includes('canary-replicas') && document.querySelector('.plan').textContent",
    );
    let plan = plan.as_str().unwrap();
    for said in [
        "Pods that restart11",
        "nginx:1.27→nginx:1.28:latest",
        "1→<img src=x onerror=window.hacked=2>",
        "spec.replicas3→5",
        "on 1 cluster: member1",
    ] {
        assert!(plan.contains(said), "{said} is not in {plan}");
    }
    unharmed(&browser);
    accessible(&browser, "plan");
    pictures(&browser, "plan");
    browser.click(".verb:not([aria-disabled])", "Start this run");
    confirm(&browser);
    browser.until("location.hash === '#/run/demo-1'");

    // Found from the first page, and explained down to the pod.
    browser.click("#nav a", "Home");
    browser.until("document.querySelector('.s-stuck')");
    accessible(&browser, "home");
    pictures(&browser, "home");
    browser.click(".line", "✘Stuck");
    browser.until("document.querySelector('.why .code')?.textContent === 'IMAGE_NAME_INVALID'");
    browser.until("[...document.querySelectorAll('.chain .kind')].at(-1)?.textContent === 'pod'");
    let differs = "[...document.querySelectorAll('.changes')].some((one) => one.textContent.includes('snapshot 0 → 1') && one.textContent.includes('nginx:1.28:latest'))";
    browser.until(differs);
    accessible(&browser, "board");
    pictures(&browser, "board");
    browser.run(
        "location.hash = '#/run/' + encodeURIComponent('<img src=x onerror=window.hacked=3>')",
    );
    browser.until("document.querySelector('main h1')?.textContent.startsWith('<img')");
    unharmed(&browser);
    browser.run("location.hash = '#/run/demo-1'");
    browser.click(".tile", "!member2");
    browser
        .until("document.querySelector('.drawer .pods')?.textContent.includes('InvalidImageName')");
    assert_eq!(browser.run("return location.hash"), "#/run/demo-1?cluster=member2");
    accessible(&browser, "drawer");
    pictures(&browser, "drawer");

    // The address is all it takes to see the same.
    browser.run("location.hash = '#/fleet'");
    browser.until("document.querySelector('.matrix .m-failed')");
    accessible(&browser, "fleet");
    pictures(&browser, "fleet");
    browser.run("location.hash = '#/run/demo-1?cluster=member2'");
    browser.until("document.querySelector('.drawer h2')?.textContent === 'member2'");
    browser.click(".drawer .close", "");
    browser.until("!document.querySelector('.drawer')");

    // The server is cut off under the open page, and comes back.
    fleet.cut_off_and_restart();
    browser
        .until("document.querySelector('.l-live') && document.querySelector('.figures .p-stuck')");
    browser.click(".verb:not([aria-disabled])", "Stop");
    browser.until("document.querySelector('dialog[open] .effect').textContent.includes('Begins no further cluster')");
    confirm(&browser);
    browser.until(
        "[...document.querySelectorAll('.verb')].some((verb) => verb.textContent === 'Resume')",
    );
    browser.click(".verb:not([aria-disabled])", "Roll back");
    confirm(&browser);
    browser.until("location.hash === '#/run/demo-2'");
    browser.until("document.querySelector('.crumbs')?.textContent.includes('snapshot 0')");
    approve(&browser, "staging");
    unharmed(&browser);
    assert_eq!(browser.run("return window.never_reloaded"), true);
    let complaints = browser.logs();
    assert!(!complaints.contains("Content Security Policy"), "{complaints}");
}

#[test]
fn two_people_approve_at_once_and_both_are_told() {
    if skipped() {
        return;
    }
    let fleet = Fleet::new("console-two");
    let people = [Browser::start(), Browser::start()];
    for person in &people {
        person.open(&fleet.link);
        person.click(".line", "◇Approval");
        person.click(".verb:not([aria-disabled])", "Approve staging");
        person.until("document.activeElement?.name === 'reason'");
    }
    for person in &people {
        person.run("document.querySelector('dialog[open] button.primary').click()");
    }
    // The second one is told that nothing is left to do, or that it was done.
    for person in &people {
        person.until(
            "!document.querySelector('dialog[open]') || document.querySelector('dialog[open] .error')?.textContent",
        );
    }
    for person in &people {
        person.until("document.querySelector('.strip .g-passed')?.textContent.includes('staging')");
    }
    let approved = fleet.line(
        r#"kubectl --context hub get clusterapprovalrequest demo-run-after-staging -o jsonpath='{.status.conditions[?(@.type=="Approved")].status}'"#,
    );
    assert_eq!(approved, "True", "once, however many have clicked");
}

#[test]
fn whoever_lacks_the_right_sees_the_verb_disabled_and_why() {
    if skipped() {
        return;
    }
    let fleet = Fleet::new("console-rights");
    for line in [
        "kubectl --context hub create serviceaccount viewer -n default",
        "kubectl --context hub create clusterrole reader --verb=get,list,watch --resource='*.placement.kubernetes-fleet.io,*.cluster.kubernetes-fleet.io'",
        "kubectl --context hub create clusterrolebinding reader --clusterrole=reader --serviceaccount=default:viewer",
        "cp .flagship/kubeconfig viewer.yaml",
        "KUBECONFIG=viewer.yaml kubectl config set-credentials viewer --token=$(kubectl --context hub -n default create token viewer)",
        "KUBECONFIG=viewer.yaml kubectl config set-context hub --user=viewer",
    ] {
        fleet.line(line);
    }
    let console = fleet.console("viewer.yaml");
    let browser = Browser::start();
    browser.open(&console.link);
    browser.click(".line", "◇Approval");
    browser.until(
        "document.querySelector('.verb[aria-disabled]')?.title.includes('You lack the right')",
    );
    browser.click(".verb[aria-disabled]", "Approve staging");
    let said = browser.until("document.querySelector('dialog[open] .missing')?.textContent");
    assert_eq!(
        said,
        "✘ You lack the right to patch clusterapprovalrequests/status (placement.kubernetes-fleet.io)."
    );
    let locked =
        browser.run("return document.querySelector('dialog[open] button.primary').disabled");
    assert_eq!(locked, true);
    // What the viewer may not read and does well without is not complained of.
    assert_eq!(browser.run("return document.querySelector('.notice')"), Value::Null);
}
