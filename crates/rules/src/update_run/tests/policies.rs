//! Stories with freezes and policies, cut at every write.

use flagship_api::condition::ConditionStatus;
use flagship_api::rollout_record::{RecordEntry, What};
use flagship_api::staged_update::UpdateRunState::Run;
use serde_json::{Value, json};
use std::sync::Arc;

use super::crashes::survives_policed;
use super::world::{World, both_scopes};
use crate::policy::quarantine::Quarantine;
use crate::policy::{Freeze, Policy};
use crate::record::Keep;
use crate::update_run::recorded::without_effect;

fn freeze(world: &mut World) {
    let object = json!({"metadata": {"name": "stop"}, "spec": {"reason": "incident"}});
    let freeze = Freeze::read(&serde_json::from_value(object).unwrap());
    world.policy.freezes.push(Arc::new(freeze));
}

fn policy(spec: Value) -> impl Fn(&mut World) {
    move |world| {
        let spec = serde_json::from_value(spec.clone()).unwrap();
        world.policy.policies.push(Policy { name: "strict".into(), spec });
    }
}

#[test]
fn a_freeze_in_the_middle_that_is_lifted() {
    survives_policed(
        |world| world.keep = Keep::All,
        |world| {
            let run = world.create("r", "1", Run);
            world.settle(run);
            freeze(world);
            world.settle(run);
            assert!(world.said(run, "Progressing").starts_with("False UpdateRunFrozen"));
            world.later(5);
            world.available();
            world.settle(run);
            let begun = world.snapshots().iter().filter(|held| !held.is_empty()).count();
            assert_eq!(begun, 1);
            world.policy.freezes.clear();
            world.run_to_the_end(run);
            assert!(world.said(run, "Succeeded").starts_with("True"));
        },
    );
}

#[test]
fn a_cluster_that_misses_its_deadline_within_the_budget() {
    let prepare = policy(json!({"failure": {"progressDeadline": "1m", "budget": {"run": 1}}}));
    survives_policed(prepare, |world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.report("Available", ConditionStatus::False);
        world.later(61);
        world.settle(run);
        assert!(world.told(run).contains(
            "m2: Started=True/ClusterUpdatingStarted Succeeded=False/ClusterUpdatingFailed"
        ));
        // The others work at once.
        for _ in 0..4 {
            world.available();
            world.settle(run);
        }
        assert_eq!(
            world.said(run, "Succeeded"),
            "True UpdateRunSucceeded: All stages are completed; failed within the budget: m2"
        );
    });
}

#[test]
fn a_budget_that_is_spent_lets_what_is_under_way_finish_and_starts_nothing() {
    let prepare = policy(json!({"failure": {"progressDeadline": "1m", "then": "Stop"}}));
    survives_policed(prepare, |world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.later(61);
        world.settle(run);
        assert_eq!(
            world.said(run, "Succeeded"),
            "False UpdateRunFailed: cannot continue the updateRun: the failure budget of stage `canary` is spent, 1 cluster(s) have failed and 0 may: m2 (policy strict)"
        );
        assert_eq!(world.snapshots(), ["", "web-1-snapshot", ""]);
    });
}

#[test]
fn a_policy_is_noted_with_the_run_before_its_plan_and_only_then() {
    both_scopes(|mut world| {
        policy(json!({"clusters": {"membership": "Frozen"}}))(&mut world);
        let run = world.create("r", "1", Run);
        world.run_to_the_end(run);
        let log = world.log.join("\n");
        assert_eq!(log.matches("\"Adopt\"").count(), 1);
        assert!(log.find("\"Adopt\"") < log.find("UpdateRunInitializedSuccessfully"));
        // Whoever edits the policy later changes nothing.
        assert!(world.runs[run].keeps_its_clusters());
    });
}

#[test]
fn clusters_come_and_go_under_a_run_that_keeps_its_plan() {
    both_scopes(|mut world| {
        policy(json!({"clusters": {"membership": "Frozen"}}))(&mut world);
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.join("m4", &[("env", "prod"), ("order", "3")]);
        world.bindings.retain(|binding| binding.spec.target_cluster != "m3");
        world.run_to_the_end(run);
        assert_eq!(
            world.said(run, "Succeeded"),
            "True UpdateRunSucceeded: All stages are completed; skipped: m3"
        );
        assert_eq!(world.binding("m4").spec.resource_snapshot_name, "");
    });
}

