//! The board of a run: headline, gates, stages, cells, why, timeline, what was done by whom,
//! and what can be done about it.

use flagship_api::condition::{Condition, ConditionStatus, Conditions};
use flagship_api::condition_type::{approval_request, stage_task, update_run, updating_cluster};
use flagship_api::names::ObjectKey;
use flagship_api::staged_update::StageTaskType;
use flagship_api::staged_update_status::{
    ClusterUpdatingStatus, StageUpdatingStatus, UpdateRunStatus,
};
use flagship_explain::board::{Board, Gate, GateState, Mark, Phase, Side, Stage};
use flagship_explain::why::{explain, silent_since};
use flagship_rules::update_run::lifecycle::{
    self, Ending, clusters_done_at, ended_at, started_at, wait_ends,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Model, ViewInputs, approvals, millis, verbs};
use crate::mirror::{Mirror, Run};
use crate::session::Inner;

/// A stage as the page draws it; its cells are rows.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Column {
    name: String,
    /// How many rows are its cells.
    cells: usize,
    done_cells: usize,
    begun: bool,
    done: bool,
    at_once: Option<usize>,
    start: Option<i64>,
    /// When its last cluster was done.
    updated: Option<i64>,
    end: Option<i64>,
    gates: Vec<GateShown>,
    /// When clusters failed.
    failures: Vec<i64>,
}

/// A gate, and what became of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GateShown {
    #[serde(flatten)]
    gate: Gate,
    /// When it was met.
    asked: Option<i64>,
    /// When the wait is over.
    until: Option<i64>,
    /// When it was passed.
    passed: Option<i64>,
    /// What whoever approved said.
    #[serde(skip_serializing_if = "String::is_empty")]
    comment: String,
    /// The client it was approved with.
    #[serde(skip_serializing_if = "String::is_empty")]
    via: String,
}

/// Something that happened.
#[derive(Serialize)]
struct Happened {
    at: i64,
    what: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    via: String,
}

/// The board of a run, or that there is none.
pub fn model(seen: &ViewInputs<'_>, key: &ObjectKey) -> Model {
    let mut model = Model::default();
    let mut facts = seen.mirror.about_run(key, seen.now);
    seen.looks.add_to(&mut facts);
    model.set("name", &key.name);
    model.set("namespace", &key.namespace);
    let finding = explain(&facts);
    model.set("finding", &finding);
    let board = Board::of_facts(&facts, key);
    let (Some(run), Some(board)) = (seen.mirror.runs.get(key), board) else {
        model.set("missing", &true);
        return model;
    };
    let status = &run.facts.status;
    model.set("placement", &board.placement);
    model.set("strategy", &run.facts.spec.staged_rollout_strategy_name);
    model.set("snapshot", &board.snapshot);
    model.set("phase", &board.phase);
    model.set("created", &run.facts.created.map(millis));
    model.set("ended", &ended_at(status).map(millis));
    let (done, all) = board.clusters();
    model.set("done", &done);
    model.set("all", &all);
    model.set("stage", &board.stage_number());
    model.set("expected", &expected(&board, status, seen.now).map(millis));
    let stages = status.stages_status.iter().chain(&status.deletion_stage_status);
    let stages: Vec<&StageUpdatingStatus> = stages.collect();
    let columns: Vec<Column> = board
        .stages
        .iter()
        .zip(&stages)
        .map(|(stage, told)| column(seen.mirror, key, &run, stage, told))
        .collect();
    model.set("stages", &columns);
    model.set("policies", &board.policies);
    model.set("budgets", &board.budgets);
    model.set("frozen", &board.frozen);
    model.set("deadline", &deadline(&board));
    let skipped = board.skipped().map(|(cluster, says)| json!({"cluster": cluster, "says": says}));
    model.set("skipped", &skipped.take(SKIPPED_SHOWN).collect::<Vec<_>>());
    model.set("skippedMore", &board.skipped().count().saturating_sub(SKIPPED_SHOWN));
    model.set("log", &log(seen.mirror, key, &run, &board));
    let placement = ObjectKey::new(key.namespace.as_deref(), &board.placement);
    let past = seen.mirror.runs_of(&placement);
    let past: Vec<&UpdateRunStatus> = past.iter().map(|(_, run)| &run.facts.status).collect();
    let observed = facts.placement.as_ref();
    let observed = observed.map_or("", |found| found.status.observed_resource_index.as_str());
    let before = lifecycle::version_before(&past, observed);
    model.set("before", &before);
    let cards = approvals::cards(seen, key, &run, &board);
    model.set("verbs", &verbs::of_run(key, &run.facts, &board, &cards, before, seen.rights));
    model.set("approvals", &cards);
    for (stage, told) in board.stages.iter().zip(&stages) {
        for (cell, cluster) in stage.cells.iter().zip(&told.clusters) {
            let member = facts.clusters.get(&cell.cluster);
            let silent = member.is_some_and(|member| silent_since(member, seen.now).is_some());
            let since = since(cluster, cell.mark).map_or(0, |at| at.as_second());
            let more = cell.taken_by.as_deref().or(cell.cause.as_deref());
            let value = shown(cell.mark, since, silent, more);
            model.push(cell.cluster.clone(), &value);
        }
    }
    model
}

