//! Takes a run back whose failure budget is spent: `failure.then: Rollback`.
//!
//! When nothing of the run is under way any more it creates another run, `<run>-rollback`,
//! and only then records its own end: a hub that dies between the two finds the other run
//! and goes on. Whoever initializes that run works out everything anew from the record of
//! the first; what its annotation and spec say are claims that must agree with it. So a
//! rollback made by hand is either the very one that the hub would make, or refused.

use std::collections::{BTreeMap, BTreeSet};

use flagship_api::keys::own;
use flagship_api::names::{DELETION_STAGE, rollback_run, rolled_back_run};
use flagship_api::rollout_policy::Then;
use flagship_api::staged_update::{UpdateRunSpec, UpdateRunState};
use flagship_api::staged_update_status::{StageUpdatingStatus, UpdateRunStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::lifecycle::{has_ended, is_started};
use super::messages::{Failure, abort};
use super::observed::{Observed, Run};
use super::plan_builder::PlanBuilder;
use super::policed::{Spent, spent};
use super::reconcile::Action;
use super::{inputs, overrides, snapshot, stages};
use crate::model::Binding;
use crate::placement::resource_snapshots::ResourceAction;
use crate::policy::before::version;
use crate::policy::quarantine::Quarantine;
use crate::policy::{Adopted, Undoes};

/// A run to create that takes this one back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateRollback {
    /// Its name.
    pub name: String,
    /// What it is to do.
    pub spec: UpdateRunSpec,
}

impl CreateRollback {
    /// Metadata of the object to create.
    pub fn metadata(&self, run: &Run) -> ObjectMeta {
        let of = (own::ROLLBACK_OF.to_owned(), run.uid.clone());
        ObjectMeta {
            name: Some(self.name.clone()),
            namespace: run.namespace.clone(),
            annotations: Some(BTreeMap::from([of])),
            ..ObjectMeta::default()
        }
    }
}

/// Where clusters go back to, and which.
struct Undo {
    version: String,
    clusters: BTreeSet<String>,
}

impl Undo {
    /// The clusters among them that were of this stage, in its order.
    fn of<'a>(&self, record: &'a UpdateRunStatus, stage: &str) -> Vec<&'a str> {
        let found = record.stages_status.iter().find(|found| found.stage_name == stage);
        let clusters = found.into_iter().flat_map(|stage| &stage.clusters);
        let names = clusters.map(|cluster| cluster.cluster_name.as_str());
        names.filter(|name| self.clusters.contains(*name)).collect()
    }
}

/// How a run ends whose budget is spent, and in which words.
pub fn end(pass: &mut PlanBuilder<'_>, stage: &StageUpdatingStatus, spent: &Spent) -> Failure {
    if spent.then != Then::Rollback {
        return Failure::abort(&spent.text);
    }
    let told = match take_back(pass, stage) {
        Ok((undo, create)) => {
            let told = format!(
                "{} cluster(s) go back to snapshot {} in update run `{}`, and snapshot {} is quarantined",
                undo.clusters.len(),
                undo.version,
                create.name,
                pass.seen.run.status.resource_snapshot_index_used
            );
            quarantine(pass, spent);
            if pass.seen.policy.follower.is_none() {
                pass.at_the_end(Action::CreateRollback(Box::new(create)));
            }
            told
        }
        Err(why) => format!("nothing is rolled back: {why}"),
    };
    Failure::Final(abort(&format!("{}; {told}", spent.text)))
}

/// What has failed must not be rolled out again by mistake.
fn quarantine(pass: &mut PlanBuilder<'_>, spent: &Spent) {
    let Some(brought) = &pass.seen.policy.brought else { return };
    if brought.quarantine.is_none() {
        let run = pass.seen.run.beside(&pass.seen.run.name);
        let note = Quarantine {
            hash: brought.hash.clone(),
            reason: spent.text.clone(),
            by: format!("update run {run}"),
        };
        pass.at_the_end(Action::Quarantine(note));
    }
}

fn take_back(
    pass: &PlanBuilder<'_>,
    stage: &StageUpdatingStatus,
) -> Result<(Undo, CreateRollback), String> {
    let run = &pass.seen.run;
    let others = pass.status.stages_status.iter();
    let undo = decide(run, others.chain([stage]), pass.seen)?;
    let name = rollback_run(&run.name)
        .ok_or_else(|| format!("`{}-rollback` is too long for the name of a run", run.name))?;
    let spec = wanted(run, &undo.version);
    if let Some(found) = &pass.seen.policy.follower
        && (found.rollback_of.as_ref() != Some(&run.uid) || !asks_the_same(&found.spec, &spec))
    {
        return Err(format!("there is an update run `{name}` already, which is not its rollback"));
    }
    Ok((undo, CreateRollback { name, spec }))
}

/// What the rollback of a run is asked to do.
fn wanted(run: &Run, version: &str) -> UpdateRunSpec {
    UpdateRunSpec {
        resource_snapshot_index: version.to_owned(),
        state: Some(UpdateRunState::Run),
        ..run.spec.clone()
    }
}

/// Whether two specs differ in nothing but the state, which people may change.
fn asks_the_same(found: &UpdateRunSpec, wanted: &UpdateRunSpec) -> bool {
    UpdateRunSpec { state: wanted.state.clone(), ..found.clone() } == *wanted
}

