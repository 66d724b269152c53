//! The keywords of a CRD's schema, one by one: what may be said, defaults that fit, rules
//! that compile.

use flagship_base::machinery::bounds::MAX_SCHEMA_DEPTH;
use flagship_base::machinery::status::FieldError;
use serde_json::{Map, Value, json};

use super::cel::rule::{Defect, field_path};
use super::cel::{BrokenRule, RuleTable};
use super::embedded::embedded_objects;
use super::node::{NodeId, NodeRef, RuleText, Schema};
use super::path::{Findings, Path};
use super::structural::{fields, flag, text};
use super::validate::structure;

type Keywords = Map<String, Value>;

/// Findings about a whole schema. Defaults and rules are looked at only where it is
/// structural: elsewhere their findings would only confuse.
pub(super) fn check_schema(
    schema: &Keywords,
    loaded: &Schema,
    is_structural: bool,
    path: &Path<'_>,
) -> Vec<FieldError> {
    let (table, broken) = RuleTable::compile(loaded);
    let mut check = Check {
        loaded,
        table: &table,
        broken: &broken,
        found: Vec::new(),
        rules: Vec::new(),
        judge_rules: false,
    };
    let mut errors = Vec::new();
    if is_structural {
        check.defaults(schema, loaded.root, path, 0);
        errors.append(&mut check.found);
        check.judge_rules = errors.is_empty();
    }
    let place =
        Place { allow_defaults: true, reason: None, inside_meta: false, uncorrelated: None };
    check.visit(schema, Some(loaded.root), true, &place, path, 0);
    errors.append(&mut check.found);
    errors.append(&mut check.rules);
    errors
}

struct Check<'c> {
    loaded: &'c Schema,
    table: &'c RuleTable,
    broken: &'c [BrokenRule],
    found: Vec<FieldError>,
    rules: Vec<FieldError>,
    judge_rules: bool,
}

/// What the surroundings of a schema forbid.
#[derive(Clone)]
struct Place {
    allow_defaults: bool,
    /// Why defaults are forbidden here.
    reason: Option<String>,
    inside_meta: bool,
    /// The list from which on old and new elements cannot be told apart.
    uncorrelated: Option<String>,
}

