//! `flagship plan`: what a run of this placement would do, before there is one.
//!
//! The very rules of update runs are asked, about a run that is never created; so what
//! they would refuse is refused here, in the same words.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use flagship_api::binding::{ResourceBindingSpec, ResourceBindingStatus};
use flagship_api::keys::label;
use flagship_api::names::ObjectKey;
use flagship_api::placement::PlacementSpec;
use flagship_api::placement_status::PlacementStatus;
use flagship_api::snapshot::{SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus};
use flagship_api::staged_update::{UpdateRunSpec, UpdateStrategySpec};
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_rules::board::{Board, Gate, Side};
use flagship_rules::model::Binding;
use flagship_rules::placement::{Placement, ResourceSnapshot};
use flagship_rules::update_run::lifecycle::has_ended;
use flagship_rules::update_run::{Action, Cluster, Observed, Options, PolicySnapshot, Run, plan};
use flagship_rules::why::{ClusterFacts, Facts, Subject, explain};
use flagship_runtime::client::Selection;
use flagship_runtime::env::Env;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::connect::{Connect, Hub};
use super::gather;
use super::print::{self, Output};
use super::steer::usual_strategy;
use super::table;
use super::twins::{Stored, Twin, resource};

/// Show what a run of a placement would do, before there is one
#[derive(Args)]
pub struct Plan {
    /// The placement
    placement: String,
    /// Namespace of a namespaced placement
    #[arg(short, long)]
    namespace: Option<String>,
    /// The strategy; the last run's, or the only one there is, if left out
    #[arg(long)]
    strategy: Option<String>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    connect: Connect,
}

/// The run that is imagined.
const IMAGINED: &str = "plan";

impl Plan {
    /// Prints the stages, or why a run would be refused.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        let key = ObjectKey::new(self.namespace.as_deref(), &self.placement);
        let strategy = match &self.strategy {
            Some(strategy) => strategy.clone(),
            None => usual_strategy(&hub, &key).await?,
        };
        let now = Env::system().now();
        let seen = observe(&hub, &key, &strategy, now).await?;
        let planned = plan(&seen);
        let status = planned.actions.into_iter().rev().find_map(|action| match action {
            Action::Status(status) => Some(*status),
            _ => None,
        });
        let status = status.context(match planned.trouble {
            Some(trouble) => format!("no plan can be made now: {trouble:?}"),
            None => "the placement is still being scheduled; try again in a moment".to_owned(),
        })?;
        if has_ended(&status) {
            let clusters = gather::clusters(&hub.client).await?;
            return self.refuse(&seen, status, clusters, out);
        }
        let board = Board::of(IMAGINED, None, &seen.run.spec, &status, now);
        match self.output.output {
            Some(shape) => {
                shape.write(&json!({"strategy": strategy, "stages": board.stages}), out)?;
            }
            None => show(&key, &strategy, &board, &status, out)?,
        }
        Ok(0)
    }

    fn refuse(
        &self,
        seen: &Observed,
        status: UpdateRunStatus,
        clusters: BTreeMap<String, ClusterFacts>,
        out: &mut dyn Write,
    ) -> anyhow::Result<u8> {
        let mut facts = Facts::new(Subject::Run(seen.run.beside(IMAGINED)), seen.now);
        facts.run = Some(flagship_rules::why::RunFacts {
            spec: seen.run.spec.clone(),
            status,
            ..Default::default()
        });
        facts.clusters = clusters;
        let mut found = explain(&facts);
        // The run is imagined: it is nobody's evidence, and has no name.
        found.evidence.retain(|step| step.what != "run");
        let (_, why) = found.headline.split_once(": ").unwrap_or(("", &found.headline));
        found.headline = format!("a run of {} would be refused: {why}", self.placement);
        match self.output.output {
            Some(shape) => shape.write(&print::as_value(&found), out)?,
            None => print::as_text(&found, print::colours(), out)?,
        }
        Ok(found.state.exit_code())
    }
}

