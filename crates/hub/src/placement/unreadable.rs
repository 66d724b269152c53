//! A placement that cannot be read, told so in its own status.
//!
//! Nothing of it is acted upon: what was decided on its last readable version stands.
//! Where the server refuses the status too, the event that `malformed_events` records has to do.

use flagship_api::condition::Generation;
use flagship_api::names::ObjectKey;
use flagship_rules::placement::status::unreadable;
use flagship_runtime::client::{ClientError, Malformed, Precondition, ResourceType};
use flagship_runtime::effects::Writer;
use flagship_runtime::queue::Outcome;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_core::DynamicObject;
use serde_json::{Value, json};

use crate::hub::Context;
use crate::malformed_events::cause;
use crate::scope::Scoped;

/// Says in the status of the placement what is wrong with it.
pub(super) async fn refuse<S: Scoped>(
    cx: &Context,
    writer: &Writer<'_, ObjectKey>,
    key: &ObjectKey,
    problem: &Malformed,
) -> Outcome {
    match say::<S>(cx, writer, key, problem).await {
        Ok(()) | Err(ClientError::NotFound { .. }) => Outcome::Done,
        Err(
            error @ (ClientError::Invalid { .. }
            | ClientError::Refused { .. }
            | ClientError::Malformed(_)),
        ) => {
            tracing::debug!(%key, %error, "not even its status can be written");
            Outcome::Done
        }
        Err(error) => Outcome::Error(error.into()),
    }
}

async fn say<S: Scoped>(
    cx: &Context,
    writer: &Writer<'_, ObjectKey>,
    key: &ObjectKey,
    problem: &Malformed,
) -> Result<(), ClientError> {
    let resource = ResourceType::of::<S::Placement>();
    let object = cx.client.of_type::<DynamicObject>(resource).get(key).await?;
    let Some(precondition) = Precondition::of(&object) else { return Ok(()) };
    // A status that cannot be read is ours to write anew.
    let told = object.data["status"]["conditions"].clone();
    let told: Vec<Condition> = serde_json::from_value(told).unwrap_or_default();
    let mut conditions = told.clone();
    let generation = Generation(object.metadata.generation.unwrap_or_default());
    let draft = unreadable(S::SCOPE, &problem.field, cause(problem));
    draft.set(&mut conditions, generation, cx.env.now());
    let ours = problem.field.starts_with("status");
    if conditions == told && !ours {
        return Ok(());
    }
    let mut status = json!({"conditions": conditions});
    if ours {
        for field in ["selectedResources", "observedResourceIndex", "placementStatuses"] {
            status[field] = Value::Null;
        }
    }
    let patch = json!({"status": status});
    writer.patch_status::<S::Placement>(&precondition, patch).await?;
    Ok(())
}
