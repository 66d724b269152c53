//! A running run held against a fixture that changes.

use flagship_api::condition::Generation;
use flagship_api::staged_update::UpdateRunState::{self, Initialize, Run};
use flagship_api::staged_update_status::StageUpdatingStatus;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;

use super::fixture::{Fixture, both_scopes, start, strategy};
use crate::update_run::INDEX_IGNORED;
use crate::update_run::messages::Failure;
use crate::update_run::status::ConditionWriter;
use crate::update_run::validation::StageProgress;

const ABORT: &str = "cannot continue the updateRun: ";
const VALID: &str = "cannot continue the updateRun: failed to validate the updateRun: ";
const USER: &str = "failed to process the request due to a client error: ";
const UNEXP: &str = "unexpected behavior which cannot be handled by the controller: ";

fn fails(change: impl Fn(&mut Fixture), text: &str) {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        change(&mut fixture);
        fixture.settle(run);
        assert_eq!(fixture.said(run, "Succeeded"), format!("False UpdateRunFailed: {text}"));
        assert_eq!(
            fixture.said(run, "Progressing"),
            "False UpdateRunFailed: The stages are aborted due to a non-recoverable error"
        );
        // Only the run says so; the stage keeps what it said.
        assert!(fixture.told(run).contains("canary: Progressing=True/StageUpdatingStarted\n"));
    });
}

#[test]
fn placement_gone_strategy_type_changed_apply_strategy_changed() {
    fails(|w| w.placement = None, &format!("{VALID}{USER}parent placement not found"));
    fails(
        |w| w.placement.as_mut().unwrap().spec.strategy = None,
        &format!(
            "{VALID}{USER}parent placement does not have an external rollout strategy, current strategy: RollingUpdate"
        ),
    );
    fails(
        |w| {
            let spec = &mut w.placement.as_mut().unwrap().spec;
            let changed =
                json!({"type": "External", "applyStrategy": {"whenToApply": "IfNotDrifted"}});
            spec.strategy = serde_json::from_value(changed).unwrap();
        },
        &format!(
            "{ABORT}{USER}the applyStrategy in the updateRun is outdated, latest: {}, recorded: {}",
            r#"{"comparisonOption":"PartialComparison","whenToApply":"IfNotDrifted","type":"ClientSideApply","whenToTakeOver":"Always"}"#,
            r#"{"comparisonOption":"PartialComparison","whenToApply":"Always","type":"ClientSideApply","whenToTakeOver":"Always"}"#
        ),
    );
}

#[test]
fn what_a_run_still_has_to_bring_is_gone() {
    fails(
        |w| w.resource_snapshots.clear(),
        &format!(
            "{ABORT}{USER}the resource snapshot with index `1` that the updateRun rolls out is gone: it, or its placement, was deleted meanwhile; create another updateRun"
        ),
    );
}

#[test]
fn policy_index_changed_and_clusters_changed() {
    fails(
        |w| w.policy_snapshots[0].index = Some("1".into()),
        &format!(
            "{ABORT}the policy snapshot index used in the updateRun is outdated, latest: 1, recorded: 0"
        ),
    );
    fails(
        |w| w.join("m9", &[("env", "canary")]),
        &format!(
            "{ABORT}the number of clusters in index `0` stage has changed, new: 2, existing: 1"
        ),
    );
    fails(
        |w| w.join("m9", &[]),
        &format!(
            "{VALID}{USER}some clusters are not placed in any stage, total 1, showing up to 10: m9"
        ),
    );
    fails(
        |w| {
            w.clusters[0].labels.set("order", "0");
        },
        &format!("{ABORT}the `0` cluster in the `1` stage has changed, new: m1, existing: m3"),
    );
    fails(
        |w| {
            w.bind("late");
            w.edit("late", |spec| spec.state = flagship_api::binding::BindingState::Unscheduled);
        },
        &format!("{ABORT}{UNEXP}the cluster `late` to be deleted is not in the delete stage"),
    );
}

