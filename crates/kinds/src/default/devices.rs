//! Defaults of claims to devices.

use super::super::json::{Fill, Object};

pub(super) fn claim(object: &mut Object) {
    if let Some(spec) = object.child("spec") {
        claim_spec(spec);
    }
}

pub(super) fn claim_template(object: &mut Object) {
    if let Some(spec) = object.child("spec").and_then(|spec| spec.child("spec")) {
        claim_spec(spec);
    }
}

fn claim_spec(spec: &mut Object) {
    let Some(devices) = spec.child("devices") else { return };
    for request in devices.children("requests") {
        if let Some(exactly) = request.child("exactly") {
            wanted(exactly);
        }
        request.children("firstAvailable").for_each(wanted);
    }
}

/// How many devices are wanted where nobody says: one.
fn wanted(request: &mut Object) {
    request.fill("allocationMode", "ExactCount");
    if request.text("allocationMode") == "ExactCount" {
        request.fill("count", 1);
    }
    for toleration in request.children("tolerations") {
        toleration.fill("operator", "Equal");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_device_is_wanted_unless_somebody_says_more() {
        let requests = json!([
            {"name": "one", "exactly": {"deviceClassName": "gpu"}},
            {"name": "all", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}},
        ]);
        let mut object = json!({"spec": {"spec": {"devices": {"requests": requests}}}});
        claim_template(object.as_object_mut().unwrap());
        let requests = &object["spec"]["spec"]["devices"]["requests"];
        assert_eq!(requests[0]["exactly"]["allocationMode"], "ExactCount");
        assert_eq!(requests[0]["exactly"]["count"], 1);
        assert!(requests[1]["exactly"].get("count").is_none());
    }
}
