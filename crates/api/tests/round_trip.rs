//! Whatever the types can hold comes back the same after writing and reading.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::fmt::Debug;

use flagship_api::apply_strategy::*;
use flagship_api::binding::*;
use flagship_api::cluster::*;
use flagship_api::condition::{Condition, Statement};
use flagship_api::overrides::*;
use flagship_api::placement_status::*;
use flagship_api::policy::TaintEffect;
use flagship_api::raw_json::RawJson;
use flagship_api::snapshot::*;
use flagship_api::staged_update::*;
use flagship_api::staged_update_status::*;
use flagship_api::work::*;
use k8s_openapi::api::rbac::v1::Subject;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, LabelSelectorRequirement, ObjectMeta, Time,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::Timestamp;
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

proptest! {
    #[test]
    fn update_runs_come_back((metadata, spec, status) in (metadata(), run_spec(), of(run_status()))) {
        comes_back(&ClusterStagedUpdateRun { metadata, spec, status })?;
    }

    #[test]
    fn bindings_come_back((metadata, spec, status) in (metadata(), binding_spec(), of(binding_status()))) {
        comes_back(&ResourceBinding { metadata, spec, status })?;
    }

    #[test]
    fn works_come_back((metadata, spec, status) in (metadata(), work_spec(), of(work_status()))) {
        comes_back(&Work { metadata, spec, status })?;
    }

    #[test]
    fn overrides_come_back((metadata, spec) in (metadata(), override_spec())) {
        comes_back(&ResourceOverride { metadata, spec })?;
    }

    #[test]
    fn members_come_back((metadata, spec, status) in (metadata(), member_spec(), of(member_status()))) {
        comes_back(&MemberCluster { metadata, spec, status })?;
    }
}

fn comes_back<T>(object: &T) -> Result<(), TestCaseError>
where
    T: PartialEq + Debug + Serialize + DeserializeOwned,
{
    let text = serde_json::to_string(object).unwrap();
    prop_assert!(!text.contains(":null"), "{text}");
    let again: T = serde_json::from_str(&text).unwrap();
    prop_assert_eq!(object, &again);
    // Nothing is buffered on the way, so a tree gives the same as text.
    let value = serde_json::to_value(object).unwrap();
    prop_assert_eq!(serde_json::to_value(&again).unwrap(), value);
    Ok(())
}

fn word() -> impl Strategy<Value = String> {
    // With an empty one now and then, and everything JSON must escape.
    prop_oneof![Just(String::new()), "[a-z0-9./%\"\\\\\n\u{e9}\u{2028}-]{0,12}"]
}

fn words() -> impl Strategy<Value = Vec<String>> {
    vec(word(), 0..3)
}

/// Whole seconds: the wire form has no fractions.
fn time() -> impl Strategy<Value = Time> {
    (0..4_000_000_000_i64).prop_map(|second| Time(Timestamp::from_second(second).unwrap()))
}

fn metadata() -> impl Strategy<Value = ObjectMeta> {
    (of(word()), of(1..9_i64), of(btree_map(word(), word(), 0..3)), of(time())).prop_map(
        |(name, generation, labels, creation_timestamp)| ObjectMeta {
            name,
            generation,
            labels,
            creation_timestamp,
            ..ObjectMeta::default()
        },
    )
}

fn condition() -> impl Strategy<Value = Condition> {
    (word(), word(), word(), of(0..9_i64), time()).prop_map(
        |(type_, reason, message, observed_generation, since)| {
            let statement = Statement { type_, status: "True".into(), reason, message };
            statement.at(observed_generation, since)
        },
    )
}

fn conditions() -> impl Strategy<Value = Vec<Condition>> {
    vec(condition(), 0..3)
}

fn selector() -> impl Strategy<Value = LabelSelector> {
    let requirement = (word(), word(), of(words()))
        .prop_map(|(key, operator, values)| LabelSelectorRequirement { key, operator, values });
    (of(btree_map(word(), word(), 0..2)), of(vec(requirement, 0..2))).prop_map(
        |(match_labels, match_expressions)| LabelSelector { match_labels, match_expressions },
    )
}

