//! Budgets, autoscalers, priorities, quotas, limits and leases.

use std::collections::BTreeSet;

use flagship_base::machinery::status::FieldError;
use flagship_base::names;
use flagship_base::quantity::Quantity;
use serde_json::Value;

use super::super::json::{Field, same};
use super::Findings;
use super::container::is_standard;
use super::rules::{
    NOT_NEGATIVE, POSITIVE, amount, any_of, immutable, int_or_percent, named, selector,
};

pub(super) fn disruption_budget(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    let (least, most) = (spec.get("minAvailable"), spec.get("maxUnavailable"));
    if least.is_set() && most.is_set() {
        out.push(spec.invalid("minAvailable and maxUnavailable cannot be both set"));
    }
    int_or_percent(&least, true, out);
    int_or_percent(&most, true, out);
    selector(&spec.get("selector"), out);
    any_of(&spec.get("unhealthyPodEvictionPolicy"), &["AlwaysAllow", "IfHealthyBudget"], out);
}

pub(super) fn autoscaler(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    let (least, most) = (spec.get("minReplicas"), spec.get("maxReplicas"));
    if least.int().is_some_and(|number| number < 1) {
        out.push(least.invalid("must be greater than or equal to 1"));
    }
    let top = most.int().unwrap_or(0);
    if top < 1 {
        out.push(most.invalid_as(top, POSITIVE));
    }
    if least.int().is_some_and(|least| top < least) {
        out.push(most.invalid_as(top, "must be greater than or equal to `minReplicas`"));
    }
    let target = spec.get("scaleTargetRef");
    for key in ["kind", "name"] {
        let field = target.get(key);
        if field.text().is_empty() {
            out.push(field.required(""));
        } else {
            named(&field, names::path_segment, out);
        }
    }
    for metric in spec.get("metrics").items() {
        metric_source(&metric, out);
    }
    for direction in ["scaleUp", "scaleDown"] {
        let rules = spec.get("behavior").get(direction);
        let window = rules.get("stabilizationWindowSeconds");
        if window.int().is_some_and(|seconds| seconds < 0) {
            out.push(window.invalid(NOT_NEGATIVE));
        }
        if window.int().is_some_and(|seconds| seconds > 3600) {
            out.push(window.invalid("must be less than or equal to 3600"));
        }
        any_of(&rules.get("selectPolicy"), &["Disabled", "Max", "Min"], out);
        for policy in rules.get("policies").items() {
            any_of(&policy.get("type"), &["Percent", "Pods"], out);
            for key in ["value", "periodSeconds"] {
                let field = policy.get(key);
                if field.int().is_some_and(|number| number <= 0) {
                    out.push(field.invalid("must be greater than zero"));
                }
            }
        }
    }
}

fn metric_source(metric: &Field<'_>, out: &mut Findings) {
    let kind = metric.get("type");
    let key = match kind.text() {
        "" => {
            out.push(kind.required("must specify a metric source type"));
            return;
        }
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        "External" => "external",
        _ => {
            let all = ["ContainerResource", "External", "Object", "Pods", "Resource"];
            out.push(kind.not_supported(&all));
            return;
        }
    };
    let source = metric.get(key);
    if !source.is_set() {
        let says = "must populate information for the given metric source";
        out.push(source.required(says));
        return;
    }
    if matches!(key, "resource" | "containerResource") {
        let name = source.get("name");
        if name.text().is_empty() {
            out.push(name.required("must specify a resource name"));
        }
        let target = source.get("target");
        let kind = target.get("type");
        if kind.is_empty() {
            out.push(kind.required("must specify a metric target type"));
        }
        if !matches!(kind.text(), "Utilization" | "Value" | "AverageValue") {
            let says = "must be either Utilization, Value, or AverageValue";
            out.push(kind.invalid_as(kind.text(), says));
        }
        let percent = target.get("averageUtilization");
        if percent.int().is_some_and(|percent| percent < 1) {
            out.push(percent.invalid(POSITIVE));
        }
        let value = target.get("averageValue");
        match (percent.is_set(), value.is_set()) {
            (false, false) => {
                let says = "must set either a target raw value or a target utilization";
                out.push(percent.required(says));
            }
            (true, true) => {
                out.push(
                    value.forbidden("may not set both a target raw value and a target utilization"),
                );
            }
            _ => {}
        }
    }
}

const USER_PRIORITY_MAX: i64 = 1_000_000_000;

pub(super) fn priority_class(object: &Field<'_>, out: &mut Findings) {
    let name = object.get("metadata").get("name");
    let value = object.get("value");
    let known = match name.text() {
        "system-cluster-critical" => Some(2_000_000_000),
        "system-node-critical" => Some(2_000_001_000),
        _ => None,
    };
    if name.text().starts_with("system-") {
        let why = match known {
            Some(expected) if value.int() == Some(expected) => None,
            Some(expected) => {
                Some(format!("value of {} PriorityClass must be {expected}", name.text()))
            }
            None => Some(format!("{} is not a known system priority class", name.text())),
        };
        if let Some(why) = why {
            out.push(name.forbidden(format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            )));
        }
    } else if value.int().is_some_and(|value| value > USER_PRIORITY_MAX) {
        let says =
            format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}");
        out.push(value.forbidden(says));
    }
    any_of(&object.get("preemptionPolicy"), &["Never", "PreemptLowerPriority"], out);
}

