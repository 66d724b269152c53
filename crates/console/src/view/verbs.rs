//! What a person can do about a run: the exact effect in words, the command that does the
//! same, and what is missing where it cannot be done.
//!
//! Whether the hub agrees is the hub's decision; the words here are there before the click.

use flagship_api::names::ObjectKey;
use flagship_api::staged_update::UpdateRunState;
use flagship_explain::board::{Board, Cell, Gate, GateState, Mark, Phase, Side, Stage};
use flagship_explain::why::RunFacts;
use flagship_rules::update_run::lifecycle;
use serde::Serialize;

use super::approvals::Card;
use super::clusters;
use crate::commands::Act;
use crate::rights::{Right, Rights};

/// Something a person can do, or could if.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verb {
    /// What the button says.
    pub label: String,
    /// What is sent when it is confirmed.
    pub act: Act,
    /// The effect, in one or two sentences.
    pub effect: String,
    /// The command that does the same.
    pub command: String,
    /// Why it cannot be done; empty if it can.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub missing: String,
    /// Whether a reason can be given, and must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// Whether whoever does something must say why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Reason {
    /// They may.
    Optional,
    /// They must.
    Required,
}

impl Verb {
    pub(super) fn new(label: impl Into<String>, act: Act, effect: String, missing: String) -> Self {
        Self { label: label.into(), command: act.command(), act, effect, missing, reason: None }
    }

    /// The same with a field for the reason.
    pub(super) fn asking(self, required: bool) -> Self {
        let reason = if required { Reason::Required } else { Reason::Optional };
        Self { reason: Some(reason), ..self }
    }
}

/// Verbs of a run. `before` is the version a rollback would go to; what waits under a policy has
/// verbs of its own.
pub fn of_run(
    key: &ObjectKey,
    run: &RunFacts,
    board: &Board,
    cards: &[Card],
    before: Option<&str>,
    rights: &Rights,
) -> Vec<Verb> {
    let namespace = key.namespace.clone();
    let mut verbs: Vec<Verb> = Vec::new();
    for (at, stage) in board.stages.iter().enumerate() {
        let open = |gate: &&Gate| gate.state == GateState::Closed && !gate.approval.is_empty();
        let counted = |gate: &Gate| cards.iter().any(|card| card.request == gate.approval);
        for gate in stage.gates.iter().filter(open).filter(|gate| !counted(gate)) {
            let act = Act::Approve {
                namespace: namespace.clone(),
                run: key.name.clone(),
                stage: stage.name.clone(),
                reason: String::new(),
                plan: String::new(),
                break_glass: false,
            };
            let missing = rights.missing(&Right::approve(namespace.as_deref()));
            let label = format!("Approve {}", stage.name);
            let verb = Verb::new(label, act, approved(run, board, at, gate), missing);
            verbs.push(verb.asking(false));
        }
    }
    let change = rights.missing(&Right::change_run(namespace.as_deref()));
    // What was asked for decides, not how it stands: a run that is stuck while it stops says
    // that it is stuck.
    let wanted = run.spec.state.clone().unwrap_or_default();
    match wanted {
        _ if lifecycle::has_ended(&run.status) => {}
        UpdateRunState::Initialize | UpdateRunState::Stop => {
            let act = Act::Resume { namespace: namespace.clone(), run: key.name.clone() };
            let label = if wanted == UpdateRunState::Stop { "Resume" } else { "Start" };
            verbs.push(Verb::new(label, act, resumed(board), change));
        }
        _ => {
            let act = Act::Stop { namespace: namespace.clone(), run: key.name.clone() };
            verbs.push(Verb::new("Stop", act, stopped(board), change));
        }
    }
    let act = Act::Rollback { namespace: namespace.clone(), placement: board.placement.clone() };
    let missing = match before {
        Some(_) => rights.missing(&Right::create_run(namespace.as_deref())),
        None => format!("No other version of {} was rolled out completely.", board.placement),
    };
    verbs.push(Verb::new("Roll back", act, rolled_back(run, board, before), missing));
    verbs
}

