//! Whatever happened on the way: what a Work brought goes when nobody asks for it.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{Fixture, Verb, config_map, custom, foreign_owner};
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

fn happen(fixture: &mut Fixture, event: &Event) {
    let strategies = [
        json!({}),
        json!({"type": "ServerSideApply"}),
        json!({"whenToApply": "IfNotDrifted", "comparisonOption": "FullComparison"}),
        json!({"type": "ReportDiff"}),
    ];
    let verbs = [Verb::Find, Verb::Create, Verb::Patch, Verb::Apply, Verb::DryRun];
    match event {
        Event::Ask { which, version } => fixture.manifests(&manifests(*which, *version)),
        Event::Switch(to) => fixture.strategy(strategies[*to].clone()),
        Event::Refuse(at) => fixture.refuse(verbs[*at], RefusalKind::Other, "no"),
        Event::Forget(true) => drop(fixture.kinds.remove("Widget")),
        Event::Forget(false) => drop(fixture.kinds.insert("Widget", "widgets")),
        Event::Edit(value) => {
            for name in ["ConfigMap a", "Widget w"] {
                if fixture.member.contains_key(name) {
                    fixture.edit(name, &json!({"data": {"edited": value.to_string()}}));
                }
            }
        }
        Event::Pass { writes } => {
            fixture.later(1);
            // A comparison keeps no record before it starts, so it is not cut short here.
            fixture.fuel = if fixture.terms().only_compares() { usize::MAX } else { *writes };
            fixture.try_pass();
            fixture.fuel = usize::MAX;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn nothing_of_ours_stays_and_nothing_of_others_goes(history in history()) {
        let mut fixture = Fixture::new(json!({}), &[]);
        let mut theirs = config_map("theirs", json!({"v": "mine"}));
        theirs["metadata"]["ownerReferences"] = json!([foreign_owner("them")]);
        fixture.exists(theirs);
        let before = fixture.live("ConfigMap theirs").clone();
        for event in &history {
            happen(&mut fixture, event);
        }
        fixture.refusals.clear();
        fixture.kinds.insert("Widget", "widgets");
        fixture.strategy(json!({}));
        fixture.manifests(&[]);
        fixture.pass();
        prop_assert_eq!(fixture.member.keys().collect::<Vec<_>>(), ["ConfigMap theirs"]);
        prop_assert_eq!(fixture.live("ConfigMap theirs"), &before);
        prop_assert_eq!(&fixture.applied.applied_resources, &vec![]);
    }

    #[test]
    fn every_history_ends_where_its_last_wish_does(history in history()) {
        let mut fixture = Fixture::new(json!({}), &[]);
        for event in &history {
            happen(&mut fixture, event);
        }
        fixture.refusals.clear();
        fixture.kinds.insert("Widget", "widgets");
        fixture.strategy(json!({}));
        fixture.manifests(&manifests(5, 9));
        fixture.pass();
        fixture.pass();
        prop_assert_eq!(fixture.reasons(), ["Applied", "Applied"]);
        for name in ["ConfigMap a", "Widget w"] {
            prop_assert_eq!(&fixture.live(name)["data"]["v"], &json!("9"));
        }
        let (said, reports) = (fixture.work.status.clone(), fixture.reports);
        fixture.later(3600);
        fixture.pass();
        prop_assert_eq!(fixture.work.status.clone(), said);
        prop_assert_eq!(fixture.reports, reports, "a Work at rest is not written");
    }
}
