//! What must always hold of a run, whoever crashes, races or is late.
//!
//! Predicates over one stored state or over two successive ones with the write between
//! them, seen from one run. Used by tests after every single write, by the model checker
//! and the simulator. They know the record and the world, never how a plan was made.

use flagship_api::binding::BindingState;
use flagship_api::condition::{Conditions, Generation, Truth};
use flagship_api::condition_type::approval_request::{APPROVAL_ACCEPTED, APPROVED};
use flagship_api::condition_type::{
    binding as binding_kind, stage_task, update_run, updating_cluster,
};
use flagship_api::duration::GoDuration;
use flagship_api::reason::update_run as reason;
use flagship_api::staged_update::{StageTaskType, UpdateRunState};
use flagship_api::staged_update_status::{
    ClusterUpdatingStatus, StageTaskStatus, StageUpdatingStatus, UpdateRunStatus,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::delivery::Target;
use super::observed::{Binding, Observed};
use super::reconcile::{Action, Plan, Waiting, plan};
pub use super::status::{has_ended, is_finished};
use super::status::{in_flight, is_started, outcome, says};
use super::validation::concurrency;

/// A law that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which one.
    pub law: &'static str,
    /// What was seen.
    pub what: String,
}

type Told = Vec<Broken>;

fn broken(law: &'static str, what: impl Into<String>) -> Broken {
    Broken { law, what: what.into() }
}

/// The laws of one stored state: S1 and S4.
pub fn state(seen: &Observed) -> Told {
    let mut told = concurrency_holds(seen);
    told.extend(few_are_down(seen));
    told.extend(stop_is_true(seen));
    told
}

/// The laws of one write of this run: S2, S3, S4, S7, S9 and S11.
pub fn write(before: &Observed, action: &Action) -> Told {
    let mut told = Vec::new();
    let touches = match action {
        Action::Deliver(deliver) => Some(deliver.binding.as_str()),
        Action::Signal(signal) => Some(signal.binding.as_str()),
        Action::Withdraw(withdraw) => Some(withdraw.binding.as_str()),
        _ => None,
    };
    let Some(name) = touches else { return told };
    let Some(found) = before.bindings.iter().find(|binding| binding.name == name) else {
        told.push(broken("S7", format!("{name} is written and does not exist")));
        return told;
    };
    if matches!(action, Action::Signal(_)) && only_repeats(before, found) {
        return told;
    }
    if reason_of(&before.run.status) == Some(reason::STOPPED)
        && before.run.state() == UpdateRunState::Stop
    {
        told.push(broken("S4", format!("{name} is written after the run said it stopped")));
    }
    match action {
        Action::Withdraw(withdraw) => {
            if (&withdraw.uid, &withdraw.resource_version) != (&found.uid, &found.resource_version)
            {
                told.push(broken("S7", format!("{name} is deleted without its version")));
            }
            told.extend(deleted_last(before, found));
        }
        Action::Deliver(deliver) => {
            if found
                .fence
                .as_ref()
                .is_some_and(|fence| deliver.fence.to_api().is_behind(&fence.to_api()))
            {
                told.push(broken("S11", format!("{name} was fenced by a later generation")));
            }
            told.extend(in_turn(before, found));
            told.extend(uses_the_record(before, &deliver.spec, found.cluster()));
        }
        _ => told.extend(in_turn(before, found)),
    }
    told
}

/// Whether a start signal tells a cluster nothing new: this run has moved it, it holds
/// exactly what the run wants, and the run is done with it. A hub that has lost the lead
/// may send such a signal late; it moves nothing.
fn only_repeats(before: &Observed, found: &Binding) -> bool {
    let status = &before.run.status;
    let Ok(target) = Target::of(before, status) else { return false };
    let entries = status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let mut entries = entries.filter(|entry| entry.cluster_name == found.cluster());
    found.fence.as_ref().is_some_and(|fence| fence.run == before.run.uid)
        && entries.any(|entry| is_finished(entry) && target.is_on(found, entry))
}

