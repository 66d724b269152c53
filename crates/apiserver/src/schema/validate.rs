//! Checks an object against a structural schema, in Kubernetes' words.
//!
//! What `anyOf` and `oneOf` report is the branch that came closest, measured by how
//! many checks it passed; so every check counts its passes and returns them.
//!
//! On update, a finding inside a part that did not change is dropped: an object stored
//! under an older schema can still be edited elsewhere ("ratcheting"). List
//! uniqueness lives in `lists`, embedded objects in `embedded`, rules in `cel`.

use serde_json::Value;

use super::MAX_VALUE_DEPTH;
use super::format::Format;
use super::lists::{counterpart, is_unchanged};
use super::node::{Checks, NodeRef, Type};
use super::path::Path;
use crate::machinery::status::{FieldError, FieldProblem};

/// After this many findings the rest is not looked for.
const MAX_FINDINGS: usize = 200;

/// Every finding about `value`; `path` is where it stands in the object, while the texts
/// call its own root nothing, as Kubernetes does.
pub(super) fn structure(
    value: &Value,
    old: Option<&Value>,
    node: NodeRef<'_>,
    prefix: &Path<'_>,
) -> Vec<FieldError> {
    let mut report = Report { prefix: prefix.text(), findings: Vec::new() };
    report.ratchet(value, old, node, &Path::Root, 0);
    report.findings
}

struct Report {
    prefix: String,
    findings: Vec<FieldError>,
}

impl Report {
    /// Checks, then forgets findings about what did not change.
    fn ratchet(
        &mut self,
        value: &Value,
        old: Option<&Value>,
        node: NodeRef<'_>,
        path: &Path<'_>,
        depth: usize,
    ) -> u32 {
        let before = self.findings.len();
        let passed = self.check(value, old, node, path, depth);
        if self.findings.len() > before && old.is_some_and(|old| is_unchanged(value, old, node)) {
            self.findings.truncate(before);
        }
        passed
    }

    fn check(
        &mut self,
        value: &Value,
        old: Option<&Value>,
        node: NodeRef<'_>,
        path: &Path<'_>,
        depth: usize,
    ) -> u32 {
        if depth > MAX_VALUE_DEPTH {
            self.composite("object nests too deeply".to_owned());
            return 0;
        }
        if self.findings.len() > MAX_FINDINGS {
            return 0;
        }
        let n = node.node();
        let format = Format::named(&n.format);
        let checks = n.checks.as_deref();
        let mut passed = 0;
        if n.kind != Type::Any || n.int_or_string || format.is_some() {
            passed += self.check_type(value, node, format.is_some(), path);
            passed += u32::from(!value.is_null());
        }
        if value.is_null() {
            checks.iter().for_each(|checks| self.check_enum(value, checks, path));
            return passed;
        }
        // One each for being here, for having branches checked, and for the enum.
        passed += 4;
        if let Some(checks) = checks {
            passed += self.check_branches(value, node, checks, path, depth);
        }
        match value {
            Value::String(text) => {
                checks.iter().for_each(|checks| self.check_text(text, checks, path));
                self.check_format(value, node, format, path);
                passed += 1 + u32::from(format.is_some());
            }
            Value::Number(number) => {
                checks.iter().for_each(|checks| self.check_number(number, checks, path));
                passed += 2;
            }
            _ => {}
        }
        passed += self.descend(value, old, node, checks, path, depth);
        checks.iter().for_each(|checks| self.check_enum(value, checks, path));
        passed
    }

    fn check_type(
        &mut self,
        value: &Value,
        node: NodeRef<'_>,
        format: bool,
        path: &Path<'_>,
    ) -> u32 {
        let n = node.node();
        let wanted = if n.int_or_string { "integer,string" } else { type_name(n.kind) };
        let (found, go_format, fits) = match value {
            Value::Null if n.nullable || wanted.is_empty() => return 1,
            Value::Null => ("null", "", false),
            Value::Bool(_) => ("boolean", "", n.kind == Type::Boolean),
            Value::String(_) => ("string", "", n.kind == Type::String || n.int_or_string),
            Value::Array(_) => ("array", "", n.kind == Type::Array),
            Value::Object(_) => ("object", "", n.kind == Type::Object),
            Value::Number(number) => {
                let whole = number.as_i64().is_some() || number.as_f64().is_some_and(is_whole);
                let fits = match n.kind {
                    Type::Number => true,
                    Type::Integer => whole,
                    _ => n.int_or_string && whole,
                };
                let (name, format) = if number.as_i64().is_some() {
                    ("integer", "int64")
                } else {
                    ("number", "float64")
                };
                (name, format, fits)
            }
        };
        if fits || (format && matches!(value, Value::String(_) | Value::Array(_))) {
            return 1;
        }
        // A typed format is told by its name when a scalar of another type stands there.
        let (wanted, found) =
            if format && !value.is_null() { (&*n.format, go_format) } else { (wanted, found) };
        let detail = format!("{} in body must be of type {wanted}: {found:?}", path.text());
        self.add(FieldProblem::TypeInvalid, path, Some(found.into()), detail);
        0
    }

