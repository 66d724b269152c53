//! Carries out the stage whose turn it is (state Run).
//!
//! A cluster moves Waiting -> Started -> Succeeded and never back. "Started" is a promise
//! written before the binding is touched, so that after a crash the record is always
//! ahead of the bindings and never behind them. Finished clusters free their slots in the same
//! pass, and one status write carries both.

use flagship_api::condition::{ConditionStatus, Conditions};
use flagship_api::condition_type::updating_cluster::STARTED;
use flagship_api::names::StageSide;
use flagship_api::rollout_policy::Then;
use flagship_api::staged_update::StageConfig;
use flagship_api::staged_update_status::{ClusterUpdatingStatus, StageUpdatingStatus};
use jiff::SignedDuration;

use super::checked;
use super::deletion;
use super::delivery::{self, Delivery, Target};
use super::gates::{self, STAGE_POLL};
use super::held;
use super::lifecycle::{in_flight, is_settled, outcome};
use super::max_concurrency::concurrency;
use super::messages::{Failure, abort, cluster_failed, missing, taken, together};
use super::metrics;
use super::plan_builder::PlanBuilder;
use super::policed;
use super::reconcile::{Action, Waiting};
use super::status::{ConditionValue, ConditionWriter};
use super::undoing;
use crate::event::Event;
use crate::model::Binding;

/// Clusters in flight are looked at this often without a cause.
pub const CLUSTER_POLL: SignedDuration = SignedDuration::from_secs(15);

/// Event: a cluster another run is still updating is taken from it.
pub const TAKEN_OVER: &str = "ClusterTakenOver";

/// Carries out one stage, or the deletion stage behind the last.
pub fn execute(pass: &mut PlanBuilder<'_>, current: usize) {
    in_stage(pass, current, |pass, stage, config| match config {
        Some(config) => update(pass, stage, config),
        None => deletion::execute(pass, stage),
    });
}

/// Works on the current stage; `None` as its configuration means the deletion stage. A
/// failure ends stage and run.
pub fn in_stage(
    pass: &mut PlanBuilder<'_>,
    current: usize,
    work: impl FnOnce(
        &mut PlanBuilder<'_>,
        &mut StageUpdatingStatus,
        Option<&StageConfig>,
    ) -> Result<ConditionValue, Failure>,
) {
    let strategy = pass.status.staged_update_strategy_snapshot.clone().unwrap_or_default();
    let config = strategy.stages.get(current);
    // The stage is taken out and put back, so that the rest of the status can be read.
    let taken = match pass.status.stages_status.get_mut(current) {
        Some(stage) => Some(std::mem::take(stage)),
        None => pass.status.deletion_stage_status.take(),
    };
    let mut stage = taken.unwrap_or_default();
    let done = work(pass, &mut stage, config);
    let failure = match done {
        Ok(value) => {
            let value = match value {
                ConditionValue::Succeeded => policed::ended(pass.seen, &pass.status),
                value => pass.unless_held(&stage.stage_name, value),
            };
            pass.conclude(&value);
            None
        }
        Err(Failure::Final(text) | Failure::Early(text)) => Some(text),
        Err(Failure::Passing(trouble)) => Some(abort(&trouble.to_string())),
    };
    if let Some(text) = failure {
        pass.writer.stage_failed(&mut stage, &text);
        pass.fail(&text);
    }
    match pass.status.stages_status.get_mut(current) {
        Some(place) => *place = stage,
        None => pass.status.deletion_stage_status = Some(stage),
    }
}

