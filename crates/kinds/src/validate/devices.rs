//! Claims to devices, and what a node has of them. They are kept; nobody allocates here.

use flagship_base::names;

use super::super::json::Field;
use super::Findings;
use super::rules::{POSITIVE, any_of, immutable, required_name};

/// The specification of a claim, by itself or in a template.
pub(super) fn claim(spec: &Field<'_>, out: &mut Findings) {
    for request in spec.get("devices").get("requests").items() {
        required_name(&request.get("name"), names::dns1123_label, out);
        let (exactly, first) = (request.get("exactly"), request.get("firstAvailable"));
        match (exactly.is_set(), !first.is_empty()) {
            (false, false) => {
                out.push(
                    request.required("exactly one of `exactly` or `firstAvailable` is required"),
                );
            }
            (true, true) => {
                out.push(request.invalid(
                    "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
                ));
            }
            _ => {}
        }
        if exactly.is_set() {
            wanted(&exactly, out);
        }
        for one in first.items() {
            required_name(&one.get("name"), names::dns1123_label, out);
            wanted(&one, out);
        }
    }
}

fn wanted(request: &Field<'_>, out: &mut Findings) {
    required_name(&request.get("deviceClassName"), names::dns1123_subdomain, out);
    any_of(&request.get("allocationMode"), &["All", "ExactCount"], out);
    let count = request.get("count");
    let exact = request.get("allocationMode").text() == "ExactCount";
    if exact && count.int().is_some_and(|number| number <= 0) {
        out.push(count.invalid(POSITIVE));
    }
}

pub(super) fn slice(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    required_name(&spec.get("driver"), names::dns1123_subdomain, out);
    required_name(&spec.get("pool").get("name"), names::dns1123_subdomain, out);
    let count = spec.get("pool").get("resourceSliceCount");
    if count.int().is_none_or(|number| number <= 0) {
        out.push(count.invalid_as(count.int().unwrap_or(0), POSITIVE));
    }
}

pub(super) fn slice_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    let (new, old) = (new.get("spec"), old.get("spec"));
    for key in ["driver", "nodeName"] {
        immutable(&new.get(key), &old.get(key), out);
    }
    immutable(&new.get("pool").get("name"), &old.get("pool").get("name"), out);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{object, on_create, on_update};
    use crate::Kind;

    fn claim(request: serde_json::Value) -> serde_json::Value {
        object(Kind::ResourceClaim, &json!({"spec": {"devices": {"requests": [request]}}}))
    }

    #[test]
    fn a_claim_says_what_it_wants_and_does_not_change_its_mind() {
        let kind = Kind::ResourceClaim;
        let fits = claim(json!({"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}));
        assert_eq!(on_create(kind, &fits), "");
        let nothing = claim(json!({"name": "gpu"}));
        assert_eq!(
            on_create(kind, &nothing),
            "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"
        );
        let none = claim(json!({"name": "gpu", "exactly": {"count": 0, "deviceClassName": ""}}));
        assert_eq!(
            on_create(kind, &none),
            "spec.devices.requests[0].exactly.deviceClassName: Required value\nspec.devices.requests[0].exactly.count: Invalid value: 0: must be greater than 0"
        );
        assert!(on_update(kind, &nothing, &fits).contains("field is immutable"));
    }
}
