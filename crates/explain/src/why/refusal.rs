//! The cause behind the final words of a run. The words are API, so they can be read back.

use std::collections::BTreeSet;

use flagship_api::binding::BindingState;
use flagship_api::condition::Conditions;
use flagship_api::condition_type::{Placement as Kind, updating_cluster};
use flagship_api::names::ObjectKey;
use flagship_api::selector;
use flagship_rules::policy::quarantine::lift;
use flagship_rules::update_run::lifecycle::failed_under_policy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::facts::{RunFacts, Subject};
use super::finding::{Finding, State};
use super::hints::{flagship, kubectl, placement_of};
use super::{Cause, Facts, rival};
use crate::clusters::own_labels;
use crate::order::{natural, some_of};

/// What the sentence contains, and what that means.
const KNOWN: &[(&str, Cause)] = &[
    // Its reason may be the words of another cause.
    ("to roll it out all the same, lift it:", Cause::Quarantined),
    ("the failure budget of", Cause::BudgetSpent),
    ("has not proved itself", Cause::CheckFailed),
    ("the run was overtaken by", Cause::Overtaken),
    ("rollout policies disagree", Cause::PoliciesDisagree),
    ("parent placement not found", Cause::PlacementMissing),
    ("does not have an external rollout strategy", Cause::PlacementNotExternal),
    ("not fully scheduled yet", Cause::PlacementNotScheduled),
    ("no latest policy snapshot found", Cause::PlacementNotScheduled),
    ("no scheduled or to-be-deleted bindings found", Cause::PlacementNotScheduled),
    ("referenced updateStrategy not found", Cause::StrategyMissing),
    ("appears in more than one stages", Cause::ClusterInTwoStages),
    ("are not placed in any stage", Cause::ClusterInNoStage),
    ("stage tasks are invalid", Cause::StrategyInvalid),
    ("stage label selector is invalid", Cause::StrategyInvalid),
    ("stage name duplicated", Cause::StrategyInvalid),
    ("the sorting label", Cause::StrategyInvalid),
    ("no resourceSnapshots with index", Cause::SnapshotMissing),
    ("invalid resource snapshot index", Cause::SnapshotMissing),
    ("no master resourceSnapshot found", Cause::SnapshotMissing),
    ("that the updateRun rolls out is gone", Cause::SnapshotMissing),
    ("not up-to-date with the desired status", Cause::Preempted),
    ("has changed", Cause::ClustersChanged),
    ("has been changed", Cause::ClustersChanged),
    ("the number of selected bindings", Cause::ClustersChanged),
    ("is not in the delete stage", Cause::ClustersChanged),
];

/// The cause a final message names.
pub fn cause_of(message: &str) -> Cause {
    KNOWN
        .iter()
        .find(|(words, _)| message.contains(words))
        .map_or(Cause::RunFailed, |(_, cause)| *cause)
}

/// What went wrong, without the classes in front of it.
pub fn detail(message: &str) -> &str {
    const CLASSES: [&str; 6] = [
        "cannot continue the updateRun: ",
        "failed to validate the updateRun: ",
        "failed to process the request due to a client error: ",
        "unexpected behavior which cannot be handled by the controller: ",
        "expected behavior which can be recovered by itself: ",
        "error returned by the API server: ",
    ];
    let mut rest = message;
    while let Some(shorter) = CLASSES.iter().find_map(|class| rest.strip_prefix(class)) {
        rest = shorter;
    }
    rest
}

/// What stands between backticks after these words.
pub fn quoted_after<'a>(detail: &'a str, words: &str) -> Option<&'a str> {
    let (_, rest) = detail.split_once(&format!("{words}`"))?;
    rest.split_once('`').map(|(name, _)| name)
}

