//! Lists that name a label find in a large table what a walk finds.

use proptest::prelude::*;

use super::*;

/// One more than have an index at the same time.
const LABELS: [&str; 5] = ["app", "tier", "zone", "team", "role"];
const VALUES: [&str; 3] = ["a", "b", ""];
const NAMESPACES: [&str; 2] = ["blue", "red"];

#[derive(Debug, Clone)]
enum Step {
    Put { object: usize, labels: Vec<usize> },
    Delete { object: usize },
    List { label: usize, value: usize },
    Forget,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let labels = proptest::collection::vec(0..=VALUES.len(), LABELS.len());
    let step = prop_oneof![
        6 => (0..400usize, labels).prop_map(|(object, labels)| Step::Put { object, labels }),
        3 => (0..400usize).prop_map(|object| Step::Delete { object }),
        6 => (0..LABELS.len(), 0..VALUES.len()).prop_map(|(label, value)| Step::List { label, value }),
        1 => Just(Step::Forget),
    ];
    proptest::collection::vec(step, 1..80)
}

fn place(object: usize) -> String {
    format!("{}/o{object}", NAMESPACES[object % NAMESPACES.len()])
}

/// An object whose labels have the values named; one past the end is no label at all.
fn labelled(object: usize, values: &[usize]) -> Change {
    let pairs = LABELS.iter().zip(values).filter_map(|(label, at)| Some((label, VALUES.get(*at)?)));
    let labels: serde_json::Map<String, Value> =
        pairs.map(|(label, value)| ((*label).to_owned(), json!(value))).collect();
    let key = key(&place(object));
    put(&json!({"metadata": {"namespace": &*key.namespace, "name": &*key.name, "labels": labels}}))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_list_by_label_finds_what_a_walk_finds(steps in steps()) {
        let store = store();
        let fill = || for object in 0..300 {
            let values: Vec<usize> = (0..LABELS.len()).map(|at| (object + at) % 4).collect();
            store.write_over("pods", &place(object), labelled(object, &values));
        };
        fill();
        for step in steps {
            match step {
                Step::Put { object, labels } => {
                    store.write_over("pods", &place(object), labelled(object, &labels));
                }
                Step::Delete { object } => {
                    if store.get("pods", &key(&place(object))).is_some() {
                        store.unset("pods", &place(object));
                    }
                }
                Step::Forget => {
                    store.forget("pods");
                    fill();
                }
                Step::List { label, value } => {
                    let (label, value) = (LABELS[label], VALUES[value]);
                    for within in [Scope::All, Scope::Namespace("red"), Scope::Namespace("re")] {
                        let has = |o: &Arc<Stored>| o.head.labels.get(label) == Some(value);
                        let walked: Vec<_> = store.list("pods", within).items.into_iter().filter(has).collect();
                        let mut found = store.read_labelled("pods", within, (label, value)).items;
                        if store.list("pods", Scope::All).items.len() >= 256 {
                            assert!(found.iter().all(has), "a large table gives only these");
                        }
                        found.retain(has);
                        assert_eq!(found.len(), walked.len());
                        assert!(found.iter().zip(&walked).all(|(a, b)| Arc::ptr_eq(a, b)));
                    }
                }
            }
        }
    }
}
