//! Every label, annotation, finalizer, taint, property and field-manager key.
//!
//! They are API, shared with KubeFleet: an object labelled by one system must be
//! found by the other, so none of them may ever change. Most say `CRP` for
//! historical reasons and are used in both scopes all the same. What KubeFleet
//! does not know has a prefix of our own, see [`own`].
//!
//! Object *names* are made in [`crate::names`], condition reasons live in
//! [`crate::reason`].

/// Prefix of every key shared with KubeFleet.
pub const PREFIX: &str = "kubernetes-fleet.io/";

/// Prefix of every key only this system knows.
pub const OWN_PREFIX: &str = "flagship.dev/";

/// API groups and the versions controllers read and write.
pub mod group {
    use crate::kinds::group;
    use crate::listed::listed;

    listed! {
        /// Placements, bindings, snapshots, works, overrides, update runs.
        PLACEMENT = group!(placement);
        /// Member clusters and their hub-side counterpart.
        CLUSTER = group!(cluster);
        /// The version of both groups that is stored and that controllers use.
        VERSION = "v1beta1";
        /// `apiVersion` of placement objects, as owner references carry it.
        PLACEMENT_V1BETA1 = concat!(group!(placement), "/v1beta1");
        /// `apiVersion` of member clusters, as owner references carry it.
        CLUSTER_V1BETA1 = concat!(group!(cluster), "/v1beta1");
        /// The cluster inventory API that members are exported to.
        INVENTORY = group!(multicluster);
        /// Rollout policies and freezes, our own.
        POLICY = group!(flagship);
        /// The networking add-on whose kinds members may write on the hub.
        NETWORKING = "networking.fleet.azure.com";
    }
}

/// Label keys.
pub mod label {
    use crate::listed::listed;

    listed! {
        /// Policy and resource snapshots, bindings, works: the placement's name without its namespace.
        PARENT_PLACEMENT = "kubernetes-fleet.io/parent-CRP";
        /// Policy snapshots, master resource snapshots, override snapshots: `true` on the newest, else `false`.
        IS_LATEST_SNAPSHOT = "kubernetes-fleet.io/is-latest-snapshot";
        /// Policy snapshots: decimal index from 0.
        POLICY_INDEX = "kubernetes-fleet.io/policy-index";
        /// Resource snapshots, master and sub-indexed: decimal index of the group from 0.
        RESOURCE_INDEX = "kubernetes-fleet.io/resource-index";
        /// Override snapshots: decimal index from 0.
        OVERRIDE_INDEX = "kubernetes-fleet.io/override-index";
        /// Override snapshots: name of the override they were taken of.
        PARENT_OVERRIDE = "kubernetes-fleet.io/parent-resource-override";
        /// Works: name of the binding they belong to.
        PARENT_BINDING = "kubernetes-fleet.io/parent-resource-binding";
        /// Works of a ResourcePlacement only: namespace of its binding.
        PARENT_PLACEMENT_NAMESPACE = "kubernetes-fleet.io/parent-placement-namespace";
        /// Works: index of the resource snapshot they carry.
        PARENT_RESOURCE_SNAPSHOT_INDEX = "kubernetes-fleet.io/parent-resource-snapshot-index";
        /// Works made from an envelope: the envelope's kind.
        ENVELOPE_TYPE = "kubernetes-fleet.io/envelope-work";
        /// Works made from an envelope: the envelope's name.
        ENVELOPE_NAME = "kubernetes-fleet.io/envelope-name";
        /// Works made from a ResourceEnvelope: the envelope's namespace.
        ENVELOPE_NAMESPACE = "kubernetes-fleet.io/envelope-namespace";
        /// MemberClusters: their own name, so that a label selector can pick one cluster.
        MEMBER_NAME = "kubernetes-fleet.io/member-name";
        /// Member namespaces on the hub: `true`, which is what the guard rail looks for.
        IS_FLEET_RESOURCE = "kubernetes-fleet.io/is-fleet-resource";
        /// Approval requests: the stage they gate.
        TARGET_UPDATING_STAGE = "kubernetes-fleet.io/targetUpdatingStage";
        /// Approval requests: the run they belong to; deleting a run sweeps by it.
        TARGET_UPDATE_RUN = "kubernetes-fleet.io/targetUpdateRun";
        /// Approval requests: `beforeStage` or `afterStage`.
        TASK_TYPE = "kubernetes-fleet.io/taskType";
        /// Approval requests: always `true`.
        IS_LATEST_APPROVAL = "kubernetes-fleet.io/isLatestUpdateRunApproval";
        /// ClusterProfiles: who manages the cluster, here `KubeFleet`.
        CLUSTER_MANAGER = "x-k8s.io/cluster-manager";
        /// Webhook configurations: keeps a vendor's admission enforcer away.
        ENFORCER_DISABLED = "admissions.enforcer/disabled";
        /// Admission policies of the policy manager: `fleet-hub-agent`.
        MANAGED_BY = "app.kubernetes.io/managed-by";
        /// Admission policies of the policy manager: `fleet`.
        PART_OF = "app.kubernetes.io/part-of";
        /// Admission policies of the policy manager: `admission-policy-manager`.
        COMPONENT = "app.kubernetes.io/component";
        /// EndpointSlices: present, with any value, on slices that are never propagated.
        ENDPOINT_SLICE_MANAGED_BY = "endpointslice.kubernetes.io/managed-by";
        /// Job selectors and pod templates: removed before a Job is propagated.
        JOB_CONTROLLER_UID = "batch.kubernetes.io/controller-uid";
        /// The same on Jobs of older clusters.
        JOB_CONTROLLER_UID_LEGACY = "controller-uid";
        /// Namespaces: their own name, set by Kubernetes.
        NAMESPACE_NAME = "kubernetes.io/metadata.name";
        /// Nodes: the region a property provider reports prices of.
        NODE_REGION = "topology.kubernetes.io/region";
        /// Nodes: the machine size a property provider counts by.
        NODE_INSTANCE_TYPE = "beta.kubernetes.io/instance-type";
    }
}

