//! Checks that many kinds share, each with Kubernetes' sentence for it.

use std::collections::BTreeSet;

use flagship_base::names;
use flagship_base::quantity::Quantity;
use flagship_base::selector::Selector;
use serde_json::Value;

use super::super::json::{Field, same};
use super::{Findings, meta};

pub(super) const NOT_NEGATIVE: &str = "must be greater than or equal to 0";
pub(super) const POSITIVE: &str = "must be greater than 0";
pub(super) const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";
pub(super) const IMMUTABLE: &str = "field is immutable";
const PERCENT: &str = "a valid percent string must be a numeric followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// The number is not negative.
pub(super) fn not_negative(field: &Field<'_>, out: &mut Findings) {
    if field.int().is_some_and(|number| number < 0) {
        out.push(field.invalid(NOT_NEGATIVE));
    }
}

/// The text is there.
pub(super) fn required(field: &Field<'_>, out: &mut Findings) {
    if field.is_empty() {
        out.push(field.required(""));
    }
}

/// The text is there and one of these.
pub(super) fn one_of(field: &Field<'_>, allowed: &[&str], out: &mut Findings) {
    if field.is_empty() {
        out.push(field.required(""));
    } else {
        any_of(field, allowed, out);
    }
}

/// The text is one of these, if it is there.
pub(super) fn any_of(field: &Field<'_>, allowed: &[&str], out: &mut Findings) {
    if field.is_set() && !allowed.contains(&field.text()) {
        out.push(field.not_supported(allowed));
    }
}

/// All complaints of a name rule about the text.
pub(super) fn named(field: &Field<'_>, rule: fn(&str) -> Vec<String>, out: &mut Findings) {
    out.extend(rule(field.text()).into_iter().map(|says| field.invalid(says)));
}

/// The text is there and follows a name rule.
pub(super) fn required_name(field: &Field<'_>, rule: fn(&str) -> Vec<String>, out: &mut Findings) {
    if field.text().is_empty() {
        out.push(field.required(""));
    } else {
        named(field, rule, out);
    }
}

/// The value did not change.
pub(super) fn immutable(new: &Field<'_>, old: &Field<'_>, out: &mut Findings) {
    if !same(new.value(), old.value()) {
        out.push(new.invalid(IMMUTABLE));
    }
}

/// A port number.
pub(super) fn port_number(field: &Field<'_>, out: &mut Findings) {
    if field.int().is_none_or(|port| !(1..=65535).contains(&port)) && !field.value().is_string() {
        out.push(field.invalid(PORT_RANGE));
    }
}

/// A port number, or the name of a port.
pub(super) fn port_number_or_name(field: &Field<'_>, out: &mut Findings) {
    match field.value() {
        Value::String(_) => named(field, port_name, out),
        Value::Number(_) => port_number(field, out),
        _ => out.push(field.invalid_as(0, PORT_RANGE)),
    }
}

/// Complaints about the name of a port.
pub(super) fn port_name(name: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if name.len() > 15 {
        complaints.push("must be no more than 15 bytes".to_owned());
    }
    if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        let says = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
        complaints.push(says.to_owned());
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        complaints.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        complaints.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        complaints.push("must not begin or end with a hyphen".to_owned());
    }
    complaints
}

/// Complaints about a key of a config map or secret.
pub(super) fn config_key(key: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if key.len() > 253 {
        complaints.push("must be no more than 253 bytes".to_owned());
    }
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if key.is_empty() || !key.bytes().all(fits) {
        complaints.push(CONFIG_KEY.to_owned());
    }
    match key {
        "." => complaints.push("must not be '.'".to_owned()),
        ".." => complaints.push("must not be '..'".to_owned()),
        _ if key.starts_with("..") => complaints.push("must not start with '..'".to_owned()),
        _ => {}
    }
    complaints
}

/// A number that is not negative, or a percentage. The second bound is for those that
/// count parts of a whole.
pub(super) fn int_or_percent(field: &Field<'_>, at_most_all: bool, out: &mut Findings) {
    match field.value() {
        Value::String(text) => match percent(text) {
            None => out.push(field.invalid(PERCENT)),
            Some(number) if at_most_all && number > 100 => {
                out.push(field.invalid("must not be greater than 100%"));
            }
            Some(_) => {}
        },
        Value::Number(_) => not_negative(field, out),
        _ => {}
    }
}

