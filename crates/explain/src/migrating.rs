//! What changes for a hub that KubeFleet runs when Flagship's agents take it over.
//!
//! Objects stay as they are: both speak the same API. What differs is told here, one thing
//! at a time, with what to do before the agents are swapped. How they are swapped is in
//! `docs/operations/migrate.md`.

use flagship_api::keys::{label, own, property};
use serde::Serialize;
use serde_json::Value;

/// What was read of the hub.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Hub agents that are installed.
    pub agents: Vec<Agent>,
    /// Who leads, if anybody does.
    pub leader: Option<String>,
    /// Definitions of ours that are not served here.
    pub lacking: Vec<String>,
    /// Members.
    pub members: Vec<Value>,
    /// Placements of both scopes.
    pub placements: Vec<Value>,
    /// Update runs of both scopes.
    pub runs: Vec<Value>,
    /// Approval requests of both scopes.
    pub approvals: Vec<Value>,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

/// A Deployment that runs a hub agent.
#[derive(Debug, Clone, Default)]
pub struct Agent {
    /// Namespace and name.
    pub name: String,
    /// What it runs.
    pub image: String,
    /// How many pods it wants.
    pub replicas: i64,
    /// Why its flags would be refused here.
    pub refused: Option<String>,
    /// Flags of it that do nothing here.
    pub without_effect: Vec<String>,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// It goes on as it is.
    Stays,
    /// It will be different afterwards.
    Changes,
    /// Something is to be done before.
    First,
}

impl Weight {
    /// As it stands before a line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Stays => "stays",
            Self::Changes => "changes",
            Self::First => "first",
        }
    }
}

/// One thing to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub weight: Weight,
    /// What it is about.
    pub about: String,
    /// What is so.
    pub says: String,
}

/// The holder of a lease that one of our hubs has begins so.
const OURS: &str = "flagship-hub_";
/// The first lines of a long list.
const SHOWN: usize = 5;

/// Everything there is to know, what is to be done first in front.
pub fn plan(seen: &Seen) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut tell = |weight, about: &str, says: String| {
        findings.push(Finding { weight, about: about.to_owned(), says });
    };
    for what in &seen.unread {
        tell(Weight::First, "rights", format!("{what}; nothing is known of it"));
    }
    match seen.leader.as_deref() {
        Some(holder) if holder.starts_with(OURS) => {
            tell(Weight::Stays, "leader", format!("{holder} leads: Flagship runs this hub"));
        }
        Some(holder) => tell(
            Weight::Changes,
            "leader",
            format!("{holder} leads; ours waits for the same Lease and never works beside it"),
        ),
        None => tell(
            Weight::First,
            "leader",
            "nobody holds the Lease: a hub agent without --leader-elect would work beside ours, so \
             scale it down first"
                .to_owned(),
        ),
    }
    for agent in &seen.agents {
        let (name, image) = (&agent.name, &agent.image);
        match &agent.refused {
            Some(why) => tell(
                Weight::First,
                "flags",
                format!("{name} ({image}) is started in a way that ours refuses: {why}"),
            ),
            None => tell(
                Weight::Stays,
                "flags",
                format!("those of {name} ({image}, {} replica(s)) are understood", agent.replicas),
            ),
        }
        if !agent.without_effect.is_empty() {
            let flags = agent.without_effect.join(", --");
            tell(Weight::Changes, "flags", format!("--{flags} of {name} do(es) nothing here"));
        }
    }
    match seen.lacking.len() {
        0 => tell(Weight::Stays, "definitions", "all that ours needs are served".to_owned()),
        many => tell(
            Weight::First,
            "definitions",
            format!("{many} are not served ({}); the chart installs them", few(&seen.lacking)),
        ),
    }
    of_members(&seen.members, &mut tell);
    of_placements(&seen.placements, &mut tell);
    of_runs(seen, &mut tell);
    tell(
        Weight::Changes,
        "webhooks",
        "the three webhook configurations keep their names and come to point to ours".to_owned(),
    );
    tell(
        Weight::Changes,
        "rights",
        "each member's Role on the hub is narrowed to what agents need, KubeFleet's included; \
         memberRights: original keeps what KubeFleet gives"
            .to_owned(),
    );
    // Stable: within a weight the order above stays.
    findings.sort_by_key(|finding| match finding.weight {
        Weight::First => 0,
        Weight::Changes => 1,
        Weight::Stays => 2,
    });
    findings
}

type Tell<'a> = dyn FnMut(Weight, &str, String) + 'a;

