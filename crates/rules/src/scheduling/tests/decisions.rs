//! What is recorded, and when it is written.

use super::fleet::{Fixture, cluster, pick_n, silent};
use crate::scheduling::decision::{MOST_DECISIONS, list};
use crate::scheduling::{Decision, Failure, Score};

fn picked(range: std::ops::Range<usize>) -> Vec<Decision> {
    range.map(|i| Decision::picked(&format!("c{i:04}"), Some(Score::default()))).collect()
}

fn outscored(range: std::ops::Range<usize>) -> Vec<Decision> {
    range.map(|i| Decision::outscored(&format!("c{i:04}"), Score::default())).collect()
}

fn filtered(range: std::ops::Range<usize>) -> Vec<Decision> {
    range.map(|i| Decision::filtered(&format!("c{i:04}"), "no")).collect()
}

// checklist 18.7
#[test]
fn the_list_is_cut_at_its_limits() {
    let rows = [
        ("only selected", list(picked(0..3), vec![], vec![]), 3),
        ("not picked", list(picked(0..3), outscored(3..5), vec![]), 5),
        ("filtered", list(picked(0..3), vec![], filtered(3..6)), 6),
        ("both", list(picked(0..3), outscored(3..5), filtered(5..7)), 7),
        ("over twenty", list(picked(0..3), outscored(3..18), filtered(18..99)), 23),
        ("over twenty not picked", list(vec![], outscored(0..30), filtered(30..40)), 20),
        ("over a thousand", list(picked(0..1200), outscored(1200..1210), vec![]), MOST_DECISIONS),
        (
            "just under a thousand",
            list(picked(0..995), outscored(995..1010), vec![]),
            MOST_DECISIONS,
        ),
    ];
    for (what, listed, want) in rows {
        assert_eq!(listed.len(), want, "{what}");
    }
}

// checklist 18.7
#[test]
fn a_cluster_that_is_listed_already_uses_up_its_place() {
    let listed = list(picked(0..5), vec![], filtered(0..30));
    assert_eq!(listed.len(), 5 + 15);
}

// checklist 18.7
#[test]
fn equal_decisions_in_another_order_are_not_written() {
    let mut fixture = pick_n(2).over(["a", "b", "c"].map(|n| cluster(n, "")));
    fixture.settle();
    fixture.snapshot().status.target_clusters.reverse();
    // Enough is present: why others were not picked is not asked again, nor taken back.
    assert_eq!(fixture.settle().report, None);
    assert_eq!(fixture.seen.snapshot.status.target_clusters.len(), 3);
}

// checklist 18.8
#[test]
fn the_status_is_written_again_when_only_the_generation_changed() {
    let mut fixture = Fixture::new(None).over([cluster("a", "")]);
    fixture.settle();
    assert_eq!(fixture.plan().report, None);
    fixture.snapshot().placement_generation = Some("2".into());
    assert_eq!(fixture.plan().report.unwrap().placement_generation, 2);
}

// checklist 18.7
#[test]
fn selected_and_filtered_clusters_are_listed_once() {
    let mut fixture = Fixture::new(None).over([cluster("a", ""), silent("b", "")]);
    fixture.settle();
    fixture.cluster("a").agent = None;
    let plan = fixture.plan();
    assert_eq!(plan.report, None, "a keeps its decision and is not also listed as filtered");
}

// checklist 18.11
#[test]
fn requeue_only_when_limited_and_the_limit_was_reached() {
    let spread = serde_json::json!({"placementType": "PickN",
        "topologySpreadConstraints": [{"topologyKey": "region"}]});
    let mut fixture =
        Fixture::new(super::fleet::policy(spread)).wanting(2).over([cluster("a", "region=east")]);
    assert!(fixture.step().again, "one of two was picked, so look again");
    let second = fixture.step();
    assert!(!second.again, "nothing was picked: wait for a trigger");
    assert_eq!(second.report.unwrap().verdict.found, 1);
}

#[test]
fn a_policy_that_does_not_say_which_generation_it_answers_is_not_carried_out() {
    for (text, why) in [
        (None, "policy snapshot web-0 has no annotation kubernetes-fleet.io/CRP-generation"),
        (
            Some("x"),
            "annotation kubernetes-fleet.io/CRP-generation of policy snapshot web-0 is not a generation: \"x\"",
        ),
    ] {
        let mut fixture = Fixture::new(None).over([cluster("a", "")]);
        fixture.snapshot().placement_generation = text.map(str::to_owned);
        let plan = fixture.plan();
        assert_eq!(plan.failure, Some(Failure(why.to_owned())));
        assert_eq!((plan.actions.len(), plan.report), (0, None));
    }
}