/// The first version is everywhere, and the second is rolled out under a policy.
fn second_version(world: &mut World) -> usize {
    let first = world.create("first", "0", Run);
    world.run_to_the_end(first);
    world.later(5);
    let run = world.create("r", "1", Run);
    world.settle(run);
    run
}

fn rolls_back() -> impl Fn(&mut World) {
    policy(json!({"failure": {"progressDeadline": "1m", "then": "Rollback"}}))
}

/// The run that was made by a hub.
fn made(world: &World, name: &str) -> usize {
    world.runs.iter().position(|run| run.name == name).unwrap()
}

#[test]
fn a_run_that_has_spent_its_budget_is_taken_back() {
    survives_policed(rolls_back(), |world| {
        let run = second_version(world);
        world.available();
        world.settle(run);
        // m3 is the first of prod and does not come up; m1 is never touched.
        world.later(61);
        world.settle(run);
        assert_eq!(
            world.said(run, "Succeeded"),
            "False UpdateRunFailed: cannot continue the updateRun: the failure budget of stage `prod` is spent, 1 cluster(s) have failed and 0 may: m3 (policy strict); 2 cluster(s) go back to snapshot 0 in update run `r-rollback`, and snapshot 1 is quarantined"
        );
        let back = made(world, "r-rollback");
        world.settle(back);
        // The last stage first, and nothing of the next one meanwhile.
        assert_eq!(world.snapshots(), ["web-0-snapshot", "web-1-snapshot", "web-0-snapshot"]);
        world.run_to_the_end(back);
        assert!(world.said(back, "Succeeded").starts_with("True"), "{}", world.told(back));
        assert_eq!(world.snapshots(), ["web-0-snapshot"; 3]);
        let fence = world.binding("m1").fence.clone().unwrap();
        assert_eq!(fence.run, world.runs[0].uid, "m1 was never touched");
        let stages: Vec<_> =
            world.status(back).stages_status.iter().map(|s| s.stage_name.clone()).collect();
        assert_eq!(stages, ["prod", "canary"]);
    });
}

#[test]
fn gates_are_not_asked_again_and_clusters_are_not_more_at_once() {
    both_scopes(|mut world| {
        rolls_back()(&mut world);
        let approval = json!([{"type": "Approval"}]);
        world.strategy = Some(super::world::strategy(json!([{"name": "all", "labelSelector": {},
            "maxConcurrency": 2, "beforeStageTasks": approval, "afterStageTasks": approval}])));
        let run = second_version(&mut world);
        world.approve();
        world.settle(run);
        world.later(61);
        world.settle(run);
        let back = made(&world, "r-rollback");
        world.settle(back);
        let requests = world.approvals.iter().filter(|request| request.run == "r-rollback");
        assert_eq!(requests.count(), 0);
        let held = world.snapshots().iter().filter(|held| **held == "web-0-snapshot").count();
        assert_eq!(held, 3, "two at once, and the third was never touched");
        let copy = world.status(back).staged_update_strategy_snapshot.clone().unwrap();
        assert_eq!(serde_json::to_value(&copy.stages[0].max_concurrency).unwrap(), json!(2));
    });
}

#[test]
fn a_rollback_that_fails_stops_and_is_not_taken_back() {
    survives_policed(rolls_back(), |world| {
        let run = second_version(world);
        world.later(61);
        world.settle(run);
        let back = made(world, "r-rollback");
        world.settle(back);
        world.later(61);
        world.settle(back);
        let said = world.said(back, "Succeeded");
        assert!(said.starts_with("False UpdateRunFailed"), "{said}");
        assert!(said.ends_with("m2 (policy strict)"), "{said}");
        assert_eq!(world.runs.len(), 3);
    });
}

#[test]
fn a_first_version_cannot_be_taken_back() {
    both_scopes(|mut world| {
        rolls_back()(&mut world);
        let run = world.create("r", "1", Run);
        world.settle(run);
        world.later(61);
        world.settle(run);
        let said = world.said(run, "Succeeded");
        assert!(said.ends_with("; nothing is rolled back: m2 had nothing before"), "{said}");
        assert_eq!(world.runs.len(), 1);
    });
}

