//! Checks an object against a structural schema, in Kubernetes' words.
//!
//! What `anyOf` and `oneOf` report is the branch that came closest, measured by how
//! many checks it passed; so every check counts its passes and returns them.
//!
//! On update, a finding inside a part that did not change is dropped: an object stored
//! under an older schema can still be edited elsewhere ("ratcheting"). List
//! uniqueness lives in `lists`, embedded objects in `embedded`, rules in `cel`.

use flagship_base::machinery::bounds::MAX_WALK;
use flagship_base::machinery::status::{FieldError, FieldProblem};
use serde_json::Value;

use super::format::Format;
use super::lists::{counterpart, is_unchanged};
use super::node::{Checks, NodeRef, Type};
use super::path::Path;

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
        if depth > MAX_WALK {
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
pub(super) fn go_float(number: f64) -> String {
    let exponent = if number == 0.0 { 0.0 } else { number.abs().log10().floor() };
    if (-4.0..6.0).contains(&exponent) {
        return format!("{number}");
    }
    let text = format!("{number:e}");
    let Some((digits, power)) = text.split_once('e') else { return text };
    let (sign, power) = power.strip_prefix('-').map_or(("+", power), |p| ("-", p));
    format!("{digits}e{sign}{power:0>2}")
}