/// The laws of two successive states of one run: S3, S5, S6, S8, S9 and S12. What a run
/// claims about other objects must have been so when they were `read`: nobody can look at
/// one object and write another in the same moment, and what becomes of a cluster right
/// after it was seen to work is what becomes of a finished one.
pub fn step(read: &Observed, before: &Observed, after: &Observed) -> Told {
    let mut told = Vec::new();
    let (old, new) = (&before.run.status, &after.run.status);
    told.extend(monotone(old, new));
    told.extend(frozen(old, new));
    let strategy = new.staged_update_strategy_snapshot.clone().unwrap_or_default();
    let untouched = StageUpdatingStatus::default();
    for (at, stage) in new.stages_status.iter().enumerate() {
        let past = old.stages_status.get(at).unwrap_or(&untouched);
        told.extend(gates_hold(read, past, stage));
        let tasks = strategy.stages.get(at).map(|s| s.after_stage_tasks.clone());
        for (at, task) in stage.after_stage_task_status.iter().enumerate() {
            let known = past.after_stage_task_status.get(at);
            let wait = tasks.as_ref().and_then(|tasks| tasks.get(at)?.wait_time.clone());
            told.extend(wait_is_whole(after.now, stage, known, task, wait.as_deref()));
        }
        for (at, cluster) in stage.clusters.iter().enumerate() {
            let was = past.clusters.get(at).is_some_and(is_finished);
            if is_finished(cluster) && !was {
                told.extend(really_there(read, new, cluster));
            }
        }
    }
    told
}

/// S16: with nothing new in the world there is nothing to write, and no hurry.
pub fn quiet(plan: &Plan) -> bool {
    plan.actions.is_empty() && plan.wake.is_none_or(|wake| wake > SignedDuration::ZERO)
}

/// L1 to L4, for a run that has come to rest: it has ended, or what it says it waits for
/// is really what keeps it. A wait that outlives its cause is untrue in the next state,
/// so L2 is this same law then.
pub fn rest(seen: &Observed) -> Told {
    let plan = plan(seen);
    if !quiet(&plan) || plan.trouble.is_some() {
        return vec![broken("S16", format!("not at rest: {:?}", plan.actions))];
    }
    if seen.run.deleting {
        let left = seen.approvals.iter().any(|a| a.labelled.as_ref() == Some(&seen.run.name));
        return if left { vec![broken("L4", "an approval request is left")] } else { Vec::new() };
    }
    let status = &seen.run.status;
    if has_ended(status) {
        return Vec::new();
    }
    let law = if seen.run.state() == UpdateRunState::Stop { "L3" } else { "L1" };
    if plan.waiting.is_empty() {
        return vec![broken(law, "neither ended nor waiting for anything")];
    }
    let untrue = plan.waiting.iter().filter(|waiting| !is_true(seen, waiting));
    untrue.map(|waiting| broken(law, format!("waits for what is not so: {waiting:?}"))).collect()
}

