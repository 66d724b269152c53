use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::update::without_managed;
use super::*;
use flagship_patch::arbitrary::{object, value};

const MANAGERS: [&str; 3] = ["a", "b", "c"];

/// Small Deployments that collide often. One field is in all of them: an object without
/// any owner is not tracked at all.
fn config() -> impl Strategy<Value = Value> {
    let number = (0i64..3).prop_map(Value::from);
    let image = prop::sample::select(vec!["x:1", "x:2"]);
    let port = (80i64..82, any::<bool>()).prop_map(|(n, udp)| {
        if udp {
            json!({"containerPort": n, "protocol": "UDP"})
        } else {
            json!({"containerPort": n})
        }
    });
    let container =
        (prop::option::of(image), btree_map(80i64..82, port, 0..2)).prop_map(|(image, ports)| {
            let mut container = json!({});
            if let Some(image) = image {
                container["image"] = image.into();
            }
            let ports: Vec<Value> = ports
                .into_iter()
                .map(|(n, mut p)| {
                    p["containerPort"] = n.into();
                    p
                })
                .collect();
            if !ports.is_empty() {
                container["ports"] = ports.into();
            }
            container
        });
    let name = prop::sample::select(vec!["p", "q", "r"]);
    let labels =
        btree_map(name.clone(), number.clone().prop_map(|n| Value::from(n.to_string())), 0..3);
    let finalizers = prop::sample::subsequence(vec!["f/1", "f/2", "f/3"], 0..3);
    let containers = btree_map(name, container, 0..3);
    (prop::option::of(number), labels, finalizers, containers, any::<bool>()).prop_map(
        |(replicas, labels, finalizers, containers, flip)| {
            let mut config = json!({"metadata": {"name": "web"}, "spec": {"paused": true}});
            if let Some(replicas) = replicas {
                config["spec"]["replicas"] = replicas;
            }
            if !labels.is_empty() {
                config["metadata"]["labels"] =
                    labels.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
            }
            if !finalizers.is_empty() {
                config["metadata"]["finalizers"] = finalizers.into();
            }
            let mut list: Vec<Value> = containers
                .into_iter()
                .map(|(name, mut c)| {
                    c["name"] = name.into();
                    c
                })
                .collect();
            if flip {
                list.reverse();
            }
            if !list.is_empty() {
                config["spec"]["template"]["spec"]["containers"] = list.into();
            }
            config
        },
    )
}

fn history() -> impl Strategy<Value = Vec<(usize, bool, Value)>> {
    vec((0..3usize, any::<bool>(), config()), 0..6)
}

fn lived(history: &[(usize, bool, Value)]) -> Desk {
    let mut desk = Desk::deployment();
    for (who, update, config) in history {
        if *update && desk.object.is_some() {
            let mut next = config.clone();
            next["metadata"]["managedFields"] = desk.get("/metadata/managedFields");
            desk.put(MANAGERS[*who], next);
        } else {
            desk.force(MANAGERS[*who], config.clone());
        }
    }
    desk
}