/// A run that ended badly, with what to do about it.
pub fn explain(facts: &Facts, key: &ObjectKey, run: &RunFacts, message: &str) -> Finding {
    let detail = detail(message);
    let begun = run.status.stages_status.iter().any(|stage| !stage.conditions.is_empty());
    let cause = match cause_of(message) {
        Cause::Preempted => return rival::explain(facts, key, run, detail),
        Cause::ClusterInNoStage if begun && unstaged(detail).all(|name| has_left(facts, name)) => {
            Cause::ClustersChanged
        }
        cause => cause,
    };
    let moment = if begun { "failed" } else { "could not be initialized" };
    let what = told(facts, run, cause, detail, begun);
    let finding = Finding::new(State::Failed, cause, format!("{key} {moment}: {what}."));
    let finding = who_failed(finding.because(detail), run, cause);
    advise(witnesses(finding, facts, cause, detail), key, run)
}

/// Clusters of a spent budget that are shown with what was wrong with each.
const SPENT_BY: usize = 3;

/// Why clusters failed that have spent a budget.
fn who_failed(finding: Finding, run: &RunFacts, cause: Cause) -> Finding {
    if cause != Cause::BudgetSpent {
        return finding;
    }
    let clusters = run.status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let failed = clusters.filter(|cluster| failed_under_policy(cluster));
    let told = failed.filter_map(|cluster| {
        let said = cluster.conditions.of_type(updating_cluster::SUCCEEDED)?;
        Some((cluster.cluster_name.clone(), said.message.clone()))
    });
    told.take(SPENT_BY).fold(finding, |finding, (name, said)| finding.saw("cluster", name, said))
}

/// What went wrong, with the names of this very case.
fn told(facts: &Facts, run: &RunFacts, cause: Cause, detail: &str, begun: bool) -> String {
    let placement = &run.spec.placement_name;
    match cause {
        Cause::PlacementMissing if begun => {
            format!("placement {placement} was deleted while the run was under way")
        }
        Cause::PlacementMissing => format!("there is no placement {placement}"),
        Cause::PlacementNotExternal => {
            format!("placement {placement} rolls out by itself and takes no runs")
        }
        Cause::PlacementNotScheduled => {
            format!("placement {placement} has not found all the clusters it asks for")
        }
        Cause::StrategyMissing => {
            format!("there is no strategy {}", run.spec.staged_rollout_strategy_name)
        }
        Cause::StrategyInvalid => {
            format!("strategy {} has a mistake", run.spec.staged_rollout_strategy_name)
        }
        Cause::SnapshotMissing if !run.spec.resource_snapshot_index.is_empty() => {
            format!("{placement} has no snapshot {}", run.spec.resource_snapshot_index)
        }
        Cause::ClusterInTwoStages => {
            let cluster = quoted_after(detail, "cluster ").unwrap_or("a cluster");
            match stages_of(facts, run, cluster).as_slice() {
                [first, second, ..] => format!("{cluster} is in stages {first} and {second}"),
                // The labels have changed since, or nobody could look.
                _ => format!("{cluster} is in more than one stage"),
            }
        }
        Cause::ClusterInNoStage => {
            let (names, total) = (unstaged(detail).collect::<Vec<_>>(), unstaged_in_all(detail));
            // The hub names ten at most; that must not read as if they were all.
            let named = if total > names.len() {
                format!("{total} clusters, among them {}", names.join(", "))
            } else {
                names.join(", ")
            };
            match joined(facts, run).iter().any(|new| names.contains(&new.as_str())) && begun {
                true => format!("no stage selects {named}, which joined under the run"),
                false => format!("no stage selects {named}"),
            }
        }
        Cause::ClustersChanged if unstaged(detail).next().is_some() => {
            let gone: Vec<&str> = unstaged(detail).collect();
            format!("{} left the fleet while the run was under way", gone.join(", "))
        }
        Cause::ClustersChanged => moved(facts, run).map_or_else(
            || cause.title().to_owned(),
            |moved| format!("{moved} while the run was under way"),
        ),
        _ => cause.title().to_owned(),
    }
}

