//! What makes a schema structural, so that it can prune, default and merge.
//!
//! Types stand on a spine of `properties`, `items` and `additionalProperties`; `allOf`,
//! `anyOf`, `oneOf` and `not` may only add checks to fields that the spine has. Read from
//! the JSON as written, because findings name places in it.

use flagship_base::machinery::bounds::MAX_SCHEMA_DEPTH;
use flagship_base::machinery::status::FieldError;
use serde_json::{Map, Value};

use super::path::{Findings, Path};

/// Where a schema stands; the words differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

type Keywords = Map<String, Value>;

/// Every way in which the schema at `path` is not structural, in order of their text.
pub(super) fn not_structural(schema: &Keywords, path: &Path<'_>) -> Vec<FieldError> {
    let mut check = Check { found: Vec::new() };
    check.spine(schema, Level::Root, path, 0);
    check.completeness(schema, Some(schema), path, path, 0);
    check.found.sort_by_cached_key(ToString::to_string);
    check.found
}

struct Check {
    found: Vec<FieldError>,
}

impl Check {
    fn spine(&mut self, schema: &Keywords, level: Level, path: &Path<'_>, depth: usize) {
        if depth > MAX_SCHEMA_DEPTH {
            return;
        }
        let kind = text(schema, "type");
        let embedded = flag(schema, "x-kubernetes-embedded-resource");
        let preserve = flag(schema, "x-kubernetes-preserve-unknown-fields");
        let int_or_string = flag(schema, "x-kubernetes-int-or-string");
        match schema.get("items") {
            Some(Value::Object(items)) => {
                self.spine(items, Level::Item, &Path::Field(path, "items"), depth + 1);
            }
            None if kind == "array" => {
                self.found.required(&Path::Field(path, "items"), "must be specified");
            }
            _ => {}
        }
        let properties_path = Path::Field(path, "properties");
        for (name, field) in fields(schema) {
            self.spine(field, Level::Field, &Path::Key(&properties_path, name), depth + 1);
        }
        if let Some(values) = schema.get("additionalProperties") {
            let path = Path::Field(path, "additionalProperties");
            if level == Level::Root {
                self.found.forbidden(&path, "must not be used at the root");
            }
            if let Value::Object(values) = values {
                self.spine(values, Level::Field, &path, depth + 1);
            }
            if embedded {
                self.found
                    .forbidden(&path, "must not be used if x-kubernetes-embedded-resource is set");
            }
        }
        if int_or_string {
            for (name, set) in [
                ("x-kubernetes-preserve-unknown-fields", preserve),
                ("x-kubernetes-embedded-resource", embedded),
            ] {
                if set {
                    let detail = "must be false if x-kubernetes-int-or-string is true";
                    self.found.invalid(&Path::Field(path, name), true.into(), detail);
                }
            }
        }
        self.value_checks(
            schema,
            is_int_or_string_pattern(schema),
            starts_with_pattern(schema),
            path,
            depth,
        );
        self.spine_type(schema, level, path);
        if level == Level::Root || embedded {
            for name in ["kind", "apiVersion"] {
                if let Some((_, field)) = fields(schema).find(|(n, _)| n.as_str() == name)
                    && text(field, "type") != "string"
                {
                    let place = Path::Key(&properties_path, name);
                    self.found.invalid(
                        &Path::Field(&place, "type"),
                        text(field, "type").into(),
                        "must be string",
                    );
                }
            }
        }
        if let Some((_, metadata)) = fields(schema).find(|(n, _)| n.as_str() == "metadata") {
            let place = Path::Key(&properties_path, "metadata");
            if (level == Level::Root || embedded) && text(metadata, "type") != "object" {
                self.found.invalid(
                    &Path::Field(&place, "type"),
                    text(metadata, "type").into(),
                    "must be object",
                );
            }
            if level == Level::Root && !says_only_names(metadata) {
                self.found.forbidden(&place, "must not specify anything other than name and generateName, but metadata is implicitly specified");
            }
        }
        if embedded && !preserve && fields(schema).next().is_none() {
            self.found.required(&properties_path, "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields");
        }
    }

