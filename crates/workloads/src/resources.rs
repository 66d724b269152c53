//! Amounts of cpu, memory and other resources: what pods ask for and nodes have.
//!
//! Everything is counted in thousandths, so that `100m` cpu is a whole number.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::object::Fields;

/// Resource name to amount in thousandths.
pub type Amounts = BTreeMap<String, i128>;

/// Reads a quantity into thousandths; fractions of a thousandth round up.
pub fn milli(quantity: &Value) -> Option<i128> {
    match quantity {
        Value::Number(n) => match n.as_i64() {
            Some(whole) => Some(i128::from(whole) * 1000),
            None => parse(&n.to_string()),
        },
        Value::String(text) => parse(text),
        _ => None,
    }
}

fn parse(text: &str) -> Option<i128> {
    let split = text
        .char_indices()
        .find(|(at, c)| {
            let sign = *at == 0 && matches!(c, '+' | '-');
            !(c.is_ascii_digit() || *c == '.' || sign)
        })
        .map_or(text.len(), |(at, _)| at);
    let (number, suffix) = text.split_at(split);
    // As (numerator, denominator) of one unit, in thousandths.
    let (times, over): (i128, i128) = match suffix {
        "n" => (1, 1_000_000),
        "u" => (1, 1_000),
        "m" => (1, 1),
        "" => (1_000, 1),
        "k" => (1_000_000, 1),
        "M" => (1_000_000_000, 1),
        "G" => (1_000_000_000_000, 1),
        "T" => (1_000_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000_000, 1),
        "Ki" => (1_000 << 10, 1),
        "Mi" => (1_000 << 20, 1),
        "Gi" => (1_000 << 30, 1),
        "Ti" => (1_000 << 40, 1),
        "Pi" => (1_000 << 50, 1),
        "Ei" => (1_000 << 60, 1),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            match u32::try_from(power) {
                Ok(up) if up <= 18 => (1_000 * 10_i128.pow(up), 1),
                Ok(_) => return None,
                Err(_) if power >= -12 => (1_000, 10_i128.pow(power.unsigned_abs())),
                Err(_) => return None,
            }
        }
    };
    let (negative, digits) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + fraction.len() == 0 || whole.len() + fraction.len() > 18 {
        return None;
    }
    let all: i128 = format!("{whole}{fraction}").parse().ok()?;
    let denominator = over.checked_mul(10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?)?;
    let scaled = all.checked_mul(times)?;
    let rounded = scaled / denominator + i128::from(scaled % denominator != 0);
    Some(if negative { -rounded } else { rounded })
}

/// What a pod asks of its node: containers and sidecars together, or its hungriest
/// init container if that is more, plus overhead.
pub fn requests(pod: &Value) -> Amounts {
    let mut total = Amounts::new();
    let mut peak = Amounts::new();
    let mut sidecars = Amounts::new();
    for container in pod.list("/spec/initContainers") {
        let own = amounts(container.at("/resources/requests"));
        if container.text("/restartPolicy") == "Always" {
            add(&mut sidecars, &own);
            raise(&mut peak, &sidecars);
        } else {
            let mut with = sidecars.clone();
            add(&mut with, &own);
            raise(&mut peak, &with);
        }
    }
    for container in pod.list("/spec/containers") {
        add(&mut total, &amounts(container.at("/resources/requests")));
    }
    add(&mut total, &sidecars);
    raise(&mut total, &peak);
    add(&mut total, &amounts(pod.at("/spec/overhead")));
    total
}

/// A `ResourceList` as amounts. Unreadable quantities count as nothing.
pub fn amounts(list: &Value) -> Amounts {
    let Some(map) = list.as_object() else { return Amounts::new() };
    map.iter().filter_map(|(name, quantity)| Some((name.clone(), milli(quantity)?))).collect()
}

/// Adds `more` to `total`.
pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = total.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise(total: &mut Amounts, least: &Amounts) {
    for (name, amount) in least {
        let known = total.entry(name.clone()).or_default();
        *known = (*known).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quantities_read_in_every_notation() {
        for (text, expected) in [
            ("1", Some(1_000)),
            ("100m", Some(100)),
            ("1.5", Some(1_500)),
            ("1Ki", Some(1_024_000)),
            ("128Mi", Some(134_217_728_000)),
            ("2k", Some(2_000_000)),
            ("1e3", Some(1_000_000)),
            ("1E-3", Some(1)),
            ("10n", Some(1)),
            ("-2", Some(-2_000)),
            ("", None),
            ("x", None),
            ("1.2.3", None),
            ("1Q", None),
            ("1e99", None),
        ] {
            assert_eq!(milli(&json!(text)), expected, "{text}");
        }
        assert_eq!(milli(&json!(2)), Some(2_000));
        assert_eq!(milli(&json!(0.5)), Some(500));
    }

    #[test]
    fn a_pod_asks_for_its_hungriest_moment() {
        let pod = json!({"spec": {
            "initContainers": [{"resources": {"requests": {"cpu": "3"}}}],
            "containers": [
                {"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
                {"resources": {"requests": {"cpu": "500m"}}},
            ],
        }});
        let asked = requests(&pod);
        assert_eq!(asked["cpu"], 3_000);
        assert_eq!(asked["memory"], 1_073_741_824_000);
    }
}