/// Who or what shows it: the clusters with their labels, or the placement's own words.
fn witnesses(mut finding: Finding, facts: &Facts, cause: Cause, detail: &str) -> Finding {
    let named: Vec<&str> = match cause {
        Cause::ClusterInTwoStages => quoted_after(detail, "cluster ").into_iter().collect(),
        Cause::ClusterInNoStage => unstaged(detail).take(3).collect(),
        _ => Vec::new(),
    };
    for name in named {
        let labels = facts.clusters.get(name).map(|member| match own_labels(&member.labels) {
            none if none.is_empty() => "no labels".to_owned(),
            labels => labels,
        });
        finding = finding.saw("cluster", name, labels.unwrap_or_else(|| "is gone".to_owned()));
    }
    if let (Cause::PlacementNotScheduled, Subject::Run(key), Some(placement)) =
        (cause, &facts.subject, &facts.placement)
    {
        let kind = Kind::Scheduled.on(key.scope());
        let scheduled = placement.status.conditions.current(kind, placement.generation);
        if let Some(found) = scheduled {
            finding = finding.saw(
                "placement",
                ObjectKey::new(key.namespace.as_deref(), &placement_name(facts)).to_string(),
                format!("Scheduled={}  {}", found.status, found.message),
            );
        }
    }
    finding
}

fn placement_name(facts: &Facts) -> String {
    facts.run.as_ref().map(|run| run.spec.placement_name.clone()).unwrap_or_default()
}

/// The clusters of `… total 2, showing up to 10: member1, member3`.
fn unstaged(detail: &str) -> impl Iterator<Item = &str> {
    let listed = detail.split_once("showing up to 10: ").map_or("", |(_, names)| names);
    listed.split(", ").filter(|name| !name.is_empty())
}

/// How many clusters that sentence is about.
fn unstaged_in_all(detail: &str) -> usize {
    let total = detail.split_once("total ").and_then(|(_, rest)| rest.split_once(','));
    total.and_then(|(total, _)| total.trim().parse().ok()).unwrap_or(0)
}

/// Clusters that the placement has chosen and the run does not know.
fn joined(facts: &Facts, run: &RunFacts) -> Vec<String> {
    let known = clusters_of(run);
    let mut new: Vec<String> = facts
        .bindings
        .iter()
        .filter(|bound| bound.spec.state != BindingState::Unscheduled)
        .map(|bound| bound.spec.target_cluster.clone())
        .filter(|cluster| !known.contains(cluster.as_str()))
        .collect();
    new.sort_by(|a, b| natural(a, b));
    new
}

fn clusters_of(run: &RunFacts) -> BTreeSet<&str> {
    let clusters = run.status.stages_status.iter().flat_map(|stage| &stage.clusters);
    clusters.map(|cluster| cluster.cluster_name.as_str()).collect()
}

/// Who came and who went since the run was initialized, as far as the bindings show it.
fn moved(facts: &Facts, run: &RunFacts) -> Option<String> {
    if run.status.stages_status.is_empty() || facts.placement.is_none() {
        return None;
    }
    let bound: BTreeSet<&str> = facts
        .bindings
        .iter()
        .filter(|bound| bound.spec.state != BindingState::Unscheduled)
        .map(|bound| bound.spec.target_cluster.as_str())
        .collect();
    let joined = joined(facts, run);
    let joined: Vec<&str> = joined.iter().map(String::as_str).collect();
    let mut left: Vec<&str> = clusters_of(run).difference(&bound).copied().collect();
    left.sort_by(|a, b| natural(a, b));
    let told = |names: &[&str], did: &str| {
        (!names.is_empty()).then(|| format!("{} {did}", some_of(names, NAMED)))
    };
    let told: Vec<String> =
        told(&joined, "joined").into_iter().chain(told(&left, "left")).collect();
    (!told.is_empty()).then(|| told.join(" and "))
}

/// Clusters that a sentence names; the others are counted.
const NAMED: usize = 5;

fn has_left(facts: &Facts, cluster: &str) -> bool {
    facts.clusters.get(cluster).is_none_or(|member| member.leaving)
}

