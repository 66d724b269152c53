//! The members: whether they have joined, whether they are heard of, and whether the hub
//! keeps for them what it must.

use flagship_api::condition::{ConditionStatus, Conditions};
use flagship_api::condition_type::member_cluster::JOINED;
use flagship_api::defaults::HEARTBEAT_PERIOD_SECONDS;
use flagship_api::names::member_namespace;
use flagship_rules::heartbeat::last_heard;
use jiff::Timestamp;

use super::{Check, Finding, HubContents, MemberSeen, Reached, count};

const AREA: &str = "members";

/// A heartbeat so many periods old is none.
const MISSED: i64 = 3;

pub(super) fn checks(seen: &HubContents) -> Vec<Check> {
    let leaving = seen.members.values().filter(|member| member.leaving).count();
    let mut all = format!("{} joined", count(seen.members.len() - leaving, "member"));
    if leaving > 0 {
        all += &format!(", {leaving} leaving");
    }
    let mut findings = [Vec::new(), Vec::new(), Vec::new()];
    for (name, member) in seen.members.iter().filter(|(_, member)| !member.leaving) {
        let wrong = [joined(name, member), beats(seen, name, member), kept(seen, name)];
        for (findings, wrong) in findings.iter_mut().zip(wrong) {
            findings.extend(wrong);
        }
    }
    let [unjoined, silent, without] = findings;
    vec![
        Check::new(AREA, "joined", all, unjoined),
        Check::new(AREA, "heartbeats", "every member was heard of in time", silent),
        Check::new(AREA, "places", "each has its namespace and its say on the hub", without),
        clusters(seen),
    ]
}

/// Members that can be asked directly: they answer, and their agent can keep its books.
fn clusters(seen: &HubContents) -> Check {
    let name = "clusters";
    if seen.reached.is_empty() {
        return Check::skipped(AREA, name, "the kubeconfig has no contexts of members");
    }
    let findings = seen.reached.iter().filter_map(|(member, reached)| match reached {
        Reached::Answers { has_applied_works: true } => None,
        Reached::Answers { has_applied_works: false } => Some(Finding::new(
            format!("{member} does not serve AppliedWorks, which its agent needs"),
            format!(
                "flagship crds appliedworks | kubectl --context {member} apply --server-side -f -"
            ),
        )),
        Reached::Silent(why) => Some(Finding::new(
            format!("{member} does not answer: {why}"),
            format!(
                "kubectl --context {member} get --raw /readyz   (is it up, is its context right?)"
            ),
        )),
    });
    let findings = findings.collect();
    Check::new(AREA, name, format!("{} answer", count(seen.reached.len(), "cluster")), findings)
}

/// When the hub last passed on a word of this member.
pub(super) fn heard(member: &MemberSeen) -> Option<Timestamp> {
    last_heard(&member.status)
}

fn joined(name: &str, member: &MemberSeen) -> Option<Finding> {
    let said = member.status.conditions.of_type(JOINED);
    if said.is_some_and(|said| ConditionStatus::of(said) == ConditionStatus::True) {
        return None;
    }
    let why = said.map_or("its agent has never reported", |said| said.message.as_str());
    let fix = format!("flagship member --name {name} --kubeconfig MEMBER --hub-kubeconfig HUB");
    Some(Finding::new(format!("{name} has not joined: {why}"), fix))
}

fn beats(seen: &HubContents, name: &str, member: &MemberSeen) -> Option<Finding> {
    let period = member.spec.heartbeat_period_seconds.unwrap_or(HEARTBEAT_PERIOD_SECONDS);
    let ago = seen.now.duration_since(heard(member)?).as_secs();
    if ago <= i64::from(period) * MISSED {
        return None;
    }
    let what = format!("{name} was last heard of {ago}s ago, and should be every {period}s");
    Some(Finding::new(what, format!("flagship why cluster {name}")))
}

fn kept(seen: &HubContents, name: &str) -> Option<Finding> {
    let namespace = member_namespace(name);
    let what = if !seen.namespaces.contains(&namespace) {
        format!("namespace {namespace} of {name} is missing")
    } else if !seen.heartbeats.contains_key(name) {
        format!("InternalMemberCluster {namespace}/{name} is missing")
    } else {
        return None;
    };
    // Only these two kinds matter here, whatever else could not be listed.
    let imc = "internalmemberclusters.cluster.kubernetes-fleet.io";
    let by_absence = ["namespaces", imc].iter().any(|kind| seen.unlisted.contains_key(*kind));
    let fix = "restart the hub: it makes what is missing when it starts to lead";
    Some(Finding { by_absence, ..Finding::new(what, fix) })
}
