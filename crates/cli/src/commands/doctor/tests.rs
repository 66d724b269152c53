//! The doctor at an embedded hub: one that is well, and one illness after the other.

use expect_test::{Expect, expect};
use flagship_sim::fleet::{Fleet, FleetConfig, HUB};
use serde_json::json;

use super::*;

const RUN: &str = "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: all}
spec: {stages: [{name: all, maxConcurrency: 2, labelSelector: {}}]}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata: {name: first}
spec: {placementName: web, stagedRolloutStrategyName: all, state: Run}
";

/// Two members, and a placement that a run has brought to both.
async fn well() -> Fleet {
    let fleet = Fleet::joined(FleetConfig::of(2)).await;
    let hub = &fleet.clusters.hub;
    hub.apply(
        "
apiVersion: v1
kind: Namespace
metadata: {name: fleet-system}
---
apiVersion: v1
kind: Namespace
metadata: {name: app}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: web}
spec:
  resourceSelectors: [{group: '', version: v1, kind: Namespace, name: app}]
  policy: {placementType: PickAll}
  strategy: {type: External}
",
    )
    .await;
    let scheduled = "ClusterResourcePlacementScheduled";
    hub.becomes("clusterresourceplacements", "", "web", scheduled, "True").await;
    hub.apply(RUN).await;
    hub.becomes("clusterstagedupdateruns", "", "first", "Succeeded", "True").await;
    fleet
}

async fn report(fleet: &Fleet) -> Report {
    let members = fleet.clusters.members();
    let members = members.map(|member| (member.name().to_owned(), member.client().clone()));
    let hub = Hub::of(fleet.clusters.hub.client().clone(), members.collect());
    checked(&hub, &fleet.env).await
}

