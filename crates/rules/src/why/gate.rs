//! A stage that waits: for a person, or for time to pass.

use flagship_api::condition::{Conditions, Truth};
use flagship_api::condition_type::{approval_request, stage_task, update_run};
use flagship_api::names::{ObjectKey, StageSide};
use flagship_api::reason;
use flagship_api::staged_update::{StageTask, StageTaskType};
use flagship_api::staged_update_status::{StageTaskStatus, StageUpdatingStatus};
use flagship_base::duration::GoDuration;
use jiff::{SignedDuration, Timestamp};

use super::Cause;
use super::facts::{ApprovalFacts, Facts, RunFacts};
use super::finding::{Finding, State};
use super::hints::kubectl;

/// The stage that waits, and on which side of it.
pub fn waiting_stage(run: &RunFacts) -> Option<(&StageUpdatingStatus, StageSide)> {
    let stage = run.status.stages_status.iter().find(|stage| {
        stage
            .conditions
            .of_type(update_run::PROGRESSING)
            .is_some_and(|condition| condition.reason == reason::update_run::stage::WAITING)
    })?;
    let side = if stage.start_time.is_none() { StageSide::Before } else { StageSide::After };
    Some((stage, side))
}

/// What the stage waits for. A person comes first: time passes by itself.
pub fn explain(facts: &Facts, key: &ObjectKey, run: &RunFacts) -> Option<Finding> {
    let (stage, side) = waiting_stage(run)?;
    let tasks = match side {
        StageSide::Before => &stage.before_stage_task_status,
        StageSide::After => &stage.after_stage_task_status,
    };
    let wait = tasks
        .iter()
        .filter(|task| task.r#type == StageTaskType::TimedWait)
        .find(|task| task.conditions.of_type(stage_task::WAIT_TIME_ELAPSED).is_none())
        .and_then(|_| until(run, stage));
    let approval = tasks.iter().find(|task| {
        task.r#type == StageTaskType::Approval
            && task.conditions.of_type(stage_task::APPROVAL_REQUEST_APPROVED).is_none()
    });
    if let Some(task) = approval {
        return Some(ask(facts, key, stage, side, task, wait));
    }
    let until = wait?;
    let left = until.duration_since(facts.now);
    let finding = Finding::new(
        State::Waiting,
        Cause::TimedWait,
        format!("{key} waits {} more after stage {}.", spoken(left), stage.stage_name),
    );
    Some(finding.what(format!("the wait after stage {} ends at {until:.0}", stage.stage_name)).saw(
        "stage",
        &stage.stage_name,
        "Progressing=False  StageUpdatingWaiting",
    ))
}

fn ask(
    facts: &Facts,
    key: &ObjectKey,
    stage: &StageUpdatingStatus,
    side: StageSide,
    task: &StageTaskStatus,
    wait: Option<Timestamp>,
) -> Finding {
    let name = &task.approval_request_name;
    let stale = facts.approvals.get(name).is_some_and(names_another_generation);
    let asked = task.conditions.of_type(stage_task::APPROVAL_REQUEST_CREATED);
    let since = asked.map_or_else(String::new, |asked| {
        format!(" for {}", spoken(facts.now.duration_since(asked.last_transition_time.0)))
    });
    let when = match side {
        StageSide::Before => "before",
        StageSide::After => "after",
    };
    let headline = format!("{key} waits for an approval {when} stage {}{since}.", stage.stage_name);
    let cause = if stale { Cause::ApprovalStale } else { Cause::ApprovalMissing };
    let what = if stale {
        format!(
            "{name} says Approved=True, but not for the request's generation, so it does not count"
        )
    } else {
        format!("nobody has approved {name}")
    };
    let also =
        wait.map_or_else(String::new, |until| format!("the stage also waits until {until:.0}"));
    let requests = if key.namespace.is_some() { "areq" } else { "careq" };
    let describe = format!("describe {requests} {name}");
    let namespace = key.namespace.as_deref();
    Finding::new(State::Waiting, cause, headline)
        .what(what)
        .because(also)
        .saw("stage", &stage.stage_name, "Progressing=False  StageUpdatingWaiting")
        .saw(
            "approval",
            name,
            if stale { "Approved=True  for another generation" } else { "not approved" },
        )
        .hint("fix", "approve it", approve(key, &stage.stage_name))
        .hint("look", "see the request", kubectl(namespace, &describe))
}

fn approve(key: &ObjectKey, stage: &str) -> String {
    match &key.namespace {
        Some(namespace) => format!("flagship approve -n {namespace} {} {stage}", key.name),
        None => format!("flagship approve {} {stage}", key.name),
    }
}

/// Whether somebody approved, and the approval cannot count.
fn names_another_generation(request: &ApprovalFacts) -> bool {
    let approved = request.status.conditions.of_type(approval_request::APPROVED);
    approved.is_some_and(|approved| Truth::of(approved) == Truth::True)
        && !request.status.conditions.is_true_at(approval_request::APPROVED, request.generation)
}

/// When the timed wait of a stage is over.
fn until(run: &RunFacts, stage: &StageUpdatingStatus) -> Option<Timestamp> {
    let since = stage.conditions.of_type(update_run::PROGRESSING)?.last_transition_time.0;
    since.checked_add(wait_after(run, &stage.stage_name)?).ok()
}

fn wait_after(run: &RunFacts, stage: &str) -> Option<SignedDuration> {
    let strategy = run.status.staged_update_strategy_snapshot.as_ref()?;
    let configured = strategy.stages.iter().find(|configured| configured.name == stage)?;
    configured.after_stage_tasks.iter().find_map(length)
}

fn length(task: &StageTask) -> Option<SignedDuration> {
    let wait: GoDuration = task.wait_time.as_deref()?.parse().ok()?;
    SignedDuration::try_from(wait.as_std()).ok()
}

/// A duration as people say it: `42s`, `5m12s`, `3h04m`.
pub fn spoken(span: SignedDuration) -> String {
    let seconds = span.as_secs().max(0);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes, _) => format!("{hours}h{minutes:02}m"),
    }
}
