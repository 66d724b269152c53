//! What a resource snapshot holds, as far as overrides can name it.
//!
//! Envelopes are opened: what is inside can be overridden, the envelope itself cannot.
//! What does not belong into an envelope is passed over here; the work generator says so.

use std::collections::BTreeMap;

use flagship_api::keys::group;
use flagship_api::names::EnvelopeKind;
use flagship_api::placement_status::ResourceIdentifier;
use flagship_api::raw_json::RawJson;
use serde::Deserialize;

use crate::placement::identifier;

/// What an envelope carries to members; nothing if the manifest is none.
pub fn enveloped(manifest: &RawJson) -> Vec<ResourceIdentifier> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Envelope {
        data: BTreeMap<String, RawJson>,
    }
    let outer = identifier(manifest);
    if !is_envelope(&outer) {
        return Vec::new();
    }
    let envelope: Envelope = manifest.parse().unwrap_or_default();
    let inside = envelope.data.values().map(identifier);
    // One scope per kind: empty in a ClusterResourceEnvelope, else the envelope's own.
    inside.filter(|resource| resource.namespace == outer.namespace).collect()
}

/// Whether a resource is one of our envelopes.
pub fn is_envelope(resource: &ResourceIdentifier) -> bool {
    resource.group == group::PLACEMENT && EnvelopeKind::read(&resource.kind).is_some()
}