/// What is wrong in one check, and what to do about it.
async fn wrong(fleet: &Fleet, area: &str, name: &str, expected: Expect) {
    let report = report(fleet).await;
    let found = report.checks.iter().find(|check| (check.area, check.name) == (area, name));
    let findings = &found.unwrap().findings;
    let lines = findings.iter().map(|Finding { what, fix, .. }| format!("{what}\n  fix: {fix}\n"));
    expected.assert_eq(&lines.collect::<String>());
    assert!(!report.is_healthy());
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_is_well_is_told_so_and_then_falls_ill() {
    let mut fleet = well().await;
    let hub = fleet.clusters.hub.clone();
    let report = report(&fleet).await;
    expect![[r#"
        hub
          ✔ answers       v1.34.0+flagship
          ✔ definitions   all 28 are installed as this binary wants them
          ✔ leads         it passes on what members say (it holds no lease)
          ✔ rights        you may do what flagship's commands do
          · clocks        the hub does not say what time it is
          ✔ objects       6 objects can be read

        members
          ✔ joined        2 members joined
          ✔ heartbeats    every member was heard of in time
          ✔ places        each has its namespace and its say on the hub
          ✔ clusters      2 clusters answer

        placements
          ✔ policies      1 placement with one policy in force each
          ✔ versions      1 object of versions, all whole
          ✔ bindings      2 bindings that belong together
          ✔ works         2 works with a binding each

        runs
          ✔ placements    1 run with a placement each
          ✔ laws          none is broken
          ✔ approvals     no requests with a run each
          ✔ evictions     each has its answer

        leftovers
          ✔ finalizers    nothing waits to be let go

        Everything is in order: 19 checks (1 could not be looked at).
    "#]]
    .assert_eq(&as_text(&report, Look::default()));
    assert!(report.is_healthy());
    let value = as_value(&report);
    assert_eq!(value["healthy"], true);
    assert_eq!(value["checks"][0]["name"], "answers");
    hub.apply(
        "
apiVersion: cluster.kubernetes-fleet.io/v1beta1
kind: MemberCluster
metadata: {name: member9}
spec: {identity: {kind: User, name: member9}}
",
    )
    .await;
    fleet.pass(10).await;
    wrong(&fleet, "members", "joined", expect![[r#"
        member9 has not joined: Member cluster member9 has not reported all the expected agents, expected 1, got 0
          fix: flagship member --name member9 --kubeconfig MEMBER --hub-kubeconfig HUB
    "#]]).await;
    let name = "clusterresourceplacementdisruptionbudgets.placement.kubernetes-fleet.io";
    hub.delete("customresourcedefinitions", "", name).await;
    wrong(&fleet, "hub", "definitions", expect![[r#"
        clusterresourceplacementdisruptionbudgets.placement.kubernetes-fleet.io is not installed
          fix: flagship crds clusterresourceplacementdisruptionbudgets | kubectl --context hub apply --server-side --force-conflicts -f -
    "#]]).await;
    hub.delete("namespaces", "", "fleet-system").await;
    wrong(
        &fleet,
        "hub",
        "leads",
        expect![[r#"
        namespace fleet-system is missing: a hub keeps its lease there
          fix: kubectl --context hub create namespace fleet-system
    "#]],
    )
    .await;
    fleet.kill("member2").await;
    fleet.pass(400).await;
    wrong(
        &fleet,
        "members",
        "heartbeats",
        expect![[r#"
            member2 was last heard of 419s ago, and should be every 60s
              fix: flagship why cluster member2
        "#]],
    )
    .await;
    fleet.kill(HUB).await;
    fleet.pass(120).await;
    wrong(
        &fleet,
        "hub",
        "leads",
        expect![[r#"
            namespace fleet-system is missing: a hub keeps its lease there
              fix: kubectl --context hub create namespace fleet-system
        "#]],
    )
    .await;
    hub.delete("internalmemberclusters", "fleet-member-member9", "member9").await;
    wrong(
        &fleet,
        "members",
        "places",
        expect![[r#"
        InternalMemberCluster fleet-member-member9/member9 is missing
          fix: restart the hub: it makes what is missing when it starts to lead
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_stored_and_belongs_to_nobody_is_seen() {
    let mut fleet = well().await;
    fleet.stop(HUB).await;
    let hub = &fleet.clusters.hub;
    let mut second = hub.get("clusterschedulingpolicysnapshots", "", "web-0").await;
    second["metadata"] = json!({"name": "web-1", "labels": second["metadata"]["labels"]});
    hub.apply_object(&second).await;
    let mut lost = second.clone();
    lost["metadata"]["name"] = json!("gone-0");
    lost["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] = json!("gone");
    hub.apply_object(&lost).await;
    wrong(&fleet, "placements", "policies", expect![[r#"
        clusterschedulingpolicysnapshots gone-0 belongs to placement gone, which is gone
          fix: kubectl --context hub delete clusterschedulingpolicysnapshots.placement.kubernetes-fleet.io gone-0
        web has 2 policies in force: web-0, web-1
          fix: kubectl --context hub label clusterschedulingpolicysnapshots.placement.kubernetes-fleet.io web-0 kubernetes-fleet.io/is-latest-snapshot=false --overwrite
    "#]]).await;
    let count = json!({"kubernetes-fleet.io/number-of-resource-snapshots": "3"});
    let name = "web-0-snapshot";
    let patch = json!({"metadata": {"annotations": count}});
    hub.patch("clusterresourcesnapshots", "", name, patch).await;
    let mut next = hub.get("clusterresourcesnapshots", "", name).await;
    let (labels, notes) =
        (next["metadata"]["labels"].clone(), next["metadata"]["annotations"].clone());
    next["metadata"] = json!({"name": "web-1-snapshot", "labels": labels, "annotations": notes});
    next["metadata"]["labels"]["kubernetes-fleet.io/resource-index"] = json!("1");
    let one = json!("1");
    next["metadata"]["annotations"]["kubernetes-fleet.io/number-of-resource-snapshots"] = one;
    hub.apply_object(&next).await;
    wrong(&fleet, "placements", "versions", expect![[r#"
        version 0 of web is incomplete: 1 of 3 objects
          fix: kubectl --context hub delete clusterresourcesnapshots.placement.kubernetes-fleet.io -l kubernetes-fleet.io/parent-CRP=web,kubernetes-fleet.io/resource-index=0
        web has 2 latest versions: 0, 1
          fix: kubectl --context hub label clusterresourcesnapshots.placement.kubernetes-fleet.io -l kubernetes-fleet.io/parent-CRP=web,kubernetes-fleet.io/resource-index=0 kubernetes-fleet.io/is-latest-snapshot=false --overwrite
    "#]]).await;
    let bindings = hub.list("clusterresourcebindings", "").await;
    let mut twin = bindings[0].clone();
    let labels = twin["metadata"]["labels"].clone();
    twin["metadata"] = json!({"name": "web-member1-twin", "labels": labels});
    twin["spec"]["targetCluster"] = json!("member1");
    hub.apply_object(&twin).await;
    let mut lost = twin.clone();
    lost["metadata"]["name"] = json!("gone-member1");
    lost["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] = json!("gone");
    hub.apply_object(&lost).await;
    let mut stray = twin.clone();
    stray["metadata"]["name"] = json!("web-stray");
    stray["spec"]["targetCluster"] = json!("nowhere");
    stray["spec"]["resourceSnapshotName"] = json!("web-7-snapshot");
    hub.apply_object(&stray).await;
    let report = report(&fleet).await;
    let check = report.checks.iter().find(|check| check.name == "bindings").unwrap();
    let told: Vec<String> = check.findings.iter().map(|finding| anonymous(&finding.what)).collect();
    expect![[r#"
        clusterresourcebindings gone-member1 belongs to placement gone, which is gone
        binding web-stray is for nowhere, which is no member
        binding web-stray holds version web-7-snapshot, which is gone
        web has 2 bindings on member1: web-member1-########, web-member1-twin"#]]
    .assert_eq(&told.join("\n"));
    hub.apply(
        "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: Work
metadata:
  name: lost
  namespace: fleet-member-member1
  labels: {kubernetes-fleet.io/parent-resource-binding: gone-for-good}
spec: {}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: Work
metadata:
  name: astray
  namespace: fleet-member-member2
  labels: {kubernetes-fleet.io/parent-resource-binding: web-member1-twin}
spec: {}
",
    )
    .await;
    wrong(&fleet, "placements", "works", expect![[r#"
        work fleet-member-member1/lost belongs to binding gone-for-good, which is gone
          fix: kubectl --context hub -n fleet-member-member1 delete works.placement.kubernetes-fleet.io lost
        work fleet-member-member2/astray belongs to binding web-member1-twin, which is for member1
          fix: kubectl --context hub -n fleet-member-member2 delete works.placement.kubernetes-fleet.io astray
    "#]]).await;
    hub.apply(
        "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata: {name: lost}
spec: {placementName: gone, stagedRolloutStrategyName: all, state: Run}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterApprovalRequest
metadata: {name: gone-after-all}
spec: {parentStageRollout: gone, targetStage: all}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterApprovalRequest
metadata: {name: first-after-all, annotations: {flagship.dev/update-run-uid: another}}
spec: {parentStageRollout: first, targetStage: all}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacementEviction
metadata: {name: unheard}
spec: {placementName: web, clusterName: member1}
",
    )
    .await;
    wrong(&fleet, "runs", "placements", expect![[r#"
        lost rolls out gone, which is gone
          fix: kubectl --context hub delete clusterstagedupdateruns.placement.kubernetes-fleet.io lost
    "#]]).await;
    wrong(&fleet, "runs", "approvals", expect![[r#"
        request first-after-all is for an earlier run called first
          fix: kubectl --context hub delete clusterapprovalrequests.placement.kubernetes-fleet.io first-after-all
        request gone-after-all is for run gone, which is gone
          fix: kubectl --context hub delete clusterapprovalrequests.placement.kubernetes-fleet.io gone-after-all
    "#]]).await;
    fleet.pass(61).await;
    wrong(
        &fleet,
        "runs",
        "evictions",
        expect![[r#"
        eviction unheard has no answer
          fix: flagship hub --enable-eviction-apis=true: no hub that serves evictions runs
    "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_law_is_seen_and_what_does_not_go() {
    let mut fleet = well().await;
    fleet.stop(HUB).await;
    let hub = &fleet.clusters.hub;
    // A record that never says what it began: a cluster holds the target unrecorded.
    let run = hub.get("clusterstagedupdateruns", "", "first").await;
    let mut stages = run["status"]["stagesStatus"].clone();
    for cluster in stages[0]["clusters"].as_array_mut().unwrap() {
        cluster["conditions"] = json!([]);
    }
    let status = json!({"stagesStatus": stages});
    hub.patch_status("clusterstagedupdateruns", "", "first", status).await;
    let report = report(&fleet).await;
    let check = report.checks.iter().find(|check| check.name == "laws").unwrap();
    let told: Vec<String> = check.findings.iter().map(|finding| anonymous(&finding.what)).collect();
    expect![[r#"
        first breaks law S1: web-member1-######## is disturbed and not recorded
        first breaks law S1: web-member2-######## is disturbed and not recorded
        first breaks law S6: the run succeeded without member1
        first breaks law S6: the run succeeded without member2"#]]
    .assert_eq(&told.join("\n"));
    assert_eq!(check.findings[0].fix, "roll it out anew:  flagship run web");
    let finalizers = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    hub.patch("clusterstagedupdateruns", "", "first", finalizers).await;
    hub.delete("clusterstagedupdateruns", "", "first").await;
    fleet.pass(400).await;
    wrong(&fleet, "leftovers", "finalizers", expect![[r#"
        clusterstagedupdateruns.placement.kubernetes-fleet.io first was deleted 6 minutes ago and is held by example.com/hold
          fix: nobody of ours sets this; if its owner is gone for good:  kubectl --context hub patch clusterstagedupdateruns.placement.kubernetes-fleet.io first --type=merge -p '{"metadata":{"finalizers":null}}'
    "#]]).await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_told_and_nothing_is_a_left_over_then() {
    let fleet = well().await;
    let hub = &fleet.clusters.hub;
    hub.apply(
        "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: huge}
spec: {stages: [{name: all, maxConcurrency: 2147483648, labelSelector: {}}]}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: Work
metadata:
  name: lost
  namespace: fleet-member-member1
  labels: {kubernetes-fleet.io/parent-resource-binding: gone-for-good}
spec: {}
",
    )
    .await;
    let report = report(&fleet).await;
    let objects = report.checks.iter().find(|check| check.name == "objects").unwrap();
    let [finding] = objects.findings.as_slice() else { panic!("{objects:?}") };
    assert!(
        finding.what.contains("huge") && finding.what.contains("maxConcurrency"),
        "{finding:?}"
    );
    let works = report.checks.iter().find(|check| check.name == "works").unwrap();
    assert!(works.skipped && works.findings.is_empty(), "{works:?}");
    assert!(!as_text(&report, Look::default()).contains("delete"));
}

/// Names of bindings end in chance.
fn anonymous(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let chance = word.rsplit('-').next().unwrap_or_default().trim_end_matches(',');
        let is_chance =
            chance.len() == 8 && chance.chars().all(|letter| letter.is_ascii_hexdigit());
        if is_chance { word.replace(chance, "########") } else { word.to_owned() }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_hub_nobody_can_find_is_one_thing_to_fix() {
    let report = unconnected(&anyhow::anyhow!("cannot read the kubeconfig x"));
    expect![[r#"
        hub
          ✘ kubeconfig   cannot read the kubeconfig x
                         fix: flagship up   (or name a hub: flagship doctor --kubeconfig FILE --context HUB)

        1 thing to fix.
    "#]].assert_eq(&as_text(&report, Look::default()));
    assert_eq!(as_text(&report, Look { colours: true, width: None }).matches('\u{1b}').count(), 4);
    for width in [80, 60, 40] {
        let told = as_text(&report, Look { colours: false, width: Some(width) });
        assert!(told.lines().all(|line| line.chars().count() <= width), "{width}\n{told}");
    }
    let lost = unanswered("connection refused\u{1b}[2J");
    assert!(!as_text(&lost, Look::default()).contains('\u{1b}'));
}
