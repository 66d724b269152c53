//! `flagship clusters`: the members, how fresh what we know of them is, and what is on them.

use std::io::Write;

use clap::Args;
use flagship_explain::clusters::{Row, rows as rows_of};
use flagship_explain::why::{State, Subject};
use flagship_runtime::env::Env;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::board_text::Look;
use super::connect::{Connect, Hub};
use super::print::Output;
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
        let connect = self.connect.clone();
        connect.read(async |hub| self.answer(hub, Env::system().now(), out).await).await
    }

    pub(super) async fn answer(
        self,
        hub: &Hub,
        now: Timestamp,
        out: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let facts = gather::facts(hub, Subject::Cluster(String::new()), now).await?;
        let mut rows = Vec::new();
        let mut values = Vec::new();
        for Row { name, joined, heard, last_heartbeat, labels, label_map, finding } in
            rows_of(facts)
        {
            values.push(json!({
                "name": name, "joined": joined, "lastHeartbeat": last_heartbeat,
                "labels": label_map,
                "state": finding.state.word(), "cause": finding.cause.code(),
                "headline": finding.headline,
            }));
            let healthy = finding.state == State::Done;
            let shown = if healthy { "healthy" } else { finding.cause.code() };
            rows.push([name, joined, heard, shown.to_owned(), labels]);
        }
        match self.output.output {
            Some(shape) => shape.write(&Value::Array(values), out)?,
            None => {
                let heading = ["CLUSTER", "JOINED", "HEARD", "STATE", "LABELS"];
                table::write(heading, &rows, Look::here(), out)?;
            }
        }
        Ok(0)
    }
}