#[test]
fn a_run_of_the_name_that_somebody_else_made_is_left_alone() {
    both_scopes(|mut world| {
        rolls_back()(&mut world);
        let run = second_version(&mut world);
        world.create("r-rollback", "0", Run);
        world.later(61);
        world.settle(run);
        let said = world.said(run, "Succeeded");
        assert!(said.ends_with("; nothing is rolled back: there is an update run `r-rollback` already, which is not its rollback"), "{said}");
    });
}

/// Whoever writes the annotation by hand gets the rollback of the hub, or nothing.
#[test]
fn a_rollback_made_by_hand_must_be_the_one_that_the_hub_would_make() {
    let forge = |world: &mut World, name: &str, index: &str, of: &str| {
        let run = world.create(name, index, Run);
        world.runs[run].rollback_of = Some(of.to_owned());
        world.settle(run);
        world.said(run, "Initialized")
    };
    both_scopes(|mut world| {
        let run = second_version(&mut world);
        let uid = world.runs[run].uid.clone();
        world.run_to_the_end(run);
        for (name, index, of, why) in [
            ("other", "0", uid.as_str(), "there is no update run of that name and UID"),
            ("r-rollback", "0", "uid-of-nobody", "there is no update run of that name and UID"),
            ("r-rollback", "0", uid.as_str(), "no policy wants update run `r` to be rolled back"),
        ] {
            let said = forge(&mut world, name, index, of);
            assert!(said.starts_with("False") && said.contains(why), "{said}");
            world.runs.pop();
        }
    });
    both_scopes(|mut world| {
        rolls_back()(&mut world);
        let run = second_version(&mut world);
        world.later(61);
        world.settle(run);
        let uid = world.runs[run].uid.clone();
        world.runs.pop();
        let said = forge(&mut world, "r-rollback", "1", &uid);
        assert!(said.contains("goes back to snapshot 0 of placement `web`"), "{said}");
        world.runs.pop();
        let said = forge(&mut world, "r-rollback", "0", &uid);
        assert!(said.starts_with("True"), "{said}");
    });
}

#[test]
fn clusters_from_different_versions_go_to_the_newest_that_all_had_succeeded_with() {
    both_scopes(|mut world| {
        rolls_back()(&mut world);
        world.strategy = Some(super::world::strategy(
            json!([{"name": "all", "labelSelector": {}, "maxConcurrency": 3}]),
        ));
        let mut third = world.resource_snapshots[1].clone();
        (third.name, third.index) = ("web-2-snapshot".into(), Some("2".into()));
        third.hash = Some("h2".into());
        world.resource_snapshots.push(third);
        let first = world.create("first", "0", Run);
        world.run_to_the_end(first);
        world.later(5);
        // The second version comes to m1 alone.
        let second = world.create("second", "1", Run);
        world.runs[second].only = Some(["m1".to_owned()].into());
        world.run_to_the_end(second);
        world.later(5);
        let third = world.create("third", "2", Run);
        world.settle(third);
        world.later(61);
        world.settle(third);
        let said = world.said(third, "Succeeded");
        assert!(said.contains("3 cluster(s) go back to snapshot 0"), "{said}");
        let back = made(&world, "third-rollback");
        world.run_to_the_end(back);
        assert_eq!(world.snapshots(), ["web-0-snapshot"; 3]);
    });
}

#[test]
fn what_a_cluster_has_is_noted_before_it_is_moved_even_if_that_changed_since() {
    both_scopes(|mut world| {
        rolls_back()(&mut world);
        let run = second_version(&mut world);
        // Another run brings the first version to m3 and m1 anew as a third one.
        let mut third = world.resource_snapshots[1].clone();
        (third.name, third.index) = ("web-2-snapshot".into(), Some("2".into()));
        third.hash = Some("h2".into());
        world.resource_snapshots.push(third);
        let other = world.create("other", "2", Run);
        world.runs[other].only = Some(["m3".to_owned()].into());
        world.run_to_the_end(other);
        world.available();
        world.settle(run);
        let adopted = world.runs[run].adopted.clone().unwrap();
        assert_eq!((adopted.before.held("m3"), adopted.before.held("m1")), (Some("2"), Some("0")));
    });
}

