//! LimitRange in admission: pods get its defaults, and nothing passes that is out of bounds.
//!
//! What a range means is known in the server's `kinds::limits`.

use flagship_apiserver::rest::{Admission, Mutation, Review};
use flagship_base::machinery::status::ApiError;
use flagship_kinds::{Kind, limits as rules};
use flagship_store::{Scope, Store};
use serde_json::Value;

/// Applies every LimitRange of a namespace to its pods and claims.
#[derive(Debug, Clone, Copy, Default)]
pub struct LimitRangeAdmission;

impl Admission for LimitRangeAdmission {
    fn mutate(&self, review: &mut Mutation<'_>) -> Result<(), ApiError> {
        let first = review.operation == "create" && review.subresource.is_empty();
        if first && review.resource == "pods" {
            for range in ranges(review.store, review.namespace) {
                rules::apply_defaults(Kind::Pod, review.object, &range);
            }
        }
        Ok(())
    }

    fn validate(&self, review: &mut Review<'_>) -> Result<(), ApiError> {
        let kind = match (review.resource, review.operation, review.subresource) {
            ("pods", "create", "") | ("pods", "update", "resize") => Kind::Pod,
            ("persistentvolumeclaims", "create" | "update", "") => Kind::PersistentVolumeClaim,
            _ => return Ok(()),
        };
        let found: Vec<String> = ranges(review.store, review.namespace)
            .iter()
            .flat_map(|range| rules::violations(kind, review.object, range))
            .collect();
        let why = match found.as_slice() {
            [] => return Ok(()),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        Err(ApiError::forbidden(review.resource, review.name, &why))
    }
}

fn ranges(store: &Store, namespace: &str) -> Vec<Value> {
    let found = store.list("limitranges", Scope::Namespace(namespace)).items;
    found.iter().filter_map(|range| serde_json::from_slice(&range.json).ok()).collect()
}
