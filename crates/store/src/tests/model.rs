//! The store against the simplest thing that could be right: maps, one for each revision.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const RESOURCES: [&str; 2] = ["pods", "works.fleet"];
const PLACES: [&str; 6] = ["/c", "a/x", "a/y", "ab/x", "b/", "b/x"];

/// What a writer believes to stand at a place.
#[derive(Debug, Clone, Copy)]
enum Belief {
    Nothing,
    ConditionStatus,
    /// This many revisions beside the truth.
    Off(u64),
}

#[derive(Debug, Clone)]
enum Step {
    Put { resource: usize, place: usize, belief: Belief, content: u64 },
    Delete { resource: usize, place: usize, belief: Belief },
    Compact { resource: Option<usize>, back: u64 },
    Forget { resource: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let belief = prop_oneof![
        2 => Just(Belief::Nothing),
        6 => Just(Belief::ConditionStatus),
        1 => (1..4u64).prop_map(Belief::Off),
    ];
    let (resource, place) = (0..RESOURCES.len(), 0..PLACES.len());
    let put = (resource.clone(), place.clone(), belief.clone(), 0..100u64);
    let step = prop_oneof![
        12 => put.prop_map(|(resource, place, belief, content)| {
            Step::Put { resource, place, belief, content }
        }),
        4 => (resource.clone(), place, belief).prop_map(|(resource, place, belief)| {
            Step::Delete { resource, place, belief }
        }),
        1 => (proptest::option::of(resource.clone()), 0..20u64)
            .prop_map(|(resource, back)| Step::Compact { resource, back }),
        1 => resource.prop_map(|resource| Step::Forget { resource }),
    ];
    proptest::collection::vec(step, 1..60)
}

type Objects = BTreeMap<(usize, ObjectKey), (u64, u64)>;

struct Model {
    objects: Objects,
    revision: u64,
    /// What stood at each revision.
    past: BTreeMap<u64, Objects>,
    /// Before these nothing is promised.
    floors: [u64; RESOURCES.len()],
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Done(u64),
    Exists(u64),
    Moved(u64),
    Gone,
}

impl Model {
    fn new() -> Self {
        let past = BTreeMap::from([(1, Objects::new())]);
        Self { objects: Objects::new(), revision: 1, past, floors: [0; RESOURCES.len()] }
    }

    fn expectation(&self, at: &(usize, ObjectKey), belief: Belief) -> Expect {
        match (belief, self.objects.get(at)) {
            (Belief::Nothing, _) | (Belief::ConditionStatus, None) => Expect::Absent,
            (Belief::ConditionStatus, Some((revision, _))) => Expect::At(*revision),
            (Belief::Off(by), there) => Expect::At(there.map_or(0, |there| there.0) + by),
        }
    }

    fn write(&mut self, at: (usize, ObjectKey), expect: Expect, content: Option<u64>) -> Outcome {
        match (expect, self.objects.get(&at)) {
            (Expect::Absent, Some((there, _))) => return Outcome::Exists(*there),
            (Expect::At(_), None) => return Outcome::Gone,
            (Expect::At(asked), Some((there, _))) if asked != *there => {
                return Outcome::Moved(*there);
            }
            (Expect::Absent, None) if content.is_none() => return Outcome::Gone,
            _ => {}
        }
        self.revision += 1;
        match content {
            Some(content) => self.objects.insert(at, (self.revision, content)),
            None => self.objects.remove(&at),
        };
        self.past.insert(self.revision, self.objects.clone());
        Outcome::Done(self.revision)
    }

