//! Statuses as text, so that a story can say what a person reads.

use serde_json::Value;

use crate::fleet::{Cluster, Condition};

/// The status of a cluster-scoped placement: its conditions, then each cluster with what
/// failed, drifted or differs there.
pub async fn placement(hub: &Cluster, name: &str) -> String {
    let placement = hub.get("clusterresourceplacements", "", name).await;
    let status = &placement["status"];
    let mut lines = conditions(status);
    for cluster in rows(status, "placementStatuses") {
        lines.push(format!("{}:", text(&cluster["clusterName"])));
        lines.extend(conditions(cluster).iter().map(|line| format!("  {line}")));
        for failed in rows(cluster, "failedPlacements") {
            lines.push(format!("  failed {}", object(failed)));
            lines.push(format!("    {}", Condition::read(&failed["condition"])));
        }
        for drifted in rows(cluster, "driftedPlacements") {
            lines.push(format!("  drifted {}", object(drifted)));
            lines.extend(details(drifted, "observedDrifts"));
        }
        for diffed in rows(cluster, "diffedPlacements") {
            lines.push(format!("  differs {}", object(diffed)));
            lines.extend(details(diffed, "observedDiffs"));
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The entries of a list, none if it is missing.
pub fn rows<'a>(of: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    of[list].as_array().into_iter().flatten()
}

pub(super) fn conditions(of: &Value) -> Vec<String> {
    rows(of, "conditions").map(|one| Condition::read(one).to_string()).collect()
}

fn object(of: &Value) -> String {
    format!("{} {}/{}", text(&of["kind"]), text(&of["namespace"]), text(&of["name"]))
}

fn details(of: &Value, list: &str) -> Vec<String> {
    let line = |one: &Value| {
        let (member, hub) = (text(&one["valueInMember"]), text(&one["valueInHub"]));
        format!("    {} member={member} hub={hub}", text(&one["path"]))
    };
    rows(of, list).map(line).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}