/// Values of [`label::TASK_TYPE`].
pub mod task_type {
    use crate::listed::listed;

    listed! {
        /// The request gates the start of its stage.
        BEFORE_STAGE = "beforeStage";
        /// The request gates the end of its stage.
        AFTER_STAGE = "afterStage";
    }
}

/// Annotation keys.
pub mod annotation {
    use crate::listed::listed;

    listed! {
        /// Policy snapshots: `metadata.generation` of the placement, in both scopes.
        PLACEMENT_GENERATION = "kubernetes-fleet.io/CRP-generation";
        /// Policy snapshots of a PickN placement: how many clusters are wanted.
        NUMBER_OF_CLUSTERS = "kubernetes-fleet.io/number-of-clusters";
        /// Master resource snapshots: hash of the whole group. Carrying it is what makes a snapshot the master.
        RESOURCE_HASH = "kubernetes-fleet.io/resource-hash";
        /// Master resource snapshots: number of objects in the group, at least 1.
        NUMBER_OF_RESOURCE_SNAPSHOTS = "kubernetes-fleet.io/number-of-resource-snapshots";
        /// Master resource snapshots: number of envelopes in the group.
        NUMBER_OF_ENVELOPED_OBJECTS = "kubernetes-fleet.io/number-of-enveloped-object";
        /// Resource snapshots other than the master: decimal position from 0.
        SUBINDEX_OF_RESOURCE_SNAPSHOT = "kubernetes-fleet.io/subindex-of-resource-snapshot";
        /// Latest master resource snapshot while a change is batched: when the change was first seen.
        NEXT_SNAPSHOT_DETECTION_TIME = "kubernetes-fleet.io/next-resource-snapshot-candidate-detection-time";
        /// Works: name of the master resource snapshot they carry.
        PARENT_RESOURCE_SNAPSHOT_NAME = "kubernetes-fleet.io/parent-resource-snapshot-name";
        /// Works: hash of the binding's resource override snapshot list.
        PARENT_RESOURCE_OVERRIDE_HASH = "kubernetes-fleet.io/parent-resource-override-snapshot-hash";
        /// Works: hash of the binding's cluster resource override snapshot list.
        PARENT_CLUSTER_RESOURCE_OVERRIDE_HASH = "kubernetes-fleet.io/parent-cluster-resource-override-snapshot-hash";
        /// Unscheduled bindings: the state they had before; on others it must be ignored.
        PREVIOUS_BINDING_STATE = "kubernetes-fleet.io/previous-binding-state";
        /// Objects applied on a member: hash of the manifest as last applied.
        SPEC_HASH = "kubernetes-fleet.io/spec-hash";
        /// Objects applied on a member: the manifest as last applied, for the three-way merge.
        LAST_APPLIED = "kubernetes-fleet.io/last-applied-configuration";
        /// ConfigMaps: marked an envelope once; reserved and without meaning now.
        ENVELOPE_CONFIG_MAP = "kubernetes-fleet.io/envelope-configmap";
        /// Any object: kubectl's copy of it, removed before it is propagated or applied.
        KUBECTL_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";
        /// Deployments: revision counter, removed before it is propagated or applied.
        DEPLOYMENT_REVISION = "deployment.kubernetes.io/revision";
        /// Webhook configurations: where cert-manager takes the CA bundle from.
        CERT_MANAGER_INJECT_CA = "cert-manager.io/inject-ca-from";
    }

