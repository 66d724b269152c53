//! What a backend sees, and what a store makes of what it kept.

use std::sync::Mutex;

use futures::future::BoxFuture;

use super::*;

/// Keeps lines; refuses when told to be full. Durable is what [`Lines::flush`] was told.
#[derive(Default)]
struct Lines {
    kept: Mutex<Vec<String>>,
    full: Mutex<bool>,
    publisher: Mutex<Option<Publisher>>,
}

impl Lines {
    fn flush(&self, revision: u64) {
        let publisher = self.publisher.lock().unwrap();
        publisher.as_ref().expect("a store was restored with it").durable(revision);
    }
}

impl Backend for Lines {
    fn append(&self, change: Committed<'_>) -> Result<(), BackendError> {
        if *self.full.lock().unwrap() {
            return Err(BackendError("no space left".to_owned()));
        }
        let Committed { resource, now, before, gone } = change;
        let was = before.map_or_else(String::new, |before| format!(" over @{}", before.revision));
        let minus = if gone { "- " } else { "" };
        self.kept.lock().unwrap().push(format!("{resource} {minus}{}{was}", line(now)));
        Ok(())
    }

    fn forget(&self, resource: &str, revision: u64) {
        self.kept.lock().unwrap().push(format!("{resource} forgotten @{revision}"));
    }

    fn settled(&self, revision: u64) -> BoxFuture<'_, Result<(), BackendError>> {
        self.flush(revision);
        Box::pin(std::future::ready(Ok(())))
    }

    fn publish_to(&self, publisher: Publisher) {
        *self.publisher.lock().unwrap() = Some(publisher);
    }
}

fn restored_with(backend: Arc<dyn Backend>, limits: Limits, past: Past) -> Arc<Store> {
    let kept = kept("a/x", 1, 7);
    Store::restore(Env::simulated(1), limits, backend, [kept], past, 20)
}

fn kept(place: &str, content: u64, revision: u64) -> Restored {
    let value = object(place, "web", content);
    let (resource, key) = ("pods".into(), key(place));
    let (head, json) = (Head::of(&value, Pairs::default()), Encoded::new(&value));
    Restored { resource, key, revision, head, json }
}

fn restored(backend: Arc<dyn Backend>) -> Arc<Store> {
    restored_with(backend, Limits::default(), Past { floor: 20, ..Past::default() })
}

#[test]
fn a_backend_sees_every_change_in_order() {
    let backend = Arc::new(Lines::default());
    let store = restored(backend.clone());
    store.set("pods", "a/x", "web", 2);
    store.set("works", "b/y", "db", 1);
    store.unset("pods", "a/x");
    store.forget("works");
    assert_eq!(
        *backend.kept.lock().unwrap(),
        [
            "pods a/x web=2 @21 over @7",
            "works b/y db=1 @22",
            "pods - a/x web=2 @23 over @21",
            "works forgotten @23",
        ]
    );
    assert_eq!(store.settled(23).now_or_never(), Some(Ok(())));
}

#[test]
fn readers_and_watchers_see_only_what_is_durable() {
    let backend = Arc::new(Lines::default());
    let store = restored(backend.clone());
    let mut watch = store.watch("pods", WatchFrom::Now, Filter::default()).unwrap();
    store.set("pods", "a/x", "web", 2);
    store.set("pods", "b/y", "web", 1);
    store.unset("pods", "a/x");
    let read = |place: &str| store.read("pods", &key(place)).map(|found| line(&found));
    let list = || {
        let found = store.read_list("pods", Scope::All);
        (found.revision, lines(&found))
    };
    let labelled = || lines(&store.read_labelled("pods", Scope::All, ("app", "web")));
    // The last commit is there for whoever writes, and for nobody else.
    assert_eq!(lines(&store.list("pods", Scope::All)), ["b/y web=1 @22"]);
    assert_eq!((store.revision(), store.last_commit()), (20, 23));
    assert_eq!((read("a/x"), read("b/y")), (Some("a/x web=1 @7".to_owned()), None));
    assert_eq!(list(), (20, vec!["a/x web=1 @7".to_owned()]));
    assert_eq!(labelled(), ["a/x web=1 @7"]);
    assert_eq!((drain(&mut watch).len(), watch.progress()), (0, 20));
    assert!(store.list_at("pods", Scope::All, 23).unwrap().revision == 20);
    let mut second = store.watch("pods", WatchFrom::CurrentThenLive, Filter::default()).unwrap();
    assert_eq!(drain(&mut second), ["+ a/x web=1 @7", "= @20"]);
    backend.flush(22);
    assert_eq!(list(), (22, vec!["a/x web=2 @21".to_owned(), "b/y web=1 @22".to_owned()]));
    assert_eq!((read("a/x"), labelled().len()), (Some("a/x web=2 @21".to_owned()), 2));
    let seen = ["~ a/x web=2 @21", "+ b/y web=1 @22"];
    assert_eq!((drain(&mut watch), watch.progress()), (seen.map(str::to_owned).to_vec(), 22));
    assert_eq!(drain(&mut second), seen);
    // One that begins between two commits loses nothing and sees nothing twice.
    let mut third = store.watch("pods", WatchFrom::After(21), Filter::default()).unwrap();
    backend.flush(23);
    assert_eq!(drain(&mut third), ["+ b/y web=1 @22", "- a/x web=2 @23"]);
    assert_eq!(drain(&mut watch), ["- a/x web=2 @23"]);
    assert_eq!((read("a/x"), store.revision()), (None, 23));
}