/// S10: how a run ended, without times and versions; equal for every road to one end.
pub fn ending(status: &UpdateRunStatus) -> String {
    let line = |depth: usize, what: &str, conditions: &[Condition]| {
        let said = conditions.iter().map(|c| format!(" {}={}/{}", c.type_, c.status, c.reason));
        format!("{}{what}:{}\n", "  ".repeat(depth), said.collect::<String>())
    };
    let mut text = line(0, "run", &status.conditions);
    for stage in status.stages_status.iter().chain(&status.deletion_stage_status) {
        text += &line(1, &stage.stage_name, &stage.conditions);
        let tasks = stage.before_stage_task_status.iter().chain(&stage.after_stage_task_status);
        for task in tasks {
            text += &line(2, &format!("{:?}", task.r#type), &task.conditions);
        }
        for cluster in &stage.clusters {
            text += &line(2, &cluster.cluster_name, &cluster.conditions);
        }
    }
    text
}

fn reason_of(status: &UpdateRunStatus) -> Option<&str> {
    status.conditions.of_type(update_run::PROGRESSING).map(|condition| condition.reason.as_str())
}

/// S1.
fn concurrency_holds(seen: &Observed) -> Told {
    let mut told = Vec::new();
    let status = &seen.run.status;
    let Some(strategy) = &status.staged_update_strategy_snapshot else { return told };
    let target = Target::of(seen, status).ok();
    for (config, stage) in strategy.stages.iter().zip(&status.stages_status) {
        let busy = stage.clusters.iter().filter(|cluster| in_flight(cluster)).count();
        let most = concurrency(config, stage.clusters.len()).unwrap_or(usize::MAX);
        if busy > most {
            told.push(broken("S1", format!("{busy} of at most {most} in {}", stage.stage_name)));
        }
        for cluster in stage.clusters.iter().filter(|cluster| !is_started(cluster)) {
            if let Some(binding) = moved_by_us(seen, target.as_ref(), &cluster.cluster_name) {
                told.push(broken("S1", format!("{} is disturbed and not recorded", binding.name)));
            }
        }
    }
    told
}

fn of_cluster<'a>(seen: &'a Observed, cluster: &'a str) -> impl Iterator<Item = &'a Binding> {
    seen.bindings.iter().filter(move |b| b.cluster() == cluster && !b.is_unscheduled())
}

/// The binding of a cluster that this very run has moved to its target.
fn moved_by_us<'a>(
    seen: &'a Observed,
    target: Option<&Target>,
    cluster: &'a str,
) -> Option<&'a Binding> {
    let target = target?;
    of_cluster(seen, cluster).find(|binding| {
        let fence = binding.fence.as_ref();
        fence.is_some_and(|fence| fence.run == seen.run.uid)
            && target.snapshot == binding.spec.resource_snapshot_name
    })
}

/// Clusters of a stage that this run has moved, that do not work yet, and that it does not
/// call finished: what people on those clusters notice, whatever the record says.
pub fn down(seen: &Observed, stage: &StageUpdatingStatus) -> Vec<String> {
    let target = Target::of(seen, &seen.run.status).ok();
    let open = stage.clusters.iter().filter(|cluster| !is_finished(cluster));
    let down = open.filter(|cluster| {
        let moved = moved_by_us(seen, target.as_ref(), &cluster.cluster_name);
        moved.is_some_and(|binding| !works(binding))
    });
    down.map(|cluster| cluster.cluster_name.clone()).collect()
}

fn works(binding: &Binding) -> bool {
    let at = Generation(binding.generation);
    let kinds = [binding_kind::AVAILABLE, binding_kind::DIFF_REPORTED];
    kinds.iter().any(|kind| binding.conditions.is_true_at(kind, at))
}

/// S1 as people see it: never more clusters down at once than the stage allows.
pub fn few_are_down(seen: &Observed) -> Told {
    let status = &seen.run.status;
    let strategy = status.staged_update_strategy_snapshot.iter().flat_map(|s| &s.stages);
    let crowded = strategy.zip(&status.stages_status).filter_map(|(config, stage)| {
        let (down, most) = (down(seen, stage), concurrency(config, stage.clusters.len()).ok()?);
        let what =
            format!("{} of at most {most} are down in {}", down.join(", "), stage.stage_name);
        (down.len() > most).then(|| broken("S1", what))
    });
    crowded.collect()
}

/// S4: neither the record nor the world knows of anything that is still moving.
pub fn stop_is_true(seen: &Observed) -> Told {
    let status = &seen.run.status;
    if reason_of(status) != Some(reason::STOPPED) {
        return Vec::new();
    }
    let stages = status.stages_status.iter().chain(&status.deletion_stage_status);
    let flying = stages.flat_map(|stage| &stage.clusters).filter(|cluster| in_flight(cluster));
    let mut names: Vec<String> = flying.map(|cluster| cluster.cluster_name.clone()).collect();
    names.extend(status.stages_status.iter().flat_map(|stage| down(seen, stage)));
    names.sort_unstable();
    names.dedup();
    names.iter().map(|name| broken("S4", format!("stopped with {name} in flight"))).collect()
}

