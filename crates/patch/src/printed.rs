//! Prints values in the notation that Kubernetes' own error texts use for them.

use serde_json::Value;

/// Longer texts are cut: an error message is no place for a whole object.
const MAX_PRINTED: usize = 500;

/// A value as Go's `%v` shows it, `map[name:web ports:[80 443]]`, but for numbers, which are
/// never written with an exponent. At most so many bytes; what is cut ends in `...`.
pub fn printed(value: &Value, at_most: usize) -> String {
    let mut text = String::new();
    write_value(&mut text, value, at_most);
    if text.len() > at_most {
        let cut = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= at_most).last();
        text.truncate(cut.unwrap_or_default());
        text.push_str("...");
    }
    text
}

/// A value as error messages show it.
pub(crate) fn short(value: &Value) -> String {
    printed(value, MAX_PRINTED)
}

fn write_value(text: &mut String, value: &Value, at_most: usize) {
    if text.len() > at_most {
        return;
    }
    match value {
        Value::Null => text.push_str("<nil>"),
        Value::String(s) => text.push_str(s),
        Value::Array(list) => {
            text.push('[');
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    text.push(' ');
                }
                write_value(text, item, at_most);
            }
            text.push(']');
        }
        Value::Object(map) => {
            text.push_str("map[");
            for (i, (key, item)) in map.iter().enumerate() {
                if i > 0 {
                    text.push(' ');
                }
                text.push_str(key);
                text.push(':');
                write_value(text, item, at_most);
            }
            text.push(']');
        }
        Value::Bool(truth) => text.push_str(if *truth { "true" } else { "false" }),
        Value::Number(number) => match number.as_f64() {
            // As a fraction it would end in `.0` even where it is none.
            Some(fraction) if number.is_f64() => text.push_str(&fraction.to_string()),
            _ => text.push_str(&number.to_string()),
        },
    }
}

/// The Go type a value decodes to, as error texts name it.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_print_as_go_prints_them() {
        let value = json!({"ports": [80, 443], "name": "web", "on": true, "none": null});
        assert_eq!(short(&value), "map[name:web none:<nil> on:true ports:[80 443]]");
    }

    #[test]
    fn long_values_are_cut() {
        let text = short(&json!({"a": "ä".repeat(5000)}));
        assert!(text.len() < 510 && text.ends_with("..."));
    }
}