pub(super) fn priority_class_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    if new.get("value").int().unwrap_or(0) != old.get("value").int().unwrap_or(0) {
        out.push(new.get("value").forbidden("may not be changed in an update."));
    }
    immutable(&new.get("preemptionPolicy"), &old.get("preemptionPolicy"), out);
}

pub(super) fn resource_quota(object: &Field<'_>, out: &mut Findings) {
    for list in [object.get("spec").get("hard"), object.get("status").get("hard")] {
        for (name, field) in list.entries() {
            resource_name(name, &field, out);
            if !name.contains('/') && !is_standard(name) {
                out.push(field.invalid_as(name, "must be a standard resource for quota"));
            }
            let counted = matches!(
                name,
                "pods"
                    | "services"
                    | "replicationcontrollers"
                    | "resourcequotas"
                    | "secrets"
                    | "configmaps"
                    | "persistentvolumeclaims"
                    | "services.nodeports"
                    | "services.loadbalancers"
            ) || name.starts_with("count/");
            if amount(&field, out).is_some_and(|amount| counted && !amount.is_whole()) {
                out.push(field.invalid("must be an integer"));
            }
        }
    }
    let scopes = object.get("spec").get("scopes");
    let has = |name: &str| scopes.items().any(|scope| scope.text() == name);
    let known = [
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "CrossNamespacePodAffinity",
    ];
    for scope in scopes.items() {
        if !known.contains(&scope.text()) {
            out.push(scopes.invalid("unsupported scope"));
        }
    }
    for (one, other) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if has(one) && has(other) {
            out.push(scopes.invalid("conflicting scopes"));
        }
    }
}

/// A qualified name that is either standard or has a domain.
fn resource_name(name: &str, field: &Field<'_>, out: &mut Findings) {
    let complaints = names::qualified_name(name);
    if complaints.is_empty() && !name.contains('/') && !is_standard(name) {
        out.push(field.invalid_as(name, "must be a standard resource type or fully qualified"));
    }
    out.extend(complaints.into_iter().map(|says| field.invalid_as(name, says)));
}

pub(super) fn resource_quota_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    let (new, old) = (new.get("spec").get("scopes"), old.get("spec").get("scopes"));
    let sorted = |scopes: &Field<'_>| {
        let mut names: Vec<&str> = scopes.items().map(|scope| scope.text()).collect();
        names.sort_unstable();
        names.join(",")
    };
    if sorted(&new) != sorted(&old) {
        out.push(new.invalid("field is immutable"));
    }
}

pub(super) fn limit_range(object: &Field<'_>, out: &mut Findings) {
    let limits = object.get("spec").get("limits");
    let mut kinds = BTreeSet::new();
    for item in limits.items() {
        let kind = item.get("type");
        named(&kind, names::qualified_name, out);
        let standard = ["Container", "Pod", "PersistentVolumeClaim"];
        if !kind.is_empty() && !kind.text().contains('/') && !standard.contains(&kind.text()) {
            out.push(kind.invalid("must be a standard limit type or fully qualified"));
        }
        if !kinds.insert(kind.text()) {
            out.push(kind.duplicate());
        }
        limit_item(&item, out);
    }
}

const LIMIT_LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

fn limit_item(item: &Field<'_>, out: &mut Findings) {
    let kind = item.get("type").text();
    if kind == "Pod" {
        for key in ["default", "defaultRequest"] {
            if !item.get(key).is_empty() {
                out.push(item.get(key).forbidden("may not be specified when `type` is 'Pod'"));
            }
        }
    }
    if kind == "PersistentVolumeClaim" {
        let bounded = |list: &str| item.value().get(list).and_then(|l| l.get("storage")).is_some();
        if !bounded("min") && !bounded("max") {
            let says =
                "either minimum or maximum storage value is required, but neither was provided";
            out.push(item.get("limits").required(says));
        }
    }
    let mut keys = BTreeSet::new();
    for list in LIMIT_LISTS {
        for (name, field) in item.get(list).entries() {
            resource_name(name, &field, out);
            amount(&field, out);
            keys.insert(name);
        }
    }
    for name in keys {
        limit_bounds(item, name, out);
    }
}