    fn check_format(
        &mut self,
        value: &Value,
        node: NodeRef<'_>,
        format: Option<Format>,
        path: &Path<'_>,
    ) {
        if let (Value::String(text), Some(format)) = (value, format)
            && !format.accepts(text)
        {
            let name = &node.node().format;
            let detail = format!("{} in body must be of type {name}: {text:?}", path.text());
            self.add(FieldProblem::TypeInvalid, path, Some(value.clone()), detail);
        }
    }

    fn check_text(&mut self, text: &str, checks: &Checks, path: &Path<'_>) {
        // Only the first of these is told.
        let length = || text.chars().count() as u64;
        if let Some(max) = checks.length.max
            && text.len() as u64 > max
            && length() > max
        {
            let mut error = FieldError::too_long(self.full(path), max as usize);
            if max == 1 {
                error.detail = "may not be more than 1 byte".to_owned();
            }
            self.findings.push(error);
        } else if let Some(min) = checks.length.min
            && length() < min
        {
            let detail = format!("{} in body should be at least {min} chars long", path.text());
            self.add(FieldProblem::Invalid, path, Some(text.into()), detail);
        } else if let Some(pattern) = &checks.pattern
            && pattern.regex.as_ref().is_none_or(|r| !r.is_match(text))
        {
            let detail = format!("{} in body should match '{}'", path.text(), pattern.text);
            self.add(FieldProblem::Invalid, path, Some(text.into()), detail);
        }
    }

    fn check_number(&mut self, number: &serde_json::Number, checks: &Checks, path: &Path<'_>) {
        let Some(value) = number.as_f64() else { return };
        let whole = number.as_i64().is_some();
        let shown = |limit: f64| if whole { format!("{}", limit as i64) } else { go_float(limit) };
        let mut wrong = |says: String| {
            let detail = format!("{} in body should be {says}", path.text());
            self.add(FieldProblem::Invalid, path, Some(Value::Number(number.clone())), detail);
        };
        if let Some(factor) = checks.multiple_of {
            let times = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
            if !is_whole(times) {
                wrong(format!("a multiple of {}", shown(factor)));
            }
        }
        // Whole numbers meet whole limits, whatever the schema says.
        let limit = |limit: f64| if whole { limit.trunc() } else { limit };
        if let Some(min) = checks.minimum
            && (value < limit(min.value) || min.exclusive && value <= limit(min.value))
        {
            let or_equal = if min.exclusive { "" } else { " or equal to" };
            wrong(format!("greater than{or_equal} {}", shown(min.value)));
        }
        if let Some(max) = checks.maximum
            && (value > limit(max.value) || max.exclusive && value >= limit(max.value))
        {
            let or_equal = if max.exclusive { "" } else { " or equal to" };
            wrong(format!("less than{or_equal} {}", shown(max.value)));
        }
    }

    fn check_enum(&mut self, value: &Value, checks: &Checks, path: &Path<'_>) {
        let Some(allowed) = checks.one_of_values.as_deref() else { return };
        if allowed.is_empty() || allowed.iter().any(|a| same(a, value)) {
            return;
        }
        let names: Vec<String> = allowed
            .iter()
            .map(|a| a.as_str().map_or_else(|| a.to_string(), str::to_owned))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.findings.push(FieldError::not_supported(self.full(path), value.clone(), &names));
    }

