//! PriorityClass in admission: the number that a pod's class stands for.
//!
//! The two classes that every cluster has are known to the server itself.

use flagship_apiserver::rest::{Admission, Mutation};
use flagship_base::machinery::status::ApiError;
use flagship_store::{ObjectKey, Scope, Store};
use serde_json::{Value, json};

use crate::object::Fields;

const CLASSES: &str = "priorityclasses.scheduling.k8s.io";
const SYSTEM: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// Gives new pods the priority of their class, or of the default one.
#[derive(Debug, Clone, Copy, Default)]
pub struct PriorityAdmission;

impl Admission for PriorityAdmission {
    fn mutate(&self, review: &mut Mutation<'_>) -> Result<(), ApiError> {
        let first = review.operation == "create" && review.subresource.is_empty();
        if !first || review.resource != "pods" || !review.object["spec"].is_object() {
            return Ok(());
        }
        let asked = review.object.text("/spec/priorityClassName").to_owned();
        if SYSTEM.contains(&asked.as_str()) {
            return Ok(());
        }
        let class = if asked.is_empty() {
            default_class(review.store)
        } else {
            let stored = review.store.get(CLASSES, &ObjectKey::new("", &*asked));
            Some(stored.and_then(|class| serde_json::from_slice(&class.json).ok()).ok_or_else(
                || {
                    let why = format!("no PriorityClass with name {asked} was found");
                    ApiError::forbidden("pods", review.name, &why)
                },
            )?)
        };
        let Some(class) = class else { return Ok(()) };
        let priority = class["value"].as_i64().unwrap_or_default();
        let spec = &mut review.object["spec"];
        if let Some(own) = spec["priority"].as_i64()
            && own != priority
        {
            let why = format!(
                "the integer value of priority ({own}) must not be provided in pod spec; priority admission controller computed {priority} from the given PriorityClass name"
            );
            return Err(ApiError::forbidden("pods", review.name, &why));
        }
        spec["priorityClassName"] = json!(class.name());
        spec["priority"] = json!(priority);
        if spec["preemptionPolicy"].is_null() {
            let policy = class["preemptionPolicy"].as_str();
            spec["preemptionPolicy"] = json!(policy.unwrap_or("PreemptLowerPriority"));
        }
        Ok(())
    }
}

/// The class of pods that name none; of several, the least.
fn default_class(store: &Store) -> Option<Value> {
    let classes = store.list(CLASSES, Scope::All).items;
    classes
        .iter()
        .filter_map(|class| serde_json::from_slice::<Value>(&class.json).ok())
        .filter(|class| class["globalDefault"] == true)
        .min_by_key(|class| class["value"].as_i64())
}