#[test]
fn a_forgotten_resource_ends_its_watches_after_its_last_events() {
    let backend = Arc::new(Lines::default());
    let store = restored(backend.clone());
    let mut watch = store.watch("pods", WatchFrom::Now, Filter::default()).unwrap();
    store.unset("pods", "a/x");
    store.forget("pods");
    assert_eq!((drain(&mut watch).len(), watch.why_closed()), (0, None));
    backend.flush(21);
    assert_eq!(drain(&mut watch), ["- a/x web=1 @21"]);
    assert_eq!(watch.why_closed(), Some(WatchEnd::Forgotten));
}

#[test]
fn what_is_not_served_yet_is_never_forgotten() {
    let backend = Arc::new(Lines::default());
    let limits = Limits { history: 1, history_total: 0, ..Limits::default() };
    let store = restored_with(backend.clone(), limits, Past { floor: 20, ..Past::default() });
    for content in 2..9 {
        store.set("pods", "a/x", "web", content);
    }
    assert_eq!(lines(&store.read_list("pods", Scope::All)), ["a/x web=1 @7"]);
    backend.flush(25);
    assert_eq!(lines(&store.read_list("pods", Scope::All)), ["a/x web=6 @25"]);
}

#[test]
fn a_restored_store_goes_on_with_the_events_that_were_kept() {
    let event = |revision, place: &str, removed, before| PastEvent {
        revision,
        resource: "pods".into(),
        key: key(place),
        removed,
        before,
    };
    let past = || Past {
        floor: 3,
        floors: BTreeMap::from([("works".into(), 12)]),
        events: vec![
            event(5, "a/x", None, None),
            event(6, "b/y", Some(kept("b/y", 4, 6)), Some(kept("b/y", 4, 2))),
            event(7, "a/x", None, Some(kept("a/x", 0, 5))),
        ],
    };
    let store = restored_with(Arc::new(Lines::default()), Limits::default(), past());
    let watch = |resource, after| store.watch(resource, WatchFrom::After(after), Filter::default());
    let all = ["+ a/x web=0 @5", "- b/y web=4 @6", "~ a/x web=1 @7"];
    assert_eq!(drain(&mut watch("pods", 3).unwrap()), all);
    assert_eq!(drain(&mut watch("pods", 6).unwrap()), all[2..]);
    assert_eq!(watch("pods", 2).unwrap_err(), Expired { asked: 2, oldest: 3 });
    assert!(watch("never-seen", 3).is_ok() && watch("works", 12).is_ok());
    assert_eq!(watch("works", 11).unwrap_err(), Expired { asked: 11, oldest: 12 });
    let then = store.list_at("pods", Scope::All, 5).unwrap();
    assert_eq!(lines(&then), ["a/x web=0 @5", "b/y web=4 @2"]);
    // An event whose object is not what it wrote says nothing, nor does what came before it.
    let strange =
        Past { events: vec![event(5, "a/x", None, None), event(6, "a/x", None, None)], ..past() };
    let store = restored_with(Arc::new(Lines::default()), Limits::default(), strange);
    assert_eq!(store.oldest("pods"), 6);
}

#[test]
fn all_resources_together_keep_no_more_history_than_allowed() {
    let limits = Limits { history_total: 64 << 10, ..Limits::default() };
    let store = Store::new(Env::simulated(1), limits);
    store.set("quiet", "a/x", "web", 1);
    for content in 0..500 {
        store.set("busy", "a/x", "web", content);
        store.set("busier", "a/x", "web", content);
        store.set("busier", "a/y", "web", content);
    }
    let size = store.footprint();
    assert!(size.event_json + size.events * 512 <= 64 << 10, "{size:?}");
    assert!(size.events > 64, "{size:?}");
    assert_eq!(store.oldest("quiet"), 0, "the past of a quiet resource is not what costs");
}

#[test]
fn a_refused_change_has_not_happened() {
    let backend = Arc::new(Lines::default());
    let store = restored(backend.clone());
    let mut watch = store.watch("pods", WatchFrom::Now, Filter::default()).unwrap();
    *backend.full.lock().unwrap() = true;
    let write = Write {
        resource: &"pods".into(),
        key: key("a/x"),
        expect: Expect::At(7),
        change: put(&object("a/x", "web", 2)),
    };
    let error = store.commit(write).unwrap_err();
    assert_eq!(error.to_string(), "the change cannot be stored: no space left");
    assert_eq!(lines(&store.list("pods", Scope::All)), ["a/x web=1 @7"]);
    assert_eq!((store.revision(), drain(&mut watch).len()), (20, 0));
    *backend.full.lock().unwrap() = false;
    assert_eq!(store.set("pods", "a/x", "web", 2).revision, 21);
    assert_eq!(drain(&mut watch).len(), 0, "it is not durable");
}

#[test]
fn a_restored_store_has_its_objects_and_no_past() {
    let store = restored(Arc::new(Lines::default()));
    assert_eq!(lines(&store.list("pods", Scope::All)), ["a/x web=1 @7"]);
    for resource in ["pods", "never-seen"] {
        let watch = |after| store.watch(resource, WatchFrom::After(after), Filter::default());
        assert_eq!(watch(19).unwrap_err(), Expired { asked: 19, oldest: 20 });
        assert!(watch(20).is_ok());
        assert!(store.list_at(resource, Scope::All, 19).is_err());
    }
}
