//! Stores that were closed, cut off and opened again.

use serde_json::{Value, json};

use super::*;
use crate::{Change, Encoded, Expect, Head, ObjectKey, Pairs, Scope, Write};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("flagship-durable-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        drop(std::fs::remove_file(&path));
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

fn put(store: &Store, resource: &str, name: &str, version: u64) -> u64 {
    let object =
        json!({"metadata": {"name": name, "labels": {"n": version.to_string()}}, "data": version});
    let head = Head::of(&object, Pairs::new([("status.phase", "Running")]));
    let key = ObjectKey::new("default", name);
    let change = Change::Put { head, json: Encoded::new(&object) };
    let expect = match store.get(resource, &key) {
        Some(there) => Expect::At(there.revision),
        None => Expect::Absent,
    };
    let resource = resource.into();
    let stored = store.commit(Write { resource: &resource, key, expect, change }).unwrap();
    stored.revision
}

fn opened(scratch: &Scratch, cluster: &str) -> Arc<Store> {
    let durable = Durable::open(&scratch.0).unwrap();
    durable.store(cluster, Env::simulated(1), Limits::default()).unwrap()
}

#[tokio::test]
async fn what_was_acknowledged_is_there_again_and_no_revision_is_used_twice() {
    let scratch = Scratch::new("again");
    let last = {
        let store = opened(&scratch, "hub");
        put(&store, "pods", "a", 1);
        put(&store, "pods", "b", 1);
        let last = put(&store, "pods", "a", 2);
        store.settled(last).await.unwrap();
        last
    };
    let store = opened(&scratch, "hub");
    let pods = store.list("pods", Scope::All).items;
    let names: Vec<&str> = pods.iter().map(|pod| &*pod.key.name).collect();
    assert_eq!(names, ["a", "b"]);
    let read: Value = serde_json::from_slice(&pods[0].json).unwrap();
    assert_eq!(read["data"], 2);
    assert_eq!(read["metadata"]["resourceVersion"], last.to_string());
    assert_eq!(pods[0].head.fields.get("status.phase"), Some("Running"));
    assert_eq!(pods[0].head.labels.get("n"), Some("2"));
    assert!(store.revision() > last);
    assert!(put(&store, "pods", "c", 1) > last);
}

#[tokio::test]
async fn a_file_that_was_closed_is_told_from_one_that_was_cut_off() {
    let (scratch, copy) = (Scratch::new("closed"), Scratch::new("cut"));
    let durable = Durable::open(&scratch.0).unwrap();
    assert!(!durable.was_cut_off(), "there was none before");
    let store = durable.store("hub", Env::simulated(1), Limits::default()).unwrap();
    store.settled(put(&store, "pods", "a", 1)).await.unwrap();
    std::fs::copy(&scratch.0, &copy.0).unwrap();
    // Closed while the store is still there, as a server is when its process ends.
    durable.close().unwrap();
    for (file, cut_off) in [(&scratch, false), (&copy, true)] {
        let durable = Durable::open(&file.0).unwrap();
        assert_eq!(durable.was_cut_off(), cut_off);
        let store = durable.store("hub", Env::simulated(1), Limits::default()).unwrap();
        assert_eq!(store.list("pods", Scope::All).items.len(), 1);
    }
}

#[cfg(unix)]
#[test]
fn the_file_is_its_owners_alone_and_no_link() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let (scratch, link) = (Scratch::new("owner"), Scratch::new("link"));
    drop(Durable::open(&scratch.0).unwrap());
    let mode = std::fs::metadata(&scratch.0).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    symlink(&scratch.0, &link.0).unwrap();
    let refusal = Durable::open(&link.0).err().unwrap().to_string();
    assert!(refusal.contains("it is a link"), "{refusal}");
}

#[tokio::test]
async fn clusters_in_one_file_do_not_see_each_other() {
    let scratch = Scratch::new("apart");
    {
        let durable = Durable::open(&scratch.0).unwrap();
        for cluster in ["hub", "hub2"] {
            let store = durable.store(cluster, Env::simulated(1), Limits::default()).unwrap();
            let last = put(&store, "pods", cluster, 1);
            store.settled(last).await.unwrap();
        }
        assert_eq!(durable.clusters().unwrap(), ["hub", "hub2"]);
    }
    let pods = opened(&scratch, "hub").list("pods", Scope::All).items;
    assert_eq!(pods.iter().map(|pod| &*pod.key.name).collect::<Vec<_>>(), ["hub"]);
}

#[tokio::test]
async fn a_forgotten_resource_stays_forgotten() {
    let scratch = Scratch::new("forget");
    {
        let store = opened(&scratch, "hub");
        put(&store, "widgets.example.com", "a", 1);
        put(&store, "widgets", "b", 1);
        store.forget("widgets.example.com");
        let last = put(&store, "pods", "c", 1);
        store.settled(last).await.unwrap();
    }
    let store = opened(&scratch, "hub");
    assert!(store.list("widgets.example.com", Scope::All).items.is_empty());
    assert_eq!(store.list("widgets", Scope::All).items.len(), 1);
}

#[test]
fn a_damaged_file_is_reported_and_left_alone() {
    let scratch = Scratch::new("damaged");
    std::fs::write(&scratch.0, vec![7; 8192]).unwrap();
    let refusal = Durable::open(&scratch.0).err().unwrap().to_string();
    assert!(refusal.contains("cannot be opened"), "{refusal}");
    assert_eq!(std::fs::read(&scratch.0).unwrap(), vec![7; 8192]);
}

#[test]
fn a_record_that_makes_no_sense_is_named() {
    let key = record::key("hub", "pods", &ObjectKey::new("default", "a"));
    for (value, complaint) in [
        (vec![1, 2], "pods default/a is cut short"),
        ([vec![0; 8], vec![200, 0, 0, 0]].concat(), "pods default/a is cut short"),
    ] {
        assert_eq!(record::read(&key, &value).err().unwrap(), complaint);
    }
    let garbage = [vec![0; 12], b"{".to_vec()].concat();
    assert!(
        record::read(&key, &garbage).err().unwrap().starts_with("pods default/a cannot be read")
    );
    assert_eq!(record::read(b"hub", &[]).err().unwrap(), "the key \"hub\" does not name an object");
}
