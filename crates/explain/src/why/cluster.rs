//! A member: is it there, is it heard of, and what does the placement say of it?

use flagship_api::binding::BindingState;
use flagship_api::cluster::AgentType;
use flagship_api::condition::{ConditionStatus, Conditions};
use flagship_api::condition_type::{binding, member_cluster};
use flagship_api::names::ObjectKey;
use jiff::{SignedDuration, Timestamp};

use super::facts::{BindingFacts, ClusterFacts, Facts};
use super::finding::{Evidence, Finding, State};
use super::gate::spoken;
use super::hints::{flagship, kubectl};
use super::stuck::placement_of;
use super::{Cause, apply, hub_silent};
use crate::order::some_of;

/// A heartbeat this many periods old is no longer a heartbeat.
const MISSED_BEATS: i32 = 3;
const DEFAULT_PERIOD: i32 = 60;

/// Explains a member.
pub fn explain(facts: &Facts, name: &str) -> Finding {
    let Some(member) = facts.clusters.get(name) else {
        return Finding::new(State::Failed, Cause::NotFound, format!("there is no member {name}."))
            .hint("look", "see which members exist", kubectl(None, "get memberclusters"));
    };
    if let Some(silent) = hub_silent::of_hub(facts, &format!("nothing new is known of {name}")) {
        return silent;
    }
    let placed: Vec<&BindingFacts> =
        facts.bindings.iter().filter(|binding| binding.spec.target_cluster == name).collect();
    if member.leaving {
        return leaving(facts, name, &placed);
    }
    if let Some(finding) = membership(facts, name, member) {
        return finding;
    }
    for bound in &placed {
        if let Some(finding) = of_binding(facts, bound) {
            return finding;
        }
    }
    if let Some(bound) = placed.iter().find(|bound| !is_there(bound)) {
        return not_there(facts, name, bound);
    }
    if !member.spec.taints.is_empty() {
        let taints: Vec<String> = member
            .spec
            .taints
            .iter()
            .map(|taint| format!("{}={}:NoSchedule", taint.key, taint.value))
            .collect();
        return Finding::new(
            State::Waiting,
            Cause::ClusterCordoned,
            format!("{name} is healthy and takes no new placements."),
        )
        .because(taints.join(", "))
        .hint(
            "look",
            "see its taints",
            kubectl(None, &format!("describe membercluster {name}")),
        );
    }
    if placed.is_empty() {
        let headline = format!("{name} is healthy; nothing is placed on it.");
        return Finding::new(State::Done, Cause::NothingPlaced, headline);
    }
    Finding::new(
        State::Done,
        Cause::Done,
        format!("{name} is healthy; {} placement(s) are on it.", placed.len()),
    )
}

/// A member that is being deleted: it leaves when what was placed on it is gone.
fn leaving(facts: &Facts, name: &str, placed: &[&BindingFacts]) -> Finding {
    let finding = |state, headline: String| Finding::new(state, Cause::ClusterLeaving, headline);
    let left = match placed {
        [] => "nothing of the fleet is left on it by what the hub knows".to_owned(),
        placed => {
            let names: Vec<&str> = placed.iter().map(|bound| bound.placement.as_str()).collect();
            format!("{} placement(s) are still on it: {}", placed.len(), some_of(&names, 3))
        }
    };
    let look = kubectl(None, &format!("get membercluster {name} -o yaml"));
    let look = ("look", "see what holds it: deletionTimestamp and finalizers", look);
    match heartbeat(facts, name) {
        // Only the agent can clean up, and it is not there.
        Some(silent) => {
            let headline =
                format!("{name} is leaving the fleet, and its agent does not answer: {}", {
                    silent.headline.trim_start_matches(&format!("{name} "))
                });
            finding(State::Stuck, headline)
                .what(left)
                .led_by(silent.evidence)
                .hint("fix", "start its agent, so that it can clean up", agent(name))
                .hint(look.0, look.1, look.2)
        }
        None => finding(State::Waiting, format!("{name} is leaving the fleet."))
            .what(left)
            .saw("cluster", name, "its MemberCluster is being deleted")
            .hint(look.0, look.1, look.2),
    }
}

/// Whether what the placement wants there is there. What is to be removed is not wanted.
pub fn is_there(bound: &BindingFacts) -> bool {
    let works = [binding::AVAILABLE, binding::DIFF_REPORTED];
    bound.spec.state == BindingState::Unscheduled
        || works.iter().any(|kind| bound.status.conditions.is_true_at(kind, bound.generation))
}

