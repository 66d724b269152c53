//! A placement: were its clusters found, has a rollout begun, and where does it hang?

use flagship_api::condition::{ConditionStatus, Conditions};
use flagship_api::condition_type::Placement as Kind;
use flagship_api::names::ObjectKey;
use flagship_api::placement::RolloutStrategyType;
use flagship_api::placement_status::PerClusterPlacementStatus;
use flagship_api::reason;

use super::facts::{Facts, PlacementFacts};
use super::finding::{Evidence, Finding, State};
use super::hints::{flagship, kubectl};
use super::run::NOTICE;
use super::{Cause, cluster, hub_silent, refusal, run, versions};

/// Explains a placement.
pub fn explain(facts: &Facts, key: &ObjectKey) -> Finding {
    let kinds = if key.namespace.is_some() { "rp" } else { "crp" };
    let Some(placement) = &facts.placement else {
        if let Some(found) = run::subject_unreadable(facts, "placement", key) {
            return found;
        }
        return Finding::new(
            State::Failed,
            Cause::PlacementMissing,
            format!("there is no placement {key}."),
        )
        .hint(
            "look",
            "see which placements exist",
            kubectl(key.namespace.as_deref(), &format!("get {kinds}")),
        );
    };
    let scheduled = Kind::Scheduled.on(key.scope());
    let last = placement.status.conditions.last();
    let seen = Evidence::of_any("placement", key.to_string(), last);
    look(facts, key, placement, scheduled).led_by(vec![seen])
}

