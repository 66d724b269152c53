//! From API objects to what the membership rules see, and back.

use std::collections::BTreeMap;

use flagship_api::cluster::{InternalMemberCluster, MemberCluster};
use flagship_api::keys::{finalizer, group, label};
use flagship_api::kinds::FleetKind;
use flagship_api::names::{member_namespace, member_role, member_role_binding};
use k8s_openapi::api::core::v1::Namespace as ApiNamespace;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding as ApiRoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::observed::{Internal, Member, Namespace, RoleBinding};

impl Member {
    /// What the rules read of a MemberCluster.
    pub fn read(from: &MemberCluster) -> Self {
        let metadata = &from.metadata;
        let ours = finalizer::MEMBER_CLUSTER;
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            leaving_since: metadata.deletion_timestamp.as_ref().map(|time| time.0),
            has_finalizer: metadata.finalizers.iter().flatten().any(|f| f == ours),
            label: metadata.labels.as_ref().and_then(|l| l.get(label::MEMBER_NAME)).cloned(),
            spec: from.spec.clone(),
            status: from.status.clone().unwrap_or_default(),
        }
    }

    /// The reference by which everything on the hub belongs to the member.
    pub fn owner(&self) -> OwnerReference {
        OwnerReference {
            api_version: group::CLUSTER_V1BETA1.to_owned(),
            kind: MemberCluster::INFO.kind.to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            controller: Some(true),
            block_owner_deletion: None,
        }
    }

    /// The namespace to create.
    pub fn namespace(&self) -> ApiNamespace {
        let fleet = (label::IS_FLEET_RESOURCE.to_owned(), "true".to_owned());
        ApiNamespace {
            metadata: ObjectMeta {
                name: Some(member_namespace(&self.name)),
                labels: Some(BTreeMap::from([fleet])),
                owner_references: Some(vec![self.owner()]),
                ..ObjectMeta::default()
            },
            ..ApiNamespace::default()
        }
    }

    /// The Role to create or write.
    pub fn role(&self, rules: Vec<PolicyRule>) -> Role {
        Role { metadata: self.inside(member_role(&self.name)), rules: Some(rules) }
    }

    /// The RoleBinding to create or write.
    pub fn role_binding(&self, bound: RoleBinding) -> ApiRoleBinding {
        ApiRoleBinding {
            metadata: self.inside(member_role_binding(&self.name)),
            subjects: Some(bound.subjects),
            role_ref: bound.role,
        }
    }

    /// Metadata of something in the member's namespace.
    pub fn inside(&self, name: String) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(member_namespace(&self.name)),
            owner_references: Some(vec![self.owner()]),
            ..ObjectMeta::default()
        }
    }
}

impl Namespace {
    /// What the rules read of a namespace.
    pub fn read(from: &ApiNamespace) -> Self {
        let labels = from.metadata.labels.as_ref();
        let said = labels.and_then(|labels| labels.get(label::IS_FLEET_RESOURCE));
        Self {
            labelled: said.is_some_and(|value| !value.is_empty()),
            deleting_since: from.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        }
    }
}

impl RoleBinding {
    /// What the rules read of a RoleBinding.
    pub fn read(from: &ApiRoleBinding) -> Self {
        Self { subjects: from.subjects.clone().unwrap_or_default(), role: from.role_ref.clone() }
    }
}

impl Internal {
    /// What the rules read of an InternalMemberCluster.
    pub fn read(from: &InternalMemberCluster) -> Self {
        let entries = from.metadata.managed_fields.iter().flatten();
        let entries = entries.filter(|entry| entry.subresource.as_deref() == Some("status"));
        Self {
            spec: from.spec.clone(),
            status: from.status.clone().unwrap_or_default(),
            written: entries.filter_map(|entry| entry.time.as_ref()).map(|time| time.0).max(),
        }
    }
}