fn update(
    pass: &mut PlanBuilder<'_>,
    stage: &mut StageUpdatingStatus,
    config: &StageConfig,
) -> Result<ConditionValue, Failure> {
    let name = stage.stage_name.clone();
    if stage.clusters.is_empty() {
        pass.writer.stage_skipped(stage);
        pass.wake_in(SignedDuration::ZERO);
        return Ok(ConditionValue::Progressing);
    }
    if !gates::before(pass, stage)? {
        pass.writer.stage_waits(stage, StageSide::Before);
        pass.wake_in(STAGE_POLL);
        return Ok(ConditionValue::Waiting(StageSide::Before, name));
    }
    none_failed(stage)?;
    policed::leave_out(pass, stage);
    let target = Target::of(pass.seen, &pass.status)?;
    let was_open = stage.clusters.iter().any(|cluster| !is_settled(cluster));
    let stuck = watch(pass, stage, &target)?;
    let most = concurrency(config, stage.clusters.len())?;
    let held = policed::quarantined(pass.seen, &pass.status);
    let is_spent = policed::spent_with(pass, stage).is_some();
    let may_begin = !is_spent && held.is_none() && pass.may_begin(&name);
    if may_begin {
        start(pass, stage, &target, most)?;
    }
    if let Some(spent) = policed::spent_with(pass, stage)
        && !stage.clusters.iter().any(in_flight)
    {
        // What follows must not be undone by a cluster that comes up after all: first the
        // record says who has failed.
        if spent.then == Then::Rollback && !policed::is_spent_for_good(pass.seen) {
            pass.writer.stage_started(stage);
            pass.wake_in(SignedDuration::ZERO);
            return Ok(ConditionValue::Progressing);
        }
        return Err(undoing::end(pass, stage, &spent));
    }
    let waits = stage.clusters.iter().any(|cluster| !is_settled(cluster));
    if let Some(why) = held
        && waits
        && !stage.clusters.iter().any(in_flight)
    {
        return Err(Failure::abort_user(why));
    }
    let closed = may_begin.then(|| pass.when_open(stage, &name)).flatten().filter(|_| waits);
    if let Some(closed) = closed {
        return Ok(closed);
    }
    if waits {
        if !may_begin && !stage.clusters.iter().any(in_flight) {
            return Ok(ConditionValue::Progressing);
        }
        pass.writer.stage_started(stage);
        return Ok(moving(pass, stage, stuck));
    }
    if was_open {
        pass.writer.stage_begins(stage);
        metrics::stage_done(pass, stage);
    }
    if let Some(checking) = checked::of_stage(pass, stage) {
        return Ok(checking);
    }
    // Where a policy lets the run go on all the same.
    let failed = checked::failure(stage).map(str::to_owned);
    pass.writer.stage_waits(stage, StageSide::After);
    checked::goes_on(stage, failed.as_deref());
    if gates::after(pass, stage, config)? {
        pass.writer.stage_succeeded(stage);
        checked::goes_on(stage, failed.as_deref());
        pass.wake_in(SignedDuration::ZERO);
        return Ok(ConditionValue::Progressing);
    }
    pass.wake_in(STAGE_POLL);
    Ok(ConditionValue::Waiting(StageSide::After, name))
}

fn none_failed(stage: &StageUpdatingStatus) -> Result<(), Failure> {
    let failed =
        stage.clusters.iter().filter(|entry| outcome(entry) == Some(ConditionStatus::False));
    let failed = failed.filter(|entry| !is_settled(entry));
    let told = failed.map(|entry| cluster_failed(&entry.cluster_name, &stage.stage_name));
    together(told.collect()).map_or(Ok(()), |text| Err(Failure::Final(text)))
}

/// What a stage with clusters in flight says: stuck, if some take too long.
fn moving(
    pass: &mut PlanBuilder<'_>,
    stage: &StageUpdatingStatus,
    stuck: Vec<String>,
) -> ConditionValue {
    pass.wake_in(CLUSTER_POLL);
    let checking = wait_for(pass, stage, &stuck);
    if stuck.is_empty() {
        checking.unwrap_or(ConditionValue::Progressing)
    } else {
        ConditionValue::Stuck(stuck, stage.stage_name.clone())
    }
}

/// Says which clusters a stage waits for; what the run says if all of them are only under check.
pub fn wait_for(
    pass: &mut PlanBuilder<'_>,
    stage: &StageUpdatingStatus,
    stuck: &[String],
) -> Option<ConditionValue> {
    let flying = stage.clusters.iter().filter(|cluster| in_flight(cluster));
    let mut clusters: Vec<String> = flying.map(|cluster| cluster.cluster_name.clone()).collect();
    let name = stage.stage_name.clone();
    let asks = pass.asks();
    clusters.retain(|cluster| !asks.iter().any(|ask| ask.cluster.as_ref() == Some(cluster)));
    let checking = (!asks.is_empty()).then(|| checked::wait(pass, &name));
    if clusters.is_empty() && checking.is_some() {
        return checking;
    }
    if stuck.is_empty() {
        pass.wait(Waiting::Updating { stage: name, clusters });
    } else {
        pass.wait(Waiting::Stuck { stage: name, clusters: stuck.to_vec() });
    }
    None
}

/// Looks at every cluster that was started and finishes what was promised; returns the
/// ones that take too long. Does not start anything, so that a run that is about to fail
/// disturbs no further cluster.
pub fn watch(
    pass: &mut PlanBuilder<'_>,
    stage: &mut StageUpdatingStatus,
    target: &Target,
) -> Result<Vec<String>, Failure> {
    let name = stage.stage_name.clone();
    let (mut stuck, mut failures) = (Vec::new(), Vec::new());
    let rest = match checked::checks_clusters(pass.seen, &name) {
        true => checked::not_begun(&pass.status, stage),
        false => Vec::new(),
    };
    for entry in stage.clusters.iter_mut().filter(|entry| in_flight(entry)) {
        let cluster = entry.cluster_name.clone();
        let Some(binding) = pass.sorted.of(&cluster) else {
            match pass.seen.run.keeps_its_clusters() {
                true => policed::settle(pass, entry, &policed::left(&cluster)),
                false => failures.push(missing(&cluster, &name, "")),
            }
            continue;
        };
        match delivery::look(pass.seen, target, binding, entry) {
            Delivery::Taken => {
                let why = taken(&cluster, &name, &pass.seen.run.beside(&binding.name));
                pass.writer.cluster_failed(entry, &why);
                failures.push(abort(&why));
            }
            Delivery::Done => match checked::of_cluster(pass, &name, &cluster, &rest) {
                None => pass.writer.cluster_succeeded(entry),
                Some(verdict) => policed::settle(pass, entry, &verdict),
            },
            moving => {
                // What was promised is done before it is judged: another hub may be about to.
                if moving == Delivery::Running
                    && let Some(verdict) = policed::judge(pass, &name, entry, binding)
                {
                    policed::settle(pass, entry, &verdict);
                    continue;
                }
                if moving == Delivery::Untouched
                    && let Some(verdict) = policed::moved_on(pass.seen, binding)
                {
                    policed::settle(pass, entry, &verdict);
                    continue;
                }
                if target.may_be_late(pass.seen, binding, moving) {
                    pass.announce(binding);
                }
                keep_promise(pass, target, binding, entry, moving);
                if is_stuck(pass, entry) {
                    stuck.push(cluster);
                }
            }
        }
    }
    together(failures).map_or(Ok(stuck), |text| Err(Failure::Final(text)))
}

