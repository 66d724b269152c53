//! Stories of several managers around one object, and laws over arbitrary ones.

mod laws;
mod lists;
mod stories;
mod updates;

use std::sync::LazyLock;

use flagship_base::machinery::status::ApiError;
use flagship_schema::{self as schema, Schema};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;

static DEPLOYMENT: LazyLock<Schema> =
    LazyLock::new(|| schema::builtin("apps", "v1", "Deployment").unwrap());

static CONFIG_MAP: LazyLock<Schema> =
    LazyLock::new(|| schema::builtin("", "v1", "ConfigMap").unwrap());

/// One object and a clock that moves a second with every write.
struct Desk {
    schema: Option<&'static Schema>,
    api_version: &'static str,
    object: Option<Value>,
    seconds: i64,
}

impl Desk {
    fn config_map() -> Self {
        Self { schema: Some(&CONFIG_MAP), api_version: "v1", object: None, seconds: 0 }
    }

    fn deployment() -> Self {
        Self { schema: Some(&DEPLOYMENT), api_version: "apps/v1", object: None, seconds: 0 }
    }

    fn manager<'a>(&mut self, name: &'a str) -> Manager<'a> {
        self.seconds += 1;
        Manager {
            name,
            api_version: self.api_version,
            subresource: "",
            time: Timestamp::from_second(1_767_225_600 + self.seconds).unwrap(),
        }
    }

    fn try_apply(&mut self, name: &str, config: Value, force: bool) -> Result<bool, ApplyError> {
        let manager = self.manager(name);
        let config = self.whole(config);
        let root = self.schema.map(Schema::root);
        let applied = apply(self.object.as_ref(), &config, &manager, force, root)?;
        self.object = Some(applied.object);
        Ok(applied.changed)
    }

    fn apply(&mut self, name: &str, config: Value) -> bool {
        self.try_apply(name, config, false).unwrap()
    }

    fn force(&mut self, name: &str, config: Value) -> bool {
        self.try_apply(name, config, true).unwrap()
    }

    fn conflict(&mut self, name: &str, config: Value) -> String {
        self.try_apply(name, config, false).unwrap_err().to_string()
    }

    /// Creates or replaces all but metadata's system fields.
    fn put(&mut self, name: &str, object: Value) {
        let manager = self.manager(name);
        let mut object = self.whole(object);
        let root = self.schema.map(Schema::root);
        record_update(self.object.as_ref(), &mut object, &manager, root);
        self.object = Some(object);
    }

    /// Changes the object in place, keeping what is not touched.
    fn edit(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.object.clone().unwrap();
        change(&mut object);
        self.put(name, object);
    }

    fn whole(&self, mut object: Value) -> Value {
        object["apiVersion"] = self.api_version.into();
        object["kind"] = if self.api_version == "v1" { "ConfigMap" } else { "Deployment" }.into();
        object["metadata"]["name"] = "web".into();
        object
    }

    fn get(&self, pointer: &str) -> Value {
        self.object.as_ref().and_then(|o| o.pointer(pointer)).cloned().unwrap_or(Value::Null)
    }

    /// One line a manager: name, operation, seconds since the start if it has a time, fields.
    fn owners(&self) -> Vec<String> {
        let entries = self.get("/metadata/managedFields");
        let line = |entry: &Value| {
            let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            let set = FieldSet::from_value(&entry["fieldsV1"]).unwrap();
            let at = match text("time").parse::<Timestamp>() {
                Ok(time) => format!("{}s", time.as_second() - 1_767_225_600),
                Err(_) => "-".to_owned(),
            };
            format!("{} {} {at} {set}", text("manager"), text("operation"))
        };
        entries.as_array().into_iter().flatten().map(line).collect()
    }
}
