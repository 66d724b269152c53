//! What may be in an envelope, and what a placement in a namespace may place.
//!
//! Whether a manifest is namespaced is judged by its own metadata: what is wrapped need
//! not be of a kind the hub knows. Selection and admission saw to all of this before, but
//! a snapshot can be written by whoever may write to its namespace.

use std::collections::BTreeMap;

use flagship_api::names::{EnvelopeKind, EnvelopeRef, ObjectKey};
use flagship_api::placement_status::ResourceIdentifier;
use flagship_api::raw_json::RawJson;
use serde::Deserialize;

use super::group::envelope;
use super::pass_error::{PassError, Stage};
use crate::model::Binding;
use crate::overrides::manifest::named;
use crate::placement::identifier;

/// Refuses what a placement in a namespace does not reach: everything but what stands in
/// that namespace, and envelopes for anything else. One without a namespace reaches all.
pub fn check_reach(binding: &Binding, placed: &ResourceIdentifier) -> Result<(), PassError> {
    let Some(home) = &binding.namespace else { return Ok(()) };
    let wraps_wide =
        envelope(placed).is_some_and(|envelope| envelope.kind == EnvelopeKind::Cluster);
    let why = match placed.namespace.as_str() {
        _ if wraps_wide => "holds cluster-scoped objects",
        "" => "is cluster-scoped",
        namespace if namespace == home => return Ok(()),
        _ => "is in another namespace",
    };
    let placement = binding.placement_key();
    let placed = named(placed);
    Err(PassError::user(
        Stage::Sync,
        format!(
            "resourcePlacement {placement} places only what is in its namespace, and {placed} {why}"
        ),
    ))
}

/// The wrapped manifests by their text, descending: under whatever keys, the same content
/// is the same Work.
pub fn unwrapped(envelope: &EnvelopeRef, manifest: &RawJson) -> Result<Vec<RawJson>, PassError> {
    #[derive(Deserialize)]
    struct Envelope {
        #[serde(default)]
        data: BTreeMap<String, RawJson>,
    }
    let Envelope { data } = manifest.parse().map_err(|error| {
        let cause = format!("failed to read the data of the envelope {envelope}: {error}");
        PassError::unexpected(Stage::Sync, cause)
    })?;
    for (key, wrapped) in &data {
        check(envelope, key, wrapped)?;
    }
    let mut manifests: Vec<RawJson> = data.into_values().collect();
    manifests.sort_by(|a, b| b.text().cmp(a.text()));
    Ok(manifests)
}

fn check(envelope: &EnvelopeRef, key: &str, wrapped: &RawJson) -> Result<(), PassError> {
    let named = identifier(wrapped);
    if named.kind.is_empty() {
        let text = wrapped.text();
        return Err(PassError::unexpected(
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
    Err(PassError::user(Stage::Sync, cause))
}