fn look(facts: &Facts, key: &ObjectKey, placement: &PlacementFacts, scheduled: &str) -> Finding {
    if let Some(silent) = hub_silent::of_hub(facts, &format!("{key} does not move")) {
        return silent;
    }
    let found = placement.status.conditions.current(scheduled, placement.generation);
    let pending = found.is_none_or(|found| ConditionStatus::of(found) == ConditionStatus::Unknown);
    if let Some(found) = not_all_read(facts, key).filter(|_| pending) {
        return found;
    }
    let Some(found) = found else {
        return unanswered(facts, key, placement);
    };
    if ConditionStatus::of(found) != ConditionStatus::True {
        return match found.reason.as_str() {
            reason::placement::INVALID_RESOURCE_SELECTORS => misselected(key, &found.message),
            _ => unscheduled(key, placement, &found.message),
        };
    }
    let external = placement.spec.strategy.as_ref().and_then(|strategy| strategy.r#type)
        == Some(RolloutStrategyType::External);
    // What an External placement waits for is what its run waits for.
    if let (true, Some(_), Some(name)) = (external, &facts.run, facts.rivals.last()) {
        return run::explain(facts, &ObjectKey::new(key.namespace.as_deref(), name));
    }
    if let Some(found) = not_all_read(facts, key) {
        return found;
    }
    for entry in chosen(placement) {
        if let Some(finding) = cluster::trouble(facts, &entry.cluster_name, None) {
            return finding;
        }
    }
    if external && let Some(found) = versions::after_runs(facts, key, chosen(placement).count()) {
        return found;
    }
    let finished = [Kind::Available, Kind::DiffReported].iter().any(|kind| {
        placement.status.conditions.is_true_at(kind.on(key.scope()), placement.generation)
    });
    let clusters = chosen(placement).count();
    if finished {
        let index = &placement.status.observed_resource_index;
        return Finding::new(
            State::Done,
            Cause::Done,
            format!("{key} is on all {clusters} cluster(s), snapshot {index}."),
        );
    }
    if external {
        return Finding::new(
            State::Waiting,
            Cause::RunMissing,
            format!("{key} has {clusters} cluster(s) and waits for a run."),
        )
        .what("its strategy is External: nothing is rolled out until a run says so")
        .hint("look", "see what a run would do", flagship("plan", key))
        .hint("fix", "start one", flagship("run", key));
    }
    Finding::new(
        State::Waiting,
        Cause::InProgress,
        format!("{key} is being rolled out to {clusters} cluster(s)."),
    )
}

/// Something that the placement needs is stored and cannot be read.
fn not_all_read(facts: &Facts, key: &ObjectKey) -> Option<Finding> {
    let what = facts.unreadable.first()?;
    let headline = format!("not all that belongs to {key} can be read.");
    let finding = Finding::new(State::Stuck, Cause::ObjectUnreadable, headline).because(what);
    Some(finding.hint("fix", "correct the field that is named; see all of them", "flagship doctor"))
}

fn unanswered(facts: &Facts, key: &ObjectKey, placement: &PlacementFacts) -> Finding {
    let waited = placement.created.map(|created| facts.now.duration_since(created));
    match waited.filter(|waited| *waited > NOTICE) {
        Some(waited) => {
            let generation = placement.generation.0;
            let because = format!("generation {generation} has no Scheduled condition");
            hub_silent::finding(&format!("{key} has not been looked at"), waited, because)
        }
        None => {
            Finding::new(State::Waiting, Cause::InProgress, format!("{key} is being scheduled."))
        }
    }
}

fn misselected(key: &ObjectKey, message: &str) -> Finding {
    let kinds = if key.namespace.is_some() { "rp" } else { "crp" };
    let headline = format!("{key} selects something that cannot be placed.");
    let said = message.strip_prefix("The resource selectors are invalid: ").unwrap_or(message);
    Finding::new(State::Stuck, Cause::SelectionInvalid, headline)
        .because(refusal::detail(said))
        .hint(
            "fix",
            "correct the selectors",
            kubectl(key.namespace.as_deref(), &format!("edit {kinds} {}", key.name)),
        )
}

fn unscheduled(key: &ObjectKey, placement: &PlacementFacts, message: &str) -> Finding {
    let left_out: Vec<&PerClusterPlacementStatus> = placement
        .status
        .placement_statuses
        .iter()
        .filter(|entry| {
            let scheduled = entry.conditions.of_type(Kind::Scheduled.per_cluster());
            scheduled
                .is_some_and(|scheduled| ConditionStatus::of(scheduled) == ConditionStatus::False)
        })
        .collect();
    let wanted = placement.spec.policy.as_ref().and_then(|policy| policy.number_of_clusters);
    let what = wanted.map_or_else(
        || Cause::PlacementNotScheduled.title().to_owned(),
        |wanted| format!("the policy asks for {wanted} cluster(s)"),
    );
    let headline = format!("{key} has not found the clusters it asks for.");
    let mut finding = Finding::new(State::Stuck, Cause::PlacementNotScheduled, headline)
        .what(what)
        .because(message);
    for entry in left_out.iter().take(3) {
        let scheduled = entry.conditions.of_type(Kind::Scheduled.per_cluster());
        let says = scheduled.map_or_else(String::new, |scheduled| scheduled.message.clone());
        let name =
            if entry.cluster_name.is_empty() { "(a missing cluster)" } else { &entry.cluster_name };
        let seen = Evidence::new("cluster", name, says);
        finding = finding.saw_that(match scheduled {
            Some(scheduled) => seen.told_by(scheduled),
            None => seen,
        });
    }
    let kinds = if key.namespace.is_some() { "rp" } else { "crp" };
    finding
        .hint(
            "look",
            "compare with the members' labels",
            kubectl(None, "get memberclusters --show-labels"),
        )
        .hint(
            "fix",
            "correct the policy",
            kubectl(key.namespace.as_deref(), &format!("edit {kinds} {}", key.name)),
        )
}

fn chosen(placement: &PlacementFacts) -> impl Iterator<Item = &PerClusterPlacementStatus> {
    placement.status.placement_statuses.iter().filter(|entry| {
        let scheduled = entry.conditions.of_type(Kind::Scheduled.per_cluster());
        scheduled.is_some_and(|scheduled| ConditionStatus::of(scheduled) == ConditionStatus::True)
    })
}
