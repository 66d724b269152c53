//! Defaults of what extends the server: webhooks, admission policies, definitions.

use serde_json::json;

use super::super::json::{Fill, Object, is_empty};
use super::fill_text;

const HTTPS: i64 = 443;

pub(super) fn webhooks(object: &mut Object, mutating: bool) {
    for hook in object.children("webhooks") {
        hook.fill("failurePolicy", "Fail");
        hook.fill("timeoutSeconds", 10);
        if mutating {
            hook.fill("reinvocationPolicy", "Never");
        }
        if let Some(config) = hook.child_or_new("clientConfig") {
            service_port(config);
        }
        matching(hook);
        hook.children("rules").for_each(|rule| rule.fill("scope", "*"));
    }
}

pub(super) fn policy(object: &mut Object) {
    let Some(spec) = object.child_or_new("spec") else { return };
    spec.fill("failurePolicy", "Fail");
    if let Some(constraints) = spec.child("matchConstraints") {
        match_resources(constraints);
    }
}

pub(super) fn policy_binding(object: &mut Object) {
    if let Some(resources) = object.child("spec").and_then(|spec| spec.child("matchResources")) {
        match_resources(resources);
    }
}

fn match_resources(resources: &mut Object) {
    matching(resources);
    for list in ["resourceRules", "excludeResourceRules"] {
        resources.children(list).for_each(|rule| rule.fill("scope", "*"));
    }
}

fn matching(holder: &mut Object) {
    holder.fill("matchPolicy", "Equivalent");
    holder.fill("namespaceSelector", Object::new());
    holder.fill("objectSelector", Object::new());
}

fn service_port(config: &mut Object) {
    if let Some(service) = config.child("service") {
        service.fill("port", HTTPS);
    }
}

pub(super) fn definition(object: &mut Object) {
    let Some(spec) = object.child_or_new("spec") else { return };
    if let Some(names) = spec.child_or_new("names") {
        let kind = names.text("kind").to_owned();
        if !kind.is_empty() {
            fill_text(names, "singular", &kind.to_lowercase());
            fill_text(names, "listKind", &format!("{kind}List"));
        }
    }
    if let Some(conversion) = spec.child_or_new("conversion") {
        fill_text(conversion, "strategy", "None");
        let client = conversion.child("webhook").and_then(|hook| hook.child("clientConfig"));
        if let Some(client) = client {
            service_port(client);
        }
    }
    for version in spec.children("versions") {
        // A scale path without its selector is written without the field, and an
        // empty column list is dropped: both are how the real types print.
        if version.get("additionalPrinterColumns").is_some_and(is_empty) {
            version.remove("additionalPrinterColumns");
        }
    }
    object.entry("status").or_insert_with(|| {
        json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": [], "storedVersions": []})
    });
}

pub(super) fn api_service(object: &mut Object) {
    if let Some(spec) = object.child_or_new("spec") {
        service_port(spec);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_fails_closed_after_ten_seconds() {
        let mut object = json!({"webhooks": [{
            "name": "a.b.c", "clientConfig": {"service": {"name": "s", "namespace": "n"}},
            "rules": [{"operations": ["*"]}],
        }]});
        webhooks(object.as_object_mut().unwrap(), true);
        assert_eq!(
            object["webhooks"][0],
            json!({
                "name": "a.b.c", "clientConfig": {"service": {"name": "s", "namespace": "n", "port": 443}},
                "rules": [{"operations": ["*"], "scope": "*"}],
                "failurePolicy": "Fail", "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
                "reinvocationPolicy": "Never", "timeoutSeconds": 10,
            })
        );
    }

    #[test]
    fn a_definition_derives_its_names_from_the_kind() {
        let mut object = json!({"spec": {"names": {"kind": "Widget", "plural": "widgets"}}});
        definition(object.as_object_mut().unwrap());
        assert_eq!(
            object["spec"],
            json!({
                "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
                "conversion": {"strategy": "None"},
            })
        );
    }
}
