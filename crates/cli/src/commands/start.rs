//! Commands that make a run: `run` and `rollback`.
//!
//! They write what kubectl would write, after they have asked `plan` whether the run would
//! be refused, and say what happens next.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use flagship_api::names::ObjectKey;
use flagship_api::placement_status::PlacementStatus;
use flagship_api::staged_update::{UpdateRunSpec, UpdateRunState};
use flagship_api::staged_update_status::UpdateRunStatus;
use flagship_explain::effect::PlanHash;
use flagship_explain::plan::{Foreseen, Stages, foresee};
use flagship_explain::why::{Cause, Finding};
use flagship_rules::update_run::lifecycle;
use flagship_runtime::env::Env;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{DynamicObject, TypeMeta};
use serde_json::{Value, json};

use super::board_text::Look;
use super::connect::{Connect, Hub};
use super::name::{self, Named};
use super::scoped_kind::{ScopedKind, Stored};
use super::steer::{LOOK, RunObject, command, in_namespace, must_exist, runs_of};
use super::{gather, plan, print};

/// Start a run of a placement
#[derive(Args)]
pub struct Run {
    /// The placement
    placement: String,
    /// Namespace of a namespaced placement
    #[arg(short, long)]
    namespace: Option<String>,
    /// The strategy; the last run's, or the only one there is, if left out
    #[arg(long)]
    strategy: Option<String>,
    /// A version to roll out; what is on the hub now if left out
    #[arg(long, value_name = "INDEX", value_parser = index)]
    snapshot: Option<String>,
    /// The run's name; made from the placement's if left out
    #[arg(long)]
    name: Option<String>,
    /// Compute the stages and wait for `flagship resume`
    #[arg(long)]
    hold: bool,
    /// Start exactly the plan that `flagship plan` showed with this hash, or refuse
    #[arg(long, value_name = "HASH", conflicts_with = "anyway")]
    plan: Option<PlanHash>,
    /// Create the run although it would be refused
    #[arg(long)]
    anyway: bool,
    #[command(flatten)]
    connect: Connect,
}

/// Roll a placement back to the version it had before
#[derive(Args)]
pub struct Rollback {
    /// The placement
    placement: String,
    /// Namespace of a namespaced placement
    #[arg(short, long)]
    namespace: Option<String>,
    /// The version to go back to; the one before the newest rolled out if left out
    #[arg(long, value_name = "INDEX", value_parser = index)]
    to: Option<String>,
    /// The strategy; the last run's if left out
    #[arg(long)]
    strategy: Option<String>,
    /// Create the run although it would be refused
    #[arg(long)]
    anyway: bool,
    #[command(flatten)]
    connect: Connect,
}

/// Reads the number of a snapshot.
fn index(text: &str) -> Result<String, String> {
    match text.parse::<u32>() {
        Ok(number) => Ok(number.to_string()),
        Err(_) => Err("versions are numbered: 0, 1, 2".to_owned()),
    }
}

impl Run {
    /// Creates the run.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        self.on(&hub, &Env::system(), out).await
    }

    pub(super) async fn on(self, hub: &Hub, env: &Env, out: &mut dyn Write) -> anyhow::Result<u8> {
        let namespace = self.namespace.as_deref();
        let placement = name::must_be(Named::Placement, &self.placement, namespace)?;
        must_exist(hub, ScopedKind::Placement, &placement, "placement").await?;
        let strategy = match self.strategy {
            Some(strategy) => strategy,
            None => usual_strategy(hub, &placement).await?,
        };
        let state = if self.hold { UpdateRunState::Initialize } else { UpdateRunState::Run };
        let snapshot = self.snapshot.unwrap_or_default();
        let wanted = Wanted { strategy, snapshot, state, anyway: self.anyway, plan: self.plan };
        create(hub, env, &placement, self.name, wanted, out).await
    }
}

