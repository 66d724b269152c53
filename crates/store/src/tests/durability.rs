//! What a backend sees, and what a store makes of what it kept.

use std::sync::Mutex;

use futures::future::BoxFuture;

use super::*;

/// Keeps lines; refuses when told to be full.
#[derive(Default)]
struct Lines {
    kept: Mutex<Vec<String>>,
    full: Mutex<bool>,
}

impl Backend for Lines {
    fn append(&self, change: Committed<'_>) -> Result<(), BackendError> {
        if *self.full.lock().unwrap() {
            return Err(BackendError("no space left".to_owned()));
        }
        self.kept.lock().unwrap().push(match change {
            Committed::Put(resource, object) => format!("{resource} {}", line(object)),
            Committed::Deleted(resource, object) => format!("{resource} - {}", line(object)),
        });
        Ok(())
    }

    fn forget(&self, resource: &str, revision: u64) {
        self.kept.lock().unwrap().push(format!("{resource} forgotten @{revision}"));
    }

    fn settled(&self, _: u64) -> BoxFuture<'_, Result<(), BackendError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

fn restored(backend: Arc<dyn Backend>) -> Arc<Store> {
    let value = object("a/x", "web", 1);
    let kept = Restored {
        resource: "pods".into(),
        key: key("a/x"),
        revision: 7,
        head: Head::of(&value, Pairs::default()),
        json: Encoded::new(&value),
    };
    Store::restore(Env::simulated(1), Limits::default(), backend, [kept], 20)
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
        ["pods a/x web=2 @21", "works b/y db=1 @22", "pods - a/x web=2 @23", "works forgotten @23",]
    );
    assert_eq!(store.settled(23).now_or_never(), Some(Ok(())));
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
