//! What a kind's own rules say about an object: schemas and built-in kinds alike.
//!
//! Nothing is decided here; each function asks the schema of a custom version, or the
//! published schema and the hand-written rules of a built-in kind.

use std::borrow::Cow;
use std::sync::PoisonError;

use flagship_base::machinery::status::{ApiError, FieldError};
use flagship_kinds::addresses::ServiceRanges;
use flagship_kinds::{self as kinds, convert};
use flagship_store::{Pairs, Stored};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::options::FieldValidation;
use super::subresource::Sub;
use super::{crd, dynamic_admission, meta};
use crate::registry::{Kind, Origin, Rules, Served};

/// Unknown and duplicate fields shown in one answer; the rest would only fill headers.
const MAX_SHOWN: usize = 32;

/// Fields that stand twice in what was sent, and the text that they stand in, if it is known.
#[derive(Clone, Copy, Default)]
pub(super) struct Twice<'a> {
    pub(super) duplicates: &'a [String],
    pub(super) text: &'a [u8],
}

/// Turns what was sent into an object of the kind: unknown fields are reported and
/// dropped, wrong types refused, defaults filled in. Returns warnings, or why it cannot be
/// read; the object is then as it was.
pub(super) fn decode(
    served: &Served,
    object: &mut Value,
    twice: Twice<'_>,
    validation: FieldValidation,
) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    // Whether there is anything to drop, where that was looked for.
    let mut unknown = None;
    if validation != FieldValidation::Ignore {
        let fields = unknown_fields(served, object);
        unknown = Some(!fields.is_empty());
        found.extend(twice.duplicates.iter().cloned());
        found.extend(fields);
        // Kubernetes reads its own kinds once, and custom ones first as text.
        if served.kind.row().is_some() && found.len() > 1 && !twice.text.is_empty() {
            flagship_schema::in_order_of(twice.text, &mut found);
        }
        found.truncate(MAX_SHOWN);
    }
    if validation == FieldValidation::Strict && !found.is_empty() {
        return Err(format!("strict decoding error: {}", found.join(", ")));
    }
    match (&served.version().rules, served.kind.origin) {
        (Rules::Custom(compiled), _) => {
            match unknown {
                Some(false) => compiled.drop_nulls(object),
                _ => compiled.prune(object),
            }
            compiled.apply_defaults(object);
        }
        (Rules::Builtin(schema), Origin::Builtin(id)) => {
            if let Some(schema) = schema {
                if let Some(says) = flagship_schema::decode_error(schema, object) {
                    return Err(says);
                }
                schema.prune(object);
            }
            kinds::default_object(id, object);
        }
        (Rules::Builtin(_), Origin::Custom) => {}
    }
    Ok(found)
}

/// 400 for an object that cannot be read.
pub(super) fn unreadable(served: &Served, says: &str) -> ApiError {
    let (name, version) = (&served.kind.kind, &served.version().gv.version);
    ApiError::bad_request(format!(
        "{name} in version {version:?} cannot be handled as a {name}: {says}"
    ))
}

fn unknown_fields(served: &Served, object: &Value) -> Vec<String> {
    match &served.version().rules {
        Rules::Custom(compiled) => compiled.unknown_fields(object),
        Rules::Builtin(Some(schema)) => schema.unknown_fields(object),
        Rules::Builtin(None) => Vec::new(),
    }
}

/// What the kind decides about a new object.
pub(super) fn prepare_create(
    cluster: &Cluster,
    served: &Served,
    object: &mut Value,
) -> Result<(), ApiError> {
    match served.kind.origin {
        Origin::Builtin(id) => {
            kinds::prepare_create(id, object, &mut addresses(cluster, id))?;
            if id == kinds::Kind::CustomResourceDefinition {
                crd::prepare(object);
            }
        }
        Origin::Custom => {
            if served.version().status
                && let Some(map) = object.as_object_mut()
            {
                map.remove("status");
            }
            meta::of_mut(object).insert("generation".to_owned(), json!(1));
        }
    }
    Ok(())
}

/// What the kind decides about a changed object. `new` has what the server owns already.
pub(super) fn prepare_update(
    cluster: &Cluster,
    served: &Served,
    sub: Sub,
    new: &mut Value,
    old: &Value,
) -> Result<(), ApiError> {
    match (served.kind.origin, sub) {
        (Origin::Builtin(id), Sub::Status) => kinds::prepare_status_update(id, new, old),
        (Origin::Builtin(_), Sub::Approval) => kinds::prepare_approval(new, old),
        (Origin::Builtin(_), Sub::Finalize) => kinds::prepare_finalize(new, old),
        (Origin::Builtin(id), _) => {
            kinds::prepare_update(id, new, old, &mut addresses(cluster, id))?;
        }
        (Origin::Custom, Sub::Status) => {
            let managers = meta::of_mut(new).remove("managedFields");
            kinds::put_back_but_status(new, old);
            if let Some(map) = new.as_object_mut()
                && map.get("status").is_some_and(Value::is_null)
            {
                map.remove("status");
            }
            if let Some(managers) = managers {
                meta::of_mut(new).insert("managedFields".to_owned(), managers);
            }
        }
        (Origin::Custom, _) => {
            if served.version().status
                && let Some(map) = new.as_object_mut()
            {
                match old.get("status") {
                    Some(status) => map.insert("status".to_owned(), status.clone()),
                    None => map.remove("status"),
                };
            }
        }
    }
    Ok(())
}

