//! What people are told in Events: every turn of a run that somebody waits for or must act
//! on, with the clusters and the version in question and what comes next.
//!
//! Turns of single clusters are in the status; with a hundred of them they would drown the
//! rest. Failures are told in the words of their condition.

use std::fmt::Write;

use flagship_api::condition::Conditions;
use flagship_api::condition_type::update_run::{INITIALIZED, PROGRESSING, SUCCEEDED};
use flagship_api::reason::update_run as reason;
use flagship_api::staged_update::UpdateRunState;
use flagship_api::staged_update_status::{StageUpdatingStatus, UpdateRunStatus};

use super::lifecycle::{in_flight, is_finished, not_updated};
use super::observed::Run;
use super::reconcile::Waiting;
use super::stages::NAMED_AT_MOST;
use crate::event::Event;

/// One event for each turn between two records of a run.
pub fn events(run: &Run, new: &UpdateRunStatus, waiting: &[Waiting]) -> Vec<Event> {
    let mut events = stage_events(&run.status, new);
    for kind in [INITIALIZED, PROGRESSING, SUCCEEDED] {
        let Some(told) = new.conditions.of_type(kind) else { continue };
        let known = run.status.conditions.of_type(kind).is_some_and(|old| {
            (old.reason.as_str(), old.message.as_str())
                == (told.reason.as_str(), told.message.as_str())
        });
        // The end is told once, by Succeeded.
        let ended = kind == PROGRESSING
            && [reason::FAILED, reason::SUCCEEDED].contains(&told.reason.as_str());
        if known || ended {
            continue;
        }
        let bad = [
            reason::FAILED,
            reason::INITIALIZATION_FAILED,
            reason::INPUT_UNREADABLE,
            reason::STUCK,
            reason::POLICIES_CHANGED,
        ];
        let warning = bad.contains(&told.reason.as_str());
        let message = match told.reason.as_str() {
            reason::INITIALIZED => planned(run, new),
            reason::PROGRESSING => moving(new),
            reason::WAITING => awaited(&told.message, waiting),
            reason::STUCK => stuck(new, waiting),
            reason::STOPPING => stopping(new),
            reason::STOPPED => stopped(new),
            reason::SUCCEEDED if not_updated(new).is_empty() => done(run, new),
            _ => told.message.clone(),
        };
        events.push(Event { warning, reason: told.reason.clone(), message });
    }
    events
}

fn reason_of(stage: &StageUpdatingStatus) -> Option<String> {
    stage.conditions.of_type(PROGRESSING).map(|told| told.reason.clone())
}

fn stage_events(old: &UpdateRunStatus, new: &UpdateRunStatus) -> Vec<Event> {
    let version = &new.resource_snapshot_index_used;
    let mut events = Vec::new();
    for (at, stage) in new.stages_status.iter().enumerate() {
        let Some(told) = reason_of(stage) else { continue };
        if old.stages_status.get(at).and_then(reason_of) == Some(told.clone()) {
            continue;
        }
        let name = &stage.stage_name;
        let message = match told.as_str() {
            reason::stage::STARTED => {
                let flying = stage.clusters.iter().filter(|cluster| in_flight(cluster));
                let flying = names(flying.map(|cluster| cluster.cluster_name.as_str()));
                let all = stage.clusters.len();
                format!(
                    "stage {name} updates its {all} cluster(s) to snapshot {version}, now {flying}"
                )
            }
            reason::stage::SUCCEEDED => {
                let all = stage.clusters.len();
                format!(
                    "stage {name} is done, {all} cluster(s) are at snapshot {version}; {}",
                    after(new, at)
                )
            }
            reason::stage::SKIPPED_NO_CLUSTERS => {
                format!("stage {name} is skipped, it has no clusters; {}", after(new, at))
            }
            _ => continue,
        };
        events.push(Event::normal(&told, message));
    }
    events.extend(deletion_event(old, new));
    events
}

/// The deletion stage, if there is anything to delete.
fn deletion_event(old: &UpdateRunStatus, new: &UpdateRunStatus) -> Option<Event> {
    let stage = new.deletion_stage_status.as_ref().filter(|stage| !stage.clusters.is_empty())?;
    let told = reason_of(stage)?;
    if old.deletion_stage_status.as_ref().and_then(reason_of).as_ref() == Some(&told) {
        return None;
    }
    let all = names(stage.clusters.iter().map(|cluster| cluster.cluster_name.as_str()));
    let message = match told.as_str() {
        reason::stage::STARTED => format!("resources are being removed from {all}"),
        reason::stage::SUCCEEDED => format!("the placement has left {all}"),
        _ => return None,
    };
    Some(Event::normal(&told, message))
}

