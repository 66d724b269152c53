//! A schema version of a custom resource, ready to judge objects.
//!
//! Built once per CRD version and shared by all clusters. A write asks, in this order:
//! unknown fields (or [`prune`](Compiled::prune)), defaults, then validation: structure,
//! embedded objects, list identities, and the CEL rules only if nothing above makes
//! them meaningless.

use flagship_base::machinery::status::{FieldError, FieldProblem};
use serde_json::Value;

use super::cel::RuleTable;
use super::cel::rule::Defect;
use super::embedded::embedded_objects;
use super::lists::duplicates;
use super::node::{ListType, Schema};
use super::path::Path;
use super::prune::{drop_nulls, prune_resource, unknown_in_resource};
use super::validate::structure;

/// A custom resource's schema with its rules compiled.
#[derive(Debug)]
pub struct Compiled {
    schema: Schema,
    rules: RuleTable,
    warnings: Vec<String>,
    /// Whether any list is a set or keyed, and any object embedded: most schemas have neither.
    has_identities: bool,
    has_embedded: bool,
}

impl Compiled {
    /// Compiles an `openAPIV3Schema`; fails only on what no object could be judged by.
    pub fn from_crd_version(schema: &Value) -> Result<Compiled, Vec<FieldError>> {
        let schema = Schema::from_openapi(schema).map_err(|error| {
            vec![FieldError::invalid("openAPIV3Schema", "".into(), error.to_string())]
        })?;
        let (rules, broken) = RuleTable::compile(&schema);
        let mut errors = Vec::new();
        let mut warnings = Vec::new();
        for rule in broken {
            let text = schema.arena.nodes[rule.node as usize].checks.as_deref();
            let text = text.and_then(|c| c.rules.get(rule.index)).map_or("", |r| &r.rule);
            match rule.defect {
                Defect::Missing(functions) => warnings.push(format!(
                    "validation rule is not checked, because this server has no function {}: {text}",
                    functions.join(", ")
                )),
                Defect::Rule(why) | Defect::Message(why) => {
                    let path = format!("openAPIV3Schema.x-kubernetes-validations[{}].rule", rule.index);
                    errors.push(FieldError::invalid(path, text.into(), why));
                }
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let nodes = &schema.arena.nodes;
        let has_identities =
            nodes.iter().any(|n| matches!(n.list_type, Some(ListType::Set | ListType::Map(_))));
        let has_embedded = nodes.iter().any(|n| n.embedded_resource);
        Ok(Self { schema, rules, warnings, has_identities, has_embedded })
    }

    /// The schema itself, for patches and server-side apply.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// What the author of the CRD should know, such as rules that are not checked here.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Drops what the schema does not know, and nulls where it allows none.
    pub fn prune(&self, object: &mut Value) {
        prune_resource(object, self.schema.root());
    }

    /// Drops nulls where the schema allows none, from an object without
    /// [unknown fields](Self::unknown_fields).
    pub fn drop_nulls(&self, object: &mut Value) {
        drop_nulls(object, Some(self.schema.root()), 0);
    }

    /// Names what the schema does not know, as `unknown field "spec.foo"`.
    pub fn unknown_fields(&self, object: &Value) -> Vec<String> {
        unknown_in_resource(object, self.schema.root())
    }

    /// Fills in defaults.
    pub fn apply_defaults(&self, object: &mut Value) {
        self.schema.apply_defaults(object);
    }

    /// Everything wrong with `new`; on update, findings about unchanged parts are forgiven.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = structure(new, old, self.schema.root(), &Path::Root);
        if self.has_embedded {
            errors.extend(embedded_objects(new, self.schema.root()));
        }
        self.finish(errors, new, old)
    }

    /// As [`validate`](Self::validate) for a write to the status subresource: the structure
    /// of the status alone, and every rule.
    pub fn validate_status(&self, new: &Value, old: &Value) -> Vec<FieldError> {
        let status = Path::Field(&Path::Root, "status");
        let errors = match (new.get("status"), self.schema.root().field("status")) {
            (Some(value), Some(node)) => structure(value, old.get("status"), node, &status),
            _ => Vec::new(),
        };
        self.finish(errors, new, Some(old))
    }

    fn finish(
        &self,
        mut errors: Vec<FieldError>,
        new: &Value,
        old: Option<&Value>,
    ) -> Vec<FieldError> {
        if self.has_identities {
            let root = self.schema.root();
            let repeated = duplicates(new, root);
            if !repeated.is_empty() && old.is_none_or(|old| duplicates(old, root).is_empty()) {
                errors.extend(repeated);
            }
        }
        if !errors.iter().any(hides_rules) {
            errors.extend(self.rules.check(&self.schema, new, old, &Path::Root));
        } else if self.rules.is_used() {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            errors.push(FieldError::invalid("<nil>", Value::Null, detail));
        }
        errors
    }
}

/// Findings after which rules would only add noise.
fn hides_rules(error: &FieldError) -> bool {
    matches!(
        error.problem,
        FieldProblem::NotSupported
            | FieldProblem::Required
            | FieldProblem::TooLong
            | FieldProblem::TooMany
            | FieldProblem::TypeInvalid
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_compiled_schema_serves_all_threads() {
        fn shared<T: Send + Sync>(_: &T) {}
        let compiled = Compiled::from_crd_version(&json!({"type": "object"})).unwrap();
        shared(&compiled);
    }

    #[test]
    fn a_status_write_is_judged_by_its_status() {
        let compiled = Compiled::from_crd_version(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}},
            "status": {"type": "object", "properties": {"phase": {"type": "string", "enum": ["A"]}}},
        }}))
        .unwrap();
        let old = json!({"spec": {"n": 0}});
        let new = json!({"spec": {"n": 0}, "status": {"phase": "B"}});
        let found: Vec<String> =
            compiled.validate_status(&new, &old).iter().map(ToString::to_string).collect();
        assert_eq!(found, [r#"status.phase: Unsupported value: "B": supported values: "A""#]);
    }
}
