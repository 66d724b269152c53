//! What each layer of defaults fills in, and what it leaves alone.

use serde_json::{Value, json};

use super::*;

/// A placement spec with these fields added to the one that is always needed.
fn spec(fields: &Value) -> PlacementSpec {
    let mut whole =
        json!({"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace"}]});
    for (key, value) in fields.as_object().unwrap() {
        whole[key] = value.clone();
    }
    serde_json::from_value(whole).unwrap()
}

fn written(spec: &PlacementSpec) -> Value {
    let mut written = serde_json::to_value(spec).unwrap();
    written.as_object_mut().unwrap().remove("resourceSelectors");
    written
}

fn completed(fields: &Value) -> Value {
    let mut spec = spec(fields);
    complete_placement(&mut spec);
    let once = written(&spec);
    complete_placement(&mut spec);
    assert_eq!(written(&spec), once, "a second time changes nothing");
    once
}

#[test]
fn a_bare_placement_picks_all_and_rolls_by_client_side_apply() {
    assert_eq!(
        completed(&json!({})),
        json!({
            "policy": {"placementType": "PickAll"},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {
                    "maxUnavailable": "25%",
                    "maxSurge": "25%",
                    "unavailablePeriodSeconds": 60,
                },
                "applyStrategy": {
                    "type": "ClientSideApply",
                    "comparisonOption": "PartialComparison",
                    "whenToApply": "Always",
                    "whenToTakeOver": "Always",
                },
            },
            "revisionHistoryLimit": 10,
            "statusReportingScope": "ClusterScopeOnly",
        })
    );
}

#[test]
fn an_external_strategy_gets_no_rolling_update() {
    let strategy = completed(&json!({"strategy": {"type": "External"}}))["strategy"].clone();
    assert_eq!(strategy["type"], "External");
    assert_eq!(strategy.get("rollingUpdate"), None);
    assert_eq!(strategy["applyStrategy"]["type"], "ClientSideApply");
}

#[test]
fn server_side_apply_gets_its_settings() {
    let strategy = completed(&json!({"strategy": {"applyStrategy": {"type": "ServerSideApply"}}}));
    assert_eq!(
        strategy["strategy"]["applyStrategy"]["serverSideApplyConfig"],
        json!({"force": false})
    );
    let forced = ApplyStrategy {
        r#type: Some(ApplyStrategyType::ServerSideApply),
        server_side_apply_config: Some(ServerSideApplyConfig { force: true }),
        ..Default::default()
    };
    let effective = effective_apply_strategy(Some(&forced));
    assert_eq!(effective.server_side_apply_config, Some(ServerSideApplyConfig { force: true }));
    assert_eq!(effective_apply_strategy(None).server_side_apply_config, None);
}

/// Its type is required by the schema, but only after the server has filled it in.
#[test]
fn an_empty_report_back_strategy_is_disabled() {
    let strategy = completed(&json!({"strategy": {"reportBackStrategy": {}}}))["strategy"].clone();
    assert_eq!(strategy["reportBackStrategy"], json!({"type": "Disabled"}));
}

#[test]
fn what_is_given_stays() {
    let given = json!({
        "policy": {
            "placementType": "PickN",
            "numberOfClusters": 3,
            "topologySpreadConstraints": [
                {"maxSkew": 2, "topologyKey": "region", "whenUnsatisfiable": "ScheduleAnyway"},
            ],
            "tolerations": [{"operator": "Exists"}],
        },
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "1%", "unavailablePeriodSeconds": 0},
            "applyStrategy": {
                "type": "ReportDiff",
                "comparisonOption": "FullComparison",
                "whenToApply": "IfNotDrifted",
                "whenToTakeOver": "Never",
            },
            "deleteStrategy": {"propagationPolicy": "Abandon"},
        },
        "revisionHistoryLimit": 1,
        "statusReportingScope": "NamespaceAccessible",
    });
    assert_eq!(completed(&given), given);
}

#[test]
fn parts_of_a_policy_are_filled_in() {
    let policy = completed(&json!({"policy": {
        "topologySpreadConstraints": [{"topologyKey": "region"}],
        "tolerations": [{"key": "k", "value": "v"}],
    }}))["policy"]
        .clone();
    assert_eq!(
        policy,
        json!({
            "placementType": "PickAll",
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "region", "whenUnsatisfiable": "DoNotSchedule"},
            ],
            "tolerations": [{"key": "k", "operator": "Equal", "value": "v"}],
        })
    );
}

/// A ResourcePlacement is not completed at admission, so the schema's layer must
/// leave out what the other layer adds.
#[test]
fn the_schema_alone_adds_no_policy_and_no_strategy() {
    let mut bare = spec(&json!({}));
    bare.fill_schema_defaults();
    assert_eq!(
        written(&bare),
        json!({"revisionHistoryLimit": 10, "statusReportingScope": "ClusterScopeOnly"})
    );
    let mut empty = spec(&json!({"policy": {}, "strategy": {}}));
    empty.fill_schema_defaults();
    let empty = written(&empty);
    assert_eq!(empty["policy"], json!({"placementType": "PickAll"}));
    assert_eq!(empty["strategy"], json!({"type": "RollingUpdate"}));
}

#[test]
fn a_missing_policy_hashes_differently_before_and_after_admission() {
    let mut placement = spec(&json!({}));
    let nil = crate::hash::policy_hash(placement.policy.as_ref()).unwrap();
    assert_eq!(nil, "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b");
    complete_placement(&mut placement);
    let all = crate::hash::policy_hash(placement.policy.as_ref()).unwrap();
    assert_eq!(all, "8cc57dee59684ff88766e26936c8fb125f4bde234a2beb5c54aded4569db0d5a");
}

#[test]
fn at_least_one_snapshot_is_kept() {
    for (limit, kept) in [(None, 10), (Some(1), 1), (Some(1000), 1000), (Some(0), 1), (Some(-5), 1)]
    {
        let spec = PlacementSpec { revision_history_limit: limit, ..Default::default() };
        assert_eq!(revision_history_limit(&spec), kept);
    }
}

#[test]
fn users_and_groups_get_the_group_the_server_gives_them() {
    let subject = |kind: &str, group: Option<&str>| {
        let mut subject = Subject {
            kind: kind.to_owned(),
            name: "agent".to_owned(),
            api_group: group.map(str::to_owned),
            namespace: None,
        };
        complete_identity(&mut subject);
        subject.api_group
    };
    let rbac = Some("rbac.authorization.k8s.io".to_owned());
    assert_eq!(subject("User", None), rbac);
    assert_eq!(subject("Group", Some("")), rbac);
    assert_eq!(subject("User", Some("x")), Some("x".to_owned()));
    assert_eq!(subject("ServiceAccount", None), None);
}
