//! `flagship history`: which versions of a placement were rolled out, by which run.

use std::io::Write;

use clap::Args;
use flagship_api::names::ObjectKey;
use flagship_explain::board::Board;
use flagship_runtime::env::Env;

use super::connect::Connect;
use super::print::Output;
use super::scoped_kind::ScopedKind;
use super::{board_text, steer, table};

/// Show the runs of a placement, oldest first
#[derive(Args)]
pub struct History {
    /// The placement
    placement: String,
    /// Namespace of a namespaced placement
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

impl History {
    /// Prints one line a run.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        let placement = ObjectKey::new(self.namespace.as_deref(), &self.placement);
        let now = Env::system().now();
        let boards: Vec<Board> = steer::runs_of(&hub.client, &placement)
            .await?
            .iter()
            .map(|run| {
                let created = run.metadata.creation_timestamp.as_ref().map(|time| time.0);
                Board::of(run.name(), created, &run.spec, &run.status, now)
            })
            .collect();
        if let Some(shape) = self.output.output {
            shape.write(&serde_json::to_value(&boards)?, out)?;
            return Ok(0);
        }
        if boards.is_empty() {
            steer::must_exist(&hub, ScopedKind::Placement, &placement, "placement").await?;
            writeln!(out, "{placement} has never been rolled out by a run.")?;
            return Ok(0);
        }
        let rows: Vec<[String; 5]> = boards.iter().map(row).collect();
        table::write(["RUN", "SNAPSHOT", "STATE", "CLUSTERS", "TIME"], &rows, out)?;
        Ok(0)
    }
}

fn row(board: &Board) -> [String; 5] {
    let (done, all) = board.clusters();
    [
        board.run.clone(),
        board.snapshot.clone(),
        format!("{:?}", board.phase),
        format!("{done}/{all}"),
        board_text::clock(board.seconds),
    ]
}
