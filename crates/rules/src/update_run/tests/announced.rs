//! Writes that come later than their promise: said first, so that nothing moves after a run
//! has stopped, whoever is late.

use std::sync::Arc;

use flagship_api::condition::{Conditions, Generation};
use flagship_api::condition_type::binding::ROLLOUT_STARTED;
use flagship_api::staged_update::UpdateRunState::{Run, Stop};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::fixture::{Fixture, both_scopes};
use crate::update_run::{Action, Announced, plan};

fn kinds(actions: &[Action]) -> Vec<&'static str> {
    let kind = |action: &Action| match action {
        Action::AnnounceWrites(_) => "announce",
        Action::Status(_) => "status",
        Action::UpdateBinding(_) => "deliver",
        Action::SignalStart(_) => "signal",
        _ => "other",
    };
    actions.iter().map(kind).collect()
}

fn is_signalled(fixture: &mut Fixture, cluster: &str) -> bool {
    let binding = fixture.binding(cluster);
    binding.status.conditions.is_true_at(ROLLOUT_STARTED, Generation(binding.generation))
}

/// The scheduler rewrites the binding of m2, which one run has brought to its version.
fn rewritten(fixture: &mut Fixture) {
    fixture.edit("m2", |spec| Arc::make_mut(&mut spec.cluster_decision).reason = "again".into());
}

// law S4: no write to any binding after Stopped until the generation grows
#[test]
fn a_hub_that_is_late_cannot_signal_after_the_run_has_stopped() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.available();
        // One hub sees that m2 works, another that its binding was rewritten since.
        let (earlier, works) = (fixture.seen(run), plan(&fixture.seen(run)));
        rewritten(&mut fixture);
        let (later, again) = (fixture.seen(run), plan(&fixture.seen(run)));
        assert_eq!(kinds(&again.actions), ["announce", "signal"]);
        let mut other_way = fixture.clone();
        fixture.carry_out_late(run, &works, &earlier);
        fixture.set_state(run, Stop);
        fixture.settle(run);
        fixture.available();
        fixture.settle(run);
        assert!(fixture.said(run, "Progressing").starts_with("False UpdateRunStopped"));
        fixture.carry_out_late(run, &again, &later);
        assert!(!is_signalled(&mut fixture, "m2"));
        // The other way round nobody calls m2 finished by what it said before.
        other_way.crash_after = Some(1);
        other_way.carry_out_late(run, &again, &later);
        let mut old = other_way.seen(run);
        old.bindings = earlier.bindings.clone();
        assert_eq!(kinds(&plan(&old).actions), [] as [&str; 0]);
        other_way.carry_out_late(run, &works, &earlier);
        assert!(other_way.told(run).contains("m2: Started=True/ClusterUpdatingStarted\n"));
        other_way.run_to_the_end(run);
        assert!(other_way.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn a_promise_over_the_binding_of_another_run_is_announced_if_it_is_kept_late() {
    both_scopes(|mut fixture| {
        let other = fixture.create("a", "0", Run);
        fixture.settle(other);
        fixture.later(10);
        let run = fixture.create("r", "1", Run);
        // Finalizer, initialized, started: the hub dies before the binding is written.
        fixture.crash_after = Some(3);
        for _ in 0..3 {
            fixture.step(run);
        }
        let late = plan(&fixture.seen(run));
        assert_eq!(kinds(&late.actions), ["announce", "deliver", "signal"]);
        // Announced once: who comes after a second crash writes at once.
        fixture.crash_after = Some(1);
        fixture.carry_out(run, &late);
        assert_eq!(kinds(&plan(&fixture.seen(run)).actions), ["deliver", "signal"]);
        fixture.run_to_the_end(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn what_a_crash_left_open_before_the_first_signal_is_done_without_a_word() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        // Dead before the binding is written, and again before its start signal.
        fixture.crash_after = Some(3);
        for _ in 0..3 {
            fixture.step(run);
        }
        fixture.crash_after = Some(1);
        assert_eq!(kinds(&fixture.step(run).actions), ["deliver", "signal"]);
        assert_eq!(kinds(&fixture.step(run).actions), ["signal"]);
        fixture.run_to_the_end(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn a_promise_that_is_kept_at_once_is_not_announced() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        let plans: Vec<_> = (0..3).map(|_| kinds(&fixture.step(run).actions)).collect();
        assert_eq!(plans[2], ["status", "deliver", "signal"]);
        fixture.run_to_the_end(run);
        assert_eq!(fixture.runs[run].announced, Announced::default());
    });
}

#[test]
fn an_announcement_is_read_back_by_its_run_and_by_no_copy_of_it() {
    both_scopes(|mut fixture| {
        let mut announced = Announced::default();
        announced.add(fixture.binding("m2"));
        let stored = |text: String, uid: &str| ObjectMeta {
            uid: Some(uid.to_owned()),
            annotations: Some([("flagship.dev/announced-writes".to_owned(), text)].into()),
            ..ObjectMeta::default()
        };
        let text = announced.to_text("u-1");
        assert_eq!(Announced::by(&stored(text.clone(), "u-1")), announced);
        for (text, uid) in [(text, "u-2"), ("{\"run\": 1}".into(), "u-1"), ("[".into(), "u-1")] {
            assert_eq!(Announced::by(&stored(text, uid)), Announced::default());
        }
        assert!(!announced.is_ahead_of(fixture.binding("m2")));
        fixture.binding("m2").generation -= 1;
        assert!(announced.is_ahead_of(fixture.binding("m2")));
    });
}