fn show(
    key: &ObjectKey,
    strategy: &str,
    board: &Board,
    status: &UpdateRunStatus,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    writeln!(out, "Rolling out {key} with strategy {strategy}")?;
    writeln!(out)?;
    let configured = status.staged_update_strategy_snapshot.as_ref();
    let rows: Vec<[String; 4]> = board
        .stages
        .iter()
        .map(|stage| {
            let at_once = configured
                .and_then(|strategy| strategy.stages.iter().find(|found| found.name == stage.name))
                .and_then(|stage| stage.max_concurrency.as_ref())
                .map_or_else(|| "1".to_owned(), spelled);
            let clusters: Vec<&str> =
                stage.cells.iter().map(|cell| cell.cluster.as_str()).collect();
            let clusters =
                if clusters.is_empty() { "none, skipped".to_owned() } else { clusters.join(" ") };
            [stage.name.clone(), clusters, at_once, gates(&stage.gates)]
        })
        .collect();
    table::write(["STAGE", "CLUSTERS", "AT ONCE", "GATES"], &rows, out)?;
    let (_, clusters) = board.clusters();
    let approvals: usize = board
        .stages
        .iter()
        .flat_map(|stage| &stage.gates)
        .filter(|gate| !gate.approval.is_empty())
        .count();
    writeln!(out)?;
    writeln!(out, "{clusters} cluster(s), {approvals} approval(s).")?;
    let flag =
        key.namespace.as_ref().map_or_else(String::new, |namespace| format!(" -n {namespace}"));
    writeln!(out, "start it:  flagship run{flag} {} --strategy {strategy}", key.name)?;
    Ok(())
}

fn spelled(number: &IntOrString) -> String {
    match number {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}

fn gates(gates: &[Gate]) -> String {
    let texts: Vec<String> = gates
        .iter()
        .map(|gate| {
            let side = if gate.side == Side::Before { "before" } else { "after" };
            match gate.wait.as_str() {
                "" => format!("approval {side}"),
                wait => format!("wait {wait} {side}"),
            }
        })
        .collect();
    texts.join(", ")
}

async fn observe(
    hub: &Hub,
    key: &ObjectKey,
    strategy: &str,
    now: Timestamp,
) -> anyhow::Result<Observed> {
    let client = &hub.client;
    let namespace = key.namespace.as_deref();
    let selection = match namespace {
        Some(namespace) => Selection::namespace(namespace),
        None => Selection::all(),
    };
    let of_placement =
        selection.clone().with_labels(format!("{}={}", label::PARENT_PLACEMENT, key.name));
    let latest = selection.with_labels(format!(
        "{}={},{}=true",
        label::PARENT_PLACEMENT,
        key.name,
        label::IS_LATEST_SNAPSHOT
    ));
    let placement: Option<Stored<PlacementSpec, PlacementStatus>> =
        Twin::Placement.of(client, namespace).find(key).await?;
    let placement = placement.with_context(|| format!("there is no placement {key}"))?;
    let strategy_key = ObjectKey::new(namespace, strategy);
    let found: Option<Stored<UpdateStrategySpec, Value>> =
        Twin::Strategy.of(client, namespace).find(&strategy_key).await?;
    let policies = Twin::PolicySnapshot.of(client, namespace).list(&latest).await?.items;
    let bindings = Twin::Binding.of(client, namespace).list(&of_placement).await?.items;
    let members = client.of_type::<Stored<Value, Value>>(resource("MemberCluster"));
    let members = members.list(&Selection::all()).await?.items;
    let spec = UpdateRunSpec {
        placement_name: key.name.clone(),
        resource_snapshot_index: "0".to_owned(),
        staged_rollout_strategy_name: strategy.to_owned(),
        state: None,
    };
    let metadata = ObjectMeta {
        name: Some(IMAGINED.to_owned()),
        namespace: key.namespace.clone(),
        generation: Some(1),
        ..ObjectMeta::default()
    };
    let mut run = Run::read(&metadata, &spec, &UpdateRunStatus::default());
    run.guarded = true;
    // Nothing may be waited for: what is not there now is said now.
    let options = Options { scheduling_grace: jiff::SignedDuration::ZERO, ..Options::default() };
    Ok(Observed {
        placement: Some(Placement::read(&placement.metadata, &placement.spec, &placement.status)),
        policy_snapshots: policies
            .iter()
            .map(|found: &Stored<SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus>| {
                PolicySnapshot::read(&found.metadata, &found.spec, Some(&found.status))
            })
            .collect(),
        bindings: bindings
            .into_iter()
            .map(|found: Stored<ResourceBindingSpec, ResourceBindingStatus>| {
                Arc::new(Binding::read(found.metadata, found.spec, Some(found.status)))
            })
            .collect(),
        clusters: members.iter().map(|member| Cluster::read(&member.metadata)).collect(),
        strategy: found.map(|found| found.spec),
        resource_snapshots: vec![imagined_snapshot(now)],
        options,
        ..Observed::of(run, now)
    })
}

/// A plan is about clusters and gates; which version they get is the run's to decide.
fn imagined_snapshot(now: Timestamp) -> ResourceSnapshot {
    ResourceSnapshot {
        name: "imagined-0-snapshot".to_owned(),
        created: now,
        index: Some("0".to_owned()),
        latest: true,
        hash: Some("imagined".to_owned()),
        count: Some("1".to_owned()),
        subindex: None,
        detected: None,
        resources: Vec::new(),
    }
}
