//! FlowSchemas and PriorityLevelConfigurations. They are kept for programs that manage them;
//! requests wait their turn by rules of our own.

use flagship_base::names;

use super::super::json::Field;
use super::Findings;
use super::rules::{one_of, required, required_name};

/// The largest precedence; a FlowSchema that catches the rest has it.
const LAST: i64 = 10_000;

pub(super) fn schema(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    let precedence = spec.get("matchingPrecedence");
    if precedence.int().is_some_and(|number| number <= 0) {
        out.push(precedence.invalid("must be a positive value"));
    }
    if precedence.int().is_some_and(|number| number > LAST) {
        out.push(precedence.invalid(format!("must not be greater than {LAST}")));
    }
    let method = spec.get("distinguisherMethod");
    if method.is_set() {
        one_of(&method.get("type"), &["ByNamespace", "ByUser"], out);
    }
    let level = spec.get("priorityLevelConfiguration").get("name");
    required_name(&level, names::dns1123_subdomain, out);
    for rule in spec.get("rules").items() {
        required(&rule.get("subjects"), out);
        for subject in rule.get("subjects").items() {
            one_of(&subject.get("kind"), &["Group", "ServiceAccount", "User"], out);
        }
        let (objects, paths) = (rule.get("resourceRules"), rule.get("nonResourceRules"));
        if objects.is_empty() && paths.is_empty() {
            out.push(rule.required(
                "at least one of resourceRules and nonResourceRules has to be non-empty",
            ));
        }
        for resource in objects.items() {
            for key in ["verbs", "apiGroups", "resources"] {
                required(&resource.get(key), out);
            }
            if resource.get("namespaces").is_empty() && !resource.get("clusterScope").is_true() {
                let says =
                    "resource rules that are not cluster scoped must supply at least one namespace";
                out.push(resource.get("namespaces").required(says));
            }
        }
        for path in paths.items() {
            required(&path.get("verbs"), out);
            required(&path.get("nonResourceURLs"), out);
        }
    }
}

pub(super) fn level(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    let kind = spec.get("type");
    let (limited, exempt) = (spec.get("limited"), spec.get("exempt"));
    one_of(&kind, &["Exempt", "Limited"], out);
    match kind.text() {
        "Exempt" if limited.is_set() => {
            out.push(limited.forbidden("must be nil if the type is not Limited"));
        }
        "Limited" => {
            if exempt.is_set() {
                out.push(exempt.forbidden("must be nil if the type is Limited"));
            }
            if !limited.is_set() {
                out.push(limited.required("must not be empty when type is Limited"));
            }
        }
        _ => {}
    }
    for part in [&limited, &exempt] {
        let (shares, lent) = (part.get("nominalConcurrencyShares"), part.get("lendablePercent"));
        if shares.int().is_some_and(|number| number < 0) {
            out.push(shares.invalid("must be a non-negative integer"));
        }
        if lent.int().is_some_and(|percent| !(0..=100).contains(&percent)) {
            out.push(lent.invalid("must be between 0 and 100, inclusive"));
        }
    }
    if limited.is_set() {
        response(&limited.get("limitResponse"), out);
    }
}

/// What becomes of a request for which there is no place.
fn response(response: &Field<'_>, out: &mut Findings) {
    let (kind, queuing) = (response.get("type"), response.get("queuing"));
    one_of(&kind, &["Queue", "Reject"], out);
    match kind.text() {
        "Reject" if queuing.is_set() => {
            out.push(queuing.forbidden("must be nil if limited.limitResponse.type is not Limited"));
        }
        "Queue" if !queuing.is_set() => {
            out.push(
                queuing.required("must not be empty if limited.limitResponse.type is Limited"),
            );
        }
        _ => {}
    }
    let (queues, hand) = (queuing.get("queues"), queuing.get("handSize"));
    for field in [&queues, &hand, &queuing.get("queueLengthLimit")] {
        if field.int().is_some_and(|number| number <= 0) {
            out.push(field.invalid("must be positive"));
        }
    }
    if let (Some(most), Some(wanted)) = (queues.int(), hand.int())
        && wanted > most
    {
        out.push(hand.invalid(format!("should not be greater than queues ({most})")));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{object, on_create};
    use crate::Kind;

    #[test]
    fn a_schema_names_its_level_and_what_it_matches() {
        let rule = json!({"subjects": [{"kind": "Robot"}],
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]});
        let spec = json!({"matchingPrecedence": 10_001, "rules": [rule, {"subjects": [
            {"kind": "User", "user": {"name": "jane"}}]}], "priorityLevelConfiguration": {}});
        let schema = object(Kind::FlowSchema, &json!({"spec": spec}));
        let says = on_create(Kind::FlowSchema, &schema);
        let lines: Vec<&str> = says.lines().collect();
        let wanted = [
            "spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000",
            "spec.priorityLevelConfiguration.name: Required value",
            r#"spec.rules[0].subjects[0].kind: Unsupported value: "Robot": supported values: "Group", "ServiceAccount", "User""#,
            "spec.rules[0].resourceRules[0].namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace",
            "spec.rules[1]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn a_level_is_limited_or_exempt() {
        let says = |spec| {
            on_create(
                Kind::PriorityLevelConfiguration,
                &object(Kind::PriorityLevelConfiguration, &json!({"spec": spec})),
            )
        };
        assert_eq!(says(json!({"type": "Exempt"})), "");
        let queue = json!({"type": "Queue", "queuing": {"queues": 4}});
        assert_eq!(
            says(json!({"type": "Limited", "limited": {"limitResponse": queue}})),
            "spec.limited.limitResponse.queuing.handSize: Invalid value: 8: should not be greater than queues (4)"
        );
        assert_eq!(
            says(json!({"type": "Limited"})),
            "spec.limited: Required value: must not be empty when type is Limited"
        );
    }
}
