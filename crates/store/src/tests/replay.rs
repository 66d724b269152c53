//! Watching equals listing: whoever applies the events it was given has, at each revision
//! it was promised, exactly the list of that revision.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const RESOURCES: [&str; 2] = ["pods", "works.fleet"];
const PLACES: [&str; 5] = ["a/x", "a/y", "b/x", "b/y", "c/x"];
const APPS: [&str; 2] = ["web", "db"];

#[derive(Debug, Clone)]
enum Step {
    /// Writes, or deletes when there is something and `app` is `None`.
    Write {
        resource: usize,
        place: usize,
        app: Option<usize>,
    },
    /// A client reads some events.
    Read {
        client: usize,
        most: usize,
    },
    /// A client loses its connection and comes back.
    Reconnect {
        client: usize,
    },
    Compact {
        back: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let app = proptest::option::weighted(0.8, 0..APPS.len());
    let step = prop_oneof![
        10 => (0..RESOURCES.len(), 0..PLACES.len(), app)
            .prop_map(|(resource, place, app)| Step::Write { resource, place, app }),
        6 => (0..CLIENTS, 1..8usize).prop_map(|(client, most)| Step::Read { client, most }),
        2 => (0..CLIENTS).prop_map(|client| Step::Reconnect { client }),
        1 => (0..12u64).prop_map(|back| Step::Compact { back }),
    ];
    proptest::collection::vec(step, 1..120)
}

const CLIENTS: usize = 6;

fn filters() -> [Filter; CLIENTS] {
    let within = |scope, selects| Filter { scope, selects };
    [
        within(OwnedScope::All, None),
        within(OwnedScope::All, app("web")),
        within(OwnedScope::Namespace("a".into()), None),
        within(OwnedScope::Namespace("b".into()), app("db")),
        within(OwnedScope::Object(key("a/x")), None),
        within(OwnedScope::Object(key("b/x")), app("web")),
    ]
}

/// What a client has: the lines of the objects it knows, by place.
type Cache = BTreeMap<ObjectKey, String>;

fn cache(snapshot: &Snapshot, filter: &Filter) -> Cache {
    let wanted = snapshot.items.iter().filter(|object| filter.admits(object));
    wanted.map(|object| (object.key.clone(), line(object))).collect()
}

/// Applies one event, checking that it makes sense to somebody who has `cache`.
fn apply(cache: &mut Cache, seen: &WatchEvent) {
    match seen {
        WatchEvent::Added(object) => {
            assert_eq!(cache.insert(object.key.clone(), line(object)), None, "added twice");
        }
        WatchEvent::Modified(object) => {
            let old = cache.insert(object.key.clone(), line(object));
            assert!(old.is_some(), "modified before it was added");
        }
        WatchEvent::Deleted(object) => {
            let old = cache.remove(&object.key).expect("deleted before it was added");
            // The last thing seen, under the revision of the deletion.
            let (text, _) = old.rsplit_once('@').expect("lines end in a revision");
            assert_eq!(line(object), format!("{text}@{}", object.revision));
        }
        WatchEvent::InitialDone(_) => {}
    }
}

/// An informer: lists, watches, resumes, and lists again when it has to.
struct Client {
    resource: &'static str,
    filter: Filter,
    cache: Cache,
    watch: Option<Subscription>,
    relists: u32,
}

impl Client {
    fn connect(&mut self, store: &Store) {
        let resumed = self.watch.take().map(|watch| watch.progress()).filter(|at| *at > 0);
        if let Some(at) = resumed {
            let filter = self.filter.clone();
            match store.watch(self.resource, WatchFrom::After(at), filter) {
                Ok(watch) => return self.watch = Some(watch),
                Err(expired) => assert!(at < expired.oldest, "{expired}"),
            }
        }
        self.relists += 1;
        // Both ways to begin, in turns.
        let from = if self.relists.is_multiple_of(2) {
            let list = store.list(self.resource, self.filter.scope.borrow());
            self.cache = cache(&list, &self.filter);
            WatchFrom::After(list.revision)
        } else {
            self.cache.clear();
            WatchFrom::CurrentThenLive
        };
        let watch = store.watch(self.resource, from, self.filter.clone());
        self.watch = Some(watch.expect("the present can always be watched"));
    }