/// A placement that has chosen the cluster, and of which nothing works there yet.
fn not_there(facts: &Facts, name: &str, bound: &BindingFacts) -> Finding {
    let key = placement_of(bound);
    let glance = facts.placements.get(&key).cloned().unwrap_or_default();
    let seen = bound.status.conditions.last().map_or_else(
        || format!("{:?}, no conditions yet", bound.spec.state),
        |last| format!("{}={}  {}", last.type_, last.status, last.reason),
    );
    let begun = bound.status.conditions.is_true_at(binding::ROLLOUT_STARTED, bound.generation);
    let finding = match (begun, glance.external, glance.open_run) {
        (true, ..) => {
            let headline = format!("{name} is healthy; {key} is coming up on it.");
            Finding::new(State::Waiting, Cause::InProgress, headline)
        }
        (false, true, Some(run)) => {
            let run = ObjectKey::new(key.namespace.as_deref(), &run);
            let headline =
                format!("{name} is healthy; {key} is not on it yet, its turn in {run} comes.");
            Finding::new(State::Waiting, Cause::InProgress, headline).hint(
                "look",
                "see what the run waits for",
                flagship("why", &run),
            )
        }
        (false, true, None) => {
            let headline =
                format!("{name} is healthy; {key} has chosen it, and nothing of it is there.");
            Finding::new(State::Waiting, Cause::RunMissing, headline)
                .what("its strategy is External: nothing comes until a run brings it")
                .hint("look", "see what a run would do", flagship("plan", &key))
                .hint("fix", "start one", flagship("run", &key))
        }
        (false, false, _) => {
            let headline = format!("{name} is healthy; {key} is being rolled out to it.");
            Finding::new(State::Waiting, Cause::InProgress, headline)
        }
    };
    finding.led_by(vec![Evidence::new("binding", bound.key.to_string(), seen)])
}

/// What keeps a cluster from having what the placement wants, as its binding says.
pub fn of_run(facts: &Facts, cluster: &str) -> Option<Finding> {
    match facts.bindings.iter().find(|bound| bound.spec.target_cluster == cluster) {
        Some(bound) => of_binding(facts, bound),
        None => heartbeat(facts, cluster),
    }
}

/// The same, with what to do about it.
pub fn trouble(facts: &Facts, cluster: &str, run: Option<&ObjectKey>) -> Option<Finding> {
    let finding = of_run(facts, cluster)?;
    let Some(run) = run else {
        return Some(finding);
    };
    let ours = facts.run.as_ref()?;
    let placement = ObjectKey::new(run.namespace.as_deref(), &ours.spec.placement_name);
    if is_mended_on_the_member(finding.cause) {
        return Some(finding.hint("then", "nothing more: the run goes on by itself", ""));
    }
    let finding = finding.hint("then", "roll the fix out", flagship("run", &placement));
    let used = &ours.status.resource_snapshot_index_used;
    if facts.proven.iter().all(|version| version == used) {
        return Some(finding);
    }
    Some(finding.hint("or", "go back to the last good version", flagship("rollback", &placement)))
}

/// Whether nothing on the hub has to change: the member tries again until it can.
fn is_mended_on_the_member(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::HeartbeatStale
            | Cause::NamespaceMissing
            | Cause::QuotaExceeded
            | Cause::ImagePullDenied
            | Cause::ImagePullFailed
            | Cause::MemberForbidden
            | Cause::OwnershipConflict
            | Cause::Drifted
    )
}