/// The addresses and ports that the stored services have taken.
fn addresses(cluster: &Cluster, id: kinds::Kind) -> ServiceRanges {
    if id != kinds::Kind::Service {
        return ServiceRanges::default();
    }
    let mut taken = cluster.allocating.lock().unwrap_or_else(PoisonError::into_inner);
    taken.ranges(&cluster.store)
}

/// Findings about a new object.
pub(super) fn validate_create(served: &Served, object: &Value) -> Vec<FieldError> {
    match (&served.version().rules, served.kind.origin) {
        (Rules::Custom(compiled), _) => compiled.validate(object, None),
        (Rules::Builtin(_), Origin::Builtin(id)) => {
            let object = &*as_stored(served, object);
            let mut errors = kinds::validate_create(id, object);
            if id == kinds::Kind::CustomResourceDefinition {
                crd::validate(object, &mut errors);
            }
            if is_newer_event(served) {
                errors = kinds::strict_event(errors, object, None);
            }
            errors.extend(dynamic_admission::validate(id, object));
            errors
        }
        (Rules::Builtin(_), Origin::Custom) => Vec::new(),
    }
}

/// Whether an event came through the group that is strict about them.
fn is_newer_event(served: &Served) -> bool {
    served.kind.is(kinds::Kind::Event) && served.version != served.kind.storage
}

/// Findings about a changed object.
pub(super) fn validate_update(
    served: &Served,
    sub: Sub,
    new: &Value,
    old: &Value,
) -> Vec<FieldError> {
    match (&served.version().rules, served.kind.origin) {
        (Rules::Custom(compiled), _) if sub == Sub::Status => compiled.validate_status(new, old),
        (Rules::Custom(compiled), _) => compiled.validate(new, Some(old)),
        (Rules::Builtin(_), Origin::Builtin(id)) => {
            let (new, old) = (&*as_stored(served, new), &*as_stored(served, old));
            let mut errors = match sub {
                // These paths exist to change what an update of the object may not.
                Sub::Binding | Sub::Resize | Sub::EphemeralContainers => {
                    kinds::validate_create(id, new)
                }
                _ => kinds::validate_update(id, new, old),
            };
            if id == kinds::Kind::CertificateSigningRequest && sub != Sub::Approval {
                errors.extend(kinds::approvals_kept(new, old));
            }
            if id == kinds::Kind::CustomResourceDefinition && sub == Sub::Main {
                crd::validate(new, &mut errors);
            }
            if is_newer_event(served) {
                errors = kinds::strict_event(errors, new, Some(old));
            }
            // Expressions that stay as they are were judged when they came.
            if ["spec", "webhooks"].iter().any(|key| new.get(key) != old.get(key)) {
                errors.extend(dynamic_admission::validate(id, new));
            }
            errors
        }
        (Rules::Builtin(_), Origin::Custom) => Vec::new(),
    }
}

/// An object of a built-in kind in the one shape that its rules know.
fn as_stored<'v>(served: &Served, object: &'v Value) -> Cow<'v, Value> {
    let kind = &*served.kind;
    match served.version == kind.storage {
        true => Cow::Borrowed(object),
        false => Cow::Owned(convert(kind, kind.storage, object.clone())),
    }
}

/// An object in another version than the one it is in. Objects may still be stored in
/// a version that was the storage version once.
pub(super) fn convert(kind: &Kind, to: usize, mut object: Value) -> Value {
    let target = &kind.versions[to];
    if object["apiVersion"] == *target.api_version {
        return object;
    }
    match (&target.rules, kind.origin) {
        (Rules::Custom(_), _) => return refresh(kind, to, object),
        (_, Origin::Builtin(id)) if to == kind.storage => convert::to_storage(id, &mut object),
        (_, Origin::Builtin(id)) => convert::from_storage(id, &target.api_version, &mut object),
        (Rules::Builtin(_), Origin::Custom) => {}
    }
    object
}

/// A stored object as the kind would write it today, in one of its versions: what a
/// definition has gained or lost since shows on reading, without another write.
pub(super) fn current(served: &Served, to: usize, stored: &Stored) -> Result<Value, ApiError> {
    let object: Value = serde_json::from_slice(&stored.json).map_err(ApiError::internal)?;
    Ok(match stored.revision < served.since {
        true => refresh(&served.kind, to, object),
        false => convert(&served.kind, to, object),
    })
}

/// Prunes and fills in an object that may have been written under an older definition.
pub(super) fn refresh(kind: &Kind, to: usize, mut object: Value) -> Value {
    let target = &kind.versions[to];
    if let Rules::Custom(compiled) = &target.rules {
        object["apiVersion"] = json!(target.api_version);
        compiled.prune(&mut object);
        compiled.apply_defaults(&mut object);
    }
    object
}

/// The fields that selectors may name, as text.
pub(super) fn selectable(kind: &Kind, object: &Value) -> Pairs {
    match kind.origin {
        Origin::Builtin(id) => {
            Pairs::new(kinds::selectable_fields(id, object).iter().map(|(k, v)| (&**k, &**v)))
        }
        Origin::Custom => {
            // Of all versions: they show the same fields of the same object.
            Pairs::new(kind.selectable().map(|path| (path, text_at(object, path))))
        }
    }
}

fn text_at(object: &Value, path: &str) -> String {
    let mut at = object;
    for key in path.split('.') {
        at = &at[key];
    }
    match at {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => at.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
    }
}
