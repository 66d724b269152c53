//! Small families of objects, and who goes, who stays, who waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;

struct Served;

impl Kinds for Served {
    fn is_namespaced(&self, _: &str, kind: &str) -> Option<bool> {
        match kind {
            "Thing" => Some(true),
            "ClusterThing" => Some(false),
            _ => None,
        }
    }
}

/// `name`, in namespace `default` unless it says `ns/name` or `/name`.
fn thing(place: &str, owners: &[&str]) -> Value {
    let (namespace, name) = place.split_once('/').unwrap_or(("default", place));
    let owner = |text: &&str| {
        let (text, blocks) = text.strip_suffix('!').map_or((*text, false), |t| (t, true));
        let (kind, name) = text.split_once(':').unwrap_or(("Thing", text));
        json!({"apiVersion": "x/v1", "kind": kind, "name": name, "uid": format!("uid-{name}"),
            "blockOwnerDeletion": blocks})
    };
    let owners: Vec<Value> = owners.iter().map(owner).collect();
    json!({"metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}"),
        "ownerReferences": owners}})
}

/// A cluster of things: deletes as the server does, collects until nothing moves.
#[derive(Default)]
struct Family {
    objects: BTreeMap<String, Value>,
    graph: Graph,
    queue: BTreeSet<Uid>,
    said: Vec<String>,
}

impl Family {
    fn of(things: &[Value]) -> Self {
        let mut family = Self::default();
        things.iter().for_each(|t| family.put(t.clone()));
        family
    }

    fn put(&mut self, object: Value) {
        let resource: Arc<str> = "things.x".into();
        self.queue.extend(self.graph.put(Node::of(&resource, &object)));
        self.objects.insert(object.uid().to_owned(), object);
    }

    fn delete(&mut self, name: &str, propagation: Propagation) {
        let uid = format!("uid-{name}");
        let Some(mut object) = self.objects.get(&uid).cloned() else { return };
        let finalizer = match propagation {
            Propagation::Background => None,
            Propagation::Foreground => Some(FOREGROUND),
            Propagation::Orphan => Some(ORPHAN),
        };
        if let Some(finalizer) = finalizer {
            let mut all = object.list("/metadata/finalizers").to_vec();
            if !all.iter().any(|f| f == finalizer) {
                all.push(json!(finalizer));
            }
            set(&mut object, &["metadata", "finalizers"], json!(all));
        }
        set(&mut object, &["metadata", "deletionTimestamp"], json!("now"));
        self.store(object);
    }

    fn store(&mut self, object: Value) {
        if object.is_deleting() && object.list("/metadata/finalizers").is_empty() {
            self.objects.remove(object.uid());
            self.queue.extend(self.graph.remove(object.uid()));
        } else {
            self.put(object);
        }
    }

    fn collect(&mut self) {
        for _ in 0..1_000 {
            let Some(uid) = self.queue.pop_first() else { return };
            let node = self.graph.get(&uid).cloned();
            let owners = node.iter().flat_map(|n| n.owners.iter());
            let missing = |o: &&Owner| !self.objects.contains_key(&*o.uid);
            let absent: BTreeSet<Uid> =
                owners.filter(missing).map(|o| Arc::clone(&o.uid)).collect();
            for action in plan(&self.graph, &Served, &uid, &absent).actions {
                match action {
                    Action::Amend { target, amendment } => {
                        let mut object = self.objects[&target.uid].clone();
                        amend_object(&mut object, &amendment);
                        self.store(object);
                    }
                    Action::Delete { target, propagation, .. } => {
                        self.delete(&target.name, propagation);
                    }
                    Action::Say(note) => self.said.push(note.message),
                    other => panic!("{other:?}"),
                }
            }
        }
        panic!("does not end");
    }

    fn left(&self) -> Vec<&str> {
        self.objects.values().map(Fields::name).collect()
    }
}

#[test]
fn dependents_follow_their_owner_down_the_line() {
    let mut family =
        Family::of(&[thing("a", &[]), thing("b", &["a"]), thing("c", &["b"]), thing("d", &[])]);
    family.delete("a", Propagation::Background);
    family.collect();
    assert_eq!(family.left(), ["d"]);
}

