//! What is inside an envelope.
//!
//! Whether a manifest is namespaced is judged by its own metadata: what is wrapped need
//! not be of a kind the hub knows.

use std::collections::BTreeMap;

use flagship_api::names::{EnvelopeKind, EnvelopeRef, ObjectKey};
use flagship_api::raw_json::RawJson;
use serde::Deserialize;

use super::trouble::{Stage, Trouble};
use crate::placement::identifier;

/// The wrapped manifests by their text, descending: under whatever keys, the same content
/// is the same Work.
pub fn unwrapped(envelope: &EnvelopeRef, manifest: &RawJson) -> Result<Vec<RawJson>, Trouble> {
    #[derive(Deserialize)]
    struct Envelope {
        #[serde(default)]
        data: BTreeMap<String, RawJson>,
    }
    let Envelope { data } = manifest.parse().map_err(|error| {
        let cause = format!("failed to read the data of the envelope {envelope}: {error}");
        Trouble::unexpected(Stage::Sync, cause)
    })?;
    for (key, wrapped) in &data {
        check(envelope, key, wrapped)?;
    }
    let mut manifests: Vec<RawJson> = data.into_values().collect();
    manifests.sort_by(|a, b| b.text().cmp(a.text()));
    Ok(manifests)
}

fn check(envelope: &EnvelopeRef, key: &str, wrapped: &RawJson) -> Result<(), Trouble> {
    let named = identifier(wrapped);
    if named.kind.is_empty() {
        let text = wrapped.text();
        return Err(Trouble::unexpected(
            Stage::Sync,
            format!(
                "failed to parse the wrapped manifest data to a Kubernetes runtime object \
                 (manifestKey={key},envelopeObjRef={envelope}): Object 'Kind' is missing in \
                 '{text}'"
            ),
        ));
    }
    let object = ObjectKey::new(Some(&named.namespace), &named.name);
    let home = &envelope.key.namespace;
    let cause = match (envelope.kind, &object.namespace) {
        (EnvelopeKind::Cluster, None) => return Ok(()),
        (EnvelopeKind::Namespaced, own) if own.is_some() && own == home => return Ok(()),
        (EnvelopeKind::Cluster, Some(_)) => format!(
            "a namespaced object {key} ({object}) has been wrapped in a cluster resource envelope \
             {envelope}"
        ),
        (EnvelopeKind::Namespaced, None) => format!(
            "a cluster scope object {key} ({object}) has been wrapped in a resource envelope \
             {envelope}"
        ),
        // The stray "in" is what clients know.
        (EnvelopeKind::Namespaced, Some(_)) => format!(
            "a namespaced object {key} ({object}) in has been wrapped in a resource envelope from \
             another namespace ({envelope})"
        ),
    };
    Err(Trouble::user(Stage::Sync, cause))
}