    fn spine_type(&mut self, schema: &Keywords, level: Level, path: &Path<'_>) {
        let path = Path::Field(path, "type");
        let kind = text(schema, "type");
        let free = flag(schema, "x-kubernetes-int-or-string")
            || flag(schema, "x-kubernetes-preserve-unknown-fields");
        if flag(schema, "x-kubernetes-embedded-resource") && kind != "object" {
            let detail = "must be object if x-kubernetes-embedded-resource is true";
            if kind.is_empty() {
                self.found.required(&path, detail);
            } else {
                self.found.invalid(&path, kind.into(), detail);
            }
        } else if kind.is_empty() && !free {
            self.found.required(
                &path,
                match level {
                    Level::Root => "must not be empty at the root",
                    Level::Item => "must not be empty for specified array items",
                    Level::Field => "must not be empty for specified object fields",
                },
            );
        }
        if level == Level::Root && !kind.is_empty() && kind != "object" {
            self.found.invalid(&path, kind.into(), "must be object at the root");
        }
    }

    fn value_checks(
        &mut self,
        schema: &Keywords,
        skip_any_of: bool,
        skip_first_all_of: bool,
        path: &Path<'_>,
        depth: usize,
    ) {
        for (name, at, branch) in branches(schema) {
            let field = Path::Field(path, name);
            let path = at.map_or(field, |at| Path::Index(&field, at));
            if name != "anyOf" || !skip_any_of {
                let skip = name == "allOf" && at == Some(0) && skip_first_all_of;
                self.nested(branch, skip, &path, depth + 1);
            }
        }
        let pattern = text(schema, "pattern");
        if let Err(error) = super::load::try_compile(pattern) {
            let why = in_go_words(&error.to_string(), pattern);
            let detail = format!(
                "must be a valid regular expression, but isn't: error parsing regexp: {why}"
            );
            self.found.invalid(&Path::Field(path, "pattern"), pattern.into(), &detail);
        }
    }

    /// A branch of `allOf` and the like: checks only.
    fn nested(&mut self, schema: &Keywords, skip_any_of: bool, path: &Path<'_>, depth: usize) {
        if depth > MAX_SCHEMA_DEPTH {
            return;
        }
        self.value_checks(schema, skip_any_of, false, path, depth);
        if let Some(Value::Object(items)) = schema.get("items") {
            self.nested(items, false, &Path::Field(path, "items"), depth + 1);
        }
        let properties = Path::Field(path, "properties");
        for (name, field) in fields(schema) {
            self.nested(field, false, &Path::Key(&properties, name), depth + 1);
        }
        const EMPTY: &str = "must be empty to be structural";
        const UNDEFINED: &str = "must be undefined to be structural";
        const FALSE: &str = "must be false to be structural";
        for (name, detail) in [
            ("type", EMPTY),
            ("additionalProperties", UNDEFINED),
            ("default", UNDEFINED),
            ("title", EMPTY),
            ("description", EMPTY),
            ("nullable", FALSE),
            ("x-kubernetes-preserve-unknown-fields", FALSE),
            ("x-kubernetes-embedded-resource", FALSE),
            ("x-kubernetes-int-or-string", FALSE),
            ("x-kubernetes-list-map-keys", EMPTY),
            ("x-kubernetes-list-type", UNDEFINED),
            ("x-kubernetes-map-type", UNDEFINED),
            ("x-kubernetes-validations", EMPTY),
        ] {
            let set = match schema.get(name) {
                None | Some(Value::Null | Value::Bool(false)) => false,
                Some(Value::String(text)) if name != "default" => !text.is_empty(),
                Some(Value::Array(list)) if name != "default" => !list.is_empty(),
                Some(_) => true,
            };
            if set {
                self.found.forbidden(&Path::Field(path, name), detail);
            }
        }
        if fields(schema).any(|(name, _)| name == "metadata") {
            self.found.forbidden(
                &Path::Key(&properties, "metadata"),
                "must not be specified in a nested context",
            );
        }
    }

