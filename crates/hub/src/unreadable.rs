//! An object that cannot be read, told so in its own status.
//!
//! Nothing of it is acted upon: what was decided on its last readable version stands.
//! Where the server refuses the status too, the event that `malformed_events` records has to do.

use std::fmt::Debug;

use flagship_api::condition::{Condition, ConditionDraft, Generation};
use flagship_api::names::ObjectKey;
use flagship_runtime::client::{ClientError, Malformed, Precondition, ResourceType};
use flagship_runtime::effects::{Kind, Writer};
use flagship_runtime::error_action::Failure;
use kube_core::DynamicObject;
use serde_json::{Value, json};

use crate::hub::Context;

/// What the status of such an object says.
pub(crate) struct Telling<F> {
    /// The condition to set beside these, if one is due.
    pub draft: F,
    /// Fields that are dropped where the status itself cannot be read. Without any, such a
    /// status keeps what it says: it is a record of what was done.
    pub anew: &'static [&'static str],
}

/// Says in the status of the object what is wrong with it.
pub(crate) async fn refuse<K: Kind, O: Ord + Clone + Debug>(
    cx: &Context,
    writer: &Writer<'_, O>,
    key: &ObjectKey,
    problem: &Malformed,
    telling: Telling<impl FnOnce(&[Condition]) -> Option<ConditionDraft>>,
) -> Result<(), Failure> {
    match say::<K, O>(cx, writer, key, problem, telling).await {
        Ok(()) | Err(ClientError::NotFound { .. }) => Ok(()),
        Err(
            error @ (ClientError::Invalid { .. }
            | ClientError::Refused { .. }
            | ClientError::Malformed(_)),
        ) => {
            tracing::debug!(%key, %error, "not even its status can be written");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

async fn say<K: Kind, O: Ord + Clone + Debug>(
    cx: &Context,
    writer: &Writer<'_, O>,
    key: &ObjectKey,
    problem: &Malformed,
    telling: Telling<impl FnOnce(&[Condition]) -> Option<ConditionDraft>>,
) -> Result<(), ClientError> {
    let resource = ResourceType::of::<K>();
    let object = cx.client.of_type::<DynamicObject>(resource).get(key).await?;
    let Some(precondition) = Precondition::of(&object) else { return Ok(()) };
    let stored = &object.data["status"]["conditions"];
    let told: Option<Vec<Condition>> = match stored {
        Value::Null => Some(Vec::new()),
        stored => serde_json::from_value(stored.clone()).ok(),
    };
    let is_record = telling.anew.is_empty();
    if told.is_none() && is_record {
        return Ok(());
    }
    let told = told.unwrap_or_default();
    let mut conditions = told.clone();
    let generation = Generation(object.metadata.generation.unwrap_or_default());
    let Some(draft) = (telling.draft)(&told) else { return Ok(()) };
    draft.set(&mut conditions, generation, cx.env.now());
    let rewritten = problem.field.starts_with("status") && !is_record;
    if conditions == told && !rewritten {
        return Ok(());
    }
    let mut status = json!({"conditions": conditions});
    if rewritten {
        telling.anew.iter().for_each(|field| status[field] = Value::Null);
    }
    writer.patch_status::<K>(&precondition, json!({"status": status})).await?;
    Ok(())
}
