//! The plugin on an embedded fleet: what it says line by line, and what it leaves behind.

use clap::Parser;
use expect_test::expect;
use flagship_runtime::client::Client;
use flagship_runtime::env::Env;
use flagship_sim::fleet::{Cluster, Fleet as Fleeting, FleetConfig};
use serde_json::{Value, json};

use super::*;

const MC: &str = "memberclusters";
const CRPE: &str = "clusterresourceplacementevictions";
const CAREQ: &str = "clusterapprovalrequests";
const AREQ: &str = "approvalrequests";

fn read(line: &str) -> Verb {
    let words = std::iter::once(NAME).chain(line.split_whitespace());
    Plugin::try_parse_from(words).unwrap().fleet.command.unwrap()
}

fn refusal(line: &str) -> String {
    let words = std::iter::once(NAME).chain(line.split_whitespace());
    match Plugin::try_parse_from(words) {
        Ok(plugin) => plugin.fleet.command.unwrap().check().unwrap_err().to_string(),
        Err(error) => line::in_their_words(&error),
    }
}

/// What a command says, without times and chance, its error last.
async fn said(hub: &Client, env: &Env, line: &str) -> String {
    let verb = read(&format!("{line} --hub-cluster-context hub"));
    verb.check().unwrap();
    let mut out = Vec::new();
    let mut log = Log::new(&mut out, env);
    let until = Deadline::after(env, verb.common().unwrap().timeout().unwrap());
    if let Err(error) = tell(&verb, hub, env, &until, &mut log).await {
        log.say(format!("{error:#}"));
    }
    let text = String::from_utf8(out).unwrap();
    text.lines().map(|line| format!("{}\n", without_chance(&line[20..]))).collect()
}