impl Check<'_> {
    fn node(&self, id: NodeId) -> NodeRef<'_> {
        self.loaded.arena.at(id)
    }

    /// Defaults are of the right shape, without unknown fields, and keep the rules.
    fn defaults(&mut self, schema: &Keywords, id: NodeId, path: &Path<'_>, depth: usize) {
        if depth > MAX_SCHEMA_DEPTH {
            return;
        }
        if let Some(default) = schema.get("default").filter(|d| !d.is_null()) {
            self.default(default, id, &Path::Field(path, "default"));
        }
        let n = self.loaded.arena.at(id).node();
        if let (Some(Value::Object(items)), Some(id)) = (schema.get("items"), n.items) {
            self.defaults(items, id, &Path::Field(path, "items"), depth + 1);
        }
        let properties = Path::Field(path, "properties");
        for (name, field) in fields(schema) {
            if let Some(id) = n.properties.get(&**name) {
                self.defaults(field, *id, &Path::Key(&properties, name), depth + 1);
            }
        }
    }

    fn default(&mut self, default: &Value, id: NodeId, path: &Path<'_>) {
        let node = self.loaded.arena.at(id);
        let before = self.found.len();
        let here = Schema { arena: self.loaded.arena.clone(), root: id };
        let mut pruned = default.clone();
        if node.node().embedded_resource {
            super::prune::prune_resource(&mut pruned, node);
        } else {
            here.prune(&mut pruned);
        }
        if pruned != *default {
            let detail = "must not have unknown fields";
            self.found.add(FieldError::invalid(path.to_string(), default.clone(), detail));
        }
        let mut embedded = embedded_objects(default, node);
        for error in &mut embedded {
            error.path = format!("{path}.{}", error.path);
        }
        self.found.append(&mut embedded);
        if self.found.len() == before {
            self.found.extend(structure(default, None, node, path));
        }
        if self.found.len() == before {
            self.found.extend(self.table.check(&here, default, Some(default), path));
        }
        if self.found.len() == before {
            self.found.extend(self.table.check(&here, default, None, path));
        }
    }

    fn visit(
        &mut self,
        schema: &Keywords,
        id: Option<NodeId>,
        is_root: bool,
        place: &Place,
        path: &Path<'_>,
        depth: usize,
    ) {
        if depth > MAX_SCHEMA_DEPTH {
            return;
        }
        let before = self.found.len();
        self.vocabulary(schema, place, path);
        let node = id.map(|id| self.loaded.arena.at(id).node());
        if let Some(values) = schema.get("additionalProperties") {
            let path = Path::Field(path, "additionalProperties");
            if fields(schema).next().is_some() && *values != Value::Bool(true) {
                self.found
                    .forbidden(&path, "additionalProperties and properties are mutual exclusive");
            }
            if let Value::Object(values) = values {
                let mut place = place.clone();
                if place.inside_meta {
                    place.allow_defaults = false;
                    place.reason =
                        Some("inside additionalProperties applying to object metadata".to_owned());
                }
                self.visit(values, node.and_then(|n| n.values), false, &place, &path, depth + 1);
            }
        }
        let properties = Path::Field(path, "properties");
        let is_resource = is_root || flag(schema, "x-kubernetes-embedded-resource");
        for (name, field) in fields(schema) {
            let mut place = place.clone();
            if is_resource && ["metadata", "kind", "apiVersion"].contains(&name.as_str()) {
                place.inside_meta = true;
                if is_root {
                    place.allow_defaults = false;
                    place.reason = Some(format!("in top-level {name}"));
                }
            }
            let id = node.and_then(|n| n.properties.get(&**name).copied());
            self.visit(field, id, false, &place, &Path::Key(&properties, name), depth + 1);
        }
        for name in ["not", "allOf", "oneOf", "anyOf"] {
            let field = Path::Field(path, name);
            match schema.get(name) {
                Some(Value::Object(branch)) => {
                    self.visit(branch, None, false, place, &field, depth + 1);
                }
                Some(Value::Array(list)) => {
                    for (at, branch) in list.iter().enumerate() {
                        if let Value::Object(branch) = branch {
                            self.visit(
                                branch,
                                None,
                                false,
                                place,
                                &Path::Index(&field, at),
                                depth + 1,
                            );
                        }
                    }
                }
                _ => {}
            }
        }
        if let Some(Value::Object(items)) = schema.get("items") {
            let mut place = place.clone();
            if text(schema, "x-kubernetes-list-type") != "map" && place.uncorrelated.is_none() {
                place.uncorrelated = Some(path.to_string());
            }
            self.visit(
                items,
                node.and_then(|n| n.items),
                false,
                &place,
                &Path::Field(path, "items"),
                depth + 1,
            );
        }
        self.merge_keywords(schema, path);
        self.rule_texts(schema, id, path);
        if self.judge_rules
            && self.found.len() == before
            && let Some(id) = id
        {
            self.judge(schema, id, place, path);
        }
    }

    /// Keywords that Kubernetes' dialect has not.
    fn vocabulary(&mut self, schema: &Keywords, place: &Place, path: &Path<'_>) {
        const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
        let kind = text(schema, "type");
        if !kind.is_empty() && !TYPES.contains(&kind) {
            let path = Path::Field(path, "type").to_string();
            self.found.add(FieldError::not_supported(path, kind.into(), &TYPES));
        }
        if schema.contains_key("default") && !place.allow_defaults {
            let reason = place.reason.as_ref().map(|r| format!(" {r}")).unwrap_or_default();
            self.found
                .forbidden(&Path::Field(path, "default"), &format!("must not be set{reason}"));
        }
        for name in
            ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"]
        {
            if schema.get(name).is_some_and(|v| !v.is_null()) {
                self.found.forbidden(&Path::Field(path, name), &format!("{name} is not supported"));
            }
        }
        if kind == "null" {
            self.found.forbidden(
                &Path::Field(path, "type"),
                "type cannot be set to null, use nullable as an alternative",
            );
        }
        if schema.get("items").is_some_and(Value::is_array) {
            self.found.forbidden(
                &Path::Field(path, "items"),
                "items must be a schema object and not an array",
            );
        }
        if place.inside_meta && flag(schema, "x-kubernetes-embedded-resource") {
            self.found.forbidden(
                &Path::Field(path, "x-kubernetes-embedded-resource"),
                "must not be used inside of resource meta",
            );
        }
        if flag(schema, "uniqueItems") {
            self.found.forbidden(
                &Path::Field(path, "uniqueItems"),
                "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            );
        }
    }

    /// How lists and maps merge.
    fn merge_keywords(&mut self, schema: &Keywords, path: &Path<'_>) {
        let kind = text(schema, "type");
        if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            self.found.invalid(
                &Path::Field(path, "x-kubernetes-preserve-unknown-fields"),
                false.into(),
                "must be true or undefined",
            );
        }
        for (name, wanted, allowed) in [
            ("x-kubernetes-map-type", "object", &["atomic", "granular"][..]),
            ("x-kubernetes-list-type", "array", &["atomic", "set", "map"]),
        ] {
            let Some(value) = schema.get(name).and_then(Value::as_str) else { continue };
            if kind != wanted {
                let detail = format!("must be {wanted} if {name} is specified");
                let path = Path::Field(path, "type");
                if kind.is_empty() {
                    self.found.required(&path, &detail);
                } else {
                    self.found.invalid(&path, kind.into(), &detail);
                }
            }
            if !allowed.contains(&value) {
                let path = Path::Field(path, name).to_string();
                self.found.add(FieldError::not_supported(path, value.into(), allowed));
            }
        }
        let list_type = text(schema, "x-kubernetes-list-type");
        let keys: Vec<&str> = schema
            .get("x-kubernetes-list-map-keys")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if !keys.is_empty() && list_type != "map" {
            let path = Path::Field(path, "x-kubernetes-list-type");
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            if list_type.is_empty() {
                self.found.required(&path, detail);
            } else {
                self.found.invalid(&path, list_type.into(), detail);
            }
        }
        let items = schema.get("items").and_then(Value::as_object);
        match list_type {
            "set" => self.set_items(items, path),
            "map" => self.map_items(items, &keys, path),
            _ => return,
        }
        if items.is_some_and(|items| flag(items, "nullable")) {
            let place = Path::Field(path, "items");
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            self.found.forbidden(&Path::Field(&place, "nullable"), &detail);
        }
    }

    fn set_items(&mut self, items: Option<&Keywords>, path: &Path<'_>) {
        let Some(items) = items else { return };
        let (name, is_wrong) = match text(items, "type") {
            "array" => (
                "x-kubernetes-list-type",
                !["", "atomic"].contains(&text(items, "x-kubernetes-list-type")),
            ),
            "object" => ("x-kubernetes-map-type", text(items, "x-kubernetes-map-type") != "atomic"),
            _ => return,
        };
        if is_wrong {
            let place = Path::Field(path, "items");
            let value = items.get("x-kubernetes-list-type").cloned().unwrap_or(Value::Null);
            let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
            self.found.invalid(&Path::Field(&place, name), value, detail);
        }
    }

    fn map_items(&mut self, items: Option<&Keywords>, keys: &[&str], path: &Path<'_>) {
        let keys_path = Path::Field(path, "x-kubernetes-list-map-keys");
        if keys.is_empty() {
            self.found.required(&keys_path, "must not be empty if x-kubernetes-list-type is map");
        }
        let items_path = Path::Field(path, "items");
        let Some(items) = items else {
            self.found.required(&items_path, "must have a schema if x-kubernetes-list-type is map");
            return;
        };
        let kind = text(items, "type");
        if kind != "object" {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            self.found.invalid(&Path::Field(&items_path, "type"), kind.into(), detail);
            return;
        }
        let properties = Path::Field(&items_path, "properties");
        for (at, key) in keys.iter().enumerate() {
            let field = fields(items).find(|(name, _)| name == key).map(|(_, f)| f);
            let place = Path::Key(&properties, key);
            match field {
                None => self.found.invalid(
                    &keys_path,
                    json!(keys),
                    "entries must all be names of item properties",
                ),
                Some(field) if ["array", "object"].contains(&text(field, "type")) => {
                    let detail =
                        "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    self.found.invalid(&Path::Field(&place, "type"), kind.into(), detail);
                }
                Some(_) => {}
            }
            if keys[..at].contains(key) {
                self.found.invalid(&keys_path, json!(keys), "must not contain duplicate entries");
            }
        }
        let required = items.get("required").and_then(Value::as_array);
        for key in keys {
            let Some((_, field)) = fields(items).find(|(name, _)| name == key) else { continue };
            let place = Path::Key(&properties, key);
            let is_required = required.is_some_and(|r| r.iter().any(|name| name == key));
            if !is_required && !field.contains_key("default") {
                let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                self.found.required(&Path::Field(&place, "default"), detail);
            }
            if flag(field, "nullable") {
                let detail =
                    "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                self.found.forbidden(&Path::Field(&place, "nullable"), detail);
            }
        }
    }

    /// The parts of rules that are not CEL.
    fn rule_texts(&mut self, schema: &Keywords, id: Option<NodeId>, path: &Path<'_>) {
        const REASONS: [&str; 4] = [
            "FieldValueDuplicate",
            "FieldValueForbidden",
            "FieldValueInvalid",
            "FieldValueRequired",
        ];
        let list = Path::Field(path, "x-kubernetes-validations");
        for (at, rule) in rules(schema).iter().enumerate() {
            let place = Path::Index(&list, at);
            let message_path = Path::Field(&place, "message");
            let breaks = |s: &str| s.contains(['\n', '\r']);
            let (trimmed, message) = (rule.rule.trim(), rule.message.trim());
            if trimmed.is_empty() {
                self.found.required(&Path::Field(&place, "rule"), "rule is not specified");
            } else if !rule.message.is_empty() && message.is_empty() {
                self.found.invalid(
                    &message_path,
                    rule.message.as_str().into(),
                    "must be non-empty if specified",
                );
            } else if breaks(message) {
                self.found.invalid(
                    &message_path,
                    rule.message.as_str().into(),
                    "must not contain line breaks",
                );
            } else if breaks(trimmed) && message.is_empty() {
                self.found.required(
                    &message_path,
                    "message must be specified if rule contains line breaks",
                );
            }
            if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
                let path = Path::Field(&place, "messageExpression");
                self.found.required(&path, "messageExpression must be non-empty if specified");
            }
            if let Some(reason) = rule.reason.as_deref().filter(|r| !REASONS.contains(r)) {
                let path = Path::Field(&place, "reason").to_string();
                self.found.add(FieldError::not_supported(path, reason.into(), &REASONS));
            }
            let field = rule.field_path.as_str();
            let field_place = Path::Field(&place, "fieldPath");
            if !field.is_empty() && field.trim().is_empty() {
                self.found.invalid(&field_place, field.into(), "must be non-empty if specified");
            }
            if breaks(field) {
                self.found.invalid(&field_place, field.into(), "must not contain line breaks");
            }
            let leads = id.is_none_or(|id| field_path(field, self.node(id)).is_some());
            if !field.is_empty() && !leads {
                self.found.invalid(&field_place, field.into(), "must be a valid path");
            }
        }
    }

    /// The CEL of rules.
    fn judge(&mut self, schema: &Keywords, id: NodeId, place: &Place, path: &Path<'_>) {
        let list = Path::Field(path, "x-kubernetes-validations");
        for (at, rule) in rules(schema).iter().enumerate() {
            let here = Path::Index(&list, at);
            let broken = self.broken.iter().find(|b| b.node == id && b.index == at);
            let defect = match broken.map(|b| &b.defect) {
                Some(Defect::Rule(why)) => Some(("rule", why)),
                Some(Defect::Message(why)) => Some(("messageExpression", why)),
                Some(Defect::Missing(_)) | None => None,
            };
            if let Some((part, why)) = defect {
                // Printed as Go prints its own struct.
                let detail = format!("{}: {why}", as_go(rule));
                let mut error =
                    FieldError::invalid(Path::Field(&here, part).to_string(), Value::Null, detail);
                error.value = None;
                self.rules.push(error);
            }
            let uses_old = self.table.uses_old(id, &rule.rule);
            let rule_path = Path::Field(&here, "rule");
            match (&place.uncorrelated, uses_old) {
                (Some(from), Some(true)) => {
                    let detail = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {from}"
                    );
                    self.rules.push(FieldError::invalid(
                        rule_path.to_string(),
                        rule.rule.as_str().into(),
                        detail,
                    ));
                }
                (_, Some(false)) if rule.optional_old_self.is_some() => {
                    let path = Path::Field(&here, "optionalOldSelf").to_string();
                    let value = Value::Bool(rule.optional_old_self == Some(true));
                    self.rules.push(FieldError::invalid(
                        path,
                        value,
                        "may not be set if oldSelf is not used in rule",
                    ));
                }
                _ => {}
            }
        }
    }
}

fn rules(schema: &Keywords) -> Vec<RuleText> {
    use serde::Deserialize;
    let rules = schema.get("x-kubernetes-validations");
    rules.and_then(|rules| Vec::deserialize(rules).ok()).unwrap_or_default()
}

fn as_go(rule: &RuleText) -> String {
    // Go escapes what HTML would not like.
    let quoted = |text: &str| {
        let json = Value::from(text).to_string();
        json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
    };
    format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        quoted(&rule.rule),
        quoted(&rule.message),
        quoted(&rule.message_expression),
        rule.reason.as_deref().map_or("null".to_owned(), quoted),
        quoted(&rule.field_path),
        rule.optional_old_self.map_or("null".to_owned(), |b| b.to_string()),
    )
}