    /// Everything that a branch checks stands on the spine.
    fn completeness(
        &mut self,
        checks: &Keywords,
        spine: Option<&Keywords>,
        spine_path: &Path<'_>,
        path: &Path<'_>,
        depth: usize,
    ) {
        if depth > MAX_SCHEMA_DEPTH {
            return;
        }
        for (name, at, branch) in branches(checks) {
            let field = Path::Field(path, name);
            let path = at.map_or(field, |at| Path::Index(&field, at));
            self.branch_completeness(branch, spine, spine_path, &path, depth + 1);
        }
    }

    fn branch_completeness(
        &mut self,
        branch: &Keywords,
        spine: Option<&Keywords>,
        spine_path: &Path<'_>,
        path: &Path<'_>,
        depth: usize,
    ) {
        let Some(schema) = spine else {
            self.found.required(spine_path, &format!("because it is defined in {path}"));
            return;
        };
        self.completeness(branch, spine, spine_path, path, depth);
        if let Some(Value::Object(items)) = branch.get("items") {
            let below = schema.get("items").and_then(Value::as_object);
            let spine_path = Path::Field(spine_path, "items");
            self.branch_completeness(
                items,
                below,
                &spine_path,
                &Path::Field(path, "items"),
                depth + 1,
            );
        }
        let (spine_fields, path_fields) =
            (Path::Field(spine_path, "properties"), Path::Field(path, "properties"));
        for (name, field) in fields(branch) {
            let below = fields(schema).find(|(n, _)| *n == name).map(|(_, f)| f);
            let (spine_path, path) =
                (Path::Key(&spine_fields, name), Path::Key(&path_fields, name));
            self.branch_completeness(field, below, &spine_path, &path, depth + 1);
        }
    }
}

/// The common mistakes in a pattern as Go's compiler words them.
fn in_go_words(error: &str, pattern: &str) -> String {
    let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
    let why = match why {
        "unclosed group" => "missing closing )",
        "unopened group" => "unexpected )",
        "unclosed character class" => "missing closing ]",
        "repetition operator missing expression" => "missing argument to repetition operator",
        other => other,
    };
    format!("{why}: `{pattern}`")
}

/// All branches of a schema with their keyword and position.
fn branches(schema: &Keywords) -> impl Iterator<Item = (&'static str, Option<usize>, &Keywords)> {
    let lists = ["anyOf", "allOf", "oneOf"].into_iter().flat_map(move |name| {
        let list = schema.get(name).and_then(Value::as_array).into_iter().flatten();
        list.enumerate().filter_map(move |(at, s)| Some((name, Some(at), s.as_object()?)))
    });
    let not = schema.get("not").and_then(Value::as_object).map(|s| ("not", None, s));
    lists.chain(not)
}

/// The properties of a schema.
pub(super) fn fields(schema: &Keywords) -> impl Iterator<Item = (&String, &Keywords)> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().filter_map(|(name, s)| Some((name, s.as_object()?)))
}

/// A text keyword, empty when absent.
pub(super) fn text<'a>(schema: &'a Keywords, name: &str) -> &'a str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A boolean keyword, false when absent.
pub(super) fn flag(schema: &Keywords, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

/// `anyOf: [{type: integer}, {type: string}]`, which int-or-string fields may carry.
fn is_int_or_string_pattern(schema: &Keywords) -> bool {
    let wanted = ["integer", "string"];
    schema.get("anyOf").and_then(Value::as_array).is_some_and(|list| {
        list.len() == 2
            && list.iter().zip(wanted).all(|(s, kind)| {
                s.as_object().is_some_and(|s| s.len() == 1 && text(s, "type") == kind)
            })
    })
}

fn starts_with_pattern(schema: &Keywords) -> bool {
    let first = schema.get("allOf").and_then(Value::as_array).and_then(|list| list.first());
    first.and_then(Value::as_object).is_some_and(is_int_or_string_pattern)
}

fn says_only_names(metadata: &Keywords) -> bool {
    metadata.iter().all(|(key, value)| match key.as_str() {
        "type" | "default" => true,
        "properties" => value
            .as_object()
            .is_some_and(|p| p.keys().all(|name| name == "name" || name == "generateName")),
        "description" | "title" => value == "",
        _ => *value == Value::Bool(false) || value.is_null(),
    })
}
