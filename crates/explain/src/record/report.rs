//! The story of a run with its durations, gates, people and failures, from its record.

use std::collections::BTreeMap;

use flagship_api::rollout_record::{Known, RecordEntry, What};
use jiff::Timestamp;
use serde::Serialize;

use super::checks::{CheckStory, checks};
use super::{Record, by, sentence};
use crate::record::audit::Verdict;

/// A run from its plan to its end, or to the moment it was asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The run.
    pub run: String,
    /// What it rolled out.
    pub placement: String,
    /// Which version of it.
    pub snapshot: String,
    /// By which strategy.
    pub strategy: String,
    /// Hash of the plan.
    pub plan_hash: String,
    /// Policies it followed.
    pub policies: Vec<String>,
    /// `succeeded`, `failed`, or that it has not ended.
    pub outcome: String,
    /// How it ended, in words.
    pub says: String,
    /// When it was planned.
    pub began: Timestamp,
    /// When it ended, or the moment of the report.
    pub until: Timestamp,
    /// Seconds between the two.
    pub seconds: i64,
    /// Its stages.
    pub stages: Vec<StageStory>,
    /// Who did something.
    pub people: Vec<Person>,
    /// Clusters that failed or were skipped.
    pub failures: Vec<Failure>,
    /// Checks of policies, with what they have measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckStory>,
    /// When nothing could begin: stops, freezes and closed windows.
    pub held: Vec<Span>,
    /// Every entry, as a sentence.
    pub entries: Vec<Line>,
    /// Whether the record is as it was written.
    pub verdict: Verdict,
}

/// A stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageStory {
    /// Its name.
    pub name: String,
    /// From its first cluster to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
    /// Its clusters.
    pub clusters: Vec<ClusterStory>,
    /// Its gates.
    pub gates: Vec<GateStory>,
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStory {
    /// Its name.
    pub name: String,
    /// `queued`, `updating`, `done`, `failed` or `skipped`.
    pub result: &'static str,
    /// From its begin to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
}

/// A gate.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GateStory {
    /// Such as `after-Approval`.
    pub gate: String,
    /// From when to when it was closed.
    pub span: Span,
    /// Who opened it, if somebody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// In which words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
}

/// A time from one moment to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// What it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// From then.
    pub from: Timestamp,
    /// Until then.
    pub to: Timestamp,
    /// Whether it has not ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
}

impl Span {
    /// Its length.
    pub fn seconds(&self) -> i64 {
        self.to.duration_since(self.from).as_secs().max(0)
    }
}

/// Somebody who did something.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Person {
    /// Their name, or that of the client they used.
    pub name: String,
    /// How that is known.
    pub known: Known,
    /// What they did, in order.
    pub did: Vec<String>,
}

/// A cluster that was not updated.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The cluster.
    pub cluster: String,
    /// Its stage.
    pub stage: String,
    /// Whether it was only skipped.
    pub skipped: bool,
    /// Why, as a code.
    pub cause: String,
    /// Why, in words.
    pub says: String,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// Its number.
    pub n: i64,
    /// When.
    pub time: Timestamp,
    /// What it tells.
    pub says: String,
}

/// Tells the story of a record until a moment, which counts where the run has not ended.
pub fn report(record: &Record, verdict: Verdict, now: Timestamp) -> Option<Report> {
    let plan = record.plan()?;
    let began = record.entries().next()?.time.0;
    let ended = record.entries().find(|entry| entry.what == What::Ended);
    let until = ended.map_or(now, |ended| ended.time.0).max(began);
    let outcome = match ended.and_then(|ended| ended.cause.as_deref()) {
        None => "not ended",
        Some(flagship_api::reason::update_run::SUCCEEDED) => "succeeded",
        Some(_) => "failed",
    };
    let removes = flagship_api::names::DELETION_STAGE;
    let mut names: Vec<(&str, &str, Vec<String>)> = plan
        .stages
        .iter()
        .map(|stage| (stage.name.as_str(), stage.name.as_str(), stage.clusters.clone()))
        .collect();
    if !plan.removes.is_empty() {
        names.push((removes, "remove", plan.removes.clone()));
    }
    let first = record.parts.first()?;
    Some(Report {
        run: record.run().to_owned(),
        placement: plan.placement.clone(),
        snapshot: plan.snapshot.clone(),
        strategy: plan.strategy.clone(),
        plan_hash: plan.hash.clone(),
        policies: first.policies.iter().map(|policy| policy.name.clone()).collect(),
        outcome: outcome.to_owned(),
        says: ended.and_then(|ended| ended.text.clone()).unwrap_or_default(),
        began,
        until,
        seconds: until.duration_since(began).as_secs().max(0),
        stages: names
            .into_iter()
            .map(|(key, name, clusters)| stage(record, key, name, &clusters, until))
            .collect(),
        people: people(record),
        failures: failures(record),
        checks: checks(record),
        held: held(record, until),
        entries: record
            .entries()
            .map(|entry| Line { n: entry.n, time: entry.time.0, says: sentence(entry) })
            .collect(),
        verdict,
    })
}