impl Rollback {
    /// Creates a run to the version before.
    pub async fn run(self, out: &mut dyn Write) -> anyhow::Result<u8> {
        let hub = self.connect.hub().await?;
        self.on(&hub, &Env::system(), out).await
    }

    pub(super) async fn on(self, hub: &Hub, env: &Env, out: &mut dyn Write) -> anyhow::Result<u8> {
        let namespace = self.namespace.as_deref();
        let placement = name::must_be(Named::Placement, &self.placement, namespace)?;
        let past = runs_of(&hub.client, &placement).await?;
        let to = match self.to {
            Some(to) => to,
            None => version_before(hub, &placement, &past).await?,
        };
        let strategy = match (self.strategy, past.last()) {
            (Some(strategy), _) => strategy,
            (None, Some(last)) => last.spec.staged_rollout_strategy_name.clone(),
            (None, None) => only_strategy(hub, &placement).await?,
        };
        let (state, anyway) = (UpdateRunState::Run, self.anyway);
        let wanted = Wanted { strategy, snapshot: to, state, anyway, plan: None };
        create(hub, env, &placement, None, wanted, out).await
    }
}

struct Wanted {
    strategy: String,
    snapshot: String,
    state: UpdateRunState,
    anyway: bool,
    /// The plan that was looked at.
    plan: Option<PlanHash>,
}

/// How long a placement that was only just made may take to be scheduled, as for a run.
const SCHEDULING: Duration = Duration::from_secs(5);

