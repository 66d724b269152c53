//! `flagship history`: which versions of a placement were rolled out, by which run, when, with
//! which strategy, and who approved; from their records also who did what, and runs that were
//! deleted since.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Args;
use flagship_api::approval::{ApprovalRequestSpec, ApprovalRequestStatus};
use flagship_explain::board::Board;
use flagship_explain::record::report::{Person, people};
use flagship_rules::update_run::approving::said;
use flagship_runtime::env::Env;
use jiff::Timestamp;
use serde::Serialize;

use super::board_text::Look;
use super::connect::{Connect, Hub};
use super::name::{self, Named};
use super::print::Output;
use super::scoped_kind::{ScopedKind, Stored};
use super::steer::in_namespace;
use super::{board_text, records, steer, table};

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

/// A run, and who let it pass.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Past {
    #[serde(flatten)]
    board: Board,
    approvals: Vec<Given>,
    /// Who did something, if a record of it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    people: Option<Vec<Person>>,
    /// Whether only its record is left.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deleted: bool,
}

/// An approval that somebody gave.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Given {
    stage: String,
    /// What the condition says: who, and why.
    says: String,
    at: Timestamp,
}

impl History {
    /// Prints one line a run.
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
        let namespace = self.namespace.as_deref();
        let placement = name::must_be(Named::Placement, &self.placement, namespace)?;
        let requests = ScopedKind::Approval.of(&hub.client, placement.namespace.as_deref());
        let selection = in_namespace(&placement);
        let (runs, requests) =
            futures::join!(steer::runs_of(&hub.client, &placement), requests.list(&selection));
        let mut given = given(requests?.items);
        let runs = runs?;
        let records = records::read(&hub.client, &selection, placement.namespace.is_some()).await?;
        let kept = |uid: Option<&str>| records.iter().find(|record| Some(record.uid()) == uid);
        let mut past: Vec<Past> = runs
            .iter()
            .map(|run| {
                let created = run.metadata.creation_timestamp.as_ref().map(|time| time.0);
                let board = Board::of(run.name(), created, &run.spec, &run.status, now);
                let people = kept(run.metadata.uid.as_deref()).map(people);
                let approvals = given.remove(run.name()).unwrap_or_default();
                Past { board, approvals, people, deleted: false }
            })
            .collect();
        let is_there = |uid: &str| runs.iter().any(|run| run.metadata.uid.as_deref() == Some(uid));
        let gone = records.iter().filter(|record| {
            !is_there(record.uid())
                && record.plan().is_some_and(|plan| plan.placement == placement.name)
        });
        past.extend(gone.filter_map(|record| {
            let (board, people) = (record.board_at(now)?, Some(people(record)));
            Some(Past { board, approvals: Vec::new(), people, deleted: true })
        }));
        if past.iter().any(|past| past.deleted) {
            past.sort_by_key(|past| past.board.created);
        }
        if let Some(shape) = self.output.output {
            shape.write(&serde_json::to_value(&past)?, out)?;
            return Ok(0);
        }
        if past.is_empty() {
            steer::must_exist(hub, ScopedKind::Placement, &placement, "placement").await?;
            writeln!(out, "{placement} has never been rolled out by a run.")?;
            return Ok(0);
        }
        let rows: Vec<[String; 8]> = past.iter().map(row).collect();
        // Who did what is known where records are kept.
        if past.iter().any(|past| past.people.is_some()) {
            let who = |past: &Past| past.people.as_ref().map_or_else(String::new, |all| told(all));
            let rows: Vec<[String; 9]> = rows
                .into_iter()
                .zip(&past)
                .map(|([a, b, c, d, e, f, g, h], past)| [a, b, c, d, e, f, g, h, who(past)])
                .collect();
            let heading = [
                "RUN", "SNAPSHOT", "STRATEGY", "STATE", "CLUSTERS", "CREATED", "TIME", "APPROVED",
                "WHO",
            ];
            table::write(heading, &rows, Look::here(), out)?;
            return Ok(0);
        }
        let heading =
            ["RUN", "SNAPSHOT", "STRATEGY", "STATE", "CLUSTERS", "CREATED", "TIME", "APPROVED"];
        table::write(heading, &rows, Look::here(), out)?;
        Ok(0)
    }
}

type Request = Stored<ApprovalRequestSpec, ApprovalRequestStatus>;

/// Valid approvals by run, oldest first.
fn given(requests: Vec<Request>) -> BTreeMap<String, Vec<Given>> {
    let mut by_run: BTreeMap<String, Vec<Given>> = BTreeMap::new();
    for request in requests {
        let Some((says, at)) = said(&request.metadata, &request.status) else { continue };
        let (stage, says) = (request.spec.target_stage.clone(), says.to_owned());
        let run = request.spec.parent_stage_rollout.clone();
        by_run.entry(run).or_default().push(Given { stage, says, at });
    }
    by_run.values_mut().for_each(|given| given.sort_by_key(|given| given.at));
    by_run
}

/// `flagship: started, resumed; kubectl: planned`.
fn told(people: &[Person]) -> String {
    let one = |person: &Person| {
        let name = if person.name.is_empty() { "somebody" } else { &person.name };
        format!("{name}: {}", person.did.join(", "))
    };
    people.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn row(Past { board, approvals, deleted, .. }: &Past) -> [String; 8] {
    let (done, all) = board.clusters();
    let approvals: Vec<String> = approvals
        .iter()
        .map(|given| match given.says.as_str() {
            "" => given.stage.clone(),
            says => format!("{} ({says})", given.stage),
        })
        .collect();
    [
        board.run.clone(),
        board.snapshot.clone(),
        board.strategy.clone(),
        match deleted {
            false => format!("{:?}", board.phase),
            true => format!("{:?}, deleted", board.phase),
        },
        format!("{done}/{all}"),
        board.created.map_or_else(String::new, |created| format!("{created:.0}")),
        board_text::clock(board.seconds),
        approvals.join(", "),
    ]
}