    /// Annotations of MemberClusters that start with this are guarded by admission.
    pub const GUARDED_MEMBER_PREFIX: &str = "fleet.azure.com";
}

/// Annotations, and one label, that only this system knows. An object without them was written by
/// KubeFleet, which is never an error.
pub mod own {
    use crate::listed::listed;

    listed! {
        /// Approval requests: UID of the run they were made for; one for an earlier run of the same
        /// name does not count. Bindings: UID of the run that wrote them last. Rollout records, and
        /// Works of checks, as a label: UID of the run they are about.
        UPDATE_RUN_UID = "flagship.dev/update-run-uid";
        /// Bindings: generation of that run, the fence: a hub that has seen an older one may not write.
        UPDATE_RUN_GENERATION = "flagship.dev/update-run-generation";
        /// Bindings: the condition `RolloutStarted` as JSON, left by the write that delivers. It holds
        /// for the generation it names until the status says so, too, with the first report on it.
        START_SIGNAL = "flagship.dev/start-signal";
        /// Update runs: bindings that were promised and have to be written again, with the
        /// generation that is written over: said before it is done.
        ANNOUNCED_WRITES = "flagship.dev/announced-writes";
        /// Works: hash of everything their manifests were rendered from, cluster labels included.
        RENDERED_INPUTS_HASH = "flagship.dev/rendered-inputs-hash";
        /// Works with overrides: hash of their manifests. If the same come out of other inputs,
        /// the member need not know.
        MANIFESTS_HASH = "flagship.dev/manifests-hash";
        /// Works: `Abandon` if what they brought stays in the member when the placement is deleted.
        DELETE_POLICY = "flagship.dev/delete-policy";
        /// Works about to be deleted: present if the member is to let go of everything they
        /// brought and to delete nothing.
        ABANDONED = "flagship.dev/abandoned";
        /// Works: why objects of theirs are not available, as the member's agent found out: a cause
        /// and one sentence an object, as JSON of bounded length, never from a Secret; of the Job
        /// of a check with the last lines that it wrote.
        FAILURE_CAUSES = "flagship.dev/failure-causes";
        /// Works that bring the Job of a check, and the Job itself: which check of which stage and
        /// cluster it answers, as JSON.
        CHECK = "flagship.dev/check";
        /// Objects on a member, with any value: the agent itself lives by them, and no Work takes
        /// them over. For what cannot be told by its name, such as the agent's ClusterRole.
        AGENT = "flagship.dev/agent";
        /// Evictions: UID of the binding that is about to be deleted, so that it is deleted once.
        EVICTED_BINDING = "flagship.dev/evicted-binding";
        /// Freezes: who made them. An embedded hub writes what it knows of the sender over it;
        /// elsewhere it is what the command line was told by the server. Update runs, where a
        /// policy wants to know: who created them, as admission knows it.
        CREATED_BY = "flagship.dev/created-by";
        /// Update runs: who set them to run last. Written like `created-by` where a policy wants to
        /// know, over whatever stands there.
        STARTED_BY = "flagship.dev/started-by";
        /// Approval requests under a rollout policy: the hash of the plan that is to be approved.
        PLAN_HASH = "flagship.dev/plan-hash";
        /// Update runs: the rollout policies they follow, as they were when the run was
        /// initialized, as JSON. The hub writes it then, over whatever stands there.
        ADOPTED_POLICIES = "flagship.dev/adopted-policies";
        /// Update runs: clusters that somebody wants to be left out, with reason and name, as JSON.
        SKIPPED_CLUSTERS = "flagship.dev/skipped-clusters";
        /// Update runs: the only clusters they are about, as a JSON list; read when the run is
        /// initialized.
        ONLY_CLUSTERS = "flagship.dev/only-clusters";
        /// Update runs: UID of the run that they take back; read when the run is initialized, and
        /// held against the record of that run.
        ROLLBACK_OF = "flagship.dev/rollback-of";
        /// Resource snapshots: that their content must not be rolled out, with its hash, the reason
        /// and who says so, as JSON.
        QUARANTINED = "flagship.dev/quarantined";
        /// Rollout records, as a label: UID of the run whose record they follow.
        FOLLOWS_UID = "flagship.dev/follows-uid";
        /// Rollout records: the record that they follow was removed by retention, when, and with
        /// which last hash, as JSON.
        RECORD_CHECKPOINT = "flagship.dev/record-checkpoint";
        /// Secrets of the hub's namespace, as a label: "true" if the hub may send what they hold
        /// to where channels and checks point.
        OUTGOING = "flagship.dev/outgoing";
        /// Notification channels: any text that is new asks for one message by way of a test.
        TEST_NOTIFICATION = "flagship.dev/test-notification";
    }
}

