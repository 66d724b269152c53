//! What watches see, and what becomes of those that do not keep up.

use futures::FutureExt;

use super::*;

#[test]
fn an_object_crossing_a_selector_appears_and_vanishes() {
    // before, after, what a watcher of app=web sees; the object changes from content 1 to 2
    let table: [(Option<&str>, Option<&str>, &[&str]); 8] = [
        (None, Some("web"), &["+ a/x web=2 @2"]),
        (None, Some("db"), &[]),
        (Some("web"), Some("web"), &["~ a/x web=2 @3"]),
        (Some("db"), Some("web"), &["+ a/x web=2 @3"]),
        // The old object with the new revision, as Kubernetes' watch cache sends it.
        (Some("web"), Some("db"), &["- a/x web=1 @3"]),
        (Some("db"), Some("db"), &[]),
        (Some("web"), None, &["- a/x web=1 @3"]),
        (Some("db"), None, &[]),
    ];
    for (before, after, expected) in table {
        let store = store();
        if let Some(label) = before {
            store.set("pods", "a/x", label, 1);
        }
        let filter = || Filter { scope: OwnedScope::All, selects: app("web") };
        let from = WatchFrom::After(store.revision());
        let mut live = store.watch("pods", WatchFrom::Now, filter()).unwrap();
        match after {
            Some(label) => store.set("pods", "a/x", label, 2),
            None => store.unset("pods", "a/x"),
        };
        let mut replayed = store.watch("pods", from, filter()).unwrap();
        assert_eq!(drain(&mut live), expected, "live, {before:?} to {after:?}");
        assert_eq!(drain(&mut replayed), expected, "replayed, {before:?} to {after:?}");
    }
}

#[test]
fn a_deletion_is_matched_by_what_was_there_and_shows_the_final_object() {
    let store = store();
    store.set("pods", "a/x", "web", 1);
    let filter = Filter { scope: OwnedScope::All, selects: app("web") };
    let mut watch = store.watch("pods", WatchFrom::Now, filter).unwrap();
    store.write_over("pods", "a/x", delete(&object("a/x", "other", 9)));
    assert_eq!(drain(&mut watch), ["- a/x other=9 @3"]);
}

#[test]
fn a_watch_can_begin_with_what_is_there() {
    let store = store();
    store.set("pods", "b/y", "web", 1);
    store.set("pods", "a/x", "db", 1);
    store.set("pods", "a/z", "web", 1);
    let filter = Filter { scope: OwnedScope::All, selects: app("web") };
    let mut watch = store.watch("pods", WatchFrom::CurrentThenLive, filter).unwrap();
    store.set("pods", "b/y", "web", 2);
    assert_eq!(watch.progress(), 0);
    assert_eq!(drain(&mut watch), ["+ a/z web=1 @4", "+ b/y web=1 @2", "= @4", "~ b/y web=2 @5"]);
    assert_eq!(watch.progress(), 5);
}

#[test]
fn a_watch_sees_its_namespace_or_object_only() {
    let store = store();
    let watch = |scope| store.watch("pods", WatchFrom::Now, Filter::within(scope)).unwrap();
    let mut all = watch(OwnedScope::All);
    let mut namespace = watch(OwnedScope::Namespace("a".into()));
    let mut one = watch(OwnedScope::Object(key("a/x")));
    store.set("pods", "a/x", "web", 1);
    store.set("pods", "a/y", "web", 1);
    store.set("pods", "b/x", "web", 1);
    store.set("services", "a/x", "web", 1);
    assert_eq!(drain(&mut all), ["+ a/x web=1 @2", "+ a/y web=1 @3", "+ b/x web=1 @4"]);
    assert_eq!(drain(&mut namespace), ["+ a/x web=1 @2", "+ a/y web=1 @3"]);
    assert_eq!(drain(&mut one), ["+ a/x web=1 @2"]);
    // All are told how far the cluster is, also by what they do not see.
    assert_eq!([all.progress(), namespace.progress(), one.progress()], [5, 5, 5]);
}

#[test]
fn a_bookmark_never_runs_ahead_of_what_was_read() {
    let store = store();
    let all = || Filter::within(OwnedScope::All);
    let mut watch = store.watch("pods", WatchFrom::Now, all()).unwrap();
    store.set("services", "a/x", "web", 1);
    store.set("pods", "a/x", "web", 1);
    store.set("services", "a/x", "web", 2);
    assert_eq!(watch.progress(), 2);
    drain(&mut watch);
    assert_eq!(watch.progress(), 4);
    let mut late = store.watch("pods", WatchFrom::After(1), all()).unwrap();
    assert_eq!(late.progress(), 1);
    drain(&mut late);
    assert_eq!(late.progress(), 4);
}

#[test]
fn a_watch_from_the_future_waits_for_it() {
    let store = store();
    let from = WatchFrom::After(3);
    let mut watch = store.watch("pods", from, Filter::default()).unwrap();
    store.set("pods", "a/x", "web", 1);
    store.set("pods", "a/x", "web", 2);
    store.set("pods", "a/x", "web", 3);
    assert_eq!(drain(&mut watch), ["~ a/x web=3 @4"]);
}

