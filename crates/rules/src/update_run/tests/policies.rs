//! Stories with freezes and policies, cut at every write.

use flagship_api::condition::ConditionStatus;
use flagship_api::rollout_record::{RecordEntry, What};
use flagship_api::staged_update::UpdateRunState::{Run, Stop};
use serde_json::{Value, json};
use std::sync::Arc;

use super::crashes::survives_policed;
use super::fixture::{Fixture, both_scopes};
use crate::policy::quarantine::Quarantine;
use crate::policy::{Freeze, Policy};
use crate::record::Keep;
use crate::update_run::recorded::without_effect;
use crate::update_run::{Action, Observed, Plan, Waiting, laws, plan};

fn freeze(fixture: &mut Fixture) {
    let object = json!({"metadata": {"name": "stop"}, "spec": {"reason": "incident"}});
    let freeze = Freeze::read(&serde_json::from_value(object).unwrap());
    fixture.policy.freezes.push(Arc::new(freeze));
}

fn policy(spec: Value) -> impl Fn(&mut Fixture) {
    move |fixture| {
        let spec = serde_json::from_value(spec.clone()).unwrap();
        fixture.policy.policies.push(Policy { name: "strict".into(), spec });
    }
}

#[test]
fn a_freeze_in_the_middle_that_is_lifted() {
    survives_policed(
        |fixture| fixture.keep = Keep::All,
        |fixture| {
            let run = fixture.create("r", "1", Run);
            fixture.settle(run);
            freeze(fixture);
            fixture.settle(run);
            assert!(fixture.said(run, "Progressing").starts_with("False UpdateRunFrozen"));
            fixture.later(5);
            fixture.available();
            fixture.settle(run);
            let begun = fixture.snapshots().iter().filter(|held| !held.is_empty()).count();
            assert_eq!(begun, 1);
            fixture.policy.freezes.clear();
            fixture.run_to_the_end(run);
            assert!(fixture.said(run, "Succeeded").starts_with("True"));
        },
    );
}

#[test]
fn a_cluster_that_misses_its_deadline_within_the_budget() {
    let prepare = policy(json!({"failure": {"progressDeadline": "1m", "budget": {"run": 1}}}));
    survives_policed(prepare, |fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.report("Available", ConditionStatus::False);
        fixture.later(61);
        fixture.settle(run);
        assert!(fixture.told(run).contains(
            "m2: Started=True/ClusterUpdatingStarted Succeeded=False/ClusterUpdatingFailed"
        ));
        // The others work at once.
        for _ in 0..4 {
            fixture.available();
            fixture.settle(run);
        }
        assert_eq!(
            fixture.said(run, "Succeeded"),
            "True UpdateRunSucceeded: All stages are completed; failed within the budget: m2"
        );
    });
}

#[test]
fn a_budget_that_is_spent_lets_what_is_under_way_finish_and_starts_nothing() {
    let prepare = policy(json!({"failure": {"progressDeadline": "1m", "then": "Stop"}}));
    survives_policed(prepare, |fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.later(61);
        fixture.settle(run);
        assert_eq!(
            fixture.said(run, "Succeeded"),
            "False UpdateRunFailed: cannot continue the updateRun: the failure budget of stage `canary` is spent, 1 cluster(s) have failed and 0 may: m2 (policy strict)"
        );
        assert_eq!(fixture.snapshots(), ["", "web-1-snapshot", ""]);
    });
}

#[test]
fn a_policy_is_noted_with_the_run_before_its_plan_and_only_then() {
    both_scopes(|mut fixture| {
        policy(json!({"clusters": {"membership": "Frozen"}}))(&mut fixture);
        let run = fixture.create("r", "1", Run);
        fixture.run_to_the_end(run);
        let log = fixture.log.join("\n");
        assert_eq!(log.matches("\"Adopt\"").count(), 1);
        assert!(log.find("\"Adopt\"") < log.find("UpdateRunInitializedSuccessfully"));
        // Whoever edits the policy later changes nothing.
        assert!(fixture.runs[run].keeps_its_clusters());
    });
}