/// Skipped clusters that are shown with the reason; the rest is counted.
const SKIPPED_SHOWN: usize = 12;

/// The deadline that comes first.
fn deadline(board: &Board) -> Option<Value> {
    let (cell, at, more) = board.first_deadline()?;
    Some(json!({"cluster": cell.cluster, "at": millis(at), "more": more}))
}

/// `[mark]`, `[mark, since]`, `[mark, since, silent]`, `[mark, since, silent, more]`: there may
/// be thousands, and most have nothing more to say. `more` is the run that took the cluster,
/// or the cause that holds it.
fn shown(mark: Mark, since: i64, silent: bool, more: Option<&str>) -> Value {
    let mark = match mark {
        Mark::Queued => 0,
        Mark::Updating => 1,
        Mark::Done => 2,
        Mark::Failed | Mark::Left => 3,
        Mark::Taken => 4,
        Mark::Stuck => 5,
        Mark::Skipped => 6,
    };
    match (since, silent, more) {
        (_, _, Some(more)) => json!([mark, since, i32::from(silent), more]),
        (_, true, None) => json!([mark, since, 1]),
        (0, false, None) => json!([mark]),
        (_, false, None) => json!([mark, since]),
    }
}

/// Since when a cluster is as it is.
fn since(cluster: &ClusterUpdatingStatus, mark: Mark) -> Option<Timestamp> {
    match mark {
        Mark::Queued => None,
        Mark::Updating | Mark::Stuck | Mark::Left => started_at(cluster),
        _ => cluster
            .conditions
            .of_type(updating_cluster::SUCCEEDED)
            .map(|found| found.last_transition_time.0),
    }
}

/// What `flagship status -o json` prints.
pub fn status(session: &Inner, key: &ObjectKey) -> Value {
    let facts = session.mirror.about_run(key, session.now());
    json!({"board": Board::of_facts(&facts, key), "finding": explain(&facts)})
}

