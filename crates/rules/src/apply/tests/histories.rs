//! Whatever happened on the way: what a Work brought goes when nobody asks for it.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{Verb, World, config_map, custom, foreign_owner};
use crate::apply::RefusalKind;

/// Something that happens to a Work or to its objects.
#[derive(Debug, Clone)]
enum Event {
    /// These of the three manifests are asked for, in this version.
    Ask { which: u8, version: u8 },
    /// Another strategy.
    Switch(usize),
    /// The member refuses something once.
    Refuse(usize),
    /// The member forgets a kind, or learns of it.
    Forget(bool),
    /// Somebody edits an object.
    Edit(u8),
    /// A pass, cut short after so many writes.
    Pass { writes: usize },
}

/// A wish, now and then something else, and a pass: so that most crashes meet something new.
fn round() -> impl Strategy<Value = Vec<Event>> {
    let ask = (0u8..8, 0u8..3).prop_map(|(which, version)| Event::Ask { which, version });
    let other = prop_oneof![
        (0usize..4).prop_map(Event::Switch),
        (0usize..5).prop_map(Event::Refuse),
        any::<bool>().prop_map(Event::Forget),
        (0u8..3).prop_map(Event::Edit),
    ];
    let pass = prop_oneof![
        (0usize..6).prop_map(|writes| Event::Pass { writes }),
        Just(Event::Pass { writes: usize::MAX }),
    ];
    (ask, proptest::option::of(other), pass).prop_map(|(ask, other, pass)| {
        [Some(ask), other, Some(pass)].into_iter().flatten().collect()
    })
}

fn history() -> impl Strategy<Value = Vec<Event>> {
    vec(round(), 0..6).prop_map(|rounds| rounds.concat())
}

fn manifests(which: u8, version: u8) -> Vec<Value> {
    let data = json!({"v": version.to_string()});
    let mut widget = custom(json!({}));
    widget["data"] = data.clone();
    let all = [config_map("a", data.clone()), config_map("theirs", data), widget];
    let asked = |at: &usize| which & (1 << at) != 0;
    (0..3).filter(asked).map(|at| all[at].clone()).collect()
}

fn happen(world: &mut World, event: &Event) {
    let strategies = [
        json!({}),
        json!({"type": "ServerSideApply"}),
        json!({"whenToApply": "IfNotDrifted", "comparisonOption": "FullComparison"}),
        json!({"type": "ReportDiff"}),
    ];
    let verbs = [Verb::Find, Verb::Create, Verb::Patch, Verb::Apply, Verb::DryRun];
    match event {
        Event::Ask { which, version } => world.manifests(&manifests(*which, *version)),
        Event::Switch(to) => world.strategy(strategies[*to].clone()),
        Event::Refuse(at) => world.refuse(verbs[*at], RefusalKind::Other, "no"),
        Event::Forget(true) => drop(world.kinds.remove("Widget")),
        Event::Forget(false) => drop(world.kinds.insert("Widget", "widgets")),
        Event::Edit(value) => {
            for name in ["ConfigMap a", "Widget w"] {
                if world.member.contains_key(name) {
                    world.edit(name, &json!({"data": {"edited": value.to_string()}}));
                }
            }
        }
        Event::Pass { writes } => {
            world.later(1);
            // A comparison keeps no record before it starts, so it is not cut short here.
            world.fuel = if world.terms().only_compares() { usize::MAX } else { *writes };
            world.try_pass();
            world.fuel = usize::MAX;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn nothing_of_ours_stays_and_nothing_of_others_goes(history in history()) {
        let mut world = World::new(json!({}), &[]);
        let mut theirs = config_map("theirs", json!({"v": "mine"}));
        theirs["metadata"]["ownerReferences"] = json!([foreign_owner("them")]);
        world.exists(theirs);
        let before = world.live("ConfigMap theirs").clone();
        for event in &history {
            happen(&mut world, event);
        }
        world.refusals.clear();
        world.kinds.insert("Widget", "widgets");
        world.strategy(json!({}));
        world.manifests(&[]);
        world.pass();
        prop_assert_eq!(world.member.keys().collect::<Vec<_>>(), ["ConfigMap theirs"]);
        prop_assert_eq!(world.live("ConfigMap theirs"), &before);
        prop_assert_eq!(&world.applied.applied_resources, &vec![]);
    }

    #[test]
    fn every_history_ends_where_its_last_wish_does(history in history()) {
        let mut world = World::new(json!({}), &[]);
        for event in &history {
            happen(&mut world, event);
        }
        world.refusals.clear();
        world.kinds.insert("Widget", "widgets");
        world.strategy(json!({}));
        world.manifests(&manifests(5, 9));
        world.pass();
        world.pass();
        prop_assert_eq!(world.reasons(), ["Applied", "Applied"]);
        for name in ["ConfigMap a", "Widget w"] {
            prop_assert_eq!(&world.live(name)["data"]["v"], &json!("9"));
        }
        let (said, reports) = (world.work.status.clone(), world.reports);
        world.later(3600);
        world.pass();
        prop_assert_eq!(world.work.status.clone(), said);
        prop_assert_eq!(world.reports, reports, "a Work at rest is not written");
    }
}