#[test]
fn clusters_come_and_go_under_a_run_that_keeps_its_plan() {
    both_scopes(|mut fixture| {
        policy(json!({"clusters": {"membership": "Frozen"}}))(&mut fixture);
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.join("m4", &[("env", "prod"), ("order", "3")]);
        fixture.bindings.retain(|binding| binding.spec.target_cluster != "m3");
        fixture.run_to_the_end(run);
        assert_eq!(
            fixture.said(run, "Succeeded"),
            "True UpdateRunSucceeded: All stages are completed; skipped: m3"
        );
        assert_eq!(fixture.binding("m4").spec.resource_snapshot_name, "");
    });
}

/// The first version is everywhere, and the second is rolled out under a policy.
fn second_version(fixture: &mut Fixture) -> usize {
    let first = fixture.create("first", "0", Run);
    fixture.run_to_the_end(first);
    fixture.later(5);
    let run = fixture.create("r", "1", Run);
    fixture.settle(run);
    run
}

fn rolls_back() -> impl Fn(&mut Fixture) {
    policy(json!({"failure": {"progressDeadline": "1m", "then": "Rollback"}}))
}

/// The run that was made by a hub.
fn made(fixture: &Fixture, name: &str) -> usize {
    fixture.runs.iter().position(|run| run.name == name).unwrap()
}

#[test]
fn a_run_that_has_spent_its_budget_is_taken_back() {
    survives_policed(rolls_back(), |fixture| {
        let run = second_version(fixture);
        fixture.available();
        fixture.settle(run);
        // m3 is the first of prod and does not come up; m1 is never touched.
        fixture.later(61);
        fixture.settle(run);
        assert_eq!(
            fixture.said(run, "Succeeded"),
            "False UpdateRunFailed: cannot continue the updateRun: the failure budget of stage `prod` is spent, 1 cluster(s) have failed and 0 may: m3 (policy strict); 2 cluster(s) go back to snapshot 0 in update run `r-rollback`, and snapshot 1 is quarantined"
        );
        let back = made(fixture, "r-rollback");
        fixture.settle(back);
        // The last stage first, and nothing of the next one meanwhile.
        assert_eq!(fixture.snapshots(), ["web-0-snapshot", "web-1-snapshot", "web-0-snapshot"]);
        fixture.run_to_the_end(back);
        assert!(fixture.said(back, "Succeeded").starts_with("True"), "{}", fixture.told(back));
        assert_eq!(fixture.snapshots(), ["web-0-snapshot"; 3]);
        let fence = fixture.binding("m1").fence.clone().unwrap();
        assert_eq!(fence.run, fixture.runs[0].uid, "m1 was never touched");
        let stages: Vec<_> =
            fixture.status(back).stages_status.iter().map(|s| s.stage_name.clone()).collect();
        assert_eq!(stages, ["prod", "canary"]);
    });
}

#[test]
fn gates_are_not_asked_again_and_clusters_are_not_more_at_once() {
    both_scopes(|mut fixture| {
        rolls_back()(&mut fixture);
        let approval = json!([{"type": "Approval"}]);
        fixture.strategy =
            Some(super::fixture::strategy(json!([{"name": "all", "labelSelector": {},
            "maxConcurrency": 2, "beforeStageTasks": approval, "afterStageTasks": approval}])));
        let run = second_version(&mut fixture);
        fixture.approve();
        fixture.settle(run);
        fixture.later(61);
        fixture.settle(run);
        let back = made(&fixture, "r-rollback");
        fixture.settle(back);
        let requests = fixture.approvals.iter().filter(|request| request.run == "r-rollback");
        assert_eq!(requests.count(), 0);
        let held = fixture.snapshots().iter().filter(|held| **held == "web-0-snapshot").count();
        assert_eq!(held, 3, "two at once, and the third was never touched");
        let copy = fixture.status(back).staged_update_strategy_snapshot.clone().unwrap();
        assert_eq!(serde_json::to_value(&copy.stages[0].max_concurrency).unwrap(), json!(2));
    });
}

#[test]
fn a_rollback_that_fails_stops_and_is_not_taken_back() {
    survives_policed(rolls_back(), |fixture| {
        let run = second_version(fixture);
        fixture.later(61);
        fixture.settle(run);
        let back = made(fixture, "r-rollback");
        fixture.settle(back);
        fixture.later(61);
        fixture.settle(back);
        let said = fixture.said(back, "Succeeded");
        assert!(said.starts_with("False UpdateRunFailed"), "{said}");
        assert!(said.ends_with("m2 (policy strict)"), "{said}");
        assert_eq!(fixture.runs.len(), 3);
    });
}

