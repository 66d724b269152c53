//! Envelopes: resources that are to exist in members but not on the hub.
//!
//! Each entry is one complete manifest under a name of its own choosing.

use std::collections::BTreeMap;

use schemars::{Schema, SchemaGenerator, json_schema};

use crate::crd::shape;
use crate::kinds::{Version, kind};
use crate::raw_json::RawJson;

kind! {
    /// Carries cluster-scoped resources to members without creating them on the hub.
    pub struct ClusterResourceEnvelope {
        /// Complete resources, each under any name.
        #[schemars(schema_with = "wrapped_manifests")]
        data: required BTreeMap<String, RawJson>,
    }
    group: placement, version: "v1beta1", scope: Cluster,
    plural: "clusterresourceenvelopes", short: [], status_subresource: false,
    versions: [Version::named("v1beta1")],
    rules: &[],
}

kind! {
    /// Carries resources of its own namespace to members without creating them on the hub.
    pub struct ResourceEnvelope {
        /// Complete resources, each under any name.
        #[schemars(schema_with = "wrapped_manifests")]
        data: required BTreeMap<String, RawJson>,
    }
    group: placement, version: "v1beta1", scope: Namespaced,
    plural: "resourceenvelopes", short: [], status_subresource: false,
    versions: [Version::named("v1beta1")],
    rules: &[],
}

fn wrapped_manifests(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "minProperties": 1,
        "maxProperties": 50,
        "additionalProperties": shape::any_object(generator),
    })
}
