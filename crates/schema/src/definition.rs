//! Checks a CustomResourceDefinition as its author would have it checked.
//!
//! Where all versions agree on a schema, Kubernetes keeps it once, above them, and says
//! `spec.validation` in its findings; authors know these texts, so do we.
//!
//! The rules of a structural schema are in `structural`, those of single keywords and
//! of CEL rules in `keywords`.

use flagship_base::machinery::status::FieldError;
use serde_json::{Map, Value};

use super::embedded::not_a_dns_1035_label;
use super::keywords::check_schema;
use super::node::Schema;
use super::path::{Findings, Path};
use super::structural::{not_structural, text};

/// Everything that Kubernetes would refuse about this CustomResourceDefinition (v1).
pub fn validate_crd(crd: &Value) -> Vec<FieldError> {
    let empty = Map::new();
    let spec = crd.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    let mut check = Check { found: Vec::new() };
    check.name(crd, spec);
    let path = Path::Field(&Path::Root, "spec");
    check.group(spec, &path);
    check.scope(spec, &path);
    check.versions(spec, &path);
    check.names(spec, &path);
    check.conversion(spec, &path);
    check.approval(crd, spec);
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(true)) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        check.found.invalid(&Path::Field(&path, "preserveUnknownFields"), true.into(), detail);
    }
    check.found
}

type Object = Map<String, Value>;

struct Check {
    found: Vec<FieldError>,
}

impl Check {
    fn name(&mut self, crd: &Value, spec: &Object) {
        let name = crd.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let plural = names(spec).map_or("", |n| text(n, "plural"));
        let group = text(spec, "group");
        if name.is_empty() {
            self.found
                .push(FieldError::required("metadata.name", "name or generateName is required"));
        } else if name != format!("{plural}.{group}") {
            let detail = r#"must be spec.names.plural+"."+spec.group"#;
            self.found.add(FieldError::invalid("metadata.name", name.into(), detail));
        }
    }

    fn group(&mut self, spec: &Object, path: &Path<'_>) {
        let path = Path::Field(path, "group");
        let group = text(spec, "group");
        if group.is_empty() {
            self.found.required(&path, "");
        } else if let Some(why) = not_a_subdomain(group) {
            self.found.invalid(&path, group.into(), &why);
        } else if !group.contains('.') {
            self.found.invalid(&path, group.into(), "should be a domain with at least one dot");
        }
    }

    fn scope(&mut self, spec: &Object, path: &Path<'_>) {
        self.one_of(&Path::Field(path, "scope"), text(spec, "scope"), &["Cluster", "Namespaced"]);
    }