#[test]
fn a_first_version_cannot_be_taken_back() {
    both_scopes(|mut fixture| {
        rolls_back()(&mut fixture);
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.later(61);
        fixture.settle(run);
        let said = fixture.said(run, "Succeeded");
        assert!(said.ends_with("; nothing is rolled back: m2 had nothing before"), "{said}");
        assert_eq!(fixture.runs.len(), 1);
    });
}

#[test]
fn a_run_of_the_name_that_somebody_else_made_is_left_alone() {
    both_scopes(|mut fixture| {
        rolls_back()(&mut fixture);
        let run = second_version(&mut fixture);
        fixture.create("r-rollback", "0", Run);
        fixture.later(61);
        fixture.settle(run);
        let said = fixture.said(run, "Succeeded");
        assert!(said.ends_with("; nothing is rolled back: there is an update run `r-rollback` already, which is not its rollback"), "{said}");
    });
}

/// Whoever writes the annotation by hand gets the rollback of the hub, or nothing.
#[test]
fn a_rollback_made_by_hand_must_be_the_one_that_the_hub_would_make() {
    let forge = |fixture: &mut Fixture, name: &str, index: &str, of: &str| {
        let run = fixture.create(name, index, Run);
        fixture.runs[run].rollback_of = Some(of.to_owned());
        fixture.settle(run);
        fixture.said(run, "Initialized")
    };
    both_scopes(|mut fixture| {
        let run = second_version(&mut fixture);
        let uid = fixture.runs[run].uid.clone();
        fixture.run_to_the_end(run);
        for (name, index, of, why) in [
            ("other", "0", uid.as_str(), "there is no update run of that name and UID"),
            ("r-rollback", "0", "uid-of-nobody", "there is no update run of that name and UID"),
            ("r-rollback", "0", uid.as_str(), "no policy wants update run `r` to be rolled back"),
        ] {
            let said = forge(&mut fixture, name, index, of);
            assert!(said.starts_with("False") && said.contains(why), "{said}");
            fixture.runs.pop();
        }
    });
    both_scopes(|mut fixture| {
        rolls_back()(&mut fixture);
        let run = second_version(&mut fixture);
        fixture.later(61);
        fixture.settle(run);
        let uid = fixture.runs[run].uid.clone();
        fixture.runs.pop();
        let said = forge(&mut fixture, "r-rollback", "1", &uid);
        assert!(said.contains("goes back to snapshot 0 of placement `web`"), "{said}");
        fixture.runs.pop();
        let said = forge(&mut fixture, "r-rollback", "0", &uid);
        assert!(said.starts_with("True"), "{said}");
    });
}

#[test]
fn clusters_from_different_versions_go_to_the_newest_that_all_had_succeeded_with() {
    both_scopes(|mut fixture| {
        rolls_back()(&mut fixture);
        fixture.strategy = Some(super::fixture::strategy(
            json!([{"name": "all", "labelSelector": {}, "maxConcurrency": 3}]),
        ));
        let mut third = fixture.resource_snapshots[1].clone();
        (third.name, third.index) = ("web-2-snapshot".into(), Some("2".into()));
        third.hash = Some("h2".into());
        fixture.resource_snapshots.push(third);
        let first = fixture.create("first", "0", Run);
        fixture.run_to_the_end(first);
        fixture.later(5);
        // The second version comes to m1 alone.
        let second = fixture.create("second", "1", Run);
        fixture.runs[second].only = Some(["m1".to_owned()].into());
        fixture.run_to_the_end(second);
        fixture.later(5);
        let third = fixture.create("third", "2", Run);
        fixture.settle(third);
        fixture.later(61);
        fixture.settle(third);
        let said = fixture.said(third, "Succeeded");
        assert!(said.contains("3 cluster(s) go back to snapshot 0"), "{said}");
        let back = made(&fixture, "third-rollback");
        fixture.run_to_the_end(back);
        assert_eq!(fixture.snapshots(), ["web-0-snapshot"; 3]);
    });
}