/// What follows a stage.
fn after(status: &UpdateRunStatus, stage: usize) -> String {
    if let Some(next) = status.stages_status.get(stage + 1) {
        return format!("next is stage {}", next.stage_name);
    }
    let going = status.deletion_stage_status.iter().flat_map(|stage| &stage.clusters);
    let going: Vec<&str> = going.map(|cluster| cluster.cluster_name.as_str()).collect();
    match going.len() {
        0 => "it was the last".to_owned(),
        _ => format!("next, resources are removed from {}", names(going.into_iter())),
    }
}

fn planned(run: &Run, status: &UpdateRunStatus) -> String {
    let mut text = format!(
        "snapshot {} of placement {} goes to {} cluster(s)",
        status.resource_snapshot_index_used,
        run.spec.placement_name,
        status.stages_status.iter().map(|stage| stage.clusters.len()).sum::<usize>(),
    );
    let stages = status.stages_status.iter().map(|stage| {
        let clusters = stage.clusters.iter().map(|cluster| cluster.cluster_name.as_str());
        format!("{} ({})", stage.stage_name, names(clusters))
    });
    append(&mut text, ", stage by stage: ", &stages.collect::<Vec<_>>().join(", "));
    let going = status.deletion_stage_status.iter().flat_map(|stage| &stage.clusters);
    let going: Vec<&str> = going.map(|cluster| cluster.cluster_name.as_str()).collect();
    if !going.is_empty() {
        append(&mut text, "; afterwards resources are removed from ", &names(going.into_iter()));
    }
    if run.state() == UpdateRunState::Initialize {
        text.push_str("; set spec.state to Run to start");
    }
    text
}

fn awaited(told: &str, waiting: &[Waiting]) -> String {
    let mut text = told.to_owned();
    for waiting in waiting {
        match waiting {
            Waiting::Approval { request, .. } => {
                append(&mut text, "; somebody must approve ", request);
            }
            Waiting::Timer { until, .. } => {
                append(&mut text, "; it waits until ", &until.to_string());
            }
            _ => {}
        }
    }
    text
}

fn stuck(status: &UpdateRunStatus, waiting: &[Waiting]) -> String {
    let found = waiting.iter().find_map(|waiting| match waiting {
        Waiting::Stuck { stage, clusters } => Some((stage, clusters)),
        _ => None,
    });
    let Some((stage, clusters)) = found else { return "clusters take too long".to_owned() };
    format!(
        "stage {stage} waits too long for snapshot {} to become available on {}; see the placement's status for what is wrong there, the run goes on by itself once it is repaired",
        status.resource_snapshot_index_used,
        names(clusters.iter().map(String::as_str)),
    )
}

fn flying(status: &UpdateRunStatus) -> impl Iterator<Item = &str> {
    let stages = status.stages_status.iter().chain(&status.deletion_stage_status);
    let flying = stages.flat_map(|stage| &stage.clusters).filter(|cluster| in_flight(cluster));
    flying.map(|cluster| cluster.cluster_name.as_str())
}

/// Where a run is that goes on, or goes on again.
fn moving(status: &UpdateRunStatus) -> String {
    let at = at_the_version(status);
    let mut now = flying(status).peekable();
    if now.peek().is_some() {
        return format!("{at}, now on the way: {}", names(now));
    }
    let done = [reason::stage::SUCCEEDED, reason::stage::SKIPPED_NO_CLUSTERS];
    let is_done = |stage: &&StageUpdatingStatus| {
        reason_of(stage).is_some_and(|told| done.contains(&told.as_str()))
    };
    match status.stages_status.iter().find(|stage| !is_done(stage)) {
        Some(next) => format!("{at}, next is stage {}", next.stage_name),
        None => format!("{at}, all stages are done"),
    }
}

/// How many clusters have what the run brings.
fn at_the_version(status: &UpdateRunStatus) -> String {
    let clusters = || status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let (all, finished) = (clusters().count(), clusters().filter(|c| is_finished(c)).count());
    let version = &status.resource_snapshot_index_used;
    format!("{finished} of {all} cluster(s) are at snapshot {version}")
}

fn stopping(status: &UpdateRunStatus) -> String {
    let at = at_the_version(status);
    format!("nothing more is started, {} must finish first; {at}", names(flying(status)))
}

fn stopped(status: &UpdateRunStatus) -> String {
    let at = at_the_version(status);
    format!("nothing is in flight, {at}; set spec.state to Run to go on")
}

fn done(run: &Run, status: &UpdateRunStatus) -> String {
    let all = status.stages_status.iter().map(|stage| stage.clusters.len()).sum::<usize>();
    format!(
        "placement {} is at snapshot {} on all {all} cluster(s)",
        run.spec.placement_name, status.resource_snapshot_index_used
    )
}

/// Some names, and how many more there are.
fn names<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = all.collect();
    let first = all.iter().take(NAMED_AT_MOST).copied().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(NAMED_AT_MOST) {
        _ if all.is_empty() => "none".to_owned(),
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

fn append(text: &mut String, between: &str, more: &str) {
    write!(text, "{between}{more}").expect("writing to a String does not fail");
}