    fn versions(&mut self, spec: &Object, path: &Path<'_>) {
        let list = spec.get("versions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let versions: Vec<&Object> = list.iter().filter_map(Value::as_object).collect();
        let list_path = Path::Field(path, "versions");
        // What all versions agree on is kept, and blamed, once above them.
        let agreed = |key: &str| {
            versions
                .first()
                .is_some_and(|first| versions.iter().all(|v| v.get(key) == first.get(key)))
        };
        let one_schema = agreed("schema");
        for (at, _) in versions.iter().enumerate().filter(|(_, v)| openapi(v).is_none()) {
            let place = Path::Index(&list_path, at);
            let place = Path::Field(&place, "schema");
            self.found.required(&Path::Field(&place, "openAPIV3Schema"), "");
        }
        for (at, version) in versions.iter().enumerate() {
            let place = Path::Index(&list_path, at);
            if let Some(why) = not_a_dns_1035_label(text(version, "name")) {
                self.found.invalid(
                    &Path::Field(&place, "name"),
                    text(version, "name").into(),
                    &why,
                );
            }
            self.deprecation(version, &place);
            if !one_schema {
                self.schema(version, &Path::Field(&place, "schema"));
            }
            if !agreed("subresources") {
                self.subresources(version, &Path::Field(&place, "subresources"));
            }
            if !agreed("additionalPrinterColumns") {
                self.columns(version, &Path::Field(&place, "additionalPrinterColumns"));
            }
            if !agreed("selectableFields") {
                self.selectable(version, &Path::Field(&place, "selectableFields"));
            }
        }
        let mut known: Vec<&str> = versions.iter().map(|v| text(v, "name")).collect();
        known.sort_unstable();
        if known.windows(2).any(|pair| pair[0] == pair[1]) {
            self.versions_say(&list_path, &versions, "must contain unique version names");
        }
        if versions.iter().filter(|v| super::structural::flag(v, "storage")).count() != 1 {
            let detail = "must have exactly one version marked as storage version";
            self.versions_say(&list_path, &versions, detail);
        }
        if let Some(first) = versions.first() {
            if one_schema {
                self.schema(first, &Path::Field(path, "validation"));
            }
            if agreed("subresources") {
                self.subresources(first, &Path::Field(path, "subresources"));
            }
            if agreed("additionalPrinterColumns") {
                self.columns(first, &Path::Field(path, "additionalPrinterColumns"));
            }
            if agreed("selectableFields") {
                self.selectable(first, &Path::Field(path, "selectableFields"));
            }
        }
    }

    /// A finding about all versions, which Go prints as its own struct.
    fn versions_say(&mut self, path: &Path<'_>, versions: &[&Object], detail: &str) {
        let shown: Vec<String> = versions
            .iter()
            .map(|v| {
                let set = |name| super::structural::flag(v, name);
                format!(
                    r#"{{"Name":{:?},"Served":{},"Storage":{},"Deprecated":{},"DeprecationWarning":null,"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}}"#,
                    text(v, "name"), set("served"), set("storage"), set("deprecated"),
                )
            })
            .collect();
        let mut error = FieldError::invalid(
            path.to_string(),
            Value::Null,
            format!("[{}]: {detail}", shown.join(",")),
        );
        error.value = None;
        self.found.add(error);
    }

    fn deprecation(&mut self, version: &Object, path: &Path<'_>) {
        let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
            return;
        };
        let path = Path::Field(path, "deprecationWarning");
        if !super::structural::flag(version, "deprecated") {
            self.found.invalid(&path, warning.into(), "can only be set for deprecated versions");
            return;
        }
        if warning.len() > 256 {
            self.found.invalid(&path, warning.into(), "must be <= 256 characters long");
        }
        if warning.is_empty() {
            self.found.invalid(&path, "".into(), "must not be an empty string");
        }
        if let Some(at) = warning.find(char::is_control) {
            let detail = format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {at}"
            );
            self.found.invalid(&path, warning.into(), &detail);
        }
    }

    fn schema(&mut self, version: &Object, path: &Path<'_>) {
        let Some(schema) = openapi(version) else { return };
        let status = version.get("subresources").and_then(|s| s.get("status")).is_some();
        if status {
            self.root_with_status(schema, path);
        }
        if super::structural::flag(schema, "nullable") {
            let path = Path::Field(path, "openAPIV3Schema.nullable");
            self.found.add(FieldError::forbidden(
                path.to_string(),
                "nullable cannot be true at the root",
            ));
        }
        let path = Path::Field(path, "openAPIV3Schema");
        let loaded = match Schema::from_openapi(&Value::Object(schema.clone())) {
            Ok(loaded) => loaded,
            Err(error) => {
                self.found.invalid(&path, "".into(), &error.to_string());
                return;
            }
        };
        let structural = not_structural(schema, &path);
        let is_structural = structural.is_empty();
        self.found.extend(structural);
        self.found.extend(check_schema(schema, &loaded, is_structural, &path));
    }

    /// With a status subresource, the status is taken out of the schema and must lose nothing.
    fn root_with_status(&mut self, schema: &Object, path: &Path<'_>) {
        const ALLOWED: [&str; 22] = [
            "description",
            "type",
            "format",
            "title",
            "maximum",
            "exclusiveMaximum",
            "minimum",
            "exclusiveMinimum",
            "maxLength",
            "minLength",
            "pattern",
            "maxItems",
            "minItems",
            "uniqueItems",
            "multipleOf",
            "required",
            "items",
            "properties",
            "externalDocs",
            "example",
            "x-kubernetes-preserve-unknown-fields",
            "x-kubernetes-validations",
        ];
        let kind = text(schema, "type");
        if !kind.is_empty() && kind != "object" {
            let path = Path::Field(path, "openAPIV3Schema.type");
            self.found.invalid(&path, kind.into(), r#"only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#);
        } else if schema.keys().any(|key| !ALLOWED.contains(&key.as_str())) {
            let path = Path::Field(path, "openAPIV3Schema");
            let detail = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is enabled";
            self.found.invalid(&path, Value::Object(schema.clone()), detail);
        }
    }

    fn subresources(&mut self, version: &Object, path: &Path<'_>) {
        let Some(scale) = version.get("subresources").and_then(|s| s.get("scale")?.as_object())
        else {
            return;
        };
        for (key, place, below, required) in [
            ("specReplicasPath", "scale.specReplicasPath", &[".spec."][..], true),
            ("statusReplicasPath", "scale.statusReplicasPath", &[".status."], true),
            ("labelSelectorPath", "scale.labelSelectorPath", &[".spec.", ".status."], false),
        ] {
            let path = Path::Field(path, place);
            let value = text(scale, key);
            if value.is_empty() {
                if required {
                    self.found.required(&path, "");
                }
            } else if !self.simple_path(&path, value) && !below.iter().any(|b| value.starts_with(b))
            {
                let detail = match key {
                    "specReplicasPath" => "should be a json path under .spec",
                    "statusReplicasPath" => "should be a json path under .status",
                    _ => "should be a json path under either .spec or .status",
                };
                self.found.invalid(&path, value.into(), detail);
            }
        }
    }

    fn columns(&mut self, version: &Object, path: &Path<'_>) {
        const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
        const FORMATS: [&str; 8] =
            ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
        let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
        for (at, column) in columns.into_iter().flatten().enumerate() {
            let Some(column) = column.as_object() else { continue };
            let place = Path::Index(path, at);
            if text(column, "name").is_empty() {
                self.found.required(&Path::Field(&place, "name"), "");
            }
            let among = |list: &[&str]| format!("must be one of {}", list.join(","));
            match text(column, "type") {
                "" => self.found.required(&Path::Field(&place, "type"), &among(&TYPES)),
                kind if !TYPES.contains(&kind) => {
                    self.found.invalid(&Path::Field(&place, "type"), kind.into(), &among(&TYPES));
                }
                _ => {}
            }
            let format = text(column, "format");
            if !format.is_empty() && !FORMATS.contains(&format) {
                self.found.invalid(&Path::Field(&place, "format"), format.into(), &among(&FORMATS));
            }
            let json_path = Path::Field(&place, "JSONPath");
            match text(column, "jsonPath") {
                "" => self.found.required(&json_path, ""),
                value => {
                    self.simple_path(&json_path, value);
                }
            }
        }
    }

    fn selectable(&mut self, version: &Object, path: &Path<'_>) {
        let Some(list) = version.get("selectableFields").and_then(Value::as_array) else { return };
        let schema = openapi(version).cloned().map(Value::Object).unwrap_or_default();
        let Ok(schema) = Schema::from_openapi(&schema) else { return };
        let mut seen: Vec<String> = Vec::new();
        for (at, field) in list.iter().enumerate() {
            let place = Path::Index(path, at);
            let place = Path::Field(&place, "jsonPath");
            let json_path = field.get("jsonPath").and_then(Value::as_str).unwrap_or_default();
            if json_path.is_empty() {
                self.found.required(&place, "");
                continue;
            }
            if json_path.contains('[') {
                self.found.invalid(
                    &place,
                    json_path.into(),
                    "is an invalid path: array notation is not allowed",
                );
                continue;
            }
            let found = json_path.strip_prefix('.').and_then(|p| {
                p.split('.').try_fold(schema.root(), |node, name| {
                    node.has_property(name).then(|| node.field(name)).flatten()
                })
            });
            let Some(node) = found else {
                self.found.invalid(
                    &place,
                    json_path.into(),
                    "is an invalid path: does not refer to a valid field",
                );
                continue;
            };
            if json_path.starts_with(".metadata") {
                self.found.invalid(
                    &place,
                    json_path.into(),
                    "must not point to fields in metadata",
                );
            }
            if !["string", "boolean", "integer"]
                .contains(&super::validate::type_name(node.node().kind))
            {
                let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
                self.found.invalid(&place, json_path.into(), detail);
            }
            if seen.iter().any(|s| s == json_path) {
                self.found.add(FieldError::duplicate(place.to_string(), json_path.into()));
            } else {
                seen.push(json_path.to_owned());
            }
        }
    }

    fn names(&mut self, spec: &Object, path: &Path<'_>) {
        let path = Path::Field(path, "names");
        let empty = Map::new();
        let names = names(spec).unwrap_or(&empty);
        let kind = text(names, "kind");
        // Singular and list kind follow from the kind where they are not written.
        let list_kind = match text(names, "listKind") {
            "" if !kind.is_empty() => format!("{kind}List"),
            written => written.to_owned(),
        };
        let singular = match text(names, "singular") {
            "" => kind.to_lowercase(),
            written => written.to_owned(),
        };
        for (name, value) in [
            ("plural", text(names, "plural")),
            ("singular", &singular),
            ("kind", kind),
            ("listKind", &list_kind),
        ] {
            if value.is_empty() {
                self.found.required(&Path::Field(&path, name), "");
            }
        }
        for (name, value) in [("plural", text(names, "plural")), ("singular", &singular)] {
            self.label(&Path::Field(&path, name), value);
        }
        for (name, value) in [("kind", kind), ("listKind", &list_kind)] {
            if let Some(why) =
                not_a_dns_1035_label(&value.to_lowercase()).filter(|_| !value.is_empty())
            {
                let detail = format!("may have mixed case, but should otherwise match: {why}");
                self.found.invalid(&Path::Field(&path, name), value.into(), &detail);
            }
        }
        for list in ["shortNames", "categories"] {
            let place = Path::Field(&path, list);
            let values = names.get(list).and_then(Value::as_array).into_iter().flatten();
            for (at, value) in values.enumerate() {
                let value = value.as_str().unwrap_or_default();
                if let Some(why) = not_a_dns_1035_label(value) {
                    self.found.invalid(&Path::Index(&place, at), value.into(), &why);
                }
            }
        }
        if !kind.is_empty() && kind == list_kind {
            let detail = "kind and listKind may not be the same";
            self.found.invalid(&Path::Field(&path, "listKind"), kind.into(), detail);
        }
    }

    fn conversion(&mut self, spec: &Object, path: &Path<'_>) {
        let Some(conversion) = spec.get("conversion").and_then(Value::as_object) else { return };
        let path = Path::Field(path, "conversion");
        let strategy = text(conversion, "strategy");
        self.one_of(&Path::Field(&path, "strategy"), strategy, &["None", "Webhook"]);
        let webhook = conversion.get("webhook").and_then(Value::as_object);
        let client = webhook.and_then(|w| w.get("clientConfig"));
        let review = webhook.and_then(|w| w.get("conversionReviewVersions")?.as_array());
        let (client_path, review_path) = (
            Path::Field(&path, "webhookClientConfig"),
            Path::Field(&path, "conversionReviewVersions"),
        );
        if strategy == "Webhook" {
            match client {
                None => {
                    self.found.required(&client_path, "required when strategy is set to Webhook");
                }
                Some(c) if c.get("url").is_some() == c.get("service").is_some() => {
                    self.found.required(&client_path, "exactly one of url or service is required");
                }
                Some(_) => {}
            }
            if review.is_none_or(Vec::is_empty) {
                self.found.required(&review_path, "");
            }
        } else {
            let detail = "should not be set when strategy is not set to Webhook";
            if client.is_some() {
                self.found.add(FieldError::forbidden(client_path.to_string(), detail));
            }
            if review.is_some_and(|r| !r.is_empty()) {
                self.found.add(FieldError::forbidden(review_path.to_string(), detail));
            }
        }
    }

    /// Groups of the Kubernetes community need an approval.
    fn approval(&mut self, crd: &Value, spec: &Object) {
        const ANNOTATION: &str = "api-approved.kubernetes.io";
        let group = text(spec, "group");
        let protected = ["k8s.io", "kubernetes.io"]
            .iter()
            .any(|d| group == *d || group.strip_suffix(d).is_some_and(|g| g.ends_with('.')));
        let annotations = crd.pointer("/metadata/annotations");
        let approval = annotations.and_then(|a| a.get(ANNOTATION)?.as_str()).unwrap_or_default();
        if protected && approval.is_empty() {
            let detail = format!(
                "protected groups must have approval annotation {ANNOTATION:?}, see https://github.com/kubernetes/enhancements/pull/1111"
            );
            self.found
                .push(FieldError::required(format!("metadata.annotations[{ANNOTATION}]"), detail));
        }
    }

    fn label(&mut self, path: &Path<'_>, value: &str) {
        if let Some(why) = not_a_dns_1035_label(value).filter(|_| !value.is_empty()) {
            self.found.invalid(path, value.into(), &why);
        }
    }

    fn one_of(&mut self, path: &Path<'_>, value: &str, accepted: &[&str]) {
        if value.is_empty() {
            self.found.required(path, "");
        } else if !accepted.contains(&value) {
            self.found.add(FieldError::not_supported(path.to_string(), value.into(), accepted));
        }
    }

    /// Whether the path was refused.
    fn simple_path(&mut self, path: &Path<'_>, value: &str) -> bool {
        let bad = !value.starts_with('.');
        if bad {
            self.found.invalid(path, value.into(), "must be a simple json path starting with .");
        }
        bad
    }
}

fn names(spec: &Object) -> Option<&Object> {
    spec.get("names")?.as_object()
}

fn openapi(version: &Object) -> Option<&Object> {
    version.get("schema")?.get("openAPIV3Schema")?.as_object()
}

fn not_a_subdomain(text: &str) -> Option<String> {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let label = |l: &str| {
        let bytes = l.as_bytes();
        matches!((bytes.first(), bytes.last()), (Some(a), Some(z)) if inner(*a) && inner(*z))
            && bytes.iter().all(|b| inner(*b) || *b == b'-')
    };
    let mut why = Vec::new();
    if text.len() > 253 {
        why.push("must be no more than 253 characters");
    }
    if !text.split('.').all(label) {
        why.push("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')");
    }
    (!why.is_empty()).then(|| why.join(","))
}
