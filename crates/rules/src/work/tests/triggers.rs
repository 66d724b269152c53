//! What makes a binding worth another pass.

use flagship_api::condition::{Generation, draft};
use flagship_api::keys::label;
use flagship_api::names::ObjectKey;

use super::fixture::{Fixture, map, now};
use crate::model::Binding;
use crate::work::triggers::{binding_changed, placement_changed, work_appeared, work_changed};
use crate::work::{Placement, Work};

fn binding() -> Binding {
    Binding { name: "web-m1".into(), generation: 2, ..Binding::default() }
}

fn saying(kind: &'static str, generation: i64) -> Binding {
    let mut binding = binding();
    let conditions = &mut binding.status.conditions;
    draft(kind).is_true("Because").set(conditions, Generation(generation), now());
    binding
}

#[test]
fn a_binding_is_looked_at_for_its_spec_and_its_start_signal() {
    let plain = binding();
    assert!(!binding_changed(&plain, &plain));
    assert!(binding_changed(&plain, &Binding { generation: 3, ..binding() }));
    assert!(binding_changed(&plain, &Binding { deleting: true, ..binding() }));
    assert!(binding_changed(&plain, &saying("RolloutStarted", 2)));
    // A word about an older generation starts nothing, and our own words start nothing either.
    assert!(!binding_changed(&plain, &saying("RolloutStarted", 1)));
    assert!(!binding_changed(&plain, &saying("Overridden", 2)));
    assert!(binding_changed(&saying("Overridden", 2), &plain), "somebody wiped the status");
}

#[test]
fn a_work_is_looked_at_for_what_its_member_says_and_what_it_carries() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    let before = Work::read(&fixture.objects["web-work"]);
    let changed =
        |fixture: &Fixture| work_changed(&before, &Work::read(&fixture.objects["web-work"]));
    assert!(!changed(&fixture));
    fixture.tamper("web-work", |meta| meta.generation = Some(2));
    fixture.tamper("web-work", |meta| {
        meta.labels.get_or_insert_default().insert("mine".into(), "x".into());
    });
    assert!(!changed(&fixture), "our own writes come back as this");
    fixture.tamper("web-work", |meta| {
        meta.labels.get_or_insert_default().remove(label::PARENT_RESOURCE_SNAPSHOT_INDEX);
    });
    assert!(changed(&fixture));
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    fixture.all_fine();
    assert!(changed(&fixture));
}

#[test]
fn a_work_that_is_seen_with_its_answer_is_looked_at() {
    let mut fixture = Fixture::cluster_wide().delivered(&[&[map("one", "1")]]);
    let seen = |fixture: &Fixture| work_appeared(&Work::read(&fixture.objects["web-work"]));
    assert!(!seen(&fixture), "nobody has answered it: our own write comes back");
    fixture.all_fine();
    assert!(seen(&fixture));
}

// checklist 12.52
#[test]
fn a_work_belongs_to_the_binding_of_its_own_scope() {
    let wide = Fixture::cluster_wide().delivered(&[&[]]);
    let narrow = Fixture::in_namespace().delivered(&[&[]]);
    let owner = |fixture: &Fixture, name: &str| Work::read(&fixture.objects[name]).owner();
    assert_eq!(owner(&wide, "web-work"), Some(ObjectKey::cluster("web-m1")));
    assert_eq!(owner(&narrow, "app.web-work"), Some(ObjectKey::namespaced("app", "web-m1")));
}

#[test]
fn a_placement_is_looked_at_for_what_it_says_past_its_bindings() {
    let plain = Placement::default();
    let mirror = Placement { report_back: Some(Default::default()), ..Placement::default() };
    let abandoning = Placement { abandons: true, ..Placement::default() };
    assert!(!placement_changed(&plain, &Placement { deleting: true, ..Placement::default() }));
    assert!(placement_changed(&plain, &mirror) && placement_changed(&mirror, &plain));
    assert!(placement_changed(&plain, &abandoning));
}