    /// Fields and elements, then their number.
    fn descend(
        &mut self,
        value: &Value,
        old: Option<&Value>,
        node: NodeRef<'_>,
        checks: Option<&Checks>,
        path: &Path<'_>,
        depth: usize,
    ) -> u32 {
        let mut passed = 0;
        match value {
            Value::Array(list) => {
                passed += 2;
                if let Some(items) = node.items() {
                    for (at, value) in list.iter().enumerate() {
                        let old = counterpart(value, old, node);
                        passed +=
                            self.ratchet(value, old, items, &Path::Index(path, at), depth + 1);
                    }
                }
                if let Some(checks) = checks {
                    self.count_items(list, checks, path);
                }
            }
            Value::Object(map) => {
                passed += 1;
                if let Some(checks) = checks {
                    self.count_properties(map, node, checks, path);
                }
                for (key, value) in map {
                    let Some(field) = node.field(key) else { continue };
                    // Old and new were converted to one version, so a change of these is unseen.
                    let type_meta = path.is_root() && (key == "apiVersion" || key == "kind");
                    let old = old.and_then(|o| o.get(key)).filter(|_| !type_meta);
                    passed += self.ratchet(value, old, field, &Path::Field(path, key), depth + 1);
                }
                for name in checks.into_iter().flat_map(|c| &c.required) {
                    if !map.contains_key(&**name) {
                        self.add(
                            FieldProblem::Required,
                            &Path::Field(path, name),
                            None,
                            String::new(),
                        );
                    }
                }
            }
            _ => {}
        }
        passed
    }

    fn count_items(&mut self, list: &[Value], checks: &Checks, path: &Path<'_>) {
        let size = list.len() as u64;
        if let Some(min) = checks.items.min.filter(|min| size < *min) {
            let detail = format!("{} in body should have at least {min} items", path.text());
            self.add(FieldProblem::Invalid, path, Some(size.into()), detail);
        }
        if let Some(max) = checks.items.max.filter(|max| size > *max) {
            self.too_many(path, size, max);
        }
        if checks.unique_items {
            let mut seen: Vec<String> = list.iter().map(Value::to_string).collect();
            seen.sort_unstable();
            if seen.windows(2).any(|pair| pair[0] == pair[1]) {
                let detail = format!("{} in body shouldn't contain duplicates", path.text());
                self.add(FieldProblem::Invalid, path, Some("".into()), detail);
            }
        }
    }

    fn count_properties(
        &mut self,
        map: &serde_json::Map<String, Value>,
        node: NodeRef<'_>,
        checks: &Checks,
        path: &Path<'_>,
    ) {
        let size = map.len() as u64;
        if let Some(min) = checks.properties.min.filter(|min| size < *min) {
            let detail = format!("{} in body should have at least {min} properties", path.text());
            self.add(FieldProblem::Invalid, path, Some(size.into()), detail);
        }
        if let Some(max) = checks.properties.max.filter(|max| size > *max) {
            self.too_many(path, size, max);
        }
        if checks.closed {
            for key in map.keys().filter(|key| !node.has_property(key)) {
                let detail = format!("{}.{key} in body is a forbidden property", path.text());
                self.add(FieldProblem::Invalid, path, Some(key.as_str().into()), detail);
            }
        }
    }

