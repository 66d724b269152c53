//! Mistakes that people make, and the whole of what they are told.
//!
//! The answers stand in `golden/refusals.txt`, each read and held against Kubernetes'
//! wordings by a person. `UPDATE_EXPECT=1` writes the file anew.

use std::fmt::Write;

use expect_test::expect_file;
use serde_json::{Value, json};

use crate::crd::fleet::Fleet;
use crate::crd::rule_cases::over;

/// A mistake: a kind, what stood there before, and what is laid over it.
struct Mistake {
    kind: &'static str,
    before: Value,
    change: Option<Value>,
}

fn created(kind: &'static str, object: Value) -> Mistake {
    Mistake { kind, before: object, change: None }
}

fn changed(kind: &'static str, before: Value, change: Value) -> Mistake {
    Mistake { kind, before, change: Some(change) }
}

#[tokio::test]
async fn common_mistakes_are_answered_in_kubernetes_words() {
    let fleet = Fleet::new().await;
    let mut text = String::new();
    for mistake in mistakes() {
        let version = fleet.kind(mistake.kind).storage();
        let name = format!("refused-{}", Fleet::fresh_name());
        let mut object = mistake.before;
        if object["metadata"]["name"].is_null() {
            object["metadata"]["name"] = json!(name);
        }
        let (shown, reply) = match mistake.change {
            None => (object.clone(), fleet.create(version, object).await),
            Some(change) => {
                let old = fleet.create(version, object.clone()).await;
                assert!(old.code < 300, "{:#}", old.body);
                let new = over(&object, &change);
                (change, fleet.put(version, old.body, new).await)
            }
        };
        assert_eq!(reply.code, 422, "{shown}: {:#}", reply.body);
        reply.causes(version);
        let mut shown = shown;
        if let Some(map) = shown.as_object_mut() {
            map.retain(|key, value| key != "metadata" || value["name"] != *name);
        }
        let answer = serde_json::to_string_pretty(&reply.body).unwrap();
        let answer = answer.replace(&name, "NAME");
        writeln!(text, "{} {}\n{answer}\n", mistake.kind, shortened(&shown.to_string())).unwrap();
    }
    expect_file!["golden/refusals.txt"].assert_eq(&text);
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn mistakes() -> Vec<Mistake> {
    [runs(), strategies(), approvals(), placements(), policies(), members(), contents()]
        .into_iter()
        .flatten()
        .collect()
}

fn runs() -> Vec<Mistake> {
    const RUN: &str = "ClusterStagedUpdateRun";
    let spec = |extra: Value| {
        let base = json!({"placementName": "web", "stagedRolloutStrategyName": "s"});
        json!({"spec": over(&base, &extra)})
    };
    let to = |state: &str| json!({"spec": {"state": state}});
    let with_name =
        |length: usize| over(&spec(json!({})), &json!({"metadata": {"name": "r".repeat(length)}}));
    vec![
        created(RUN, spec(json!({"placementName": null}))),
        created(RUN, spec(json!({"placementName": null, "stagedRolloutStrategyName": null}))),
        created(RUN, spec(json!({"state": "Running"}))),
        created(RUN, spec(json!({"placementName": "p".repeat(256)}))),
        created(RUN, json!({"spec": "web"})),
        created(RUN, json!({})),
        created(RUN, with_name(64)),
        changed(RUN, spec(json!({})), to("Stop")),
        changed(RUN, spec(json!({"state": "Run"})), to("Initialize")),
        changed(RUN, spec(json!({"state": "Stop"})), to("Initialize")),
        changed(RUN, spec(json!({})), json!({"spec": {"placementName": "other"}})),
        changed(
            RUN,
            spec(json!({})),
            json!({"spec": {"placementName": "other", "stagedRolloutStrategyName": "t", "state": "Stop"}}),
        ),
    ]
}

fn strategies() -> Vec<Mistake> {
    const STRATEGY: &str = "StagedUpdateStrategy";
    let stage =
        |extra: Value| json!({"spec": {"stages": [over(&json!({"name": "canary"}), &extra)]}});
    let after = |tasks: Value| stage(json!({"afterStageTasks": tasks}));
    let many: Vec<Value> = (0..32).map(|n| json!({"name": format!("s{n}")})).collect();
    vec![
        created(STRATEGY, json!({"spec": {}})),
        created(STRATEGY, json!({"spec": {"stages": many}})),
        created(STRATEGY, stage(json!({"name": "Canary-1"}))),
        created(STRATEGY, stage(json!({"name": "c".repeat(64)}))),
        created(STRATEGY, stage(json!({"maxConcurrency": 0}))),
        created(STRATEGY, stage(json!({"maxConcurrency": "0%"}))),
        created(STRATEGY, stage(json!({"maxConcurrency": true}))),
        created(STRATEGY, after(json!([{"type": "TimedWait", "waitTime": "soon"}]))),
        created(STRATEGY, after(json!([{"type": "TimedWait"}]))),
        created(STRATEGY, after(json!([{"type": "Approval", "waitTime": "1h"}]))),
        created(
            STRATEGY,
            after(json!([{"type": "Approval"}, {"type": "Approval"}, {"type": "Approval"}])),
        ),
        created(STRATEGY, after(json!([{"type": "Ask"}]))),
        created(
            STRATEGY,
            stage(json!({"beforeStageTasks": [{"type": "TimedWait", "waitTime": "1h"}]})),
        ),
    ]
}

fn approvals() -> Vec<Mistake> {
    const APPROVAL: &str = "ClusterApprovalRequest";
    let request = || json!({"spec": {"parentStageRollout": "run", "targetStage": "canary"}});
    let condition = |extra: Value| {
        let base = json!({
            "type": "Approved", "status": "True", "reason": "LooksGood", "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        });
        changed(APPROVAL, request(), json!({"status": {"conditions": [over(&base, &extra)]}}))
    };
    vec![
        condition(json!({"status": "Yes"})),
        condition(json!({"reason": ""})),
        condition(json!({"reason": "looks good"})),
        condition(json!({"lastTransitionTime": "yesterday"})),
        condition(json!({"reason": null, "message": null, "lastTransitionTime": null})),
        condition(json!({"observedGeneration": -1})),
        changed(APPROVAL, request(), json!({"spec": {"targetStage": "prod"}})),
    ]
}

fn selector(extra: Value) -> Value {
    over(&json!({"group": "", "version": "v1", "kind": "Namespace", "name": "web"}), &extra)
}

const PLACEMENT: &str = "ClusterResourcePlacement";

fn placement(extra: Value) -> Value {
    json!({"spec": over(&json!({"resourceSelectors": [selector(json!({}))]}), &extra)})
}

fn placements() -> Vec<Mistake> {
    let many: Vec<Value> = (0..101).map(|_| selector(json!({}))).collect();
    let both = selector(json!({"labelSelector": {"matchLabels": {"a": "b"}}}));
    let update = |extra: Value| placement(json!({"strategy": {"rollingUpdate": extra}}));
    let external = || placement(json!({"strategy": {"type": "External"}}));
    let visible = || placement(json!({"statusReportingScope": "NamespaceAccessible"}));
    vec![
        created(PLACEMENT, json!({"spec": {"resourceSelectors": []}})),
        created(PLACEMENT, placement(json!({"resourceSelectors": many}))),
        created(PLACEMENT, placement(json!({"resourceSelectors": [both]}))),
        created(PLACEMENT, placement(json!({"resourceSelectors": [{"kind": "Namespace"}]}))),
        created(PLACEMENT, placement(json!({"revisionHistoryLimit": 0}))),
        created(PLACEMENT, placement(json!({"revisionHistoryLimit": 1001}))),
        created(PLACEMENT, placement(json!({"revisionHistoryLimit": "10"}))),
        created(PLACEMENT, update(json!({"maxSurge": "150%"}))),
        created(PLACEMENT, update(json!({"unavailablePeriodSeconds": -1, "maxUnavailable": {}}))),
        changed(PLACEMENT, external(), json!({"spec": {"strategy": {"type": "RollingUpdate"}}})),
        changed(
            PLACEMENT,
            visible(),
            json!({"spec": {"statusReportingScope": "ClusterScopeOnly"}}),
        ),
        created(
            PLACEMENT,
            placement(json!({
                "statusReportingScope": "NamespaceAccessible",
                "resourceSelectors": [selector(json!({"kind": "ConfigMap"}))],
            })),
        ),
        created(
            "ResourcePlacement",
            placement(json!({"strategy": {"reportBackStrategy": {"type": "Mirror"}}})),
        ),
    ]
}

fn policies() -> Vec<Mistake> {
    let policy = |policy: Value| placement(json!({"policy": policy}));
    let pick = |kind: &str, extra: Value| policy(over(&json!({"placementType": kind}), &extra));
    let tolerates = |toleration: Value| policy(json!({"tolerations": [toleration]}));
    vec![
        created(PLACEMENT, pick("PickSome", json!({}))),
        created(PLACEMENT, pick("PickN", json!({}))),
        created(PLACEMENT, pick("PickN", json!({"numberOfClusters": -1}))),
        created(PLACEMENT, pick("PickFixed", json!({"numberOfClusters": 1}))),
        created(PLACEMENT, pick("PickAll", json!({"clusterNames": ["a"]}))),
        created(PLACEMENT, tolerates(json!({"operator": "Exists", "value": "v"}))),
        created(PLACEMENT, tolerates(json!({"value": "v", "effect": "NoExecute"}))),
        changed(PLACEMENT, pick("PickAll", json!({})), json!({"spec": {"policy": null}})),
        changed(
            PLACEMENT,
            pick("PickAll", json!({})),
            json!({"spec": {"policy": {"placementType": "PickFixed", "clusterNames": ["a"]}}}),
        ),
    ]
}

fn members() -> Vec<Mistake> {
    const MEMBER: &str = "MemberCluster";
    let member = |extra: Value| {
        let identity =
            json!({"kind": "ServiceAccount", "name": "agent", "namespace": "fleet-system"});
        json!({"spec": over(&json!({"identity": identity}), &extra)})
    };
    let usage = |cpu: Value| {
        let status = json!({"resourceUsage": {"capacity": {"cpu": cpu}}});
        changed(MEMBER, member(json!({})), json!({"status": status}))
    };
    let profile = |manager: &str| json!({"spec": {"clusterManager": {"name": manager}}});
    vec![
        created(MEMBER, json!({"spec": {}})),
        created(MEMBER, member(json!({"heartbeatPeriodSeconds": 0}))),
        created(MEMBER, member(json!({"heartbeatPeriodSeconds": 601}))),
        created(MEMBER, member(json!({"heartbeatPeriodSeconds": 1.5}))),
        created(MEMBER, member(json!({"taints": [{"key": "k", "effect": "Never"}]}))),
        usage(json!("much")),
        usage(json!([])),
        changed("ClusterProfile", profile("a"), profile("b")),
    ]
}

fn contents() -> Vec<Mistake> {
    let work =
        |manifest: Value| created("Work", json!({"spec": {"workload": {"manifests": [manifest]}}}));
    let data: serde_json::Map<_, _> = (0..51).map(|n| (format!("k{n}"), json!({}))).collect();
    let budget =
        |spec: Value| created("ClusterResourcePlacementDisruptionBudget", json!({"spec": spec}));
    let overrides = |extra: Value| {
        let base = json!({
            "clusterResourceSelectors": [selector(json!({}))],
            "policy": {"overrideRules": [{"overrideType": "Delete"}]},
        });
        json!({"spec": over(&base, &extra)})
    };
    let refers = |scope: &str| overrides(json!({"placement": {"name": "web", "scope": scope}}));
    let rules: Vec<Value> = (0..21).map(|_| json!({"overrideType": "Delete"})).collect();
    let patch = json!([{"jsonPatchOverrides": [{"op": "move", "path": "/a", "value": 1}]}]);
    const OVERRIDE: &str = "ClusterResourceOverride";
    vec![
        work(json!({"apiVersion": "v1"})),
        work(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a/b"}})),
        work(json!("text")),
        created("ResourceEnvelope", json!({"data": {}})),
        created("ResourceEnvelope", json!({"data": data})),
        created("ClusterResourceEnvelope", json!({"data": {"a": "text"}})),
        budget(json!({"maxUnavailable": 1, "minAvailable": 1})),
        budget(json!({"maxUnavailable": "101%"})),
        budget(json!({"minAvailable": -1})),
        created(OVERRIDE, refers("Namespaced")),
        created(OVERRIDE, overrides(json!({"policy": {"overrideRules": rules}}))),
        created(OVERRIDE, overrides(json!({"policy": {"overrideRules": patch}}))),
        changed(OVERRIDE, refers("Cluster"), json!({"spec": {"placement": {"name": "other"}}})),
        changed(OVERRIDE, overrides(json!({})), json!({"spec": {"placement": {"name": "late"}}})),
        changed(
            "ClusterResourcePlacementEviction",
            json!({"spec": {"placementName": "web", "clusterName": "a"}}),
            json!({"spec": {"placementName": "other", "clusterName": "b"}}),
        ),
    ]
}
