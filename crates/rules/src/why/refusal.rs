//! The cause behind the final words of a run. The words are API, so they can be read back.

use flagship_api::names::ObjectKey;

use super::facts::RunFacts;
use super::finding::{Finding, State};
use super::hints::{flagship, kubectl, placement_of};
use super::{Cause, Facts};

/// What the sentence contains, and what that means.
const KNOWN: &[(&str, Cause)] = &[
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

/// A run that ended badly, with what to do about it.
pub fn explain(facts: &Facts, key: &ObjectKey, run: &RunFacts, message: &str) -> Finding {
    let cause = cause_of(message);
    let moment = if run.status.stages_status.iter().any(|stage| !stage.conditions.is_empty()) {
        "failed"
    } else {
        "could not be initialized"
    };
    let headline = format!("{key} {moment}: {}.", cause.title());
    let finding = Finding::new(State::Failed, cause, headline).because(detail(message));
    advise(finding, facts, key, run)
}

fn advise(finding: Finding, facts: &Facts, key: &ObjectKey, run: &RunFacts) -> Finding {
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
            .hint("look", "see which placements exist", kubectl(namespace, &format!("get {placements}"))),
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
        Cause::Preempted => {
            let rival = facts.rivals.first();
            match rival {
                Some(rival) => finding.hint(
                    "look",
                    format!("follow the run that took over, {rival}"),
                    flagship("watch", &ObjectKey::new(namespace, rival)),
                ),
                None => finding.hint(
                    "look",
                    "see who wrote the bindings",
                    kubectl(namespace, &format!("get {} -o yaml", if namespace.is_some() { "rb" } else { "crb" })),
                ),
            }
        }
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