#[test]
fn what_was_rolled_back_is_refused_until_somebody_lifts_it() {
    both_scopes(|mut world| {
        rolls_back()(&mut world);
        let run = second_version(&mut world);
        world.later(61);
        world.settle(run);
        let back = made(&world, "r-rollback");
        world.run_to_the_end(back);
        // The same content under another index is the same.
        let mut again = world.resource_snapshots[1].clone();
        (again.name, again.index) = ("web-2-snapshot".into(), Some("2".into()));
        again.quarantine = None;
        world.resource_snapshots.push(again);
        for (name, index, why) in [
            ("x", "1", "resource snapshot 1 is quarantined by update run "),
            ("y", "2", "resource snapshot 2, which has the content of snapshot 1, is quarantined"),
        ] {
            let refused = world.create(name, index, Run);
            world.settle(refused);
            let said = world.said(refused, "Initialized");
            assert!(said.starts_with("False") && said.contains(why), "{said}");
            assert!(said.contains("lift it: flagship quarantine "), "{said}");
            assert!(said.ends_with("web --lift"), "{said}");
        }
        world.resource_snapshots[1].quarantine = None;
        let run = world.create("z", "2", Run);
        world.run_to_the_end(run);
        assert!(world.said(run, "Succeeded").starts_with("True"), "{}", world.told(run));
    });
}

fn whats(world: &World, run: usize) -> Vec<What> {
    world.entries(run).iter().map(|entry| entry.what).collect()
}

#[test]
fn a_record_that_is_begun_late_tells_what_was_before() {
    both_scopes(|mut world| {
        let run = world.create("r", "1", Run);
        world.settle(run);
        assert_eq!(whats(&world, run), [], "nobody has a policy");
        world.available();
        world.settle(run);
        world.keep = Keep::All;
        world.settle(run);
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
        assert_eq!(whats(&world, run), told);
        world.run_to_the_end(run);
        assert_eq!(whats(&world, run).last(), Some(&What::Ended));
        assert_eq!(
            without_effect(world.entries(run), &world.runs[run].status),
            Vec::<&RecordEntry>::new()
        );
    });
}

#[test]
fn a_run_under_way_begins_nothing_more_when_its_content_is_quarantined() {
    both_scopes(|mut world| {
        let run = second_version(&mut world);
        let note = Quarantine { hash: "h1".into(), reason: "it leaks".into(), by: "bob".into() };
        world.resource_snapshots[1].quarantine = Some(note);
        world.settle(run);
        assert_eq!(world.said(run, "Succeeded"), "", "m2 is under way and finishes");
        world.available();
        world.settle(run);
        let said = world.said(run, "Succeeded");
        assert!(said.contains("resource snapshot 1 is quarantined by bob: it leaks"), "{said}");
        assert_eq!(world.snapshots(), ["web-0-snapshot", "web-1-snapshot", "web-0-snapshot"]);
    });
}

#[test]
fn a_rollback_to_what_is_quarantined_is_refused() {
    both_scopes(|mut world| {
        rolls_back()(&mut world);
        let run = second_version(&mut world);
        let note = Quarantine { hash: "h0".into(), reason: "it leaks".into(), by: String::new() };
        world.resource_snapshots[0].quarantine = Some(note);
        world.later(61);
        world.settle(run);
        let back = made(&world, "r-rollback");
        world.settle(back);
        let said = world.said(back, "Initialized");
        assert!(said.contains("resource snapshot 0 is quarantined: it leaks"), "{said}");
    });
}

#[test]
fn an_entry_without_effect_is_shown_as_one_and_told_once() {
    both_scopes(|mut world| {
        world.keep = Keep::All;
        let run = world.create("r", "1", Run);
        // The finalizer, the plan and its entry, then the first entries of the run itself.
        world.crash_after = Some(4);
        for _ in 0..4 {
            if world.crash_after.is_some() {
                world.step(run);
            }
        }
        let open = |world: &World| -> Vec<What> {
            let open = without_effect(world.entries(run), &world.runs[run].status);
            open.iter().map(|entry| entry.what).collect()
        };
        assert_eq!(open(&world), [What::Started, What::StageBegan, What::ClusterBegan]);
        world.run_to_the_end(run);
        assert_eq!(open(&world), []);
        let begun = whats(&world, run).iter().filter(|what| **what == What::Started).count();
        assert_eq!(begun, 1);
    });
}