fn percent(text: &str) -> Option<u64> {
    let digits = text.strip_suffix('%')?;
    let all_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    all_digits.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Whether an amount of either notation is nothing.
pub(super) fn is_zero(field: &Field<'_>) -> bool {
    match field.value() {
        Value::String(text) => percent(text) == Some(0),
        other => other.as_i64().unwrap_or(0) == 0,
    }
}

/// A label selector.
pub(super) fn selector(selector: &Field<'_>, out: &mut Findings) {
    meta::labels(&selector.get("matchLabels"), out);
    let expressions = selector.get("matchExpressions");
    for expression in expressions.items() {
        let values = expression.get("values");
        let operator = expression.get("operator");
        if !operator_values(operator.text(), &values, out) {
            out.push(operator.invalid("not a valid selector operator"));
        }
        named(&expression.get("key"), names::qualified_name, out);
        values.items().for_each(|value| named(&value, names::label_value, out));
    }
}

/// Whether the operator is one of the four all selectors know; checks its values.
pub(super) fn operator_values(operator: &str, values: &Field<'_>, out: &mut Findings) -> bool {
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let says = "must be specified when `operator` is 'In' or 'NotIn'";
            out.push(values.required(says));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let says = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            out.push(values.forbidden(says));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => return false,
    }
    true
}

/// Whether a selector names nothing.
pub(super) fn selects_nothing(selector: &Field<'_>) -> bool {
    selector.get("matchLabels").is_empty() && selector.get("matchExpressions").is_empty()
}

/// Whether a selector matches a map of labels; a broken one is reported elsewhere.
pub(super) fn selects(selector: &Value, labels: &Value) -> bool {
    Selector::from_value(selector)
        .map_or(true, |selector| selector.matches_what(|key| labels.get(key)?.as_str()))
}

/// A quantity that parses; `None`, and a finding, when it does not.
pub(super) fn quantity(field: &Field<'_>, out: &mut Findings) -> Option<Quantity> {
    let text = match field.value() {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    match Quantity::bounded(&text) {
        Ok(quantity) => Some(quantity),
        Err(error) => {
            out.push(field.invalid(error.to_string()));
            None
        }
    }
}

/// A quantity that parses and is not negative.
pub(super) fn amount(field: &Field<'_>, out: &mut Findings) -> Option<Quantity> {
    let found = quantity(field, out)?;
    if found.is_negative() {
        out.push(field.invalid(NOT_NEGATIVE));
    }
    Some(found)
}

/// An address of either family.
pub(super) fn ip(field: &Field<'_>, out: &mut Findings) {
    if field.text().parse::<std::net::IpAddr>().is_err() {
        out.push(field.invalid("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"));
    }
}

/// Reports every item that stands in the list a second time.
pub(super) fn unique<'a>(fields: impl Iterator<Item = Field<'a>>, out: &mut Findings) {
    let mut seen = BTreeSet::new();
    for field in fields.filter(|field| !field.is_empty()) {
        if !seen.insert(field.value().to_string()) {
            out.push(field.duplicate());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(check: impl Fn(&Field<'_>, &mut Findings), value: &Value) -> Vec<String> {
        let mut out = Findings::default();
        check(&Field::root(value).get("f"), &mut out);
        out.kept.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn amounts_are_numbers_or_percentages() {
        let check = |field: &Field<'_>, out: &mut Findings| int_or_percent(field, true, out);
        assert!(said(check, &json!({"f": 3})).is_empty());
        assert!(said(check, &json!({"f": "25%"})).is_empty());
        assert_eq!(
            said(check, &json!({"f": "101%"})),
            ["f: Invalid value: \"101%\": must not be greater than 100%"]
        );
        assert_eq!(
            said(check, &json!({"f": -1})),
            ["f: Invalid value: -1: must be greater than or equal to 0"]
        );
        assert_eq!(
            said(check, &json!({"f": "x"})),
            [format!("f: Invalid value: \"x\": {PERCENT}")]
        );
    }

    #[test]
    fn selectors_are_checked_expression_by_expression() {
        let value = json!({"f": {"matchExpressions": [
            {"key": "a", "operator": "In"},
            {"key": "a", "operator": "Exists", "values": ["b"]},
            {"key": "a", "operator": "Like"},
        ]}});
        assert_eq!(
            said(selector, &value),
            [
                "f.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "f.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                "f.matchExpressions[2].operator: Invalid value: \"Like\": not a valid selector operator",
            ]
        );
    }

    #[test]
    fn quantities_are_refused_in_kubernetes_words() {
        let check = |field: &Field<'_>, out: &mut Findings| {
            amount(field, out);
        };
        assert_eq!(
            said(check, &json!({"f": "-1"})),
            ["f: Invalid value: \"-1\": must be greater than or equal to 0"]
        );
        assert_eq!(
            said(check, &json!({"f": "1Gb"})),
            [
                "f: Invalid value: \"1Gb\": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            ]
        );
    }
}
