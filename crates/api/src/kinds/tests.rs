//! Names, wire form and refusals of the root types.

use std::collections::BTreeMap;

use expect_test::expect;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::{ObjectList, Resource, ResourceExt, WatchEvent};

use super::{all, find};
use crate::cluster::{ClusterState, InternalMemberCluster, MemberCluster};
use crate::placement::ClusterResourcePlacement;
use crate::placement_status::ClusterResourcePlacementStatus;
use crate::staged_update::{ClusterStagedUpdateRun, StagedUpdateRun, UpdateRunSpec};
use crate::work::Work;

#[test]
fn a_kind_answers_to_all_its_names_in_any_case() {
    for name in [
        "ClusterStagedUpdateRun",
        "clusterstagedupdaterun",
        "ClusterStagedUpdateRuns",
        "CSUR",
        "clusterstagedupdateruns.placement.kubernetes-fleet.io",
    ] {
        assert_eq!(find(name).unwrap().kind, "ClusterStagedUpdateRun", "{name}");
    }
    assert!(find("deployment").is_none());
    assert!(find("").is_none());
}

#[test]
fn there_are_28_kinds_in_alphabetical_order() {
    assert!(all().is_sorted_by_key(|info| info.kind));
    assert_eq!(all().len(), 28);
}

#[test]
fn no_two_kinds_answer_to_the_same_name() {
    let mut owners = BTreeMap::new();
    for info in all() {
        let mut names = vec![info.singular(), info.plural.to_owned()];
        names.extend(info.short_names.iter().map(|name| (*name).to_owned()));
        for name in names {
            assert_eq!(owners.insert(name.clone(), info.kind), None, "{name}");
        }
    }
}

#[test]
fn the_table_is_in_alphabetical_order_and_stores_one_version() {
    assert!(all().is_sorted_by_key(|info| info.kind));
    assert_eq!(all().len(), 28);
    for info in all() {
        let storage = if info.kind == "ClusterProfile" { "v1alpha1" } else { "v1beta1" };
        assert_eq!(info.versions[0].name, storage, "{}", info.kind);
    }
}

#[test]
fn clients_find_the_urls_of_the_stored_version() {
    assert_eq!(
        ClusterStagedUpdateRun::url_path(&(), None),
        "/apis/placement.kubernetes-fleet.io/v1beta1/clusterstagedupdateruns"
    );
    assert_eq!(
        StagedUpdateRun::url_path(&(), Some("app")),
        "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/app/stagedupdateruns"
    );
    assert_eq!(
        MemberCluster::url_path(&(), None),
        "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters"
    );
}

#[test]
fn absent_things_are_not_written() {
    let run = ClusterStagedUpdateRun {
        metadata: ObjectMeta { name: Some("web".into()), ..ObjectMeta::default() },
        spec: UpdateRunSpec {
            placement_name: "crp".into(),
            staged_rollout_strategy_name: "slow".into(),
            ..UpdateRunSpec::default()
        },
        status: None,
    };
    assert_eq!(run.name_any(), "web");
    expect![[r#"{"apiVersion":"placement.kubernetes-fleet.io/v1beta1","kind":"ClusterStagedUpdateRun","metadata":{"name":"web"},"spec":{"placementName":"crp","stagedRolloutStrategyName":"slow"}}"#]]
        .assert_eq(&serde_json::to_string(&run).unwrap());
}

#[test]
fn an_older_version_is_read_and_the_stored_one_written() {
    let old = r#"{"apiVersion":"placement.kubernetes-fleet.io/v1alpha1","kind":"ClusterStagedUpdateRun","metadata":{"name":"web"},"spec":{"placementName":"crp","resourceSnapshotIndex":"0","stagedRolloutStrategyName":"slow"}}"#;
    let run: ClusterStagedUpdateRun = serde_json::from_str(old).unwrap();
    assert_eq!(serde_json::to_string(&run).unwrap(), old.replace("v1alpha1", "v1beta1"));
}

#[test]
fn unknown_fields_are_left_aside_and_absent_type_fields_are_fine() {
    let text = r#"{"extra":1,"metadata":{},"spec":{"placementName":"p","stagedRolloutStrategyName":"s","news":{}},"status":null}"#;
    let run: ClusterStagedUpdateRun = serde_json::from_str(text).unwrap();
    assert_eq!(run.spec.placement_name, "p");
    assert_eq!(run.status, None);
}

#[test]
fn an_object_of_another_kind_or_version_is_refused_by_name() {
    let refusal = |api_version: &str, kind: &str| {
        let text = format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}"}}"#);
        serde_json::from_str::<Work>(&text).unwrap_err().to_string()
    };
    expect![
        "expected Work of placement.kubernetes-fleet.io (v1beta1, v1), found Deployment of apps/v1"
    ]
    .assert_eq(&refusal("apps/v1", "Deployment"));
    expect!["expected Work of placement.kubernetes-fleet.io (v1beta1, v1), found Work of placement.kubernetes-fleet.io/v9"]
        .assert_eq(&refusal("placement.kubernetes-fleet.io/v9", "Work"));
}

#[test]
fn a_missing_field_is_named_as_it_is_written() {
    let refusal = serde_json::from_str::<ClusterResourcePlacementStatus>("{}").unwrap_err();
    assert_eq!(refusal.to_string(), "missing field `sourceStatus`");
}

#[test]
fn a_value_outside_an_enum_is_refused_by_name() {
    let text = r#"{"spec":{"resourceSelectors":[],"policy":{"placementType":"PickSome"}}}"#;
    let refusal = serde_json::from_str::<ClusterResourcePlacement>(text).unwrap_err();
    expect!["unknown variant `PickSome`, expected one of `PickAll`, `PickN`, `PickFixed` at line 1 column 68"]
        .assert_eq(&refusal.to_string());
}

#[test]
fn a_value_the_api_does_not_check_is_kept() {
    let state = |state: &str| {
        let text = format!(r#"{{"spec":{{"state":"{state}"}}}}"#);
        let object: InternalMemberCluster = serde_json::from_str(&text).unwrap();
        assert!(serde_json::to_string(&object).unwrap().contains(state));
        object.spec.state
    };
    assert_eq!(state("Leave"), ClusterState::Leave);
    assert_eq!(state("Hover"), ClusterState::Other("Hover".into()));
}

#[test]
fn a_work_without_a_spec_has_nothing_to_apply() {
    let work: Work = serde_json::from_str(r#"{"metadata":{"name":"w"}}"#).unwrap();
    assert!(work.spec.workload.manifests.is_empty());
}

#[test]
fn lists_and_watch_events_of_payloads_are_read_in_any_order() {
    let work = r#"{"metadata":{"name":"w"},"spec":{"workload":{"manifests":[{"z":1,"a":2}]}}}"#;
    let list = format!(
        r#"{{"items":[{work}],"kind":"WorkList","apiVersion":"placement.kubernetes-fleet.io/v1beta1","metadata":{{}}}}"#
    );
    let list: ObjectList<Work> = serde_json::from_str(&list).unwrap();
    assert_eq!(list.items[0].spec.workload.manifests[0].text(), r#"{"z":1,"a":2}"#);

    for event in [
        format!(r#"{{"type":"ADDED","object":{work}}}"#),
        format!(r#"{{"object":{work},"type":"ADDED"}}"#),
    ] {
        let event: WatchEvent<Work> = serde_json::from_str(&event).unwrap();
        let WatchEvent::Added(work) = event else { panic!("{event:?}") };
        assert_eq!(work.spec.workload.manifests.len(), 1);
    }
}
