//! Several threads at once: every success counts once, every watcher sees it once.

use std::thread;

use super::*;

const WRITERS: u64 = 3;
const WRITES: u64 = 300;

/// Adds one to a shared number, again and again until nobody was faster.
fn increment(store: &Store, place: &str) {
    loop {
        let there = store.get("pods", &key(place));
        let content = there.as_ref().map_or(0, |there| {
            let value: Value = serde_json::from_slice(&there.json).unwrap();
            value["content"].as_u64().unwrap()
        });
        let expect = there.map_or(Expect::Absent, |there| Expect::At(there.revision));
        let change = put(&object(place, "web", content + 1));
        let write = Write { resource: &"pods".into(), key: key(place), expect, change };
        match store.commit(write) {
            Ok(_) => return,
            Err(CommitError::Moved(_) | CommitError::Exists(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn no_write_is_lost_and_no_event_is_missed() {
    let limits = Limits { queue: 5000, ..Limits::default() };
    let store = Store::new(Env::simulated(1), limits);
    let mut watch = store.watch("pods", WatchFrom::CurrentThenLive, Filter::default()).unwrap();
    assert!(matches!(watch.next().await, Some(WatchEvent::InitialDone(1))));
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let store = store.clone();
            thread::spawn(move || {
                for n in 0..WRITES {
                    increment(&store, ["a/x", "b/y"][(n % 2) as usize]);
                }
            })
        })
        .collect();
    let last = 1 + WRITERS * WRITES;
    for expected in 2..=last {
        let seen = watch.next().await.expect("the watch stays open");
        assert_eq!(seen.revision(), expected);
        let progress = watch.progress();
        assert!(progress >= expected && progress <= store.revision());
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let total = WRITERS * WRITES / 2;
    let list = lines(&store.list("pods", Scope::All));
    assert!(list[0].starts_with(&format!("a/x web={total} @")), "{list:?}");
    assert!(list[1].starts_with(&format!("b/y web={total} @")), "{list:?}");
    assert_eq!((store.revision(), watch.progress()), (last, last));
}
