//! The values Kubernetes writes into fields that a manifest leaves out.
//!
//! [`default_object`] is idempotent, and deep enough that applying an unchanged
//! manifest again changes nothing. One file a family of kinds; what the server decides
//! rather than fills in (status, generation, addresses) is in `prepare`.

mod admission;
mod batch;
mod core;
mod devices;
mod flow_control;
mod pod;
mod policy;
mod rbac;
mod service;
mod storage;
mod workload;

use flagship_base::quantity::Quantity;
use serde_json::Value;

use super::catalog::Kind;
use super::json::{Fill, Object};

/// How deep nulls are looked for: deeper than any built-in type goes.
const NULL_DEPTH: usize = 64;

/// Fills in the defaults of a kind.
pub fn default_object(kind: Kind, object: &mut Value) {
    // Raw JSON below these kinds may mean something by its nulls.
    if !matches!(kind, Kind::CustomResourceDefinition | Kind::ControllerRevision) {
        drop_nulls(object, NULL_DEPTH);
    }
    let Some(object) = object.as_object_mut() else { return };
    match kind {
        Kind::Namespace => core::namespace(object),
        Kind::Secret => core::secret(object),
        Kind::Node => core::node(object),
        Kind::ResourceQuota => core::resource_quota(object),
        Kind::LimitRange => core::limit_range(object),
        Kind::PriorityClass => core::priority_class(object),
        Kind::Service => service::service(object),
        Kind::Endpoints => service::endpoints(object),
        Kind::EndpointSlice => service::endpoint_slice(object),
        Kind::IngressClass => service::ingress_class(object),
        Kind::NetworkPolicy => service::network_policy(object),
        Kind::Pod => pod::pod(object),
        Kind::PodTemplate => pod::template_in(object, "template"),
        Kind::ReplicationController => workload::replication_controller(object),
        Kind::Deployment => workload::deployment(object),
        Kind::ReplicaSet => workload::replica_set(object),
        Kind::StatefulSet => workload::stateful_set(object),
        Kind::DaemonSet => workload::daemon_set(object),
        Kind::Job => batch::job(object),
        Kind::CronJob => batch::cron_job(object),
        Kind::HorizontalPodAutoscaler => policy::autoscaler(object),
        Kind::RoleBinding | Kind::ClusterRoleBinding => rbac::binding(object),
        Kind::PersistentVolume => storage::volume(object),
        Kind::PersistentVolumeClaim => storage::claim(object),
        Kind::StorageClass => storage::class(object),
        Kind::CsiDriver => storage::csi_driver(object),
        Kind::ValidatingWebhookConfiguration => admission::webhooks(object, false),
        Kind::MutatingWebhookConfiguration => admission::webhooks(object, true),
        Kind::ValidatingAdmissionPolicy => admission::policy(object),
        Kind::ValidatingAdmissionPolicyBinding => admission::policy_binding(object),
        Kind::CustomResourceDefinition => admission::definition(object),
        Kind::ApiService => admission::api_service(object),
        Kind::Event => core::event(object),
        Kind::FlowSchema => flow_control::schema(object),
        Kind::PriorityLevelConfiguration => flow_control::level(object),
        Kind::ResourceClaim => devices::claim(object),
        Kind::ResourceClaimTemplate => devices::claim_template(object),
        Kind::ConfigMap
        | Kind::ServiceAccount
        | Kind::ControllerRevision
        | Kind::PodDisruptionBudget
        | Kind::Ingress
        | Kind::Role
        | Kind::ClusterRole
        | Kind::CsiNode
        | Kind::VolumeAttachment
        | Kind::RuntimeClass
        | Kind::CertificateSigningRequest
        | Kind::DeviceClass
        | Kind::ResourceSlice
        | Kind::Lease => {}
    }
}

/// Removes fields that are null, as decoding into Kubernetes' own types would.
fn drop_nulls(value: &mut Value, depth: usize) {
    if depth == 0 {
        return;
    }
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(|value| drop_nulls(value, depth - 1));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| drop_nulls(value, depth - 1)),
        _ => {}
    }
}

/// Sets a text that is absent, null or empty: Kubernetes does not tell these apart.
fn fill_text(object: &mut Object, key: &str, value: &str) {
    if object.get(key).is_none_or(|old| old.is_null() || old == "") {
        object.insert(key.to_owned(), value.into());
    }
}

/// Sets a number that is absent, null or zero.
fn fill_number(object: &mut Object, key: &str, value: i64) {
    if object.get(key).is_none_or(|old| old.is_null() || old.as_i64() == Some(0)) {
        object.insert(key.to_owned(), value.into());
    }
}

/// Rewrites a quantity in its canonical form. What does not parse is left for validation.
fn canonical(value: &mut Value) {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return,
    };
    if let Ok(quantity) = Quantity::bounded(&text) {
        *value = quantity.to_string().into();
    }
}

/// Canonical quantities in a list of resources, no finer than a thousandth.
fn resource_list(object: &mut Object, key: &str) {
    let Some(list) = object.child(key) else { return };
    for value in list.values_mut() {
        canonical(value);
        if let Some(Ok(quantity)) = value.as_str().map(Quantity::bounded) {
            *value = quantity.round_up_to_milli().to_string().into();
        }
    }
}

/// Canonical quantities in `requests` and `limits`.
fn requirements(resources: &mut Object) {
    resource_list(resources, "limits");
    resource_list(resources, "requests");
}