fn column(
    mirror: &Mirror,
    key: &ObjectKey,
    run: &Run,
    stage: &Stage,
    told: &StageUpdatingStatus,
) -> Column {
    let failures = told.clusters.iter().filter_map(|cluster| {
        let found = cluster.conditions.of_type(updating_cluster::SUCCEEDED)?;
        (ConditionStatus::of(found) == ConditionStatus::False)
            .then(|| millis(found.last_transition_time.0))
    });
    // A run goes on without clusters that failed within a budget.
    let failed = matches!(lifecycle::ending(&run.facts.status), Some(Ending::Failed(_)));
    let over = stage.cells.iter().all(|cell| match cell.mark {
        Mark::Done | Mark::Skipped | Mark::Taken => true,
        mark => mark == Mark::Failed && !failed,
    });
    let tasks = told.before_stage_task_status.iter().chain(&told.after_stage_task_status);
    let gates = stage.gates.iter().zip(tasks).map(|(gate, task)| {
        let at = |kind: &str| {
            let found = task.conditions.of_type(kind)?;
            (ConditionStatus::of(found) == ConditionStatus::True)
                .then_some(found.last_transition_time.0)
        };
        let passed = match task.r#type {
            StageTaskType::Approval => at(stage_task::APPROVAL_REQUEST_APPROVED),
            StageTaskType::TimedWait => at(stage_task::WAIT_TIME_ELAPSED),
        };
        let is_wait = task.r#type == StageTaskType::TimedWait;
        let asked = match is_wait {
            true => clusters_done_at(told).filter(|_| over && stage.begun),
            false => at(stage_task::APPROVAL_REQUEST_CREATED),
        };
        let until = asked.filter(|_| is_wait).and_then(|_| wait_ends(told, &gate.wait));
        let request = ObjectKey::new(key.namespace.as_deref(), &gate.approval);
        let request = mirror.approvals.get(&request).filter(|_| !gate.approval.is_empty());
        let approved: Option<Condition> = request.as_ref().and_then(|request| {
            request.facts.status.conditions.of_type(approval_request::APPROVED).cloned()
        });
        let given = passed.and(approved);
        GateShown {
            gate: Gate { seconds_left: None, ..gate.clone() },
            asked: asked.map(millis),
            until: until.map(millis),
            passed: passed.map(millis),
            via: given.as_ref().and(request).map_or_else(String::new, |r| approver(&r.metadata)),
            comment: given.map_or_else(String::new, |found| found.message.clone()),
        }
    });
    Column {
        name: stage.name.clone(),
        cells: stage.cells.len(),
        done_cells: stage.cells.iter().filter(|cell| cell.mark == Mark::Done).count(),
        begun: stage.begun,
        done: stage.done,
        at_once: lifecycle::at_once(&run.facts.status, &stage.name, stage.cells.len()),
        start: told.start_time.as_ref().map(|time| millis(time.0)),
        updated: clusters_done_at(told).filter(|_| over && told.start_time.is_some()).map(millis),
        end: told.end_time.as_ref().map(|time| millis(time.0)),
        gates: gates.collect(),
        failures: failures.collect(),
    }
}

/// When the run will be over if all goes on as it went, and nobody has to be asked.
fn expected(board: &Board, status: &UpdateRunStatus, now: Timestamp) -> Option<Timestamp> {
    if !matches!(board.phase, Phase::Running | Phase::Waiting) {
        return None;
    }
    let clusters = || status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let took: Vec<f64> = clusters()
        .filter_map(|cluster| {
            let done = cluster.conditions.of_type(updating_cluster::SUCCEEDED)?;
            let span = done.last_transition_time.0.duration_since(started_at(cluster)?);
            (ConditionStatus::of(done) == ConditionStatus::True).then(|| span.as_secs_f64())
        })
        .collect();
    if took.is_empty() {
        return None;
    }
    let mean = took.iter().sum::<f64>() / took.len() as f64;
    let mut left = 0.0;
    for (stage, told) in board.stages.iter().zip(&status.stages_status) {
        let open = |gate: &&Gate| gate.state != GateState::Passed;
        for gate in stage.gates.iter().filter(open) {
            if !gate.approval.is_empty() {
                return None;
            }
            let whole = || Some(wait_ends(told, &gate.wait)?.duration_since(now).as_secs());
            let wait = gate.seconds_left.or_else(|| whole().filter(|left| *left > 0));
            left += wait.unwrap_or(0) as f64;
        }
        let queued = stage.cells.iter().filter(|cell| cell.mark == Mark::Queued).count();
        let moving = stage.cells.iter().any(|cell| cell.mark.is_under_way());
        let most = lifecycle::at_once(status, &stage.name, stage.cells.len()).unwrap_or(1).max(1);
        left += mean * queued.div_ceil(most) as f64 + if moving { mean / 2.0 } else { 0.0 };
    }
    now.checked_add(SignedDuration::try_from_secs_f64(left).ok()?).ok()
}