    fn list(objects: &Objects, resource: usize, within: Scope<'_>) -> Vec<String> {
        let rows = objects.iter().filter(|((of, key), _)| *of == resource && within.covers(key));
        rows.map(|((_, key), (revision, content))| {
            format!("{}/{} app={content} @{revision}", key.namespace, key.name)
        })
        .collect()
    }
}

fn run(steps: Vec<Step>) {
    let store = store();
    let mut model = Model::new();
    for step in steps {
        let (resource, place, belief, content) = match step {
            Step::Put { resource, place, belief, content } => {
                (resource, place, belief, Some(content))
            }
            Step::Delete { resource, place, belief } => (resource, place, belief, None),
            Step::Compact { resource, back } => {
                let below = model.revision.saturating_sub(back);
                store.compact(resource.map(|at| RESOURCES[at]), below);
                for at in resource.map_or(0..RESOURCES.len(), |at| at..at + 1) {
                    model.floors[at] = model.floors[at].max(below.saturating_sub(1));
                }
                continue;
            }
            Step::Forget { resource } => {
                if store.oldest(RESOURCES[resource]) > 0
                    || !store.list(RESOURCES[resource], Scope::All).items.is_empty()
                {
                    store.forget(RESOURCES[resource]);
                    model.objects.retain(|(of, _), _| *of != resource);
                    model.past.insert(model.revision, model.objects.clone());
                    model.floors[resource] = store.oldest(RESOURCES[resource]);
                }
                continue;
            }
        };
        let at = (resource, key(PLACES[place]));
        let expect = model.expectation(&at, belief);
        let value = object(PLACES[place], "app", content.unwrap_or_default());
        let change = if content.is_some() { put(&value) } else { delete(&value) };
        let write =
            Write { resource: &RESOURCES[resource].into(), key: at.1.clone(), expect, change };
        let outcome = match store.commit(write) {
            Ok(object) => Outcome::Done(object.revision),
            Err(CommitError::Exists(there)) => Outcome::Exists(there.revision),
            Err(CommitError::Moved(there)) => Outcome::Moved(there.revision),
            Err(CommitError::Gone) => Outcome::Gone,
            Err(CommitError::Refused(error)) => panic!("there is no backend: {error}"),
        };
        assert_eq!(outcome, model.write(at.clone(), expect, content));
        assert_eq!(store.revision(), model.revision);
        let there = store.get(RESOURCES[resource], &at.1);
        assert_eq!(there.map(|there| there.revision), model.objects.get(&at).map(|there| there.0));
    }
    compare(&store, &model);
}

fn compare(store: &Store, model: &Model) {
    let one = key("a/x");
    for (at, resource) in RESOURCES.iter().enumerate() {
        for within in [Scope::All, Scope::Namespace("a"), Scope::Namespace(""), Scope::Object(&one)]
        {
            let now = store.list(resource, within);
            assert_eq!(now.revision, model.revision);
            assert_eq!(lines(&now), Model::list(&model.objects, at, within));
            for (revision, objects) in &model.past {
                match store.list_at(resource, within, *revision) {
                    Ok(then) => {
                        assert!(*revision >= model.floors[at]);
                        assert_eq!(lines(&then), Model::list(objects, at, within), "{revision}");
                    }
                    Err(expired) => {
                        assert!(*revision < model.floors[at], "{expired}");
                        assert_eq!(expired.oldest, model.floors[at]);
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_store_does_what_a_map_does(steps in steps()) {
        run(steps);
    }
}

#[test]
fn deleting_what_is_not_there_is_refused() {
    let write = Write {
        resource: &"pods".into(),
        key: key("a/x"),
        expect: Expect::Absent,
        change: delete(&object("a/x", "web", 1)),
    };
    let store = store();
    assert!(matches!(store.commit(write), Err(CommitError::Gone)));
    assert_eq!(store.revision(), 1);
}

#[test]
fn history_is_bounded_by_count_and_by_bytes() {
    let limits = Limits { history: 4, ..Limits::default() };
    let by_count = Store::new(Env::simulated(1), limits);
    let limits = Limits { history_bytes: 300, ..Limits::default() };
    let by_bytes = Store::new(Env::simulated(1), limits);
    for store in [&by_count, &by_bytes] {
        for content in 0..10 {
            store.set("pods", "a/x", "web", content);
        }
    }
    assert_eq!((by_count.footprint().events, by_count.oldest("pods")), (4, 7));
    let kept = by_bytes.footprint();
    assert!(kept.event_json <= 300 && kept.events >= 2, "{kept:?}");
    assert_eq!(by_bytes.oldest("pods"), 11 - kept.events as u64);
}

#[test]
fn a_body_outlives_the_object_in_the_store() {
    let store = store();
    let body = store.set("pods", "a/x", "web", 1).body();
    let copy = body.clone();
    store.unset("pods", "a/x");
    drop(store);
    assert_eq!(body, copy);
    assert!(body.starts_with(b"{\"content\":1,\"metadata\":"), "{body:?}");
}