/// What follows once a gate is open.
pub(super) fn approved(run: &RunFacts, board: &Board, at: usize, gate: &Gate) -> String {
    let stage = &board.stages[at];
    let also = stage.gates.iter().filter(|other| {
        other.side == gate.side
            && other.state != GateState::Passed
            && other.approval != gate.approval
    });
    let still: Vec<String> = also
        .map(|other| match (other.approval.is_empty(), other.wait.as_str()) {
            (true, wait) => format!("{wait} to pass"),
            (false, _) => "another approval".to_owned(),
        })
        .collect();
    let begins = match gate.side {
        Side::Before => begun(run, stage),
        Side::After => match board.stages[at + 1..].iter().find(|next| !next.cells.is_empty()) {
            None => "Ends the run: this was the last stage.".to_owned(),
            Some(next) if next.gates.iter().any(|gate| gate.side == Side::Before) => {
                format!("Stage {} asks for an approval of its own before it begins.", next.name)
            }
            Some(next) => begun(run, next),
        },
    };
    match still.is_empty() {
        true => begins,
        false => {
            format!("Not yet: the stage also waits for {}. Then: {begins}", still.join(" and "))
        }
    }
}

fn begun(run: &RunFacts, stage: &Stage) -> String {
    let queued = count(stage, |cell| cell.mark == Mark::Queued);
    let most = lifecycle::at_once(&run.status, &stage.name, stage.cells.len());
    let pace = match most {
        Some(most) if most < queued => format!(", {most} at a time"),
        _ => String::new(),
    };
    if stage.name == "remove" {
        return format!("Removes the resources from {} now.", clusters(queued));
    }
    format!("Begins {} in {} now{pace}.", clusters(queued), stage.name)
}

fn stopped(board: &Board) -> String {
    let cells = || board.stages.iter().flat_map(|stage| &stage.cells);
    let moving: Vec<&str> =
        cells().filter(|cell| cell.mark.is_under_way()).map(|c| c.cluster.as_str()).collect();
    let queued = cells().filter(|cell| cell.mark == Mark::Queued).count();
    let finish = match moving.as_slice() {
        [] => String::new(),
        few if few.len() <= 3 => format!(" {} under way goes on until done.", few.join(", ")),
        many => format!(" {} under way go on until done.", clusters(many.len())),
    };
    format!("Begins no further cluster: {} keep what they have.{finish}", clusters(queued))
}

fn resumed(board: &Board) -> String {
    let queued: usize =
        board.stages.iter().map(|stage| count(stage, |cell| cell.mark == Mark::Queued)).sum();
    match board.stages.iter().find(|stage| !stage.done) {
        Some(stage) => format!("Goes on in stage {}: {} left.", stage.name, clusters(queued)),
        None => "Goes on.".to_owned(),
    }
}

fn rolled_back(run: &RunFacts, board: &Board, before: Option<&str>) -> String {
    let Some(before) = before else {
        return format!("{} has no earlier version to go back to.", board.placement);
    };
    let strategy = &run.spec.staged_rollout_strategy_name;
    let first = format!(
        "Starts a new run of {} to snapshot {before}, the last version that was rolled out completely. It follows strategy {strategy} with all its gates.",
        board.placement
    );
    match board.phase {
        Phase::Succeeded | Phase::Failed | Phase::Stopped => first,
        _ => format!("{first} {} goes on beside it until you stop it.", board.run),
    }
}