/// S2, and the half of S3 that guards the first write of a stage.
fn in_turn(before: &Observed, binding: &Binding) -> Told {
    let mut told = Vec::new();
    let cluster = binding.cluster();
    for stage in &before.run.status.stages_status {
        let name = &stage.stage_name;
        if let Some(entry) = stage.clusters.iter().find(|entry| entry.cluster_name == cluster) {
            if !in_flight(entry) {
                told.push(broken("S1", format!("{cluster} is touched without a promise")));
            }
            let gates = stage.before_stage_task_status.iter();
            if gates.into_iter().any(|task| !is_approved(task)) {
                told.push(broken("S3", format!("{cluster} of {name} before the approval")));
            }
            return told;
        }
        if says(&stage.conditions, update_run::SUCCEEDED) != Some(Truth::True) {
            told.push(broken("S2", format!("{cluster} while {name} is not done")));
        }
    }
    told.push(broken("S2", format!("{cluster} belongs to no stage")));
    told
}

fn is_approved(task: &StageTaskStatus) -> bool {
    says(&task.conditions, stage_task::APPROVAL_REQUEST_APPROVED) == Some(Truth::True)
}

/// S7.
fn deleted_last(before: &Observed, binding: &Binding) -> Told {
    let (status, cluster) = (&before.run.status, binding.cluster());
    let mut told = Vec::new();
    let done = |stage: &StageUpdatingStatus| {
        says(&stage.conditions, update_run::SUCCEEDED) == Some(Truth::True)
    };
    if !status.stages_status.iter().all(done) {
        told.push(broken("S7", format!("{cluster} is swept before every stage is done")));
    }
    let listed = status.deletion_stage_status.iter().flat_map(|stage| &stage.clusters);
    if !listed.into_iter().any(|entry| entry.cluster_name == cluster && in_flight(entry)) {
        told.push(broken("S7", format!("{cluster} is swept and was not promised")));
    }
    if !binding.is_unscheduled() {
        told.push(broken("S7", format!("{cluster} is swept and was chosen again")));
    }
    told
}

/// S9, for a write.
fn uses_the_record(
    before: &Observed,
    spec: &flagship_api::binding::ResourceBindingSpec,
    cluster: &str,
) -> Told {
    let status = &before.run.status;
    let stages = status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let entry = stages.into_iter().find(|entry| entry.cluster_name == cluster);
    let same = Target::of(before, status).is_ok_and(|target| {
        entry.is_some_and(|entry| {
            spec.resource_snapshot_name == target.snapshot
                && spec.apply_strategy == target.apply
                && spec.resource_override_snapshots == entry.resource_override_snapshots
                && spec.cluster_resource_override_snapshots
                    == entry.cluster_resource_override_snapshots
        })
    });
    if same { Vec::new() } else { vec![broken("S9", format!("{cluster} gets something else"))] }
}

/// S3, for the record.
fn gates_hold(read: &Observed, old: &StageUpdatingStatus, new: &StageUpdatingStatus) -> Told {
    let mut told = Vec::new();
    let known = old.before_stage_task_status.iter().chain(&old.after_stage_task_status);
    let known: Vec<&StageTaskStatus> = known.collect();
    let tasks = new.before_stage_task_status.iter().chain(&new.after_stage_task_status);
    for task in tasks.filter(|task| task.r#type == StageTaskType::Approval && is_approved(task)) {
        let name = &task.approval_request_name;
        let already =
            known.iter().any(|known| known.approval_request_name == *name && is_approved(known));
        if !already && !is_given(read, name, &new.stage_name) {
            told.push(broken("S3", format!("nobody approved {name}")));
        }
    }
    let ends = says(&new.conditions, update_run::SUCCEEDED) == Some(Truth::True)
        && says(&old.conditions, update_run::SUCCEEDED).is_none();
    let is_open = |task: &StageTaskStatus| match task.r#type {
        StageTaskType::Approval => !is_approved(task),
        StageTaskType::TimedWait => {
            says(&task.conditions, stage_task::WAIT_TIME_ELAPSED) != Some(Truth::True)
        }
    };
    if ends && !new.clusters.is_empty() && new.after_stage_task_status.iter().any(is_open) {
        told.push(broken("S3", format!("{} ends with an open task", new.stage_name)));
    }
    told
}

