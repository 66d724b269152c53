//! `flagship plan`: what a run of this placement would do, before there is one.

use std::io::Write;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use flagship_api::binding::{ResourceBindingSpec, ResourceBindingStatus};
use flagship_api::keys::label;
use flagship_api::names::ObjectKey;
use flagship_api::placement::PlacementSpec;
use flagship_api::placement_status::PlacementStatus;
use flagship_api::snapshot::{
    ResourceSnapshotSpec, SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus,
};
use flagship_api::staged_update::{UpdateRunSpec, UpdateStrategySpec};
use flagship_explain::board::{Gate, Side};
use flagship_explain::plan::{Asked, Foreseen, Stages, foresee};
use flagship_rules::model::{Binding, Cluster, PolicySnapshot, ResourceSnapshot};
use flagship_rules::placement::Placement;
use flagship_rules::update_run;
use flagship_runtime::client::Selection;
use flagship_runtime::env::Env;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::board_text::Look;
use super::connect::{Connect, Hub};
use super::name::{self, Named};
use super::print::{self, Output};
use super::scoped_kind::{ScopedKind, Stored, resource};
use super::start::usual_strategy;
use super::steer::runs_of;
use super::table;
use super::wrap::after;
use super::{freeze, gather};

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

impl Plan {
    /// Prints the stages, or why a run would be refused.
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
        let key = name::must_be(Named::Placement, &self.placement, self.namespace.as_deref())?;
        let strategy = match &self.strategy {
            Some(strategy) => strategy.clone(),
            None => usual_strategy(hub, &key).await?,
        };
        let asked = read(hub, &key, &strategy, None, now).await?;
        match foresee(asked) {
            Foreseen::Stages(stages) => {
                match self.output.output {
                    Some(shape) => {
                        let value = json!({"at": now, "placement": key.name,
                            "namespace": key.namespace, "strategy": strategy,
                            "stages": stages.stages, "atOnce": stages.at_once,
                            "clusters": stages.clusters, "approvals": stages.approvals,
                            "passed": stages.passed, "frozen": stages.frozen,
                            "policies": stages.policies});
                        shape.write(&value, out)?;
                    }
                    None => show(&key, &strategy, &stages, Look::here(), out)?,
                }
                Ok(0)
            }
            Foreseen::Refused(refused) => {
                let found = refused.explain(gather::clusters(&hub.client).await?);
                match self.output.output {
                    Some(shape) => shape.write(&print::as_value(&found), out)?,
                    None => print::as_text(&found, Look::here(), out)?,
                }
                Ok(found.state.exit_code())
            }
            Foreseen::NotNow(why) => bail!(why),
        }
    }
}

fn show(
    key: &ObjectKey,
    strategy: &str,
    planned: &Stages,
    look: Look,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    writeln!(out, "Rolling out {key} with strategy {strategy}")?;
    writeln!(out)?;
    let rows: Vec<[String; 4]> = planned
        .stages
        .iter()
        .zip(&planned.at_once)
        .map(|(stage, at_once)| {
            let clusters: Vec<&str> =
                stage.cells.iter().map(|cell| cell.cluster.as_str()).collect();
            let clusters =
                if clusters.is_empty() { "none, skipped".to_owned() } else { clusters.join(" ") };
            [stage.name.clone(), clusters, at_once.clone(), gates(&stage.gates)]
        })
        .collect();
    table::write(["STAGE", "CLUSTERS", "AT ONCE", "GATES"], &rows, look, out)?;
    writeln!(out)?;
    writeln!(out, "{} cluster(s), {} approval(s).", planned.clusters, planned.approvals)?;
    let passed = planned.passed.iter().map(|passed| &passed.message);
    for note in planned.policies.iter().chain(passed).chain(&planned.frozen) {
        writeln!(out, "{}", after("note:  ", note, look.width))?;
    }
    let flag =
        key.namespace.as_ref().map_or_else(String::new, |namespace| format!(" -n {namespace}"));
    writeln!(out, "start it:  flagship run{flag} {} --strategy {strategy}", key.name)?;
    Ok(())
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

/// Reads what a plan of this placement is made from.
pub async fn read(
    hub: &Hub,
    key: &ObjectKey,
    strategy: &str,
    version: Option<&str>,
    now: Timestamp,
) -> anyhow::Result<Asked> {
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
        ScopedKind::Placement.of(client, namespace).find(key).await?;
    let placement = placement.with_context(|| format!("there is no placement {key}"))?;
    let strategy_key = ObjectKey::new(namespace, strategy);
    let found: Option<Stored<UpdateStrategySpec, Value>> =
        ScopedKind::Strategy.of(client, namespace).find(&strategy_key).await?;
    let policies = ScopedKind::PolicySnapshot.of(client, namespace).list(&latest).await?.items;
    let bindings = ScopedKind::Binding.of(client, namespace).list(&of_placement).await?.items;
    let members = client.of_type::<Stored<Value, Value>>(resource("MemberCluster"));
    let members = members.list(&Selection::all()).await?.items;
    let version = match version {
        None => None,
        Some(index) => {
            let of_index = of_placement.with_labels(format!(
                "{}={},{}={index}",
                label::PARENT_PLACEMENT,
                key.name,
                label::RESOURCE_INDEX
            ));
            let snapshots =
                ScopedKind::ResourceSnapshot.of::<ResourceSnapshotSpec, Value>(client, namespace);
            let found = snapshots.list(&of_index).await?.items;
            let read = found.iter().map(|one| ResourceSnapshot::read(&one.metadata, &one.spec));
            Some((index.to_owned(), read.map(Arc::new).collect()))
        }
    };
    let imagined = UpdateRunSpec {
        placement_name: key.name.clone(),
        staged_rollout_strategy_name: strategy.to_owned(),
        ..UpdateRunSpec::default()
    };
    let policy = freeze::seen(client, key, &imagined).await?;
    Ok(Asked {
        now,
        policy,
        key: key.clone(),
        strategy_name: strategy.to_owned(),
        strategy: found.map(|found| found.spec),
        placement: Placement::read(&placement.metadata, &placement.spec, &placement.status),
        policy_snapshots: policies
            .iter()
            .map(|found: &Stored<SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus>| {
                Arc::new(PolicySnapshot::read(&found.metadata, &found.spec, Some(&found.status)))
            })
            .collect(),
        bindings: bindings
            .into_iter()
            .map(|found: Stored<ResourceBindingSpec, ResourceBindingStatus>| {
                Arc::new(Binding::read(found.metadata, found.spec, Some(found.status)))
            })
            .collect(),
        clusters: members.iter().map(|member| Arc::new(Cluster::named(&member.metadata))).collect(),
        version,
        runs: runs_of(client, key)
            .await?
            .iter()
            .map(|run| update_run::Run::read(&run.metadata, &run.spec, &run.status))
            .collect(),
    })
}
