//! Commands spelled so that they work when pasted: scope, namespace and names included.

use flagship_api::names::ObjectKey;
use flagship_api::placement_status::{EnvelopeIdentifier, EnvelopeType, ResourceIdentifier};

/// `kubectl` against the hub of the current kubeconfig.
pub fn kubectl(namespace: Option<&str>, rest: &str) -> String {
    match namespace {
        Some(namespace) => format!("kubectl --context hub -n {namespace} {rest}"),
        None => format!("kubectl --context hub {rest}"),
    }
}

/// `kubectl` against a member.
pub fn on_member(cluster: &str, namespace: &str, rest: &str) -> String {
    match namespace {
        "" => format!("kubectl --context {cluster} {rest}"),
        _ => format!("kubectl --context {cluster} -n {namespace} {rest}"),
    }
}

/// One of our own commands on an object: `flagship run demo`, `flagship approve -n app …`.
pub fn flagship(verb: &str, key: &ObjectKey) -> String {
    match &key.namespace {
        Some(namespace) => format!("flagship {verb} -n {namespace} {}", key.name),
        None => format!("flagship {verb} {}", key.name),
    }
}

/// The placement of a run, as a key.
pub fn placement_of(run: &ObjectKey, placement: &str) -> ObjectKey {
    ObjectKey::new(run.namespace.as_deref(), placement)
}

/// An object as a sentence would say it: `Deployment app/web`.
pub fn spoken(resource: &ResourceIdentifier) -> String {
    match resource.namespace.as_str() {
        "" => format!("{} {}", resource.kind, resource.name),
        namespace => format!("{} {namespace}/{}", resource.kind, resource.name),
    }
}

/// `kubectl edit` of an object on the hub, or of the envelope that carries it.
pub fn edit(resource: &ResourceIdentifier) -> String {
    let (namespace, object) = match &resource.envelope {
        Some(envelope) => {
            let kind = envelope_kind(envelope).to_lowercase();
            (&envelope.namespace, format!("{kind}/{}", envelope.name))
        }
        None => (&resource.namespace, typed(resource)),
    };
    let namespace = (!namespace.is_empty()).then_some(namespace.as_str());
    kubectl(namespace, &format!("edit {object}"))
}

/// The kind of an envelope.
pub fn envelope_kind(envelope: &EnvelopeIdentifier) -> &'static str {
    match envelope.r#type.unwrap_or_default() {
        EnvelopeType::ConfigMap => "ConfigMap",
        EnvelopeType::ClusterResourceEnvelope => "ClusterResourceEnvelope",
        EnvelopeType::ResourceEnvelope => "ResourceEnvelope",
    }
}

/// An object as kubectl takes it: `deployment.apps/web`.
pub fn typed(resource: &ResourceIdentifier) -> String {
    let kind = resource.kind.to_lowercase();
    match resource.group.as_str() {
        "" => format!("{kind}/{}", resource.name),
        group => format!("{kind}.{group}/{}", resource.name),
    }
}