fn is_given(seen: &Observed, name: &str, stage: &str) -> bool {
    let run = &seen.run;
    seen.approvals.iter().any(|request| {
        let at = Generation(request.generation);
        let made_for_us = match &request.run_uid {
            Some(uid) => *uid == run.uid,
            None => request.created >= run.created,
        };
        let given = [APPROVED, APPROVAL_ACCEPTED];
        request.name == name
            && made_for_us
            && (request.run.as_str(), request.stage.as_str()) == (run.name.as_str(), stage)
            && given.iter().any(|given| request.conditions.is_true_at(given, at))
    })
}

/// S5.
fn wait_is_whole(
    now: Timestamp,
    stage: &StageUpdatingStatus,
    old: Option<&StageTaskStatus>,
    new: &StageTaskStatus,
    wait: Option<&str>,
) -> Told {
    let elapsed = |task: &StageTaskStatus| {
        says(&task.conditions, stage_task::WAIT_TIME_ELAPSED) == Some(Truth::True)
    };
    if !elapsed(new) || old.is_some_and(elapsed) {
        return Vec::new();
    }
    let wait: GoDuration = wait.and_then(|text| text.parse().ok()).unwrap_or_default();
    let done = stage.clusters.iter();
    let done = done.filter_map(|c| c.conditions.of_type(updating_cluster::SUCCEEDED));
    let last = done.map(|condition| condition.last_transition_time.0).max();
    let short = last.is_some_and(|last| now.duration_since(last) < wait.as_signed_duration());
    if short {
        vec![broken("S5", format!("{} waited too short", stage.stage_name))]
    } else {
        Vec::new()
    }
}

/// S6 and S12: a cluster is declared done only while its binding holds exactly the target
/// and says at this very generation that it works.
fn really_there(
    read: &Observed,
    status: &UpdateRunStatus,
    cluster: &ClusterUpdatingStatus,
) -> Told {
    let name = &cluster.cluster_name;
    let Ok(target) = Target::of(read, status) else { return Vec::new() };
    let mut bindings = of_cluster(read, name);
    let Some(found) = bindings.find(|binding| target.is_on(binding, cluster)) else {
        return vec![broken("S6", format!("{name} succeeded on a binding it lost"))];
    };
    if works(found) && found.spec.state == BindingState::Bound {
        return Vec::new();
    }
    vec![broken("S12", format!("{name} succeeded before it works"))]
}

/// S8.
fn monotone(old: &UpdateRunStatus, new: &UpdateRunStatus) -> Told {
    let mut told = conditions_grow("run", &old.conditions, &new.conditions);
    if has_ended(old) && ending(old) != ending(new) {
        told.push(broken("S8", "the run changed after its end"));
    }
    if says(&old.conditions, update_run::INITIALIZED) != Some(Truth::True) {
        return told;
    }
    let names = |status: &UpdateRunStatus| -> Vec<(String, Vec<String>)> {
        let stages = status.stages_status.iter().chain(&status.deletion_stage_status);
        let clusters = |stage: &StageUpdatingStatus| {
            stage.clusters.iter().map(|c| c.cluster_name.clone()).collect()
        };
        stages.map(|stage| (stage.stage_name.clone(), clusters(stage))).collect()
    };
    if names(old) != names(new) {
        told.push(broken("S8", "stages or clusters changed"));
        return told;
    }
    let olds = old.stages_status.iter().chain(&old.deletion_stage_status);
    let news = new.stages_status.iter().chain(&new.deletion_stage_status);
    for (old, new) in olds.zip(news) {
        let name = &new.stage_name;
        told.extend(conditions_grow(name, &old.conditions, &new.conditions));
        if (old.start_time.is_some() && old.start_time != new.start_time)
            || (old.end_time.is_some() && old.end_time != new.end_time)
        {
            told.push(broken("S8", format!("{name} began or ended twice")));
        }
        if let (Some(start), Some(end)) = (&new.start_time, &new.end_time)
            && start.0 > end.0
        {
            told.push(broken("S8", format!("{name} ended before it began")));
        }
        for (old, new) in old.clusters.iter().zip(&new.clusters) {
            let name = &new.cluster_name;
            told.extend(conditions_grow(name, &old.conditions, &new.conditions));
            let back = is_started(old) && !is_started(new);
            let undone = outcome(old).is_some() && outcome(old) != outcome(new);
            if back || undone || (outcome(new).is_some() && !is_started(new)) {
                told.push(broken("S8", format!("{name} went back")));
            }
        }
    }
    told
}