/// Finalizers.
pub mod finalizer {
    use crate::listed::listed;

    listed! {
        /// Placements of both scopes: the placement controller deletes their snapshots.
        PLACEMENT = "kubernetes-fleet.io/crp-cleanup";
        /// Placements of both scopes: the scheduler deletes their bindings.
        SCHEDULER = "kubernetes-fleet.io/scheduler-cleanup";
        /// Bindings: makes a deletion reach the scheduler.
        SCHEDULER_BINDING = "kubernetes-fleet.io/scheduler-crb-cleanup";
        /// Bindings until their works are gone, and works until the member cleaned up: one string on both kinds.
        WORK = "kubernetes-fleet.io/work-cleanup";
        /// Overrides: their snapshots are deleted first.
        OVERRIDE = "kubernetes-fleet.io/override-cleanup";
        /// Update runs of both scopes: their approval requests are deleted first.
        UPDATE_RUN = "kubernetes-fleet.io/stagedupdaterun-finalizer";
        /// MemberClusters: the member leaves before the object goes.
        MEMBER_CLUSTER = "kubernetes-fleet.io/membercluster-finalizer";
        /// MemberClusters that are exported: the ClusterProfile is deleted first.
        CLUSTER_PROFILE = "kubernetes-fleet.io/cluster-profile-cleanup";
    }
}

/// Cluster property names.
pub mod property {
    use crate::listed::listed;

    listed! {
        /// Number of nodes.
        NODE_COUNT = "kubernetes-fleet.io/node-count";
        /// Version of the member's API server; not a quantity.
        K8S_VERSION = "k8s.io/k8s-version";
        /// Address of the member's API server; not a quantity.
        ENTRYPOINT = "k8s.io/cluster-entrypoint";
        /// CA bundle of the member's API server as PEM; not a quantity.
        CERTIFICATE_AUTHORITY = "k8s.io/cluster-certificate-authority-data";
        /// Price of one core for an hour in USD.
        PER_CPU_CORE_COST = "kubernetes.azure.com/per-cpu-core-cost";
        /// Price of one GiB of memory for an hour in USD.
        PER_GB_MEMORY_COST = "kubernetes.azure.com/per-gb-memory-cost";
    }

    /// Prefix of properties read from the cluster's resource usage, see [`crate::property`].
    pub const RESOURCE_PREFIX: &str = "resources.kubernetes-fleet.io/";

    /// Number of nodes of one machine size: `kubernetes.azure.com/vm-sizes/{sku}/count`.
    pub fn vm_size_count(sku: &str) -> String {
        format!("kubernetes.azure.com/vm-sizes/{sku}/count")
    }
}

/// Field managers.
pub mod field_manager {
    use crate::listed::listed;

    listed! {
        /// Every create, patch and apply of the member agent on its cluster.
        WORK_APPLIER = "work-api-agent";
        /// What Kubernetes calls the owner of fields from before the first apply; ours to overwrite.
        BEFORE_FIRST_APPLY = "before-first-apply";
        /// Adding the finalizer to an override.
        OVERRIDE = "override-controller";
        /// Adding the finalizer to an update run, in both scopes.
        UPDATE_RUN = "cluster-staged-update-run-controller";
        /// Writes of the membership controller.
        MEMBER_CLUSTER = "member-cluster-controller";
    }
}

/// The taint that keeps new placements off a cluster that is being drained.
pub mod cordon_taint {
    use crate::listed::listed;

    listed! {
        /// Its key.
        KEY = "cordon-key";
        /// Its value.
        VALUE = "cordon-value";
        /// Its effect, the only one taints may have.
        EFFECT = "NoSchedule";
    }
}

/// Fragments of label and annotation keys that are left out of comparisons and
/// hashes on the member, wherever in the key they occur.
pub const IGNORED_IN_COMPARISON: [&str; 3] = ["kubernetes.io/", "k8s.io/", PREFIX];

#[cfg(test)]
mod tests;
