//! The whole fleet at a glance: runs and what each waits for, placements and which version is
//! on how many clusters.
//!
//! Terminal, page and `-o json` show this one value.

use std::collections::BTreeMap;

use flagship_api::binding::BindingState;
use flagship_api::names::ObjectKey;
use flagship_rules::update_run::OtherRun;
use flagship_rules::update_run::lifecycle::{Phase, has_ended};
use jiff::Timestamp;
use serde::Serialize;

use crate::board::Board;
use crate::order::natural;
use crate::why::{
    ApprovalFacts, BindingFacts, ClusterFacts, Facts, Finding, PlacementFacts, RunFacts, Subject,
    causes, explain, index_of,
};

/// Everything that was read for it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// When it was read.
    pub now: Timestamp,
    /// When the hub's controllers last renewed their lease, if they hold one.
    pub hub_renewed: Option<Timestamp>,
    /// Members by name.
    pub clusters: BTreeMap<String, ClusterFacts>,
    /// Placements of both scopes.
    pub placements: BTreeMap<ObjectKey, PlacementFacts>,
    /// Runs of both scopes, oldest first, each as its rivals see it.
    pub runs: Vec<(ObjectKey, RunFacts, OtherRun)>,
    /// Bindings of both scopes.
    pub bindings: Vec<BindingFacts>,
    /// Approval requests of both scopes.
    pub approvals: BTreeMap<ObjectKey, ApprovalFacts>,
}

/// The fleet at a glance.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// When it was read.
    pub at: Timestamp,
    /// Members in all.
    pub clusters: usize,
    /// Runs that have not ended, and the last of each placement.
    pub runs: Vec<RunRow>,
    /// Every placement.
    pub placements: Vec<PlacementRow>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRow {
    /// Its namespace, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// What it rolls out.
    pub placement: String,
    /// Which version of it.
    pub snapshot: String,
    /// Where it stands.
    pub phase: Phase,
    /// Clusters done.
    pub done: usize,
    /// Clusters in all.
    pub clusters: usize,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// How it stands: `done`, `failed`, `waiting`, `stuck`.
    pub state: &'static str,
    /// The code of the cause.
    pub cause: &'static str,
    /// What it waits for, and whom.
    pub headline: String,
    /// The command that lets it go on, if there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command: String,
}

/// One placement.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementRow {
    /// Its namespace, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Clusters by the version that they hold, the newest version first.
    pub versions: Vec<Version>,
    /// Clusters that are chosen and hold nothing yet.
    pub empty: Vec<String>,
}

/// The clusters that hold one version.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// The number of the snapshot.
    pub snapshot: u32,
    /// The clusters, in natural order.
    pub clusters: Vec<String>,
}

/// Looks at all of it.
pub fn overview(asked: Asked) -> Overview {
    let mut bindings: BTreeMap<ObjectKey, Vec<BindingFacts>> = BTreeMap::new();
    for bound in &asked.bindings {
        let key = ObjectKey::new(bound.key.namespace.as_deref(), &bound.placement);
        bindings.entry(key).or_default().push(bound.clone());
    }
    let placements = asked
        .placements
        .keys()
        .map(|key| placement_row(key, bindings.get(key).map_or(&[][..], Vec::as_slice)));
    let mut placements: Vec<PlacementRow> = placements.collect();
    placements.sort_by(|a, b| a.namespace.cmp(&b.namespace).then(natural(&a.name, &b.name)));
    Overview {
        at: asked.now,
        clusters: asked.clusters.len(),
        runs: run_rows(asked, &mut bindings),
        placements,
    }
}

fn run_rows(asked: Asked, bindings: &mut BTreeMap<ObjectKey, Vec<BindingFacts>>) -> Vec<RunRow> {
    let placement_of = |key: &ObjectKey, run: &RunFacts| {
        ObjectKey::new(key.namespace.as_deref(), &run.spec.placement_name)
    };
    let last: BTreeMap<ObjectKey, ObjectKey> =
        asked.runs.iter().map(|(key, run, _)| (placement_of(key, run), key.clone())).collect();
    // One set of facts serves all runs; only what differs is exchanged.
    let mut facts = Facts::new(Subject::Cluster(String::new()), asked.now);
    facts.hub_renewed = asked.hub_renewed;
    facts.clusters = asked.clusters;
    let mut rows = Vec::new();
    for (key, run, _) in &asked.runs {
        let placement = placement_of(key, run);
        let shown = !has_ended(&run.status) || last.get(&placement) == Some(key);
        if !shown {
            continue;
        }
        let beside = asked
            .runs
            .iter()
            .filter(|(other, of, _)| other != key && placement_of(other, of) == placement);
        let beside: Vec<_> = beside.collect();
        facts.subject = Subject::Run(key.clone());
        facts.others = beside.iter().map(|(_, _, rival)| rival.clone()).collect();
        let open = beside.iter().filter(|(_, other, _)| !has_ended(&other.status));
        facts.rivals = open.map(|(other, ..)| other.name.clone()).collect();
        facts.placement = asked.placements.get(&placement).cloned();
        facts.bindings = bindings.remove(&placement).unwrap_or_default();
        let approvals = asked.approvals.iter().filter(|(of, _)| of.namespace == key.namespace);
        facts.approvals =
            approvals.map(|(of, request)| (of.name.clone(), request.clone())).collect();
        facts.run = Some(run.clone());
        let finding = explain(&facts);
        let board = Board::of(&key.to_string(), run.created, &run.spec, &run.status, asked.now)
            .showing(&facts.taken())
            .marking(&causes(&facts));
        bindings.insert(placement, std::mem::take(&mut facts.bindings));
        rows.push(run_row(key, &board, finding));
    }
    // What has not ended first, the newest first.
    rows.reverse();
    rows.sort_by_key(|row| row.ended.is_some());
    rows
}

fn run_row(key: &ObjectKey, board: &Board, finding: Finding) -> RunRow {
    let (done, clusters) = board.clusters();
    let command = finding.hints.iter().find(|hint| hint.lead == "fix");
    RunRow {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        placement: board.placement.clone(),
        snapshot: board.snapshot.clone(),
        phase: board.phase,
        done,
        clusters,
        created: board.created,
        ended: board.ended,
        state: finding.state.word(),
        cause: finding.cause.code(),
        command: command.map_or_else(String::new, |hint| hint.command.clone()),
        headline: finding.headline,
    }
}

fn placement_row(key: &ObjectKey, bindings: &[BindingFacts]) -> PlacementRow {
    let mut versions: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut empty = Vec::new();
    for bound in bindings {
        let cluster = bound.spec.target_cluster.clone();
        match index_of(bound).filter(|_| bound.spec.state != BindingState::Scheduled) {
            Some(index) => versions.entry(index).or_default().push(cluster),
            None => empty.push(cluster),
        }
    }
    versions.values_mut().for_each(|clusters| clusters.sort_by(|a, b| natural(a, b)));
    empty.sort_by(|a, b| natural(a, b));
    let versions = versions.into_iter().rev();
    PlacementRow {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        versions: versions.map(|(snapshot, clusters)| Version { snapshot, clusters }).collect(),
        empty,
    }
}