fn conditions_grow(what: &str, old: &[Condition], new: &[Condition]) -> Told {
    let mut told = Vec::new();
    for condition in old {
        let kind = &condition.type_;
        let Some(now) = new.of_type(kind) else {
            told.push(broken("S8", format!("{what} lost {kind}")));
            continue;
        };
        if Generation::seen_by(now) < Generation::seen_by(condition) {
            told.push(broken("S8", format!("{what} {kind} speaks of an older generation")));
        }
        let moved = now.last_transition_time != condition.last_transition_time;
        if moved && now.status == condition.status {
            told.push(broken("S8", format!("{what} {kind} moved its time without a change")));
        }
    }
    told
}

/// S9, for the record.
fn frozen(old: &UpdateRunStatus, new: &UpdateRunStatus) -> Told {
    if says(&old.conditions, update_run::INITIALIZED) != Some(Truth::True) {
        return Vec::new();
    }
    let overrides = |status: &UpdateRunStatus| -> Vec<_> {
        let clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
        let lists = clusters.map(|c| {
            (c.resource_override_snapshots.clone(), c.cluster_resource_override_snapshots.clone())
        });
        lists.collect()
    };
    let same = old.policy_snapshot_index_used == new.policy_snapshot_index_used
        && old.policy_observed_cluster_count == new.policy_observed_cluster_count
        && old.resource_snapshot_index_used == new.resource_snapshot_index_used
        && old.applied_strategy == new.applied_strategy
        && old.staged_update_strategy_snapshot == new.staged_update_strategy_snapshot
        && overrides(old) == overrides(new);
    if same { Vec::new() } else { vec![broken("S9", "what the run was fixed to has changed")] }
}

/// Whether a declared wait is so.
fn is_true(seen: &Observed, waiting: &Waiting) -> bool {
    let status = &seen.run.status;
    let stages = status.stages_status.iter();
    let flying = |name: &str| {
        let clusters = stages.clone().chain(&status.deletion_stage_status);
        let mut clusters = clusters.flat_map(|stage| &stage.clusters);
        clusters.any(|cluster| cluster.cluster_name == name && in_flight(cluster))
    };
    match waiting {
        Waiting::Scheduling { .. } => status.conditions.is_empty(),
        Waiting::Start => seen.run.state() == UpdateRunState::Initialize,
        Waiting::Resume => {
            seen.run.state() == UpdateRunState::Stop && reason_of(status) == Some(reason::STOPPED)
        }
        Waiting::Approval { stage, request, .. } => {
            seen.approvals.iter().any(|found| found.name == *request)
                && !is_given(seen, request, stage)
        }
        Waiting::Timer { until, .. } => seen.now < *until,
        Waiting::Updating { clusters, .. } => {
            !clusters.is_empty() && clusters.iter().all(|name| flying(name))
        }
        Waiting::Stuck { clusters, .. } => {
            let named = !clusters.is_empty() && clusters.iter().all(|name| flying(name));
            named && reason_of(status) == Some(reason::STUCK)
        }
        Waiting::Deleting { clusters } => clusters
            .iter()
            .all(|name| seen.bindings.iter().any(|b| b.cluster() == name && b.deleting)),
    }
}
