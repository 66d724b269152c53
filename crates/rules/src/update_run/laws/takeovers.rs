//! S6: a run that loses a cluster says so, and a run that takes one says so too. There is
//! no third way.

use flagship_api::binding::BindingState;
use flagship_api::condition::{ConditionStatus, Conditions};
use flagship_api::condition_type::{update_run, updating_cluster};
use flagship_api::staged_update_status::{ClusterUpdatingStatus, UpdateRunStatus};

use super::super::delivery::{Target, rival};
use super::super::execution::TAKEN_OVER;
use super::super::lifecycle::{is_settled, outcome, says};
use super::super::observed::Observed;
use super::super::reconcile::{Action, Plan};
use super::cluster_state::of_cluster;
use super::{Told, broken};

/// Who takes a cluster from a run that is not done names both in an event.
pub fn takeovers_are_told(read: &Observed, plan: &Plan) -> Told {
    let mut told = Vec::new();
    for action in &plan.actions {
        let Action::UpdateBinding(deliver) = action else { continue };
        let found = read.bindings.iter().find(|binding| binding.name == deliver.binding);
        let fence = found.and_then(|binding| binding.fence.as_ref());
        let owner = fence.and_then(|fence| rival(read, &fence.run)).filter(|owner| !owner.ended);
        let Some(owner) = owner else { continue };
        let (cluster, name) = (&deliver.cluster, &owner.name);
        let text = format!("cluster {cluster} is taken over from update run {name}");
        if !plan.events.iter().any(|event| event.reason == TAKEN_OVER && event.message == text) {
            told.push(broken("S6", format!("{cluster} is taken from {name} in silence")));
        }
    }
    told
}

/// Whether a run has given a cluster up.
pub fn is_lost(cluster: &ClusterUpdatingStatus) -> bool {
    outcome(cluster) == Some(ConditionStatus::False) && !is_settled(cluster)
}

/// A cluster is given up only if its binding is really somebody else's, and the run then
/// ends with a text that names the binding.
pub fn really_lost(
    read: &Observed,
    status: &UpdateRunStatus,
    was: Option<&ClusterUpdatingStatus>,
    cluster: &ClusterUpdatingStatus,
) -> Told {
    if !is_lost(cluster) || was.is_some_and(is_lost) {
        return Vec::new();
    }
    let name = &cluster.cluster_name;
    let mut told = Vec::new();
    let Ok(target) = Target::of(read, status) else { return told };
    let held = of_cluster(read, name)
        .any(|binding| target.is_on(binding, cluster) && binding.spec.state == BindingState::Bound);
    if held {
        told.push(broken("S6", format!("{name} is given up and was not lost")));
    }
    let said = |conditions: &[_], kind| {
        conditions.of_type(kind).map(|condition| condition.message.clone()).unwrap_or_default()
    };
    let texts = [
        said(&cluster.conditions, updating_cluster::SUCCEEDED),
        said(&status.conditions, update_run::SUCCEEDED),
    ];
    for binding in of_cluster(read, name) {
        let quoted = format!("`{}`", read.run.beside(&binding.name));
        if !texts.iter().all(|text| text.contains(&quoted)) {
            told.push(broken("S6", format!("{name} is lost and {quoted} not named")));
        }
    }
    told
}

/// A run that lost a cluster has failed, and one that succeeded has lost none.
pub fn losses_are_told(seen: &Observed) -> Told {
    let status = &seen.run.status;
    let ended = says(&status.conditions, update_run::SUCCEEDED);
    let mut told = Vec::new();
    for cluster in status.stages_status.iter().flat_map(|stage| &stage.clusters) {
        let name = &cluster.cluster_name;
        if is_lost(cluster) && ended != Some(ConditionStatus::False) {
            told.push(broken("S6", format!("{name} is lost and the run goes on")));
        }
        if ended == Some(ConditionStatus::True) && !is_settled(cluster) {
            told.push(broken("S6", format!("the run succeeded without {name}")));
        }
    }
    told
}
