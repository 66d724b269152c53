//! `flagship clusters`: the members, how fresh what we know of them is, and what is on them.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use flagship_api::condition::Conditions;
use flagship_api::condition_type::member_cluster;
use flagship_rules::why::{Cause, Subject, explain};
use flagship_runtime::client::Selection;
use flagship_runtime::env::Env;
use serde_json::{Value, json};

use super::connect::Connect;
use super::print::Output;
use super::twins::{Stored, resource};
use super::{gather, table};

/// List the members: joined, last heard of, labels, and what is wrong with them
#[derive(Args)]
pub struct Clusters {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

impl Clusters {
    /// Prints one line a member.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        let now = Env::system().now();
        let labels = labels(&hub.client).await?;
        // What is known of one is known of all: only the subject differs.
        let mut facts = gather::facts(&hub, Subject::Cluster(String::new()), now).await?;
        let mut rows = Vec::new();
        let mut values = Vec::new();
        let names: Vec<String> = facts.clusters.keys().cloned().collect();
        for name in names {
            facts.subject = Subject::Cluster(name.clone());
            let found = explain(&facts);
            let member = &facts.clusters[&name];
            let joined = member.status.conditions.of_type(member_cluster::JOINED);
            let joined = joined.map_or("", |joined| joined.status.as_str()).to_owned();
            let heard = member
                .status
                .agent_status
                .iter()
                .filter_map(|agent| agent.last_received_heartbeat.as_ref())
                .map(|time| now.duration_since(time.0).as_secs().max(0))
                .min();
            let heard = heard.map_or_else(|| "never".to_owned(), |ago| format!("{ago}s ago"));
            let labels = labels.get(&name).cloned().unwrap_or_default();
            values.push(json!({
                "name": name, "joined": joined, "heard": heard, "labels": labels,
                "state": found.state.word(), "cause": found.cause.code(), "headline": found.headline,
            }));
            let shown = if found.cause == Cause::Done { "healthy" } else { found.cause.code() };
            rows.push([name, joined, heard, shown.to_owned(), labels]);
        }
        match self.output.output {
            Some(shape) => shape.write(&Value::Array(values), out)?,
            None => table::write(["CLUSTER", "JOINED", "HEARD", "STATE", "LABELS"], &rows, out)?,
        }
        Ok(0)
    }
}

/// The labels people set; those of the system itself say nothing new.
async fn labels(
    client: &flagship_runtime::client::Client,
) -> anyhow::Result<BTreeMap<String, String>> {
    let members = client.of_type::<Stored<Value, Value>>(resource("MemberCluster"));
    let listed = members.list(&Selection::all()).await?;
    let found = listed.items.into_iter().map(|member| {
        let own = member.metadata.labels.clone().unwrap_or_default();
        let shown: Vec<String> = own
            .iter()
            .filter(|(key, _)| !key.contains("kubernetes-fleet.io/"))
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        (member.name().to_owned(), shown.join(","))
    });
    Ok(found.collect())
}
