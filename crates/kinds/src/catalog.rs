//! The kinds Kubernetes brings with it, as data: names, versions, subresources, rules of writing.
//!
//! One row a kind. [`Kind`] is the key that defaulting, preparation and validation
//! match on; everything that routing and discovery need stands in [`BuiltinKind`].
//!
//! Schemas of these kinds live in `schema`, custom resources in `registry`.

mod rows;

use rows::CATALOG;

/// A kind Kubernetes brings with it, whatever the version it is served in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names are the documentation
pub enum Kind {
    Namespace,
    ConfigMap,
    Secret,
    Service,
    Endpoints,
    ServiceAccount,
    Pod,
    PodTemplate,
    ReplicationController,
    Node,
    Event,
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceQuota,
    LimitRange,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    ControllerRevision,
    Job,
    CronJob,
    HorizontalPodAutoscaler,
    PodDisruptionBudget,
    Ingress,
    IngressClass,
    NetworkPolicy,
    Role,
    RoleBinding,
    ClusterRole,
    ClusterRoleBinding,
    PriorityClass,
    StorageClass,
    CsiDriver,
    CsiNode,
    VolumeAttachment,
    RuntimeClass,
    Lease,
    EndpointSlice,
    CertificateSigningRequest,
    ValidatingWebhookConfiguration,
    MutatingWebhookConfiguration,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    CustomResourceDefinition,
    ApiService,
    FlowSchema,
    PriorityLevelConfiguration,
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
}

/// What the server has to know of a kind besides its schema.
#[derive(Debug)]
pub struct BuiltinKind {
    /// The key for defaulting, preparation and validation.
    pub id: Kind,
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Versions served in `group`, preferred first.
    pub versions: &'static [&'static str],
    /// The version objects are stored in.
    pub storage_version: &'static str,
    /// Other groups and versions that show the same stored objects.
    pub aliases: &'static [(&'static str, &'static str)],
    /// Kind as written in manifests.
    pub kind: &'static str,
    /// Kind of a list.
    pub list_kind: &'static str,
    /// Resource name in paths.
    pub plural: &'static str,
    /// Resource name for one.
    pub singular: &'static str,
    /// Abbreviations kubectl understands.
    pub short_names: &'static [&'static str],
    /// Groups of resources such as `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Paths below an object.
    pub subresources: &'static [Subresource],
    /// Fields that field selectors may name, beyond name and namespace.
    pub selectable: &'static [Selectable],
    /// What a name must look like.
    pub name_rule: NameRule,
    /// Whether deletion waits for a grace period (pods).
    pub graceful_deletion: bool,
    /// Whether a deletion that says nothing leaves dependents behind.
    pub orphans_by_default: bool,
    /// Whether PUT without a resourceVersion overwrites.
    pub unconditional_update: bool,
    /// Whether PUT on a missing object creates it.
    pub create_on_update: bool,
    /// Whether `metadata.generation` counts changes of the specification.
    pub keeps_generation: bool,
    /// Verbs in discovery, in its order.
    pub verbs: &'static [&'static str],
}

/// A path below an object, such as `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subresource {
    /// Last part of the path.
    pub name: &'static str,
    /// Group of the body's kind; `None` when it is the parent's.
    pub group_version: Option<(&'static str, &'static str)>,
    /// Kind of the body; `None` when it is the parent's.
    pub kind: Option<&'static str>,
    /// Verbs in discovery.
    pub verbs: &'static [&'static str],
}

/// A field that field selectors may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selectable {
    /// The name used in selectors.
    pub label: &'static str,
    /// Where the value stands in the object.
    pub path: &'static [&'static str],
    /// The text that stands for an absent value.
    pub absent: &'static str,
}

/// What a name must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 label: at most 63 of `a-z0-9-`.
    DnsLabel,
    /// RFC 1035 label: as a label, but starting with a letter (services).
    Dns1035Label,
    /// RFC 1123 subdomain: labels joined by dots, at most 253.
    Subdomain,
    /// Anything that can stand between slashes (RBAC).
    PathSegment,
}

impl BuiltinKind {
    /// The resource as `plural` or `plural.group`, as stores and errors name it.
    pub fn resource(&self) -> String {
        match self.group {
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// Whether there is a `/status` path.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// The subresource of this name.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// Every group and version the kind is served in, storage group first.
    pub fn served(&self) -> impl Iterator<Item = (&'static str, &'static str)> + '_ {
        let own = self.versions.iter().map(|version| (self.group, *version));
        own.chain(self.aliases.iter().copied())
    }

    /// `apiVersion` of stored objects.
    pub fn storage_api_version(&self) -> String {
        match self.group {
            "" => self.storage_version.to_owned(),
            group => format!("{group}/{}", self.storage_version),
        }
    }
}

impl Kind {
    /// The row of this kind.
    pub fn info(self) -> &'static BuiltinKind {
        // Rows stand in the order of the enum; a test holds them to it.
        &CATALOG[self as usize]
    }
}

/// All built-in kinds.
pub fn catalog() -> &'static [BuiltinKind] {
    CATALOG
}

/// The built-in kind served under this group, version and kind, if any.
pub fn find(group: &str, version: &str, kind: &str) -> Option<&'static BuiltinKind> {
    CATALOG.iter().find(|row| row.kind == kind && row.served().any(|gv| gv == (group, version)))
}

/// The built-in kind served under this group, version and plural, if any.
pub fn find_resource(group: &str, version: &str, plural: &str) -> Option<&'static BuiltinKind> {
    CATALOG.iter().find(|row| row.plural == plural && row.served().any(|gv| gv == (group, version)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn rows_stand_in_the_order_of_the_enum() {
        for (position, row) in catalog().iter().enumerate() {
            assert_eq!(row.id as usize, position, "{}", row.kind);
            assert_eq!(row.id.info().kind, row.kind);
        }
        assert_eq!(Kind::ResourceSlice as usize + 1, catalog().len());
    }

    #[test]
    fn names_are_unique_and_consistent() {
        let mut seen = BTreeSet::new();
        for row in catalog() {
            assert_eq!(row.list_kind, format!("{}List", row.kind));
            assert_eq!(row.singular, row.kind.to_lowercase());
            assert!(row.versions.contains(&row.storage_version), "{}", row.kind);
            for name in row.short_names.iter().chain([&row.plural]) {
                assert!(seen.insert(*name), "{name} stands twice");
            }
            for (group, version) in row.served() {
                assert_eq!(find(group, version, row.kind).map(|r| r.id), Some(row.id));
                assert_eq!(find_resource(group, version, row.plural).map(|r| r.id), Some(row.id));
            }
        }
    }

    #[test]
    fn selectable_fields_are_sorted_as_the_store_keeps_them() {
        for row in catalog() {
            assert!(row.selectable.is_sorted_by_key(|s| s.label), "{}", row.kind);
        }
    }

    #[test]
    fn events_are_found_under_both_groups() {
        let core = find("", "v1", "Event").map(|row| row.resource());
        let events = find("events.k8s.io", "v1", "Event").map(|row| row.resource());
        assert_eq!(core.as_deref(), Some("events"));
        assert_eq!(core, events);
    }
}
