//! Stories about the store, and what they need to be told shortly.

mod disturbance;
mod durability;
mod labelled;
mod model;
mod paging;
mod racing;
mod replay;
mod watching;

use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use serde_json::{Value, json};

use super::*;

/// A store with a plain environment.
fn store() -> Arc<Store> {
    Store::new(Env::simulated(1), Limits::default())
}

/// A place written as `namespace/name`.
fn key(text: &str) -> ObjectKey {
    let (namespace, name) = text.split_once('/').expect("written with a slash");
    ObjectKey::new(namespace, name)
}

/// An object with one label `app` and some content.
fn object(place: &str, app: &str, content: u64) -> Value {
    let key = key(place);
    let (namespace, name) = (&*key.namespace, &*key.name);
    json!({"metadata": {"namespace": namespace, "name": name, "labels": {"app": app}}, "content": content})
}

fn put(object: &Value) -> Change {
    Change::Put { head: Head::of(object, Pairs::default()), json: Encoded::new(object) }
}

fn delete(object: &Value) -> Change {
    Change::Delete { head: Head::of(object, Pairs::default()), json: Encoded::new(object) }
}

impl Store {
    /// Creates or replaces, whatever is there.
    fn set(&self, resource: &str, place: &str, app: &str, content: u64) -> Arc<Stored> {
        self.write_over(resource, place, put(&object(place, app, content)))
    }

    /// Removes what is there.
    fn unset(&self, resource: &str, place: &str) -> Arc<Stored> {
        let there = self.get(resource, &key(place)).expect("it is there");
        let value: Value = serde_json::from_slice(&there.json).expect("what is stored is JSON");
        self.write_over(resource, place, delete(&value))
    }

    fn write_over(&self, resource: &str, place: &str, change: Change) -> Arc<Stored> {
        let key = key(place);
        let there = self.get(resource, &key);
        let expect = there.map_or(Expect::Absent, |there| Expect::At(there.revision));
        let resource = &resource.into();
        self.commit(Write { resource, key, expect, change }).expect("nobody else writes")
    }
}

/// Matches one value of the label `app`.
fn app(wanted: &'static str) -> Option<Selects> {
    Some(Arc::new(move |_, head| head.labels.get("app") == Some(wanted)))
}

/// An object as `namespace/name app=content @revision`, all read from its bytes.
fn line(object: &Stored) -> String {
    let value: Value = serde_json::from_slice(&object.json).expect("what is stored is JSON");
    let meta = &value["metadata"];
    let text = |of: &Value| of.as_str().expect("a string").to_owned();
    format!(
        "{}/{} {}={} @{}",
        text(&meta["namespace"]),
        text(&meta["name"]),
        text(&meta["labels"]["app"]),
        value["content"],
        text(&meta["resourceVersion"]),
    )
}

/// What a watch has to say right now, one line an event.
fn drain(watch: &mut Subscription) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(Some(seen)) = watch.next().now_or_never() {
        lines.push(match &seen {
            WatchEvent::Added(object) => format!("+ {}", line(object)),
            WatchEvent::Modified(object) => format!("~ {}", line(object)),
            WatchEvent::Deleted(object) => format!("- {}", line(object)),
            WatchEvent::InitialDone(revision) => format!("= @{revision}"),
        });
    }
    lines
}

fn lines(snapshot: &Snapshot) -> Vec<String> {
    snapshot.items.iter().map(|object| line(object)).collect()
}