fn number_or_text() -> impl Strategy<Value = IntOrString> {
    prop_oneof![any::<i32>().prop_map(IntOrString::Int), word().prop_map(IntOrString::String)]
}

fn raw() -> impl Strategy<Value = RawJson> {
    (word(), any::<i64>(), any::<bool>()).prop_map(|(text, number, spaced)| {
        let value = serde_json::json!({"kind": "X", "z": text, "a": [number, null]});
        let text =
            if spaced { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        RawJson::from_text(text).unwrap()
    })
}

fn apply_strategy() -> impl Strategy<Value = ApplyStrategy> {
    let force = any::<bool>().prop_map(|force| ServerSideApplyConfig { force });
    (any::<bool>(), of(force), any::<[bool; 3]>()).prop_map(
        |(allow_co_ownership, server_side_apply_config, [a, b, c])| ApplyStrategy {
            comparison_option: a.then_some(ComparisonOption::FullComparison),
            when_to_apply: b.then_some(WhenToApply::IfNotDrifted),
            r#type: c.then_some(ApplyStrategyType::ReportDiff),
            when_to_take_over: (a && b).then_some(WhenToTakeOver::Never),
            allow_co_ownership,
            server_side_apply_config,
        },
    )
}

fn task_type() -> impl Strategy<Value = StageTaskType> {
    prop_oneof![Just(StageTaskType::TimedWait), Just(StageTaskType::Approval)]
}

fn strategy() -> impl Strategy<Value = UpdateStrategySpec> {
    let task = || {
        (task_type(), of(word())).prop_map(|(r#type, wait_time)| StageTask { r#type, wait_time })
    };
    let stage = (
        (word(), word()),
        of(selector()),
        of(number_or_text()),
        vec(task(), 0..3),
        vec(task(), 0..2),
    )
        .prop_map(
            |((name, sorting_label_key), label_selector, max_concurrency, after, before)| {
                StageConfig {
                    name,
                    label_selector,
                    sorting_label_key,
                    max_concurrency,
                    after_stage_tasks: after,
                    before_stage_tasks: before,
                }
            },
        );
    vec(stage, 0..3).prop_map(|stages| UpdateStrategySpec { stages })
}

fn run_spec() -> impl Strategy<Value = UpdateRunSpec> {
    let state = prop_oneof![
        Just(UpdateRunState::Initialize),
        Just(UpdateRunState::Run),
        Just(UpdateRunState::Stop),
        Just(UpdateRunState::Other("Pause".to_owned())),
    ];
    (word(), word(), word(), of(state)).prop_map(|(placement, index, strategy, state)| {
        UpdateRunSpec {
            placement_name: placement,
            resource_snapshot_index: index,
            staged_rollout_strategy_name: strategy,
            state,
        }
    })
}

fn names() -> impl Strategy<Value = Vec<NamespacedName>> {
    vec((word(), word()).prop_map(|(name, namespace)| NamespacedName { name, namespace }), 0..2)
}

fn stage_status() -> impl Strategy<Value = StageUpdatingStatus> {
    let cluster = (word(), names(), words(), conditions()).prop_map(
        |(cluster_name, resource_override_snapshots, cluster_overrides, conditions)| {
            ClusterUpdatingStatus {
                cluster_name,
                resource_override_snapshots,
                cluster_resource_override_snapshots: cluster_overrides,
                conditions,
            }
        },
    );
    let task = (task_type(), word(), conditions()).prop_map(
        |(r#type, approval_request_name, conditions)| StageTaskStatus {
            r#type,
            approval_request_name,
            conditions,
        },
    );
    (word(), vec(cluster, 0..3), vec(task, 0..3), of(time()), of(time()), conditions()).prop_map(
        |(stage_name, clusters, tasks, start_time, end_time, conditions)| StageUpdatingStatus {
            stage_name,
            clusters,
            before_stage_task_status: tasks.first().cloned().into_iter().collect(),
            after_stage_task_status: tasks,
            start_time,
            end_time,
            conditions,
        },
    )
}

fn run_status() -> impl Strategy<Value = UpdateRunStatus> {
    (
        (word(), word(), 0..9_i64),
        of(apply_strategy()),
        of(strategy()),
        vec(stage_status(), 0..2),
        of(stage_status()),
        conditions(),
    )
        .prop_map(
            |((policy, resource, count), applied, snapshot, stages, deletion, conditions)| {
                UpdateRunStatus {
                    policy_snapshot_index_used: policy,
                    policy_observed_cluster_count: count,
                    resource_snapshot_index_used: resource,
                    applied_strategy: applied,
                    staged_update_strategy_snapshot: snapshot,
                    stages_status: stages,
                    deletion_stage_status: deletion,
                    conditions,
                }
            },
        )
}

fn binding_spec() -> impl Strategy<Value = ResourceBindingSpec> {
    let state = prop_oneof![
        Just(BindingState::Bound),
        Just(BindingState::Unscheduled),
        "[a-z]{0,5}".prop_map(BindingState::Other)
    ];
    let score =
        (of(any::<i32>()), of(any::<i32>())).prop_map(|(affinity_score, priority_score)| {
            ClusterScore { affinity_score, priority_score }
        });
    let decision = (word(), any::<bool>(), of(score), word()).prop_map(
        |(cluster_name, selected, cluster_score, reason)| ClusterDecision {
            cluster_name,
            selected,
            cluster_score,
            reason,
        },
    );
    (state, (word(), word(), word()), names(), words(), decision, of(apply_strategy())).prop_map(
        |(state, (resource, policy, target), overrides, cluster_overrides, decision, apply)| {
            ResourceBindingSpec {
                state,
                resource_snapshot_name: resource,
                resource_override_snapshots: overrides,
                cluster_resource_override_snapshots: cluster_overrides,
                scheduling_policy_snapshot_name: policy,
                target_cluster: target,
                cluster_decision: decision.into(),
                apply_strategy: apply,
            }
        },
    )
}

fn identifier() -> impl Strategy<Value = ResourceIdentifier> {
    let envelope =
        (word(), word(), any::<bool>()).prop_map(|(name, namespace, typed)| EnvelopeIdentifier {
            name,
            namespace,
            r#type: typed.then_some(EnvelopeType::ResourceEnvelope),
        });
    ([word(), word(), word(), word(), word()], of(envelope)).prop_map(
        |([group, version, kind, name, namespace], envelope)| ResourceIdentifier {
            group,
            version,
            kind,
            name,
            namespace,
            envelope,
        },
    )
}

fn details() -> impl Strategy<Value = Vec<PatchDetail>> {
    let detail = (word(), word(), word()).prop_map(|(path, value_in_member, value_in_hub)| {
        PatchDetail { path, value_in_member, value_in_hub }
    });
    vec(detail, 0..3)
}

fn binding_status() -> impl Strategy<Value = ResourceBindingStatus> {
    let failed = (identifier(), condition())
        .prop_map(|(resource, condition)| FailedResourcePlacement { resource, condition });
    let drifted = (identifier(), time(), 0..9_i64, time(), details()).prop_map(
        |(resource, observation_time, generation, first, observed_drifts)| {
            DriftedResourcePlacement {
                resource,
                observation_time,
                target_cluster_observed_generation: generation,
                first_drifted_observed_time: first,
                observed_drifts,
            }
        },
    );
    let diffed = (identifier(), time(), of(0..9_i64), time(), details()).prop_map(
        |(resource, observation_time, generation, first, observed_diffs)| DiffedResourcePlacement {
            resource,
            observation_time,
            target_cluster_observed_generation: generation,
            first_diffed_observed_time: first,
            observed_diffs,
        },
    );
    (vec(failed, 0..2), vec(drifted, 0..2), vec(diffed, 0..2), conditions()).prop_map(
        |(failed_placements, drifted_placements, diffed_placements, conditions)| {
            ResourceBindingStatus {
                failed_placements,
                drifted_placements,
                diffed_placements,
                conditions,
            }
        },
    )
}

fn work_spec() -> impl Strategy<Value = WorkSpec> {
    let report = any::<bool>().prop_map(|mirror| ReportBackStrategy {
        r#type: ReportBackStrategyType::Mirror,
        destination: mirror.then_some(ReportBackDestination::WorkApi),
    });
    (vec(raw(), 0..3), of(apply_strategy()), of(report)).prop_map(
        |(manifests, apply_strategy, report_back_strategy)| WorkSpec {
            workload: WorkloadTemplate { manifests },
            apply_strategy,
            report_back_strategy,
        },
    )
}

fn work_status() -> impl Strategy<Value = WorkStatus> {
    let identifier = (0..9_i64, [word(), word(), word(), word(), word(), word()]).prop_map(
        |(ordinal, [group, version, kind, resource, namespace, name])| WorkResourceIdentifier {
            ordinal,
            group,
            version,
            kind,
            resource,
            namespace,
            name,
        },
    );
    let drift = (time(), 0..9_i64, time(), details()).prop_map(
        |(observation_time, generation, first, observed_drifts)| DriftDetails {
            observation_time,
            observed_in_member_cluster_generation: generation,
            first_drifted_observed_time: first,
            observed_drifts,
        },
    );
    let back = (of(raw()), time()).prop_map(|(observed_status, observation_time)| {
        BackReportedStatus { observed_status, observation_time }
    });
    let manifest = (identifier, conditions(), of(drift), of(back)).prop_map(
        |(identifier, conditions, drift_details, back_reported_status)| ManifestCondition {
            identifier,
            conditions,
            drift_details,
            diff_details: None,
            back_reported_status,
        },
    );
    (conditions(), vec(manifest, 0..3)).prop_map(|(conditions, manifest_conditions)| WorkStatus {
        conditions,
        manifest_conditions,
    })
}

fn override_spec() -> impl Strategy<Value = ResourceOverrideSpec> {
    let selector = [word(), word(), word(), word()]
        .prop_map(|[group, version, kind, name]| ResourceSelector { group, version, kind, name });
    let patch = (word(), of(raw())).prop_map(|(path, value)| JsonPatchOverride {
        op: JsonPatchOperator::Replace,
        path,
        value,
    });
    let rule =
        (vec(patch, 0..3), any::<bool>()).prop_map(|(json_patch_overrides, typed)| OverrideRule {
            cluster_selector: None,
            override_type: typed.then_some(OverrideType::JsonPatch),
            json_patch_overrides,
        });
    (vec(selector, 0..3), vec(rule, 0..3)).prop_map(|(resource_selectors, override_rules)| {
        ResourceOverrideSpec {
            placement: None,
            resource_selectors,
            policy: OverridePolicy { override_rules },
        }
    })
}

fn member_spec() -> impl Strategy<Value = MemberClusterSpec> {
    let identity =
        (of(word()), word(), word(), of(word())).prop_map(|(api_group, kind, name, namespace)| {
            Subject { api_group, kind, name, namespace }
        });
    let taint = (word(), word()).prop_map(|(key, value)| Taint {
        key,
        value,
        effect: TaintEffect::NoSchedule,
    });
    (identity, of(1..600_i32), vec(taint, 0..3), any::<bool>()).prop_map(
        |(identity, heartbeat_period_seconds, taints, strict)| MemberClusterSpec {
            identity,
            heartbeat_period_seconds,
            taints,
            delete_options: strict.then(DeleteOptions::default),
        },
    )
}

fn member_status() -> impl Strategy<Value = MemberClusterStatus> {
    let amounts = || btree_map(word(), word().prop_map(Quantity), 0..3);
    let usage = (amounts(), amounts(), amounts(), of(time())).prop_map(
        |(capacity, allocatable, available, observation_time)| ResourceUsage {
            capacity,
            allocatable,
            available,
            observation_time,
        },
    );
    let property = (word(), time())
        .prop_map(|(value, observation_time)| PropertyValue { value, observation_time });
    let agent = (conditions(), of(time())).prop_map(|(conditions, last_received_heartbeat)| {
        AgentStatus { r#type: AgentType::MemberAgent, conditions, last_received_heartbeat }
    });
    (conditions(), btree_map(word(), property, 0..3), usage, vec(agent, 0..2)).prop_map(
        |(conditions, properties, resource_usage, agent_status)| MemberClusterStatus {
            conditions,
            properties,
            resource_usage,
            namespaces: BTreeMap::from([("app".into(), "work".into())]),
            agent_status,
        },
    )
}