/// Why the run would be refused, if it would: a run that can never begin helps nobody.
async fn refused(
    hub: &Hub,
    env: &Env,
    placement: &ObjectKey,
    wanted: &Wanted,
) -> anyhow::Result<Option<Finding>> {
    let patience = env.now().saturating_add(SCHEDULING)?;
    loop {
        let snapshot = Some(wanted.snapshot.as_str()).filter(|index| !index.is_empty());
        let asked = plan::read(hub, placement, &wanted.strategy, snapshot, env.now()).await?;
        let refused = match foresee(asked) {
            Foreseen::Refused(refused) => refused,
            Foreseen::Stages(stages) => {
                still_holds(&stages, placement, wanted)?;
                return Ok(None);
            }
            Foreseen::NotNow(why) if wanted.plan.is_some() => bail!(why),
            Foreseen::NotNow(_) => return Ok(None),
        };
        let found = refused.explain(gather::clusters(&hub.client).await?);
        if found.cause != Cause::PlacementNotScheduled || env.now() >= patience {
            return Ok(Some(found));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether the run would be the one that somebody looked at.
fn still_holds(stages: &Stages, placement: &ObjectKey, wanted: &Wanted) -> anyhow::Result<()> {
    let Some(shown) = &wanted.plan else { return Ok(()) };
    if stages.effect.changes.is_none() {
        bail!(
            "nothing was created: what {placement} selects cannot be read, so nobody can say whether that plan still holds"
        );
    }
    let changed = stages.effect.hash.changed_since(shown);
    if changed.is_empty() {
        return Ok(());
    }
    let namespace = placement.namespace.as_deref();
    let flag = namespace.map_or_else(String::new, |namespace| format!(" -n {namespace}"));
    bail!(
        "nothing was created: since that plan was made, {} changed; `flagship plan{flag} {} --strategy {}` shows the plan as it is now",
        changed.join(" and "),
        placement.name,
        wanted.strategy
    )
}

async fn create(
    hub: &Hub,
    env: &Env,
    placement: &ObjectKey,
    name: Option<String>,
    wanted: Wanted,
    out: &mut dyn Write,
) -> anyhow::Result<u8> {
    let namespace = placement.namespace.as_deref();
    if !wanted.anyway
        && let Some(found) = refused(hub, env, placement, &wanted).await?
    {
        print::as_text(&found, Look::here(), out)?;
        writeln!(out, "\nNothing was created; --anyway creates the run all the same.")?;
        return Ok(found.state.exit_code());
    }
    let name = match name {
        Some(name) => name,
        None => free_name(&runs_of(&hub.client, placement).await?, &placement.name),
    };
    let key = ObjectKey::new(namespace, &name);
    let kind = ScopedKind::Run.resource(namespace);
    let runs = hub.client.of_type::<DynamicObject>(kind.clone());
    let spec = UpdateRunSpec {
        placement_name: placement.name.clone(),
        resource_snapshot_index: wanted.snapshot.clone(),
        staged_rollout_strategy_name: wanted.strategy.clone(),
        state: Some(wanted.state.clone()),
    };
    let object = DynamicObject {
        types: Some(TypeMeta { api_version: kind.api_version(), kind: kind.kind }),
        metadata: ObjectMeta {
            name: Some(name),
            namespace: placement.namespace.clone(),
            ..ObjectMeta::default()
        },
        data: json!({"spec": spec}),
    };
    runs.create(&object).await.with_context(|| format!("cannot create the run {key}"))?;
    let what = match wanted.snapshot.as_str() {
        "" => format!("{placement} as it is on the hub now"),
        index => format!("snapshot {index} of {placement}"),
    };
    writeln!(out, "{key} created: rolls out {what}, with strategy {}", wanted.strategy)?;
    writeln!(out, "follow it:  {}", command("watch", &key))?;
    if wanted.state == UpdateRunState::Initialize {
        writeln!(out, "start it:   {}", command("resume", &key))?;
    }
    Ok(0)
}

/// The version that was fully rolled out before the one the placement has now.
async fn version_before(
    hub: &Hub,
    placement: &ObjectKey,
    past: &[RunObject],
) -> anyhow::Result<String> {
    let placements = ScopedKind::Placement
        .of::<Value, PlacementStatus>(&hub.client, placement.namespace.as_deref());
    let found = placements.find(placement).await?;
    let found = found.with_context(|| format!("there is no placement {placement}"))?;
    let past: Vec<&UpdateRunStatus> = past.iter().map(|run| &run.status).collect();
    let before = lifecycle::version_before(&past, &found.status.observed_resource_index);
    before.map(str::to_owned).with_context(|| {
        format!("no other version of {placement} was rolled out before; choose one with --to")
    })
}

/// The strategy of the last run if it is still there, else the only one.
pub async fn usual_strategy(hub: &Hub, placement: &ObjectKey) -> anyhow::Result<String> {
    let past = runs_of(&hub.client, placement).await?;
    if let Some(last) = past.last() {
        let name = &last.spec.staged_rollout_strategy_name;
        let key = ObjectKey::new(placement.namespace.as_deref(), name);
        let strategies =
            ScopedKind::Strategy.of::<Value, Value>(&hub.client, key.namespace.as_deref());
        if strategies.find(&key).await?.is_some() {
            return Ok(key.name);
        }
    }
    only_strategy(hub, placement).await
}

/// The one strategy there is, so that nobody has to name it.
pub async fn only_strategy(hub: &Hub, placement: &ObjectKey) -> anyhow::Result<String> {
    let strategies =
        ScopedKind::Strategy.of::<Value, Value>(&hub.client, placement.namespace.as_deref());
    let found = strategies.list(&in_namespace(placement)).await?.items;
    match found.as_slice() {
        [only] => Ok(only.name().to_owned()),
        [] => bail!("there is no update strategy yet; create one, then name it with --strategy"),
        several => {
            let names: Vec<&str> = several.iter().map(Stored::name).collect();
            bail!("several strategies exist; choose with --strategy: {}", names.join(", "));
        }
    }
}

/// `demo-1`, `demo-2`: the first number nobody used.
pub(super) fn free_name(taken: &[RunObject], placement: &str) -> String {
    // A run's name has at most 63 characters and may not end in a sign.
    let stem: String = placement.chars().take(57).collect();
    let stem = stem.trim_end_matches(['-', '.']);
    (1..)
        .map(|number| format!("{stem}-{number}"))
        .find(|name| taken.iter().all(|run| run.name() != name))
        .expect("numbers do not end")
}