#[test]
fn foreground_deletion_holds_the_owner_until_blockers_are_gone() {
    let mut held = thing("c", &["b!"]);
    set(&mut held, &["metadata", "finalizers"], json!(["example.com/hold"]));
    let mut family = Family::of(&[thing("a", &[]), thing("b", &["a!"]), held]);
    family.delete("a", Propagation::Foreground);
    family.collect();
    assert_eq!(family.left(), ["a", "b", "c"], "the finalizer at the bottom holds all");
    let mut free = family.objects["uid-c"].clone();
    drop_finalizer(&mut free, "example.com/hold");
    family.store(free);
    family.collect();
    assert!(family.left().is_empty(), "{:?}", family.left());
}

#[test]
fn a_dependent_that_does_not_block_is_not_waited_for() {
    let mut slow = thing("b", &["a"]);
    set(&mut slow, &["metadata", "finalizers"], json!(["example.com/hold"]));
    let mut family = Family::of(&[thing("a", &[]), slow]);
    family.delete("a", Propagation::Foreground);
    family.collect();
    assert_eq!(family.left(), ["b"]);
    assert!(family.objects["uid-b"].is_deleting());
}

#[test]
fn orphans_lose_their_owner_and_stay() {
    let mut family = Family::of(&[thing("a", &[]), thing("b", &["a", "c"]), thing("c", &[])]);
    family.delete("a", Propagation::Orphan);
    family.collect();
    assert_eq!(family.left(), ["b", "c"]);
    let owners = family.objects["uid-b"].list("/metadata/ownerReferences");
    assert_eq!(owners.iter().map(|o| o.text("/name")).collect::<Vec<_>>(), ["c"]);
}

#[test]
fn one_living_owner_is_enough_and_the_dead_one_is_forgotten() {
    let mut family = Family::of(&[thing("a", &[]), thing("b", &[]), thing("c", &["a", "b"])]);
    family.delete("a", Propagation::Background);
    family.collect();
    assert_eq!(family.left(), ["b", "c"]);
    assert_eq!(family.objects["uid-c"].list("/metadata/ownerReferences").len(), 1);
}

#[test]
fn an_owner_that_never_was_takes_its_dependent_along() {
    let mut family = Family::of(&[thing("b", &["ghost"])]);
    family.collect();
    assert!(family.left().is_empty());
}

#[test]
fn an_owner_of_the_same_name_and_another_uid_is_no_owner() {
    let mut reborn = thing("a", &[]);
    set(&mut reborn, &["metadata", "uid"], json!("uid-a-again"));
    let mut family = Family::of(&[reborn, thing("b", &["a"])]);
    family.collect();
    assert_eq!(family.left(), ["a"]);
}

#[test]
fn a_cluster_scoped_owner_owns_in_every_namespace() {
    let mut family = Family::of(&[
        thing("/root", &[]),
        thing("one/x", &["ClusterThing:root"]),
        thing("two/y", &["ClusterThing:root"]),
    ]);
    family.collect();
    assert_eq!(family.left().len(), 3);
    family.delete("root", Propagation::Background);
    family.collect();
    assert!(family.left().is_empty());
}

#[test]
fn an_owner_in_another_namespace_does_not_count_and_is_reported() {
    let mut family = Family::of(&[thing("one/a", &[]), thing("two/b", &["a"])]);
    family.collect();
    assert_eq!(family.left(), ["a"]);
    assert_eq!(
        family.said,
        [
            "ownerRef [x/v1/Thing, namespace: two, name: a, uid: uid-a] does not exist in namespace \"two\""
        ]
    );
}

#[test]
fn an_unknown_kind_of_owner_keeps_its_dependent() {
    let mut family = Family::of(&[thing("b", &["Mystery:m"])]);
    family.collect();
    assert_eq!(family.left(), ["b"]);
}

#[test]
fn rings_neither_hang_nor_stay() {
    for propagation in [Propagation::Background, Propagation::Foreground] {
        let mut family =
            Family::of(&[thing("a", &["c!"]), thing("b", &["a!"]), thing("c", &["b!"])]);
        family.collect();
        assert_eq!(family.left().len(), 3, "a ring nobody deletes stays");
        family.delete("a", propagation);
        family.collect();
        assert!(family.left().is_empty(), "{propagation:?}: {:?}", family.left());
    }
}

#[test]
fn an_owner_of_itself_goes_when_asked() {
    let mut family = Family::of(&[thing("a", &["a!"])]);
    family.collect();
    family.delete("a", Propagation::Foreground);
    family.collect();
    assert!(family.left().is_empty());
}
