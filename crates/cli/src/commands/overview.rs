//! `flagship status` without a name: every run and what it waits for, every placement and
//! where which version of it is.

use std::io::Write;

use flagship_explain::order::some_of;
use flagship_explain::overview::{Overview, PlacementRow, RunRow, overview};
use jiff::Timestamp;

use super::board_text::{self, Look};
use super::connect::Hub;
use super::print::Output;
use super::wrap::after;
use super::{gather, table};

/// Clusters of a version that are named.
const NAMED: usize = 4;

/// Prints the fleet at a glance.
pub async fn answer(
    hub: &Hub,
    now: Timestamp,
    output: Output,
    out: &mut dyn Write,
) -> anyhow::Result<u8> {
    let seen = overview(gather::everything(hub, now).await?);
    match output.output {
        Some(shape) => shape.write(&serde_json::to_value(&seen)?, out)?,
        None => show(&seen, Look::here(), out)?,
    }
    Ok(0)
}

fn show(seen: &Overview, look: Look, out: &mut dyn Write) -> anyhow::Result<()> {
    if seen.runs.is_empty() {
        writeln!(out, "No run has been started yet.")?;
    } else {
        let rows: Vec<[String; 5]> = seen.runs.iter().map(run_row).collect();
        table::write(["RUN", "PLACEMENT", "SNAPSHOT", "STATE", "CLUSTERS"], &rows, look, out)?;
    }
    let open: Vec<&RunRow> = seen.runs.iter().filter(|run| run.ended.is_none()).collect();
    if !open.is_empty() {
        writeln!(out)?;
    }
    for run in open {
        writeln!(out, "{}", after("", &run.headline, look.width))?;
        if !run.command.is_empty() {
            writeln!(out, "  {}", run.command)?;
        }
    }
    writeln!(out)?;
    if seen.placements.is_empty() {
        writeln!(out, "There is no placement yet. {} cluster(s).", seen.clusters)?;
        return Ok(());
    }
    let rows: Vec<[String; 3]> = seen.placements.iter().flat_map(placement_rows).collect();
    table::write(["PLACEMENT", "VERSION", "CLUSTERS"], &rows, look, out)?;
    Ok(())
}

fn named(namespace: Option<&String>, name: &str) -> String {
    namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

fn run_row(run: &RunRow) -> [String; 5] {
    [
        named(run.namespace.as_ref(), &run.name),
        run.placement.clone(),
        run.snapshot.clone(),
        board_text::word(run.phase).to_owned(),
        format!("{}/{}", run.done, run.clusters),
    ]
}

/// A line for each version, the name on the first alone.
fn placement_rows(placement: &PlacementRow) -> Vec<[String; 3]> {
    let told = |clusters: &[String]| {
        let names: Vec<&str> = clusters.iter().map(String::as_str).collect();
        format!("{}: {}", names.len(), some_of(&names, NAMED))
    };
    let mut told_of: Vec<(String, String)> = placement
        .versions
        .iter()
        .map(|version| (format!("snapshot {}", version.snapshot), told(&version.clusters)))
        .collect();
    if !placement.empty.is_empty() {
        told_of.push(("nothing yet".to_owned(), told(&placement.empty)));
    }
    if told_of.is_empty() {
        told_of.push(("no clusters".to_owned(), String::new()));
    }
    let name = named(placement.namespace.as_ref(), &placement.name);
    let names = std::iter::once(name).chain(std::iter::repeat(String::new()));
    names.zip(told_of).map(|(name, (version, clusters))| [name, version, clusters]).collect()
}
