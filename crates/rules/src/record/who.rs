//! Who is behind something, as far as objects tell.
//!
//! The API server keeps in `managedFields` which client wrote a field last, not which user. On
//! a hub that stamps senders a freeze says more.

use flagship_api::rollout_record::{Known, Who};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

/// Nobody can say who.
pub fn unknown() -> Who {
    Who { name: String::new(), known: Known::Unknown }
}

/// The client that wrote a field last, by the path that `fieldsV1` has.
pub fn wrote(fields: &[ManagedFieldsEntry], path: &[&str]) -> Who {
    let owns = |entry: &&ManagedFieldsEntry| {
        let mut at = entry.fields_v1.as_ref().map(|fields| &fields.0);
        for step in path {
            at = at.and_then(|value| value.get(step));
        }
        at.is_some()
    };
    let time = |entry: &&ManagedFieldsEntry| entry.time.as_ref().map(|time| time.0);
    let last = fields.iter().filter(owns).max_by_key(time);
    match last.and_then(|entry| entry.manager.clone()).filter(|name| !name.is_empty()) {
        Some(name) => Who { name, known: Known::ManagedFields },
        None => unknown(),
    }
}

/// The path of a field of a run's spec that only its creator writes.
pub const CREATED: [&str; 2] = ["f:spec", "f:placementName"];
/// The path of a run's state.
pub const STATE: [&str; 2] = ["f:spec", "f:state"];
/// The path of the approval in a request.
pub const APPROVED: [&str; 3] = ["f:status", "f:conditions", "k:{\"type\":\"Approved\"}"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_client_that_wrote_a_field_last_is_named() {
        let fields: Vec<ManagedFieldsEntry> = serde_json::from_value(json!([
            {"manager": "kubectl-create", "time": "2026-01-01T00:00:00Z",
             "fieldsV1": {"f:spec": {"f:placementName": {}, "f:state": {}}}},
            {"manager": "flagship", "time": "2026-01-01T00:05:00Z",
             "fieldsV1": {"f:spec": {"f:state": {}}}},
            {"manager": "hub", "subresource": "status", "time": "2026-01-01T00:09:00Z",
             "fieldsV1": {"f:status": {"f:conditions": {"k:{\"type\":\"Approved\"}": {}}}}},
        ]))
        .unwrap();
        assert_eq!(wrote(&fields, &CREATED).name, "kubectl-create");
        assert_eq!(wrote(&fields, &STATE).name, "flagship");
        assert_eq!(wrote(&fields, &APPROVED).name, "hub");
        assert_eq!(wrote(&[], &STATE), unknown());
    }
}