    fn read(&mut self, store: &Store, past: &BTreeMap<u64, [Snapshot; 2]>, most: usize) {
        for _ in 0..most {
            let Some(watch) = &mut self.watch else { return };
            match watch.next().now_or_never() {
                None => return,
                Some(Some(seen)) => apply(&mut self.cache, &seen),
                Some(None) => {
                    assert_eq!(watch.why_closed(), Some(WatchEnd::Lagged));
                    self.connect(store);
                }
            }
            self.check(past);
        }
    }

    /// The promise of a bookmark: what I have is what was there.
    fn check(&self, past: &BTreeMap<u64, [Snapshot; 2]>) {
        let at = self.watch.as_ref().map_or(0, Subscription::progress);
        if at > 0 {
            let resource = RESOURCES.iter().position(|r| *r == self.resource).unwrap();
            assert_eq!(self.cache, cache(&past[&at][resource], &self.filter), "at {at}");
        }
    }
}

fn run(steps: Vec<Step>) {
    let limits = Limits { history: 12, queue: 5, ..Limits::default() };
    let store = Store::new(Env::simulated(1), limits);
    let snapshots = |store: &Store| RESOURCES.map(|resource| store.list(resource, Scope::All));
    let mut past = BTreeMap::from([(1, snapshots(&store))]);
    let mut clients: Vec<Client> = Vec::new();
    for (at, filter) in filters().into_iter().enumerate() {
        let resource = RESOURCES[at % RESOURCES.len()];
        clients.push(Client { resource, filter, cache: Cache::new(), watch: None, relists: 0 });
    }
    clients.iter_mut().for_each(|client| client.connect(&store));
    for step in steps {
        match step {
            Step::Write { resource, place, app } => {
                let (resource, place) = (RESOURCES[resource], PLACES[place]);
                let there = store.get(resource, &key(place)).is_some();
                match app {
                    Some(app) => drop(store.set(resource, place, APPS[app], store.revision())),
                    None if there => drop(store.unset(resource, place)),
                    None => continue,
                }
                past.insert(store.revision(), snapshots(&store));
            }
            Step::Read { client, most } => clients[client].read(&store, &past, most),
            Step::Reconnect { client } => clients[client].connect(&store),
            Step::Compact { back } => store.compact(None, store.revision().saturating_sub(back)),
        }
        clients.iter().for_each(|client| client.check(&past));
    }
    for client in &mut clients {
        client.read(&store, &past, 1000);
        let list = store.list(client.resource, Scope::All);
        assert_eq!(client.cache, cache(&list, &client.filter), "at the end");
        assert_eq!(client.watch.as_ref().map(Subscription::progress), Some(list.revision));
    }
    replays_equal_lists(&store, &past);
}

/// From every revision still known, to every later one.
fn replays_equal_lists(store: &Store, past: &BTreeMap<u64, [Snapshot; 2]>) {
    for (resource, filter) in RESOURCES.iter().flat_map(|r| filters().map(|filter| (*r, filter))) {
        let at = RESOURCES.iter().position(|r| *r == resource).unwrap();
        let oldest = store.oldest(resource);
        for from in past.keys().filter(|from| **from >= oldest) {
            let then = store.list_at(resource, Scope::All, *from).unwrap();
            let mut known = cache(&then, &filter);
            let watch = store.watch(resource, WatchFrom::After(*from), filter.clone());
            let mut watch = watch.expect("it is still known");
            let mut events = Vec::new();
            while let Some(Some(seen)) = watch.next().now_or_never() {
                events.push(seen);
            }
            assert!(events.is_sorted_by(|a, b| a.revision() < b.revision()));
            let mut events = events.into_iter().peekable();
            for (revision, lists) in past.range(from..) {
                while let Some(seen) = events.next_if(|seen| seen.revision() <= *revision) {
                    apply(&mut known, &seen);
                }
                assert_eq!(known, cache(&lists[at], &filter), "from {from} at {revision}");
            }
            assert!(events.next().is_none());
        }
        let expired = store.watch(resource, WatchFrom::After(oldest.wrapping_sub(1)), filter);
        assert!(oldest == 0 || expired.is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn replaying_a_watch_gives_the_list(steps in steps()) {
        run(steps);
    }
}
