//! An override changes what an object says, never which object it is.
//!
//! Everything that was decided about an object was decided by its name: who may write it on
//! the hub, which placement selects it, in which namespace of a member it may stand.

use flagship_base::go_number::quoted;
use serde_json::Value;

const FIELDS: [&str; 4] = ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"];

/// Which of the fields that name an object an override would change, and to what.
pub fn changes(was: &Value, is: &Value) -> Vec<String> {
    let change = |pointer: &str| {
        let (was, is) = (there(was, pointer), there(is, pointer));
        let field = pointer.trim_start_matches('/').replace('/', ".");
        (was != is).then(|| {
            format!(
                "{field} would change from {} to {}, which no override may do",
                told(was),
                told(is)
            )
        })
    };
    FIELDS.into_iter().filter_map(change).collect()
}

/// An empty text and null name nothing.
fn there<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    object.pointer(pointer).filter(|value| !value.is_null() && **value != "")
}

fn told(value: Option<&Value>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(Value::String(text)) => quoted(text),
        Some(_) => "what is no text".to_owned(),
    }
}
