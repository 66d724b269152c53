//! `flagship report`, `flagship replay` and `flagship audit`: what the record of a run tells.

use std::io::Write;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use flagship_api::names::ObjectKey;
use flagship_api::rollout_record::RolloutRecordSpec;
use flagship_api::staged_update::UpdateRunSpec;
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_base::duration::GoDuration;
use flagship_explain::record::audit::{Verdict, judge};
use flagship_explain::record::report::report;
use flagship_explain::record::{Record, html, markdown};
use flagship_runtime::client::{Client, ClientError, Selection};
use flagship_runtime::env::Env;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::board_text::{self, Look};
use super::connect::{Connect, Hub};
use super::name::{self, Named};
use super::print::{Output, Shape};
use super::scoped_kind::ScopedKind;
use super::steer::{RunObject, in_namespace};

/// Tell the story of a run from its record: durations, gates, people, failures
#[derive(Args)]
pub struct Report {
    /// The run, there or deleted
    run: String,
    /// Namespace of a namespaced run
    #[arg(short, long)]
    namespace: Option<String>,
    /// As Markdown, as one HTML page with a timeline, or as JSON
    #[arg(short, long, value_enum, default_value_t = Form::Md)]
    output: Form,
    #[command(flatten)]
    connect: Connect,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Markdown
    Md,
    /// One HTML page, which loads nothing
    Html,
    /// JSON
    Json,
}

/// Show the board of a run as it was, from its record
#[derive(Args)]
pub struct Replay {
    /// The run, there or deleted
    run: String,
    /// Namespace of a namespaced run
    #[arg(short, long)]
    namespace: Option<String>,
    /// When: a time such as 2026-01-01T12:00:00Z, or how long after the beginning, such as 5m;
    /// left out, a line for each turn and the board at the end
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// Ask whether records are as they were written
#[derive(Args)]
pub struct Audit {
    #[command(subcommand)]
    verb: AuditVerb,
}

#[derive(Subcommand)]
enum AuditVerb {
    Verify(Verify),
}

/// Compute the hashes of a record anew and name the entry that was changed
#[derive(Args)]
pub struct Verify {
    /// The run, there or deleted; all records if left out
    run: Option<String>,
    /// Namespace of a namespaced run, or the only one to look at
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

impl Report {
    /// Prints the report.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        self.answer(&hub, Env::system().now(), out).await
    }

    pub(super) async fn answer(
        self,
        hub: &Hub,
        now: Timestamp,
        out: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let key = name::must_be(Named::Run, &self.run, self.namespace.as_deref())?;
        let (record, verdict) = one(hub, &key).await?;
        let told = report(&record, verdict, now)
            .with_context(|| format!("the record of {key} has no plan or no entries"))?;
        match self.output {
            Form::Md => out.write_all(markdown(&told).as_bytes())?,
            Form::Html => out.write_all(html(&told).as_bytes())?,
            Form::Json => Shape::Json.write(&serde_json::to_value(&told)?, out)?,
        }
        Ok(if told.verdict.holds() { 0 } else { CHANGED })
    }
}

/// What was asked about is not as it should be.
const CHANGED: u8 = 5;

impl Replay {
    /// Prints the board.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        self.answer(&hub, out).await
    }

    pub(super) async fn answer(self, hub: &Hub, out: &mut dyn Write) -> anyhow::Result<u8> {
        let key = name::must_be(Named::Run, &self.run, self.namespace.as_deref())?;
        let (record, _) = one(hub, &key).await?;
        let times: Vec<Timestamp> = record.entries().map(|entry| entry.time.0).collect();
        let (Some(first), Some(last)) = (times.first(), times.last()) else {
            bail!("the record of {key} has no entries");
        };
        let at = self.at.as_deref().map(|text| moment(text, *first)).transpose()?;
        let when = at.unwrap_or(*last);
        let Some(board) = record.board_at(when) else {
            bail!("nothing is recorded of {key} before {first:.0}");
        };
        let told = record.told_at(when).unwrap_or_default();
        if let Some(shape) = self.output.output {
            shape.write(&json!({"at": when, "board": board, "told": told}), out)?;
            return Ok(0);
        }
        if at.is_none() {
            let mut turns = times.clone();
            turns.dedup();
            for turn in turns {
                let Some(board) = record.board_at(turn) else { continue };
                writeln!(out, "{turn:.0}   {}", board_text::headline(&board, false))?;
            }
            writeln!(out)?;
        }
        out.write_all(board_text::as_it_was(&board, &told, Look::here()).as_bytes())?;
        Ok(0)
    }
}

/// A moment as typed.
fn moment(text: &str, first: Timestamp) -> anyhow::Result<Timestamp> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    let after = text.trim_start_matches('+').parse::<GoDuration>().ok().with_context(|| {
        format!("--at {text:?} is neither a time, such as 2026-01-01T12:00:00Z, nor a time after the beginning, such as 5m")
    })?;
    Ok(first.saturating_add(after.as_signed_duration())?)
}

impl Audit {
    /// Prints what is to be said of the records.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let AuditVerb::Verify(verify) = self.verb;
        let hub = verify.connect.hub().await?;
        verify.answer(&hub, out).await
    }
}