/// What happened to the run, newest first.
fn log(mirror: &Mirror, key: &ObjectKey, run: &Run, board: &Board) -> Vec<Happened> {
    let mut log = Vec::new();
    let mut add = |at: Option<Timestamp>, what: String, via: String| {
        if let Some(at) = at {
            log.push(Happened { at: millis(at), what, via });
        }
    };
    add(run.facts.created, "started the run".to_owned(), creator(&run.metadata));
    let status = &run.facts.status;
    for (stage, told) in board.stages.iter().zip(&status.stages_status) {
        add(
            told.start_time.as_ref().map(|t| t.0),
            format!("stage {} began", stage.name),
            String::new(),
        );
        add(
            told.end_time.as_ref().map(|t| t.0),
            format!("stage {} ended", stage.name),
            String::new(),
        );
    }
    for gate in board.stages.iter().flat_map(|stage| &stage.gates) {
        let request = ObjectKey::new(key.namespace.as_deref(), &gate.approval);
        let Some(request) = mirror.approvals.get(&request) else { continue };
        let side = if gate.side == Side::Before { "before" } else { "after" };
        let conditions = &request.facts.status.conditions;
        let given = conditions.of_type(approval_request::APPROVED);
        if let Some(given) =
            given.filter(|found| ConditionStatus::of(found) == ConditionStatus::True)
        {
            let said = match given.message.as_str() {
                "" | "approved" => String::new(),
                said => format!(": {said}"),
            };
            let what = format!("approved {side} stage {}{said}", request.stage);
            add(Some(given.last_transition_time.0), what, approver(&request.metadata));
        }
    }
    if let Some(progressing) = status.conditions.of_type(update_run::PROGRESSING) {
        let at = Some(progressing.last_transition_time.0);
        match board.phase {
            Phase::Stopped | Phase::Stopping => {
                add(at, "stopped the run".to_owned(), last_writer(&run.metadata));
            }
            Phase::Frozen | Phase::Closed | Phase::Checking | Phase::PoliciesChanged => {
                add(at, progressing.message.clone(), String::new());
            }
            Phase::Stuck => add(at, "the run is stuck".to_owned(), String::new()),
            _ => {}
        }
    }
    let end = match board.phase {
        Phase::Succeeded => "the run succeeded",
        _ => "the run failed",
    };
    add(ended_at(status), end.to_owned(), String::new());
    // Of what happened in the same second, what was noted later came later.
    log.reverse();
    log.sort_by_key(|happened| std::cmp::Reverse(happened.at));
    log
}

/// The client that first said what the run is to do. Controllers write to it in the same
/// second, and own nothing of what is wanted.
fn creator(metadata: &ObjectMeta) -> String {
    wanted_by(metadata).min_by_key(|(at, _)| *at).map(|(_, who)| who).unwrap_or_default()
}

/// The client that last changed what is wanted.
fn last_writer(metadata: &ObjectMeta) -> String {
    wanted_by(metadata).max_by_key(|(at, _)| *at).map(|(_, who)| who).unwrap_or_default()
}

/// Clients that own fields of the spec, and when they wrote them.
fn wanted_by(metadata: &ObjectMeta) -> impl Iterator<Item = (Option<Timestamp>, String)> + '_ {
    let entries = metadata.managed_fields.iter().flatten();
    entries.filter_map(|entry| {
        let fields = entry.fields_v1.as_ref()?;
        fields.0.get("f:spec")?;
        Some((entry.time.as_ref().map(|time| time.0), entry.manager.clone()?))
    })
}

/// The client that holds the Approved condition of a request.
fn approver(metadata: &ObjectMeta) -> String {
    let entries = metadata.managed_fields.iter().flatten();
    let mut holding = entries.filter(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| fields.0.to_string());
        fields.is_some_and(|fields| fields.contains(r#"\"Approved\""#))
    });
    holding.next().and_then(|entry| entry.manager.clone()).unwrap_or_default()
}