fn count(stage: &Stage, is: impl Fn(&Cell) -> bool) -> usize {
    stage.cells.iter().filter(|cell| is(cell)).count()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::{Value, json};

    use super::*;

    fn run(state: &str, status: Value) -> RunFacts {
        let spec =
            json!({"placementName": "demo", "stagedRolloutStrategyName": "s", "state": state});
        RunFacts {
            spec: serde_json::from_value(spec).unwrap(),
            status: serde_json::from_value(status).unwrap(),
            ..RunFacts::default()
        }
    }

    fn condition(kind: &str, status: &str, reason: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-02-11T22:00:00Z"})
    }

    /// Staging is done and asks; four clusters of `prod` are next, two at a time.
    fn waiting(before: Value, after: Value) -> Value {
        let done = condition("Succeeded", "True", "ClusterUpdatingSucceeded");
        let started = condition("Started", "True", "ClusterUpdatingStarted");
        let asked = condition("ApprovalRequestCreated", "True", "x");
        let mut tasks = vec![json!({"type": "Approval", "approvalRequestName": "r-after-staging",
            "conditions": [asked]})];
        tasks.extend(after.as_array().into_iter().flatten().cloned());
        json!({
            "resourceSnapshotIndexUsed": "1",
            "conditions": [condition("Initialized", "True", "x"),
                condition("Progressing", "False", "UpdateRunWaiting")],
            "stagedUpdateStrategySnapshot": {"stages": [
                {"name": "staging", "afterStageTasks": [{"type": "Approval"}, {"type": "TimedWait", "waitTime": "5m"}]},
                {"name": "prod", "maxConcurrency": 2}]},
            "stagesStatus": [
                {"stageName": "staging", "startTime": "2026-02-11T22:00:00Z",
                    "clusters": [{"clusterName": "m1", "conditions": [started, done]}],
                    "afterStageTaskStatus": tasks,
                    "conditions": [condition("Progressing", "False", "StageUpdatingWaiting")]},
                {"stageName": "prod", "beforeStageTaskStatus": before, "clusters": [
                    {"clusterName": "m2"}, {"clusterName": "m3"}, {"clusterName": "m4"}, {"clusterName": "m5"}]},
            ],
        })
    }

    fn told(state: &str, status: Value, before: Option<&str>) -> String {
        let run = run(state, status);
        let now = "2026-02-11T22:10:00Z".parse().unwrap();
        let board = Board::of("r", None, &run.spec, &run.status, now);
        let rights = Rights::default();
        let verbs = of_run(&ObjectKey::cluster("r"), &run, &board, &[], before, &rights);
        let lines = verbs
            .iter()
            .map(|verb| format!("{}: {} [{}]\n", verb.label, verb.effect, verb.command));
        lines.collect()
    }

    #[test]
    fn a_card_says_what_exactly_will_happen() {
        let none = json!([]);
        expect![[r#"
            Approve staging: Begins 4 clusters in prod now, 2 at a time. [flagship approve r staging]
            Stop: Begins no further cluster: 4 clusters keep what they have. [flagship stop r]
            Roll back: Starts a new run of demo to snapshot 0, the last version that was rolled out completely. It follows strategy s with all its gates. r goes on beside it until you stop it. [flagship rollback demo]
        "#]].assert_eq(&told("Run", waiting(none.clone(), none.clone()), Some("0")));
        let before = json!([{"type": "Approval", "approvalRequestName": "r-before-prod"}]);
        expect![[r#"
            Approve staging: Stage prod asks for an approval of its own before it begins. [flagship approve r staging]
            Stop: Begins no further cluster: 4 clusters keep what they have. [flagship stop r]
            Roll back: demo has no earlier version to go back to. [flagship rollback demo]
        "#]].assert_eq(&told("Run", waiting(before, none.clone()), None));
        let wait = json!([{"type": "TimedWait"}]);
        let all = told("Run", waiting(none, wait), None);
        let first = all.lines().next().unwrap_or_default();
        assert_eq!(
            first,
            "Approve staging: Not yet: the stage also waits for 5m to pass. Then: Begins 4 clusters in prod now, 2 at a time. [flagship approve r staging]"
        );
    }

    #[test]
    fn a_stopped_run_can_go_on_and_one_that_has_ended_cannot() {
        let with = |reason: &str, status: &str| {
            json!({"conditions": [condition("Initialized", "True", "x"),
                condition("Progressing", status, reason)],
                "stagesStatus": [{"stageName": "a", "clusters": [{"clusterName": "m1"}]}]})
        };
        let labels = |told: String| -> Vec<String> {
            told.lines().map(|line| line.split(':').next().unwrap_or_default().to_owned()).collect()
        };
        let stopped = told("Stop", with("UpdateRunStopped", "False"), None);
        assert!(stopped.starts_with("Resume: Goes on in stage a: 1 cluster left."), "{stopped}");
        // One that is stuck while it stops.
        let stuck = told("Stop", with("UpdateRunStuck", "False"), None);
        assert!(stuck.starts_with("Resume: "), "{stuck}");
        let done = json!({"conditions": [condition("Succeeded", "True", "UpdateRunSucceeded")]});
        assert_eq!(labels(told("Run", done, None)), ["Roll back"]);
        let ready = json!({"conditions": [condition("Initialized", "True", "x")]});
        assert_eq!(labels(told("Initialize", ready, None)), ["Start", "Roll back"]);
    }
}