fn of_members(members: &[Value], tell: &mut Tell<'_>) {
    let is_joined = |member: &&Value| condition(member, "Joined") == Some("True");
    let joined = members.iter().filter(is_joined).count();
    let others: Vec<String> =
        members.iter().filter(|member| !is_joined(member)).map(name).collect();
    tell(
        Weight::Stays,
        "members",
        format!("{joined} joined; their agents are swapped one by one, before or after the hub's"),
    );
    if !others.is_empty() {
        let says =
            format!("{} have not joined ({}); see to them first", others.len(), few(&others));
        tell(Weight::First, "members", says);
    }
}

fn of_placements(placements: &[Value], tell: &mut Tell<'_>) {
    let count = placements.len();
    tell(Weight::Stays, "placements", format!("{count}, as they are; nothing is rolled out anew"));
    for placement in placements {
        let mut names = Vec::new();
        properties(&placement["spec"]["policy"], &mut names);
        names.retain(|name| !is_reported(name));
        names.sort();
        names.dedup();
        if !names.is_empty() {
            let says = format!(
                "{} picks clusters by {}, which our member agent does not report: such clusters \
                 are picked no more once their agents are swapped",
                name(placement),
                names.join(", ")
            );
            tell(Weight::First, "placements", says);
        }
    }
}

/// Names of properties in selectors and sorters, wherever they stand in a policy.
fn properties(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let named = |of: &Value| of["name"].as_str().map(str::to_owned);
                match key.as_str() {
                    "propertySelector" => {
                        let all = field["matchExpressions"].as_array().into_iter().flatten();
                        names.extend(all.filter_map(named));
                    }
                    "propertySorter" => names.extend(named(field)),
                    _ => properties(field, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| properties(item, names)),
        _ => {}
    }
}

fn is_reported(name: &str) -> bool {
    name == property::NODE_COUNT || name.starts_with(property::RESOURCE_PREFIX)
}

fn of_runs(seen: &Seen, tell: &mut Tell<'_>) {
    let is_over = |run: &&Value| condition(run, "Succeeded").is_some_and(|it| it != "Unknown");
    let under_way: Vec<&Value> = seen.runs.iter().filter(|run| !is_over(run)).collect();
    tell(
        Weight::Stays,
        "runs",
        format!("{} are under way; each goes on at the cluster it has come to", under_way.len()),
    );
    for run in under_way {
        let theirs = seen.approvals.iter().filter(|request| {
            let meta = &request["metadata"];
            let is_its = meta["labels"][label::TARGET_UPDATE_RUN] == run["metadata"]["name"]
                && meta["namespace"] == run["metadata"]["namespace"];
            is_its && meta["annotations"][own::UPDATE_RUN_UID].is_null()
        });
        for request in theirs {
            if condition(request, "ApprovalAccepted") == Some("True") {
                continue;
            }
            let (run, request_name) = (name(run), name(request));
            match condition(request, "Approved") == Some("True") {
                true => tell(
                    Weight::First,
                    "runs",
                    format!(
                        "{run}: {request_name} is approved and not taken up yet; wait until it is, \
                         or approve the one that ours makes"
                    ),
                ),
                false => tell(
                    Weight::Changes,
                    "runs",
                    format!(
                        "{run} waits for {request_name}; ours replaces the request by one with the \
                         run's UID, and that is the one to approve"
                    ),
                ),
            }
        }
    }
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let all = object["status"]["conditions"].as_array()?;
    all.iter().find(|condition| condition["type"] == kind)?["status"].as_str()
}

fn name(object: &Value) -> String {
    let meta = &object["metadata"];
    let own = meta["name"].as_str().unwrap_or_default();
    match meta["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{own}"),
        None => own.to_owned(),
    }
}