#[test]
fn pick_n_count_changed_fails_and_a_pick_all_difference_is_tolerated() {
    both_scopes(|mut fixture| {
        let policy = json!({"placementType": "PickN"});
        fixture.policy_snapshots[0].policy = serde_json::from_value(policy).unwrap();
        fixture.policy_snapshots[0].number_of_clusters = Some("3".into());
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.policy_snapshots[0].number_of_clusters = Some("2".into());
        fixture.settle(run);
        assert_eq!(
            fixture.said(run, "Succeeded"),
            format!(
                "False UpdateRunFailed: {ABORT}the cluster count initialized in the updateRun is outdated, latest: 2, recorded: 3"
            )
        );
    });
}

#[test]
fn nil_strategy_snapshot_stages_and_deletion_stage() {
    fails_with(
        |s| s.staged_update_strategy_snapshot = None,
        "the updateRun has nil updateStrategySnapshot",
    );
    fails_with(|s| s.stages_status.clear(), "the updateRun has nil stagesStatus");
    fails_with(|s| s.deletion_stage_status = None, "the updateRun has nil deletionStageStatus");
    fails_with(
        |s| {
            let writer = ConditionWriter { generation: Generation(1), now: start() };
            writer.stage_started(s.deletion_stage_status.as_mut().unwrap());
        },
        "the delete stage is active, but there are still stages updating, updatingStageIndex: -1, lastFinishedStageIndex: -1",
    );
}

// Spec 4.10: a stage is looked at as a whole before the next one.
#[test]
fn the_first_stage_that_does_not_fit_is_named_whatever_is_wrong_with_it() {
    let writer = ConditionWriter { generation: Generation(1), now: start() };
    fails_with(
        |s| {
            writer.stage_succeeded(&mut s.stages_status[0]);
            s.stages_status[1].stage_name = "other".into();
        },
        "cluster `m2` in the finished stage `canary` has not succeeded",
    );
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Initialize);
        fixture.settle(run);
        let status = &mut fixture.runs[run].status;
        let strategy = status.staged_update_strategy_snapshot.as_mut().unwrap();
        strategy.stages[0].max_concurrency = Some(IntOrString::String("many".into()));
        status.stages_status[1].clusters.pop();
        let plan = crate::update_run::plan(&fixture.seen(run));
        let told = &plan.events.last().unwrap().message;
        assert_eq!(
            *told,
            format!(
                "{ABORT}invalid value for IntOrString: invalid type: string is not a percentage"
            )
        );
    });
}

// Spec 2.2.9. No schema of ours lets it in, but another hub's may.
#[test]
fn a_state_that_nobody_knows_fails_the_run_by_its_name() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.runs[run].spec.state = Some(UpdateRunState::Other("Pause".into()));
        fixture.runs[run].generation += 1;
        fixture.settle(run);
        assert_eq!(
            fixture.said(run, "Succeeded"),
            "False UpdateRunFailed: unexpected behavior which cannot be handled by the controller: found unsupported updateRun state: Pause"
        );
    });
}

// Spec 1.2.
#[test]
fn an_index_that_is_removed_or_set_too_late_is_told() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.runs[run].asked_index = Some("1".into());
        fixture.runs[run].spec.resource_snapshot_index.clear();
        let plan = fixture.step(run);
        let told = plan.events.iter().find(|event| event.reason == INDEX_IGNORED);
        assert_eq!(
            told.map(|event| event.message.as_str()),
            Some(
                "resourceSnapshotIndex 1 was removed after the update run had chosen it; that has no effect, 1 is rolled out"
            )
        );
        fixture.runs[run].spec.resource_snapshot_index = "0".into();
        let plan = fixture.step(run);
        let told = plan.events.iter().find(|event| event.reason == INDEX_IGNORED);
        assert_eq!(
            told.map(|event| event.message.as_str()),
            Some(
                "resourceSnapshotIndex 0 was set after the update run had chosen 1 and has no effect"
            )
        );
    });
}

// Spec 1.2: without an index the run takes a snapshot, and nobody has removed anything.
#[test]
fn an_index_that_was_never_given_is_not_told() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "", Run);
        let plan = fixture.settle(run);
        assert!(plan.events.iter().all(|event| event.reason != INDEX_IGNORED));
    });
}

fn fails_with(
    change: impl Fn(&mut flagship_api::staged_update_status::UpdateRunStatus),
    detail: &str,
) {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Initialize);
        fixture.settle(run);
        change(&mut fixture.runs[run].status);
        let plan = crate::update_run::plan(&fixture.seen(run));
        let told = plan.events.last().unwrap();
        assert_eq!(told.message, format!("{ABORT}{UNEXP}{detail}"));
    });
}

