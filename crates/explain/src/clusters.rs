//! The members at a glance: joined, last heard of, what is wrong with each.

use std::collections::BTreeMap;

use flagship_api::condition::Conditions;
use flagship_api::condition_type::member_cluster;
use flagship_rules::heartbeat::last_heard;

use crate::why::{Facts, Finding, Subject, explain};

/// One member.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// What its Joined condition says; empty without one.
    pub joined: String,
    /// How long ago any of its agents reported.
    pub heard: String,
    /// The labels people set, as kubectl shows labels.
    pub labels: String,
    /// What is wrong with it, if anything is.
    pub finding: Finding,
}

/// All members, by name. What is known of one is known of all: only the subject differs.
pub fn rows(mut facts: Facts) -> Vec<Row> {
    let names: Vec<String> = facts.clusters.keys().cloned().collect();
    let mut rows = Vec::new();
    for name in names {
        facts.subject = Subject::Cluster(name.clone());
        let finding = explain(&facts);
        let member = &facts.clusters[&name];
        let joined = member.status.conditions.of_type(member_cluster::JOINED);
        let heard =
            last_heard(&member.status).map(|time| facts.now.duration_since(time).as_secs().max(0));
        rows.push(Row {
            joined: joined.map_or("", |joined| joined.status.as_str()).to_owned(),
            heard: heard.map_or_else(|| "never".to_owned(), |ago| format!("{ago}s ago")),
            labels: own_labels(&member.labels),
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