#[test]
fn a_slow_watcher_is_cut_off_while_the_writer_goes_on() {
    let limits = Limits { queue: 3, ..Limits::default() };
    let store = Store::new(Env::simulated(1), limits);
    let mut slow = store.watch("pods", WatchFrom::Now, Filter::default()).unwrap();
    let mut brisk = store.watch("pods", WatchFrom::Now, Filter::default()).unwrap();
    for content in 1..=5 {
        store.set("pods", "a/x", "web", content);
        assert_eq!(drain(&mut brisk).len(), 1);
    }
    assert_eq!(slow.why_closed(), Some(WatchEnd::Lagged));
    // What it holds has no gap, so it may still be read; resuming loses nothing.
    assert_eq!(drain(&mut slow), ["+ a/x web=1 @2", "~ a/x web=2 @3", "~ a/x web=3 @4"]);
    assert_eq!(slow.next().now_or_never().map(|end| end.is_none()), Some(true));
    assert_eq!(slow.progress(), 4);
    let from = WatchFrom::After(slow.progress());
    let mut again = store.watch("pods", from, Filter::default()).unwrap();
    assert_eq!(drain(&mut again), ["~ a/x web=4 @5", "~ a/x web=5 @6"]);
    assert_eq!(store.footprint().watches, 2, "the one cut off is listed no more");
}

#[test]
fn a_slow_watcher_holds_no_more_bytes_than_history_does() {
    let size = store().set("pods", "a/x", "web", 1).json.len();
    let limits = Limits { history_bytes: 2 * size, ..Limits::default() };
    let store = Store::new(Env::simulated(1), limits);
    let mut slow = store.watch("pods", WatchFrom::Now, Filter::default()).unwrap();
    store.set("pods", "a/x", "web", 1);
    store.set("pods", "a/x", "web", 2);
    assert_eq!(drain(&mut slow).len(), 2, "what has been read counts no more");
    for content in 3..=5 {
        store.set("pods", "a/x", "web", content);
    }
    assert_eq!(slow.why_closed(), Some(WatchEnd::Lagged));
    assert_eq!(drain(&mut slow), ["~ a/x web=3 @4", "~ a/x web=4 @5"]);
    // One event always fits, or its watcher would never get on.
    let mut narrow = store.watch("pods", WatchFrom::Now, Filter::default()).unwrap();
    store.set("pods", "a/x", &"w".repeat(10_000), 6);
    assert_eq!(drain(&mut narrow).len(), 1);
}

#[test]
fn a_forgotten_resource_ends_its_watches_and_its_past() {
    let store = store();
    store.set("pods", "a/x", "web", 1);
    let mut watch = store.watch("pods", WatchFrom::Now, Filter::default()).unwrap();
    let mut other = store.watch("services", WatchFrom::Now, Filter::default()).unwrap();
    store.forget("pods");
    assert_eq!(watch.next().now_or_never().map(|end| end.is_none()), Some(true));
    assert_eq!((watch.why_closed(), other.why_closed()), (Some(WatchEnd::Forgotten), None));
    assert!(store.list("pods", Scope::All).items.is_empty());
    let error = store.watch("pods", WatchFrom::After(1), Filter::default()).unwrap_err();
    assert_eq!(error.to_string(), "too old resource version: 1 (2)");
    store.set("services", "a/x", "web", 1);
    assert_eq!(drain(&mut other), ["+ a/x web=1 @3"]);
}

#[test]
fn dropping_the_store_ends_its_watches() {
    let store = store();
    let mut watch = store.watch("pods", WatchFrom::Now, Filter::default()).unwrap();
    drop(store);
    assert_eq!(watch.next().now_or_never().map(|end| end.is_none()), Some(true));
    assert_eq!(watch.why_closed(), Some(WatchEnd::Closed));
}

#[test]
fn ten_thousand_idle_watches_hear_only_of_their_own() {
    let store = store();
    let mut watches: Vec<_> = (0..10_000)
        .map(|n| {
            let scope = OwnedScope::Namespace(format!("member-{n}").into());
            store.watch("works", WatchFrom::Now, Filter::within(scope)).unwrap()
        })
        .collect();
    store.set("works", "member-77/w", "web", 1);
    let told: Vec<usize> =
        (0..watches.len()).filter(|n| !drain(&mut watches[*n]).is_empty()).collect();
    assert_eq!(told, [77]);
    assert_eq!(store.footprint().watches, 10_000);
    drop(watches);
    assert_eq!(store.footprint().watches, 0);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_reader_is_woken() {
    let store = store();
    let mut watch = store.watch("pods", WatchFrom::Now, Filter::default()).unwrap();
    let reader = tokio::spawn(async move { watch.next().await.map(|seen| seen.revision()) });
    tokio::task::yield_now().await;
    store.set("pods", "a/x", "web", 1);
    assert_eq!(reader.await.unwrap(), Some(2));
}
