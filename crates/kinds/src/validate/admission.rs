//! Webhook configurations, admission policies and custom resource definitions.
//!
//! Of definitions only the frame is checked here; their schemas are the registry's.

use std::collections::BTreeSet;

use flagship_base::machinery::status::FieldError;
use flagship_base::names;

use super::super::json::{Field, same};
use super::Findings;
use super::rules::{IMMUTABLE, any_of, required, required_name, selector, unique};

pub(super) fn webhooks(object: &Field<'_>, mutating: bool, out: &mut Findings) {
    let hooks = object.get("webhooks");
    for hook in hooks.items() {
        webhook(&hook, mutating, out);
    }
    unique(hooks.items().map(|hook| hook.get("name")), out);
}

fn webhook(hook: &Field<'_>, mutating: bool, out: &mut Findings) {
    required_name(&hook.get("name"), qualified_domain, out);
    let versions = hook.get("admissionReviewVersions");
    let known = versions.items().any(|version| matches!(version.text(), "v1" | "v1beta1"));
    if versions.is_empty() {
        out.push(versions.required("must specify one of v1, v1beta1"));
    } else {
        let mut seen = BTreeSet::new();
        for version in versions.items() {
            if !seen.insert(version.text()) {
                out.push(version.invalid("duplicate version"));
                continue;
            }
            super::rules::named(&version, names::dns1035_label, out);
        }
        if !known {
            out.push(versions.invalid("must include at least one of v1, v1beta1"));
        }
    }
    hook.get("rules").items().for_each(|rule| rule_with_operations(&rule, out));
    any_of(&hook.get("failurePolicy"), &["Fail", "Ignore"], out);
    any_of(&hook.get("matchPolicy"), &["Equivalent", "Exact"], out);
    let effects = hook.get("sideEffects");
    if effects.is_empty() {
        out.push(effects.required("must specify one of None, NoneOnDryRun"));
    } else {
        any_of(&effects, &["None", "NoneOnDryRun"], out);
    }
    let timeout = hook.get("timeoutSeconds");
    if timeout.int().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        out.push(timeout.invalid("the timeout value must be between 1 and 30 seconds"));
    }
    selector(&hook.get("namespaceSelector"), out);
    selector(&hook.get("objectSelector"), out);
    client_config(&hook.get("clientConfig"), out);
    let conditions = hook.get("matchConditions");
    unique(conditions.items().map(|condition| condition.get("name")), out);
    if mutating {
        any_of(&hook.get("reinvocationPolicy"), &["IfNeeded", "Never"], out);
    }
}

fn qualified_domain(name: &str) -> Vec<String> {
    let complaints = names::dns1123_subdomain(name);
    if complaints.is_empty() && name.split('.').count() < 3 {
        return vec![
            "should be a domain with at least three segments separated by dots".to_owned(),
        ];
    }
    complaints
}

fn rule_with_operations(rule: &Field<'_>, out: &mut Findings) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    let operations = rule.get("operations");
    if operations.is_empty() {
        out.push(operations.required(""));
    }
    if operations.len() > 1 && operations.items().any(|operation| operation.text() == "*") {
        let says = "if '*' is present, must not specify other operations";
        out.push(operations.invalid(says));
    }
    operations.items().for_each(|operation| any_of(&operation, &OPERATIONS, out));
    for key in ["apiGroups", "apiVersions", "resources"] {
        let list = rule.get(key);
        if list.is_empty() {
            out.push(list.required(""));
        }
        if key != "resources" && list.len() > 1 && list.items().any(|item| item.text() == "*") {
            let noun = if key == "apiGroups" { "API groups" } else { "API versions" };
            let says = format!("if '*' is present, must not specify other {noun}");
            out.push(list.invalid(says));
        }
    }
    any_of(&rule.get("scope"), &["*", "Cluster", "Namespaced"], out);
}

fn client_config(config: &Field<'_>, out: &mut Findings) {
    let (url, service) = (config.get("url"), config.get("service"));
    match (url.is_set(), service.is_set()) {
        (true, false) => webhook_url(&url, out),
        (false, true) => webhook_service(&service, out),
        _ => out.push(config.required("exactly one of url or service is required")),
    }
}

