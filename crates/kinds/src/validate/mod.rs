//! What Kubernetes refuses, with its paths and its words.
//!
//! [`validate_create`] looks at an object alone, [`validate_update`] at what may not
//! change as well. One file a family of kinds. Types and unknown fields are the
//! schema's business, and a field of the wrong type is passed over here.

mod admission;
mod batch;
mod certificates;
mod config;
mod container;
mod core;
mod devices;
mod event;
mod flow_control;
mod meta;
mod network;
mod pod;
mod policy;
mod rbac;
mod rules;
mod scheduling;
mod service;
mod storage;
mod volume;
mod workload;

use flagship_base::machinery::bounds::MAX_FINDINGS;
use flagship_base::machinery::status::FieldError;
use serde_json::Value;

pub use self::certificates::approvals_kept;
pub use self::event::strict_event;
pub use self::meta::{late_finalizers, validate_metadata};
use super::catalog::Kind;
use super::json::Field;

/// What was found so far, up to a bound.
#[derive(Debug, Default)]
struct Findings {
    kept: Vec<FieldError>,
    /// How many were found, kept or not.
    count: usize,
}

impl Findings {
    fn push(&mut self, error: FieldError) {
        self.count += 1;
        if self.kept.len() < MAX_FINDINGS {
            self.kept.push(error);
        }
    }

    fn extend(&mut self, errors: impl IntoIterator<Item = FieldError>) {
        errors.into_iter().for_each(|error| self.push(error));
    }

    fn len(&self) -> usize {
        self.count
    }
}

/// Findings about a new object, after defaulting and preparation.
pub fn validate_create(kind: Kind, object: &Value) -> Vec<FieldError> {
    let mut out = Findings::default();
    let object = Field::root(object);
    meta::create(kind.info(), &object.get("metadata"), &mut out);
    content(kind, &object, &mut out);
    match kind {
        Kind::Ingress => network::ingress_class_choice(&object, &mut out),
        Kind::Pod => pod::pod_create(&object, &mut out),
        Kind::Job => batch::job_create(&object, &mut out),
        Kind::CronJob => batch::cron_job_create(&object, &mut out),
        _ => {}
    }
    out.kept
}

/// Findings about a changed object, after defaulting and preparation.
pub fn validate_update(kind: Kind, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut out = Findings::default();
    let (new, old) = (Field::root(new), Field::root(old));
    meta::update(&new.get("metadata"), &old.get("metadata"), &mut out);
    // Findings come in the order Kubernetes gives them.
    let change_first = matches!(kind, Kind::Service | Kind::Secret | Kind::ConfigMap);
    if change_first {
        change(kind, &new, &old, &mut out);
    }
    content(kind, &new, &mut out);
    if !change_first {
        change(kind, &new, &old, &mut out);
    }
    out.kept
}

/// What must hold of every object of a kind.
fn content(kind: Kind, object: &Field<'_>, out: &mut Findings) {
    match kind {
        Kind::Namespace => core::namespace(object, out),
        Kind::Node => core::node(object, out),
        Kind::Event => event::event(object, out),
        Kind::ConfigMap => config::config_map(object, out),
        Kind::Secret => config::secret(object, out),
        Kind::Service => service::service(object, out),
        Kind::Endpoints => service::endpoints(object, out),
        Kind::EndpointSlice => service::endpoint_slice(object, out),
        Kind::Pod => pod::pod(object, out),
        Kind::PodTemplate => pod::template(&object.get("template"), out),
        Kind::ReplicationController => workload::replication_controller(object, out),
        Kind::Deployment => workload::deployment(object, out),
        Kind::ReplicaSet => workload::replica_set(object, out),
        Kind::StatefulSet => workload::stateful_set(object, out),
        Kind::DaemonSet => workload::daemon_set(object, out),
        Kind::ControllerRevision => workload::revision(object, out),
        Kind::Job => batch::job(object, out),
        Kind::CronJob => batch::cron_job(object, out),
        Kind::PersistentVolume => storage::volume(object, out),
        Kind::PersistentVolumeClaim => storage::claim(object, out),
        Kind::StorageClass => storage::class(object, out),
        Kind::VolumeAttachment => storage::attachment(object, out),
        Kind::ResourceQuota => policy::resource_quota(object, out),
        Kind::LimitRange => policy::limit_range(object, out),
        Kind::HorizontalPodAutoscaler => policy::autoscaler(object, out),
        Kind::PodDisruptionBudget => policy::disruption_budget(object, out),
        Kind::PriorityClass => policy::priority_class(object, out),
        Kind::RuntimeClass => policy::runtime_class(object, out),
        Kind::Lease => policy::lease(object, out),
        Kind::Ingress => network::ingress(object, out),
        Kind::IngressClass => network::ingress_class(object, out),
        Kind::NetworkPolicy => network::network_policy(object, out),
        Kind::Role => rbac::role(object, true, out),
        Kind::ClusterRole => rbac::role(object, false, out),
        Kind::RoleBinding => rbac::binding(object, true, out),
        Kind::ClusterRoleBinding => rbac::binding(object, false, out),
        Kind::CertificateSigningRequest => certificates::request(object, out),
        Kind::ValidatingWebhookConfiguration => admission::webhooks(object, false, out),
        Kind::MutatingWebhookConfiguration => admission::webhooks(object, true, out),
        Kind::ValidatingAdmissionPolicy => admission::policy(object, out),
        Kind::ValidatingAdmissionPolicyBinding => admission::policy_binding(object, out),
        Kind::CustomResourceDefinition => admission::definition(object, out),
        Kind::FlowSchema => flow_control::schema(object, out),
        Kind::PriorityLevelConfiguration => flow_control::level(object, out),
        Kind::ResourceClaim => devices::claim(&object.get("spec"), out),
        Kind::ResourceClaimTemplate => devices::claim(&object.get("spec").get("spec"), out),
        Kind::ResourceSlice => devices::slice(object, out),
        Kind::ServiceAccount
        | Kind::CsiDriver
        | Kind::CsiNode
        | Kind::ApiService
        | Kind::DeviceClass => {}
    }
}