    fn check_branches(
        &mut self,
        value: &Value,
        node: NodeRef<'_>,
        checks: &Checks,
        path: &Path<'_>,
        depth: usize,
    ) -> u32 {
        if checks.any_of.is_empty()
            && checks.one_of.is_empty()
            && checks.all_of.is_empty()
            && checks.not.is_none()
        {
            return 0;
        }
        let mut passed = 0;
        let place = path.text();
        if !checks.any_of.is_empty() {
            let (valid, best, count) =
                self.try_branches(&checks.any_of, value, node, path, depth, true);
            if valid == 0 {
                self.composite(format!("{place:?} must validate at least one schema (anyOf)"));
            }
            best.into_iter().for_each(|error| self.push(error));
            passed += count;
        }
        if !checks.one_of.is_empty() {
            let (valid, best, count) =
                self.try_branches(&checks.one_of, value, node, path, depth, false);
            if valid != 1 {
                let found = match valid {
                    0 => "Found none valid".to_owned(),
                    n => format!("Found {n} valid alternatives"),
                };
                self.composite(format!(
                    "{place:?} must validate one and only one schema (oneOf). {found}"
                ));
            }
            best.into_iter().for_each(|error| self.push(error));
            passed += count;
        }
        let mut valid = 0;
        for branch in &checks.all_of {
            let (count, found) = self.apart(value, node.sibling(*branch), path, depth);
            passed += count;
            valid += usize::from(found.is_empty());
            found.into_iter().for_each(|error| self.push(error));
        }
        if valid < checks.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            self.composite(format!("{place:?} must validate all the schemas (allOf){none}"));
        }
        if let Some(not) = checks.not {
            let (_, found) = self.apart(value, node.sibling(not), path, depth);
            if found.is_empty() {
                self.composite(format!("{place:?} must not validate the schema (not)"));
            }
        }
        passed
    }

    /// How many branches hold, and the findings and passes of the closest one when none does.
    fn try_branches(
        &mut self,
        branches: &[super::node::NodeId],
        value: &Value,
        node: NodeRef<'_>,
        path: &Path<'_>,
        depth: usize,
        stop_at_first: bool,
    ) -> (usize, Vec<FieldError>, u32) {
        let mut valid = 0;
        let mut first_valid = 0;
        let mut best: Option<(u32, Vec<FieldError>)> = None;
        for branch in branches {
            let (passed, findings) = self.apart(value, node.sibling(*branch), path, depth);
            if findings.is_empty() {
                if valid == 0 {
                    first_valid = passed;
                }
                valid += 1;
                if stop_at_first {
                    break;
                }
            } else if best.as_ref().is_none_or(|(most, _)| passed > *most) {
                best = Some((passed, findings));
            }
        }
        match best {
            Some((passed, findings)) if valid == 0 => (0, findings, passed),
            _ => (valid, Vec::new(), first_valid),
        }
    }

    /// Checks one branch with findings of its own, so that none hides behind an equal one.
    fn apart(
        &mut self,
        value: &Value,
        branch: NodeRef<'_>,
        path: &Path<'_>,
        depth: usize,
    ) -> (u32, Vec<FieldError>) {
        let outer = std::mem::take(&mut self.findings);
        let passed = self.check(value, None, branch, path, depth + 1);
        (passed, std::mem::replace(&mut self.findings, outer))
    }

    fn too_many(&mut self, path: &Path<'_>, size: u64, max: u64) {
        let s = if max == 1 { "" } else { "s" };
        let detail = format!("must have at most {max} item{s}");
        self.add(FieldProblem::TooMany, path, Some(size.into()), detail);
    }

    /// A finding of several schemas together; Kubernetes has no path for it.
    fn composite(&mut self, detail: String) {
        let path = if self.prefix.is_empty() { "<nil>" } else { &*self.prefix };
        let error = FieldError::invalid(path, "".into(), detail);
        self.push(error);
    }

    fn add(
        &mut self,
        problem: FieldProblem,
        path: &Path<'_>,
        value: Option<Value>,
        detail: String,
    ) {
        let error = FieldError { problem, path: self.full(path), value, detail };
        self.push(error);
    }

    /// The same finding twice, from two branches, is told once.
    fn push(&mut self, error: FieldError) {
        if !self.findings.contains(&error) {
            self.findings.push(error);
        }
    }

    fn full(&self, path: &Path<'_>) -> String {
        match (self.prefix.is_empty(), path.is_root()) {
            (true, _) => path.to_string(),
            (false, true) => self.prefix.clone(),
            (false, false) => format!("{}.{path}", self.prefix),
        }
    }
}

/// The `type` keyword of a node.
pub(super) fn type_name(kind: Type) -> &'static str {
    match kind {
        Type::Any => "",
        Type::Object => "object",
        Type::Array => "array",
        Type::String => "string",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
    }
}

/// Equal as JSON, whether written `1` or `1.0`.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

fn is_whole(number: f64) -> bool {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    number.is_finite() && number.abs() <= EXACT && (number - number.round()).abs() < 1e-9
}

