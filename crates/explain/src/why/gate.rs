//! A stage that waits: for a person, or for time to pass.

use flagship_api::condition::Conditions;
use flagship_api::condition_type::stage_task;
use flagship_api::names::{ObjectKey, StageSide};
use flagship_api::staged_update_status::{StageTaskStatus, StageUpdatingStatus};
use jiff::{SignedDuration, Timestamp};

use super::Cause;
use super::facts::{Facts, RunFacts};
use super::finding::{Finding, State};
use super::hints::kubectl;
use flagship_rules::update_run::ASKED;
use flagship_rules::update_run::lifecycle::{self, Approval, ClosedGate};

/// What the stage waits for. A person comes first: time passes by itself.
pub fn explain(facts: &Facts, key: &ObjectKey, run: &RunFacts) -> Option<Finding> {
    let ClosedGate { stage, side, approval, until } = lifecycle::waits_at(&run.status)?;
    if let Some(task) = approval {
        return Some(ask(facts, key, stage, side, task, until));
    }
    let until = until?;
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
    let stale = facts.approvals.get(name).is_some_and(|request| {
        lifecycle::approval(&request.status.conditions, request.generation) == Approval::Stale
    });
    let asked = task.conditions.of_type(stage_task::APPROVAL_REQUEST_CREATED);
    let since = asked.map_or_else(String::new, |asked| {
        format!(" for {}", spoken(facts.now.duration_since(asked.last_transition_time.0)))
    });
    let when = match side {
        StageSide::Before => "before",
        StageSide::After => "after",
    };
    // Where a policy asks for approvals the hub says how they stand.
    let told = asked.map(|asked| asked.message.as_str()).filter(|told| !["", ASKED].contains(told));
    let headline = match told {
        None => format!("{key} waits for an approval {when} stage {}{since}.", stage.stage_name),
        Some(told) => {
            let short = told.split_once(';').map_or(told, |(short, _)| short);
            format!("{key} waits for approvals {when} stage {}{since}: {short}.", stage.stage_name)
        }
    };
    let cause = if stale { Cause::ApprovalStale } else { Cause::ApprovalMissing };
    let what = if let Some(told) = told {
        told.to_owned()
    } else if stale {
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

/// The command that approves the stage.
pub fn approve(key: &ObjectKey, stage: &str) -> String {
    match &key.namespace {
        Some(namespace) => format!("flagship approve -n {namespace} {} {stage}", key.name),
        None => format!("flagship approve {} {stage}", key.name),
    }
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
