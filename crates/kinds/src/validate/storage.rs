//! PersistentVolume, PersistentVolumeClaim and StorageClass.

use flagship_base::machinery::status::{FieldError, FieldProblem};
use flagship_base::names;
use flagship_base::quantity::Quantity;
use serde_json::Value;

use super::super::json::{Field, is_empty, same};
use super::Findings;
use super::rules::{any_of, immutable, named, one_of, quantity, required_name, selector};
use super::volume;

const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const FROZEN_CLAIM: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
/// Fields of a volume that are not its source.
const NOT_A_SOURCE: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

pub(super) fn volume(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    access_modes(&spec.get("accessModes"), "", out);
    let capacity = spec.get("capacity");
    if capacity.is_empty() {
        out.push(capacity.required(""));
    } else if capacity.len() != 1 || capacity.value().get("storage").is_none() {
        out.push(capacity.not_supported(&["storage"]));
    }
    for (_, field) in capacity.entries() {
        positive(&field, out);
    }
    let sources = sources(spec.value());
    match sources.as_slice() {
        [] => out.push(spec.required("must specify a volume type")),
        [_] => {}
        [_, others @ ..] => {
            for other in others {
                out.push(spec.get(other).forbidden("may not specify more than 1 volume type"));
            }
        }
    }
    volume::host_path(&spec.get("hostPath"), out);
    any_of(&spec.get("persistentVolumeReclaimPolicy"), &["Delete", "Recycle", "Retain"], out);
    let class = spec.get("storageClassName");
    if !class.text().is_empty() {
        named(&class, names::dns1123_subdomain, out);
    }
    any_of(&spec.get("volumeMode"), &VOLUME_MODES, out);
}

fn sources(spec: &Value) -> Vec<&str> {
    let fields = spec.as_object().into_iter().flatten();
    let mut found: Vec<&str> = fields
        .filter(|(key, value)| !NOT_A_SOURCE.contains(&key.as_str()) && !value.is_null())
        .map(|(key, _)| key.as_str())
        .collect();
    found.sort_unstable();
    found
}

pub(super) fn volume_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    let (new, old) = (new.get("spec"), old.get("spec"));
    let keys = sources(new.value()).into_iter().chain(sources(old.value()));
    let changed = keys.into_iter().any(|key| new.value().get(key) != old.value().get(key));
    if changed {
        let says = "spec.persistentvolumesource is immutable after creation";
        out.push(new.get("persistentvolumesource").forbidden(says));
    }
    immutable(&new.get("volumeMode"), &old.get("volumeMode"), out);
}

fn access_modes(modes: &Field<'_>, missing: &str, out: &mut Findings) {
    if modes.is_empty() {
        out.push(modes.required(missing));
    }
    let mut alone = false;
    for mode in modes.items() {
        if !ACCESS_MODES.contains(&mode.text()) {
            let finding = mode.not_supported(&ACCESS_MODES);
            out.push(FieldError { path: modes.path(), ..finding });
        }
        alone |= mode.text() == "ReadWriteOncePod";
    }
    if alone && modes.len() > 1 {
        out.push(modes.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
}

fn positive(field: &Field<'_>, out: &mut Findings) {
    if quantity(field, out).is_some_and(|amount| amount <= Quantity::ZERO) {
        out.push(field.invalid("must be greater than zero"));
    }
}

pub(super) fn claim(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    access_modes(&spec.get("accessModes"), "at least 1 access mode is required", out);
    selector(&spec.get("selector"), out);
    let requests = spec.get("resources").get("requests");
    let path = format!("{}[storage]", spec.get("resources").path());
    match requests.value().get("storage") {
        None => out.push(FieldError::required(path, "")),
        Some(_) => {
            let mut found = Findings::default();
            positive(&requests.get("storage"), &mut found);
            // Kubernetes leaves `requests` out of the path.
            out.extend(found.kept.into_iter().map(|f| FieldError { path: path.clone(), ..f }));
        }
    }
    let class = spec.get("storageClassName");
    if !class.text().is_empty() {
        named(&class, names::dns1123_subdomain, out);
    }
    any_of(&spec.get("volumeMode"), &VOLUME_MODES, out);
}

pub(super) fn claim_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    let bound = new.get("status").get("phase").text() == "Bound";
    let capacity = old.get("status").get("capacity").value().get("storage").cloned();
    let root = new;
    let (new, old) = (new.get("spec"), old.get("spec"));
    let frozen = |spec: &Value, other: &Value| {
        let mut copy = spec.clone();
        let Some(map) = copy.as_object_mut() else { return copy };
        // The binder names the volume, and a class may be given afterwards.
        for key in ["volumeName", "storageClassName"] {
            let open = |spec: &Value| spec.get(key).is_none_or(is_empty);
            if open(spec) != open(other) {
                map.remove(key);
            }
        }
        map.remove("volumeAttributesClassName");
        if bound && let Some(resources) = map.get_mut("resources").and_then(Value::as_object_mut) {
            resources.remove("requests");
        }
        map.retain(|_, value| !is_empty(value));
        copy
    };
    if frozen(new.value(), old.value()) != frozen(old.value(), new.value()) {
        out.push(new.forbidden(FROZEN_CLAIM));
    }
    let size = |value: &Value| value.as_str().and_then(|text| Quantity::bounded(text).ok());
    let storage =
        |spec: &Field<'_>| size(spec.get("resources").get("requests").get("storage").value());
    let floor = capacity.as_ref().and_then(size);
    if let (Some(now), Some(before)) = (storage(&new), storage(&old))
        && now < before
        && floor.is_some_and(|floor| now <= floor)
    {
        let path = "spec.resources.requests.storage";
        out.push(FieldError::forbidden(path, "field can not be less than status.capacity"));
    }
    let mode = new.get("volumeMode").reported_at(&root.get("volumeMode"));
    immutable(&mode, &old.get("volumeMode"), out);
}

pub(super) fn class(object: &Field<'_>, out: &mut Findings) {
    let provisioner = object.get("provisioner");
    if provisioner.text().is_empty() {
        out.push(provisioner.required(""));
    } else {
        let complaints = names::qualified_name(&provisioner.text().to_lowercase());
        out.extend(complaints.into_iter().map(|says| provisioner.invalid(says)));
    }
    any_of(&object.get("reclaimPolicy"), &["Delete", "Retain"], out);
    one_of(&object.get("volumeBindingMode"), &["Immediate", "WaitForFirstConsumer"], out);
    for (key, field) in object.get("parameters").entries() {
        if key.is_empty() {
            let detail = "field can not be empty.";
            out.push(FieldError::new(FieldProblem::Invalid, field.path(), key.into(), detail));
        }
    }
}

pub(super) fn class_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    for key in ["parameters", "provisioner", "reclaimPolicy"] {
        if !same(new.get(key).value(), old.get(key).value()) {
            out.push(new.get(key).forbidden(format!("updates to {key} are forbidden.")));
        }
    }
    immutable(&new.get("volumeBindingMode"), &old.get("volumeBindingMode"), out);
}