impl Verify {
    pub(super) async fn answer(self, hub: &Hub, out: &mut dyn Write) -> anyhow::Result<u8> {
        let verdicts = match &self.run {
            Some(run) => {
                let key = name::must_be(Named::Run, run, self.namespace.as_deref())?;
                vec![(key.namespace.clone(), one(hub, &key).await?.1)]
            }
            None => all(hub, self.namespace.as_deref()).await?,
        };
        let broken = verdicts.iter().any(|(_, verdict)| !verdict.holds());
        if let Some(shape) = self.output.output {
            let told = |(namespace, verdict): &(Option<String>, Verdict)| {
                let mut value = serde_json::to_value(verdict).unwrap_or_default();
                value["namespace"] = json!(namespace);
                value["verified"] = json!(verdict.holds());
                value
            };
            shape.write(&verdicts.iter().map(told).collect::<Value>(), out)?;
        } else {
            for (namespace, verdict) in &verdicts {
                let space = namespace.as_ref().map_or_else(String::new, |it| format!("{it}/"));
                writeln!(out, "{space}{}", verdict.told())?;
                verdict.faults.iter().try_for_each(|fault| writeln!(out, "  {fault}"))?;
                verdict.notes.iter().try_for_each(|note| writeln!(out, "  note: {note}"))?;
            }
            if verdicts.is_empty() {
                writeln!(out, "no record is kept of any run")?;
            }
        }
        Ok(if broken { CHANGED } else { 0 })
    }
}

/// The newest record of a run of that name, and what is to be said of it.
async fn one(hub: &Hub, key: &ObjectKey) -> anyhow::Result<(Record, Verdict)> {
    let all = read(&hub.client, &in_namespace(key), key.namespace.is_some()).await?;
    let Some(record) = all.iter().rev().find(|record| record.run() == key.name) else {
        let run = find_run(hub, key).await?;
        match run {
            Some(_) => bail!(
                "no record is kept of {key}: a hub keeps those of runs under a RolloutPolicy, and of all runs with --rollout-records=All"
            ),
            None => bail!("there is neither a run {key} nor a record of one"),
        }
    };
    let status = status_of(hub, key, record).await?;
    let verdict = judge(record, &all, status.as_ref());
    Ok((record.clone(), verdict))
}

/// Every record, of both scopes unless a namespace is named.
async fn all(hub: &Hub, namespace: Option<&str>) -> anyhow::Result<Vec<(Option<String>, Verdict)>> {
    let mut verdicts = Vec::new();
    let of_space = |space: String| {
        let selection = Selection::namespace(&space);
        (Some(space), selection)
    };
    let scopes: Vec<(Option<String>, Selection)> = match namespace {
        Some(namespace) => vec![of_space(namespace.to_owned())],
        None => {
            let spaces = spaces(&hub.client).await?.into_iter().map(of_space);
            [(None, Selection::all())].into_iter().chain(spaces).collect()
        }
    };
    for (space, selection) in scopes {
        let all = read(&hub.client, &selection, space.is_some()).await?;
        for record in &all {
            let key = ObjectKey::new(space.as_deref(), record.run());
            let status = status_of(hub, &key, record).await?;
            verdicts.push((space.clone(), judge(record, &all, status.as_ref())));
        }
    }
    Ok(verdicts)
}

/// Namespaces that have records.
async fn spaces(client: &Client) -> anyhow::Result<Vec<String>> {
    let records = ScopedKind::Record.of::<Value, Value>(client, Some(""));
    let listed = match records.list(&Selection::all()).await {
        Err(ClientError::NotServed { .. }) => return Ok(Vec::new()),
        listed => listed?,
    };
    let mut spaces: Vec<String> =
        listed.items.into_iter().filter_map(|record| record.metadata.namespace).collect();
    spaces.sort_unstable();
    spaces.dedup();
    Ok(spaces)
}

/// The records of one namespace, or those without one, in the order they were begun.
pub(super) async fn read(
    client: &Client,
    selection: &Selection,
    namespaced: bool,
) -> anyhow::Result<Vec<Record>> {
    let records =
        ScopedKind::Record.of::<RolloutRecordSpec, Value>(client, namespaced.then_some(""));
    let listed = match records.list(selection).await {
        Err(ClientError::NotServed { .. }) => return Ok(Vec::new()),
        listed => listed?,
    };
    if let Some(malformed) = listed.malformed.first() {
        bail!("a record cannot be read: {malformed}");
    }
    let objects = listed.items.into_iter().map(|object| (object.metadata, object.spec));
    Ok(Record::gathered(objects.collect()))
}

async fn find_run(hub: &Hub, key: &ObjectKey) -> anyhow::Result<Option<RunObject>> {
    let runs =
        ScopedKind::Run.of::<UpdateRunSpec, UpdateRunStatus>(&hub.client, key.namespace.as_deref());
    Ok(runs.find(key).await?)
}

/// What the very run of a record says, if it is there.
async fn status_of(
    hub: &Hub,
    key: &ObjectKey,
    record: &Record,
) -> anyhow::Result<Option<UpdateRunStatus>> {
    let run = find_run(hub, key).await?;
    let same = run.filter(|run| run.metadata.uid.as_deref() == Some(record.uid()));
    Ok(same.map(|run| run.status))
}
