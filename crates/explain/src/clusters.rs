//! The members at a glance: joined, last heard of, what is wrong with each.

use std::collections::BTreeMap;

use flagship_api::condition::Conditions;
use flagship_api::condition_type::member_cluster;
use flagship_rules::heartbeat::last_heard;
use jiff::Timestamp;

use crate::order::natural;
use crate::why::{Facts, Finding, Subject, explain};

/// One member.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// What its Joined condition says, or that it is leaving; empty without a condition.
    pub joined: String,
    /// How long ago any of its agents reported.
    pub heard: String,
    /// When any of its agents last reported.
    pub last_heartbeat: Option<Timestamp>,
    /// The labels people set, as kubectl shows labels.
    pub labels: String,
    /// All its labels.
    pub label_map: BTreeMap<String, String>,
    /// What is wrong with it, if anything is.
    pub finding: Finding,
}

/// All members, by name. What is known of one is known of all: only the subject differs.
pub fn rows(mut facts: Facts) -> Vec<Row> {
    let mut names: Vec<String> = facts.clusters.keys().cloned().collect();
    names.sort_by(|a, b| natural(a, b));
    let mut rows = Vec::new();
    for name in names {
        facts.subject = Subject::Cluster(name.clone());
        let finding = explain(&facts);
        let member = &facts.clusters[&name];
        let joined = member.status.conditions.of_type(member_cluster::JOINED);
        let last = last_heard(&member.status);
        let heard = last.map(|last| facts.now.duration_since(last).as_secs().max(0));
        rows.push(Row {
            joined: match (member.leaving, joined) {
                (true, _) => "leaving".to_owned(),
                (false, joined) => joined.map_or("", |joined| joined.status.as_str()).to_owned(),
            },
            heard: heard.map_or_else(|| "never".to_owned(), |ago| format!("{ago}s ago")),
            last_heartbeat: last,
            labels: own_labels(&member.labels),
            label_map: member.labels.clone(),
            name,
            finding,
        });
    }
    rows
}

/// The labels people set; those of the system itself say nothing new.
pub fn own_labels(labels: &BTreeMap<String, String>) -> String {
    let own = labels.iter().filter(|(key, _)| !key.contains("kubernetes-fleet.io/"));
    let pairs: Vec<String> = own.map(|(key, value)| format!("{key}={value}")).collect();
    pairs.join(",")
}
