//! From API objects to what the rules see. Both scopes meet here.

use flagship_api::binding::{ResourceBindingSpec, ResourceBindingStatus};
use flagship_api::keys::annotation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::observed::Binding;

impl Binding {
    /// What a rollout reads of a binding of either scope.
    pub fn read(
        metadata: &ObjectMeta,
        spec: &ResourceBindingSpec,
        status: Option<&ResourceBindingStatus>,
    ) -> Self {
        let notes = metadata.annotations.as_ref();
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            previous: notes.and_then(|n| n.get(annotation::PREVIOUS_BINDING_STATE)).cloned(),
            spec: spec.clone(),
            conditions: status.map(|status| status.conditions.clone()).unwrap_or_default(),
        }
    }
}