fn few(names: &[String]) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    crate::order::some_of(&names, SHOWN)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::json;

    use super::*;

    fn check(seen: &Seen, expected: Expect) {
        let lines = plan(seen).into_iter().map(|finding| {
            format!("{:<8} {:<12} {}\n", finding.weight.word(), finding.about, finding.says)
        });
        expected.assert_eq(&lines.collect::<String>());
    }

    fn with(kind: &str, status: &str) -> Value {
        json!({"conditions": [{"type": kind, "status": status}]})
    }

    #[test]
    fn a_hub_that_runs_well_changes_little() {
        let seen = Seen {
            agents: vec![Agent {
                name: "fleet-system/hub-agent".into(),
                image: "hub-agent:v0.3".into(),
                replicas: 1,
                without_effect: vec!["enable-pprof".into()],
                ..Agent::default()
            }],
            leader: Some("hub-agent-7d9_1234".into()),
            members: vec![json!({"metadata": {"name": "east"}, "status": with("Joined", "True")})],
            placements: vec![json!({"metadata": {"name": "web"}, "spec": {"policy": {"affinity":
                {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                    {"preference": {"propertySorter":
                        {"name": "resources.kubernetes-fleet.io/available-cpu"}}}]}}}}})],
            runs: vec![json!({"metadata": {"name": "old"}, "status": with("Succeeded", "True")})],
            ..Seen::default()
        };
        check(
            &seen,
            expect![[r#"
            changes  leader       hub-agent-7d9_1234 leads; ours waits for the same Lease and never works beside it
            changes  flags        --enable-pprof of fleet-system/hub-agent do(es) nothing here
            changes  webhooks     the three webhook configurations keep their names and come to point to ours
            changes  rights       each member's Role on the hub is narrowed to what agents need, KubeFleet's included; memberRights: original keeps what KubeFleet gives
            stays    flags        those of fleet-system/hub-agent (hub-agent:v0.3, 1 replica(s)) are understood
            stays    definitions  all that ours needs are served
            stays    members      1 joined; their agents are swapped one by one, before or after the hub's
            stays    placements   1, as they are; nothing is rolled out anew
            stays    runs         0 are under way; each goes on at the cluster it has come to
        "#]],
        );
    }

    #[test]
    fn what_is_to_be_done_first_comes_first() {
        let request = |name: &str, conditions: Value, uid: Option<&str>| {
            let annotations = uid.map(|uid| json!({own::UPDATE_RUN_UID: uid}));
            json!({"metadata": {"name": name, "annotations": annotations,
                "labels": {label::TARGET_UPDATE_RUN: "web"}}, "status": conditions})
        };
        let taken = json!({"conditions": [{"type": "Approved", "status": "True"},
            {"type": "ApprovalAccepted", "status": "True"}]});
        let seen = Seen {
            agents: vec![Agent {
                name: "fleet/hub".into(),
                image: "x".into(),
                refused: Some("unexpected argument '--new'".into()),
                ..Agent::default()
            }],
            lacking: vec!["works.placement.kubernetes-fleet.io".into()],
            members: vec![json!({"metadata": {"name": "west"}})],
            placements: vec![json!({"metadata": {"name": "cheap", "namespace": "shop"},
                "spec": {"policy": {"affinity": {"clusterAffinity":
                    {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [
                        {"propertySelector": {"matchExpressions": [
                            {"name": property::PER_CPU_CORE_COST}, {"name": property::NODE_COUNT}]}}]}}}}}})],
            runs: vec![
                json!({"metadata": {"name": "web"}, "status": with("Succeeded", "Unknown")}),
            ],
            approvals: vec![
                request("web-after-a", taken, None),
                request("web-after-b", with("Approved", "True"), None),
                request("web-after-c", json!({}), None),
                request("web-after-d", json!({}), Some("u1")),
            ],
            unread: vec!["Deployments cannot be listed: forbidden".into()],
            ..Seen::default()
        };
        check(
            &seen,
            expect![[r#"
            first    rights       Deployments cannot be listed: forbidden; nothing is known of it
            first    leader       nobody holds the Lease: a hub agent without --leader-elect would work beside ours, so scale it down first
            first    flags        fleet/hub (x) is started in a way that ours refuses: unexpected argument '--new'
            first    definitions  1 are not served (works.placement.kubernetes-fleet.io); the chart installs them
            first    members      1 have not joined (west); see to them first
            first    placements   shop/cheap picks clusters by kubernetes.azure.com/per-cpu-core-cost, which our member agent does not report: such clusters are picked no more once their agents are swapped
            first    runs         web: web-after-b is approved and not taken up yet; wait until it is, or approve the one that ours makes
            changes  runs         web waits for web-after-c; ours replaces the request by one with the run's UID, and that is the one to approve
            changes  webhooks     the three webhook configurations keep their names and come to point to ours
            changes  rights       each member's Role on the hub is narrowed to what agents need, KubeFleet's included; memberRights: original keeps what KubeFleet gives
            stays    members      0 joined; their agents are swapped one by one, before or after the hub's
            stays    placements   1, as they are; nothing is rolled out anew
            stays    runs         1 are under way; each goes on at the cluster it has come to
        "#]],
        );
    }
}
