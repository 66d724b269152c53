//! What a run of a placement would do, before there is one.
//!
//! The very rules of update runs are asked, about a run that is never created; so what
//! they would refuse is refused here, in the same words.

use std::collections::BTreeMap;
use std::sync::Arc;

use flagship_api::names::ObjectKey;
use flagship_api::staged_update::{UpdateRunSpec, UpdateStrategySpec};
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_rules::model::{Binding, Cluster, PolicySnapshot, ResourceSnapshot};
use flagship_rules::placement::Placement;
use flagship_rules::policy;
use flagship_rules::policy::freeze::{Freeze, holding};
use flagship_rules::update_run::lifecycle::{at_once as at_once_of, configured, has_ended};
use flagship_rules::update_run::superseded::{Superseded, superseded, taken};
use flagship_rules::update_run::{
    Action, Observed, Options, OtherRun, Run, StageOpenings, closed, plan, week_ahead,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;

use crate::board::{Board, Stage};
use crate::effect::{Content, Effect, Planned};
use crate::order::some_of;
use crate::unstaged::{Unstaged, unstaged};
use crate::why::{Cause, ClusterFacts, Facts, Finding, RunFacts, Subject, explain};

/// What a plan is made from.
#[derive(Clone, Debug)]
pub struct Asked {
    /// When it was read.
    pub now: Timestamp,
    /// The placement's key.
    pub key: ObjectKey,
    /// The strategy's name.
    pub strategy_name: String,
    /// The strategy, if there is one of that name.
    pub strategy: Option<UpdateStrategySpec>,
    /// The placement.
    pub placement: Placement,
    /// Its latest policy snapshots.
    pub policy_snapshots: Vec<Arc<PolicySnapshot>>,
    /// Its bindings.
    pub bindings: Vec<Arc<Binding>>,
    /// The members.
    pub clusters: Vec<Arc<Cluster>>,
    /// The version asked for and its snapshots; nothing for what is on the hub now.
    pub version: Option<(String, Vec<Arc<ResourceSnapshot>>)>,
    /// The placement's runs.
    pub runs: Vec<Run>,
    /// Freezes, and the labels they select by.
    pub policy: policy::Seen,
    /// What is on clusters and what a run would bring.
    pub content: Content,
}

/// What a run would do.
#[derive(Clone, Debug)]
pub enum Foreseen {
    /// It would go through these stages.
    Stages(Box<Stages>),
    /// It would be refused.
    Refused(Box<Refused>),
    /// Nobody can say yet, for this reason.
    NotNow(String),
}

/// The stages a run would go through.
#[derive(Clone, Debug)]
pub struct Stages {
    /// As a board shows them.
    pub stages: Vec<Stage>,
    /// How many clusters of each stage are updated at once, as the strategy says.
    pub at_once: Vec<String>,
    /// The same as a number.
    pub slots: Vec<usize>,
    /// Clusters in all.
    pub clusters: usize,
    /// Approvals that will be asked for.
    pub approvals: usize,
    /// Runs that still wait although a newer one has passed them.
    pub passed: Vec<Passed>,
    /// What would hold the run before stages, in the words the run would use.
    pub frozen: Vec<String>,
    /// When clusters may begin in the week to come, where windows say so.
    pub calendar: Vec<StageOpenings>,
    /// What each policy says that the run would follow.
    pub policies: Vec<String>,
    /// Runs of the placement that have not ended.
    pub open: Vec<String>,
    /// What would change on the clusters.
    pub effect: Effect,
}

/// A run that is still open although a newer one has passed it.
#[derive(Clone, Debug, Serialize)]
pub struct Passed {
    /// The run.
    pub run: String,
    /// The run that has most of its clusters now.
    pub by: String,
    /// The version which that one brings.
    pub version: String,
    /// How many clusters were taken.
    pub clusters: usize,
    /// When the last of them was.
    pub at: Timestamp,
    /// The same as a sentence.
    pub message: String,
}

/// A run that would be refused.
#[derive(Clone, Debug)]
pub struct Refused {
    facts: Facts,
    placement: String,
    unstaged: Vec<Unstaged>,
}

/// Clusters that are named where many lack the same.
const NAMED: usize = 10;

/// The run that is imagined.
const IMAGINED: &str = "plan";

/// Asks the rules what a run would do.
pub fn foresee(asked: Asked) -> Foreseen {
    let placement = asked.key.name.clone();
    let passed = passed(&asked.runs);
    let open = asked.runs.iter().filter(|run| !has_ended(&run.status));
    let open = open.map(|run| run.beside(&run.name).to_string()).collect();
    let content = asked.content.clone();
    let mut seen = observed(asked);
    let planned = plan(&seen);
    seen.run.adopted = planned.actions.iter().find_map(|action| match action {
        Action::Adopt(adopted) => Some(adopted.clone()),
        _ => None,
    });
    let policies = seen.run.adopted.as_ref().map(policy::Adopted::told).unwrap_or_default();
    let status = planned.actions.into_iter().rev().find_map(|action| match action {
        Action::Status(status) => Some(*status),
        _ => None,
    });
    let Some(status) = status else {
        return Foreseen::NotNow(match planned.trouble {
            Some(trouble) => format!("no plan can be made now: {trouble:?}"),
            None => "the placement is still being scheduled; try again in a moment".to_owned(),
        });
    };
    if has_ended(&status) {
        let unstaged = seen.strategy.as_ref();
        let unstaged = unstaged.map(|strategy| unstaged_of(strategy, &seen)).unwrap_or_default();
        let mut facts = Facts::new(Subject::Run(seen.run.beside(IMAGINED)), seen.now);
        facts.run = Some(RunFacts { spec: seen.run.spec, status, ..Default::default() });
        return Foreseen::Refused(Box::new(Refused { facts, placement, unstaged }));
    }
    let stages = Stages::of(&seen, &status, passed, open, policies, &content);
    Foreseen::Stages(Box::new(stages))
}

fn unstaged_of(strategy: &UpdateStrategySpec, seen: &Observed) -> Vec<Unstaged> {
    unstaged(strategy, &seen.bindings, &seen.clusters)
}

/// What to say of open runs that a newer one has passed: to let them go on takes clusters back.
fn passed(runs: &[Run]) -> Vec<Passed> {
    let open = runs.iter().filter(|run| !has_ended(&run.status));
    let told = open.filter_map(|run| {
        let others: Vec<OtherRun> =
            runs.iter().filter(|other| other.uid != run.uid).map(OtherRun::of).collect();
        let found = superseded(&run.status, &taken(&run.status, run.created, &others))?;
        let run = run.beside(&run.name).to_string();
        let message = format!("{run} is still open, and {} at {}", found.told(), found.at);
        let Superseded { by, version, at, clusters, .. } = found;
        Some(Passed { run, by, version, clusters, at, message })
    });
    told.collect()
}

impl Stages {
    fn of(
        seen: &Observed,
        status: &UpdateRunStatus,
        passed: Vec<Passed>,
        open: Vec<String>,
        policies: Vec<String>,
        content: &Content,
    ) -> Self {
        let board = Board::of(IMAGINED, None, &seen.run.spec, status, seen.now);
        let (_, clusters) = board.clusters();
        let gates = board.stages.iter().flat_map(|stage| &stage.gates);
        let approvals = gates.filter(|gate| !gate.approval.is_empty()).count();
        let at_once = board.stages.iter().enumerate().map(|(at, stage)| {
            // The last one may be the deletion stage, which does all at once.
            if at >= status.stages_status.len() {
                return "all".to_owned();
            }
            configured(status, &stage.name)
                .and_then(|stage| stage.max_concurrency.as_ref())
                .map_or_else(|| "1".to_owned(), spelled)
        });
        let slots = board.stages.iter().map(|stage| {
            let all = stage.cells.len();
            at_once_of(status, &stage.name, all).unwrap_or(all)
        });
        let (at_once, slots) = (at_once.collect(), slots.collect());
        let (mut frozen, mut calendar) = (Vec::<String>::new(), Vec::new());
        for stage in &status.stages_status {
            calendar.extend(week_ahead(seen, stage));
            let freeze = holding(&seen.policy, &seen.run.beside(""), &stage.stage_name, seen.now);
            frozen.extend(freeze.map(Freeze::told).filter(|told| !frozen.contains(told)));
            let closed = closed(seen, stage, &stage.stage_name);
            frozen.extend(closed.map(|closed| closed.of_stage(&stage.stage_name)));
        }
        let effect = Effect::of(
            content,
            &Planned {
                placement: &seen.run.beside(&seen.run.spec.placement_name),
                stages: &board.stages,
                bringing: status.stages_status.len(),
                strategy: seen.strategy.as_ref(),
                policies: &policies,
                bindings: &seen.bindings,
                clusters: &seen.clusters,
            },
        );
        Self {
            at_once,
            slots,
            clusters,
            approvals,
            stages: board.stages,
            passed,
            frozen,
            calendar,
            policies,
            open,
            effect,
        }
    }
}

impl Refused {
    /// Why, with the members as they are known.
    pub fn explain(mut self, clusters: BTreeMap<String, ClusterFacts>) -> Finding {
        self.facts.clusters = clusters;
        let mut found = explain(&self.facts);
        // The run is imagined: it is nobody's evidence, and has no name.
        found.evidence.retain(|step| step.what != "run");
        if found.cause == Cause::ClusterInNoStage {
            // The hub's words name ten at most; a plan counts all of them.
            found.evidence.retain(|step| step.what != "cluster");
            for group in &self.unstaged {
                let names: Vec<&str> = group.clusters.iter().map(String::as_str).collect();
                let count = match names.len() {
                    1 => "1 cluster".to_owned(),
                    count => format!("{count} clusters"),
                };
                let says = format!("{}: {}", group.because, some_of(&names, NAMED));
                found = found.saw("no stage", count, says);
            }
        }
        let (_, why) = found.headline.split_once(": ").unwrap_or(("", &found.headline));
        found.headline = format!("a run of {} would be refused: {why}", self.placement);
        found
    }
}

fn spelled(number: &IntOrString) -> String {
    match number {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}

fn observed(asked: Asked) -> Observed {
    let (index, resource_snapshots) = asked
        .version
        .unwrap_or_else(|| ("0".to_owned(), vec![Arc::new(imagined_snapshot(asked.now))]));
    let spec = UpdateRunSpec {
        placement_name: asked.key.name.clone(),
        resource_snapshot_index: index,
        staged_rollout_strategy_name: asked.strategy_name,
        state: None,
    };
    let metadata = ObjectMeta {
        name: Some(IMAGINED.to_owned()),
        namespace: asked.key.namespace.clone(),
        generation: Some(1),
        ..ObjectMeta::default()
    };
    let mut run = Run::read(&metadata, &spec, &UpdateRunStatus::default());
    run.has_finalizer = true;
    Observed {
        placement: Some(asked.placement),
        policy_snapshots: asked.policy_snapshots,
        bindings: asked.bindings,
        clusters: asked.clusters,
        strategy: asked.strategy,
        resource_snapshots,
        policy: asked.policy,
        // Nothing may be waited for: what is not there now is said now.
        options: Options { scheduling_grace: SignedDuration::ZERO, ..Options::default() },
        ..Observed::of(run, asked.now)
    }
}

/// Where no version is asked for, a plan is about clusters and gates: what is on the hub now
/// can always be made a version.
fn imagined_snapshot(now: Timestamp) -> ResourceSnapshot {
    ResourceSnapshot {
        name: "imagined-0-snapshot".to_owned(),
        created: now,
        index: Some("0".to_owned()),
        latest: true,
        hash: Some("imagined".to_owned()),
        count: Some("1".to_owned()),
        ..ResourceSnapshot::default()
    }
}