fn stage(record: &Record, key: &str, name: &str, names: &[String], until: Timestamp) -> StageStory {
    let of = |what: What| {
        record.entries().find(move |e| e.what == what && e.stage.as_deref() == Some(key))
    };
    let span = of(What::StageBegan).map(|began| between("", began, of(What::StageDone), until));
    let clusters = names.iter().map(|name| cluster(record, key, name, until)).collect();
    let waits =
        record.entries().filter(|e| e.what == What::GateWaits && e.stage.as_deref() == Some(key));
    let gates = waits.map(|waits| {
        let opened = record.entries().find(|entry| {
            matches!(entry.what, What::Approved | What::WaitOver)
                && (&entry.stage, &entry.gate) == (&waits.stage, &waits.gate)
        });
        GateStory {
            gate: waits.gate.clone().unwrap_or_default(),
            span: between("", waits, opened, until),
            by: opened.and_then(|opened| opened.who.as_ref()).map(by),
            says: opened.and_then(|opened| opened.text.clone()),
        }
    });
    StageStory { name: name.to_owned(), span, clusters, gates: gates.collect() }
}

fn cluster(record: &Record, stage: &str, name: &str, until: Timestamp) -> ClusterStory {
    let mut of = record.entries().filter(|entry| {
        entry.cluster.as_deref() == Some(name) && entry.stage.as_deref() == Some(stage)
    });
    let began = of.clone().find(|entry| entry.what == What::ClusterBegan);
    let ends = [What::ClusterDone, What::ClusterFailed, What::ClusterSkipped];
    let over = of.find(|entry| ends.contains(&entry.what));
    let result = match (began, over.map(|over| over.what)) {
        (_, Some(What::ClusterDone)) => "done",
        (_, Some(What::ClusterSkipped)) => "skipped",
        (_, Some(_)) => "failed",
        (Some(_), None) => "updating",
        (None, None) => "queued",
    };
    let span = began.map(|began| between("", began, over, until));
    ClusterStory { name: name.to_owned(), result, span }
}

fn between(what: &str, from: &RecordEntry, to: Option<&RecordEntry>, until: Timestamp) -> Span {
    let (from, open) = (from.time.0, to.is_none());
    let to = to.map_or(until, |to| to.time.0).max(from);
    Span { what: what.to_owned(), from, to, open }
}

/// Who did something, as far as the record knows.
pub fn people(record: &Record) -> Vec<Person> {
    let mut all: BTreeMap<(String, String), Person> = BTreeMap::new();
    for entry in record.entries() {
        let Some(who) = &entry.who else { continue };
        let key = (who.name.clone(), format!("{:?}", who.known));
        let person = all.entry(key).or_insert_with(|| Person {
            name: who.name.clone(),
            known: who.known,
            did: Vec::new(),
        });
        let did = match (entry.what, &entry.stage, &entry.cluster) {
            (What::Approved, Some(stage), _) => format!("approved stage {stage}"),
            (What::ClusterSkipped, _, Some(cluster)) => format!("skipped {cluster}"),
            (what, ..) => format!("{what:?}").to_lowercase(),
        };
        person.did.push(did);
    }
    all.into_values().collect()
}

fn failures(record: &Record) -> Vec<Failure> {
    let failed = record
        .entries()
        .filter(|entry| matches!(entry.what, What::ClusterFailed | What::ClusterSkipped));
    let story = |entry: &RecordEntry| Failure {
        cluster: entry.cluster.clone().unwrap_or_default(),
        stage: entry.stage.clone().unwrap_or_default(),
        skipped: entry.what == What::ClusterSkipped,
        cause: entry.cause.clone().unwrap_or_default(),
        says: entry.text.clone().unwrap_or_default(),
    };
    failed.map(story).collect()
}

/// Stops, freezes and closed windows, each with its end.
fn held(record: &Record, until: Timestamp) -> Vec<Span> {
    let mut spans = Vec::new();
    for (begins, ends, what) in [
        (What::Stopped, What::Resumed, "stopped"),
        (What::Frozen, What::Unfrozen, "frozen"),
        (What::WindowClosed, What::WindowOpened, "closed"),
    ] {
        let mut open: Option<&RecordEntry> = None;
        for entry in record.entries() {
            match entry.what {
                what if what == begins => open = open.or(Some(entry)),
                now if now == ends => {
                    spans.extend(open.take().map(|from| between(what, from, Some(entry), until)));
                }
                _ => {}
            }
        }
        spans.extend(open.map(|from| between(what, from, None, until)));
    }
    spans.sort_by_key(|span| span.from);
    spans
}