/// Where the clusters of a run go back to that still have what it brought; an error says why
/// they do not.
fn decide<'a>(
    run: &Run,
    stages: impl Iterator<Item = &'a StageUpdatingStatus>,
    seen: &Observed,
) -> Result<Undo, String> {
    let before = run.adopted.as_ref().map(|adopted| &adopted.before);
    let brought = run.status.resource_snapshot_index_used.as_str();
    let started = stages.flat_map(|stage| &stage.clusters).filter(|cluster| is_started(cluster));
    let moved: BTreeSet<&str> = started
        .map(|cluster| cluster.cluster_name.as_str())
        .filter(|cluster| before.and_then(|before| before.held(cluster)) != Some(brought))
        .collect();
    let ours = |binding: &&Binding| {
        let fence = binding.fence.as_ref();
        fence.is_some_and(|fence| fence.run == run.uid)
            && !binding.is_unscheduled()
            && version(binding) == brought
    };
    let bindings = seen.bindings.iter().map(|binding| &**binding).filter(ours);
    let held = bindings.map(Binding::cluster).filter(|cluster| moved.contains(cluster));
    let clusters: BTreeSet<String> = held.map(str::to_owned).collect();
    if clusters.is_empty() {
        return Err("no cluster has what it brought".to_owned());
    }
    let before = before.ok_or("what its clusters had is not known")?;
    Ok(Undo { version: before.goes_back_to(&moved)?, clusters })
}

/// The plan of a run that takes another one back: its touched clusters, the last stage first,
/// without the gates that people have passed or stopped at already.
pub fn work_out(
    seen: &Observed,
    of: &str,
    status: &mut UpdateRunStatus,
    actions: &mut Vec<ResourceAction>,
    adopted: &mut Adopted,
) -> Result<(), Failure> {
    let (placement, apply) = inputs::placement(seen)?;
    status.applied_strategy = Some(apply);
    let (source, undo) = judged(seen, of)?;
    let record = &source.status;
    status.policy_snapshot_index_used = match inputs::policy(seen) {
        Ok((_, index)) => index,
        Err(_) => record.policy_snapshot_index_used.clone(),
    };
    status.policy_observed_cluster_count = i64::try_from(undo.clusters.len()).unwrap_or(i64::MAX);

    let mut strategy = record.staged_update_strategy_snapshot.clone().unwrap_or_default();
    strategy.stages.retain(|stage| !undo.of(record, &stage.name).is_empty());
    strategy.stages.reverse();
    for stage in &mut strategy.stages {
        stage.before_stage_tasks.clear();
        stage.after_stage_tasks.clear();
    }
    let planned = strategy.stages.iter();
    let planned = planned
        .map(|stage| stages::started_from(seen, stage, undo.of(record, &stage.name).into_iter()));
    status.stages_status = planned.collect();
    status.staged_update_strategy_snapshot = Some(strategy);
    status.deletion_stage_status = Some(StageUpdatingStatus {
        stage_name: DELETION_STAGE.to_owned(),
        ..StageUpdatingStatus::default()
    });
    *adopted = Adopted {
        policies: source.adopted.clone().unwrap_or_default().policies,
        undoes: Some(Undoes { run: source.name.clone(), uid: source.uid.clone() }),
        ..Adopted::default()
    };

    let chosen = snapshot::choose(seen, placement)?;
    *actions = chosen.actions;
    status.resource_snapshot_index_used = chosen.index;
    overrides::record(seen, &chosen.resources, &mut status.stages_status)
}

/// The run that this one takes back, if its record agrees.
fn judged<'a>(seen: &'a Observed, of: &str) -> Result<(&'a Run, Undo), Failure> {
    let refused = |why: &str| {
        Failure::valid_user(format!(
            "annotation {} is the hub's word, and this run is not the rollback it stands for: {why}; remove the annotation, or use `flagship rollback`",
            own::ROLLBACK_OF
        ))
    };
    let name = rolled_back_run(&seen.run.name);
    let source = seen.policy.source.as_deref();
    let source = source.filter(|found| Some(found.name.as_str()) == name && found.uid == of);
    let source = source.ok_or_else(|| refused("there is no update run of that name and UID"))?;
    if !has_ended(&source.status) {
        let waits =
            format!("update run `{}`, which this one takes back, has not ended", source.name);
        return Err(Failure::passing(waits));
    }
    if let Some(why) = source.changed_policies() {
        return Err(refused(&why));
    }
    let stages = source.status.stages_status.iter();
    spent(source.adopted.as_ref(), stages.clone())
        .filter(|spent| spent.then == Then::Rollback)
        .ok_or_else(|| {
            refused(&format!("no policy wants update run `{}` to be rolled back", source.name))
        })?;
    let undo = decide(source, stages, seen).map_err(|why| refused(&why))?;
    if !asks_the_same(&seen.run.spec, &wanted(source, &undo.version)) {
        let told = format!(
            "update run `{}` goes back to snapshot {} of placement `{}` by its own strategy",
            source.name, undo.version, source.spec.placement_name
        );
        return Err(refused(&told));
    }
    Ok((source, undo))
}