#[test]
fn clusters_that_joined_or_left_are_named_in_an_event() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.join("m9", &[("env", "canary")]);
        fixture.bindings.retain(|binding| binding.cluster() != "m3");
        let plan = fixture.step(run);
        assert_eq!(
            plan.events[0].message,
            "clusters of the placement changed, joined: m9; left: m3"
        );
    });
}

#[test]
fn a_strategy_edited_or_deleted_during_the_run_has_no_effect() {
    both_scopes(|mut fixture| {
        let run = fixture.create("r", "1", Run);
        fixture.settle(run);
        fixture.strategy = None;
        fixture.run_to_the_end(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
    });
}

#[test]
fn a_strategy_without_stages_runs_the_deletion_stage_only() {
    both_scopes(|mut fixture| {
        fixture.strategy = Some(strategy(json!([])));
        for cluster in ["m1", "m2", "m3"] {
            fixture.edit(cluster, |spec| {
                spec.state = flagship_api::binding::BindingState::Unscheduled;
            });
        }
        let run = fixture.create("r", "1", Run);
        fixture.run_to_the_end(run);
        assert!(fixture.said(run, "Succeeded").starts_with("True"));
    });
}

/// Stages of two clusters each: `.` untouched, `u` and `U` updating with one and two
/// clusters in flight, `f` finished, `h` said to be finished with a cluster open, `x` failed.
fn turn(stages: &str) -> Result<StageProgress, String> {
    let config = json!({"name": "s", "labelSelector": {}});
    let strategy = strategy(json!(stages.chars().map(|_| config.clone()).collect::<Vec<_>>()));
    let writer = ConditionWriter { generation: Generation(1), now: start() };
    let built = stages.chars().enumerate().map(|(at, what)| {
        let clusters = ["a", "b"].map(crate::update_run::stages::untouched).to_vec();
        let mut stage =
            StageUpdatingStatus { stage_name: format!("s{at}"), clusters, ..Default::default() };
        let started = match what {
            'u' => 1,
            'U' | 'f' => 2,
            'h' => 1,
            _ => 0,
        };
        for cluster in stage.clusters.iter_mut().take(started) {
            writer.cluster_started(cluster);
            if matches!(what, 'f' | 'h') {
                writer.cluster_succeeded(cluster);
            }
        }
        match what {
            'u' | 'U' => writer.stage_started(&mut stage),
            'f' | 'h' => writer.stage_succeeded(&mut stage),
            'x' => writer.stage_failed(&mut stage, "broken"),
            _ => {}
        }
        stage
    });
    let mut turn = StageProgress::default();
    for (at, (config, stage)) in strategy.stages.iter().zip(built).enumerate() {
        turn.visit(at, config, &stage).map_err(|failure| match failure {
            Failure::Final(text) => text.replace(ABORT, "").replace(UNEXP, "! "),
            other => panic!("{other:?}"),
        })?;
    }
    Ok(turn)
}

#[test]
fn state_machine_of_stages() {
    for (stages, updating, finished) in [
        ("..", None, None),
        ("u.", Some(0), None),
        ("fu", Some(1), Some(0)),
        ("ff", None, Some(1)),
        ("f.", None, Some(0)),
    ] {
        assert_eq!(turn(stages), Ok(StageProgress { updating, finished }), "{stages}");
    }
    for (stages, text) in [
        ("uf", "! the finished stage `1` is after the updating stage `0`"),
        ("h.", "! cluster `b` in the finished stage `s0` has not succeeded"),
        (
            ".f",
            "! the finished stage `s1` is not right after the last finished stage with index `-1`",
        ),
        ("x.", "the stage `s0` has failed, err: broken"),
        (
            "uu",
            "! the stage `s1` is updating, but there is already a stage with index `0` updating",
        ),
        (
            ".u",
            "! the updating stage `s1` is not right after the last finished stage with index `-1`",
        ),
        (
            "U.",
            "! the number of updating clusters `2` in the updating stage `s0` exceeds maxConcurrency `1`",
        ),
    ] {
        assert_eq!(turn(stages), Err(text.to_owned()), "{stages}");
    }
}
