//! Does anybody on the hub act on what is written?

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::facts::{ClusterFacts, Facts};
use super::finding::{Finding, State};
use super::gate::spoken;
use super::hints::kubectl;
use super::{Cause, cluster};

/// A minute is several lifetimes of the lease, and more than a report takes to be noticed.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);

/// Whether reports of agents, as they stand in the agents' own places, could tell more: not where
/// the hub has a lease, nor where it has just taken down what some member said.
pub fn wants_reports(
    hub_renewed: Option<Timestamp>,
    clusters: &BTreeMap<String, ClusterFacts>,
    now: Timestamp,
) -> bool {
    let just_noticed = |member: &ClusterFacts| {
        let noticed = cluster::last_heartbeat(member);
        noticed.is_some_and(|noticed| now.duration_since(noticed) <= PATIENCE)
    };
    hub_renewed.is_none() && !clusters.values().any(just_noticed)
}

/// The hub's controllers are silent, as far as the fleet as a whole shows it.
pub fn of_hub(facts: &Facts, what: &str) -> Option<Finding> {
    let (since, because) = last_sign(facts)?;
    let silent = facts.now.duration_since(since);
    (silent > PATIENCE).then(|| finding(what, silent, because))
}

/// The finding, once somebody has found out.
pub fn finding(what: &str, silent: SignedDuration, because: String) -> Finding {
    let headline =
        format!("{what}: the hub's controllers have been silent for {}.", spoken(silent));
    Finding::new(State::Stuck, Cause::HubSilent, headline)
        .because(because)
        .hint("fix", "start the embedded fleet", "flagship up")
        .hint(
            "or",
            "look at the controllers on a real hub",
            kubectl(Some("fleet-system"), "get pods"),
        )
}

/// When the controllers were last seen to do something, if that tells anything.
fn last_sign(facts: &Facts) -> Option<(Timestamp, String)> {
    if let Some(renewed) = facts.hub_renewed {
        return Some((renewed, format!("the hub's lease was last renewed at {renewed:.0}")));
    }
    // Without a lease: members report, and nobody takes it down. One that is not taken down
    // may be a broken object; all of them are a hub that does nothing.
    let mut latest: Option<Timestamp> = None;
    for member in facts.clusters.values() {
        let (Some(reported), Some(noticed)) = (member.reported, cluster::last_heartbeat(member))
        else {
            continue;
        };
        if reported.duration_since(noticed) <= PATIENCE {
            return None;
        }
        latest = latest.max(Some(noticed));
    }
    let latest = latest?;
    Some((latest, format!("members report, and nobody has taken it down since {latest:.0}")))
}