/// A driver and the like: only the name of the driver.
pub(super) fn attachment(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    for key in ["attacher", "nodeName"] {
        required_name(&spec.get(key), names::dns1123_subdomain, out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::catalog::Kind;
    use super::super::tests::{object, on_create, on_update};
    use super::*;
    use serde_json::json;

    fn claim(extra: &Value) -> Value {
        let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        for (key, value) in extra.as_object().unwrap() {
            spec[key] = value.clone();
        }
        object(Kind::PersistentVolumeClaim, &json!({"spec": spec}))
    }

    #[test]
    fn a_claim_says_how_and_how_much() {
        assert_eq!(on_create(Kind::PersistentVolumeClaim, &claim(&json!({}))), "");
        assert_eq!(
            on_create(
                Kind::PersistentVolumeClaim,
                &claim(&json!({"accessModes": [], "resources": {}}))
            ),
            "spec.accessModes: Required value: at least 1 access mode is required\n\
             spec.resources[storage]: Required value"
        );
        assert_eq!(
            on_create(Kind::PersistentVolumeClaim, &claim(&json!({"accessModes": ["RWO"]}))),
            "spec.accessModes: Unsupported value: \"RWO\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\""
        );
    }

    #[test]
    fn a_bound_claim_only_grows() {
        let old = claim(&json!({}));
        let bound = |extra: &Value| {
            let mut claim = claim(extra);
            claim["status"] = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
            claim
        };
        let grown = claim(&json!({"resources": {"requests": {"storage": "2Gi"}}}));
        assert_eq!(
            on_update(Kind::PersistentVolumeClaim, &grown, &old),
            format!("spec: Forbidden: {FROZEN_CLAIM}")
        );
        let old = bound(&json!({}));
        let grown = bound(&json!({"resources": {"requests": {"storage": "2Gi"}}}));
        assert_eq!(on_update(Kind::PersistentVolumeClaim, &grown, &old), "");
        let shrunk = bound(&json!({"resources": {"requests": {"storage": "1Mi"}}}));
        assert_eq!(
            on_update(Kind::PersistentVolumeClaim, &shrunk, &old),
            "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
        );
        let named = bound(&json!({"volumeName": "pv"}));
        assert_eq!(on_update(Kind::PersistentVolumeClaim, &named, &old), "");
    }

    #[test]
    fn a_volume_has_one_source_that_stays() {
        let volume = |source: Value| {
            let mut spec =
                json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}});
            for (key, value) in source.as_object().unwrap() {
                spec[key] = value.clone();
            }
            object(Kind::PersistentVolume, &json!({"spec": spec}))
        };
        let old = volume(json!({"hostPath": {"path": "/a"}}));
        assert_eq!(on_create(Kind::PersistentVolume, &old), "");
        assert_eq!(
            on_create(Kind::PersistentVolume, &volume(json!({}))),
            "spec: Required value: must specify a volume type"
        );
        assert_eq!(
            on_update(Kind::PersistentVolume, &volume(json!({"hostPath": {"path": "/b"}})), &old),
            "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"
        );
    }

    #[test]
    fn a_class_does_not_change() {
        let class = |fields: Value| object(Kind::StorageClass, &fields);
        let old = class(json!({"provisioner": "a.b/c"}));
        assert_eq!(on_create(Kind::StorageClass, &old), "");
        assert_eq!(on_create(Kind::StorageClass, &class(json!({}))), "provisioner: Required value");
        let new = class(
            json!({"provisioner": "a.b/d", "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer"}),
        );
        assert_eq!(
            on_update(Kind::StorageClass, &new, &old),
            "provisioner: Forbidden: updates to provisioner are forbidden.\n\
             reclaimPolicy: Forbidden: updates to reclaimPolicy are forbidden.\n\
             volumeBindingMode: Invalid value: \"WaitForFirstConsumer\": field is immutable"
        );
    }
}
