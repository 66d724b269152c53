//! Which clusters belong to which stage, and in which order.
//!
//! Computed when a run is initialized and computed again on every later pass from the
//! recorded strategy: a cluster that joins, leaves or changes its labels is noticed by
//! the difference.

use std::collections::{BTreeMap, BTreeSet};

use flagship_api::defaults::SchemaDefaults;
use flagship_api::names::{StageSide, approval_request};
use flagship_api::rollout_policy::Order;
use flagship_api::selector;
use flagship_api::staged_update::{StageConfig, StageTask, StageTaskType, UpdateStrategySpec};
use flagship_api::staged_update_status::{
    ClusterUpdatingStatus, StageTaskStatus, StageUpdatingStatus,
};
use flagship_base::duration::GoDuration;
use flagship_base::go_number::atoi;

use super::inputs::Sorted;
use super::messages::Failure;
use super::observed::Observed;
use crate::model::Cluster;
use crate::policy::{Adopted, order};

/// How many clusters are named where there may be many.
pub const NAMED_AT_MOST: usize = 10;

/// The stages of a run, nothing done yet.
#[derive(Debug, Clone, Default)]
pub struct Stages {
    /// One entry per stage of the strategy.
    pub stages: Vec<StageUpdatingStatus>,
    /// Selected clusters that no stage takes, by name.
    left_over: Vec<String>,
}

/// The strategy as a run records it: defaults filled in, waits in one spelling, none on
/// approvals.
pub fn copied(strategy: &UpdateStrategySpec) -> UpdateStrategySpec {
    let mut copy = strategy.clone();
    copy.fill_schema_defaults();
    for stage in &mut copy.stages {
        for task in stage.before_stage_tasks.iter_mut().chain(&mut stage.after_stage_tasks) {
            task.wait_time = match task.r#type {
                StageTaskType::Approval => None,
                // What cannot be read stays as it is; the check of the tasks says why.
                StageTaskType::TimedWait => task.wait_time.take().map(|text| {
                    let read = text.parse::<GoDuration>();
                    read.map(GoDuration::as_wait_time).unwrap_or(text)
                }),
            };
        }
    }
    copy
}

/// Gives every stage a gate whose approvals a policy asks for: a strategy that leaves it out is
/// no way around the policy.
pub fn with_gates(strategy: &mut UpdateStrategySpec, adopted: &Adopted) {
    for stage in &mut strategy.stages {
        if stage.before_stage_tasks.is_empty() && adopted.approvals(&stage.name).is_some() {
            let gate = StageTask { r#type: StageTaskType::Approval, wait_time: None };
            stage.before_stage_tasks.push(gate);
        }
    }
}

/// Two stages of one name would share their approval requests.
pub fn distinct_names(seen: &Observed, strategy: &UpdateStrategySpec) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    match strategy.stages.iter().find(|stage| !names.insert(&stage.name)) {
        None => Ok(()),
        Some(twice) => Err(Failure::valid_user(format!(
            "stage name duplicated, updateStrategy: `{}`, stage: {}",
            seen.run.strategy_key().slashed(),
            twice.name
        ))),
    }
}

/// Deals the selected clusters out.
pub fn compute(
    seen: &Observed,
    strategy: &UpdateStrategySpec,
    sorted: &Sorted<'_>,
) -> Result<Stages, Failure> {
    let mut free: BTreeSet<&str> = sorted.selected.iter().map(|b| b.cluster()).collect();
    let selected = free.clone();
    let fleet: BTreeMap<&str, &Cluster> = seen
        .clusters
        .iter()
        .filter(|cluster| selected.contains(cluster.name.as_str()))
        .map(|cluster| (cluster.name.as_str(), cluster.as_ref()))
        .collect();
    let mut stages = Vec::new();
    for stage in &strategy.stages {
        let wrong = |what: &str, why: String| {
            Failure::valid_user(format!(
                "{what}, updateStrategy: `{}`, stage: {}, err: {why}",
                seen.run.strategy_key().slashed(),
                stage.name
            ))
        };
        before_tasks(&stage.before_stage_tasks)
            .map_err(|why| wrong("the before stage tasks are invalid", why))?;
        after_tasks(&stage.after_stage_tasks)
            .map_err(|why| wrong("the after stage tasks are invalid", why))?;
        let selector = selector::read(stage.label_selector.as_ref())
            .map_err(|error| wrong("the stage label selector is invalid", error.to_string()))?;
        let mut members = Vec::new();
        for (name, cluster) in &fleet {
            if !selector.matches_what(|key| cluster.labels.get(key)) {
                continue;
            }
            if !free.remove(name) {
                return Err(Failure::valid_user(format!(
                    "cluster `{name}` appears in more than one stages"
                )));
            }
            members.push((rank(stage, cluster)?, *name));
        }
        members.sort_unstable();
        stages.push(started_from(seen, stage, members.into_iter().map(|(_, name)| name)));
    }
    let left_over = free.into_iter().map(str::to_owned).collect();
    Ok(Stages { stages, left_over })
}

