//! The differences between two JSON values, as people are shown them.
//!
//! Objects are compared key by key, lists position by position. A path is a JSON pointer; a
//! list that became longer is told with `-` for each new place, as JSON patch does. Only the
//! first hundred differences are kept.

use flagship_api::placement_status::PatchDetail;
use flagship_patch::{MAX_DEPTH, fits, printed};
use serde_json::{Number, Value};

/// Differences that are shown of one object.
pub(super) const MOST_DETAILS: usize = 100;

/// What differs between the hub's value and the member's.
pub(super) fn details(hub: &Value, member: &Value) -> Result<Vec<PatchDetail>, String> {
    if !fits(hub, MAX_DEPTH) || !fits(member, MAX_DEPTH) {
        return Err(format!("an object nests deeper than {MAX_DEPTH} levels"));
    }
    let mut found = Vec::new();
    compare(&mut String::new(), hub, member, &mut found);
    Ok(found)
}

fn compare(path: &mut String, hub: &Value, member: &Value, found: &mut Vec<PatchDetail>) {
    if found.len() >= MOST_DETAILS {
        return;
    }
    match (hub, member) {
        (Value::Object(hub), Value::Object(member)) => {
            let mut names: Vec<&String> = hub.keys().chain(member.keys()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                let step = name.replace('~', "~0").replace('/', "~1");
                below(path, &step, hub.get(name), member.get(name), found);
            }
        }
        (Value::Array(hub), Value::Array(member)) => {
            for (at, gone) in hub.iter().enumerate().skip(member.len()) {
                below(path, &at.to_string(), Some(gone), None, found);
            }
            for (at, (hub, member)) in hub.iter().zip(member).enumerate() {
                below(path, &at.to_string(), Some(hub), Some(member), found);
            }
            for new in member.iter().skip(hub.len()) {
                below(path, "-", None, Some(new), found);
            }
        }
        (Value::Number(hub), Value::Number(member)) if same_number(hub, member) => {}
        (hub, member) if hub == member => {}
        (hub, member) => note(path, Some(hub), Some(member), found),
    }
}

/// Compares one step further down.
fn below(
    path: &mut String,
    step: &str,
    hub: Option<&Value>,
    member: Option<&Value>,
    found: &mut Vec<PatchDetail>,
) {
    let length = path.len();
    path.push('/');
    path.push_str(step);
    match (hub, member) {
        (Some(hub), Some(member)) => compare(path, hub, member, found),
        (hub, member) => note(path, hub, member, found),
    }
    path.truncate(length);
}

fn note(path: &str, hub: Option<&Value>, member: Option<&Value>, found: &mut Vec<PatchDetail>) {
    if found.len() < MOST_DETAILS {
        let text =
            |value: Option<&Value>| value.map(|v| printed(v, usize::MAX)).unwrap_or_default();
        let (value_in_member, value_in_hub) = (text(member), text(hub));
        found.push(PatchDetail { path: path.to_owned(), value_in_member, value_in_hub });
    }
}

/// Whether two numbers are the same, however they are written.
fn same_number(one: &Number, other: &Number) -> bool {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one.as_f64() == other.as_f64(),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}
