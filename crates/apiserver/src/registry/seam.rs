//! Until the schema module has its part.
#![allow(missing_docs)]
use serde_json::Value;
use crate::machinery::status::FieldError;
use crate::schema::Schema;
#[derive(Debug)]
pub struct Compiled;
impl Compiled {
    pub fn prune(&self, _: &mut Value) {}
    pub fn apply_defaults(&self, _: &mut Value) {}
    pub fn unknown_fields(&self, _: &Value) -> Vec<String> { Vec::new() }
    pub fn validate(&self, _: &Value, _: Option<&Value>) -> Vec<FieldError> { Vec::new() }
}
pub fn from_crd_version(_: &Value) -> Result<Compiled, Vec<FieldError>> { Ok(Compiled) }
pub fn validate_crd(_: &Value) -> Vec<FieldError> { Vec::new() }
pub fn decode_error(_: &Schema, _: &Value) -> Option<String> { None }
pub fn prune(_: &Schema, _: &mut Value) { }
pub fn unknown_fields(_: &Schema, _: &Value) -> Vec<String> { Vec::new() }