impl Stages {
    /// Puts clusters in the order in which they were recorded, where they are the same.
    pub fn in_order_of(&mut self, recorded: &[StageUpdatingStatus]) {
        for (stage, recorded) in self.stages.iter_mut().zip(recorded) {
            let at = |cluster: &ClusterUpdatingStatus| {
                let mut names = recorded.clusters.iter().map(|known| &known.cluster_name);
                names.position(|name| *name == cluster.cluster_name)
            };
            stage.clusters.sort_by_key(|cluster| at(cluster).unwrap_or(usize::MAX));
        }
    }

    /// Puts the clusters of each stage in the order that a policy asks for.
    pub fn ordered(&mut self, seen: &Observed, adopted: &Adopted) {
        for stage in &mut self.stages {
            let name = |cluster: &ClusterUpdatingStatus| cluster.cluster_name.clone();
            let mut names: Vec<String> = stage.clusters.iter().map(name).collect();
            let fleet: Vec<&Cluster> = seen.clusters.iter().map(AsRef::as_ref).collect();
            match adopted.order(&stage.stage_name) {
                Order::Label => continue,
                Order::Random => order::random(&seen.run.uid, &mut names),
                Order::Diverse => order::diverse(&fleet, &mut names),
            }
            stage.clusters = names.iter().map(|name| untouched(name)).collect();
        }
    }

    /// Whether every selected cluster has its stage.
    pub fn all_placed(&self) -> Result<(), Failure> {
        if self.left_over.is_empty() {
            return Ok(());
        }
        let named: Vec<&str> =
            self.left_over.iter().take(NAMED_AT_MOST).map(String::as_str).collect();
        Err(Failure::valid_user(format!(
            "some clusters are not placed in any stage, total {}, showing up to 10: {}",
            self.left_over.len(),
            named.join(", ")
        )))
    }
}

/// The number a cluster is sorted by; all are equal without a sorting label.
fn rank(stage: &StageConfig, cluster: &Cluster) -> Result<i64, Failure> {
    let key = &stage.sorting_label_key;
    if key.is_empty() {
        return Ok(0);
    }
    let value = cluster.labels.get(key).unwrap_or_default();
    atoi(value).map_err(|error| {
        Failure::valid_user(format!(
            "the sorting label `{key}:{value}` on cluster `{}` is not valid: {error}",
            cluster.name
        ))
    })
}

/// A stage with these clusters, nothing done.
pub fn started_from<'a>(
    seen: &Observed,
    stage: &StageConfig,
    clusters: impl Iterator<Item = &'a str>,
) -> StageUpdatingStatus {
    let tasks = |side, tasks: &[StageTask]| {
        let status = tasks.iter().map(|task| StageTaskStatus {
            r#type: task.r#type,
            approval_request_name: match task.r#type {
                StageTaskType::Approval => approval_request(&seen.run.name, side, &*stage.name),
                StageTaskType::TimedWait => String::new(),
            },
            conditions: Vec::new(),
        });
        status.collect()
    };
    StageUpdatingStatus {
        stage_name: stage.name.clone(),
        clusters: clusters.map(untouched).collect(),
        before_stage_task_status: tasks(StageSide::Before, &stage.before_stage_tasks),
        after_stage_task_status: tasks(StageSide::After, &stage.after_stage_tasks),
        ..StageUpdatingStatus::default()
    }
}

/// A cluster with nothing done.
pub fn untouched(name: &str) -> ClusterUpdatingStatus {
    ClusterUpdatingStatus { cluster_name: name.to_owned(), ..ClusterUpdatingStatus::default() }
}

/// What is wrong with the tasks before a stage.
pub fn before_tasks(tasks: &[StageTask]) -> Result<(), String> {
    if tasks.len() > 1 {
        return Err("beforeStageTasks can have at most one task".to_owned());
    }
    for (at, task) in tasks.iter().enumerate() {
        if task.r#type != StageTaskType::Approval {
            return Err(format!(
                "task {at} of type {:?} is not allowed in beforeStageTasks, allowed type: Approval",
                task.r#type
            ));
        }
        if task.wait_time.is_some() {
            return Err(format!("task {at} of type Approval cannot have wait duration set"));
        }
    }
    Ok(())
}

/// What is wrong with the tasks after a stage.
pub fn after_tasks(tasks: &[StageTask]) -> Result<(), String> {
    if let [first, second] = tasks
        && first.r#type == second.r#type
    {
        let kind = first.r#type;
        return Err(format!("afterStageTasks cannot have two tasks of the same type: {kind:?}"));
    }
    for (at, task) in tasks.iter().enumerate() {
        if task.r#type != StageTaskType::TimedWait {
            continue;
        }
        let Some(text) = &task.wait_time else {
            return Err(format!("task {at} of type TimedWait has wait duration set to nil"));
        };
        match text.parse::<GoDuration>() {
            Ok(wait) if wait <= GoDuration::ZERO => {
                return Err(format!("task {at} of type TimedWait has wait duration <= 0"));
            }
            Ok(_) => {}
            Err(error) => {
                return Err(format!(
                    "task {at} of type TimedWait has a bad wait duration: {error}"
                ));
            }
        }
    }
    Ok(())
}