fn webhook_url(url: &Field<'_>, out: &mut Findings) {
    const FORM: &str = "; desired format: https://host[/path]";
    let Some(rest) = url.text().strip_prefix("https://") else {
        out.push(url.invalid(format!("'https' is the only allowed URL scheme{FORM}")));
        return;
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if host.is_empty() {
        out.push(url.invalid(format!("host must be specified{FORM}")));
    }
    if host.contains('@') {
        out.push(url.invalid(format!("user information is not permitted in the URL{FORM}")));
    }
    if path.contains('#') {
        out.push(url.invalid(format!("fragments are not permitted in the URL{FORM}")));
    }
    if path.contains('?') {
        out.push(url.invalid(format!("query parameters are not permitted in the URL{FORM}")));
    }
}

fn webhook_service(service: &Field<'_>, out: &mut Findings) {
    for (key, says) in
        [("name", "service name is required"), ("namespace", "service namespace is required")]
    {
        if service.get(key).text().is_empty() {
            out.push(service.get(key).required(says));
        }
    }
    let port = service.get("port");
    if port.int().is_some_and(|port| !(1..=65535).contains(&port)) {
        out.push(port.invalid("port is not valid: must be between 1 and 65535, inclusive"));
    }
    let path = service.get("path");
    if path.is_set() && !path.text().starts_with('/') {
        out.push(path.invalid("must start with a '/'"));
    }
}

pub(super) fn policy(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    any_of(&spec.get("failurePolicy"), &["Fail", "Ignore"], out);
    let params = spec.get("paramKind");
    if params.is_set() {
        required(&params.get("apiVersion"), out);
        required(&params.get("kind"), out);
    }
    let constraints = spec.get("matchConstraints");
    if constraints.is_set() {
        let rules = constraints.get("resourceRules");
        if rules.is_empty() {
            out.push(rules.required(""));
        }
        match_resources(&constraints, out);
    } else {
        out.push(constraints.required(""));
    }
    let (checks, notes) = (spec.get("validations"), spec.get("auditAnnotations"));
    if checks.is_empty() && notes.is_empty() {
        let says = "validations or auditAnnotations must contain at least one item";
        out.push(checks.required(says));
        out.push(notes.required(says));
    }
    for check in checks.items() {
        let expression = check.get("expression");
        if expression.text().trim().is_empty() {
            out.push(expression.required("expression is not specified"));
        }
        any_of(&check.get("reason"), &["Forbidden", "Invalid", "RequestEntityTooLarge"], out);
    }
    audit_notes(object.get("metadata").get("name").text(), &notes, out);
    for condition in spec.get("matchConditions").items() {
        required(&condition.get("name"), out);
        required(&condition.get("expression"), out);
    }
    unique(spec.get("matchConditions").items().map(|condition| condition.get("name")), out);
    for variable in spec.get("variables").items() {
        required(&variable.get("name"), out);
        required(&variable.get("expression"), out);
    }
    unique(spec.get("variables").items().map(|variable| variable.get("name")), out);
}

/// What a policy notes for an audit; keys stand below its own name.
fn audit_notes(policy: &str, notes: &Field<'_>, out: &mut Findings) {
    const MOST: usize = 20;
    if notes.len() > MOST {
        out.push(notes.invalid(format!("must not have more than {MOST} auditAnnotations")));
    }
    for note in notes.items() {
        let (key, value) = (note.get("key"), note.get("valueExpression"));
        let full = format!("{policy}/{}", key.text());
        let complaints = names::qualified_name(&full);
        out.extend(complaints.into_iter().map(|says| key.invalid_as(full.as_str(), says)));
        if value.text().trim().is_empty() {
            out.push(value.required("valueExpression is not specified"));
        }
    }
    unique(notes.items().map(|note| note.get("key")), out);
}

fn match_resources(resources: &Field<'_>, out: &mut Findings) {
    any_of(&resources.get("matchPolicy"), &["Equivalent", "Exact"], out);
    selector(&resources.get("namespaceSelector"), out);
    selector(&resources.get("objectSelector"), out);
    for key in ["resourceRules", "excludeResourceRules"] {
        resources.get(key).items().for_each(|rule| rule_with_operations(&rule, out));
    }
}

pub(super) fn policy_binding(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    required_name(&spec.get("policyName"), names::dns1123_subdomain, out);
    match_resources(&spec.get("matchResources"), out);
    let actions = spec.get("validationActions");
    if actions.is_empty() {
        out.push(actions.required("at least one validation action is required"));
    }
    actions.items().for_each(|action| any_of(&action, &["Audit", "Deny", "Warn"], out));
    super::rules::unique(actions.items(), out);
    let says = |wanted: &str| actions.items().any(|action| action.text() == wanted);
    if says("Deny") && says("Warn") {
        out.push(actions.invalid("must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"));
    }
    let params = spec.get("paramRef");
    if params.is_set() {
        any_of(&params.get("parameterNotFoundAction"), &["Allow", "Deny"], out);
        if params.get("name").is_set() == params.get("selector").is_set() {
            out.push(params.get("name").forbidden("exactly one of name and selector must be set"));
        }
    }
}

pub(super) fn definition(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    let (group, plural) = (spec.get("group"), spec.get("names").get("plural"));
    let name = object.get("metadata").get("name");
    let expected = format!("{}.{}", plural.text(), group.text());
    if name.text() != expected {
        out.push(name.invalid("must be spec.names.plural+\".\"+spec.group"));
    }
    if group.text().is_empty() {
        out.push(group.required(""));
    } else {
        let complaints = names::dns1123_subdomain(group.text());
        out.extend(complaints.into_iter().map(|says| group.invalid(says)));
        if !group.text().contains('.') {
            out.push(group.invalid("should be a domain with at least one dot"));
        }
    }
    let scope = spec.get("scope");
    if scope.is_empty() {
        out.push(scope.required(""));
    } else {
        any_of(&scope, &["Cluster", "Namespaced"], out);
    }
    required_name(&plural, names::dns1035_label, out);
    for key in ["singular", "kind", "listKind"] {
        let field = spec.get("names").get(key);
        let lower = field.text().to_lowercase();
        if lower.is_empty() {
            out.push(field.required(""));
        } else {
            let complaints = names::dns1035_label(&lower);
            out.extend(complaints.into_iter().map(|says| field.invalid(says)));
        }
    }
    definition_versions(&spec.get("versions"), out);
}

fn definition_versions(versions: &Field<'_>, out: &mut Findings) {
    let mut stored = 0;
    for version in versions.items() {
        stored += usize::from(version.get("storage").is_true());
        let name = version.get("name");
        let complaints = names::dns1035_label(name.text());
        out.extend(complaints.into_iter().map(|says| name.invalid(says)));
        let schema = version.get("schema").get("openAPIV3Schema");
        if !schema.is_set() {
            out.push(schema.required(""));
        }
    }
    if stored != 1 {
        out.push(versions.invalid("must have exactly one version marked as storage version"));
    }
    if versions.is_empty() {
        out.push(versions.required("must have at least one version"));
    }
    super::rules::unique(versions.items().map(|version| version.get("name")), out);
}

pub(super) fn definition_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    let established = old.get("status").get("conditions").items().any(|condition| {
        condition.get("type").text() == "Established" && condition.get("status").text() == "True"
    });
    let mut frozen: Vec<(Field<'_>, Field<'_>)> = Vec::new();
    let (now, before) = (new.get("spec"), old.get("spec"));
    frozen.push((now.get("group"), before.get("group")));
    frozen.push((now.get("names").get("plural"), before.get("names").get("plural")));
    if established {
        frozen.push((now.get("scope"), before.get("scope")));
        frozen.push((now.get("names").get("kind"), before.get("names").get("kind")));
    }
    for (now, before) in frozen {
        if !same(now.value(), before.value()) {
            out.push(now.invalid(IMMUTABLE));
        }
    }
    let served: Vec<&str> = now.get("versions").items().map(|v| v.get("name").text()).collect();
    for (index, version) in old.get("status").get("storedVersions").items().enumerate() {
        if !served.contains(&version.text()) {
            let path = format!("status.storedVersions[{index}]");
            let says = format!(
                "missing from spec.versions; {} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {} and removes {} from status.storedVersions",
                version.text(),
                version.text(),
                version.text()
            );
            out.push(FieldError::invalid(path, version.value().clone(), says));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::catalog::Kind;
    use super::super::super::default_object;
    use super::super::tests::{on_create, on_update};
    use serde_json::{Value, json};

    fn said(kind: Kind, mut object: Value) -> String {
        object["metadata"]["name"] = json!("widgets.example.com");
        default_object(kind, &mut object);
        on_create(kind, &object)
    }

    #[test]
    fn a_webhook_says_where_and_what() {
        let hook =
            |hook: Value| said(Kind::ValidatingWebhookConfiguration, json!({"webhooks": [hook]}));
        let good = json!({
            "name": "a.example.com", "clientConfig": {"url": "https://a.example"},
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        });
        assert_eq!(hook(good.clone()), "");
        let mut bad = good.clone();
        bad["name"] = json!("a.b");
        bad["clientConfig"] = json!({"url": "http://a.example"});
        bad["sideEffects"] = json!("Some");
        bad["admissionReviewVersions"] = json!(["v2"]);
        bad["timeoutSeconds"] = json!(31);
        assert_eq!(
            hook(bad),
            "webhooks[0].name: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots\n\
             webhooks[0].admissionReviewVersions: Invalid value: [\"v2\"]: must include at least one of v1, v1beta1\n\
             webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"\n\
             webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds\n\
             webhooks[0].clientConfig.url: Invalid value: \"http://a.example\": 'https' is the only allowed URL scheme; desired format: https://host[/path]"
        );
        let mut neither = good;
        neither["clientConfig"] = json!({});
        assert_eq!(
            hook(neither),
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required"
        );
    }

    #[test]
    fn a_policy_checks_something() {
        let rules = json!([{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]);
        let policy = |checks: Value| {
            let spec = json!({"matchConstraints": {"resourceRules": rules}, "validations": checks});
            said(Kind::ValidatingAdmissionPolicy, json!({"spec": spec}))
        };
        assert_eq!(policy(json!([{"expression": "true"}])), "");
        assert_eq!(
            policy(json!([{"expression": " "}])),
            "spec.validations[0].expression: Required value: expression is not specified"
        );
        assert_eq!(
            said(Kind::ValidatingAdmissionPolicyBinding, json!({"spec": {"policyName": "p"}})),
            "spec.validationActions: Required value: at least one validation action is required"
        );
    }

    #[test]
    fn a_definition_is_named_after_what_it_defines() {
        let spec = json!({
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        });
        assert_eq!(said(Kind::CustomResourceDefinition, json!({"spec": spec})), "");
        let mut other = spec;
        other["names"]["plural"] = json!("gadgets");
        other["versions"][0]["storage"] = json!(false);
        other["versions"][0]["schema"] = json!({});
        let said = said(Kind::CustomResourceDefinition, json!({"spec": other}));
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(
            lines[0],
            "metadata.name: Invalid value: \"widgets.example.com\": must be spec.names.plural+\".\"+spec.group"
        );
        assert_eq!(lines[1], "spec.versions[0].schema.openAPIV3Schema: Required value");
        assert!(lines[2].ends_with("must have exactly one version marked as storage version"));
    }

    #[test]
    fn a_stored_version_stays_until_it_is_migrated() {
        let definition = |version: &str| {
            json!({
                "metadata": {"name": "widgets.example.com"},
                "spec": {
                    "group": "example.com", "scope": "Cluster",
                    "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
                    "versions": [{"name": version, "storage": true, "schema": {"openAPIV3Schema": {}}}],
                },
                "status": {"storedVersions": ["v1"]},
            })
        };
        assert_eq!(
            on_update(Kind::CustomResourceDefinition, &definition("v1"), &definition("v1")),
            ""
        );
        let said = on_update(Kind::CustomResourceDefinition, &definition("v2"), &definition("v1"));
        assert!(said.starts_with("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage version"), "{said}");
    }
}