/// What must hold between an object and the one it replaces.
fn change(kind: Kind, new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    match kind {
        Kind::Node => core::node_change(new, old, out),
        Kind::ConfigMap => config::config_map_change(new, old, out),
        Kind::Secret => config::secret_change(new, old, out),
        Kind::Service => service::service_change(new, old, out),
        Kind::Pod => pod::change(&new.get("spec"), &old.get("spec"), out),
        Kind::Deployment | Kind::ReplicaSet | Kind::DaemonSet => {
            workload::selector_change(new, old, out);
        }
        Kind::StatefulSet => workload::stateful_set_change(new, old, out),
        Kind::ControllerRevision => rules::immutable(&new.get("data"), &old.get("data"), out),
        Kind::Job => batch::job_change(new, old, out),
        Kind::PersistentVolume => storage::volume_change(new, old, out),
        Kind::PersistentVolumeClaim => storage::claim_change(new, old, out),
        Kind::StorageClass => storage::class_change(new, old, out),
        Kind::ResourceQuota => policy::resource_quota_change(new, old, out),
        Kind::PriorityClass => policy::priority_class_change(new, old, out),
        Kind::RuntimeClass => policy::runtime_class_change(new, old, out),
        Kind::EndpointSlice => {
            rules::immutable(&new.get("addressType"), &old.get("addressType"), out);
        }
        Kind::IngressClass => network::ingress_class_change(new, old, out),
        Kind::RoleBinding | Kind::ClusterRoleBinding => rbac::binding_change(new, old, out),
        Kind::CertificateSigningRequest => certificates::request_change(new, old, out),
        Kind::CustomResourceDefinition => admission::definition_change(new, old, out),
        Kind::ResourceClaim | Kind::ResourceClaimTemplate => {
            rules::immutable(&new.get("spec"), &old.get("spec"), out);
        }
        Kind::ResourceSlice => devices::slice_change(new, old, out),
        _ => {}
    }
}

fn invalid(path: String, value: &str, detail: &str) -> FieldError {
    FieldError::invalid(path, value.into(), detail)
}

#[cfg(test)]
mod tests {
    use super::super::default_object;
    use super::*;
    use serde_json::json;

    fn lines(findings: &[FieldError]) -> String {
        let all: Vec<String> = findings.iter().map(ToString::to_string).collect();
        all.join("\n")
    }

    /// A named object of a kind with these fields, defaulted.
    pub(super) fn object(kind: Kind, fields: &Value) -> Value {
        let mut object = json!({"metadata": {"name": "x"}});
        if kind.info().namespaced {
            object["metadata"]["namespace"] = json!("n");
        }
        for (key, value) in fields.as_object().unwrap() {
            object[key] = value.clone();
        }
        default_object(kind, &mut object);
        object
    }

    /// What is said about a new object, a line a finding.
    pub(super) fn on_create(kind: Kind, object: &Value) -> String {
        lines(&validate_create(kind, object))
    }

    /// What is said about a changed object, a line a finding.
    pub(super) fn on_update(kind: Kind, new: &Value, old: &Value) -> String {
        lines(&validate_update(kind, new, old))
    }
}
