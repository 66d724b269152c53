//! Every key as text: golden, because other systems rely on them.

use std::collections::BTreeSet;

use expect_test::expect;

use super::*;
use crate::listed::table;

/// These are promises to other systems: a change here is a break there.
#[test]
fn the_keys_are_these() {
    let all = [
        ("group", group::ALL),
        ("label", label::ALL),
        ("task_type", task_type::ALL),
        ("annotation", annotation::ALL),
        ("own", own::ALL),
        ("finalizer", finalizer::ALL),
        ("property", property::ALL),
        ("field_manager", field_manager::ALL),
        ("cordon_taint", cordon_taint::ALL),
    ];
    let text: String =
        all.iter().map(|(module, keys)| format!("# {module}\n{}", table(keys))).collect();
    expect![[r#"
        # group
        PLACEMENT         placement.kubernetes-fleet.io
        CLUSTER           cluster.kubernetes-fleet.io
        VERSION           v1beta1
        PLACEMENT_V1BETA1 placement.kubernetes-fleet.io/v1beta1
        CLUSTER_V1BETA1   cluster.kubernetes-fleet.io/v1beta1
        INVENTORY         multicluster.x-k8s.io
        POLICY            flagship.dev
        NETWORKING        networking.fleet.azure.com
        # label
        PARENT_PLACEMENT               kubernetes-fleet.io/parent-CRP
        IS_LATEST_SNAPSHOT             kubernetes-fleet.io/is-latest-snapshot
        POLICY_INDEX                   kubernetes-fleet.io/policy-index
        RESOURCE_INDEX                 kubernetes-fleet.io/resource-index
        OVERRIDE_INDEX                 kubernetes-fleet.io/override-index
        PARENT_OVERRIDE                kubernetes-fleet.io/parent-resource-override
        PARENT_BINDING                 kubernetes-fleet.io/parent-resource-binding
        PARENT_PLACEMENT_NAMESPACE     kubernetes-fleet.io/parent-placement-namespace
        PARENT_RESOURCE_SNAPSHOT_INDEX kubernetes-fleet.io/parent-resource-snapshot-index
        ENVELOPE_TYPE                  kubernetes-fleet.io/envelope-work
        ENVELOPE_NAME                  kubernetes-fleet.io/envelope-name
        ENVELOPE_NAMESPACE             kubernetes-fleet.io/envelope-namespace
        MEMBER_NAME                    kubernetes-fleet.io/member-name
        IS_FLEET_RESOURCE              kubernetes-fleet.io/is-fleet-resource
        TARGET_UPDATING_STAGE          kubernetes-fleet.io/targetUpdatingStage
        TARGET_UPDATE_RUN              kubernetes-fleet.io/targetUpdateRun
        TASK_TYPE                      kubernetes-fleet.io/taskType
        IS_LATEST_APPROVAL             kubernetes-fleet.io/isLatestUpdateRunApproval
        CLUSTER_MANAGER                x-k8s.io/cluster-manager
        ENFORCER_DISABLED              admissions.enforcer/disabled
        MANAGED_BY                     app.kubernetes.io/managed-by
        PART_OF                        app.kubernetes.io/part-of
        COMPONENT                      app.kubernetes.io/component
        ENDPOINT_SLICE_MANAGED_BY      endpointslice.kubernetes.io/managed-by
        JOB_CONTROLLER_UID             batch.kubernetes.io/controller-uid
        JOB_CONTROLLER_UID_LEGACY      controller-uid
        NAMESPACE_NAME                 kubernetes.io/metadata.name
        NODE_REGION                    topology.kubernetes.io/region
        NODE_INSTANCE_TYPE             beta.kubernetes.io/instance-type
        # task_type
        BEFORE_STAGE beforeStage
        AFTER_STAGE  afterStage
        # annotation
        PLACEMENT_GENERATION                  kubernetes-fleet.io/CRP-generation
        NUMBER_OF_CLUSTERS                    kubernetes-fleet.io/number-of-clusters
        RESOURCE_HASH                         kubernetes-fleet.io/resource-hash
        NUMBER_OF_RESOURCE_SNAPSHOTS          kubernetes-fleet.io/number-of-resource-snapshots
        NUMBER_OF_ENVELOPED_OBJECTS           kubernetes-fleet.io/number-of-enveloped-object
        SUBINDEX_OF_RESOURCE_SNAPSHOT         kubernetes-fleet.io/subindex-of-resource-snapshot
        NEXT_SNAPSHOT_DETECTION_TIME          kubernetes-fleet.io/next-resource-snapshot-candidate-detection-time
        PARENT_RESOURCE_SNAPSHOT_NAME         kubernetes-fleet.io/parent-resource-snapshot-name
        PARENT_RESOURCE_OVERRIDE_HASH         kubernetes-fleet.io/parent-resource-override-snapshot-hash
        PARENT_CLUSTER_RESOURCE_OVERRIDE_HASH kubernetes-fleet.io/parent-cluster-resource-override-snapshot-hash
        PREVIOUS_BINDING_STATE                kubernetes-fleet.io/previous-binding-state
        SPEC_HASH                             kubernetes-fleet.io/spec-hash
        LAST_APPLIED                          kubernetes-fleet.io/last-applied-configuration
        ENVELOPE_CONFIG_MAP                   kubernetes-fleet.io/envelope-configmap
        KUBECTL_LAST_APPLIED                  kubectl.kubernetes.io/last-applied-configuration
        DEPLOYMENT_REVISION                   deployment.kubernetes.io/revision
        CERT_MANAGER_INJECT_CA                cert-manager.io/inject-ca-from
        # own
        UPDATE_RUN_UID        flagship.dev/update-run-uid
        UPDATE_RUN_GENERATION flagship.dev/update-run-generation
        START_SIGNAL          flagship.dev/start-signal
        ANNOUNCED_WRITES      flagship.dev/announced-writes
        RENDERED_INPUTS_HASH  flagship.dev/rendered-inputs-hash
        MANIFESTS_HASH        flagship.dev/manifests-hash
        DELETE_POLICY         flagship.dev/delete-policy
        ABANDONED             flagship.dev/abandoned
        FAILURE_CAUSES        flagship.dev/failure-causes
        CHECK                 flagship.dev/check
        AGENT                 flagship.dev/agent
        EVICTED_BINDING       flagship.dev/evicted-binding
        CREATED_BY            flagship.dev/created-by
        STARTED_BY            flagship.dev/started-by
        PLAN_HASH             flagship.dev/plan-hash
        ADOPTED_POLICIES      flagship.dev/adopted-policies
        SKIPPED_CLUSTERS      flagship.dev/skipped-clusters
        ONLY_CLUSTERS         flagship.dev/only-clusters
        ROLLBACK_OF           flagship.dev/rollback-of
        QUARANTINED           flagship.dev/quarantined
        FOLLOWS_UID           flagship.dev/follows-uid
        RECORD_CHECKPOINT     flagship.dev/record-checkpoint
        OUTGOING              flagship.dev/outgoing
        TEST_NOTIFICATION     flagship.dev/test-notification
        # finalizer
        PLACEMENT         kubernetes-fleet.io/crp-cleanup
        SCHEDULER         kubernetes-fleet.io/scheduler-cleanup
        SCHEDULER_BINDING kubernetes-fleet.io/scheduler-crb-cleanup
        WORK              kubernetes-fleet.io/work-cleanup
        OVERRIDE          kubernetes-fleet.io/override-cleanup
        UPDATE_RUN        kubernetes-fleet.io/stagedupdaterun-finalizer
        MEMBER_CLUSTER    kubernetes-fleet.io/membercluster-finalizer
        CLUSTER_PROFILE   kubernetes-fleet.io/cluster-profile-cleanup
        # property
        NODE_COUNT            kubernetes-fleet.io/node-count
        K8S_VERSION           k8s.io/k8s-version
        ENTRYPOINT            k8s.io/cluster-entrypoint
        CERTIFICATE_AUTHORITY k8s.io/cluster-certificate-authority-data
        PER_CPU_CORE_COST     kubernetes.azure.com/per-cpu-core-cost
        PER_GB_MEMORY_COST    kubernetes.azure.com/per-gb-memory-cost
        # field_manager
        WORK_APPLIER       work-api-agent
        BEFORE_FIRST_APPLY before-first-apply
        OVERRIDE           override-controller
        UPDATE_RUN         cluster-staged-update-run-controller
        MEMBER_CLUSTER     member-cluster-controller
        # cordon_taint
        KEY    cordon-key
        VALUE  cordon-value
        EFFECT NoSchedule
    "#]].assert_eq(&text);
}

#[test]
fn our_own_keys_cannot_be_taken_for_shared_ones() {
    assert!(own::ALL.iter().all(|(_, key)| key.starts_with(OWN_PREFIX)));
    let shared = [label::ALL, annotation::ALL, finalizer::ALL, property::ALL].concat();
    assert!(!shared.iter().any(|(_, key)| key.starts_with(OWN_PREFIX)));
}

#[test]
fn no_key_is_declared_twice() {
    for keys in [label::ALL, annotation::ALL, own::ALL, finalizer::ALL, property::ALL] {
        let distinct: BTreeSet<_> = keys.iter().map(|(_, value)| value).collect();
        assert_eq!(distinct.len(), keys.len());
    }
}

#[test]
fn a_vm_size_becomes_a_property_name() {
    assert_eq!(
        property::vm_size_count("Standard_D2s"),
        "kubernetes.azure.com/vm-sizes/Standard_D2s/count"
    );
}