fn of_binding(facts: &Facts, bound: &BindingFacts) -> Option<Finding> {
    let cluster = &bound.spec.target_cluster;
    let says = |kind: &str| {
        let found = bound.status.conditions.current(kind, bound.generation)?;
        (ConditionStatus::of(found) == ConditionStatus::False).then_some(found)
    };
    let worst = [
        binding::OVERRIDDEN,
        binding::WORK_SYNCHRONIZED,
        binding::APPLIED,
        binding::AVAILABLE,
        binding::DIFF_REPORTED,
    ]
    .iter()
    .find_map(|kind| says(kind));
    let seen = worst.map(|found| Evidence::of("binding", bound.key.to_string(), found));
    let finding =
        match worst {
            Some(found) if found.type_ == binding::OVERRIDDEN => Some(
                Finding::new(State::Stuck, Cause::OverrideInvalid, "")
                    .what(format!("the resources cannot be adapted to {cluster}"))
                    .because(found.message.trim_start_matches(
                        "Failed to apply the override rules on the resources: ",
                    ))
                    .hint(
                        "look",
                        "see the overrides",
                        kubectl(None, "get clusterresourceoverrides,resourceoverrides -A"),
                    ),
            ),
            Some(found) if found.type_ == binding::WORK_SYNCHRONIZED => Some(
                Finding::new(State::Stuck, Cause::WorkNotSynced, "")
                    .what(format!("the hub could not write the work for {cluster}"))
                    .because(&found.message),
            ),
            // A member that is away cannot have done anything wrong.
            _ => heartbeat(facts, cluster).or_else(|| apply::explain(facts, bound)),
        };
    let finding = finding.or_else(|| held_back(bound))?;
    let headline = format!("{} is not done on {cluster}.", bound.placement);
    let mut finding = finding.led_by(seen.into_iter().collect());
    if finding.headline.is_empty() {
        finding.headline = headline;
    }
    Some(finding)
}

fn held_back(bound: &BindingFacts) -> Option<Finding> {
    let started = bound.status.conditions.current(binding::ROLLOUT_STARTED, bound.generation)?;
    if ConditionStatus::of(started) != ConditionStatus::False
        || bound.spec.state == BindingState::Unscheduled
    {
        return None;
    }
    Some(
        Finding::new(State::Waiting, Cause::RolloutHeldBack, "")
            .what(format!(
                "{} keeps what it has until others are available",
                bound.spec.target_cluster
            ))
            .because(&started.message)
            .saw_that(Evidence::of("binding", bound.key.to_string(), started))
            .hint("look", "see who holds it back", flagship("why placement", &placement_of(bound))),
    )
}

fn membership(facts: &Facts, name: &str, member: &ClusterFacts) -> Option<Finding> {
    let joined = member.status.conditions.of_type(member_cluster::JOINED);
    if let Some(stale) = heartbeat(facts, name) {
        return Some(stale);
    }
    if joined.is_some_and(|joined| ConditionStatus::of(joined) == ConditionStatus::True) {
        return None;
    }
    let seen = match joined {
        Some(joined) => Evidence::of("cluster", name, joined),
        None => Evidence::new("cluster", name, "no Joined condition"),
    };
    Some(
        Finding::new(State::Waiting, Cause::ClusterNotJoined, format!("{name} has not joined."))
            .what(format!("the agent of {name} has not reported that it joined"))
            .saw_that(seen)
            .hint("fix", "start its agent", agent(name)),
    )
}

/// The command that starts the agent of a member.
fn agent(name: &str) -> String {
    format!("flagship member --name {name} --kubeconfig MEMBER --hub-kubeconfig HUB")
}

/// A member that has not been heard of.
pub fn heartbeat(facts: &Facts, name: &str) -> Option<Finding> {
    let member = facts.clusters.get(name)?;
    let last = silent_since(member, facts.now)?;
    let silence = facts.now.duration_since(last);
    let period = period(member);
    Some(
        Finding::new(
            State::Stuck,
            Cause::HeartbeatStale,
            format!("{name} has not been heard of for {}.", spoken(silence)),
        )
        .what(format!(
            "the agent of {name} last reported {} ago, and should every {period}s",
            spoken(silence)
        ))
        .saw("cluster", name, format!("last heartbeat {last:.0}"))
        .hint(
            "look",
            "see what the hub knows of it",
            kubectl(None, &format!("describe membercluster {name}")),
        )
        .hint("fix", "start its agent", agent(name)),
    )
}

/// When a member that is overdue was last heard of; nothing if it reports in time.
pub fn silent_since(member: &ClusterFacts, now: Timestamp) -> Option<Timestamp> {
    let last = last_heartbeat(member)?;
    let patience = i64::from(period(member).saturating_mul(MISSED_BEATS));
    (now.duration_since(last) > SignedDuration::from_secs(patience)).then_some(last)
}

/// Seconds between two heartbeats.
fn period(member: &ClusterFacts) -> i32 {
    member.spec.heartbeat_period_seconds.unwrap_or(DEFAULT_PERIOD).max(1)
}

/// When the hub was last told that the member lives.
pub fn last_heartbeat(member: &ClusterFacts) -> Option<Timestamp> {
    let agents = member.status.agent_status.iter();
    let agent = agents.clone().find(|agent| agent.r#type == AgentType::MemberAgent);
    agent?.last_received_heartbeat.as_ref().map(|time| time.0)
}
