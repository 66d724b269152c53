//! A run of a thousand clusters on the board, stopped while its cells move.

use crate::driver::Browser;
use crate::fleet::Fleet;
use crate::stories::{accessible, confirm, pictures, skipped};

/// How many clusters the fleet has: `FLAGSHIP_CLUSTERS`, or enough for cells without names.
fn clusters() -> usize {
    std::env::var("FLAGSHIP_CLUSTERS").map_or(200, |clusters| clusters.parse().unwrap())
}

/// A setting on every cluster, and a strategy of a small and a large stage.
const SETTING: &str = r#"kubectl --context hub apply -f - <<'END'
apiVersion: v1
kind: Namespace
metadata: {name: app}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: app}
data: {version: "1"}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: app}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: app}]
  policy: {placementType: PickAll}
  strategy: {type: External}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: two-stages}
spec:
  stages:
  - {name: staging, labelSelector: {matchLabels: {environment: staging}}, maxConcurrency: 5%}
  - {name: rest, labelSelector: {matchExpressions: [{key: environment, operator: NotIn, values: [staging]}]}, maxConcurrency: 1}
END
kubectl --context hub wait --timeout=120s --for=condition=ClusterResourcePlacementScheduled crp/app"#;

/// How many of a stage's clusters are done, and how many there are.
const TALLY: &str = "document.querySelectorAll('.stage .tally')[1]?.textContent";

#[test]
fn a_run_of_many_clusters_is_stopped_while_cells_move_and_goes_on() {
    if skipped() {
        return;
    }
    let clusters = clusters();
    let members = clusters.to_string();
    let fleet = Fleet::with("console-many", &["--members", &members]);
    fleet.line(SETTING);
    let browser = Browser::start();
    browser.open(&fleet.link);
    browser.until("document.querySelector('.home')");
    fleet.line("flagship run app --strategy two-stages --name many --anyway");
    browser.run("location.hash = '#/run/many'");
    // So many cells are drawn on a canvas, and one can still walk through them by keys.
    browser.until("document.querySelectorAll('.stage canvas').length > 0");
    let tally = browser
        .until(&format!("{TALLY} && Number({TALLY}.split('/')[0]) >= 3 && {TALLY}"))
        .as_str()
        .unwrap()
        .to_owned();
    let all: usize = tally.split_once('/').unwrap().1.parse().unwrap();
    assert!(all > clusters / 2 && all < clusters, "{tally} of {clusters}");
    // While the next cells begin and end.
    browser.click(".verb:not([aria-disabled])", "Stop");
    confirm(&browser);
    // The cluster under way finishes first.
    browser.until("document.querySelector('.figures .p-stopped')");
    let stopped = browser.run(&format!("return {TALLY}")).as_str().unwrap().to_owned();
    let done: usize = stopped.split_once('/').unwrap().0.parse().unwrap();
    assert!(done < all, "{stopped}: it was stopped in time");
    // What the hub says is what the page says: nothing is under way any more.
    let started = fleet.line(
        r#"kubectl --context hub get clusterstagedupdaterun many -o jsonpath='{range .status.stagesStatus[1].clusters[*]}{.conditions[?(@.type=="Started")].status}{.conditions[?(@.type=="Succeeded")].status}{"\n"}{end}'"#,
    );
    assert_eq!(started.lines().filter(|line| *line == "TrueTrue").count(), done);
    assert_eq!(started.lines().filter(|line| *line == "True").count(), 0, "a cluster in flight");
    accessible(&browser, "many");
    pictures(&browser, "many");
    browser.click(".verb:not([aria-disabled])", "Resume");
    confirm(&browser);
    browser.until(&format!("Number({TALLY}.split('/')[0]) > {done}"));
    browser.run("location.hash = '#/fleet'");
    browser.until("document.querySelector('.matrix')");
    let rows = browser.until("document.querySelectorAll('.matrix tbody tr').length");
    assert!(rows.as_u64().unwrap() > 0 && rows.as_u64().unwrap() <= clusters as u64);
}