#[test]
fn what_a_cluster_has_is_noted_before_it_is_moved_even_if_that_changed_since() {
    both_scopes(|mut fixture| {
        rolls_back()(&mut fixture);
        let run = second_version(&mut fixture);
        // Another run brings the first version to m3 and m1 anew as a third one.
        let mut third = fixture.resource_snapshots[1].clone();
        (third.name, third.index) = ("web-2-snapshot".into(), Some("2".into()));
        third.hash = Some("h2".into());
        fixture.resource_snapshots.push(third);
        let other = fixture.create("other", "2", Run);
        fixture.runs[other].only = Some(["m3".to_owned()].into());
        fixture.run_to_the_end(other);
        fixture.available();
        fixture.settle(run);
        let adopted = fixture.runs[run].adopted.clone().unwrap();
        assert_eq!((adopted.before.held("m3"), adopted.before.held("m1")), (Some("2"), Some("0")));
    });
}

#[test]
fn a_run_whose_policies_are_taken_or_changed_begins_nothing_until_they_are_back() {
    let changed = |spec: Value| json!({"policies": [{"name": "strict", "spec": spec}]});
    let copies = [
        Value::Null,
        changed(json!({})),
        json!({"policies": [], "undoes": {"run": "x", "uid": "u"}}),
    ];
    for (copy, state) in copies.into_iter().zip([Run, Run, Stop]) {
        both_scopes(|mut fixture| {
            policy(json!({"failure": {"progressDeadline": "10m"}}))(&mut fixture);
            let run = fixture.create("r", "1", Run);
            fixture.settle(run);
            let kept = fixture.runs[run].adopted.clone();
            fixture.runs[run].adopted = serde_json::from_value(copy.clone()).unwrap();
            fixture.available();
            fixture.set_state(run, state.clone());
            fixture.later(5);
            let plan = fixture.settle(run);
            assert!(matches!(&plan.waiting[..], [Waiting::Policies { .. }]), "{:?}", plan.waiting);
            let begun = |fixture: &Fixture| {
                fixture.snapshots().iter().filter(|held| !held.is_empty()).count()
            };
            assert_eq!(begun(&fixture), 1, "{copy}");
            let said = fixture.said(run, "Progressing");
            assert!(said.starts_with("False UpdateRunPoliciesChanged: the update run follows rollout policy strict, and annotation"), "{said}");
            fixture.runs[run].adopted = kept;
            fixture.set_state(run, Run);
            fixture.later(5);
            fixture.run_to_the_end(run);
            assert!(fixture.said(run, "Succeeded").starts_with("True"));
        });
    }
}

/// Law P10: whoever believes the copy that somebody wrote goes on.
#[test]
fn a_planner_that_follows_changed_policies_is_found() {
    let mut fixture = Fixture::new(None);
    policy(json!({"failure": {"progressDeadline": "10m"}}))(&mut fixture);
    let run = fixture.create("r", "1", Run);
    fixture.settle(run);
    fixture.available();
    fixture.later(5);
    while !plan(&fixture.seen(run)).actions.iter().any(Action::is_on_binding) {
        fixture.step(run);
    }
    let mut seen = fixture.seen(run);
    let told = |seen: &Observed, plan: &Plan| {
        let told = laws::decided(seen, plan).into_iter();
        told.filter(|broken| broken.law == "P10").count()
    };
    let goes_on = plan(&seen);
    assert_eq!(told(&seen, &goes_on), 0);
    seen.run.adopted = None;
    assert_eq!((told(&seen, &goes_on), told(&seen, &plan(&seen))), (1, 0));
}

