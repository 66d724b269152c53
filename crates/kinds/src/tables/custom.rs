//! The columns that a CustomResourceDefinition asks for.

use flagship_base::machinery::jsonpath::{self, JsonPath};
use serde_json::{Value, json};

use super::object::Object;

/// The columns of one version of a custom kind.
#[derive(Debug, Default)]
pub struct Custom(Vec<Column>);

#[derive(Debug)]
struct Column {
    definition: Value,
    kind: Box<str>,
    /// `None` for a path that is not understood: the column stays empty.
    path: Option<JsonPath>,
}

impl Custom {
    /// From `additionalPrinterColumns`; without any, the age.
    pub fn new(columns: &Value) -> Self {
        let listed = columns.as_array().map_or(&[][..], Vec::as_slice);
        if listed.is_empty() {
            let age = json!({
                "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp",
            });
            return Self(vec![column(&age)]);
        }
        Self(listed.iter().map(column).collect())
    }

    pub(super) fn columns(&self) -> Value {
        let name = json!({
            "name": "Name", "type": "string", "format": "name", "description": "", "priority": 0,
        });
        std::iter::once(name).chain(self.0.iter().map(|column| column.definition.clone())).collect()
    }

    pub(super) fn cells(&self, object: &Object<'_>) -> Vec<Value> {
        let cells = self.0.iter().map(|column| column.cell(object));
        std::iter::once(object.name()).chain(cells).collect()
    }
}

fn column(said: &Value) -> Column {
    let text = |key: &str| said[key].as_str().unwrap_or_default();
    let described = match text("description") {
        "" => {
            format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath"))
        }
        own => own.to_owned(),
    };
    let definition = json!({
        "name": text("name"), "type": text("type"), "format": text("format"),
        "description": described, "priority": said["priority"].as_i64().unwrap_or_default(),
    });
    Column { definition, kind: text("type").into(), path: JsonPath::parse(text("jsonPath")).ok() }
}

impl Column {
    fn cell(&self, object: &Object<'_>) -> Value {
        let found = self.path.as_ref().and_then(|path| path.first(object.value));
        let Some(value) = found else { return Value::Null };
        match (&*self.kind, &*value) {
            ("string", value) => json!(jsonpath::print(value)),
            #[expect(clippy::cast_possible_truncation, reason = "Kubernetes cuts it off as well")]
            ("integer", Value::Number(n)) => {
                json!(n.as_i64().or_else(|| n.as_f64().map(|float| float as i64)))
            }
            ("number", Value::Number(n)) => json!(n.as_f64()),
            ("boolean", Value::Bool(_)) => value.into_owned(),
            ("date", Value::String(text)) => match text.parse::<jiff::Timestamp>() {
                Ok(_) => json!(object.ago(&value)),
                Err(_) => json!("<invalid>"),
            },
            _ => Value::Null,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_the_type_of_their_column() {
        let column = |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
        let custom = Custom::new(&json!([
            column("Text", "string", ".spec.text"),
            column("Number as text", "string", ".spec.n"),
            column("Object as text", "string", ".spec.o"),
            column("Integer", "integer", ".spec.n"),
            column("Cut", "integer", ".spec.f"),
            column("Float", "number", ".spec.n"),
            column("Flag", "boolean", ".spec.on"),
            column("Wrong", "boolean", ".spec.n"),
            column("Missing", "string", ".spec.none"),
            column("Since", "date", ".spec.at"),
            column("Not a date", "date", ".spec.text"),
            column("Odd", "string", ".spec["),
        ]));
        let value = json!({"metadata": {"name": "x"}, "spec": {
            "text": "t", "n": 3, "f": 2.9, "o": {"b": 1, "a": [2]}, "on": true,
            "at": "2026-01-01T00:00:00Z",
        }});
        let now = "2026-01-01T00:03:01Z".parse().unwrap();
        let want = json!([
            "x",
            "t",
            "3",
            r#"{"a":[2],"b":1}"#,
            3,
            2,
            3.0,
            true,
            null,
            null,
            "3m1s",
            "<invalid>",
            null
        ]);
        assert_eq!(Value::Array(custom.cells(&Object { value: &value, now })), want);
        assert_eq!(custom.columns().as_array().unwrap().len(), 13);
    }

    #[test]
    fn without_columns_there_is_the_age() {
        let custom = Custom::new(&Value::Null);
        assert_eq!(custom.columns()[1]["name"], "Age");
        assert_eq!(custom.columns()[1]["type"], "date");
    }
}