/// Stages of the run's copy of the strategy that select the cluster.
fn stages_of<'a>(facts: &Facts, run: &'a RunFacts, cluster: &str) -> Vec<&'a str> {
    let Some(member) = facts.clusters.get(cluster) else { return Vec::new() };
    let strategy = run.status.staged_update_strategy_snapshot.as_ref();
    let stages = strategy.map_or(&[][..], |strategy| strategy.stages.as_slice());
    let selects = |selector: Option<&LabelSelector>| {
        selector::read(selector).is_ok_and(|selector| selector.matches(&member.labels))
    };
    stages
        .iter()
        .filter(|stage| selects(stage.label_selector.as_ref()))
        .map(|stage| stage.name.as_str())
        .collect()
}

fn advise(finding: Finding, key: &ObjectKey, run: &RunFacts) -> Finding {
    let namespace = key.namespace.as_deref();
    let placement = placement_of(key, &run.spec.placement_name);
    let (placements, strategies, snapshots) = match namespace {
        Some(_) => ("rp", "sus", "resourcesnapshots"),
        None => ("crp", "csus", "clusterresourcesnapshots"),
    };
    let strategy = &run.spec.staged_rollout_strategy_name;
    let again = ("then", "start again with a new run", flagship("run", &placement));
    let finding = match finding.cause {
        Cause::PlacementMissing => finding
            .hint("look", "see which placements exist", kubectl(namespace, &format!("get {placements}")))
            .hint("then", "create the placement, and start a new run", flagship("run", &placement)),
        Cause::PlacementNotExternal => finding.hint(
            "fix",
            "leave rollouts to runs",
            kubectl(
                namespace,
                &format!(
                    "patch {placements} {} --type=merge -p '{{\"spec\":{{\"strategy\":{{\"type\":\"External\"}}}}}}'",
                    placement.name
                ),
            ),
        ),
        Cause::PlacementNotScheduled => finding
            .hint("look", "see why clusters are missing", format!("flagship why placement {}", flag(&placement))),
        Cause::StrategyMissing => finding
            .hint("look", "see which strategies exist", kubectl(namespace, &format!("get {strategies}"))),
        Cause::StrategyInvalid => finding
            .hint("fix", "correct the strategy", kubectl(namespace, &format!("edit {strategies} {strategy}"))),
        Cause::SnapshotMissing => finding
            .hint(
                "look",
                "see which versions exist",
                kubectl(
                    namespace,
                    &format!("get {snapshots} -l kubernetes-fleet.io/parent-CRP={}", placement.name),
                ),
            )
            .hint("then", "roll out what is on the hub now", flagship("run", &placement)),
        Cause::ClusterInTwoStages | Cause::ClusterInNoStage => finding
            .hint("look", "compare labels and stages", kubectl(None, "get memberclusters --show-labels"))
            .hint("fix", "correct the strategy", kubectl(namespace, &format!("edit {strategies} {strategy}"))),
        Cause::Quarantined => finding
            .hint("look", "see what is quarantined", flagship("quarantine", &placement))
            .hint("fix", "let it be rolled out again, if the reason is gone", lift(&placement)),
        Cause::ClustersChanged => finding
            .hint("look", "see who is in the fleet", "flagship clusters"),
        _ => finding
            .hint("look", "read the run", kubectl(namespace, &format!("describe {} {}", runs(key), key.name))),
    };
    match finding.cause {
        Cause::PlacementMissing | Cause::SnapshotMissing => finding,
        _ => finding.hint(again.0, again.1, again.2),
    }
}

/// The short name of runs in this scope.
pub fn runs(key: &ObjectKey) -> &'static str {
    if key.namespace.is_some() { "sur" } else { "csur" }
}

fn flag(key: &ObjectKey) -> String {
    match &key.namespace {
        Some(namespace) => format!("-n {namespace} {}", key.name),
        None => key.name.clone(),
    }
}