#[test]
fn what_was_rolled_back_is_refused_until_somebody_lifts_it() {
    both_scopes(|mut fixture| {
        rolls_back()(&mut fixture);
        let run = second_version(&mut fixture);
        fixture.later(61);
        fixture.settle(run);
        let back = made(&fixture, "r-rollback");
        fixture.run_to_the_end(back);
        // The same content under another index is the same.
        let mut again = fixture.resource_snapshots[1].clone();
        (again.name, again.index) = ("web-2-snapshot".into(), Some("2".into()));
        again.quarantine = None;
        fixture.resource_snapshots.push(again);
        for (name, index, why) in [
            ("x", "1", "resource snapshot 1 is quarantined by update run "),
            ("y", "2", "resource snapshot 2, which has the content of snapshot 1, is quarantined"),
        ] {
            let refused = fixture.create(name, index, Run);
            fixture.settle(refused);
            let said = fixture.said(refused, "Initialized");
            assert!(said.starts_with("False") && said.contains(why), "{said}");
            assert!(said.contains("lift it: flagship quarantine "), "{said}");
            assert!(said.ends_with("web --lift"), "{said}");
        }
        fixture.resource_snapshots[1].quarantine = None;
        let run = fixture.create("z", "2", Run);
        fixture.run_to_the_end(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"), "{}", fixture.told(run));
    });
}

fn whats(fixture: &Fixture, run: usize) -> Vec<What> {
    fixture.entries(run).iter().map(|entry| entry.what).collect()
}

#[test]
fn a_record_that_is_begun_late_tells_what_was_before() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        assert_eq!(whats(&fixture, run), [], "nobody has a policy");
        fixture.available();
        fixture.settle(run);
        fixture.keep = Keep::All;
        fixture.settle(run);
        let told = [
            What::Planned,
            What::Started,
            // The first stage and its cluster are over.
            What::StageBegan,
            What::ClusterBegan,
            What::ClusterDone,
            What::StageDone,
            What::StageBegan,
            What::ClusterBegan,
        ];
        assert_eq!(whats(&fixture, run), told);
        fixture.run_to_the_end(run);
        assert_eq!(whats(&fixture, run).last(), Some(&What::Ended));
        assert_eq!(
            without_effect(fixture.entries(run), &fixture.runs[run].status),
            Vec::<&RecordEntry>::new()
        );
    });
}

#[test]
fn a_run_under_way_begins_nothing_more_when_its_content_is_quarantined() {
    both_scopes(|mut fixture| {
        let run = second_version(&mut fixture);
        let note = Quarantine { hash: "h1".into(), reason: "it leaks".into(), by: "bob".into() };
        fixture.resource_snapshots[1].quarantine = Some(note);
        fixture.settle(run);
        assert_eq!(fixture.said(run, "Succeeded"), "", "m2 is under way and finishes");
        fixture.available();
        fixture.settle(run);
        let said = fixture.said(run, "Succeeded");
        assert!(said.contains("resource snapshot 1 is quarantined by bob: it leaks"), "{said}");
        assert_eq!(fixture.snapshots(), ["web-0-snapshot", "web-1-snapshot", "web-0-snapshot"]);
    });
}

#[test]
fn a_rollback_to_what_is_quarantined_is_refused() {
    both_scopes(|mut fixture| {
        rolls_back()(&mut fixture);
        let run = second_version(&mut fixture);
        let note = Quarantine { hash: "h0".into(), reason: "it leaks".into(), by: String::new() };
        fixture.resource_snapshots[0].quarantine = Some(note);
        fixture.later(61);
        fixture.settle(run);
        let back = made(&fixture, "r-rollback");
        fixture.settle(back);
        let said = fixture.said(back, "Initialized");
        assert!(said.contains("resource snapshot 0 is quarantined: it leaks"), "{said}");
    });
}

#[test]
fn an_entry_without_effect_is_shown_as_one_and_told_once() {
    both_scopes(|mut fixture| {
        fixture.keep = Keep::All;
        let run = fixture.create("r", "1", Run);
        // The finalizer, the plan and its entry, then the first entries of the run itself.
        fixture.crash_after = Some(4);
        for _ in 0..4 {
            if fixture.crash_after.is_some() {
                fixture.step(run);
            }
        }
        let open = |fixture: &Fixture| -> Vec<What> {
            let open = without_effect(fixture.entries(run), &fixture.runs[run].status);
            open.iter().map(|entry| entry.what).collect()
        };
        assert_eq!(open(&fixture), [What::Started, What::StageBegan, What::ClusterBegan]);
        fixture.run_to_the_end(run);
        assert_eq!(open(&fixture), []);
        let begun = whats(&fixture, run).iter().filter(|what| **what == What::Started).count();
        assert_eq!(begun, 1);
    });
}