/// All owned paths of one manager.
fn owned(desk: &Desk, manager: &str) -> FieldSet {
    let mut all = FieldSet::new();
    for entry in desk.get("/metadata/managedFields").as_array().into_iter().flatten() {
        if entry["manager"] == manager {
            all.union_with(FieldSet::from_value(&entry["fieldsV1"]).unwrap());
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn apply_is_idempotent(history in history(), config in config()) {
        let mut desk = lived(&history);
        desk.force("me", config.clone());
        let once = desk.object.clone();
        prop_assert!(!desk.apply("me", config));
        prop_assert_eq!(desk.object, once);
    }

    #[test]
    fn what_is_applied_is_there_and_owned(history in history(), config in config()) {
        let mut desk = lived(&history);
        desk.force("me", config.clone());
        let set = field_set(&desk.whole(config.clone()), Some(DEPLOYMENT.root()));
        prop_assert_eq!(owned(&desk, "me"), set);
        // Laying it over once more changes nothing: all of it is there already.
        let live = without_managed(&desk.object.clone().unwrap());
        let again = merge::merge(live.clone(), &desk.whole(config), Place::Root(Some(DEPLOYMENT.root())), 0);
        prop_assert_eq!(again, live);
    }

    #[test]
    fn disjoint_managers_commute(one in config(), two in config()) {
        let left = |mut c: Value| { c["metadata"].as_object_mut().unwrap().remove("finalizers"); c["spec"].as_object_mut().unwrap().remove("replicas"); rename(&mut c, "l"); c };
        let right = |mut c: Value| { c["metadata"].as_object_mut().unwrap().remove("labels"); rename(&mut c, "r"); c };
        let (one, two) = (left(one), right(two));
        let (mut first, mut second) = (Desk::deployment(), Desk::deployment());
        first.apply("one", one.clone());
        first.apply("two", two.clone());
        second.apply("two", two);
        second.apply("one", one);
        prop_assert_eq!(owned(&first, "one"), owned(&second, "one"));
        prop_assert_eq!(owned(&first, "two"), owned(&second, "two"));
        let delta = compare(first.object.as_ref().unwrap(), second.object.as_ref().unwrap(), Place::Root(Some(DEPLOYMENT.root())));
        prop_assert_eq!(delta, compare::Delta::default());
    }

    #[test]
    fn letting_go_of_everything_removes_what_nobody_else_owns(history in history(), config in config()) {
        let mut desk = lived(&history);
        desk.force("me", config);
        let others: Vec<FieldSet> = MANAGERS.iter().map(|m| owned(&desk, m)).collect();
        let mine = owned(&desk, "me");
        desk.apply("me", json!({"metadata": {}}));
        prop_assert!(owned(&desk, "me").is_empty());
        let left = field_set(desk.object.as_ref().unwrap(), Some(DEPLOYMENT.root()));
        for path in mine.leaves().paths() {
            let shared = others.iter().any(|set| set.contains(&path));
            if !shared {
                prop_assert!(!left.contains(&path), "{path:?} stayed");
            }
        }
    }

    #[test]
    fn one_of_two_owners_letting_go_keeps_the_field(config in config()) {
        let mut desk = Desk::deployment();
        desk.apply("one", config.clone());
        desk.apply("two", config);
        let both = without_managed(desk.object.as_ref().unwrap());
        desk.apply("one", json!({"metadata": {}}));
        prop_assert_eq!(without_managed(desk.object.as_ref().unwrap()), both);
        prop_assert!(owned(&desk, "one").is_empty());
    }

    #[test]
    fn an_apply_without_force_takes_nothing_from_anybody(history in history(), config in config()) {
        let mut desk = lived(&history);
        let before: Vec<FieldSet> = MANAGERS.iter().map(|m| owned(&desk, m)).collect();
        let old = desk.object.clone();
        match desk.try_apply("me", config, false) {
            Err(ApplyError::Conflicts(found)) => {
                prop_assert!(!found.is_empty());
                prop_assert_eq!(desk.object, old);
            }
            Err(other) => prop_assert!(false, "{other}"),
            Ok(_) => for (manager, before) in MANAGERS.iter().zip(before) {
                prop_assert_eq!(owned(&desk, manager), before);
            },
        }
    }

    #[test]
    fn reordering_a_keyed_list_is_no_change(config in config()) {
        let mut flipped = config.clone();
        if let Some(list) = flipped.pointer_mut("/spec/template/spec/containers") {
            list.as_array_mut().unwrap().reverse();
        }
        let root = Place::Root(Some(DEPLOYMENT.root()));
        prop_assert_eq!(compare(&config, &flipped, root), compare::Delta::default());
        prop_assert_eq!(field_set(&config, Some(DEPLOYMENT.root())), field_set(&flipped, Some(DEPLOYMENT.root())));
    }

    #[test]
    fn every_present_field_has_an_owner(history in history()) {
        let desk = lived(&history);
        let Some(object) = &desk.object else { return Ok(()) };
        let mut all = FieldSet::new();
        MANAGERS.iter().for_each(|m| all.union_with(owned(&desk, m)));
        let present = field_set(object, Some(DEPLOYMENT.root())).leaves();
        prop_assert_eq!(present.difference(&all), FieldSet::new());
    }

    #[test]
    fn arbitrary_json_never_panics(live in value(), applied in object(), entries in value(), force in any::<bool>()) {
        let mut live = live;
        if let Some(metadata) = live.get_mut("metadata").filter(|m| m.is_object()) {
            metadata["managedFields"] = entries.clone();
        }
        let mut desk = Desk::deployment();
        let manager = desk.manager("me");
        let mut applied = applied;
        applied["apiVersion"] = "apps/v1".into();
        for root in [None, Some(DEPLOYMENT.root())] {
            if let Ok(done) = apply(Some(&live), &applied, &manager, force, root) {
                let mut next = applied.clone();
                record_update(Some(&done.object), &mut next, &manager, root);
            }
            let mut new = live.clone();
            record_update(Some(&applied), &mut new, &manager, root);
            drop(FieldSet::from_value(&entries));
        }
    }
}

/// Puts the containers of a configuration into a namespace of their own.
fn rename(config: &mut Value, prefix: &str) {
    let list = config.pointer_mut("/spec/template/spec/containers").and_then(Value::as_array_mut);
    for container in list.into_iter().flatten() {
        container["name"] = format!("{prefix}-{}", container["name"]).into();
    }
}