/// Go prints floats with an exponent from 1e+06 on, and below 0.0001.
fn go_float(number: f64) -> String {
    let exponent = if number == 0.0 { 0.0 } else { number.abs().log10().floor() };
    if (-4.0..6.0).contains(&exponent) {
        return format!("{number}");
    }
    let text = format!("{number:e}");
    let Some((digits, power)) = text.split_once('e') else { return text };
    let (sign, power) = power.strip_prefix('-').map_or(("+", power), |p| ("-", p));
    format!("{digits}e{sign}{power:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;
    use serde_json::json;

    fn findings(schema: &Value, value: &Value) -> Vec<String> {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object", "properties": {"x": schema}}}});
        let schema = Schema::from_openapi(&schema).unwrap();
        let object = json!({"spec": {"x": value}});
        structure(&object, None, schema.root(), &Path::Root)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn every_keyword_complains_in_kubernetes_words() {
        let cases = [
            (
                json!({"type": "integer"}),
                json!("a"),
                r#"spec.x: Invalid value: "string": spec.x in body must be of type integer: "string""#,
            ),
            (
                json!({"type": "integer"}),
                json!(1.5),
                r#"spec.x: Invalid value: "number": spec.x in body must be of type integer: "number""#,
            ),
            (
                json!({"type": "string"}),
                json!(null),
                r#"spec.x: Invalid value: "null": spec.x in body must be of type string: "null""#,
            ),
            (
                json!({"type": "string"}),
                json!({}),
                r#"spec.x: Invalid value: "object": spec.x in body must be of type string: "object""#,
            ),
            (
                json!({"type": "array", "items": {"type": "string"}}),
                json!([1]),
                r#"spec.x[0]: Invalid value: "integer": spec.x[0] in body must be of type string: "integer""#,
            ),
            (
                json!({"type": "object", "additionalProperties": {"type": "string"}}),
                json!({"k": 1}),
                r#"spec.x.k: Invalid value: "integer": spec.x.k in body must be of type string: "integer""#,
            ),
            (
                json!({"type": "string", "pattern": "^[a-z0-9]+$"}),
                json!("A"),
                r#"spec.x: Invalid value: "A": spec.x in body should match '^[a-z0-9]+$'"#,
            ),
            (
                json!({"type": "string", "maxLength": 3}),
                json!("abcd"),
                "spec.x: Too long: may not be more than 3 bytes",
            ),
            (
                json!({"type": "string", "maxLength": 1}),
                json!("ab"),
                "spec.x: Too long: may not be more than 1 byte",
            ),
            (
                json!({"type": "string", "minLength": 1}),
                json!(""),
                r#"spec.x: Invalid value: "": spec.x in body should be at least 1 chars long"#,
            ),
            (
                json!({"type": "string", "enum": ["A", "B"]}),
                json!("X"),
                r#"spec.x: Unsupported value: "X": supported values: "A", "B""#,
            ),
            (
                json!({"type": "integer", "enum": [1, 2]}),
                json!(3),
                r#"spec.x: Unsupported value: 3: supported values: "1", "2""#,
            ),
            (
                json!({"type": "integer", "minimum": 1}),
                json!(0),
                "spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1",
            ),
            (
                json!({"type": "integer", "minimum": 1, "exclusiveMinimum": true}),
                json!(1),
                "spec.x: Invalid value: 1: spec.x in body should be greater than 1",
            ),
            (
                json!({"type": "integer", "maximum": 100}),
                json!(101),
                "spec.x: Invalid value: 101: spec.x in body should be less than or equal to 100",
            ),
            (
                json!({"type": "number", "maximum": 1.5, "exclusiveMaximum": true}),
                json!(1.5),
                "spec.x: Invalid value: 1.5: spec.x in body should be less than 1.5",
            ),
            (
                json!({"type": "integer", "multipleOf": 5}),
                json!(7),
                "spec.x: Invalid value: 7: spec.x in body should be a multiple of 5",
            ),
            (
                json!({"type": "array", "maxItems": 1, "items": {"type": "integer"}}),
                json!([1, 2]),
                "spec.x: Too many: 2: must have at most 1 item",
            ),
            (
                json!({"type": "array", "maxItems": 2, "items": {"type": "integer"}}),
                json!([1, 2, 3]),
                "spec.x: Too many: 3: must have at most 2 items",
            ),
            (
                json!({"type": "array", "minItems": 1, "items": {"type": "integer"}}),
                json!([]),
                "spec.x: Invalid value: 0: spec.x in body should have at least 1 items",
            ),
            (
                json!({"type": "object", "minProperties": 1}),
                json!({}),
                "spec.x: Invalid value: 0: spec.x in body should have at least 1 properties",
            ),
            (
                json!({"type": "object", "maxProperties": 0}),
                json!({"a": 1}),
                "spec.x: Too many: 1: must have at most 0 items",
            ),
            (json!({"type": "object", "required": ["a"]}), json!({}), "spec.x.a: Required value"),
            (
                json!({"type": "string", "format": "date-time"}),
                json!("x"),
                r#"spec.x: Invalid value: "x": spec.x in body must be of type date-time: "x""#,
            ),
            (
                json!({"type": "string", "format": "date-time"}),
                json!(5),
                r#"spec.x: Invalid value: "int64": spec.x in body must be of type date-time: "int64""#,
            ),
            (
                json!({"type": "object", "additionalProperties": false}),
                json!({"k": 1}),
                r#"spec.x: Invalid value: "k": spec.x.k in body is a forbidden property"#,
            ),
            (
                json!({"type": "string", "not": {"enum": ["a"]}}),
                json!("a"),
                r#"<nil>: Invalid value: "": "spec.x" must not validate the schema (not)"#,
            ),
        ];
        for (schema, value, expected) in cases {
            assert_eq!(findings(&schema, &value), [expected], "{schema} {value}");
        }
    }

    #[test]
    fn values_within_the_rules_pass() {
        for (schema, value) in [
            (json!({"type": "integer"}), json!(1.0)),
            (json!({"type": "integer", "format": "int32"}), json!(5_000_000_000_i64)),
            (json!({"type": "number"}), json!(1)),
            (json!({"type": "string", "nullable": true}), json!(null)),
            (json!({"type": "string", "maxLength": 2}), json!("äö")),
            (json!({"x-kubernetes-int-or-string": true}), json!("50%")),
            (json!({"x-kubernetes-int-or-string": true}), json!(5)),
            (json!({"x-kubernetes-preserve-unknown-fields": true}), json!([{"a": 1}])),
            (json!({"type": "string", "format": "no-such-format"}), json!("x")),
        ] {
            assert_eq!(findings(&schema, &value), [""; 0], "{schema} {value}");
        }
    }

    #[test]
    fn an_int_or_string_is_neither_bool_nor_fraction() {
        let schema = json!({
            "x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": "^(100|[1-9][0-9]?)%$",
        });
        assert_eq!(
            findings(&schema, &json!(true)),
            [
                r#"spec.x: Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean""#,
                r#"<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)"#,
                r#"spec.x: Invalid value: "boolean": spec.x in body must be of type integer: "boolean""#,
            ]
        );
        assert_eq!(
            findings(&schema, &json!("101%")),
            [
                r#"spec.x: Invalid value: "101%": spec.x in body should match '^(100|[1-9][0-9]?)%$'"#
            ]
        );
    }

    #[test]
    fn one_of_reports_the_closest_branch() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
        assert_eq!(
            findings(&schema, &json!({})),
            [
                r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid"#,
                "spec.x.a: Required value",
            ]
        );
        assert_eq!(
            findings(&schema, &json!({"a": "", "b": ""})),
            [
                r#"<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives"#
            ]
        );
        assert_eq!(findings(&schema, &json!({"a": ""})), [""; 0]);
        let all = json!({"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 3}]});
        assert_eq!(
            findings(&all, &json!(4)),
            [
                "spec.x: Invalid value: 4: spec.x in body should be less than or equal to 3",
                r#"<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf)"#,
            ]
        );
    }

    #[test]
    fn what_did_not_change_is_forgiven() {
        let schema = Schema::from_openapi(&json!({"type": "object", "properties": {
            "a": {"type": "integer", "minimum": 5},
            "list": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["n"], "items": {"type": "object", "properties": {
                    "n": {"type": "string"}, "v": {"type": "integer", "minimum": 5}}}},
        }}))
        .unwrap();
        let old = json!({"a": 1, "list": [{"n": "x", "v": 1}]});
        let new = json!({"a": 1, "list": [{"n": "y", "v": 2}, {"n": "x", "v": 1}]});
        let found: Vec<String> = structure(&new, Some(&old), schema.root(), &Path::Root)
            .iter()
            .map(|e| e.path.clone())
            .collect();
        assert_eq!(found, ["list[0].v"]);
    }

    #[test]
    fn floats_look_as_in_go() {
        for (number, text) in [
            (1e6, "1e+06"),
            (123456789.0, "1.23456789e+08"),
            (1.5, "1.5"),
            (1e-5, "1e-05"),
            (100000.0, "100000"),
        ] {
            assert_eq!(go_float(number), text);
        }
    }
}