/// The amounts of one resource stand in order: min, default request, default, max.
fn limit_bounds(item: &Field<'_>, name: &str, out: &mut Findings) {
    let value = |list: &str| {
        let text = item.value().get(list)?.get(name)?.as_str()?;
        Quantity::bounded(text).ok()
    };
    // List at fault, what is said of both sides, and which of them is printed.
    let table = [
        ("min", ("min", "min"), ("max", "max"), 0),
        ("defaultRequest", ("min", "min"), ("defaultRequest", "default request"), 1),
        ("defaultRequest", ("defaultRequest", "default request"), ("max", "max"), 0),
        ("defaultRequest", ("defaultRequest", "default request"), ("default", "default limit"), 0),
        ("default", ("min", "min"), ("default", "default"), 0),
        ("default", ("default", "default"), ("max", "max"), 1),
    ];
    for (fault, (lower, lower_name), (upper, upper_name), printed) in table {
        if let (Some(low), Some(high)) = (value(lower), value(upper))
            && low > high
        {
            let shown = if printed == 0 { low } else { high };
            out.push(FieldError::invalid(
                format!("{}[{name}]", item.get(fault).path()),
                Value::from(shown.to_string()),
                format!("{lower_name} value {low} is greater than {upper_name} value {high}"),
            ));
        }
    }
    if let Some(ratio) = value("maxLimitRequestRatio")
        && ratio < Quantity::whole(1)
    {
        out.push(FieldError::invalid(
            format!("{}[{name}]", item.get("maxLimitRequestRatio").path()),
            Value::from(ratio.to_string()),
            format!("ratio {ratio} is less than 1"),
        ));
    }
}

pub(super) fn lease(object: &Field<'_>, out: &mut Findings) {
    let spec = object.get("spec");
    let duration = spec.get("leaseDurationSeconds");
    if duration.int().is_some_and(|seconds| seconds <= 0) {
        out.push(duration.invalid(POSITIVE));
    }
    let moves = spec.get("leaseTransitions");
    if moves.int().is_some_and(|count| count < 0) {
        out.push(moves.invalid(NOT_NEGATIVE));
    }
}

pub(super) fn runtime_class(object: &Field<'_>, out: &mut Findings) {
    let handler = object.get("handler");
    named(&handler, names::dns1123_label, out);
}

pub(super) fn runtime_class_change(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    if !same(new.get("handler").value(), old.get("handler").value()) {
        out.push(new.get("handler").invalid("field is immutable"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::catalog::Kind;
    use super::super::tests::{object, on_create, on_update};
    use serde_json::{Value, json};

    fn said(kind: Kind, fields: &Value) -> String {
        on_create(kind, &object(kind, fields))
    }

    #[test]
    fn a_budget_says_it_one_way() {
        assert_eq!(
            said(
                Kind::PodDisruptionBudget,
                &json!({"spec": {"minAvailable": 1, "maxUnavailable": "10%"}})
            ),
            "spec: Invalid value: {\"maxUnavailable\":\"10%\",\"minAvailable\":1}: minAvailable and maxUnavailable cannot be both set"
        );
        assert_eq!(said(Kind::PodDisruptionBudget, &json!({"spec": {"minAvailable": "50%"}})), "");
    }

    #[test]
    fn an_autoscaler_has_bounds_in_order() {
        let target = json!({"kind": "Deployment", "name": "web"});
        assert_eq!(
            said(
                Kind::HorizontalPodAutoscaler,
                &json!({"spec": {"minReplicas": 5, "maxReplicas": 2, "scaleTargetRef": target}})
            ),
            "spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`"
        );
        assert_eq!(
            said(
                Kind::HorizontalPodAutoscaler,
                &json!({"spec": {"minReplicas": 0, "maxReplicas": 0}})
            ),
            "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1\n\
             spec.maxReplicas: Invalid value: 0: must be greater than 0\n\
             spec.scaleTargetRef.kind: Required value\nspec.scaleTargetRef.name: Required value"
        );
    }

    #[test]
    fn a_priority_is_modest_and_stays() {
        assert_eq!(
            said(Kind::PriorityClass, &json!({"value": 1_000_000_001})),
            "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"
        );
        let class = |value: i64| object(Kind::PriorityClass, &json!({"value": value}));
        assert_eq!(
            on_update(Kind::PriorityClass, &class(1), &class(2)),
            "value: Forbidden: may not be changed in an update."
        );
    }

    #[test]
    fn limits_and_quotas_make_sense() {
        assert_eq!(
            said(
                Kind::LimitRange,
                &json!({"spec": {"limits": [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}]}})
            ),
            "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1\n\
             spec.limits[0].defaultRequest[cpu]: Invalid value: \"1\": min value 2 is greater than default request value 1\n\
             spec.limits[0].default[cpu]: Invalid value: \"2\": min value 2 is greater than default value 1"
        );
        assert_eq!(
            said(Kind::ResourceQuota, &json!({"spec": {"hard": {"pods": "1500m", "cpu": "-1"}}})),
            "spec.hard[cpu]: Invalid value: \"-1\": must be greater than or equal to 0\n\
             spec.hard[pods]: Invalid value: \"1500m\": must be an integer"
        );
        assert_eq!(
            said(Kind::Lease, &json!({"spec": {"leaseDurationSeconds": 0}})),
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"
        );
    }
}
