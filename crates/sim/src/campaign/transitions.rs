//! What a write means for a run, a binding or a request, in a word: for coverage, and for the
//! story told in words.

use flagship_api::binding::BindingState;
use flagship_api::condition::{ConditionStatus, Conditions};
use flagship_api::condition_type::binding::{AVAILABLE, ROLLOUT_STARTED};
use flagship_api::condition_type::{stage_task, update_run};
use flagship_api::staged_update_status::{StageUpdatingStatus, UpdateRunStatus};
use flagship_rules::model::Binding;
use flagship_rules::update_run::lifecycle::{self, Phase, says};
use flagship_rules::update_run::{Run, laws};

/// Every transition by its name.
pub const TRANSITIONS: [&str; 27] = [
    "run initialized",
    "run refused",
    "run waits",
    "run stuck",
    "run stopping",
    "run stopped",
    "run goes on",
    "run succeeded",
    "run failed",
    "run gone",
    "stage begun",
    "stage done",
    "cluster started",
    "cluster done",
    "cluster lost",
    "approval recorded",
    "wait elapsed",
    "binding created",
    "binding delivered",
    "binding signalled",
    "binding available",
    "binding unavailable",
    "binding unscheduled",
    "binding deleted",
    "request made",
    "request gone",
    "eviction answered",
];

/// A transition and what it happened to.
pub type Transition = (&'static str, String);

/// What the write of a run changed.
pub fn of_run(old: Option<&Run>, new: Option<&Run>) -> Vec<Transition> {
    let Some(new) = new else {
        return old.map(|old| ("run gone", old.name.clone())).into_iter().collect();
    };
    let nothing = UpdateRunStatus::default();
    let (was, is) = (old.map_or(&nothing, |old| &old.status), &new.status);
    let name = &new.name;
    let mut found = Vec::new();
    let initialized = |status: &UpdateRunStatus| says(&status.conditions, update_run::INITIALIZED);
    if initialized(was) != initialized(is) {
        match initialized(is) {
            Some(ConditionStatus::True) => found.push(("run initialized", name.clone())),
            Some(ConditionStatus::False) => found.push(("run refused", name.clone())),
            _ => {}
        }
    }
    let phase = |run: &Run| lifecycle::phase(&run.spec, &run.status);
    let (before, after) = (old.map(phase), phase(new));
    if before != Some(after) {
        let word = match after {
            Phase::Waiting => Some("run waits"),
            Phase::Stuck => Some("run stuck"),
            Phase::Stopping => Some("run stopping"),
            Phase::Stopped => Some("run stopped"),
            Phase::Running if before.is_some_and(|before| before != Phase::Initialized) => {
                Some("run goes on")
            }
            Phase::Succeeded => Some("run succeeded"),
            Phase::Failed if initialized(is) == Some(ConditionStatus::True) => Some("run failed"),
            _ => None,
        };
        found.extend(word.map(|word| (word, name.clone())));
    }
    let untouched = StageUpdatingStatus::default();
    for (at, stage) in is.stages_status.iter().chain(&is.deletion_stage_status).enumerate() {
        let olds = was.stages_status.iter().chain(&was.deletion_stage_status);
        let past = olds.into_iter().nth(at).unwrap_or(&untouched);
        of_stage(name, past, stage, &mut found);
    }
    found
}

fn of_stage(
    run: &str,
    past: &StageUpdatingStatus,
    stage: &StageUpdatingStatus,
    found: &mut Vec<Transition>,
) {
    let place = format!("{run} {}", stage.stage_name);
    if past.start_time.is_none() && stage.start_time.is_some() {
        found.push(("stage begun", place.clone()));
    }
    let done = |stage: &StageUpdatingStatus| {
        says(&stage.conditions, update_run::SUCCEEDED) == Some(ConditionStatus::True)
    };
    if done(stage) && !done(past) {
        found.push(("stage done", place.clone()));
    }
    for (at, cluster) in stage.clusters.iter().enumerate() {
        let was = past.clusters.get(at);
        let place = format!("{run} {}", cluster.cluster_name);
        if lifecycle::is_started(cluster) && !was.is_some_and(lifecycle::is_started) {
            found.push(("cluster started", place.clone()));
        }
        if lifecycle::is_finished(cluster) && !was.is_some_and(lifecycle::is_finished) {
            found.push(("cluster done", place.clone()));
        }
        if laws::is_lost(cluster) && !was.is_some_and(laws::is_lost) {
            found.push(("cluster lost", place));
        }
    }
    let tasks = |stage: &StageUpdatingStatus, kind: &str| {
        let all = stage.before_stage_task_status.iter().chain(&stage.after_stage_task_status);
        all.filter(|task| says(&task.conditions, kind) == Some(ConditionStatus::True)).count()
    };
    for (kind, word) in [
        (stage_task::APPROVAL_REQUEST_APPROVED, "approval recorded"),
        (stage_task::WAIT_TIME_ELAPSED, "wait elapsed"),
    ] {
        if tasks(stage, kind) > tasks(past, kind) {
            found.push((word, place.clone()));
        }
    }
}

/// What the write of a binding changed.
pub fn of_binding(old: Option<&Binding>, new: Option<&Binding>) -> Vec<Transition> {
    let Some(new) = new else {
        let gone = old.map(|old| ("binding deleted", old.cluster().to_owned()));
        return gone.into_iter().collect();
    };
    let cluster = new.cluster().to_owned();
    let Some(old) = old else { return vec![("binding created", cluster)] };
    let mut found = Vec::new();
    if new.is_unscheduled() && !old.is_unscheduled() {
        found.push(("binding unscheduled", cluster.clone()));
    } else if new.spec.state == BindingState::Bound && new.generation != old.generation {
        let version = &new.spec.resource_snapshot_name;
        found.push(("binding delivered", format!("{cluster} {version}")));
    }
    if is_signalled(new) && !is_signalled(old) {
        found.push(("binding signalled", cluster.clone()));
    }
    let available =
        |binding: &Binding| binding.status.conditions.is_true_at(AVAILABLE, binding.generation());
    match (available(old), available(new)) {
        (false, true) => found.push(("binding available", cluster)),
        (true, false) => found.push(("binding unavailable", cluster)),
        _ => {}
    }
    found
}

/// Whether a binding has heard the start signal for what it holds.
pub fn is_signalled(binding: &Binding) -> bool {
    binding.status.conditions.is_true_at(ROLLOUT_STARTED, binding.generation())
}