/// The eight letters that differ from eviction to eviction.
fn without_chance(line: &str) -> String {
    let words = line.split(' ').map(|word| match word.strip_prefix("drain-eviction-") {
        Some(rest) => format!("drain-eviction-{}-########", &rest[..rest.len() - 9]),
        None => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Two members, and a placement of a namespace on both of them that works.
async fn placed(policy: &str) -> Fleeting {
    let fleet = Fleeting::joined(FleetConfig::of(2)).await;
    let hub = &fleet.clusters.hub;
    hub.apply(&format!(
        "
apiVersion: v1
kind: Namespace
metadata: {{name: app}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings, namespace: app}}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {{name: web}}
spec:
  resourceSelectors: [{{group: '', version: v1, kind: Namespace, name: app}}]
  policy: {policy}
"
    ))
    .await;
    let available = "ClusterResourcePlacementAvailable";
    hub.becomes("clusterresourceplacements", "", "web", available, "True").await;
    fleet
}

async fn taints(hub: &Cluster, cluster: &str) -> Value {
    hub.get(MC, "", cluster).await["spec"]["taints"].clone()
}

#[test]
fn what_is_missing_is_said_in_one_line_and_after_the_arguments_were_counted() {
    let told = [
        "draincluster",
        "draincluster --cluster-name c",
        "uncordoncluster --hub-cluster-context h",
        "approve",
        "approve a b",
        "approve careq",
        "approve nothing --name n --hub-cluster-context h",
        "approve careq --name n -n space --hub-cluster-context h",
        "approve areq --name n --hub-cluster-context h",
        "draincluster --cluster-name c --hub-cluster-context h --timeout soon",
        "draincluster --nodes",
        "draincluster -x",
        "approve careq --name",
        "drain",
    ];
    let told: String = told.iter().map(|line| format!("{line}: {}\n", refusal(line))).collect();
    expect![[r#"
        draincluster: required flag(s) "cluster-name", "hub-cluster-context" not set
        draincluster --cluster-name c: required flag(s) "hub-cluster-context" not set
        uncordoncluster --hub-cluster-context h: required flag(s) "cluster-name" not set
        approve: accepts 1 arg(s), received 0
        approve a b: accepts 1 arg(s), received 2
        approve careq: required flag(s) "hub-cluster-context", "name" not set
        approve nothing --name n --hub-cluster-context h: unsupported resource kind "nothing"
        approve careq --name n -n space --hub-cluster-context h: clusterapprovalrequest is cluster-scoped and does not accept a namespace
        approve areq --name n --hub-cluster-context h: namespace is required for approvalrequest (use --namespace or -n flag)
        draincluster --cluster-name c --hub-cluster-context h --timeout soon: invalid argument "soon" for "--timeout" flag: time: invalid duration "soon"
        draincluster --nodes: unknown flag: --nodes
        draincluster -x: unknown shorthand flag: 'x' in -x
        approve careq --name: flag needs an argument: --name
        drain: unknown command "drain" for "kubectl-fleet"
    "#]]
    .assert_eq(&told);
}

#[test]
fn empty_words_are_named() {
    let words = |kind: &str, name: &str| {
        let flags = ["--name", name, "--hub-cluster-context", "h"];
        let words = [NAME, "approve", kind].into_iter().chain(flags);
        let verb = Plugin::try_parse_from(words).unwrap().fleet.command.unwrap();
        verb.check().unwrap_err().to_string()
    };
    assert_eq!(words("", "n"), "resource kind is required");
    assert_eq!(words("careq", ""), "resource name is required");
}

#[test]
fn the_plugin_is_known_by_its_name() {
    let called = |name: &str| is_called(&[OsString::from(name)]);
    assert!(called("kubectl-fleet") && called("/usr/local/bin/kubectl-fleet"));
    assert!(!called("flagship") && !called("/kubectl-fleet/flagship"));
    assert!(!is_called(&[]));
}

#[test]
fn a_failure_says_how_it_is_meant_between_two_words_about_what_is_wrong() {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let arguments = ["kubectl-fleet", "uncordoncluster"].map(OsString::from).to_vec();
    assert_eq!(answer(arguments, &mut out, &mut err).unwrap(), 1);
    assert!(out.is_empty());
    let text = String::from_utf8(err).unwrap();
    let (front, last) = text.trim_end().rsplit_once('\n').unwrap();
    expect![[r#"
        Error: required flag(s) "cluster-name", "hub-cluster-context" not set
        Remove the cordon taint of a member cluster

        Usage: kubectl-fleet uncordoncluster [OPTIONS]

        Options:
              --cluster-name <CLUSTER_NAME>                Name of the member cluster
              --hub-cluster-context <HUB_CLUSTER_CONTEXT>  Kubeconfig context of the hub cluster
              --timeout <DURATION>                         How long the command may take [default: 5m]
          -h, --help                                       Print help
    "#]]
    .assert_eq(&format!("{}\n", front.trim_end()));
    let expected = "Error executing command: required flag(s) \"cluster-name\", \"hub-cluster-context\" not set";
    assert_eq!(&last[20..], expected);
    assert!(last[..19].parse::<jiff::civil::DateTime>().is_err(), "slashes, as Go writes them");
}

#[test]
fn the_version_goes_to_standard_output() {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let arguments = ["kubectl-fleet", "version"].map(OsString::from).to_vec();
    assert_eq!(answer(arguments, &mut out, &mut err).unwrap(), 0);
    let expected = format!("kubectl-fleet {} ({})\n", version::VERSION, version::COMMIT);
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

// checklist fleet 12.56: success.
#[tokio::test(start_paused = true)]
async fn a_drained_cluster_is_cordoned_and_empty() {
    let fleet = placed("{placementType: PickAll}").await;
    let hub = &fleet.clusters.hub;
    let other = json!({"key": "k", "value": "v", "effect": "NoSchedule"});
    hub.patch(MC, "", "member1", json!({"spec": {"taints": [other]}})).await;
    let line = "draincluster --cluster-name member1";
    expect![[r#"
        Successfully cordoned member cluster member1 by adding cordon taint
        Created eviction drain-eviction-web-member1-######## for CRP web targeting member cluster member1
        eviction drain-eviction-web-member1-######## was executed successfully for CRP web targeting member cluster member1
        evicted resource ''/v1/Namespace/''/app propagated by CRP web targeting member cluster member1
        drain was successful for cluster member1
        retrying drain to ensure all resources propagated from hub cluster are evicted
        Successfully cordoned member cluster member1 by adding cordon taint
        There are currently no resources propagated to member1 from fleet using ClusterResourcePlacement resources
        drain retry was successful for cluster member1
        reminder: uncordon the cluster member1 to remove cordon taint if needed
    "#]]
    .assert_eq(&said(hub.client(), &fleet.env, line).await);
    fleet.clusters.member("member1").goes("namespaces", "", "app").await;
    assert!(fleet.clusters.member("member2").find("namespaces", "", "app").await.is_some());
    let cordon = json!({"key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule"});
    assert_eq!(taints(hub, "member1").await, json!([other, cordon]));
    // Only the cordon goes, however often it is asked for.
    let line = "uncordoncluster --cluster-name member1";
    for _ in 0..2 {
        let text = said(hub.client(), &fleet.env, line).await;
        assert_eq!(text, "uncordoned member cluster member1\n");
        assert_eq!(taints(hub, "member1").await, json!([other]));
    }
    assert_eq!(hub.list(CRPE, "").await.len(), 1, "evictions stay for those who ask later");
}

// checklist fleet 12.56: blocked by a budget, which is no failure.
#[tokio::test(start_paused = true)]
async fn a_budget_blocks_a_drain_and_that_is_said() {
    let fleet = placed("{placementType: PickN, numberOfClusters: 2}").await;
    let hub = &fleet.clusters.hub;
    hub.apply(
        "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacementDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 2}
",
    )
    .await;
    let line = "draincluster --cluster-name member2";
    expect![[r#"
        Successfully cordoned member cluster member2 by adding cordon taint
        Created eviction drain-eviction-web-member2-######## for CRP web targeting member cluster member2
        eviction drain-eviction-web-member2-######## was not executed successfully for CRP web targeting member cluster member2
        drain was not successful for cluster member2
        retrying drain to ensure all resources propagated from hub cluster are evicted
        Successfully cordoned member cluster member2 by adding cordon taint
        Created eviction drain-eviction-web-member2-######## for CRP web targeting member cluster member2
        eviction drain-eviction-web-member2-######## was not executed successfully for CRP web targeting member cluster member2
        drain retry was not successful for cluster member2
        reminder: uncordon the cluster member2 to remove cordon taint if needed
    "#]]
    .assert_eq(&said(hub.client(), &fleet.env, line).await);
    assert!(fleet.clusters.member("member2").find("namespaces", "", "app").await.is_some());
}

// checklist fleet 12.56: partially allowed.
#[tokio::test(start_paused = true)]
async fn what_may_go_goes_although_the_rest_must_stay() {
    let fleet = placed("{placementType: PickAll}").await;
    let hub = &fleet.clusters.hub;
    hub.apply(
        "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacementDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 2}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules: []
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: also}
spec:
  resourceSelectors: [{group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole, name: reader}]
",
    )
    .await;
    let available = "ClusterResourcePlacementAvailable";
    hub.becomes("clusterresourceplacements", "", "also", available, "True").await;
    let text = said(hub.client(), &fleet.env, "draincluster --cluster-name member1").await;
    let told: Vec<&str> = text.lines().filter(|line| line.contains(" was ")).collect();
    expect![[r#"
        eviction drain-eviction-also-member1-######## was executed successfully for CRP also targeting member cluster member1
        eviction drain-eviction-web-member1-######## was not executed successfully for CRP web targeting member cluster member1
        drain was not successful for cluster member1
        eviction drain-eviction-web-member1-######## was not executed successfully for CRP web targeting member cluster member1
        drain retry was not successful for cluster member1"#]]
    .assert_eq(&told.join("\n"));
    let evicted = "evicted resource rbac.authorization.k8s.io/v1/ClusterRole/''/reader propagated \
                   by CRP also targeting member cluster member1";
    assert!(text.contains(evicted), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_cannot_be_carried_out_says_at_which_step() {
    let mut fleet = placed("{placementType: PickAll}").await;
    let hub = fleet.clusters.hub.clone();
    let text = said(hub.client(), &fleet.env, "draincluster --cluster-name nobody").await;
    assert!(
        text.starts_with(
            "failed to drain member cluster nobody: failed to cordon member cluster nobody: "
        ),
        "{text}"
    );
    let text = said(hub.client(), &fleet.env, "uncordoncluster --cluster-name nobody").await;
    assert!(text.starts_with("failed to uncordon cluster nobody: "), "{text}");
    // Nobody answers: the hub is down.
    fleet.stop("hub").await;
    let line = "draincluster --cluster-name member1 --timeout 90s";
    let text = said(hub.client(), &fleet.env, line).await;
    let last = text.lines().last().unwrap();
    assert_eq!(
        last,
        "failed to drain member cluster member1: failed to wait for eviction \
         drain-eviction-web-member1-######## for CRP web targeting member cluster member1 to reach \
         terminal state: context deadline exceeded"
    );
}

async fn requests() -> Fleeting {
    let fleet = Fleeting::new(FleetConfig::of(0)).await;
    fleet
        .clusters
        .hub
        .apply(
            "
apiVersion: v1
kind: Namespace
metadata: {name: app}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterApprovalRequest
metadata: {name: run-after-canary}
spec: {parentStageRollout: run, targetStage: canary}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ApprovalRequest
metadata: {name: run-after-canary, namespace: app}
spec: {parentStageRollout: run, targetStage: canary}
",
        )
        .await;
    fleet
}

// checklist fleet 12.57
#[tokio::test(start_paused = true)]
async fn both_kinds_are_approved_by_all_their_names() {
    for kind in ["clusterapprovalrequest", "CAREQ", "approvalrequest", "AReq"] {
        let fleet = requests().await;
        let hub = &fleet.clusters.hub;
        let wide = kind.to_lowercase().starts_with('c');
        let (space, resource) = if wide { ("", CAREQ) } else { ("app", AREQ) };
        let flag = if wide { "" } else { "-n app" };
        let line = format!("approve {kind} --name run-after-canary {flag}");
        let text = said(hub.client(), &fleet.env, &line).await;
        let (said, expected) = if wide {
            (
                "ClusterApprovalRequest \"run-after-canary\" approved successfully\n",
                "Approved=True ClusterApprovalRequestApproved: ClusterApprovalRequest has been approved",
            )
        } else {
            (
                "ApprovalRequest \"run-after-canary\" in namespace \"app\" approved successfully\n",
                "Approved=True ApprovalRequestApproved: ApprovalRequest has been approved",
            )
        };
        assert_eq!(text, said);
        assert_eq!(hub.conditions(resource, space, "run-after-canary").await, [expected]);
    }
}

// checklist fleet 12.57: what was there stays, what was said before is said anew.
#[tokio::test(start_paused = true)]
async fn an_approval_keeps_what_others_said_and_speaks_of_the_request_as_it_is() {
    let fleet = requests().await;
    let hub = &fleet.clusters.hub;
    let old = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "Old", "message": "",
            "observedGeneration": 0, "lastTransitionTime": "2025-01-01T00:00:00Z"})
    };
    let status = json!({"conditions": [old("Approved", "False"), old("Seen", "True")]});
    hub.patch_status(CAREQ, "", "run-after-canary", status).await;
    let line = "approve careq --name run-after-canary";
    said(hub.client(), &fleet.env, line).await;
    let request = hub.get(CAREQ, "", "run-after-canary").await;
    let said = request["status"]["conditions"].as_array().unwrap();
    assert_eq!(said.len(), 2);
    assert_eq!(said[0]["status"], "True");
    assert_eq!(said[0]["observedGeneration"], request["metadata"]["generation"]);
    assert_ne!(said[0]["lastTransitionTime"], "2025-01-01T00:00:00Z");
    assert_eq!(said[1], old("Seen", "True"));
}

// checklist fleet 12.57: not found.
#[tokio::test(start_paused = true)]
async fn a_request_nobody_made_cannot_be_approved() {
    let fleet = requests().await;
    let hub = fleet.clusters.hub.client();
    let text = said(hub, &fleet.env, "approve careq --name none").await;
    let expected = "failed to approve ClusterApprovalRequest \"none\": failed to get \
                    ClusterApprovalRequest \"none\": ";
    assert!(text.starts_with(expected), "{text}");
    let text = said(hub, &fleet.env, "approve areq --name none --namespace app").await;
    let expected = "failed to approve ApprovalRequest \"none\" in namespace \"app\": failed to get \
                    ApprovalRequest \"none\" in namespace \"app\": ";
    assert!(text.starts_with(expected), "{text}");
}