/// Starts clusters in order while there are free slots.
fn start(
    pass: &mut PlanBuilder<'_>,
    stage: &mut StageUpdatingStatus,
    target: &Target,
    most: usize,
) -> Result<(), Failure> {
    let name = stage.stage_name.clone();
    let mut calendar = held::calendar(pass.seen, &name);
    let checks_clusters = checked::checks_clusters(pass.seen, &name);
    let mut busy = stage.clusters.iter().filter(|cluster| in_flight(cluster)).count();
    for at in 0..stage.clusters.len() {
        if busy >= most || policed::spent_with(pass, stage).is_some() {
            break;
        }
        let Some(entry) = stage.clusters.get_mut(at) else { break };
        if is_settled(entry) || in_flight(entry) {
            continue;
        }
        let clusters = &pass.seen.clusters;
        if calendar.as_mut().is_some_and(|open| !open.is_open(&entry.cluster_name, clusters)) {
            continue;
        }
        let Some(binding) = pass.sorted.of(&entry.cluster_name) else {
            if pass.seen.run.keeps_its_clusters() {
                let left = policed::left(&entry.cluster_name);
                policed::settle(pass, entry, &left);
                continue;
            }
            return Err(Failure::Final(missing(&entry.cluster_name, &name, "")));
        };
        if let Some(verdict) = policed::silent(pass.seen, &name, &entry.cluster_name) {
            policed::settle(pass, entry, &verdict);
            continue;
        }
        let delivery = delivery::look(pass.seen, target, binding, entry);
        if delivery == Delivery::Untouched
            && let Some(verdict) = policed::moved_on(pass.seen, binding)
        {
            policed::settle(pass, entry, &verdict);
            continue;
        }
        pass.remember(binding);
        let now = match delivery {
            Delivery::Untouched => delivery::promise_time(pass.seen, &entry.cluster_name),
            _ => pass.writer.now,
        };
        ConditionWriter { now, ..pass.writer }.cluster_started(entry);
        if delivery == Delivery::Done {
            if checks_clusters {
                busy += 1;
                pass.wake_in(SignedDuration::ZERO);
                continue;
            }
            pass.writer.cluster_succeeded(entry);
            continue;
        }
        busy += 1;
        if delivery == Delivery::Unsignalled && delivery::was_signalled(binding).is_some() {
            // It worked before somebody rewrote it, and may still seem to.
            pass.announce(binding);
        }
        keep_promise(pass, target, binding, entry, delivery);
        pass.wake_in(pass.seen.options.stuck_after);
    }
    Ok(())
}

/// Does to a binding what the record says was begun.
fn keep_promise(
    pass: &mut PlanBuilder<'_>,
    target: &Target,
    binding: &Binding,
    entry: &ClusterUpdatingStatus,
    delivery: Delivery,
) {
    if delivery == Delivery::Untouched {
        tell_rival(pass, binding);
        pass.remember(binding);
        let deliver = target.deliver(pass.seen, binding, entry);
        pass.then(Action::UpdateBinding(Box::new(deliver)));
    }
    if matches!(delivery, Delivery::Untouched | Delivery::Unsignalled) {
        pass.then(Action::SignalStart(target.signal(pass.seen, binding)));
    }
}

fn tell_rival(pass: &mut PlanBuilder<'_>, binding: &Binding) {
    let Some(fence) = &binding.fence else { return };
    let Some(rival) = delivery::rival(pass.seen, &fence.run).filter(|rival| !rival.ended) else {
        return;
    };
    let message =
        format!("cluster {} is taken over from update run {}", binding.cluster(), rival.name);
    pass.tell(Event::warning(TAKEN_OVER, message));
}

/// Whether a cluster takes too long; if not yet, the pass looks again when it would.
fn is_stuck(pass: &mut PlanBuilder<'_>, entry: &ClusterUpdatingStatus) -> bool {
    let Some(started) = entry.conditions.of_type(STARTED) else { return false };
    let since = pass.seen.now.duration_since(started.last_transition_time.0);
    let left = pass.seen.options.stuck_after - since;
    if left <= SignedDuration::ZERO {
        return true;
    }
    pass.wake_in(left);
    false
}
