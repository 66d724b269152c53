//! Stores that were closed, cut off and opened again.

use std::path::PathBuf;

use futures::{FutureExt, StreamExt};
use serde_json::{Value, json};

use super::*;
use crate::{Change, Encoded, Expect, Expired, Filter, Head, ObjectKey, Pairs, Scope, WatchEvent};
use crate::{WatchFrom, Write};

/// A file in a folder of its own.
pub(super) struct Scratch(pub(super) PathBuf);

impl Scratch {
    pub(super) fn new(name: &str) -> Self {
        let name = format!("flagship-durable-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        drop(std::fs::remove_dir_all(&folder));
        std::fs::create_dir(&folder).unwrap();
        Self(folder.join("data.redb"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(self.0.parent().unwrap()));
    }
}

pub(super) fn put(store: &Store, resource: &str, name: &str, version: u64) -> u64 {
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
    assert_eq!(store.revision(), last);
    assert!(put(&store, "pods", "c", 1) > last);
}

/// What a watch of pods from a revision shows at once, as `name version revision`.
fn watched(store: &Store, after: u64) -> Result<Vec<String>, Expired> {
    let mut watch = store.watch("pods", WatchFrom::After(after), Filter::default())?;
    let mut seen = Vec::new();
    while let Some(Some(event)) = watch.next().now_or_never() {
        let (gone, object) = (matches!(event, WatchEvent::Deleted(_)), event.object().unwrap());
        let value: Value = serde_json::from_slice(&object.json).unwrap();
        let sign = if gone { "-" } else { "" };
        seen.push(format!("{sign}{} {} @{}", object.key.name, value["data"], event.revision()));
    }
    Ok(seen)
}

fn remove(store: &Store, name: &str) -> u64 {
    let there = store.get("pods", &ObjectKey::new("default", name)).unwrap();
    let (head, json) = (there.head.clone(), Encoded::stored(&there.json));
    let (key, expect) = (there.key.clone(), Expect::At(there.revision));
    let (resource, change) = ("pods".into(), Change::Delete { head, json });
    store.commit(Write { resource: &resource, key, expect, change }).unwrap().revision
}

#[tokio::test]
async fn a_watch_goes_on_after_a_restart_and_after_a_kill() {
    let (scratch, cut) = (Scratch::new("log"), Scratch::new("log-cut"));
    let all = ["a 1 @2", "b 1 @3", "a 2 @4", "-b 1 @5"];
    {
        let store = opened(&scratch, "hub");
        put(&store, "pods", "a", 1);
        put(&store, "pods", "b", 1);
        put(&store, "pods", "a", 2);
        store.settled(remove(&store, "b")).await.unwrap();
        assert_eq!(watched(&store, 1).unwrap(), all);
        // As a kill leaves it.
        std::fs::copy(&scratch.0, &cut.0).unwrap();
        std::fs::copy(mark::place(&scratch.0), mark::place(&cut.0)).unwrap();
    }
    for file in [&scratch, &cut] {
        for _ in 0..2 {
            let store = opened(file, "hub");
            assert_eq!(watched(&store, 1).unwrap(), all);
            assert_eq!(watched(&store, 3).unwrap(), all[2..]);
            assert_eq!(watched(&store, 0).unwrap_err(), Expired { asked: 0, oldest: 1 });
            let then = store.list_at("pods", Scope::All, 3).unwrap();
            assert_eq!(then.items.len(), 2);
        }
        let store = opened(file, "hub");
        store.settled(put(&store, "pods", "c", 1)).await.unwrap();
        assert_eq!(watched(&store, 4).unwrap(), ["-b 1 @5", "c 1 @6"]);
    }
}

#[tokio::test]
async fn a_copy_that_may_be_older_hands_out_no_revision_again() {
    let (scratch, copy) = (Scratch::new("newer"), Scratch::new("older"));
    let store = opened(&scratch, "hub");
    store.settled(put(&store, "pods", "a", 1)).await.unwrap();
    std::fs::copy(&scratch.0, &copy.0).unwrap();
    let seen = put(&store, "pods", "a", 2);
    store.settled(seen).await.unwrap();
    let store = opened(&copy, "hub");
    assert!(store.revision() > seen);
    assert!(watched(&store, seen).is_err(), "it does not know what became of it");
    let made = put(&store, "pods", "b", 1);
    store.settled(made).await.unwrap();
    drop(store);
    let store = opened(&copy, "hub");
    assert_eq!(watched(&store, made - 1).unwrap(), [format!("b 1 @{made}")]);
}

#[tokio::test]
async fn the_log_is_bounded_and_quiet_resources_keep_their_past() {
    let scratch = Scratch::new("bounded");
    let limits = Limits { log: 4, ..Limits::default() };
    let opened = || {
        let durable = Durable::open(&scratch.0).unwrap();
        durable.store("hub", Env::simulated(1), limits.clone()).unwrap()
    };
    {
        let store = opened();
        put(&store, "quiet", "a", 1);
        for version in 1..9 {
            // Batches of one, so that entries of before are dropped, too.
            store.settled(put(&store, "pods", "a", version)).await.unwrap();
        }
        put(&store, "widgets", "a", 1);
        store.forget("widgets");
        store.settled(put(&store, "pods", "b", 1)).await.unwrap();
    }
    for _ in 0..2 {
        let store = opened();
        assert_eq!(store.revision(), 12);
        assert_eq!(watched(&store, 8).unwrap(), ["a 7 @9", "a 8 @10", "b 1 @12"]);
        assert_eq!(watched(&store, 7).unwrap_err(), Expired { asked: 7, oldest: 8 });
        let watch =
            |resource, after| store.watch(resource, WatchFrom::After(after), Filter::default());
        assert!(watch("quiet", 2).is_ok() && watch("quiet", 1).is_err());
        assert!(watch("widgets", 10).is_err() && watch("widgets", 11).is_ok());
    }
}

#[tokio::test]
async fn the_file_gets_smaller_again() {
    let scratch = Scratch::new("compact");
    let durable = Durable::open(&scratch.0).unwrap();
    let limits = Limits { log: 0, ..Limits::default() };
    let store = durable.store("hub", Env::simulated(1), limits).unwrap();
    let large = json!({"metadata": {"name": "a"}, "data": "x".repeat(100_000)});
    let write = |name: String, there: Option<Arc<crate::Stored>>| {
        let (head, json) = (Head::of(&large, Pairs::default()), Encoded::new(&large));
        let (change, expect) = match there {
            None => (Change::Put { head, json }, Expect::Absent),
            Some(there) => (Change::Delete { head, json }, Expect::At(there.revision)),
        };
        let (resource, key) = ("pods".into(), ObjectKey::new("default", name));
        store.commit(Write { resource: &resource, key, expect, change }).unwrap()
    };
    let all: Vec<_> = (0..200).map(|n| write(format!("p{n}"), None)).collect();
    durable.flush().unwrap();
    let largest = durable.size();
    assert!(largest > 20_000_000);
    // One that was written late stays: what is free lies before it.
    let (_late, early) = all.split_last().unwrap();
    for stored in early {
        write(stored.key.name.to_string(), Some(stored.clone()));
    }
    // The writer may have compacted in the midst of the deletions, and does so again only
    // after it has written as much as the file is long.
    store.settled(write("last".to_owned(), None).revision).await.unwrap();
    for n in 0..400 {
        if durable.size() < largest / 2 {
            break;
        }
        let stored = write(format!("more{n}"), None);
        store.settled(write(stored.key.name.to_string(), Some(stored)).revision).await.unwrap();
    }
    durable.flush().unwrap();
    assert!(durable.size() < largest / 2, "{} of {largest}", durable.size());
    drop((store, durable));
    assert_eq!(opened(&scratch, "hub").list("pods", Scope::All).items.len(), 2);
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

#[tokio::test]
async fn a_file_of_the_first_form_is_opened_and_written_anew() {
    let scratch = Scratch::new("first-form");
    let key = record::key("hub", "pods", &ObjectKey::new("default", "a"));
    let fields = br#"[["status.phase","Running"]]"#;
    let object = br#"{"metadata":{"name":"a","resourceVersion":"7"},"data":1}"#;
    let length = (fields.len() as u32).to_le_bytes();
    let value = [&7_u64.to_le_bytes()[..], &length, fields, object].concat();
    {
        let database = redb::Database::create(&scratch.0).unwrap();
        let writing = database.begin_write().unwrap();
        let mut objects = writing.open_table(OLD_OBJECTS).unwrap();
        objects.insert(key.as_slice(), value.as_slice()).unwrap();
        writing.open_table(OLD_CLUSTERS).unwrap().insert("hub", 7).unwrap();
        drop(objects);
        writing.commit().unwrap();
    }
    for _ in 0..2 {
        let durable = Durable::open(&scratch.0).unwrap();
        assert_eq!(durable.clusters().unwrap(), ["hub"]);
        let store = durable.store("hub", Env::simulated(1), Limits::default()).unwrap();
        let pod = store.get("pods", &ObjectKey::new("default", "a")).unwrap();
        assert_eq!(pod.json, object.as_slice());
        assert_eq!((pod.revision, pod.head.fields.get("status.phase")), (7, Some("Running")));
        assert!(store.revision() >= 7 + LONGEST_QUEUE as u64);
    }
    // The version that wrote it does not take it for an empty one.
    let database = redb::Database::open(&scratch.0).unwrap();
    let writing = database.begin_write().unwrap();
    assert!(writing.open_table(OLD_OBJECTS).is_err());
}

#[tokio::test]
async fn an_encrypted_file_is_read_with_its_keys_only() {
    let scratch = Scratch::new("encrypted");
    let holds = |text: &str| {
        let bytes = std::fs::read(&scratch.0).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    let line = |byte: &str| format!("{}=\n", byte.repeat(43));
    let (one, two) = (line("A"), line("E"));
    let opened = |text: &str| match text {
        "" => Durable::open(&scratch.0),
        text => Durable::open_with(&scratch.0, Keys::parse(text).unwrap()),
    };
    let with = |text: &str| opened(text).unwrap();
    let pods = |durable: &Durable| {
        let store = durable.store("hub", Env::simulated(1), Limits::default()).unwrap();
        store.list("pods", Scope::All).items.len()
    };
    {
        let durable = with("");
        let store = durable.store("hub", Env::simulated(1), Limits::default()).unwrap();
        store.settled(put(&store, "pods", "in-the-open", 1)).await.unwrap();
    }
    let open = "\"name\":\"in-the-open\"";
    assert!(holds(open));
    {
        let durable = with(&one);
        assert_eq!(pods(&durable), 1);
        let store = durable.store("hub", Env::simulated(1), Limits::default()).unwrap();
        store.settled(put(&store, "pods", "hidden", 1)).await.unwrap();
    }
    assert!(!holds(open) && !holds("\"hidden\""), "what was there before is sealed, too");
    for wrong in ["", &two] {
        let refusal = opened(wrong).err().unwrap().to_string();
        assert!(refusal.contains("is encrypted with the key "), "{refusal}");
        assert!(refusal.contains("--encryption-key-file"), "{refusal}");
    }
    assert_eq!(pods(&with(&format!("{two}{one}"))), 2);
    assert_eq!(pods(&with(&two)), 2, "the first key of the file sealed it anew");
    assert_eq!(pods(&with(&format!("plain\n{two}"))), 2);
    assert_eq!(pods(&with("")), 2);
    assert!(holds(open));
}

#[test]
fn a_file_appears_whole_or_not_at_all() {
    let scratch = Scratch::new("whole");
    let folder = scratch.0.parent().unwrap();
    drop(Durable::open(&scratch.0).unwrap());
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["data.redb", "data.redb.mark", "data.redb.reserve"]);
    std::fs::write(&scratch.0, "").unwrap();
    let refusal = Durable::open(&scratch.0).err().unwrap().to_string();
    assert!(refusal.contains("it is empty"), "{refusal}");
    // What a maker left who was stopped is in nobody's way.
    std::fs::remove_file(&scratch.0).unwrap();
    std::fs::remove_file(mark::place(&scratch.0)).unwrap();
    std::fs::write(flagship_files::beside(&scratch.0), "half").unwrap();
    drop(Durable::open(&scratch.0).unwrap());
    // Whoever looks while it is made finds none, nor does whoever comes after a failure.
    std::fs::remove_file(&scratch.0).unwrap();
    let failed = file::make(&scratch.0, |_| {
        assert!(!scratch.0.exists(), "half a file has the name");
        Err(Unusable::Closed("stopped".to_owned()))
    });
    assert!(failed.is_err() && !scratch.0.exists());
    assert!(!flagship_files::beside(&scratch.0).exists());
}

// Every page is whole then, and redb finds nothing wrong with it.
#[tokio::test]
async fn a_record_that_is_not_what_was_written_under_its_key_is_refused() {
    let scratch = Scratch::new("swapped");
    let durable = Durable::open(&scratch.0).unwrap();
    let store = durable.store("hub", Env::simulated(1), Limits::default()).unwrap();
    put(&store, "pods", "a", 1);
    store.settled(put(&store, "pods", "b", 2)).await.unwrap();
    durable.close().unwrap();
    drop((store, durable));
    let [a, b] =
        ["a", "b"].map(|name| record::key("hub", "pods", &ObjectKey::new("default", name)));
    {
        let database = redb::Database::open(&scratch.0).unwrap();
        let writing = database.begin_write().unwrap();
        let mut records = writing.open_table(RECORDS).unwrap();
        let of_a = records.get(a.as_slice()).unwrap().unwrap().value().to_vec();
        records.insert(b.as_slice(), of_a.as_slice()).unwrap();
        drop(records);
        writing.commit().unwrap();
    }
    let refusal = Durable::open(&scratch.0).err().unwrap().to_string();
    assert!(refusal.contains("pods default/b of hub does not match its checksum"), "{refusal}");
    assert!(refusal.contains("flagship restore --salvage"), "{refusal}");
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
